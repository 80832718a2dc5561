/* Convolutions of 3 x 3 by Winograd's minimal filtering: four results at a time take 16 products instead of 36, after
 * Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016, F(2x2, 3x3). A register holds 16 channels.
 */

#include "lanes.h"

#if defined(__x86_64__)

enum { CELLS = 16, TILES = 12, EIGHT = 8 };

/* Filters (filters, channels, 3, 3) as (cells, filters / 16, channels, 16); for the gradient of images turned by half a
 * turn, with filters and channels in each other's place. pointers: filters, result; numbers: filters, channels, whether
 * for the gradient, groups. Pieces are 16 filters of the result. */
ON_LANES static void filters(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    int64_t given = op->numbers[1], back = op->numbers[2], outs = back ? given : op->numbers[0];
    int64_t ins = back ? op->numbers[0] : given, plane = outs * ins;
    (void)worker;
    for (int64_t part = start; part < stop; part++)
        for (int64_t in = 0; in < ins; in++) {
            _Alignas(64) float lanes[9 * LANES];
            __m512 g[3][3], once[CELLS / 4][3];
            const __m512 half = _mm512_set1_ps(0.5f);
            gather((const float *)op->pointers[0] + (back ? in * given + part * LANES : part * LANES * given + in) * 9,
                   back ? 9 : given * 9, LANES, 9, lanes);
            for (int cell = 0; cell < 9; cell++) g[cell / 3][cell % 3] = _mm512_load_ps(lanes + (back ? 8 - cell : cell) * LANES);
            for (int column = 0; column < 3; column++) {
                __m512 ends = _mm512_add_ps(g[0][column], g[2][column]);
                once[0][column] = g[0][column], once[3][column] = g[2][column];
                once[1][column] = _mm512_mul_ps(half, _mm512_add_ps(ends, g[1][column]));
                once[2][column] = _mm512_mul_ps(half, _mm512_sub_ps(ends, g[1][column]));
            }
            float *to = (float *)op->pointers[1] + (part * ins + in) * LANES;
            for (int row = 0; row < 4; row++, to += 4 * plane) {
                __m512 ends = _mm512_add_ps(once[row][0], once[row][2]);
                _mm512_storeu_ps(to, once[row][0]);
                _mm512_storeu_ps(to + plane, _mm512_mul_ps(half, _mm512_add_ps(ends, once[row][1])));
                _mm512_storeu_ps(to + 2 * plane, _mm512_mul_ps(half, _mm512_sub_ps(ends, once[row][1])));
                _mm512_storeu_ps(to + 3 * plane, once[row][2]);
            }
        }
}

/* Steps between images, 16 channels, rows and pixels. */
struct steps {
    int64_t image, part, row, pixel;
};

struct winograd {
    int64_t images, channels, height, width, filters, out_height, out_width, above, beside;
    struct steps in, out;
    int64_t down, across, tiles; /* tiles in a column and in a row of an image, and in all */
    int64_t room;                /* tiles at a time: of a worker, or of all for the gradient of the filters */
};

static struct steps steps(int64_t channels, int64_t height, int64_t width, int64_t blocked) {
    int64_t pixel = blocked ? LANES : channels;
    return (struct steps){channels * height * width, blocked ? height * width * LANES : LANES, width * pixel, pixel};
}

