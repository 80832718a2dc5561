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
    const int64_t all = tiles_of(rows, HEIGHT);
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
    const int64_t all = tiles_of(rows, HEIGHT), words = length / STEP;
    for (int64_t tile = 0; tile < all; tile++, to += tile_apart) {
        int64_t row = first_row(rows, all, tile), count = first_row(rows, all, tile + 1) - row;
        gather(from + row * apart, apart * (int64_t)sizeof *from, count, words, to);
        for (int64_t one = 0; words * STEP < length && one < count; one++) { /* the last number makes a pair with 0 */
            const uint32_t last = ((const uint16_t *)from)[(row + one) * apart + length - 1];
            memcpy(to + words * WIDTH + one, &last, sizeof last);
        }
    }
}

/* The arrays of a row at a step; `next` is the step that follows, in the order in which they are taken. */
struct NAME(cells) {
    float *restrict gates;          /* the products with x, and then the gates */
    const float *restrict products; /* those with the state of the units in question, and of the next block so far apart */
    int64_t apart;
    const float *restrict bias; /* GRU: of the product that r multiplies, or NULL; and this product, if it is kept */
    float *restrict reset;
    float *restrict cell;    /* LSTM: the cell, which is replaced */
    float *restrict kept;    /* what backward reads besides: the cell and its tanh */
    float *restrict curve;
    number *restrict y;
    number *restrict after;  /* the state, for the next step */
    number *restrict before; /* the same, kept for backward */
    const number *restrict old;
};

/* The state h of a row, for units from `start` to `stop`; `keep`: what backward needs is written. */
INLINE_STEPS void NAME(activate)(struct NAME(cells) s, int64_t hidden, int64_t start, int64_t stop, const int cell,
                                 const int keep) {
    float *restrict z = s.gates;
    const float *restrict m = s.products - start;
#pragma GCC ivdep
    for (int64_t u = start; u < stop; u++) {
        float h;
        if (cell == CELL_LSTM) {
            float i = logistic(z[u] + m[u]), f = logistic(z[hidden + u] + m[s.apart + u]);
            float g = hyperbolic_tangent(z[2 * hidden + u] + m[2 * s.apart + u]);
            float o = logistic(z[3 * hidden + u] + m[3 * s.apart + u]);
            float c = f * s.cell[u] + i * g, t = hyperbolic_tangent(c);
            h = o * t;
            s.cell[u] = c;
            if (keep) z[u] = i, z[hidden + u] = f, z[2 * hidden + u] = g, z[3 * hidden + u] = o, s.kept[u] = c, s.curve[u] = t;
        } else if (cell == CELL_GRU) {
            float r = logistic(z[u] + m[u]), e = logistic(z[hidden + u] + m[s.apart + u]);
            float product = m[2 * s.apart + u] + (s.bias ? s.bias[u] : 0);
            float n = hyperbolic_tangent(z[2 * hidden + u] + r * product);
            h = n + e * (get(s.old, u, NARROW) - n);
            if (keep) z[u] = r, z[hidden + u] = e, z[2 * hidden + u] = n, s.reset[u] = product;
        } else {
            float sum = z[u] + m[u];
            h = cell == CELL_TANH ? hyperbolic_tangent(sum) : sum < 0 ? 0 : sum;
        }
        put(s.y, u, h, NARROW);
        put(s.after, u, h, NARROW);
        if (keep) put(s.before, u, h, NARROW);
    }
}

#define ACTIVATE(name, cell)                                                                                           \
    ON_STEPS static void NAME(name)(struct NAME(cells) s, int64_t hidden, int64_t start, int64_t stop, int keep) {           \
        if (keep)                                                                                                      \
            NAME(activate)(s, hidden, start, stop, cell, 1);                                                           \
        else                                                                                                           \
            NAME(activate)(s, hidden, start, stop, cell, 0);                                                           \
    }
ACTIVATE(lstm, CELL_LSTM)
ACTIVATE(gru, CELL_GRU)
ACTIVATE(tanh, CELL_TANH)
ACTIVATE(relu, CELL_RELU)
#undef ACTIVATE

