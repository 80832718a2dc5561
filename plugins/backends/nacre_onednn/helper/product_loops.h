/* The loops of products, see product.c, for the instructions of registers.h, which is included before. */

#include <math.h>

#include "lanes.h"
#include "product.h"

/* ROW, TILE: rows of a, and tiles of them, are copied so far apart, so that they do not want the same places of a cache. */
enum { DEPTH = PRODUCT_DEPTH, TOGETHER = PRODUCT_TOGETHER, SHALLOW = PRODUCT_SHALLOW };
enum { ROW = DEPTH + IN_LINE, TILE = DEPTH * WIDTH + IN_LINE };
enum { NEAR = 64, SOON = 16 }; /* so far ahead panels are fetched that lie in order, and rows that are wider */
enum { SLOW = 4 };             /* times that a line is fetched, at most, so that not many are on their way at a time */
enum { FEW = 4096 };           /* numbers of b that stay in the first cache, whatever else is read */

/* Two panels of columns of b, whose rows are `apart`; of the second none may be there. */
ON static void lay_panels(const float *b, int64_t apart, int64_t count, int64_t inner, float *left, float *right) {
    const int64_t more = larger(count - WIDTH, 0);
    for (int64_t k = 0; k < inner; k++) {
        const float *from = b + k * apart;
        __builtin_prefetch(from + SOON * apart);
        __builtin_prefetch(from + SOON * apart + WIDTH);
        STORE(left + k * WIDTH, load_first(from, count));
        STORE(right + k * WIDTH, more ? load_first(from + WIDTH, more) : ZERO());
    }
}

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
        } else {
            lay_panels(p->b + column, p->apart, count, p->inner, left, right);
        }
    }
}

/* Where a tile stands: its rows of a, one or two panels of b, and the rows of c. */
struct place {
    const float *a, *b, *bias;
    float *c;
    int64_t inner, panel;        /* numbers of a sum, and of all sums */
    int64_t row, apart, columns; /* between rows of a, and of c; that are left */
    const float *soon, *later;   /* what is fetched while numbers are multiplied, up to `turn` and from there; or NULL */
    int64_t turn, step;          /* between what is fetched for one and for the next */
    int64_t adds;                /* whether the products are added to c, which has the first ones and the bias */
    float least;                 /* what is below becomes it: 0 with ReLU */
};

enum { AS_IT_IS, COPIED, TURNED }; /* how rows of a lie: `row` apart, ROW apart, or as (inner, WIDTH) */

/* Adds the products of numbers from `k` to `end`, and fetches from `fetched`, if there is anything. `wide`: two panels, not one. */
INLINE_ON void add_products(const struct place *p, WIDE sums[HEIGHT][2], int64_t k, int64_t end, const float *fetched,
                            const int fetches, const int rows, const int wide, const int lies) {
    for (; k < end; k++, fetched += p->step) {
        WIDE numbers[2];
        for (int half = 0; half <= wide; half++) {
            if (fetches) __builtin_prefetch(fetched + half * p->panel * WIDTH, 0, 2);
            numbers[half] = LOAD(p->b + (half * p->panel + k) * WIDTH);
        }
        for (int row = 0; row < rows; row++) {
            WIDE number = EACH(p->a + (lies == TURNED ? k * WIDTH + row : row * (lies == COPIED ? ROW : p->row) + k));
            for (int half = 0; half <= wide; half++) sums[row][half] = FMA(number, numbers[half], sums[row][half]);
        }
    }
}