/* Four by four pixels of 16 channels, and their transform. */
IN_PLACE void transform(const float *x, const struct steps *s, int64_t top, int64_t left, int64_t height, int64_t width,
                        float *to, int64_t plane) {
    __m512 d[4][4], once[4][4];
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 4; column++) {
            int inside = (uint64_t)(top + row) < (uint64_t)height && (uint64_t)(left + column) < (uint64_t)width;
            d[row][column] = inside ? _mm512_loadu_ps(x + (top + row) * s->row + (left + column) * s->pixel)
                                    : _mm512_setzero_ps();
        }
    for (int column = 0; column < 4; column++) {
        once[0][column] = _mm512_sub_ps(d[0][column], d[2][column]);
        once[1][column] = _mm512_add_ps(d[1][column], d[2][column]);
        once[2][column] = _mm512_sub_ps(d[2][column], d[1][column]);
        once[3][column] = _mm512_sub_ps(d[1][column], d[3][column]);
    }
    for (int row = 0; row < 4; row++, to += 4 * plane) {
        _mm512_store_ps(to, _mm512_sub_ps(once[row][0], once[row][2]));
        _mm512_store_ps(to + plane, _mm512_add_ps(once[row][1], once[row][2]));
        _mm512_store_ps(to + 2 * plane, _mm512_sub_ps(once[row][2], once[row][1]));
        _mm512_store_ps(to + 3 * plane, _mm512_sub_ps(once[row][1], once[row][3]));
    }
}

/* Twelve tiles times 32 filters, or 16. */
IN_PLACE void product(const float *u, const float *v, float *m, int64_t channels, const int wide) {
    __m512 sums[TILES][2];
    for (int tile = 0; tile < TILES; tile++)
        for (int half = 0; half <= wide; half++) sums[tile][half] = _mm512_setzero_ps();
    for (int64_t channel = 0; channel < channels; channel++) {
        __m512 weights[2];
        for (int half = 0; half <= wide; half++) weights[half] = _mm512_loadu_ps(v + (half * channels + channel) * LANES);
        for (int tile = 0; tile < TILES; tile++) {
            __m512 number = _mm512_set1_ps(u[tile * channels + channel]);
            for (int half = 0; half <= wide; half++)
                sums[tile][half] = _mm512_fmadd_ps(number, weights[half], sums[tile][half]);
        }
    }
    for (int tile = 0; tile < TILES; tile++)
        for (int half = 0; half <= wide; half++) _mm512_store_ps(m + (tile * 2 + half) * LANES, sums[tile][half]);
}

/* Two by two results of 16 filters. */
IN_PLACE void back(const float *m, int64_t plane, __m512 bias, int relu, float *y, const struct steps *s, int rows, int columns) {
    __m512 once[2][4];
    for (int column = 0; column < 4; column++) {
        __m512 part[4];
        for (int row = 0; row < 4; row++) part[row] = _mm512_load_ps(m + (row * 4 + column) * plane);
        once[0][column] = _mm512_add_ps(_mm512_add_ps(part[0], part[1]), part[2]);
        once[1][column] = _mm512_sub_ps(_mm512_sub_ps(part[1], part[2]), part[3]);
    }
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            const __m512 *o = once[row];
            __m512 sum = column ? _mm512_sub_ps(_mm512_sub_ps(o[1], o[2]), o[3]) : _mm512_add_ps(_mm512_add_ps(o[0], o[1]), o[2]);
            sum = _mm512_add_ps(sum, bias);
            _mm512_storeu_ps(y + row * s->row + column * s->pixel, relu ? _mm512_max_ps(_mm512_setzero_ps(), sum) : sum);
        }
}

static struct winograd winograd(const int64_t *n) {
    struct winograd w = {
        .images = n[0], .channels = n[1], .height = n[2], .width = n[3],
        .filters = n[4], .out_height = n[5], .out_width = n[6], .above = n[7], .beside = n[8],
        .in = steps(n[12] * n[1], n[2], n[3], n[9]), .out = steps(n[12] * n[4], n[5], n[6], n[10]), .room = n[13],
    };
    w.down = (w.out_height + 1) / 2, w.across = (w.out_width + 1) / 2, w.tiles = w.images * w.down * w.across;
    return w;
}

/* Where the results of a tile are: the image, and the first row and column. */
struct place {
    int64_t image, row, column;
};

static struct place place(const struct winograd *w, int64_t tile) {
    int64_t line = tile / w->across;
    return (struct place){line / w->down, 2 * (line % w->down), 2 * (tile % w->across)};
}

