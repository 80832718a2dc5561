/* The loops of products, see product.c, for the instructions of registers.h, which is included before. */

#include <math.h>

#include "lanes.h"
#include "product.h"

/* ROW, TILE: rows of a, and tiles of them, are copied so far apart, so that they do not want the same places of a cache. */
enum { DEPTH = PRODUCT_DEPTH, TOGETHER = PRODUCT_TOGETHER, ROW = DEPTH + IN_LINE, TILE = DEPTH * WIDTH + IN_LINE };
enum { NEAR = 64, SOON = 16 }; /* so far ahead panels are fetched that lie in order, and rows that are wider */

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
            __builtin_prefetch(from + SOON * p->apart);
            __builtin_prefetch(from + SOON * p->apart + WIDTH);
            STORE(left + k * WIDTH, load_first(from, count));
            STORE(right + k * WIDTH, more ? load_first(from + WIDTH, more) : ZERO());
        }
    }
}

/* Where a tile stands: its rows of a, one or two panels of b, and the rows of c. */
struct place {
    const float *a, *b, *bias;
    float *c;
    int64_t inner, panel, apart; /* numbers of a sum, and of all sums; between rows of c */
    int64_t columns;             /* that are left */
    const float *next;           /* is fetched while numbers from `turn` on are multiplied; before, what is NEAR ... */
    int64_t turn, step;          /* ... in the same panel; so many numbers for each register */
    int64_t adds;                /* whether the products are added to c, which has the first ones and the bias */
    float least;                 /* what is below becomes it: 0 with ReLU */
};

/* `wide`: two panels, not one. Rows of a are ROW apart, or if it is `turned`, a is (inner, WIDTH). */
INLINE_ON void tile(const struct place *p, const int rows, const int wide, const int turned) {
    WIDE sums[HEIGHT][2];
    for (int row = 0; row < rows; row++) {
        for (int half = 0; half <= wide; half++) sums[row][half] = ZERO();
        for (int line = 0; line < (1 + wide) * WIDTH; line += IN_LINE) __builtin_prefetch(p->c + row * p->apart + line, 1);
    }
    for (int64_t k = 0, end = p->turn; k < p->inner; end = p->inner) {
        const float *fetched = k < p->turn ? p->b + NEAR * WIDTH : p->next;
        for (; k < end; k++, fetched += p->step) {
            WIDE numbers[2];
            for (int half = 0; half <= wide; half++) {
                __builtin_prefetch(fetched + half * p->panel * WIDTH, 0, 2);
                numbers[half] = LOAD(p->b + (half * p->panel + k) * WIDTH);
            }
            for (int row = 0; row < rows; row++) {
                WIDE number = EACH(p->a + (turned ? k * WIDTH + row : row * ROW + k));
                for (int half = 0; half <= wide; half++) sums[row][half] = FMA(number, numbers[half], sums[row][half]);
            }
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
    ON static void tile_of_##rows(const struct place *p) { tile(p, rows, 1, 0); }                                      \
    ON static void narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0, 0); }                               \
    ON static void turned_tile_of_##rows(const struct place *p) { tile(p, rows, 1, 1); }                               \
    ON static void turned_narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0, 1); }
ALL_HEIGHTS(OF_HEIGHT)
#define BY_HEIGHT(rows)                                                                                                \
    , {{narrow_tile_of_##rows, tile_of_##rows}, {turned_narrow_tile_of_##rows, turned_tile_of_##rows}}
static void (*const tiles[][2][2])(const struct place *) = {{{0}} ALL_HEIGHTS(BY_HEIGHT)};

/* Tiles of a from number `first` to `end`. */
ON static void read_tiles(const struct product *o, int64_t first, int64_t end, int64_t begin, int64_t inner, float *to) {
    for (int64_t one = first; !o->turned && one < end; one++) {
        int64_t row = first_row(o->rows, o->tiles, one), count = first_row(o->rows, o->tiles, one + 1) - row;
        for (int64_t at = 0; at < count; at++) {
            const float *from = o->a + (row + at) * o->apart + begin;
            float *copy = to + (one - first) * TILE + at * ROW;
            for (int64_t k = 0; k < inner; k += WIDTH) STORE(copy + k, load_first(from + k, inner - k));
        }
    }
    for (int64_t some = 0; o->turned && some < inner; some += SOON)
        for (int64_t one = first; one < end; one++) {
            int64_t row = first_row(o->rows, o->tiles, one);
            for (int64_t k = some; k < smaller(some + SOON, inner); k++) {
                const float *from = o->a + (begin + k) * o->apart + row;
                __builtin_prefetch(from + SOON * o->apart);
                STORE(to + (one - first) * TILE + k * WIDTH, load_first(from, o->rows - row));
            }
        }
}

/* The tiles from `start` to `stop` of c = a b, for some of the columns. Panels that are read next are fetched before: by a
 * single tile of rows when it comes to the end of those before, else by all that are together, a part by each. */
ON static void some_columns(const struct product *o, int64_t start, int64_t stop, int64_t from, int64_t to, float *a) {
    for (int64_t begin = 0; begin < o->inner; begin += DEPTH)
        for (int64_t first = start; first < stop; first += TOGETHER) {
            const int64_t inner = smaller(DEPTH, o->inner - begin), end = smaller(first + TOGETHER, stop), many = end - first;
            read_tiles(o, first, end, begin, inner, a);
            for (int64_t column = from; column < to; column += 2 * WIDTH) {
                const float *b = o->panels + column * o->inner + begin * WIDTH, *next = b;
                if (column + 2 * WIDTH < to)
                    next += 2 * WIDTH * o->inner;
                else if (begin + DEPTH < o->inner)
                    next += (from - column) * o->inner + DEPTH * WIDTH;
                for (int64_t one = first; one < end; one++) {
                    int64_t row = first_row(o->rows, o->tiles, one);
                    struct place p = {
                        .a = a + (one - first) * TILE, .b = b,
                        .bias = o->bias ? o->bias + column : 0, .c = o->c + row * o->columns + column,
                        .inner = inner, .panel = o->inner, .apart = o->columns, .columns = to - column,
                        .next = next + (one - first) * inner / many * WIDTH,
                        .turn = many > 1 ? 0 : larger(inner - NEAR, 0), .step = pieces_of(WIDTH, many), .adds = begin > 0,
                        .least = o->relu && begin + inner == o->inner ? 0 : -INFINITY,
                    };
                    tiles[first_row(o->rows, o->tiles, one + 1) - row][o->turned][p.columns > WIDTH](&p);
                }
            }
        }
}

/* c = a b. Scratch: some tiles of a, for each worker. Pieces are tiles, or blocks of LANES columns. */
ON static void multiply(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product *o = &op->product;
    float *a = o->scratch + worker * TOGETHER * TILE;
    if (o->by_columns)
        some_columns(o, 0, o->tiles, start * LANES, smaller(stop * LANES, o->columns), a);
    else
        some_columns(o, start, stop, 0, o->columns, a);
}

#define LOOPS {WIDTH, HEIGHT, panels, multiply}
