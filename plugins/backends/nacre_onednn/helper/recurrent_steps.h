/* The loops of recurrent.c for one type of numbers; recurrent_loops.h includes this file once for each, with
 *
 * NARROW     1 where states and gradients are of bf16, else 0; `number` is their type
 * ON_STEPS   the target's attribute; NAME(x) is a name of its own
 * PRODUCT    (sum, one, other) is the sum and the products of the words of two registers
 *
 * A word is a number of float32, or a pair of bf16.
 */

#define INLINE_STEPS static inline __attribute__((always_inline)) ON_STEPS
#define STEP (1 + NARROW) /* numbers in a word */

/* Rows of a product: a as (length, WIDTH) words; a panel of b, PANEL columns for each word; rows of c, so far apart. */
struct NAME(product) {
    const float *a, *b;
    float *c;
    int64_t length, apart, adds; /* adds: whether c has something that they are added to */
};

INLINE_STEPS void NAME(tile)(const struct NAME(product) *p, const int rows) {
    WIDE sums[HEIGHT][2];
    for (int row = 0; row < rows; row++) {
        sums[row][0] = sums[row][1] = ZERO();
        for (int line = 0; line < PANEL; line += IN_LINE) __builtin_prefetch(p->c + row * p->apart + line, 1);
    }
    for (int64_t k = 0; k < p->length; k++) {
        WIDE left = LOAD(p->b + k * PANEL), right = LOAD(p->b + k * PANEL + WIDTH);
        for (int row = 0; row < rows; row++) {
            WIDE word = EACH(p->a + k * WIDTH + row);
            sums[row][0] = PRODUCT(sums[row][0], word, left), sums[row][1] = PRODUCT(sums[row][1], word, right);
        }
    }
    for (int row = 0; row < rows; row++) {
        float *c = p->c + row * p->apart;
        STORE(c, p->adds ? ADD(LOAD(c), sums[row][0]) : sums[row][0]);
        STORE(c + WIDTH, p->adds ? ADD(LOAD(c + WIDTH), sums[row][1]) : sums[row][1]);
    }
}

#define OF_HEIGHT(rows) ON_STEPS static void NAME(tile_of_##rows)(const struct NAME(product) *p) { NAME(tile)(p, rows); }
ALL_HEIGHTS(OF_HEIGHT)
#define BY_HEIGHT(rows) , NAME(tile_of_##rows)
static void (*const NAME(tiles)[])(const struct NAME(product) *) = {0 ALL_HEIGHTS(BY_HEIGHT)};
#undef OF_HEIGHT
#undef BY_HEIGHT

/* The products of `rows` rows, whose tiles are so far apart in a. */
ON_STEPS static void NAME(multiply)(const struct NAME(product) *p, int64_t rows, int64_t apart) {
    const int64_t all = pieces_of(rows, HEIGHT);
    for (int64_t begin = 0; begin < p->length; begin += DEPTH)
        for (int64_t tile = 0; tile < all; tile++) {
            int64_t row = first_row(rows, all, tile);
            struct NAME(product) here = {
                p->a + tile * apart + begin * WIDTH, p->b + begin * PANEL, p->c + row * p->apart,
                smaller(DEPTH, p->length - begin), p->apart, p->adds || begin,
            };
            NAME(tiles)[first_row(rows, all, tile + 1) - row](&here);
        }
}

/* Rows of so many numbers, `apart` from one another, as tiles. */
ON_STEPS static void NAME(turn)(const number *from, int64_t apart, int64_t rows, int64_t length, float *to, int64_t tile_apart) {
    const int64_t all = pieces_of(rows, HEIGHT), words = length / STEP;
    for (int64_t tile = 0; tile < all; tile++, to += tile_apart) {
        int64_t row = first_row(rows, all, tile), count = first_row(rows, all, tile + 1) - row;
        gather(from + row * apart, apart * (int64_t)sizeof *from, count, words, to);
        for (int64_t one = 0; words * STEP < length && one < count; one++) { /* the last number makes a pair with 0 */
            const uint32_t last = ((const uint16_t *)from)[(row + one) * apart + length - 1];
            memcpy(to + words * WIDTH + one, &last, sizeof last);
        }
    }
}