/* y = x * w + b, and ReLU behind it. pointers: x, what `filters` gave, b or NULL, y, scratch for each worker: what tiles
 * become, and their results; numbers: images, channels, rows and columns of x, filters, rows and columns of y, padding
 * above and beside, whether x and y lie in blocks of 16 channels, whether ReLU, groups, tiles at a time; channels and filters
 * are those of a group. Pieces are so many tiles as there is room for. */
ON_LANES static void strips(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct winograd w = winograd(op->numbers);
    const float *x = op->pointers[0], *v = op->pointers[1], *bias = op->pointers[2];
    float *y = op->pointers[3], *u = (float *)op->pointers[4] + worker * CELLS * w.room * (w.channels + 2 * LANES);
    float *m = u + CELLS * w.room * w.channels;
    int64_t plane = w.room * w.channels, parts = w.filters / LANES;
    for (int64_t strip = start; strip < stop; strip++) {
        int64_t begin = strip * w.room, count = least(w.room, w.tiles - begin);
        for (int64_t tile = 0; tile < count; tile++) {
            struct place at = place(&w, begin + tile);
            for (int64_t part = 0; part < w.channels / LANES; part++)
                transform(x + at.image * w.in.image + part * w.in.part, &w.in, at.row - w.above, at.column - w.beside,
                          w.height, w.width, u + tile * w.channels + part * LANES, plane);
        }
        for (int64_t part = 0; part < parts; part += 2) {
            int wide = part + 1 < parts;
            for (int64_t cell = 0; cell < CELLS; cell++)
                for (int64_t tile = 0; tile < count; tile += TILES) {
                    const float *weights = v + (cell * parts + part) * w.channels * LANES;
                    float *to = m + (cell * w.room + tile) * 2 * LANES;
                    if (wide)
                        product(u + cell * plane + tile * w.channels, weights, to, w.channels, 1);
                    else
                        product(u + cell * plane + tile * w.channels, weights, to, w.channels, 0);
                }
            for (int64_t tile = 0; tile < count; tile++) {
                struct place at = place(&w, begin + tile);
                float *corner = y + at.image * w.out.image + at.row * w.out.row + at.column * w.out.pixel;
                for (int half = 0; half <= wide; half++)
                    back(m + (tile * 2 + half) * LANES, w.room * 2 * LANES,
                         bias ? _mm512_loadu_ps(bias + (part + half) * LANES) : _mm512_setzero_ps(), (int)op->numbers[11],
                         corner + (part + half) * w.out.part, &w.out, (int)least(2, w.out_height - at.row),
                         (int)least(2, w.out_width - at.column));
            }
        }
    }
}

/* Two by two gradients of 16 filters, and what a tile's products get of them. */
IN_PLACE void spread(const float *dy, const struct steps *s, int rows, int columns, float *to, int64_t plane) {
    __m512 d[2][2], once[4][2];
    for (int row = 0; row < 2; row++)
        for (int column = 0; column < 2; column++)
            d[row][column] = row < rows && column < columns ? _mm512_loadu_ps(dy + row * s->row + column * s->pixel)
                                                            : _mm512_setzero_ps();
    for (int column = 0; column < 2; column++) {
        once[0][column] = d[0][column], once[1][column] = _mm512_add_ps(d[0][column], d[1][column]);
        once[2][column] = _mm512_sub_ps(d[0][column], d[1][column]);
        once[3][column] = _mm512_sub_ps(_mm512_setzero_ps(), d[1][column]);
    }
    for (int row = 0; row < 4; row++, to += 4 * plane) {
        _mm512_store_ps(to, once[row][0]);
        _mm512_store_ps(to + plane, _mm512_add_ps(once[row][0], once[row][1]));
        _mm512_store_ps(to + 2 * plane, _mm512_sub_ps(once[row][0], once[row][1]));
        _mm512_store_ps(to + 3 * plane, _mm512_sub_ps(_mm512_setzero_ps(), once[row][1]));
    }
}

/* The gradient of the filters: pointers: x, dy, dw, db or NULL, scratch: what `room` tiles of x and of dy become, and
 * the sums of their products, (cells, filters, channels); numbers: as for `strips`, but in the place of ReLU the
 * first tile. Pieces are tiles here, ... */
