/* The loops of products, see product.c, for the instructions of registers.h, which is included before. */

#include <math.h>

#include "lanes.h"
#include "product.h"

/* APART: numbers between tiles that are copied, with a line between them, so that they do not want the same places of a cache. */
enum { DEPTH = PRODUCT_DEPTH, TOGETHER = PRODUCT_TOGETHER, APART = DEPTH * WIDTH + IN_LINE };

/* Columns of b as panels, (columns / WIDTH, inner, WIDTH). Pieces are pairs of panels. */
ON static void panels(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product_panels *p = &op->product_panels;
    (void)worker;
    for (int64_t column = start * 2 * WIDTH; column < smaller(stop * 2 * WIDTH, p->columns); column += 2 * WIDTH) {
        float *left = p->panels + column * p->inner, *right = left + p->inner * WIDTH;
        int64_t count = p->columns - column, more = larger(count - WIDTH, 0);
        if (p->turned) {
            gather(p->b + column * p->apart, 4 * p->apart, smaller(count, WIDTH), p->inner, left);
            gather(p->b + (column + WIDTH) * p->apart, 4 * p->apart, smaller(more, WIDTH), p->inner, right);
            continue;
        }
        for (int64_t k = 0; k < p->inner; k++) {
            const float *from = p->b + k * p->apart + column;
            STORE(left + k * WIDTH, load_first(from, count));
            STORE(right + k * WIDTH, more ? load_first(from + WIDTH, more) : ZERO());
        }
    }
}

/* Where a tile stands: its rows of a as (inner, WIDTH), two panels of b, and the rows of c. */
struct place {
    const float *a, *left, *right, *bias;
    float *c;
    int64_t inner, apart, columns; /* columns that are left: 2 WIDTH or fewer */
    int64_t adds;                  /* whether the products are added to c, which has the first ones and the bias */
    float least;                   /* what is below becomes it: 0 with ReLU */
};

INLINE_ON void tile(const struct place *p, const int rows) {
    WIDE sums[HEIGHT][2];
    for (int row = 0; row < rows; row++) {
        sums[row][0] = sums[row][1] = ZERO();
        for (int line = 0; line < 2 * WIDTH; line += IN_LINE) __builtin_prefetch(p->c + row * p->apart + line, 1);
    }
    for (int64_t k = 0; k < p->inner; k++) {
        WIDE left = LOAD(p->left + k * WIDTH), right = LOAD(p->right + k * WIDTH);
        for (int row = 0; row < rows; row++) {
            WIDE number = EACH(p->a + k * WIDTH + row);
            sums[row][0] = FMA(number, left, sums[row][0]), sums[row][1] = FMA(number, right, sums[row][1]);
        }
    }
    if (p->columns >= 2 * WIDTH) {
        const WIDE least = ALL(p->least);
        WIDE left = p->bias ? LOAD(p->bias) : ZERO(), right = p->bias ? LOAD(p->bias + WIDTH) : ZERO();
        for (int row = 0; row < rows; row++) {
            float *c = p->c + row * p->apart;
            STORE(c, MAX(least, ADD(sums[row][0], p->adds ? LOAD(c) : left)));
            STORE(c + WIDTH, MAX(least, ADD(sums[row][1], p->adds ? LOAD(c + WIDTH) : right)));
        }
        return;
    }
    for (int row = 0; row < rows; row++) {
        float *c = p->c + row * p->apart, some[2 * WIDTH];
        STORE(some, sums[row][0]);
        STORE(some + WIDTH, sums[row][1]);
        for (int64_t column = 0; column < p->columns; column++) {
            float sum = some[column] + (p->adds ? c[column] : p->bias ? p->bias[column] : 0);
            c[column] = sum < p->least ? p->least : sum; /* NaN stays */
        }
    }
}

#define OF_HEIGHT(rows) ON static void tile_of_##rows(const struct place *p) { tile(p, rows); }
ALL_HEIGHTS(OF_HEIGHT)
#define BY_HEIGHT(rows) , tile_of_##rows
static void (*const tiles[])(const struct place *) = {0 ALL_HEIGHTS(BY_HEIGHT)};

/* Tiles of a from number `first` to `end`, each as (inner, WIDTH) and so far apart. */
ON static void read_tiles(const struct product *o, int64_t first, int64_t end, int64_t begin, int64_t inner, float *to) {
    const int64_t all = tiles_of(o->rows, HEIGHT);
    for (int64_t one = first; !o->turned && one < end; one++) {
        int64_t row = first_row(o->rows, all, one), count = first_row(o->rows, all, one + 1) - row;
        gather(o->a + row * o->apart + begin, 4 * o->apart, count, inner, to + (one - first) * APART);
    }
    for (int64_t k = 0; o->turned && k < inner; k++)
        for (int64_t one = first; one < end; one++) {
            int64_t row = first_row(o->rows, all, one);
            const float *from = o->a + (begin + k) * o->apart + row;
            STORE(to + (one - first) * APART + k * WIDTH, load_first(from, o->rows - row));
        }
}

/* c = a b. Scratch: some tiles of a, for each worker. Pieces are tiles. */
ON static void multiply(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product *o = &op->product;
    const int64_t all = tiles_of(o->rows, HEIGHT), panel = o->inner * WIDTH;
    float *a = o->scratch + worker * TOGETHER * APART;
    for (int64_t begin = 0; begin < o->inner; begin += DEPTH)
        for (int64_t first = start; first < stop; first += TOGETHER) {
            int64_t inner = smaller(DEPTH, o->inner - begin), end = smaller(first + TOGETHER, stop);
            read_tiles(o, first, end, begin, inner, a);
            for (int64_t column = 0; column < o->columns; column += 2 * WIDTH)
                for (int64_t one = first; one < end; one++) {
                    int64_t row = first_row(o->rows, all, one);
                    const float *left = o->panels + column * o->inner + begin * WIDTH;
                    struct place p = {
                        .a = a + (one - first) * APART, .left = left, .right = left + panel,
                        .bias = o->bias ? o->bias + column : 0, .c = o->c + row * o->columns + column,
                        .inner = inner, .apart = o->columns, .columns = o->columns - column, .adds = begin > 0,
                        .least = o->relu && begin + inner == o->inner ? 0 : -INFINITY,
                    };
                    tiles[first_row(o->rows, all, one + 1) - row](&p);
                }
        }
}

#define LOOPS {WIDTH, HEIGHT, panels, multiply}
