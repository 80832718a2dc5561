/* Products of matrices of float32, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008:
 * the columns of one matrix lie in panels, as wide as two registers, which PRODUCT_PANELS makes; of the other some tiles of
 * rows at a time, and some of the numbers that are added up, are copied so that they stay in a core's caches. Needs AVX2.
 */

#include "product.h"

#if defined(__x86_64__)

static const struct product_loops *loops(void) { return instructions == AVX512 ? &product_on_avx512 : &product_on_avx2; }

void run_product_panels(const struct machine *machine, const struct operation *op) {
    int64_t pair = 2 * loops()->lanes;
    share_out(machine, op, loops()->panels, (op->product_panels.columns + pair - 1) / pair, 1);
}

void run_product(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, loops()->multiply, tiles_of(op->product.rows, loops()->height), 1);
}

#endif
