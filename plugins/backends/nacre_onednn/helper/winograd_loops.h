/* The loops of Winograd's filtering, see winograd.c, for the instructions of registers.h. The file that includes this
 * defines NARROW and PAIRED before, as 0 or 1: whether images are of bf16 instead of float32, and whether products are.
 *
 * A product multiplies words: numbers of float32, or pairs of bf16, of two channels that follow each other or, for the
 * gradient of the filters, of two tiles.
 */

#include <math.h>
#include <string.h>

#include "lanes.h"
#include "winograd.h"

enum { NUMBERS = 1 + PAIRED }; /* in a word */
enum { FURTHER = 8 * WIDTH };     /* sums of products are fetched so far ahead: there are too many rows for the processor */
enum { TILES = WIDTH == 16 ? 12 : 6, HIGH = WIDTH / 2, MOST = 6, RESULTS = 4, WINDOW = WINOGRAD_WINDOW };
enum { MOST_OF_A_STRIP = 64 }; /* tiles: each has a bit */

INLINE_ON WIDE times(float factor, WIDE number) { return MUL(ALL(factor), number); }

/* sum + factor number */
INLINE_ON WIDE plus(WIDE sum, float factor, WIDE number) {
    return FMA(ALL(factor), number, sum);
}

/* How many pairs of points an edge has, the first of a pair, and the first index of them: behind 0, which has none. */
#define PAIRS(edge) ((edge) == 4 ? 1 : 2)
#define POINT(edge, pair) ((edge) == 4 ? 1.0f : (edge) == 5 ? ((pair) ? 1.25f : 0.5f) : ((pair) ? 1.5f : 0.75f))
#define BEHIND_0(edge) ((edge) % 2 == 0)

/* An edge of a tile of x. */
INLINE_ON void transform(const WIDE *d, WIDE *to, const int edge) {
    if (edge == 3) {
        to[0] = SUB(d[0], d[1]), to[1] = d[1], to[2] = SUB(d[2], d[1]);
        return;
    }
    if (edge == 4) {
        to[0] = SUB(d[0], d[2]), to[1] = ADD(d[1], d[2]);
        to[2] = SUB(d[2], d[1]), to[3] = SUB(d[3], d[1]);
        return;
    }
    const int first = BEHIND_0(edge);
    const float one = POINT(edge, 0) * POINT(edge, 0), two = POINT(edge, 1) * POINT(edge, 1);
    for (int pair = 0; pair < 2; pair++) {
        const float point = POINT(edge, pair), other = pair ? one : two;
        WIDE high = plus(d[first + 3], -other, d[first + 1]), low = times(point, plus(d[first + 2], -other, d[first]));
        to[first + 2 * pair] = ADD(high, low);
        to[first + 2 * pair + 1] = first ? SUB(high, low) : SUB(low, high);
    }
    if (first) to[0] = plus(plus(d[4], -one - two, d[2]), one * two, d[0]);
    to[edge - 1] = plus(plus(d[edge - 1], -one - two, d[edge - 3]), one * two, d[edge - 5]);
}

/* 1 / the products of the differences of a point from all others; of 0, but for the sign. */
INLINE_ON float weight(const int edge, const int pair) {
    const float own = POINT(edge, pair), other = POINT(edge, 1 - pair);
    if (edge == 4) return 0.5f;
    return 1 / (2 * (edge == 6 ? own * own : own) * (own * own - other * other));
}

INLINE_ON float weight_of_0(const int edge) {
    const float one = POINT(edge, 0), two = POINT(edge, 1);
    return edge == 6 ? 1 / (one * one * two * two) : 1;
}

/* The values of a polynomial of `count` coefficients at all points; weighed, for a filter. */
INLINE_ON void evaluate(const WIDE *c, WIDE *to, const int edge, const int count, const int weighed) {
    to[edge - 1] = c[count - 1];
    if (BEHIND_0(edge) || edge == 3) to[0] = weighed && edge == 6 ? times(weight_of_0(edge), c[0]) : c[0];
    if (edge == 3) {
        to[1] = ADD(c[0], c[1]);
        return;
    }
    for (int pair = 0; pair < PAIRS(edge); pair++) {
        const float point = POINT(edge, pair), square = point * point, factor = weighed ? weight(edge, pair) : 1;
        WIDE even = weighed ? times(factor, c[0]) : c[0], odd = times(factor * point, c[1]);
        if (count > 2) even = plus(even, factor * square, c[2]);
        if (count > 3) odd = plus(odd, factor * square * point, c[3]);
        if (count > 4) even = plus(even, factor * square * square, c[4]);
        to[BEHIND_0(edge) + 2 * pair] = ADD(even, odd);
        to[BEHIND_0(edge) + 2 * pair + 1] = SUB(even, odd);
    }
}