/* Numbers from `at` on: as many as a register holds, or `count` if those are fewer, and else 0. */
INLINE_STEPS WIDE NAME(some)(const void *numbers, int64_t at, int64_t count) {
#if !NARROW
    return load_first((const float *)numbers + at, count);
#elif BITS == 256
    uint16_t part[WIDTH] = {0};
    memcpy(part, (const uint16_t *)numbers + at, (size_t)smaller(count, WIDTH) * sizeof *part);
    return (WIDE)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)part)), 16);
#else
    const __m256i part = _mm256_maskz_loadu_epi16(mask_of(count), (const uint16_t *)numbers + at);
    return (WIDE)_mm512_slli_epi32(_mm512_cvtepu16_epi32(part), 16);
#endif
}

/* Write them. Those of bf16 are rounded to the nearest, of two to the even one. */
INLINE_STEPS void NAME(set)(void *numbers, int64_t at, int64_t count, WIDE values) {
#if !NARROW
    store_first((float *)numbers + at, count, values);
#elif BITS == 256
    for (int64_t one = 0; one < smaller(count, WIDTH); one++) put(numbers, at + one, values[one], 1);
#else
    _mm256_mask_storeu_epi16((uint16_t *)numbers + at, mask_of(count), (__m256i)_mm512_cvtneps_pbh(values));
#endif
}

/* The arrays of a row at a step; `next` is the step that follows, in the order in which they are taken. */
struct NAME(cells) {
    const float *inputs;   /* the products with x */
    const float *products; /* those with the state of the units in question, and of the next block so far apart */
    int64_t apart;
    const float *bias;    /* GRU: of the product that r multiplies, or NULL */
    float *cell;          /* LSTM: the cell, which is replaced */
    number *gates;        /* what backward reads: the gates, which may lie where the products with x do, */
    number *reset;        /* GRU: the product that r multiplies, */
    float *kept;          /* LSTM: the cell */
    number *curve;        /* and its tanh */
    number *y;
    number *after;  /* the state, for the next step */
    number *before; /* the same, kept for backward */
    const number *old;
};

/* The state h of a row, for `count` units from u on; `keep`: what backward needs is written. */
INLINE_STEPS void NAME(activate)(const struct NAME(cells) *s, int64_t hidden, int64_t start, int64_t u, int64_t count,
                                 const int cell, const int keep) {
    const float *z = s->inputs + u;
    const float *m = s->products + u - start;
    WIDE h, sums[4];
    for (int block = 0; block < (cell == CELL_LSTM ? 4 : cell == CELL_GRU ? 2 : 1); block++)
        sums[block] = load_first(z + block * hidden, count) + LOAD(m + block * s->apart);
    if (cell == CELL_LSTM) {
        WIDE i = wide_logistic(sums[0]), f = wide_logistic(sums[1]), g = wide_tanh(sums[2]), o = wide_logistic(sums[3]);
        WIDE c = f * load_first(s->cell + u, count) + i * g, t = wide_tanh(c);
        h = o * t;
        store_first(s->cell + u, count, c);
        if (keep) {
            WIDE gates[] = {i, f, g, o};
            for (int block = 0; block < 4; block++) NAME(set)(s->gates, block * hidden + u, count, gates[block]);
            store_first(s->kept + u, count, c);
            NAME(set)(s->curve, u, count, t);
        }
    } else if (cell == CELL_GRU) {
        WIDE r = wide_logistic(sums[0]), e = wide_logistic(sums[1]), product = LOAD(m + 2 * s->apart);
        if (s->bias) product += load_first(s->bias + u, count);
        WIDE n = wide_tanh(load_first(z + 2 * hidden, count) + r * product);
        h = n + e * (NAME(some)(s->old, u, count) - n);
        if (keep) {
            WIDE gates[] = {r, e, n};
            for (int block = 0; block < 3; block++) NAME(set)(s->gates, block * hidden + u, count, gates[block]);
            NAME(set)(s->reset, u, count, product);
        }
    } else {
        h = cell == CELL_TANH ? wide_tanh(sums[0]) : MAX(ZERO(), sums[0]);
    }
    NAME(set)(s->y, u, count, h);
    NAME(set)(s->after, u, count, h);
    if (keep) NAME(set)(s->before, u, count, h);
}

