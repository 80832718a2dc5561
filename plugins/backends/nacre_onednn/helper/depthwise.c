/* Convolutions in which each channel has a filter of its own, with ReLU behind it. A register holds as many channels of a
 * pixel; some windows side by side are added up together, so that a weight is read once for all of them. Needs AVX2.
 */

#include "depthwise.h"

#if defined(__x86_64__)

void run_depthwise(const struct machine *machine, const struct operation *op) {
    const struct depthwise *d = &op->depthwise;
    int64_t rows = d->images * d->out_height, products = rows * d->out_width * d->channels * d->rows * d->columns;
    share_rows(machine, op, instructions == AVX512 ? depthwise_on_avx512 : depthwise_on_avx2, rows, products);
}

#endif
