/* Products of matrices of float32 with AMX, which multiplies tiles of bf16: each number is the sum of three of bf16, of eight bits
 * each, after Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
 * computations", 2019. Six of their nine products are added up in float32; the others are less than its last bit. AMX adds up 32
 * products apart before it adds them to a sum, so errors are smaller than those of products that are added one by one. Numbers
 * below 2^-110 lose their last bits, and what is infinite may become NaN. See product.c for how threads share the work.
 */

#include "product.h"

#if defined(HAS_AMX)

#include <math.h>

#define BITS 512
#define ON __attribute__((target("avx512f,amx-tile,amx-bf16")))
#include "lanes.h"

/* A block of c has SIDE rows and columns, in four tiles. A step adds up SIDE numbers of each sum: of a or of b it reads two
 * tiles, of 16 rows of 16 pairs, which have three PARTS each. The pairs are of numbers that are WIDTH apart. */
enum { SIDE = SPLIT_SIDE, PARTS = 3, TILE = WIDTH * SIDE, OF_STEP = 2 * PARTS * TILE };
enum { DEPTH = SPLIT_DEPTH, TOGETHER = SPLIT_TOGETHER, SHALLOW = SPLIT_SHALLOW, MANY = SPLIT_MANY };
enum { NEARBY = 1 << 17 }; /* numbers of b that stay in the second cache with others */

#define IN_BANDS(depth, count) ((count) * (depth) / SIDE * OF_STEP + 2 * SIDE * SIDE) /* numbers of bf16, with a block of c */
_Static_assert(IN_BANDS(DEPTH, 2 * TOGETHER) <= SPLIT_ROOM && IN_BANDS(SHALLOW, MANY + 2) <= SPLIT_ROOM, "too little room");

/* What is multiplied: `lines` of a matrix, the rows of a or the columns of b, of `inner` numbers each. They lie in order, or
 * ACROSS: first the first number of each. */
struct matrix {
    const float *from;
    int64_t lines, inner;
    int across;
};

/* The parts of 16 pairs: the first has each number rounded, the next what that leaves. NaN stays one in the last part. */
INLINE_ON void split(WIDE one, WIDE other, uint16_t *to) {
    const __m512i half = _mm512_set1_epi32(0x8000), high = _mm512_set1_epi32((int)0xFFFF0000);
#pragma GCC unroll 3
    for (int part = 0; part < PARTS; part++) {
        __m512i first = _mm512_castps_si512(one), second = _mm512_castps_si512(other);
        if (part < PARTS - 1) { /* else nothing is left but these eight bits */
            first = _mm512_and_si512(_mm512_add_epi32(first, half), high);
            second = _mm512_add_epi32(second, half);
        }
        second = _mm512_and_si512(second, high);
        _mm512_store_si512(to + part * TILE, _mm512_or_si512(_mm512_srli_epi32(first, 16), second));
        one = SUB(one, _mm512_castsi512_ps(first)), other = SUB(other, _mm512_castsi512_ps(second));
    }
}

/* A row of 16 numbers of a matrix, or zeros where it has none. */
INLINE_ON WIDE row_of(const struct matrix *m, int64_t row, int64_t column) {
    const int64_t rows = m->across ? m->inner : m->lines, columns = m->across ? m->lines : m->inner;
    return row < rows && column < columns ? load_first(m->from + row * columns + column, columns - column) : ZERO();
}

/* Whether a matrix has all of a step of a band. */
static int is_inside(const struct matrix *m, int64_t line, int64_t at) { return line + SIDE <= m->lines && at + SIDE <= m->inner; }

/* What is laid next, a row of a tile at a time: bands of SIDE lines, one behind the other, from their number `begin` on. */
struct laying {
    const struct matrix *m;
    uint16_t *to;
    int64_t line, begin, steps; /* of a band */
    int64_t step, row, left;    /* what comes now, and the rows of tiles that are left */
    int64_t ahead;              /* so many numbers behind what is laid are fetched */
};

static struct laying laying(const struct matrix *m, int64_t line, int64_t bands, int64_t begin, int64_t steps, uint16_t *to) {
    return (struct laying){.m = m, .to = to, .line = line, .begin = begin, .steps = steps, .left = bands * steps * SIDE};
}