ON_LANES static void both(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct winograd w = winograd(op->numbers);
    float *u = op->pointers[4], *e = u + CELLS * w.room * w.channels;
    (void)worker;
    for (int64_t tile = start; tile < stop; tile++) {
        struct place at = place(&w, op->numbers[11] + tile);
        const float *x = (const float *)op->pointers[0] + at.image * w.in.image;
        const float *dy = (const float *)op->pointers[1] + at.image * w.out.image;
        for (int64_t part = 0; part < w.channels / LANES; part++)
            transform(x + part * w.in.part, &w.in, at.row - w.above, at.column - w.beside, w.height, w.width,
                      u + tile * w.channels + part * LANES, w.room * w.channels);
        for (int64_t part = 0; part < w.filters / LANES; part++)
            spread(dy + part * w.out.part + at.row * w.out.row + at.column * w.out.pixel, &w.out,
                   (int)least(2, w.out_height - at.row), (int)least(2, w.out_width - at.column),
                   e + tile * w.filters + part * LANES, w.room * w.filters);
    }
}

/* Eight filters times 16, 32 or 48 channels, over some tiles; what was added up before is added last. */
IN_PLACE void outer(const float *u, const float *e, float *sums, int64_t tiles, int64_t channels, int64_t filters, int fresh,
                    const int parts) {
    __m512 kept[EIGHT][3];
    for (int f = 0; f < EIGHT; f++)
        for (int part = 0; part < parts; part++) kept[f][part] = _mm512_setzero_ps();
    for (int64_t tile = 0; tile < tiles; tile++, u += channels, e += filters) {
        __m512 x[3];
        for (int part = 0; part < parts; part++) x[part] = _mm512_load_ps(u + part * LANES);
        for (int f = 0; f < EIGHT; f++) {
            __m512 top = _mm512_set1_ps(e[f]);
            for (int part = 0; part < parts; part++) kept[f][part] = _mm512_fmadd_ps(top, x[part], kept[f][part]);
        }
    }
    for (int f = 0; f < EIGHT; f++)
        for (int part = 0; part < parts; part++) {
            float *sum = sums + f * channels + part * LANES;
            _mm512_store_ps(sum, fresh ? kept[f][part] : _mm512_add_ps(_mm512_load_ps(sum), kept[f][part]));
        }
}

/* ... a cell of eight filters here, ... */
ON_LANES static void add_products(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct winograd w = winograd(op->numbers);
    int64_t begin = op->numbers[11], tiles = least(w.room, w.tiles - begin), eights = w.filters / EIGHT;
    (void)worker;
    for (int64_t task = start; task < stop; task++) {
        int64_t cell = task / eights, filter = task % eights * EIGHT;
        const float *u = (const float *)op->pointers[4] + cell * w.room * w.channels;
        const float *e = (const float *)op->pointers[4] + CELLS * w.room * w.channels + cell * w.room * w.filters + filter;
        float *sums = (float *)op->pointers[4] + CELLS * w.room * (w.channels + w.filters) +
                      (cell * w.filters + filter) * w.channels;
        for (int64_t part = 0, left = w.channels / LANES; left;) {
            int64_t parts = (left + (left + 2) / 3 - 1) / ((left + 2) / 3); /* threes, but no ones if it can be */
            const float *x = u + part * LANES;
            float *to = sums + part * LANES;
            switch (parts) {
            case 1: outer(x, e, to, tiles, w.channels, w.filters, begin == 0, 1); break;
            case 2: outer(x, e, to, tiles, w.channels, w.filters, begin == 0, 2); break;
            default: outer(x, e, to, tiles, w.channels, w.filters, begin == 0, 3);
            }
            part += parts, left -= parts;
        }
        float *db = op->pointers[3];
        for (int64_t f = 0; db && cell == 5 && f < EIGHT; f++) { /* whose numbers are the sums of the four gradients */
            double sum = begin ? db[filter + f] : 0;
            for (int64_t tile = 0; tile < tiles; tile++) sum += e[tile * w.filters + f];
            db[filter + f] = (float)sum;
        }
    }
}