/* The same for units from `start` to `stop`. */
#define ACTIVATE(name, cell, keep)                                                                                     \
    ON_STEPS static void NAME(name)(const struct NAME(cells) *s, int64_t hidden, int64_t start, int64_t stop) {              \
        int64_t u = start;                                                                                             \
        for (; u + WIDTH <= stop; u += WIDTH) NAME(activate)(s, hidden, start, u, WIDTH, cell, keep);                  \
        if (u < stop) NAME(activate)(s, hidden, start, u, stop - u, cell, keep);                                       \
    }
ACTIVATE(lstm, CELL_LSTM, 0)
ACTIVATE(gru, CELL_GRU, 0)
ACTIVATE(tanh, CELL_TANH, 0)
ACTIVATE(relu, CELL_RELU, 0)
ACTIVATE(lstm_kept, CELL_LSTM, 1)
ACTIVATE(gru_kept, CELL_GRU, 1)
ACTIVATE(tanh_kept, CELL_TANH, 1)
ACTIVATE(relu_kept, CELL_RELU, 1)
#undef ACTIVATE
typedef void NAME(activate_t)(const struct NAME(cells) *, int64_t hidden, int64_t start, int64_t stop);
static NAME(activate_t) *const NAME(activations)[][2] = {
    [CELL_TANH] = {NAME(tanh), NAME(tanh_kept)}, [CELL_RELU] = {NAME(relu), NAME(relu_kept)},
    [CELL_GRU] = {NAME(gru), NAME(gru_kept)}, [CELL_LSTM] = {NAME(lstm), NAME(lstm_kept)},
};

/* What a row has at a step, but for the products. */
static inline struct NAME(cells) NAME(cells_of)(const struct recurrent *o, int64_t n, int64_t step, number *old, number *new,
                                                float *cell, number *gone) {
    const int64_t hidden = o->hidden, width = padded(hidden), row = row_of(o, n, step);
    const int last = step + 1 == o->steps;
    return (struct NAME(cells)){
        .inputs = o->inputs + row * o->blocks * hidden, .bias = o->bias ? o->bias + 2 * hidden : 0,
        .gates = o->gates ? (number *)o->gates + row * o->blocks * hidden : 0,
        .reset = o->reset ? (number *)o->reset + row * hidden : 0, .cell = cell + n * width,
        .kept = o->cells ? o->cells + row * hidden : 0, .curve = o->curves ? (number *)o->curves + row * hidden : 0,
        .y = (number *)o->y + row * o->y_width + o->y_at, .after = new + n * width, .old = old + n * width,
        .before = o->before && !last ? (number *)o->before + row_of(o, n, step + 1) * hidden : gone,
    };
}

/* A step of a row, for units from `start` to `stop`. */
ON_STEPS static void NAME(one_step)(const struct recurrent *o, const struct NAME(cells) *c, int64_t n, int64_t step, int64_t start,
                                    int64_t stop) {
    if (is_past(o, n, step)) { /* the state stays as it is */
        for (int64_t u = start; u < stop; u++) {
            c->y[u] = 0, c->before[u] = c->after[u] = c->old[u];
            if (o->cells) c->kept[u] = c->cell[u];
        }
        return;
    }
    NAME(activations)[o->cell][!!o->keep](c, o->hidden, start, stop);
    if (step + 1 < o->steps && is_fresh(o, n, step + 1))
        for (int64_t u = start; u < stop; u++) c->after[u] = c->before[u] = 0, c->cell[u] = 0;
}