/* Lays rows of tiles: of a, where it lies in order, and of b, where it lies across. */
ON static void lay_rows(struct laying *next, int64_t count) {
    const struct matrix *m = next->m;
    const int64_t apart = m->across ? m->lines : m->inner, gap = m->across ? WIDTH * apart : WIDTH;
    for (int64_t some; count > 0 && next->left > 0; count -= some, next->left -= some) {
        const int64_t half = next->row / WIDTH * WIDTH, row = next->row % WIDTH, at = next->begin + next->step * SIDE;
        const int64_t first = m->across ? at : next->line + half, column = m->across ? next->line + half : at;
        const float *from = m->from + (first + row) * apart + column;
        uint16_t *to = next->to + half * PARTS * SIDE + row * SIDE;
        some = smaller(count, WIDTH - row);
        if (is_inside(m, next->line, at))
            for (int64_t one = 0; one < some; one++, from += apart) {
                __builtin_prefetch(from + next->ahead, 0, 2), __builtin_prefetch(from + next->ahead + gap, 0, 2);
                split(LOAD(from), LOAD(from + gap), to + one * SIDE);
            }
        else
            for (int64_t one = row; one < row + some; one++, to += SIDE)
                split(row_of(m, first + one, column), m->across ? row_of(m, first + one + WIDTH, column) : row_of(m, first + one, column + WIDTH), to);
        if ((next->row += some) < SIDE) continue;
        next->row = 0, next->to += OF_STEP;
        if (++next->step == next->steps) next->step = 0, next->line += SIDE;
    }
}

/* Lays a step of a band where the lines lie the other way. */
ON static void lay_turned(const struct matrix *m, int64_t line, int64_t at, uint16_t *to) {
    const int64_t apart = m->across ? m->lines : m->inner, gap = m->across ? WIDTH * apart : WIDTH;
    const int inside = is_inside(m, line, at);
    for (int64_t lines = line; lines < line + SIDE; lines += WIDTH, to += PARTS * TILE) {
        const int64_t top = m->across ? at : lines, column = m->across ? lines : at;
        const float *from = m->from + top * apart + column;
        WIDE first[WIDTH], second[WIDTH];
        for (int64_t row = 0; row < WIDTH; row++) {
            if (inside) {
                __builtin_prefetch(from + row * apart + 2 * gap), __builtin_prefetch(from + row * apart + 3 * gap);
                first[row] = LOAD(from + row * apart), second[row] = LOAD(from + row * apart + gap);
                continue;
            }
            first[row] = row_of(m, top + row, column);
            second[row] = m->across ? row_of(m, top + row + WIDTH, column) : row_of(m, top + row, column + WIDTH);
        }
        transpose(first), transpose(second);
        for (int row = 0; row < WIDTH; row++) split(first[row], second[row], to + row * SIDE);
    }
}

/* A block of c, at whose edge the matrix may end; `spare` has room for one then. What is next is laid while it is multiplied. */
struct block {
    const uint16_t *a, *b;
    int64_t steps;
    const float *bias;
    float *c, *spare;
    int64_t apart, rows, columns; /* between rows of c, and that there are from here on */
    const float *first;           /* what lies like c, and products and bias are added to it: c, or other numbers; or NULL */
    float least;                  /* what is below becomes it: 0 with ReLU */
    struct laying *next;
    int64_t each;                 /* rows of tiles that are laid in a step */
};

/* The parts that are multiplied, in an order that loads few of them again. */
#define OF_A(part)                                                                                                     \
    _tile_loadd(4, a + (part)*TILE, 64);                                                                               \
    if (tall) _tile_loadd(5, a + (PARTS + (part)) * TILE, 64);
#define OF_B(part)                                                                                                     \
    _tile_loadd(6, b + (part)*TILE, 64);                                                                               \
    if (broad) _tile_loadd(7, b + (PARTS + (part)) * TILE, 64);
#define MULTIPLY                                                                                                       \
    _tile_dpbf16ps(0, 4, 6);                                                                                           \
    if (broad) _tile_dpbf16ps(1, 4, 7);                                                                                \
    if (tall) _tile_dpbf16ps(2, 5, 6);                                                                                 \
    if (tall && broad) _tile_dpbf16ps(3, 5, 7);

/* The sums, all of whose rows begin with one. tall, broad: whether there are more than WIDTH rows, and columns. */
INLINE_ON void sums(const struct block *o, const float *begin, float *to, int64_t apart, const int tall, const int broad) {
    const uint16_t *a = o->a, *b = o->b;
    _tile_loadd(0, begin, 0);
    if (broad) _tile_loadd(1, begin + WIDTH, 0);
    if (tall) _tile_loadd(2, begin, 0);
    if (tall && broad) _tile_loadd(3, begin + WIDTH, 0);
    for (int64_t step = 0; step < o->steps; step++, a += OF_STEP, b += OF_STEP) {
        OF_A(2) OF_B(0) MULTIPLY
        OF_A(1) MULTIPLY
        lay_rows(o->next, o->each);
        OF_B(1) MULTIPLY
        OF_A(0) MULTIPLY
        OF_B(2) MULTIPLY
        OF_B(0) MULTIPLY
    }
    _tile_stored(0, to, 4 * apart);
    if (broad) _tile_stored(1, to + WIDTH, 4 * apart);
    if (tall) _tile_stored(2, to + WIDTH * apart, 4 * apart);
    if (tall && broad) _tile_stored(3, to + WIDTH * apart + WIDTH, 4 * apart);
}

