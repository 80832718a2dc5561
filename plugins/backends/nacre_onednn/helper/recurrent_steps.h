/* The loops of recurrent.c for one kind of instructions and one type of numbers; it includes this file once for each, with
 *
 * ON         the target's attribute, and NAME(x) a name of its own
 * NARROW     1 where states and gradients are of bf16, else 0
 * WIDE       a register of WIDTH numbers, with LOAD, STORE, ADD, and EACH(p), the number or the pair at p in each place
 * PRODUCT    (sum, one, other) is the sum and the products
 * ROWS       the most rows of a tile, which has two registers for each; MORE_ROWS(do) does something with those behind six
 */

#define PANEL (2 * WIDTH)
#define STEP (1 + NARROW) /* numbers of a state that are multiplied at once */

typedef struct {
    const number *a; /* rows, `apart` */
    const number *b; /* a panel: for each number of a row, or pair of them, PANEL columns */
    float *c;        /* rows, `spread`: the products are added */
    int64_t apart, spread, length, columns;
} NAME(panel);

INLINE ON void NAME(add)(float *c, int64_t columns, WIDE left, WIDE right) {
    if (columns >= PANEL) {
        STORE(c, ADD(LOAD(c), left));
        STORE(c + WIDTH, ADD(LOAD(c + WIDTH), right));
        return;
    }
    float some[PANEL];
    STORE(some, left);
    STORE(some + WIDTH, right);
    for (int64_t i = 0; i < columns; i++) c[i] += some[i];
}

#define BEGIN(r) WIDE left##r = ZERO(), right##r = ZERO(); const number *at##r = p->a + (row + r) * p->apart;
#define AT(r)                                                                                                         \
    if (r < rows) {                                                                                                    \
        WIDE each = EACH(at##r + k * STEP);                                                                            \
        left##r = PRODUCT(left##r, each, left), right##r = PRODUCT(right##r, each, right);                             \
    }
#define ON_BY_ONE(r) at##r += STEP;
#define ON_BY_FOUR(r) at##r += 4 * STEP;
#define END(r) if (r < rows) NAME(add)(p->c + (row + r) * p->spread, p->columns, left##r, right##r);
#define ALL_ROWS(do) do(0) do(1) do(2) do(3) do(4) do(5) MORE_ROWS(do)

/* c += a b for rows from `top` to `bottom`, so many at a time. */
INLINE ON void NAME(tiles)(const NAME(panel) *p, int64_t top, int64_t bottom, const int rows) {
    for (int64_t row = top; row < bottom; row += rows) {
        const number *b = p->b, *end = p->b + p->length * PANEL, *last = end - 3 * STEP * PANEL;
        ALL_ROWS(BEGIN)
        for (; b < last; b += 4 * STEP * PANEL) {
            for (int k = 0; k < 4; k++) {
                WIDE left = LOAD(b + k * STEP * PANEL), right = LOAD(b + (k * PANEL + WIDTH) * STEP);
                ALL_ROWS(AT)
            }
            ALL_ROWS(ON_BY_FOUR)
        }
        for (const int k = 0; b < end; b += STEP * PANEL) {
            WIDE left = LOAD(b), right = LOAD(b + WIDTH * STEP);
            ALL_ROWS(AT)
            ALL_ROWS(ON_BY_ONE)
        }
        ALL_ROWS(END)
    }
}

#undef BEGIN
#undef AT
#undef ON_BY_ONE
#undef ON_BY_FOUR
#undef END
#undef ALL_ROWS

#define TILES(rows)                                                                                                    \
    ON static void NAME(tiles_of_##rows)(const NAME(panel) *p, int64_t top, int64_t bottom) {                          \
        NAME(tiles)(p, top, bottom, rows);                                                                             \
    }
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)
#if ROWS > 6
TILES(7) TILES(8) TILES(9) TILES(10) TILES(11) TILES(12)
#endif
#undef TILES

static void (*const NAME(tiles_of)[])(const NAME(panel) *, int64_t, int64_t) = {
    NULL, NAME(tiles_of_1), NAME(tiles_of_2), NAME(tiles_of_3), NAME(tiles_of_4), NAME(tiles_of_5), NAME(tiles_of_6),
#if ROWS > 6
    NAME(tiles_of_7), NAME(tiles_of_8), NAME(tiles_of_9), NAME(tiles_of_10), NAME(tiles_of_11), NAME(tiles_of_12),
#endif
};