/* All steps, for some rows and some units of a state. */
ON_STEPS static void NAME(forward)(const struct operation *op, struct share s, struct team *team) {
    const struct recurrent *o = &op->recurrent;
    const int64_t hidden = o->hidden, images = o->images, width = padded(hidden);
    const int64_t panels = pieces_of(hidden, PANEL), start = s.first * PANEL, stop = smaller(s.last * PANEL, hidden);
    number *states[2] = {o->scratch, (number *)o->scratch + images * width};
    float *cell = (float *)(states[1] + images * width);
    number *gone = (number *)(cell + images * width) + s.worker * width; /* the last state, which no step reads */
    for (int64_t n = s.top; n < s.bottom; n++) {
        int fresh = is_fresh(o, n, 0);
        int64_t row = row_of(o, n, 0);
        for (int64_t u = start; u < stop; u++) {
            number h = o->begin && !fresh ? ((const number *)o->begin)[n * o->state_width + o->state_at + u] : 0;
            states[0][n * width + u] = h;
            if (o->before) ((number *)o->before)[row * hidden + u] = h;
            if (o->cell == CELL_LSTM) {
                int64_t at = n * o->state_width + o->state_at + u;
                cell[n * width + u] = o->cell_begin && !fresh ? get(o->cell_begin, at, NARROW) : 0;
            }
        }
        for (int64_t u = hidden; u < width && s.last == panels; u++) states[0][n * width + u] = states[1][n * width + u] = 0;
    }
    const int64_t words = paired(hidden, STEP) / STEP, apart = words * WIDTH + IN_LINE;
    float *a = o->tiles + s.worker * o->room, *products = a + TOGETHER * apart;
    meet(team, s.count);
    for (int64_t step = 0; step < o->steps; step++) {
        number *old = states[step % 2], *new = states[(step + 1) % 2];
        for (int64_t top = s.top; top < s.bottom; top += GROUP) {
            int64_t rows = smaller(GROUP, s.bottom - top);
            NAME(turn)(old + top * width, width, rows, hidden, a, apart);
            /* so many panels that their products stay in a core's cache until they are used */
            int64_t some = larger(RECURRENT_PRODUCTS / (o->blocks * rows * PANEL), 1), stop;
            for (int64_t begin = s.first; begin < s.last; begin = stop) {
                stop = smaller(begin + some, s.last);
                const int64_t columns = (stop - begin) * PANEL;
                for (int64_t panel = begin; panel < stop; panel++)
                    for (int64_t block = 0; block < o->blocks; block++) {
                        const float *w = (const float *)o->w + (panel * o->blocks + block) * words * PANEL;
                        float *c = products + block * rows * columns + (panel - begin) * PANEL;
                        struct NAME(product) p = {a, w, c, words, columns, 0};
                        NAME(multiply)(&p, rows, apart);
                    }
                for (int64_t n = top; n < top + rows; n++) {
                    struct NAME(cells) c = NAME(cells_of)(o, n, step, old, new, cell, gone);
                    c.products = products + (n - top) * columns, c.apart = rows * columns;
                    NAME(one_step)(o, &c, n, step, begin * PANEL, smaller(stop * PANEL, hidden));
                }
            }
        }
        meet(team, s.count);
    }
    for (int64_t n = s.top; n < s.bottom; n++)
        for (int64_t u = start; u < stop; u++) {
            int64_t at = n * o->state_width + o->state_at + u;
            if (o->end) ((number *)o->end)[at] = states[o->steps % 2][n * width + u];
            if (o->cell_end) put(o->cell_end, at, cell[n * width + u], NARROW);
        }
}