/* Sums that are added to others are added up in the spare block before, so that those which are large are rounded less often. */
ON static void multiply_block(const struct block *o) {
    static const float zeros[SIDE];
    const int64_t rows = smaller(o->rows, SIDE), columns = smaller(o->columns, SIDE);
    const int direct = !o->first && rows % WIDTH == 0 && columns % WIDTH == 0;
    const float *begin = o->bias ? o->bias : zeros;
    float *to = direct ? o->c : o->spare;
    int64_t apart = direct ? o->apart : SIDE;
    if (!direct && begin == o->bias) { /* which ends where c does */
        for (int64_t column = 0; column < columns; column += WIDTH) STORE(to + column, load_first(begin + column, columns - column));
        begin = to;
    }
    __asm__ volatile("" ::: "memory"); /* tiles read what was written before */
    if (rows > WIDTH && columns > WIDTH)
        sums(o, begin, to, apart, 1, 1);
    else if (rows > WIDTH)
        sums(o, begin, to, apart, 1, 0);
    else if (columns > WIDTH)
        sums(o, begin, to, apart, 0, 1);
    else
        sums(o, begin, to, apart, 0, 0);
    if (direct && o->least) return;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column += WIDTH) {
            const int64_t at = row * o->apart + column;
            WIDE sum = LOAD(to + row * apart + column);
            if (o->first) sum = ADD(load_first(o->first + at, columns - column), sum);
            store_first(o->c + at, columns - column, MAX(ALL(o->least), sum));
        }
}

/* Tiles of 16 rows of 64 bytes. */
ON static void configure(void) {
    static const struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&tiles);
}

/* Where a band lies in b: its steps of all sums lie one behind the other. */
static int64_t of_band(int64_t inner) { return pieces_of(inner, SIDE) * OF_STEP; }

/* Columns of b in bands. Pieces are bands. */
ON static void panels(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product_panels *p = &op->product_panels;
    const struct matrix b = {p->b, p->columns, p->inner, !p->turned};
    const int64_t steps = pieces_of(p->inner, SIDE);
    (void)worker;
    for (int64_t band = start; band < stop; band++) {
        uint16_t *to = (uint16_t *)p->panels + band * of_band(p->inner);
        struct laying all = laying(&b, band * SIDE, 1, 0, steps, to);
        if (!p->turned) lay_rows(&all, all.left);
        for (int64_t step = 0; p->turned && step < steps; step++) lay_turned(&b, band * SIDE, step * SIDE, to + step * OF_STEP);
    }
}

/* The bands of rows from `start` to `stop` of c = a b, for some of the columns. So many of them are multiplied together that those
 * of b are read from far less often, unless a core's second cache has all of b; the next ones are laid meanwhile. */
ON static void some_columns(const struct product *o, int64_t start, int64_t stop, int64_t from, int64_t to, uint16_t *scratch) {
    const struct matrix a = {o->a, o->rows, o->inner, 0};
    const int64_t together = o->inner * (to - from) <= NEARBY ? 1 : TOGETHER, blocks = pieces_of(to - from, SIDE);
    uint16_t *now = scratch, *after = scratch + TOGETHER * of_band(DEPTH);
    float *spare = (float *)(after + TOGETHER * of_band(DEPTH));
    struct laying next = {.m = &a};
    for (int64_t begin = 0; begin < o->inner; begin += DEPTH)
        for (int64_t first = start; first < stop; first += together) {
            const int64_t inner = smaller(DEPTH, o->inner - begin), steps = pieces_of(inner, SIDE), many = smaller(together, stop - first);
            if (first == start) next = laying(&a, first * SIDE, many, begin, steps, now), lay_rows(&next, next.left);
            next = laying(&a, (first + together) * SIDE, larger(smaller(together, stop - first - together), 0), begin, steps, after);
            next.ahead = together * SIDE * o->inner;
            struct block block = {
                .steps = steps, .spare = spare, .apart = o->columns, .next = &next,
                .least = o->relu && begin + inner == o->inner ? 0 : -INFINITY, .each = pieces_of(SIDE, blocks),
            };
            for (int64_t column = from; column < to; column += SIDE)
                for (int64_t one = 0; one < many; one++) {
                    const int64_t row = (first + one) * SIDE;
                    block.a = now + one * steps * OF_STEP;
                    block.b = (const uint16_t *)o->panels + column / SIDE * of_band(o->inner) + begin / SIDE * OF_STEP;
                    block.bias = o->bias && begin == 0 ? o->bias + column : 0, block.c = o->c + row * o->columns + column;
                    block.first = begin > 0 ? block.c : o->other ? o->other + row * o->columns + column : 0;
                    block.rows = o->rows - row, block.columns = to - column;
                    multiply_block(&block);
                }
            lay_rows(&next, next.left);
            uint16_t *laid = after;
            after = now, now = laid;
        }
}

