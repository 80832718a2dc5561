/* What the files of products share: see product.c. */

#ifndef NACRE_PRODUCT_H
#define NACRE_PRODUCT_H

#include "helper.h"

/* The loops for one kind of instructions. */
struct product_loops {
    int64_t lanes;  /* columns in a register */
    int64_t height; /* the most rows of a tile, which has two registers for each of them */
    work_t panels, multiply, multiply_gradient, add_parts;
};

extern const struct product_loops product_on_avx2, product_on_avx512, product_on_amx;

/* The narrower of x and dy is multiplied from the left, by tiles of its columns, and the other by panels. */
struct turned {
    const float *a, *b;
    float *c, *db;         /* of the part, in `sums` where there are any; db may be NULL */
    int64_t rows, columns; /* of c, which is dw, or its transpose if it `lies_turned` */
    int lies_turned;
};

static inline struct turned turned(const struct product_gradient *o, int64_t part) {
    const int lies_turned = o->features < o->outputs;
    const int64_t size = o->outputs * o->features;
    float *c = o->sums ? o->sums + part * size : o->dw;
    float *db = o->db && o->sums ? o->sums + o->parts * size + part * o->outputs : o->db;
    if (lies_turned) return (struct turned){o->x, o->dy, c, db, o->features, o->outputs, 1};
    return (struct turned){o->dy, o->x, c, db, o->outputs, o->features, 0};
}

/* The first row of a tile, where all have almost the same number of rows: the first ones have one more. */
static inline int64_t first_row(int64_t rows, int64_t tiles, int64_t tile) {
    int64_t few = rows / tiles, more = rows % tiles;
    return tile * few + smaller(tile, more);
}

#endif