/* What a row has at a step, but for the products. */
static inline struct NAME(cells) NAME(cells_of)(const struct recurrent *o, int64_t n, int64_t step, number *old, number *new,
                                                float *cell, float *spare, number *gone) {
    const int64_t hidden = o->hidden, width = padded(hidden), row = row_of(o, n, step);
    const int last = step + 1 == o->steps;
    return (struct NAME(cells)){
        .gates = o->gates + row * o->blocks * hidden, .bias = o->bias ? o->bias + 2 * hidden : 0,
        .reset = o->reset ? o->reset + row * hidden : spare, .cell = cell + n * width,
        .kept = o->cells ? o->cells + row * hidden : spare, .curve = o->curves ? o->curves + row * hidden : spare,
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
    switch (o->cell) {
    case CELL_LSTM: NAME(lstm)(*c, o->hidden, start, stop, o->keep); break;
    case CELL_GRU: NAME(gru)(*c, o->hidden, start, stop, o->keep); break;
    case CELL_TANH: NAME(tanh)(*c, o->hidden, start, stop, o->keep); break;
    default: NAME(relu)(*c, o->hidden, start, stop, o->keep);
    }
    if (step + 1 < o->steps && is_fresh(o, n, step + 1))
        for (int64_t u = start; u < stop; u++) c->after[u] = c->before[u] = 0, c->cell[u] = 0;
}

/* All steps, for some rows and some units of a state. */
ON_STEPS static void NAME(forward)(const struct operation *op, struct share s, struct team *team) {
    const struct recurrent *o = &op->recurrent;
    const int64_t hidden = o->hidden, images = o->images, width = padded(hidden);
    const int64_t panels = (hidden + PANEL - 1) / PANEL, start = s.first * PANEL, stop = smaller(s.last * PANEL, hidden);
    number *states[2] = {o->scratch, (number *)o->scratch + images * width};
    float *cell = (float *)(states[1] + images * width), *spare = cell + images * width; /* one row, if nothing is kept */
    number *gone = (number *)(spare + width) + s.worker * width;
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
                    struct NAME(cells) c = NAME(cells_of)(o, n, step, old, new, cell, spare, gone);
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
    const float *restrict gates, *restrict reset, *restrict curve;
    const float *restrict cell;   /* LSTM: the cell that the step has read, or NULL for 0 */
    const number *restrict old;   /* the state that it has read */
    const number *restrict y, *restrict dy;
    float *restrict dh, *restrict dc;
    number *restrict dgates, *restrict products;
};

/* The gradients of the gates, for units from `start` to `stop`; dh and dc become what goes to the step before directly. */
INLINE_STEPS void NAME(differentiate)(struct NAME(slopes) s, int64_t hidden, int64_t start, int64_t stop, const int cell) {
    const float *restrict z = s.gates;
#pragma GCC ivdep
    for (int64_t u = start; u < stop; u++) {
        float d = s.dh[u] + get(s.dy, u, NARROW);
        if (cell == CELL_LSTM) {
            float i = z[u], f = z[hidden + u], g = z[2 * hidden + u], o = z[3 * hidden + u], t = s.curve[u];
            float dc = s.dc[u] + d * o * (1 - t * t);
            put(s.dgates, u, dc * g * (i - i * i), NARROW);
            put(s.dgates, hidden + u, dc * s.cell[u] * (f - f * f), NARROW);
            put(s.dgates, 2 * hidden + u, dc * i * (1 - g * g), NARROW);
            put(s.dgates, 3 * hidden + u, d * t * (o - o * o), NARROW);
            s.dc[u] = dc * f;
            s.dh[u] = 0;
        } else if (cell == CELL_GRU) {
            float r = z[u], e = z[hidden + u], n = z[2 * hidden + u];
            float dn = (d - d * e) * (1 - n * n), dr = dn * s.reset[u] * (r - r * r);
            float de = d * (get(s.old, u, NARROW) - n) * (e - e * e);
            put(s.dgates, u, dr, NARROW);
            put(s.dgates, hidden + u, de, NARROW);
            put(s.dgates, 2 * hidden + u, dn, NARROW);
            put(s.products, u, dr, NARROW);
            put(s.products, hidden + u, de, NARROW);
            put(s.products, 2 * hidden + u, dn * r, NARROW);
            s.dh[u] = d * e;
        } else {
            float h = get(s.y, u, NARROW);
            put(s.dgates, u, cell == CELL_TANH ? d * (1 - h * h) : d * (h > 0 ? 1.0f : 0.0f), NARROW);
            s.dh[u] = 0;
        }
    }
}

#define DIFFERENTIATE(name, cell)                                                                                      \
    ON_STEPS static void NAME(name##_back)(struct NAME(slopes) s, int64_t hidden, int64_t start, int64_t stop) {             \
        NAME(differentiate)(s, hidden, start, stop, cell);                                                             \
    }
DIFFERENTIATE(lstm, CELL_LSTM)
DIFFERENTIATE(gru, CELL_GRU)
DIFFERENTIATE(tanh, CELL_TANH)
DIFFERENTIATE(relu, CELL_RELU)
#undef DIFFERENTIATE

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
                .gates = o->gates + row * wide, .reset = o->reset + (o->reset ? row * hidden : 0),
                .curve = o->curves + (o->curves ? row * hidden : 0), .dh = dh + n * width, .dc = dc + n * width,
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
            switch (o->cell) {
            case CELL_LSTM: NAME(lstm_back)(c, hidden, start, stop); break;
            case CELL_GRU: NAME(gru_back)(c, hidden, start, stop); break;
            case CELL_TANH: NAME(tanh_back)(c, hidden, start, stop); break;
            default: NAME(relu_back)(c, hidden, start, stop);
            }
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