INLINE_ON void tile(const struct place *p, const int rows, const int wide, const int lies) {
    WIDE sums[HEIGHT][2];
    for (int row = 0; row < rows; row++) {
        for (int half = 0; half <= wide; half++) sums[row][half] = ZERO();
        for (int line = 0; line < (1 + wide) * WIDTH; line += IN_LINE) __builtin_prefetch(p->c + row * p->apart + line, 1);
    }
    for (int64_t k = 0, end = p->turn; k < p->inner; k = end, end = p->inner) {
        const float *fetched = k < p->turn ? p->soon : p->later;
        if (fetched)
            add_products(p, sums, k, end, fetched, 1, rows, wide, lies);
        else
            add_products(p, sums, k, end, 0, 0, rows, wide, lies);
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

/* So many tiles of a, whose rows are `apart`; tile `one` has those from rows[one] to rows[one + 1]. */
ON static void copy_tiles(const float *a, int64_t apart, const int64_t *rows, int64_t many, int64_t inner, float *to) {
    for (int64_t one = 0; one < many; one++)
        for (int64_t row = rows[one]; row < rows[one + 1]; row++) {
            const float *from = a + row * apart;
            float *copy = to + one * TILE + (row - rows[one]) * ROW;
            for (int64_t k = 0; k < inner; k += WIDTH) STORE(copy + k, load_first(from + k, inner - k));
        }
}

/* The same where a lies turned: (inner, apart). */
ON static void turn_tiles(const float *a, int64_t apart, const int64_t *rows, int64_t many, int64_t inner, float *to) {
    for (int64_t some = 0; some < inner; some += SOON)
        for (int64_t one = 0; one < many; one++)
            for (int64_t k = some; k < smaller(some + SOON, inner); k++) {
                const float *from = a + k * apart + rows[one];
                __builtin_prefetch(from + SOON * apart);
                STORE(to + one * TILE + k * WIDTH, load_first(from, apart - rows[one]));
            }
}

/* The tiles from `start` to `stop` of c = a b, for some of the columns. Panels that are read next are fetched before: by a
 * single tile of rows when it comes to the end of those before, else a part by each. Rows of a are copied where they want the
 * same places of a cache, and all the more if many panels are multiplied by them. */
ON static void some_columns(const struct product *o, int64_t start, int64_t stop, int64_t from, int64_t to, float *copy) {
    const int lies = o->inner % (to - from > 4 * WIDTH ? 256 : 1024) ? AS_IT_IS : COPIED;
    const int64_t together = o->inner * (to - from) <= FEW ? 1 : TOGETHER; /* 1: c is written in order */
    for (int64_t begin = 0; begin < o->inner; begin += DEPTH)
        for (int64_t first = start; first < stop; first += together) {
            const int64_t inner = smaller(DEPTH, o->inner - begin), many = smaller(together, stop - first);
            const int64_t some = pieces_of(inner, many), slow = smaller(many, SLOW);
            int64_t rows[TOGETHER + 1];
            for (int64_t one = 0; one <= many; one++) rows[one] = first_row(o->rows, o->tiles, first + one);
            if (lies == COPIED) copy_tiles(o->a + begin, o->inner, rows, many, inner, copy);
            struct place p = {
                .inner = inner, .panel = o->inner, .apart = o->columns, .row = o->inner,
                .turn = many > 1 ? smaller(slow * some, inner) : larger(inner - NEAR, 0), .step = pieces_of(WIDTH, slow),
                .adds = begin > 0, .least = o->relu && begin + inner == o->inner ? 0 : -INFINITY,
            };
            for (int64_t column = from; column < to; column += 2 * WIDTH) {
                const float *next = p.b = o->panels + column * o->inner + begin * WIDTH;
                if (column + 2 * WIDTH < to)
                    next += 2 * WIDTH * o->inner;
                else if (begin + DEPTH < o->inner)
                    next += (from - column) * o->inner + DEPTH * WIDTH;
                p.soon = p.b + NEAR * WIDTH, p.later = many > 1 ? 0 : next;
                p.bias = o->bias ? o->bias + column : 0, p.columns = to - column;
                for (int64_t one = 0; one < many; one++) {
                    if (many > 1) p.soon = next + one * some * WIDTH;
                    p.a = lies == AS_IT_IS ? o->a + rows[one] * o->inner + begin : copy + one * TILE;
                    p.c = o->c + rows[one] * o->columns + column;
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

/* The narrower of x and dy is multiplied from the left, by tiles of its columns, and the other by panels. */
struct turned {
    const float *a, *b;
    float *c;
    int64_t rows, columns; /* of c, which is dw, or its transpose if it `lies_turned` */
    int lies_turned;
};

static struct turned turned(const struct product_gradient *o, int64_t part) {
    const int lies_turned = o->features < o->outputs;
    float *c = o->sums ? o->sums + part * o->outputs * o->features : o->dw;
    if (lies_turned) return (struct turned){o->x, o->dy, c, o->features, o->outputs, 1};
    return (struct turned){o->dy, o->x, c, o->outputs, o->features, 0};
}

/* A part's products for some of the columns. Numbers of a are laid into tiles, and those of b into two panels that stay in a
 * core's caches while all tiles are multiplied by them; what is laid next is fetched, a part before each tile. */
ON static void some_products(const struct product_gradient *o, int64_t part, int64_t from, int64_t to, float *scratch) {
    const struct turned t = turned(o, part);
    const int64_t start = part * o->rows / o->parts, stop = (part + 1) * o->rows / o->parts;
    float *left = scratch + TOGETHER * TILE, *right = left + SHALLOW * WIDTH;
    for (int64_t begin = start; begin < stop; begin += SHALLOW)
        for (int64_t first = 0; first < o->tiles; first += TOGETHER) {
            const int64_t inner = smaller(SHALLOW, stop - begin), many = smaller(TOGETHER, o->tiles - first);
            const int64_t some = pieces_of(inner, many);
            int64_t rows[TOGETHER + 1];
            for (int64_t one = 0; one <= many; one++) rows[one] = first_row(t.rows, o->tiles, first + one);
            turn_tiles(t.a + begin * t.rows, t.rows, rows, many, inner, scratch);
            struct place p = {
                .b = left, .inner = inner, .panel = SHALLOW, .apart = t.columns, .adds = begin > start, .least = -INFINITY,
            };
            for (int64_t column = from; column < to; column += 2 * WIDTH) {
                const float *b = t.b + begin * t.columns + column;
                lay_panels(b, t.columns, to - column, inner, left, right);
                p.columns = to - column;
                for (int64_t one = 0; one < many; one++) {
                    for (int64_t k = one * some; p.columns > 2 * WIDTH && k < smaller((one + 1) * some, inner); k++)
                        for (int half = 2; half < 4; half++) __builtin_prefetch(b + k * t.columns + half * WIDTH, 0, 2);
                    p.a = scratch + one * TILE, p.c = t.c + rows[one] * t.columns + column;
                    tiles[rows[one + 1] - rows[one]][TURNED][p.columns > WIDTH](&p);
                }
            }
        }
}

/* Pieces are parts of the rows, or pairs of panels. */
ON static void multiply_gradient(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product_gradient *o = &op->product_gradient;
    const int64_t columns = larger(o->outputs, o->features);
    float *scratch = o->scratch + worker * (TOGETHER * TILE + 2 * SHALLOW * WIDTH);
    if (start == stop) return;
    if (o->by_columns)
        for (int64_t part = 0; part < o->parts; part++)
            some_products(o, part, start * 2 * WIDTH, smaller(stop * 2 * WIDTH, columns), scratch);
    else
        for (int64_t part = start; part < stop; part++) some_products(o, part, 0, columns, scratch);
}

/* dw as the sum of the parts. Pieces are WIDTH rows of them. */
ON static void add_parts(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product_gradient *o = &op->product_gradient;
    const struct turned t = turned(o, 0);
    (void)worker;
    for (int64_t first = start * WIDTH; first < smaller(stop * WIDTH, t.rows); first += WIDTH) {
        const int64_t count = smaller(WIDTH, t.rows - first);
        for (int64_t column = 0; column < t.columns; column += WIDTH) {
            const int64_t left = t.columns - column;
            WIDE block[WIDTH];
            for (int row = 0; row < WIDTH; row++) {
                const float *from = t.c + (first + row) * t.columns + column;
                block[row] = row < count ? load_first(from, left) : ZERO();
                for (int64_t part = 1; row < count && part < o->parts; part++)
                    block[row] = ADD(block[row], load_first(from + part * t.rows * t.columns, left));
            }
            if (t.lies_turned) transpose(block);
            for (int row = 0; row < (t.lies_turned ? smaller(WIDTH, left) : count); row++)
                if (t.lies_turned)
                    store_first(o->dw + (column + row) * t.rows + first, count, block[row]);
                else
                    store_first(o->dw + (first + row) * t.columns + column, left, block[row]);
        }
    }
}

#define LOOPS {WIDTH, HEIGHT, panels, multiply, multiply_gradient, add_parts}