/* c += a b for the columns of a panel: all rows by parts of it that stay in the first cache. */
ON static void NAME(multiply)(NAME(panel) p, int64_t rows) {
    if (rows == 0) return; /* there are more threads than sequences */
    const int64_t pairs = p.length / STEP, parts = (p.length + PART - 1) / PART, tiles = (rows + ROWS - 1) / ROWS;
    const int64_t few = rows / tiles, more = rows % tiles * (few + 1); /* the first tiles have a row more */
    for (int64_t part = 0; part < parts; part++) {
        int64_t start = pairs * part / parts * STEP, stop = pairs * (part + 1) / parts * STEP;
        NAME(panel) here = p;
        here.a += start, here.b += start * PANEL, here.length = stop - start;
        if (more) NAME(tiles_of)[few + 1](&here, 0, more);
        NAME(tiles_of)[few](&here, more, rows);
    }
}

/* The arrays of a row at a step; `next` is the step that follows, in the order in which they are taken. */
struct NAME(cells) {
    float *restrict gates;
    float *restrict reset;   /* GRU: the product that r multiplies */
    float *restrict cell;    /* LSTM: the cell, which is replaced */
    float *restrict kept;    /* what backward reads besides: the cell and its tanh */
    float *restrict curve;
    number *restrict y;
    number *restrict after;  /* the state, for the next step */
    number *restrict before; /* the same, kept for backward */
    const number *restrict old;
};

/* The state h of a row, for units from `start` to `stop`; `keep`: what backward needs is written. */
INLINE ON void NAME(activate)(struct NAME(cells) s, int64_t hidden, int64_t start, int64_t stop, const int cell,
                              const int keep) {
    float *restrict z = s.gates;
#pragma GCC ivdep
    for (int64_t u = start; u < stop; u++) {
        float h;
        if (cell == CELL_LSTM) {
            float i = logistic(z[u]), f = logistic(z[hidden + u]);
            float g = hyperbolic_tangent(z[2 * hidden + u]), o = logistic(z[3 * hidden + u]);
            float c = f * s.cell[u] + i * g, t = hyperbolic_tangent(c);
            h = o * t;
            s.cell[u] = c;
            if (keep) z[u] = i, z[hidden + u] = f, z[2 * hidden + u] = g, z[3 * hidden + u] = o, s.kept[u] = c, s.curve[u] = t;
        } else if (cell == CELL_GRU) {
            float r = logistic(z[u]), e = logistic(z[hidden + u]);
            float n = hyperbolic_tangent(z[2 * hidden + u] + r * s.reset[u]);
            h = n + e * (get(s.old, u, NARROW) - n);
            if (keep) z[u] = r, z[hidden + u] = e, z[2 * hidden + u] = n;
        } else {
            h = cell == CELL_TANH ? hyperbolic_tangent(z[u]) : z[u] < 0 ? 0 : z[u];
        }
        put(s.y, u, h, NARROW);
        put(s.after, u, h, NARROW);
        if (keep) put(s.before, u, h, NARROW);
    }
}

