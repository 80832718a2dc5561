/* Convolutions in which each channel has a filter of its own, with ReLU behind it. A register holds as many channels of a
 * pixel; some windows side by side are added up together, so that a weight is read once for all of them. Needs AVX2.
 */

#include "depthwise.h"

#if defined(__x86_64__)

/* Threads share the rows of results, or the channels where their shares are more alike then. */
void run_depthwise(const struct machine *machine, const struct operation *op) {
    struct operation part = *op;
    struct depthwise *d = &part.depthwise;
    const int64_t rows = d->images * d->out_height, blocks = pieces_of(d->channels, LANES);
    const int64_t products = rows * d->out_width * d->channels * d->rows * d->columns;
    d->by_channels = more_alike(machine, op, blocks, rows);
    const work_t work = instructions >= AVX512 ? depthwise_on_avx512 : depthwise_on_avx2;
    share_rows(machine, &part, work, d->by_channels ? blocks : rows, products);
}

#endif
