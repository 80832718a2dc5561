/* The loops of products, see product.c, for the instructions of registers.h, which is included before. */

#include <math.h>

#include "lanes.h"
#include "product.h"

/* ROW, TILE: rows of a, and tiles of them, are copied so far apart, so that they do not want the same places of a cache. */
enum { DEPTH = PRODUCT_DEPTH, TOGETHER = PRODUCT_TOGETHER, SHALLOW = PRODUCT_SHALLOW };
enum { ROW = DEPTH + IN_LINE, TILE = DEPTH * WIDTH + IN_LINE };
enum { NEAR = 64, SOON = 16 }; /* so far ahead panels are fetched that lie in order, and rows that are wider */
enum { STEPS = 4 };            /* numbers of a sum at a time, where there are many */
enum { NEARBY = 1 << 17 };     /* numbers of b that stay in the second cache */
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
    const float *a, *bias;
    float *b, *c;
    int64_t inner, panel;        /* numbers of a sum, and of all sums */
    int64_t row, apart, columns; /* between rows of a, and of c; that are left */
    const float *rows;           /* of b, from where its panels are LAID; they are as far apart as those of c */
    const float *soon, *later;   /* what is fetched while numbers are multiplied; from `turn` on, in single steps, `later` */
    int64_t turn, step, beside;  /* between what is fetched at a time and next, and what is fetched with it */
    const float *first;          /* what lies like c, and products and bias are added to it: c, or other numbers; or NULL */
    float least;                 /* what is below becomes it: 0 with ReLU */
};

/* How rows of a lie: `row` apart, or as (inner, WIDTH); LAID are the panels of b besides, as they are multiplied. */
enum { IN_ROWS, TURNED, LAID };

/* Adds the products of two registers and of a number of each row, which is the one AT so many bytes behind an address. Not in C: of
 * the addresses of all rows compilers make more than there are registers, and put sums into memory for them. */
#define ADD_PRODUCTS(row, at, address, offset)                                                                         \
    __asm__("vbroadcastss " at ", %2\n\tvfmadd231ps %3, %2, %0\n\tvfmadd231ps %4, %2, %1"                              \
            : "+v"(sums[row][0]), "+v"(sums[row][1]), "=&v"(each)                                                      \
            : "v"(numbers[0]), "v"(numbers[1]), "r"(address), "r"(apart_in_a), "i"(offset), "m"(*(const float(*)[1 << 20])(address)))