/* The transpose: `count` numbers of the values at all points. */
INLINE_ON void combine(const WIDE *v, WIDE *to, const int edge, const int count, const int weighed) {
    if (edge == 3) {
        to[0] = ADD(v[0], v[1]), to[1] = ADD(v[1], v[2]);
        return;
    }
    for (int pair = 0; pair < PAIRS(edge); pair++) {
        const float point = POINT(edge, pair), factor = weighed ? weight(edge, pair) : 1;
        const WIDE *values = v + BEHIND_0(edge) + 2 * pair;
        WIDE even = ADD(values[0], values[1]), odd = SUB(values[0], values[1]);
        float power = factor;
        for (int k = 0; k < count; k++, power *= point) {
            WIDE part = k % 2 ? odd : even;
            to[k] = pair ? plus(to[k], power, part) : power == 1 ? part : times(power, part);
        }
    }
    if (BEHIND_0(edge)) to[0] = weighed && edge == 6 ? plus(to[0], weight_of_0(edge), v[0]) : ADD(to[0], v[0]);
    to[count - 1] = ADD(to[count - 1], v[edge - 1]);
}

#if NARROW
/* Numbers of bf16 as the lower halves of words, as the upper ones, which makes them float32, and both together. */
INLINE_ON __m512i lower(__m256i numbers) { return _mm512_cvtepu16_epi32(numbers); }

INLINE_ON __m512i upper(__m256i numbers) { return _mm512_slli_epi32(_mm512_cvtepu16_epi32(numbers), 16); }

INLINE_ON WIDE pair(__m256i one, __m256i other) { return (WIDE)_mm512_or_si512(lower(one), upper(other)); }

INLINE_ON __m256i read_narrow(const void *numbers) { return _mm256_loadu_si256((const __m256i_u *)numbers); }

INLINE_ON __m256i narrowed(WIDE numbers) { return (__m256i)_mm512_cvtneps_pbh(numbers); }

INLINE_ON void write_narrow(void *to, WIDE numbers) { _mm256_storeu_si256((__m256i_u *)to, narrowed(numbers)); }
#endif

/* Numbers of images. */
INLINE_ON WIDE read_numbers(const void *numbers, int64_t index) {
#if NARROW
    return (WIDE)upper(read_narrow((const uint16_t *)numbers + index));
#else
    return LOAD((const float *)numbers + index);
#endif
}

INLINE_ON void write_numbers(void *numbers, int64_t index, WIDE number) {
#if NARROW
    write_narrow((uint16_t *)numbers + index, number);
#else
    STORE((float *)numbers + index, number);
#endif
}

/* Numbers of float32 as words: of two registers one of pairs, or the first as it is. */
INLINE_ON WIDE words_of(WIDE first, WIDE second) {
#if PAIRED
    return pair(narrowed(first), narrowed(second));
#else
    (void)second;
    return first;
#endif
}

/* A cell of the channels of a register, as words, or for the gradient of the filters as halves of them. */
INLINE_ON void write_cell(float *to, WIDE cell) {
#if PAIRED
    write_narrow(to, cell);
#else
    STORE(to, cell);
#endif
}

/* Filters (filters, channels, planes, rows, columns) as (cells, filters / 16, words of all planes and phases, 16), where
 * a word is of channels; for the gradient of images turned round, with filters and channels in each other's place. Pieces
 * are 16 filters, or channels. */