struct NAME(slopes) {
    const number *gates, *reset, *curve;
    const float *cell; /* LSTM: the cell that the step has read, or NULL for 0 */
    const number *old; /* the state that it has read */
    const number *y, *dy;
    float *dh, *dc;
    number *dgates, *products;
};

/* The gradients of the gates, for `count` units from u on; dh and dc become what goes to the step before directly. */
INLINE_STEPS void NAME(differentiate)(const struct NAME(slopes) *s, int64_t hidden, int64_t u, int64_t count, const int cell) {
    const WIDE d = load_first(s->dh + u, count) + NAME(some)(s->dy, u, count), one = ALL(1);
    WIDE dh = ZERO(), z[4];
    for (int block = 0; block < (cell == CELL_LSTM ? 4 : cell == CELL_GRU ? 3 : 0); block++)
        z[block] = NAME(some)(s->gates, block * hidden + u, count);
    if (cell == CELL_LSTM) {
        WIDE i = z[0], f = z[1], g = z[2], o = z[3], t = NAME(some)(s->curve, u, count);
        WIDE dc = load_first(s->dc + u, count) + d * o * (one - t * t);
        NAME(set)(s->dgates, u, count, dc * g * (i - i * i));
        NAME(set)(s->dgates, hidden + u, count, dc * load_first(s->cell + u, count) * (f - f * f));
        NAME(set)(s->dgates, 2 * hidden + u, count, dc * i * (one - g * g));
        NAME(set)(s->dgates, 3 * hidden + u, count, d * t * (o - o * o));
        store_first(s->dc + u, count, dc * f);
    } else if (cell == CELL_GRU) {
        WIDE r = z[0], e = z[1], n = z[2];
        WIDE dn = (d - d * e) * (one - n * n), dr = dn * NAME(some)(s->reset, u, count) * (r - r * r);
        WIDE de = d * (NAME(some)(s->old, u, count) - n) * (e - e * e);
        NAME(set)(s->dgates, u, count, dr);
        NAME(set)(s->dgates, hidden + u, count, de);
        NAME(set)(s->dgates, 2 * hidden + u, count, dn);
        NAME(set)(s->products, u, count, dr);
        NAME(set)(s->products, hidden + u, count, de);
        NAME(set)(s->products, 2 * hidden + u, count, dn * r);
        dh = d * e;
    } else {
        WIDE h = NAME(some)(s->y, u, count), slope = one - h * h;
        if (cell == CELL_RELU) slope = one_where_positive(h, ZERO(), 1);
        NAME(set)(s->dgates, u, count, d * slope);
    }
    store_first(s->dh + u, count, dh);
}

/* The same for units from `start` to `stop`. */
#define DIFFERENTIATE(name, cell)                                                                                      \
    ON_STEPS static void NAME(name)(const struct NAME(slopes) *s, int64_t hidden, int64_t start, int64_t stop) {             \
        int64_t u = start;                                                                                             \
        for (; u + WIDTH <= stop; u += WIDTH) NAME(differentiate)(s, hidden, u, WIDTH, cell);                          \
        if (u < stop) NAME(differentiate)(s, hidden, u, stop - u, cell);                                               \
    }
DIFFERENTIATE(lstm_back, CELL_LSTM)
DIFFERENTIATE(gru_back, CELL_GRU)
DIFFERENTIATE(tanh_back, CELL_TANH)
DIFFERENTIATE(relu_back, CELL_RELU)
#undef DIFFERENTIATE
typedef void NAME(differentiate_t)(const struct NAME(slopes) *, int64_t hidden, int64_t start, int64_t stop);
static NAME(differentiate_t) *const NAME(slopes_of)[] = {
    [CELL_TANH] = NAME(tanh_back), [CELL_RELU] = NAME(relu_back), [CELL_GRU] = NAME(gru_back), [CELL_LSTM] = NAME(lstm_back),
};

