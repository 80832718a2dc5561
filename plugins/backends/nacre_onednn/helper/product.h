/* What the files of products share: see product.c. */

#ifndef NACRE_PRODUCT_H
#define NACRE_PRODUCT_H

#include "helper.h"

/* The loops for one kind of instructions. */
struct product_loops {
    int64_t lanes;  /* columns in a register */
    int64_t height; /* the most rows of a tile, which has two registers for each */
    work_t panels, multiply, multiply_gradient, add_parts;
};

extern const struct product_loops product_on_avx2, product_on_avx512;

/* The first row of a tile, where all have almost the same number of rows: the first ones have one more. */
static inline int64_t first_row(int64_t rows, int64_t tiles, int64_t tile) {
    int64_t few = rows / tiles, more = rows % tiles;
    return tile * few + smaller(tile, more);
}

#endif
