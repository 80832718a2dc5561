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

/* Where a tile stands: its rows of a as (inner, WIDTH), one or two panels of b, and the rows of c. */
struct place {
    const float *a, *b, *bias;
    float *c;
    int64_t inner, panel, apart; /* numbers of a sum, and of all sums; between rows of c */
    int64_t columns;             /* that are left */
    int64_t ahead;               /* how far behind its panels those lie that are read next */
    int64_t adds;                /* whether the products are added to c, which has the first ones and the bias */
    float least;                 /* what is below becomes it: 0 with ReLU */
};

/* `wide`: two panels, not one. */
INLINE_ON void tile(const struct place *p, const int rows, const int wide) {
    WIDE sums[HEIGHT][2];
    for (int row = 0; row < rows; row++) {
        for (int half = 0; half <= wide; half++) sums[row][half] = ZERO();
        for (int line = 0; line < (1 + wide) * WIDTH; line += IN_LINE) __builtin_prefetch(p->c + row * p->apart + line, 1);
    }
    for (int64_t k = 0; k < p->inner; k++) {
        WIDE numbers[2];
        for (int half = 0; half <= wide; half++) {
            const float *from = p->b + (half * p->panel + k) * WIDTH;
            __builtin_prefetch(from + p->ahead, 0, 3);
            numbers[half] = LOAD(from);
        }
        for (int row = 0; row < rows; row++) {
            WIDE number = EACH(p->a + k * WIDTH + row);
            for (int half = 0; half <= wide; half++) sums[row][half] = FMA(number, numbers[half], sums[row][half]);
        }
    }
    const WIDE least = ALL(p->least); /* a NaN stays one: it is the second number */
    for (int half = 0; half <= wide; half++) {
        const int64_t column = half * WIDTH, count = p->columns - column;
        const WIDE bias = p->bias ? load_first(p->bias + column, count) : ZERO();
        for (int row = 0; row < rows; row++) {
            float *c = p->c + row * p->apart + column;
            store_first(c, count, MAX(least, ADD(sums[row][half], p->adds ? load_first(c, count) : bias)));
        }
    }
}

#define OF_HEIGHT(rows)                                                                                                \
    ON static void tile_of_##rows(const struct place *p) { tile(p, rows, 1); }                                         \
    ON static void narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0); }
ALL_HEIGHTS(OF_HEIGHT)
#define BY_HEIGHT(rows) , {narrow_tile_of_##rows, tile_of_##rows}
static void (*const tiles[][2])(const struct place *) = {{0} ALL_HEIGHTS(BY_HEIGHT)};

/* Tiles of a from number `first` to `end`, each as (inner, WIDTH) and so far apart. */
ON static void read_tiles(const struct product *o, int64_t first, int64_t end, int64_t begin, int64_t inner, float *to) {
    for (int64_t one = first; !o->turned && one < end; one++) {
        int64_t row = first_row(o->rows, o->tiles, one), count = first_row(o->rows, o->tiles, one + 1) - row;
        gather(o->a + row * o->apart + begin, 4 * o->apart, count, inner, to + (one - first) * APART);
    }
    for (int64_t k = 0; o->turned && k < inner; k++)
        for (int64_t one = first; one < end; one++) {
            int64_t row = first_row(o->rows, o->tiles, one);
            const float *from = o->a + (begin + k) * o->apart + row;
            STORE(to + (one - first) * APART + k * WIDTH, load_first(from, o->rows - row));
        }
}

/* The tiles from `start` to `stop` of c = a b, for some of the columns. */
ON static void some_columns(const struct product *o, int64_t start, int64_t stop, int64_t from, int64_t to, float *a) {
    for (int64_t begin = 0; begin < o->inner; begin += DEPTH)
        for (int64_t first = start; first < stop; first += TOGETHER) {
            int64_t inner = smaller(DEPTH, o->inner - begin), end = smaller(first + TOGETHER, stop);
            read_tiles(o, first, end, begin, inner, a);
            for (int64_t column = from; column < to; column += 2 * WIDTH)
                for (int64_t one = first; one < end; one++) {
                    int64_t row = first_row(o->rows, o->tiles, one);
                    struct place p = {
                        .a = a + (one - first) * APART, .b = o->panels + column * o->inner + begin * WIDTH,
                        .bias = o->bias ? o->bias + column : 0, .c = o->c + row * o->columns + column,
                        .inner = inner, .panel = o->inner, .apart = o->columns, .columns = to - column,
                        .ahead = one == first ? 2 * o->inner * WIDTH : 0, .adds = begin > 0,
                        .least = o->relu && begin + inner == o->inner ? 0 : -INFINITY,
                    };
                    tiles[first_row(o->rows, o->tiles, one + 1) - row][p.columns > WIDTH](&p);
                }
        }
}

/* c = a b. Scratch: some tiles of a, for each worker. Pieces are tiles, or blocks of LANES columns. */
ON static void multiply(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product *o = &op->product;
    float *a = o->scratch + worker * TOGETHER * APART;
    if (o->by_columns)
        some_columns(o, 0, o->tiles, start * LANES, smaller(stop * LANES, o->columns), a);
    else
        some_columns(o, start, stop, 0, o->columns, a);
}

#define LOOPS {WIDTH, HEIGHT, panels, multiply}