#define AT_1 "%c7(%5)"
#define AT_2 "%c7(%5,%6,4)"
#define AT_3 "%c7(%5,%6,8)"
#define AT_4 AT_1
#define AT_5 AT_2
#define AT_6 AT_3
#define AT_7 AT_1
#define AT_8 AT_2
#define AT_9 AT_3
#define AT_10 AT_1
#define AT_11 AT_2
#define AT_12 AT_3
#define ADD_ROW(height)                                                                                                \
    if (height <= rows && lies >= TURNED)                                                                              \
        ADD_PRODUCTS(height - 1, AT_1, a[0], 4 * (STEP * WIDTH + height - 1));                                         \
    else if (height <= rows)                                                                                           \
        ADD_PRODUCTS(height - 1, AT_##height, a[(height - 1) / 3], 4 * STEP);

/* One step: a number of each sum. */
#define ADD_STEP(step)                                                                                                 \
    {                                                                                                                  \
        enum { STEP = step };                                                                                          \
        WIDE numbers[2], each;                                                                                         \
        for (int half = 0; half <= wide; half++) {                                                                     \
            numbers[half] = LOAD(lies == LAID ? laid + half * WIDTH : b + half * panel);                               \
            if (lies == LAID) STORE(b + half * panel, numbers[half]);                                                  \
        }                                                                                                              \
        if (lies == LAID) laid += apart;                                                                               \
        b += WIDTH;                                                                                                    \
        if (wide) {                                                                                                    \
            ALL_HEIGHTS(ADD_ROW)                                                                                       \
        } else {                                                                                                       \
            for (int r = 0; r < rows; r++)                                                                             \
                sums[r][0] = FMA(EACH(a[0] + (lies >= TURNED ? r : r * apart_in_a)), numbers[0], sums[r][0]);          \
        }                                                                                                              \
    }

/* `wide`: two panels, not one; `fetches`: what is read soon, if the processor does not do so itself. In several steps the rows
 * of c are fetched first, since it takes long to write what no cache has. Loops are unrolled by name: else sums lie in memory
 * before and after them. */
INLINE_ON void tile(const struct place *p, const int rows, const int wide, const int lies, const int steps, const int fetches) {
    WIDE sums[HEIGHT][2];
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++) {
#pragma GCC unroll 2
        for (int half = 0; half <= wide; half++) sums[row][half] = ZERO();
        for (int line = 0; steps == 1 && line < (1 + wide) * WIDTH; line += IN_LINE)
            __builtin_prefetch(p->c + row * p->apart + line, 1);
    }
    const float *a[HEIGHT / 3], *laid = p->rows, *from = steps == 1 ? p->soon : p->c;
    float *b = p->b;
    const int64_t apart_in_a = p->row, panel = p->panel * WIDTH, apart = p->apart;
    const int64_t inner = p->inner, turn = steps == 1 ? p->turn : rows * steps;
    int64_t step = steps == 1 ? p->step : apart, beside = steps == 1 ? p->beside : IN_LINE;
    for (int three = 0; three < HEIGHT / 3; three++) a[three] = p->a + 3 * three * apart_in_a;
    for (int64_t k = 0; k < inner; k += steps, from += step) {
        if (k == turn) from = steps == 1 ? p->later : p->soon, step = p->step, beside = p->beside;
        if (fetches) __builtin_prefetch(from, 0, 2);
        if (fetches && wide) __builtin_prefetch(from + beside, 0, 2);
        ADD_STEP(0)
        if (steps == STEPS) {
            ADD_STEP(1)
            ADD_STEP(2)
            ADD_STEP(3)
        }
#pragma GCC unroll 4
        for (int three = 0; three < HEIGHT / 3; three++) a[three] += lies >= TURNED ? steps * WIDTH : steps;
    }
    __asm__("" : "+r"(p)); /* else addresses from above are kept, instead of sums */
    const WIDE least = ALL(p->least); /* a NaN stays one: it is the second number */
    const int64_t adds = p->first != 0;
#pragma GCC unroll 2
    for (int half = 0; half <= wide; half++) {
        const int64_t column = half * WIDTH, count = p->columns - column;
        const WIDE bias = p->bias ? load_first(p->bias + column, count) : ZERO();
        const float *first = (adds ? p->first : p->c) + column;
        float *c = p->c + column;
#pragma GCC unroll 16
        for (int row = 0; row < rows; row++, c += apart, first += apart)
            store_first(c, count, MAX(least, ADD(sums[row][half], adds ? ADD(load_first(first, count), bias) : bias)));
    }
}

#define OF_HEIGHT(rows)                                                                                                \
    ON static void narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0, IN_ROWS, 1, 1); }                   \
    ON static void tile_of_##rows(const struct place *p) { tile(p, rows, 1, IN_ROWS, 1, 1); }                          \
    ON static void long_tile_of_##rows(const struct place *p) { tile(p, rows, 1, IN_ROWS, STEPS, 1); }                 \
    ON static void turned_narrow_tile_of_##rows(const struct place *p) { tile(p, rows, 0, TURNED, 1, 1); }             \
    ON static void turned_tile_of_##rows(const struct place *p) { tile(p, rows, 1, TURNED, 1, 1); }                    \
    ON static void turned_long_tile_of_##rows(const struct place *p) { tile(p, rows, 1, TURNED, STEPS, 1); }           \
    ON static void laid_tile_of_##rows(const struct place *p) { tile(p, rows, 1, LAID, STEPS, 1); }