INLINE_ON void filters(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall,
                           const int broad, const int side) {
    const struct winograd_filters *f = &op->winograd_filters;
    const int64_t given = f->channels, back = f->back, step = f->step, phases = step * step, depth = f->depth;
    const int64_t ins = depth * (back ? f->filters : phases * given) / NUMBERS;
    const int64_t plane = apart(f->filters * depth * phases * given / NUMBERS);
    const int64_t row = step * side, window = depth * row * row;
    const int past = 4 * tall * broad * plane > LARGE;
    (void)worker;
    for (int64_t part = start; part < stop; part++)
        for (int64_t in = 0; in < (back ? f->filters : given); in += NUMBERS) {
            _Alignas(64) float lanes[NUMBERS][WINDOW * WIDTH];
            for (int which = 0; which < NUMBERS; which++)
                gather(f->w + (back ? (in + which) * given + part * WIDTH : part * WIDTH * given + in + which) * window,
                       4 * (back ? window : given * window), WIDTH, window, lanes[which]);
            for (int64_t number = 0; number < depth * phases; number++) {
                WIDE once[MOST][MOST], column[MOST], cells[NUMBERS][MOST][MOST];
                struct phase at = phase(number * given, given, step);
                int64_t first = (back ? depth - 1 - at.plane : at.plane) * row * row;
                for (int which = 0; which < NUMBERS; which++) {
                    for (int right = 0; right < side; right++) {
                        WIDE line[MOST];
                        for (int down = 0; down < side; down++) {
                            int64_t y = step * (back ? side - 1 - down : down) + at.down;
                            int64_t x = step * (back ? side - 1 - right : right) + at.right;
                            column[down] = LOAD(lanes[which] + (first + y * row + x) * WIDTH);
                        }
                        evaluate(column, line, tall, side, 1);
                        for (int down = 0; down < tall; down++) once[down][right] = line[down];
                    }
                    for (int down = 0; down < tall; down++) evaluate(once[down], cells[which][down], broad, side, 1);
                }
                int64_t line = back ? (number % phases * given / WIDTH + part) * ins + (at.plane * f->filters + in) / NUMBERS
                                    : part * ins + (number * given + in) / NUMBERS;
                float *to = f->tiled + line * WIDTH;
                for (int down = 0; down < tall; down++, to += broad * plane)
                    for (int right = 0; right < broad; right++) {
                        WIDE words = words_of(cells[0][down][right], cells[NUMBERS - 1][down][right]);
                        if (past)
                            STREAM(to + right * plane, words);
                        else
                            STORE(to + right * plane, words);
                    }
            }
        }
    if (past) _mm_sfence(); /* other threads see what was written straight to memory */
}

/* The channels of the next register. */
static inline void step_on(struct phase *at, const struct images *s) {
    if ((at->channel += WIDTH) < s->channels) return;
    at->channel = 0;
    if (++at->right < s->step) return;
    at->right = 0;
    if (++at->down < s->step) return;
    at->down = 0, at->plane++;
}

/* Where the channels of a register are in a plane, or -1 if there is no such plane; `top` and `left` become those of a
 * tile whose numbers, or results, begin there. */
static inline int64_t corner(const struct images *s, struct phase at, struct origin begin, int64_t *top, int64_t *left) {
    int64_t plane = begin.plane + at.plane - s->before;
    *top = s->step * begin.row + at.down - s->above, *left = s->step * begin.column + at.right - s->beside;
    if ((uint64_t)plane >= (uint64_t)s->deep) return -1;
    return begin.image * s->image + at.channel / WIDTH * s->part + plane * s->plane;
}

/* A tile of x of the channels of a register; if `is_bad` is not NULL, numbers that are not finite become 0, and are noted
 * there. */
INLINE_ON void read_tile(const void *x, const struct images *s, struct phase phase, struct origin begin, float *to,
                             int64_t plane, uint8_t (*is_bad)[MOST], const int tall, const int broad) {
    WIDE once[MOST][MOST], cells[MOST];
    int64_t top, left, at = corner(s, phase, begin, &top, &left);
    if (at < 0) {
        for (int cell = 0; cell < tall * broad; cell++) write_cell(to + cell * plane, ZERO());
        return;
    }
    int inside = top >= 0 && left >= 0 && top + s->step * (tall - 1) < s->height && left + s->step * (broad - 1) < s->width;
    for (int right = 0; right < broad; right++) {
        WIDE lines[MOST];
        for (int down = 0; down < tall; down++) {
            int64_t i = top + s->step * down, j = left + s->step * right;
            int there = inside || ((uint64_t)i < (uint64_t)s->height && (uint64_t)j < (uint64_t)s->width);
            lines[down] = there ? read_numbers(x, at + i * s->row + j * s->pixel) : ZERO();
            if (is_bad) lines[down] = only_finite(lines[down], &is_bad[down][right]);
        }
        transform(lines, cells, tall);
        for (int down = 0; down < tall; down++) once[down][right] = cells[down];
    }
    for (int down = 0; down < tall; down++, to += broad * plane) {
        transform(once[down], cells, broad);
        for (int right = 0; right < broad; right++) write_cell(to + right * plane, cells[right]);
    }
}