#define ACTIVATE(name, cell)                                                                                           \
    ON static void NAME(name)(struct NAME(cells) s, int64_t hidden, int64_t start, int64_t stop, int keep) {           \
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

/* All steps, for some rows and some units of a state. */
ON static void NAME(forward)(const struct operation *op, struct share s, struct team *team) {
    const struct recurrent *o = &op->recurrent;
    const int64_t hidden = o->hidden, images = o->images, wide = o->blocks * hidden, width = padded(hidden);
    const int64_t panels = (hidden + PANEL - 1) / PANEL, start = s.first * PANEL, stop = smaller(s.last * PANEL, hidden);
    number *states[2] = {o->scratch, (number *)o->scratch + images * width};
    float *cell = (float *)(states[1] + images * width), *spare = cell + images * width; /* one row, if nothing is kept */
    float *resets = spare + width;
    number *gone = (number *)(resets + images * width) + s.worker * width;
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
    meet(team, s.count);
    for (int64_t step = 0; step < o->steps; step++) {
        number *old = states[step % 2], *new = states[(step + 1) % 2];
        for (int64_t n = s.top; o->cell == CELL_GRU && n < s.bottom; n++) {
            float *reset = o->reset ? o->reset + row_of(o, n, step) * hidden : resets + n * width;
            for (int64_t u = start; u < stop; u++) reset[u] = o->bias ? o->bias[2 * hidden + u] : 0;
        }
        for (int64_t panel = s.first; panel < s.last; panel++)
            for (int64_t block = 0; block < o->blocks; block++) {
                int aside = o->cell == CELL_GRU && block == 2;
                int64_t first = row_of(o, s.top, step), apart = row_of(o, 1, 0) - row_of(o, 0, 0);
                NAME(panel) p = {
                    .a = old + s.top * width, .apart = width, .length = (hidden + STEP - 1) / STEP * STEP,
                    .b = (const number *)o->w + (panel * o->blocks + block) * paired(hidden, STEP) * PANEL,
                    .c = o->gates + first * wide + block * hidden + panel * PANEL, .spread = apart * wide,
                    .columns = hidden - panel * PANEL,
                };
                if (aside && o->reset)
                    p.c = o->reset + first * hidden + panel * PANEL, p.spread = apart * hidden;
                else if (aside)
                    p.c = resets + s.top * width + panel * PANEL, p.spread = width;
                NAME(multiply)(p, s.bottom - s.top);
            }
        int last = step + 1 == o->steps;
        for (int64_t n = s.top; n < s.bottom; n++) {
            int64_t row = row_of(o, n, step), next = last ? 0 : row_of(o, n, step + 1);
            number *y = (number *)o->y + row * o->y_width + o->y_at;
            struct NAME(cells) c = {
                .gates = o->gates + row * wide, .cell = cell + n * width,
                .reset = o->reset ? o->reset + row * hidden : resets + n * width,
                .kept = o->cells ? o->cells + row * hidden : spare, .curve = o->curves ? o->curves + row * hidden : spare,
                .y = y, .after = new + n * width, .old = old + n * width,
                .before = o->before && !last ? (number *)o->before + next * hidden : gone,
            };
            if (is_past(o, n, step)) { /* the state stays as it is */
                for (int64_t u = start; u < stop; u++) {
                    y[u] = 0, c.before[u] = c.after[u] = c.old[u];
                    if (o->cells) c.kept[u] = c.cell[u];
                }
                continue;
            }
            switch (o->cell) {
            case CELL_LSTM: NAME(lstm)(c, hidden, start, stop, o->keep); break;
            case CELL_GRU: NAME(gru)(c, hidden, start, stop, o->keep); break;
            case CELL_TANH: NAME(tanh)(c, hidden, start, stop, o->keep); break;
            default: NAME(relu)(c, hidden, start, stop, o->keep);
            }
            if (!last && is_fresh(o, n, step + 1))
                for (int64_t u = start; u < stop; u++) c.after[u] = c.before[u] = 0, c.cell[u] = 0;
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
INLINE ON void NAME(differentiate)(struct NAME(slopes) s, int64_t hidden, int64_t start, int64_t stop, const int cell) {
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
    ON static void NAME(name##_back)(struct NAME(slopes) s, int64_t hidden, int64_t start, int64_t stop) {             \
        NAME(differentiate)(s, hidden, start, stop, cell);                                                             \
    }
DIFFERENTIATE(lstm, CELL_LSTM)
DIFFERENTIATE(gru, CELL_GRU)
DIFFERENTIATE(tanh, CELL_TANH)
DIFFERENTIATE(relu, CELL_RELU)
#undef DIFFERENTIATE

/* The gradient of the states that step `step` has read, added to dh. */
ON static void NAME(through_weights)(const struct recurrent *o, struct share s, int64_t step, float *dh) {
    const int64_t hidden = o->hidden, wide = o->blocks * hidden, width = padded(hidden);
    const int64_t first = row_of(o, s.top, step), apart = row_of(o, 1, 0) - row_of(o, 0, 0);
    const number *products = o->dproducts ? o->dproducts : o->dgates;
    for (int64_t panel = s.first; panel < s.last; panel++) {
        const number *w = (const number *)o->w + panel * paired(wide, STEP) * PANEL;
        NAME(panel) p = {
            .a = products + first * wide, .apart = apart * wide, .length = wide / STEP * STEP,
            .b = w, .c = dh + s.top * width + panel * PANEL, .spread = width, .columns = hidden - panel * PANEL,
        };
        NAME(multiply)(p, s.bottom - s.top);
        for (int64_t n = s.top; p.length < wide && n < s.bottom; n++) { /* the last number has none to make a pair with */
            float last = get(products, row_of(o, n, step) * wide + p.length, NARROW);
            for (int64_t i = 0; i < smaller(PANEL, p.columns); i++)
                dh[n * width + panel * PANEL + i] += last * get(w, p.length * PANEL + i * STEP, NARROW);
        }
    }
}

/* The sums of the gradients of a step, added to `sums`: of all blocks, and for a GRU of the last block of the products. */
ON static void NAME(add_up)(const struct recurrent *o, struct share s, int64_t step, double *sums) {
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

ON static void NAME(backward)(const struct operation *op, struct share s, struct team *team) {
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
ON static void NAME(lay)(const struct operation *op, int64_t from, int64_t to, int64_t worker) {
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

#undef PANEL
#undef STEP