/* ... and filters here. */
ON_LANES static void filters_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct winograd w = winograd(op->numbers);
    int64_t plane = w.filters * w.channels;
    const __m512 half = _mm512_set1_ps(0.5f);
    (void)worker;
    for (int64_t filter = start; filter < stop; filter++)
        for (int64_t channel = 0; channel < w.channels; channel += LANES) {
            const float *sums = (const float *)op->pointers[4] + CELLS * w.room * (w.channels + w.filters) +
                                filter * w.channels + channel;
            _Alignas(64) float lanes[9 * LANES];
            __m512 once[3][4];
            for (int column = 0; column < 4; column++) {
                __m512 s[4];
                for (int row = 0; row < 4; row++) s[row] = _mm512_load_ps(sums + (row * 4 + column) * plane);
                __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(s[1], s[2]));
                once[0][column] = _mm512_add_ps(s[0], sum), once[2][column] = _mm512_add_ps(sum, s[3]);
                once[1][column] = _mm512_mul_ps(half, _mm512_sub_ps(s[1], s[2]));
            }
            for (int row = 0; row < 3; row++) {
                __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(once[row][1], once[row][2]));
                _mm512_store_ps(lanes + row * 3 * LANES, _mm512_add_ps(once[row][0], sum));
                _mm512_store_ps(lanes + (row * 3 + 1) * LANES, _mm512_mul_ps(half, _mm512_sub_ps(once[row][1], once[row][2])));
                _mm512_store_ps(lanes + (row * 3 + 2) * LANES, _mm512_add_ps(sum, once[row][3]));
            }
            scatter(lanes, (float *)op->pointers[2] + (filter * w.channels + channel) * 9, 9, LANES, 9);
        }
}

/* An operation on one group: its buffers begin so many numbers later for each group before. */
static struct operation of_group(const struct operation *op, int64_t group, const int64_t later[4]) {
    struct operation part = *op;
    for (int place = 0; place < 4; place++)
        if (part.pointers[place]) part.pointers[place] = (float *)part.pointers[place] + group * later[place];
    return part;
}

void winograd_filters(const struct machine *machine, const struct operation *op) {
    const int64_t *n = op->numbers, later[4] = {n[0] * n[1] * 9, n[0] * n[1] * CELLS, 0, 0};
    for (int64_t group = 0; group < n[3]; group++) {
        struct operation part = of_group(op, group, later);
        share_out(machine, &part, filters, (n[2] ? n[1] : n[0]) / LANES, 1);
    }
}

void winograd_convolve(const struct machine *machine, const struct operation *op) {
    struct winograd w = winograd(op->numbers);
    const int64_t later[4] = {w.channels / LANES * w.in.part, w.channels * w.filters * CELLS, w.filters,
                              w.filters / LANES * w.out.part};
    for (int64_t group = 0; group < op->numbers[12]; group++) {
        struct operation part = of_group(op, group, later);
        share_out(machine, &part, strips, (w.tiles + w.room - 1) / w.room, 1);
    }
}

void winograd_weights(const struct machine *machine, const struct operation *op) {
    struct winograd w = winograd(op->numbers);
    const int64_t later[4] = {w.channels / LANES * w.in.part, w.filters / LANES * w.out.part, w.channels * w.filters * 9,
                              w.filters};
    for (int64_t group = 0; group < op->numbers[12]; group++) {
        struct operation part = of_group(op, group, later);
        for (int64_t begin = 0; begin < w.tiles; begin += w.room) {
            part.numbers[11] = begin;
            share_out(machine, &part, both, least(w.room, w.tiles - begin), 1);
            share_out(machine, &part, add_products, CELLS * w.filters / EIGHT, 1);
        }
        share_out(machine, &part, filters_back, w.filters, 1);
    }
}

#endif