#if PAIRED
#define DOT(sum, one, other) _mm512_dpbf16_ps(sum, (__m512bh)(one), (__m512bh)(other))
#else
#define DOT(sum, one, other) FMA(one, other, sum)
#endif

/* Twelve tiles times 32 filters, or 16. Sums of so many channels are added up, since one sum of all would lose digits, but
 * none that bf16 has. */
enum { TOGETHER = 32 };

INLINE_ON void multiply(const float *u, const float *v, const float *next, float *m, int64_t words, const int wide) {
    const int64_t row = row_of(words), together = NARROW ? words : TOGETHER;
    for (int64_t begin = 0; begin < words; begin += together) {
        WIDE sums[TILES][2];
        for (int tile = 0; tile < TILES; tile++)
            for (int half = 0; half <= wide; half++) sums[tile][half] = ZERO();
        for (int64_t word = begin; word < smaller(begin + together, words); word++) {
            WIDE weights[2];
            for (int half = 0; half <= wide; half++) {
                if (next) __builtin_prefetch(next + (half * words + word) * WIDTH, 0, 2);
                weights[half] = LOAD(v + (half * words + word) * WIDTH);
            }
            for (int tile = 0; tile < TILES; tile++) {
                WIDE number = EACH(&u[tile * row + word]);
                for (int half = 0; half <= wide; half++) sums[tile][half] = DOT(sums[tile][half], number, weights[half]);
            }
        }
        for (int tile = 0; tile < TILES; tile++)
            for (int half = 0; half <= wide; half++) {
                float *to = m + (tile * 2 + half) * WIDTH;
                STORE(to, begin ? ADD(LOAD(to), sums[tile][half]) : sums[tile][half]);
            }
    }
}

/* Functions of their own: among other code the compiler would keep weights in memory instead of registers. */
ON static __attribute__((noinline)) void product_of_16(const float *u, const float *v, float *m, int64_t words) {
    multiply(u, v, 0, m, words, 0);
}

ON static __attribute__((noinline)) void product_of_32(const float *u, const float *v, float *m, int64_t words) {
    multiply(u, v, 0, m, words, 1);
}

/* Where tiles are few, products wait for weights: the next ones are fetched meanwhile. */
ON static __attribute__((noinline)) void product_and_fetch(const float *u, const float *v, const float *next, float *m, int64_t words) {
    multiply(u, v, next, m, words, 1);
}

/* The results of a tile of 16 filters; returns whether one is NaN. If `is_bad` is not NULL, those become NaN whose windows
 * have such a number. */
INLINE_ON int write_tile(const struct winograd *o, const struct images *s, const float *m, int64_t plane, int64_t part,
                             struct origin begin, uint8_t (*is_bad)[MOST], const int tall, const int broad, const int side) {
    const int rows = tall + 1 - side, columns = broad + 1 - side;
    int with_nan = 0;
    const WIDE bias = o->bias ? LOAD(o->bias + part * WIDTH) : ZERO();
    WIDE once[RESULTS][MOST], cells[MOST], line[RESULTS];
    int64_t top, left, at = corner(s, (struct phase){.channel = part * WIDTH}, begin, &top, &left);
    for (int right = 0; right < broad; right++) {
        for (int down = 0; down < tall; down++) cells[down] = LOAD(m + (down * broad + right) * plane);
        combine(cells, line, tall, rows, 0);
        for (int down = 0; down < rows; down++) once[down][right] = line[down];
    }
    for (int down = 0; down < rows; down++) {
        int64_t i = top + s->step * down;
        if ((uint64_t)i >= (uint64_t)s->height) continue;
        combine(once[down], line, broad, columns, 0);
        for (int right = 0; right < columns; right += 2) with_nan |= has_nan(line[right], line[right + 1]);
        for (int right = 0; right < columns; right++) {
            int64_t j = left + s->step * right;
            if ((uint64_t)j >= (uint64_t)s->width) continue;
            WIDE sum = ADD(line[right], bias);
            for (int cell = 0; is_bad && cell < side * side; cell++)
                if (is_bad[down + cell / side][right + cell % side]) sum = ALL(NAN);
            const int64_t pixel = at + i * s->row + j * s->pixel;
            if (o->other) sum = ADD(sum, read_numbers(o->other, pixel));
            if (o->relu) sum = MAX(ZERO(), sum);
            write_numbers(o->y, pixel, sum);
        }
    }
    return with_nan;
}
/* Once more a tile that has a NaN. With two results in a row it gets only where the windows have one: the first and the last
 * number of a row are in no other result. Of four it gets into all of them. */