/* The gradient of the states that step `step` has read, added to dh. */
ON_STEPS static void NAME(through_weights)(const struct recurrent *o, struct share s, int64_t step, float *dh) {
    const int64_t wide = o->blocks * o->hidden, width = padded(o->hidden), room = paired(wide, STEP) / STEP;
    const int64_t image = (row_of(o, 1, 0) - row_of(o, 0, 0)) * wide, apart = DEPTH * WIDTH + IN_LINE;
    const number *products = o->dproducts ? o->dproducts : o->dgates;
    float *a = o->tiles + s.worker * o->room;
    for (int64_t top = s.top; top < s.bottom; top += GROUP)
        for (int64_t begin = 0; begin < wide; begin += DEPTH * STEP) {
            int64_t rows = smaller(GROUP, s.bottom - top), length = smaller(DEPTH * STEP, wide - begin);
            NAME(turn)(products + row_of(o, top, step) * wide + begin, image, rows, length, a, apart);
            for (int64_t panel = s.first; panel < s.last; panel++) {
                const float *w = (const float *)o->w + (panel * room + begin / STEP) * PANEL;
                struct NAME(product) p = {a, w, dh + top * width + panel * PANEL, paired(length, STEP) / STEP, width, 1};
                NAME(multiply)(&p, rows, apart);
            }
        }
}

/* The sums of the gradients of a step, added to `sums`: of all blocks, and for a GRU of the last block of the products. */
ON_STEPS static void NAME(add_up)(const struct recurrent *o, struct share s, int64_t step, double *sums) {
    const int64_t hidden = o->hidden, wide = o->blocks * hidden, stop = smaller(s.last * PANEL, hidden);
    for (int64_t block = 0; block < o->blocks + (o->dproducts ? 1 : 0); block++) {
        const number *from = block < o->blocks ? (const number *)o->dgates + block * hidden
                                               : (const number *)o->dproducts + (o->blocks - 1) * hidden;
        for (int64_t at = s.first * PANEL; at < stop; at += PANEL) {
            float part[PANEL] = {0};
            const int64_t columns = smaller(PANEL, stop - at);
            for (int64_t n = s.top; n < s.bottom; n++) {
                const number *row = from + row_of(o, n, step) * wide + at;
                if (columns == PANEL)
                    for (int i = 0; i < PANEL; i++) part[i] += get(row, i, NARROW);
                else
                    for (int64_t i = 0; i < columns; i++) part[i] += get(row, i, NARROW);
            }
            for (int64_t i = 0; i < columns; i++) sums[block * hidden + at + i] += part[i];
        }
    }
}