/* c = a b. Scratch: two times some bands of a, and a block of c, for each worker. Pieces are bands of rows, or of columns. */
ON static void multiply(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product *o = &op->product;
    uint16_t *scratch = (uint16_t *)o->scratch + worker * SPLIT_ROOM;
    if (start == stop) return;
    configure();
    if (o->by_columns)
        some_columns(o, 0, o->tiles, start * SIDE, smaller(stop * SIDE, o->columns), scratch);
    else
        some_columns(o, start, stop, 0, o->columns, scratch);
    _tile_release();
}

/* A part's products for some of the columns: bands of b are laid while the ones before are multiplied by some of a. */
ON static void some_products(const struct product_gradient *o, int64_t part, int64_t from, int64_t to, uint16_t *scratch) {
    const struct turned t = turned(o, part);
    const int64_t start = part * o->rows / o->parts, stop = (part + 1) * o->rows / o->parts;
    const struct matrix a = {t.a, t.rows, stop, 1}, b = {t.b, t.columns, stop, 1};
    uint16_t *now = scratch + MANY * of_band(SHALLOW), *after = now + of_band(SHALLOW);
    float *spare = (float *)(after + of_band(SHALLOW));
    for (int64_t begin = start; begin < stop; begin += SHALLOW)
        for (int64_t first = 0; first < o->tiles; first += MANY) {
            const int64_t inner = smaller(SHALLOW, stop - begin), steps = pieces_of(inner, SIDE), many = smaller(MANY, o->tiles - first);
            const int64_t lines = smaller(many * SIDE, t.rows - first * SIDE);
            for (int64_t step = 0; step < steps; step++)
                for (int64_t one = 0; one < many; one++)
                    lay_turned(&a, (first + one) * SIDE, begin + step * SIDE, scratch + (one * steps + step) * OF_STEP);
            if (t.db && !t.lies_turned && from == 0)
                add_up_rows(t.a + begin * t.rows + first * SIDE, t.rows, inner, t.db + first * SIDE, lines, begin > start);
            struct laying next = laying(&b, from, 1, begin, steps, now);
            lay_rows(&next, next.left);
            struct block block = {
                .steps = steps, .spare = spare, .apart = t.columns, .least = -INFINITY, .next = &next,
                .each = pieces_of(SIDE, many),
            };
            for (int64_t column = from; column < to; column += SIDE) {
                next = laying(&b, column + SIDE, column + SIDE < to, begin, steps, after);
                next.ahead = column + 2 * SIDE < to ? SIDE : SHALLOW * t.columns + from - next.line;
                for (int64_t one = 0; one < many; one++) {
                    const int64_t row = (first + one) * SIDE;
                    block.a = scratch + one * steps * OF_STEP, block.b = now, block.c = t.c + row * t.columns + column;
                    block.first = begin > start ? block.c : 0;
                    block.rows = t.rows - row, block.columns = to - column;
                    multiply_block(&block);
                }
                if (t.db && t.lies_turned && first == 0)
                    add_up_rows(t.b + begin * t.columns + column, t.columns, inner, t.db + column, smaller(SIDE, to - column), begin > start);
                lay_rows(&next, next.left);
                uint16_t *laid = after;
                after = now, now = laid;
            }
        }
}

/* Pieces are parts of the rows, or bands of the columns. */
ON static void multiply_gradient(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct product_gradient *o = &op->product_gradient;
    const int64_t columns = larger(o->outputs, o->features);
    uint16_t *scratch = (uint16_t *)o->scratch + worker * SPLIT_ROOM;
    if (start == stop) return;
    configure();
    if (o->by_columns)
        for (int64_t part = 0; part < o->parts; part++)
            some_products(o, part, start * SIDE, smaller(stop * SIDE, columns), scratch);
    else
        for (int64_t part = start; part < stop; part++) some_products(o, part, 0, columns, scratch);
    _tile_release();
}

const struct product_loops product_on_amx = {WIDTH, SIDE, panels, multiply, multiply_gradient, 0};

#endif