INLINE_ON void write_apart(const struct convolution *w, const struct winograd *o, const float *v, int64_t plane_of_v,
                               struct origin at, float *u, int64_t plane, float *m, int64_t plane_of_m, const int tall, const int broad,
                               const int side) {
    uint8_t is_bad[MOST][MOST] = {{0}};
    struct phase phase = {0};
    for (int64_t part = 0; part < w->channels / WIDTH; part++, step_on(&phase, &w->in))
        read_tile(o->x, &w->in, phase, at, u + part * WIDTH / NUMBERS, plane, is_bad, tall, broad);
    const int64_t words = w->channels / NUMBERS;
    for (int64_t part = 0; part < w->filters / WIDTH; part++) {
        for (int64_t cell = 0; cell < tall * broad; cell++)
            product_of_16(u + cell * plane, v + cell * plane_of_v + part * words * WIDTH, m + cell * plane_of_m, words);
        write_tile(o, &w->out, m, plane_of_m, part, at, is_bad, tall, broad, side);
    }
}

/* y = x * w + b + other, and ReLU behind it. Scratch for each worker: what tiles become, and their results. Pieces are so many tiles
 * as there is room for, of one phase after the other. A cell of them, which is in a cache then, is multiplied by some panels of 32
 * filters, before the next cell is. */