ALL_HEIGHTS(OF_HEIGHT)
enum { NARROW, ONE_STEP, LONG };
#define BY_HEIGHT(rows)                                                                                                \
    , {[IN_ROWS] = {narrow_tile_of_##rows, tile_of_##rows, long_tile_of_##rows},                                       \
       [TURNED] = {turned_narrow_tile_of_##rows, turned_tile_of_##rows, turned_long_tile_of_##rows},                   \
       [LAID] = {[LONG] = laid_tile_of_##rows}}
/* A row, which waits for b only: AMD's Zen 4 fetches that as fast by itself, and asking besides takes 1.2 times as long (on Intel's
 * processors 0.65 to 0.85). */
ON static void unfetched_row(const struct place *p) { tile(p, 1, 1, IN_ROWS, 1, 0); }
static void (*const tiles[][LAID + 1][LONG + 1])(const struct place *) = {{{0}} ALL_HEIGHTS(BY_HEIGHT)};

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
 * single tile of rows when it comes to the end of those before, else a part by each; where all panels stay in a cache, the rows
 * of a that are read next, instead. Rows of a are copied where they want the same places of a cache, and all the more if many
 * panels are multiplied by them. */
ON static void some_columns(const struct product *o, int64_t start, int64_t stop, int64_t from, int64_t to, float *copy) {
    const int copies = o->inner % (to - from > 4 * WIDTH ? 256 : 1024) == 0;
    const int64_t together = o->inner * (to - from) <= FEW ? 1 : TOGETHER; /* 1: c is written in order */
    for (int64_t begin = 0; begin < o->inner; begin += DEPTH)
        for (int64_t first = start; first < stop; first += together) {
            const int64_t inner = smaller(DEPTH, o->inner - begin), many = smaller(together, stop - first);
            const int64_t some = pieces_of(inner, many), steps = inner % STEPS == 0 && many >= STEPS ? STEPS : 1;
            const int64_t step = steps * pieces_of(WIDTH, many);
            int64_t rows[TOGETHER + 1];
            for (int64_t one = 0; one <= many; one++) rows[one] = first_row(o->rows, o->tiles, first + one);
            if (copies) copy_tiles(o->a + begin, o->inner, rows, many, inner, copy);
            struct place p = {
                .inner = inner, .panel = o->inner, .apart = o->columns, .row = copies ? ROW : o->inner,
                .turn = many > 1 ? inner : larger(inner - NEAR, 0), .step = step, .beside = o->inner * WIDTH,
                .least = o->relu && begin + inner == o->inner ? 0 : -INFINITY,
            };
            const int64_t left = stop - first - together; /* tiles that come after these */
            const int ahead = left > 0 && steps == STEPS && o->inner <= DEPTH && o->inner * (to - from) <= NEARBY;
            const int64_t share = HEIGHT * inner / pieces_of(to - from, 2 * WIDTH);
            if (ahead) p.beside = share / 2, p.step = pieces_of(p.beside, inner / STEPS);
            for (int64_t column = from; column < to; column += 2 * WIDTH) {
                const float *next = p.b = (float *)o->panels + column * o->inner + begin * WIDTH;
                if (column + 2 * WIDTH < to)
                    next += 2 * WIDTH * o->inner;
                else if (begin + DEPTH < o->inner)
                    next += (from - column) * o->inner + DEPTH * WIDTH;
                p.soon = p.b + NEAR * WIDTH, p.later = next;
                p.bias = o->bias && begin == 0 ? o->bias + column : 0, p.columns = to - column;
                for (int64_t one = 0; one < many; one++) {
                    if (many > 1) p.soon = next + one * some * WIDTH;
                    if (ahead) p.soon = o->a + (rows[many] - rows[0] + rows[one]) * inner + (column - from) / (2 * WIDTH) * share;
                    p.a = copies ? copy + one * TILE : o->a + rows[one] * o->inner + begin;
                    p.c = o->c + rows[one] * o->columns + column;
                    p.first = begin > 0 ? p.c : o->other ? o->other + (p.c - o->c) : 0;
                    if (amd && rows[one + 1] - rows[one] == 1 && p.columns > WIDTH)
                        unfetched_row(&p);
                    else
                        tiles[rows[one + 1] - rows[one]][IN_ROWS][p.columns <= WIDTH ? NARROW : steps == STEPS ? LONG : ONE_STEP](&p);
                }
            }
        }
}

/* c = a b. Scratch: some tiles of a, for each worker. Pieces are tiles, or blocks of LANES columns. */
ON static void multiply(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product *o = &op->product;
    float *a = o->scratch + worker * TOGETHER * TILE;
    if (start == stop) return;
    if (o->by_columns)
        some_columns(o, 0, o->tiles, start * LANES, smaller(stop * LANES, o->columns), a);
    else
        some_columns(o, start, stop, 0, o->columns, a);
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
            const int64_t some = pieces_of(inner, many), steps = inner % STEPS ? 1 : STEPS;
            const int64_t after = first + TOGETHER < o->tiles ? begin : begin + SHALLOW; /* laid behind the last columns */
            int64_t rows[TOGETHER + 1];
            for (int64_t one = 0; one <= many; one++) rows[one] = first_row(t.rows, o->tiles, first + one);
            turn_tiles(t.a + begin * t.rows, t.rows, rows, many, inner, scratch);
            for (int64_t one = 0; t.db && !t.lies_turned && from == 0 && one < many; one++)
                add_up_rows(scratch + one * TILE, WIDTH, inner, t.db + rows[one], rows[one + 1] - rows[one], begin > start);
            struct place p = {
                .b = left, .inner = inner, .panel = SHALLOW, .apart = t.columns, .least = -INFINITY,
                .turn = inner, .beside = WIDTH,
            };
            for (int64_t column = from; column < to; column += 2 * WIDTH) {
                p.rows = t.b + begin * t.columns + column, p.columns = to - column;
                const int64_t lays = steps == 1 || p.columns < 2 * WIDTH, ends = p.columns <= 2 * WIDTH;
                const float *next = ends ? t.b + after * t.columns + from : p.rows + 2 * WIDTH;
                p.step = ends && after >= stop ? 0 : t.columns;
                if (lays) lay_panels(p.rows, t.columns, p.columns, inner, left, right);
                for (int64_t one = 0; one < many; one++) {
                    p.soon = p.step ? next + one * some * t.columns : left;
                    p.a = scratch + one * TILE, p.c = t.c + rows[one] * t.columns + column, p.first = begin > start ? p.c : 0;
                    tiles[rows[one + 1] - rows[one]][one || lays ? TURNED : LAID]
                         [p.columns <= WIDTH ? NARROW : steps == STEPS ? LONG : ONE_STEP](&p);
                }
                if (!t.db || !t.lies_turned || first) continue;
                add_up_rows(left, WIDTH, inner, t.db + column, smaller(p.columns, WIDTH), begin > start);
                if (p.columns <= WIDTH) continue;
                add_up_rows(right, WIDTH, inner, t.db + column + WIDTH, smaller(p.columns - WIDTH, WIDTH), begin > start);
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

/* dw and db as the sums of the parts. Pieces are WIDTH rows of those of dw. */
ON static void add_parts(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product_gradient *o = &op->product_gradient;
    const struct turned t = turned(o, 0);
    (void)worker;
    for (int64_t i = 0; o->db && start == 0 && i < o->outputs; i++) {
        o->db[i] = t.db[i];
        for (int64_t part = 1; part < o->parts; part++) o->db[i] += t.db[part * o->outputs + i];
    }
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
