/* The loops of products, see product.c, for the instructions of registers.h, which is included before. */

#include <math.h>

#include "lanes.h"
#include "product.h"

/* ROW, TILE: rows of a, and tiles of them, are copied so far apart, so that they do not want the same places of a cache. */
enum { DEPTH = PRODUCT_DEPTH, TOGETHER = PRODUCT_TOGETHER, ROW = DEPTH + IN_LINE, TILE = DEPTH * WIDTH + IN_LINE };
enum { NEAR = 64, SOON = 16 }; /* so far ahead panels are fetched that lie in order, and rows that are wider */
enum { FEW = 4096 };           /* numbers of b that stay in the first cache, whatever else is read */

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
    int64_t inner, panel;        /* numbers of a sum, and of all sums */
    int64_t row, apart, columns; /* between rows of a, and of c; that are left */
    const float *next;           /* is fetched while numbers from `turn` on are multiplied; before, what is NEAR ... */
    int64_t turn, step;          /* ... in the same panel; so many numbers for each register */
    int64_t adds;                /* whether the products are added to c, which has the first ones and the bias */
    float least;                 /* what is below becomes it: 0 with ReLU */
};

enum { AS_IT_IS, COPIED, TURNED }; /* how rows of a lie: `row` apart, ROW apart, or as (inner, WIDTH) */

/* `wide`: two panels, not one. */
INLINE_ON void tile(const struct place *p, const int rows, const int wide, const int lies) {
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
                WIDE number = EACH(p->a + (lies == TURNED ? k * WIDTH + row : row * (lies == COPIED ? ROW : p->row) + k));
                for (int half = 0; half <= wide; half++) sums[row][half] = FMA(number, numbers[half], sums[row][half]);
            }
        }
    }
    __asm__("" : "+r"(p)); /* else addresses from above are kept, instead of sums */
    const WIDE least = ALL(p->least); /* a NaN stays one: it is the second number */
    const int64_t apart = p->apart, adds = p->adds;
#pragma GCC unroll 2
    for (int half = 0; half <= wide; half++) {
        const int64_t column = half * WIDTH, count = p->columns - column;
        const WIDE bias = p->bias ? load_first(p->bias + column, count) : ZERO();
        float *c = p->c + column;
#pragma GCC unroll 16
        for (int row = 0; row < rows; row++, c += apart)
            store_first(c, count, MAX(least, ADD(sums[row][half], adds ? load_first(c, count) : bias)));
    }
}

#define OF_HEIGHT(rows)                                                                                                \
    ON static void tile_of_##rows(const struct place *p) { tile(p, rows, 1, AS_IT_IS); }                               \
    ON static void narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0, AS_IT_IS); }                        \
    ON static void copied_tile_of_##rows(const struct place *p) { tile(p, rows, 1, COPIED); }                          \
    ON static void copied_narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0, COPIED); }                   \
    ON static void turned_tile_of_##rows(const struct place *p) { tile(p, rows, 1, TURNED); }                          \
    ON static void turned_narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0, TURNED); }
ALL_HEIGHTS(OF_HEIGHT)
#define BY_HEIGHT(rows)                                                                                                \
    , {[AS_IT_IS] = {narrow_tile_of_##rows, tile_of_##rows},                                                           \
       [COPIED] = {copied_narrow_tile_of_##rows, copied_tile_of_##rows},                                               \
       [TURNED] = {turned_narrow_tile_of_##rows, turned_tile_of_##rows}}
static void (*const tiles[][TURNED + 1][2])(const struct place *) = {{{0}} ALL_HEIGHTS(BY_HEIGHT)};

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

/* Rows of a are copied where they want the same places of a cache, and all the more if many panels are multiplied by them. */
static int rows_lie(const struct product *o, int64_t columns) {
    if (o->turned) return TURNED;
    return o->apart % (columns > 4 * WIDTH ? 256 : 1024) ? AS_IT_IS : COPIED;
}

/* The tiles from `start` to `stop` of c = a b, for some of the columns. Panels that are read next are fetched before: by a
 * single tile of rows when it comes to the end of those before, else by all that are together, a part by each. */
ON static void some_columns(const struct product *o, int64_t start, int64_t stop, int64_t from, int64_t to, float *copy) {
    const int lies = rows_lie(o, to - from);
    const int64_t together = o->inner * (to - from) <= FEW ? 1 : TOGETHER; /* 1: c is written in order */
    for (int64_t begin = 0; begin < o->inner; begin += DEPTH)
        for (int64_t first = start; first < stop; first += together) {
            const int64_t inner = smaller(DEPTH, o->inner - begin), end = smaller(first + together, stop), many = end - first;
            const int64_t fetched = inner / many * WIDTH;
            int64_t rows[TOGETHER + 1];
            for (int64_t one = 0; one <= many; one++) rows[one] = first_row(o->rows, o->tiles, first + one);
            if (lies != AS_IT_IS) read_tiles(o, first, end, begin, inner, copy);
            struct place p = {
                .inner = inner, .panel = o->inner, .apart = o->columns, .row = o->apart,
                .turn = many > 1 ? 0 : larger(inner - NEAR, 0), .step = pieces_of(WIDTH, many), .adds = begin > 0,
                .least = o->relu && begin + inner == o->inner ? 0 : -INFINITY,
            };
            for (int64_t column = from; column < to; column += 2 * WIDTH) {
                const float *next = p.b = o->panels + column * o->inner + begin * WIDTH;
                if (column + 2 * WIDTH < to)
                    next += 2 * WIDTH * o->inner;
                else if (begin + DEPTH < o->inner)
                    next += (from - column) * o->inner + DEPTH * WIDTH;
                p.bias = o->bias ? o->bias + column : 0, p.columns = to - column;
                for (int64_t one = 0; one < many; one++) {
                    p.a = lies == AS_IT_IS ? o->a + rows[one] * o->apart + begin : copy + one * TILE;
                    p.c = o->c + rows[one] * o->columns + column, p.next = next + one * fetched;
                    tiles[rows[one + 1] - rows[one]][lies][p.columns > WIDTH](&p);
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