INLINE_ON void strips(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                          const int side) {
    struct convolution w = convolution(&op->winograd, WIDTH);
    const int cells = tall * broad;
    const int64_t words = w.channels / NUMBERS, parts = w.filters / WIDTH;
    int64_t row = row_of(words), plane = apart(w.room * row), plane_of_m = apart(w.room * 2 * WIDTH);
    int64_t plane_of_v = apart(w.phases * w.filters * words);
    const int64_t panels = op->winograd.panels;
    float *u = op->winograd.scratch + worker * cells * (plane + panels * plane_of_m), *m = u + cells * plane;
    for (int64_t strip = start; strip < stop; strip++) {
        int64_t number = strip / pieces(&w), begin = strip % pieces(&w) * w.room, count = smaller(w.room, w.tiles - begin);
        const float *v = op->winograd.w + number * w.filters * words;
        if (w.phases > 1) turn_to(&w, &op->winograd, number);
        uint64_t with_nan = 0;
        struct origin at[MOST_OF_A_STRIP];
        for (int64_t tile = 0; tile < count; tile++) {
            at[tile] = origin(&w, begin + tile);
            struct phase phase = {0};
            for (int64_t part = 0; part < w.channels / WIDTH; part++, step_on(&phase, &w.in))
                read_tile(op->winograd.x, &w.in, phase, at[tile], u + tile * row + part * WIDTH / NUMBERS, plane, NULL, tall,
                          broad);
        }
        for (int64_t first = 0; first < parts; first += 2 * panels) {
            const int64_t last = smaller(first + 2 * panels, parts);
            for (int64_t cell = 0; cell < cells; cell++)
                for (int64_t part = first; part < last; part += 2) {
                    const float *weights = v + cell * plane_of_v + part * words * WIDTH;
                    float *to = m + (cell * panels + (part - first) / 2) * plane_of_m;
                    if (count <= TILES && part + 1 < last) {
                        const float *next = part + 2 < last ? weights + 2 * words * WIDTH
                                                            : v + (cell + 1) * plane_of_v + first * words * WIDTH;
                        product_and_fetch(u + cell * plane, weights, next, to, words);
                        continue;
                    }
                    for (int64_t tile = 0; tile < count; tile += TILES)
                        (part + 1 < last ? product_of_32 : product_of_16)(u + cell * plane + tile * row, weights,
                                                                          to + tile * 2 * WIDTH, words);
                }
            for (int64_t tile = 0; tile < count; tile++)
                for (int64_t part = first; part < last; part++) {
                    const float *from = m + (part - first) / 2 * plane_of_m + (tile * 2 + (part - first) % 2) * WIDTH;
                    if (write_tile(&op->winograd, &w.out, from, panels * plane_of_m, part, at[tile], NULL, tall, broad, side))
                        with_nan |= 1ull << tile;
                }
        }
        for (int64_t tile = 0; (tall > side + 1 || broad > side + 1) && with_nan >> tile && tile < count; tile++)
            if (with_nan >> tile & 1)
                write_apart(&w, &op->winograd, v, plane_of_v, at[tile], u, plane, m, plane_of_m, tall, broad, side);
    }
}
/* The gradients of a tile's results of 16 filters, of which so many rows and columns are there; their sum is the last cell. */
INLINE_ON void read_top(const void *dy, int64_t at, const struct images *s, int64_t rows_there, int64_t columns_there, float *to,
                            int64_t plane, const int tall, const int broad, const int side) {
    const int rows = tall + 1 - side, columns = broad + 1 - side;
    WIDE once[MOST][RESULTS], line[RESULTS], cells[MOST], sum = ZERO();
    for (int right = 0; right < columns; right++) {
        for (int row = 0; row < rows; row++) {
            int there = row < rows_there && right < columns_there;
            line[row] = there ? read_numbers(dy, at + row * s->row + right * s->pixel) : ZERO();
            sum = ADD(sum, line[row]);
        }
        evaluate(line, cells, tall, rows, 0);
        for (int down = 0; down < tall; down++) once[down][right] = cells[down];
    }
    for (int down = 0; down < tall; down++, to += broad * plane) {
        evaluate(once[down], cells, broad, columns, 0);
        for (int right = 0; right < broad; right++) write_cell(to + right * plane, cells[right]);
    }
    STORE(to, sum);
}

#if PAIRED
/* The cells of two tiles as words; of what is behind them the sum. */
INLINE_ON void pair_cells(const float (*cells)[(MOST * MOST + 1) * WIDTH], int64_t count, int sum, float *to, int64_t plane) {
    for (int64_t cell = 0; cell < count; cell++, to += plane)
        STORE(to, pair(read_narrow(cells[0] + cell * WIDTH), read_narrow(cells[1] + cell * WIDTH)));
    if (sum) STORE(to, ADD(LOAD(cells[0] + count * WIDTH), LOAD(cells[1] + count * WIDTH)));
}
#endif

/* The gradients of filters and bias. Scratch: the sums of a worker, for each worker, or one for all. Pieces are tiles, or
 * pairs of them, here, ... */
