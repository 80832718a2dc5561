/* Products of matrices of float32, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008:
 * the columns of one matrix lie in panels, as wide as two registers, which PRODUCT_PANELS makes; of the other some tiles of
 * rows at a time, and some of the numbers that are added up, are copied so that they stay in a core's caches. Panels come from
 * memory where a net has more weights than a cache holds, so the next ones are fetched while some are multiplied: with few
 * rows, processors do not do so in time. Gradients of weights are such products of matrices that have many rows and few columns:
 * panels are laid as they are needed, and parts of the rows are added up apart. Needs AVX2.
 */

#include "product.h"

#if defined(__x86_64__)

static const struct product_loops *loops(int64_t split) {
#if defined(HAS_AMX)
    if (split) return &product_on_amx;
#endif
    (void)split;
    return instructions >= AVX512 ? &product_on_avx512 : &product_on_avx2;
}

void run_product_panels(const struct machine *machine, const struct operation *op) {
    const struct product_panels *p = &op->product_panels;
    share_out(machine, op, loops(p->split)->panels, pieces_of(p->columns, 2 * loops(p->split)->lanes), 1);
}

/* Threads share the rows, or the columns where their shares are more alike then, or the rows so few that reading b takes long: of
 * split numbers, whose parts are larger, a thread reads those that it has laid itself. */
void run_product(const struct machine *machine, const struct operation *op) {
    struct operation part = *op;
    struct product *o = &part.product;
    const struct product_loops *l = loops(o->split);
    const int64_t blocks = pieces_of(o->columns, o->split ? SPLIT_SIDE : LANES), threads = threads_of(machine, op), height = l->height;
    o->tiles = pieces_of(o->rows, height);
    const int64_t even = pieces_of(o->tiles, threads) * threads;
    const int64_t tiles = !o->split && 2 * o->rows >= even * height ? even : o->tiles;
    const int few = o->split ? o->rows < o->columns : o->tiles <= 2;
    o->by_columns = few ? !more_alike(machine, op, tiles, blocks) : more_alike(machine, op, blocks, tiles);
    if (!o->by_columns) o->tiles = tiles;
    share_rows(machine, &part, l->multiply, o->by_columns ? blocks : o->tiles, o->rows * o->inner * o->columns);
}

void run_product_gradient(const struct machine *machine, const struct operation *op) {
    struct operation part = *op;
    struct product_gradient *o = &part.product_gradient;
    const struct product_loops *l = loops(o->split);
    const int64_t lanes = l->lanes, narrow = smaller(o->outputs, o->features), wide = larger(o->outputs, o->features);
    const int64_t numbers = o->rows * narrow * wide, pairs = pieces_of(wide, 2 * lanes);
    o->tiles = pieces_of(narrow, l->height);
    o->by_columns = more_alike(machine, op, pairs, o->parts);
    share_rows(machine, &part, l->multiply_gradient, o->by_columns ? pairs : o->parts, numbers);
    if (o->sums)
        share_rows(machine, &part, loops(0)->add_parts, pieces_of(narrow, lanes), narrow * wide * o->parts);
}

#endif