ON_STEPS static void NAME(backward)(const struct operation *op, struct share s, struct team *team) {
    const struct recurrent *o = &op->recurrent;
    const int64_t hidden = o->hidden, images = o->images, wide = o->blocks * hidden, width = padded(hidden);
    const int64_t start = s.first * PANEL, stop = smaller(s.last * PANEL, hidden);
    float *dh = o->scratch, *dc = dh + images * width, *zeros = dc + images * width, *first = zeros + width;
    const int64_t size = (o->blocks + 1) * hidden;
    double *all = (double *)(first + images * width), *sums = all + s.worker * size;
    memset(sums, 0, (size_t)size * sizeof *sums);
    for (int64_t u = start; u < stop; u++) zeros[u] = 0;
    for (int64_t n = s.top; n < s.bottom; n++)
        for (int64_t u = start; u < stop; u++) {
            int64_t at = n * o->state_width + o->state_at + u;
            dh[n * width + u] = o->dend ? get(o->dend, at, NARROW) : 0;
            dc[n * width + u] = o->cell_dend ? get(o->cell_dend, at, NARROW) : 0;
            if (o->cell == CELL_LSTM) first[n * width + u] = o->cell_begin ? get(o->cell_begin, at, NARROW) : 0;
        }
    for (int64_t step = o->steps - 1; step >= 0; step--) {
        for (int64_t n = s.top; n < s.bottom; n++) {
            int64_t row = row_of(o, n, step);
            struct NAME(slopes) c = {
                .gates = o->gates ? (const number *)o->gates + row * wide : 0,
                .reset = o->reset ? (const number *)o->reset + row * hidden : 0,
                .curve = o->curves ? (const number *)o->curves + row * hidden : 0, .dh = dh + n * width, .dc = dc + n * width,
                .cell = is_fresh(o, n, step) ? zeros : step ? o->cells + row_of(o, n, step - 1) * hidden : first + n * width,
                .old = (const number *)o->before + row * hidden, .y = (const number *)o->y + row * o->y_width + o->y_at,
                .dy = o->dy ? (const number *)o->dy + row * o->y_width + o->y_at : (const number *)zeros,
                .dgates = (number *)o->dgates + row * wide,
                .products = (number *)o->dproducts + (o->dproducts ? row * wide : 0),
            };
            if (is_past(o, n, step)) { /* the gradient of the state stays as it is */
                for (int64_t block = 0; block < o->blocks; block++)
                    for (int64_t u = start; u < stop; u++) {
                        c.dgates[block * hidden + u] = 0;
                        if (o->dproducts) c.products[block * hidden + u] = 0;
                    }
                continue;
            }
            NAME(slopes_of)[o->cell](&c, hidden, start, stop);
        }
        if (o->dbias || o->dbias_state) NAME(add_up)(o, s, step, sums);
        meet(team, s.count);
        if (step || o->dbegin || o->cell_dbegin) NAME(through_weights)(o, s, step, dh);
        for (int64_t n = s.top; o->marks && n < s.bottom; n++)
            if (is_fresh(o, n, step))
                for (int64_t u = start; u < stop; u++) dh[n * width + u] = dc[n * width + u] = 0;
    }
    for (int64_t n = s.top; n < s.bottom; n++)
        for (int64_t u = start; u < stop; u++) {
            int64_t at = n * o->state_width + o->state_at + u;
            if (o->dbegin) put(o->dbegin, at, dh[n * width + u], NARROW);
            if (o->cell_dbegin) put(o->cell_dbegin, at, dc[n * width + u], NARROW);
        }
    meet(team, s.workers);
    for (int64_t u = wide * s.worker / s.workers; u < wide * (s.worker + 1) / s.workers; u++) {
        double sum = 0, other = 0;
        int64_t aside = u + (o->dproducts && u >= 2 * hidden ? hidden : 0);
        for (int64_t worker = 0; worker < s.workers; worker++)
            sum += all[worker * size + u], other += all[worker * size + aside];
        if (o->dbias) o->dbias[u] = (float)sum;
        if (o->dbias_state) o->dbias_state[u] = (float)other;
    }
}

/* Weights in the order in which products read them: panels of columns, and in each its numbers of a row of states. */
ON_STEPS static void NAME(lay)(const struct operation *op, int64_t from, int64_t to, int64_t worker) {
    const struct recurrent_weights *o = &op->recurrent_weights;
    const int64_t hidden = o->hidden, wide = o->blocks * hidden, length = o->back ? wide : hidden;
    const int64_t blocks = o->back ? 1 : o->blocks, room = paired(length, STEP);
    (void)worker;
    for (int64_t panel = from; panel < to; panel++)
        for (int64_t block = 0; block < blocks; block++) {
            number *packed = (number *)o->packed + (panel * blocks + block) * room * PANEL;
            for (int64_t k = 0; k < room; k++)
                for (int64_t column = 0; column < PANEL; column++) {
                    int64_t unit = panel * PANEL + column, at = k / STEP * STEP * PANEL + column * STEP + k % STEP;
                    int there = k < length && unit < hidden;
                    float w = !there ? 0 : o->back ? o->w[k * hidden + unit] : o->w[(block * hidden + unit) * hidden + k];
                    put(packed, at, w, NARROW);
                }
        }
}

#undef STEP
#undef INLINE_STEPS