INLINE_ON void both(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                        const int side) {
    struct convolution w = convolution(&op->winograd, WIDTH);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, tall * broad);
    (void)worker;
    const struct winograd *o = &op->winograd;
    for (int64_t piece = start; piece < stop; piece++) {
        struct origin at[NUMBERS];
        int64_t top[NUMBERS], first = o->first + piece * NUMBERS;
        for (int which = 0; which < NUMBERS; which++) {
            struct origin one = at[which] = origin(&w, first + which);
            top[which] = one.image * w.out.image + one.plane * w.out.plane + one.row * w.out.row + one.column * w.out.pixel;
        }
#if PAIRED
        _Alignas(64) float cells[NUMBERS][(MOST * MOST + 1) * WIDTH];
        const int count = first + 1 < o->end ? NUMBERS : 1;
        if (count < NUMBERS) memset(cells[1], 0, sizeof cells[1]);
        struct phase phase = {0};
        for (int64_t part = 0; part < w.channels / WIDTH; part++, step_on(&phase, &w.in)) {
            for (int which = 0; which < count; which++)
                read_tile(o->x, &w.in, phase, at[which], cells[which], WIDTH, NULL, tall, broad);
            pair_cells(cells, tall * broad, 0, s.u + piece * row_of(w.channels) + part * WIDTH, s.plane_of_u);
        }
        for (int64_t part = 0; part < w.filters / WIDTH; part++) {
            for (int which = 0; which < count; which++)
                read_top(o->dy, top[which] + part * w.out.part, &w.out, w.out.height - at[which].row,
                         w.out.width - at[which].column, cells[which], WIDTH, tall, broad, side);
            pair_cells(cells, tall * broad, 1, s.e + piece * row_of(w.filters) + part * WIDTH, s.plane_of_e);
        }
#else
        struct phase phase = {0};
        for (int64_t part = 0; part < w.channels / WIDTH; part++, step_on(&phase, &w.in))
            read_tile(o->x, &w.in, phase, *at, s.u + piece * row_of(w.channels) + part * WIDTH, s.plane_of_u, NULL, tall, broad);
        for (int64_t part = 0; part < w.filters / WIDTH; part++)
            read_top(o->dy, *top + part * w.out.part, &w.out, w.out.height - at->row, w.out.width - at->column,
                     s.e + piece * row_of(w.filters) + part * WIDTH, s.plane_of_e, tall, broad, side);
#endif
    }
}

/* Eight filters times 16, 32 or 48 channels, over some tiles; what was added up before is added last. */
INLINE_ON void outer(const float *u, const float *e, float *sums, int64_t tiles, int64_t channels, int64_t filters, int fresh,
                         const int parts) {
    WIDE kept[HIGH][3];
    for (int f = 0; f < HIGH; f++)
        for (int part = 0; part < parts; part++) kept[f][part] = ZERO();
    for (int64_t tile = 0; tile < tiles; tile++, u += row_of(channels), e += row_of(filters)) {
        WIDE x[3];
        for (int part = 0; part < parts; part++) x[part] = LOAD(u + part * WIDTH);
        for (int f = 0; f < HIGH; f++) {
            WIDE top = EACH(&e[f]);
            for (int part = 0; part < parts; part++) kept[f][part] = DOT(kept[f][part], top, x[part]);
        }
    }
    for (int f = 0; f < HIGH; f++)
        for (int part = 0; part < parts; part++) {
            float *sum = sums + f * channels + part * WIDTH;
            STORE(sum, fresh ? kept[f][part] : ADD(LOAD(sum), kept[f][part]));
        }
}

/* ... a cell of eight filters here, ... */
INLINE_ON void add_products(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                                const int side) {
    struct convolution w = convolution(&op->winograd, WIDTH);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, tall * broad);
    int64_t tiles = pieces_of(op->winograd.end - op->winograd.first, NUMBERS), eights = w.filters / HIGH;
    int fresh = op->winograd.fresh != 0;
    (void)worker, (void)side;
    for (int64_t task = start; task < stop; task++) {
        int64_t cell = task / eights, filter = task % eights * HIGH;
        const float *u = s.u + cell * s.plane_of_u, *e = s.e + cell * s.plane_of_e + filter;
        float *products = s.products + cell * s.plane + filter * w.channels;
        for (int64_t part = 0, left = w.channels / WIDTH; left;) {
            int64_t parts = pieces_of(left, pieces_of(left, 3)); /* threes, but no ones if it can be */
            const float *x = u + part * WIDTH;
            float *to = products + part * WIDTH;
            switch (parts) {
            case 1: outer(x, e, to, tiles, w.channels, w.filters, fresh, 1); break;
            case 2: outer(x, e, to, tiles, w.channels, w.filters, fresh, 2); break;
            default: outer(x, e, to, tiles, w.channels, w.filters, fresh, 3);
            }
            part += parts, left -= parts;
        }
        const float *last = s.e + tall * broad * s.plane_of_e + filter;
        for (int64_t f = 0; cell == 0 && f < HIGH; f++) {
            double sum = fresh ? 0 : s.tops[filter + f];
            for (int64_t tile = 0; tile < tiles; tile++) sum += last[tile * row_of(w.filters) + f];
            s.tops[filter + f] = (float)sum;
        }
    }
}

/* ... and filters here, whose sums of all workers are added up. */
INLINE_ON void filters_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                                const int side) {
    struct convolution w = convolution(&op->winograd, WIDTH);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, tall * broad);
    const int64_t given = w.in.channels, step = w.in.step, row = step * side, window = op->winograd.depth * row * row;
    int64_t workers = larger(op->workers, 1);
    (void)worker;
    for (int64_t filter = start; filter < stop; filter++) {
        for (int64_t begin = 0; begin < given; begin += WIDTH) {
            _Alignas(64) float lanes[WINDOW * WIDTH];
            for (int64_t channel = begin; channel < w.channels; channel += given) {
                const float *products = s.products + filter * w.channels + channel;
                WIDE once[MOST][MOST], column[MOST], numbers[MOST];
                struct phase at = phase(channel, given, step);
                for (int right = 0; right < broad; right++) {
                    for (int down = 0; down < tall; down++) {
                        const float *cell = products + (down * broad + right) * s.plane;
                        _mm_prefetch((const char *)(cell + FURTHER), _MM_HINT_T0);
                        column[down] = LOAD(cell);
                        for (int64_t worker = 1; worker < workers; worker++)
                            column[down] = ADD(column[down], LOAD(cell + worker * s.size));
                    }
                    combine(column, numbers, tall, side, 1);
                    for (int down = 0; down < side; down++) once[down][right] = numbers[down];
                }
                for (int down = 0; down < side; down++) {
                    combine(once[down], numbers, broad, side, 1);
                    for (int right = 0; right < side; right++)
                        STORE(
                            lanes + ((at.plane * row + step * down + at.down) * row + step * right + at.right) * WIDTH,
                            numbers[right]);
                }
            }
            scatter(lanes, op->winograd.dw + (filter * given + begin) * window, window, WIDTH, window);
        }
        float sum = 0;
        for (int64_t worker = 0; worker < workers; worker++) sum += s.tops[worker * s.size + filter];
        if (op->winograd.db) op->winograd.db[filter] = sum;
    }
}

/* The first two, all by one worker, over its share of the tiles. Pieces are workers. */
INLINE_ON void alone(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                         const int side) {
    struct convolution w = convolution(&op->winograd, WIDTH);
    for (int64_t one = start; one < stop; one++) {
        int64_t end = w.tiles * (one + 1) / op->workers, from = w.tiles * one / op->workers;
        struct operation mine = *op;
        mine.winograd.scratch = sums_of(&w, op->winograd.scratch, one, tall * broad).u;
        for (int64_t begin = from; begin < end || begin == from; begin += w.room) {
            mine.winograd.first = begin, mine.winograd.end = smaller(begin + w.room, end), mine.winograd.fresh = begin == from;
            both(&mine, 0, pieces_of(mine.winograd.end - begin, NUMBERS), worker, tall, broad, side);
            add_products(&mine, 0, tall * broad * w.filters / HIGH, worker, tall, broad, side);
        }
    }
}

#define FOR(work, tall, broad, side)                                                                                   \
    ON static void work##_##tall##broad##side(const struct operation *op, int64_t start, int64_t stop, int64_t worker) { \
        work(op, start, stop, worker, tall, broad, side);                                                              \
    }
#if PAIRED
#define FOR_TILES(work) FOR(work, 3, 3, 2) FOR(work, 4, 4, 3)
#define OF_TILES(work) {work##_332, work##_443}
#else
#define FOR_TILES(work)                                                                                                \
    FOR(work, 3, 3, 2) FOR(work, 4, 4, 3) FOR(work, 5, 5, 2) FOR(work, 6, 4, 3) FOR(work, 6, 6, 3) FOR(work, 6, 6, 5)
#define OF_TILES(work) {work##_332, work##_443, work##_552, work##_643, work##_663, work##_665}
#endif

FOR_TILES(filters)
FOR_TILES(strips)
FOR_TILES(both)
FOR_TILES(add_products)
FOR_TILES(filters_back)
FOR_TILES(alone)

#define LOOPS                                                                                                          \
    {                                                                                                                  \
        .lanes = WIDTH, .filters = OF_TILES(filters), .strips = OF_TILES(strips), .both = OF_TILES(both),              \
        .add_products = OF_TILES(add_products), .filters_back = OF_TILES(filters_back), .alone = OF_TILES(alone),      \
    }
