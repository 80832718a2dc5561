/* Convolutions of 2 x 2, of 3 x 3 and of 5 x 5 by Winograd's minimal filtering, after Lavin and Gray, "Fast algorithms for
 * convolutional neural networks", 2016: F(2x2, 2x2) takes 9 products for four results instead of 16, F(2x2, 3x3) 16 instead
 * of 36, F(2x2, 5x5) 36 instead of 100. A register holds 16 channels.
 *
 * A tile has an edge of 3, 4 or 6 numbers, one more than a filter; its transform is as large. The polynomials behind that of
 * 3 are taken at 0 and 1, behind that of 4 at 0, 1 and -1, behind that of 6 at 0, A, -A, B and -B, where rounding does least
 * harm of all that was tried.
 *
 * With a stride of 2, filters of 4 x 4 and of 6 x 6 are four filters of half the size, each over every second pixel of every
 * second row: four phases, which stand for channels here. So do the planes that a filter with three axes sees along the first
 * of them. All are read from where they lie.
 *
 * Needs AVX-512, and channels and filters of a group in multiples of 16.
 */

#include "avx512.h"

#if defined(__x86_64__)

enum { TILES = WINOGRAD_TILES, EIGHT = 8, MOST = 6, WINDOW = WINOGRAD_WINDOW };

#define A 0.75f
#define B 1.5f
#define AA (A * A)
#define BB (B * B)
#define OF_0 (1 / (AA * BB))           /* the products of the differences of a point from all others */
#define OF_A (1 / (2 * AA * (AA - BB)))
#define OF_B (1 / (2 * BB * (BB - AA)))

INLINE_AVX512 __m512 times(float factor, __m512 number) { return _mm512_mul_ps(_mm512_set1_ps(factor), number); }

/* sum + factor number */
INLINE_AVX512 __m512 plus(__m512 sum, float factor, __m512 number) {
    return _mm512_fmadd_ps(_mm512_set1_ps(factor), number, sum);
}

/* An edge of a tile of x. */
INLINE_AVX512 void transform(const __m512 *d, __m512 *to, const int edge) {
    if (edge == 3) {
        to[0] = _mm512_sub_ps(d[0], d[1]), to[1] = d[1], to[2] = _mm512_sub_ps(d[2], d[1]);
        return;
    }
    if (edge == 4) {
        to[0] = _mm512_sub_ps(d[0], d[2]), to[1] = _mm512_add_ps(d[1], d[2]);
        to[2] = _mm512_sub_ps(d[2], d[1]), to[3] = _mm512_sub_ps(d[1], d[3]);
        return;
    }
    __m512 even = plus(d[4], -BB, d[2]), odd = times(A, plus(d[3], -BB, d[1]));
    to[1] = _mm512_add_ps(even, odd), to[2] = _mm512_sub_ps(even, odd);
    even = plus(d[4], -AA, d[2]), odd = times(B, plus(d[3], -AA, d[1]));
    to[3] = _mm512_add_ps(even, odd), to[4] = _mm512_sub_ps(even, odd);
    to[0] = plus(plus(d[4], -AA - BB, d[2]), AA * BB, d[0]), to[5] = plus(plus(d[5], -AA - BB, d[3]), AA * BB, d[1]);
}

/* Two results of the products of an edge. */
INLINE_AVX512 void combine(const __m512 *m, __m512 *to, const int edge) {
    if (edge == 3) {
        to[0] = _mm512_add_ps(m[0], m[1]), to[1] = _mm512_add_ps(m[1], m[2]);
        return;
    }
    __m512 sum = _mm512_add_ps(m[1], m[2]), difference = _mm512_sub_ps(m[1], m[2]);
    if (edge == 4) {
        to[0] = _mm512_add_ps(m[0], sum), to[1] = _mm512_sub_ps(difference, m[3]);
        return;
    }
    to[0] = _mm512_add_ps(_mm512_add_ps(m[0], sum), _mm512_add_ps(m[3], m[4]));
    to[1] = plus(plus(m[5], A, difference), B, _mm512_sub_ps(m[3], m[4]));
}

/* The transpose: two gradients of results become those of the products of an edge. */
INLINE_AVX512 void spread(const __m512 *d, __m512 *to, const int edge) {
    const __m512 none = _mm512_setzero_ps();
    if (edge == 3) {
        to[0] = d[0], to[1] = _mm512_add_ps(d[0], d[1]), to[2] = d[1];
        return;
    }
    to[0] = d[0], to[edge - 1] = edge == 4 ? _mm512_sub_ps(none, d[1]) : d[1];
    to[1] = plus(d[0], edge == 4 ? 1 : A, d[1]), to[2] = plus(d[0], edge == 4 ? -1 : -A, d[1]);
    if (edge == 6) to[3] = plus(d[0], B, d[1]), to[4] = plus(d[0], -B, d[1]);
}

/* An edge of a filter. */
INLINE_AVX512 void turn(const __m512 *g, __m512 *to, const int edge) {
    to[0] = g[0], to[edge - 1] = g[edge - 2];
    if (edge == 3) {
        to[1] = _mm512_add_ps(g[0], g[1]);
        return;
    }
    if (edge == 4) {
        __m512 even = times(0.5f, _mm512_add_ps(g[0], g[2])), odd = times(0.5f, g[1]);
        to[1] = _mm512_add_ps(even, odd), to[2] = _mm512_sub_ps(even, odd);
        return;
    }
    to[0] = times(OF_0, g[0]);
    __m512 even = plus(plus(times(OF_A, g[0]), OF_A * AA, g[2]), OF_A * AA * AA, g[4]);
    __m512 odd = plus(times(OF_A * A, g[1]), OF_A * A * AA, g[3]);
    to[1] = _mm512_add_ps(even, odd), to[2] = _mm512_sub_ps(even, odd);
    even = plus(plus(times(OF_B, g[0]), OF_B * BB, g[2]), OF_B * BB * BB, g[4]);
    odd = plus(times(OF_B * B, g[1]), OF_B * B * BB, g[3]);
    to[3] = _mm512_add_ps(even, odd), to[4] = _mm512_sub_ps(even, odd);
}

/* The transpose: sums of products become an edge of the gradient of a filter. */
INLINE_AVX512 void turn_back(const __m512 *s, __m512 *to, const int edge) {
    if (edge == 3) {
        to[0] = _mm512_add_ps(s[0], s[1]), to[1] = _mm512_add_ps(s[1], s[2]);
        return;
    }
    __m512 even = _mm512_add_ps(s[1], s[2]), odd = _mm512_sub_ps(s[1], s[2]);
    if (edge == 4) {
        even = times(0.5f, even);
        to[0] = _mm512_add_ps(s[0], even), to[1] = times(0.5f, odd), to[2] = _mm512_add_ps(even, s[3]);
        return;
    }
    __m512 evens = times(OF_B, _mm512_add_ps(s[3], s[4])), odds = times(OF_B * B, _mm512_sub_ps(s[3], s[4]));
    even = times(OF_A, even), odd = times(OF_A * A, odd);
    to[0] = plus(_mm512_add_ps(even, evens), OF_0, s[0]);
    to[1] = _mm512_add_ps(odd, odds);
    to[2] = plus(times(AA, even), BB, evens);
    to[3] = plus(times(AA, odd), BB, odds);
    to[4] = _mm512_add_ps(plus(times(AA * AA, even), BB * BB, evens), s[5]);
}

/* The numbers of a cell, and a line that lies between cells, so that they do not all want the same places of a cache. */
static inline int64_t plane_of(int64_t numbers) { return numbers + LANES; }

/* A plane and a phase of a stride: what a channel is among those of all of them, of which each has `channels`. */
struct phase {
    int64_t channel, plane, down, right;
};

static inline struct phase phase(int64_t channel, int64_t channels, int64_t step) {
    int64_t number = channel / channels;
    return (struct phase){channel % channels, number / (step * step), number / step % step, number % step};
}

/* Filters (filters, channels, planes, rows, columns) as (cells, filters / 16, channels of all planes and phases, 16); for the
 * gradient of images turned round, with filters and channels in each other's place. Pieces are 16 filters, or channels. */
INLINE_AVX512 void filters(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int edge) {
    const struct winograd_filters *f = &op->winograd_filters;
    const int64_t given = f->channels, back = f->back, step = f->step, phases = step * step, depth = f->depth;
    const int64_t ins = depth * (back ? f->filters : phases * given), plane = plane_of(f->filters * depth * phases * given);
    const int side = edge - 1;
    const int64_t row = step * side, window = depth * row * row;
    (void)worker;
    for (int64_t part = start; part < stop; part++)
        for (int64_t in = 0; in < (back ? f->filters : given); in++) {
            _Alignas(64) float lanes[WINDOW * LANES];
            gather(f->w + (back ? in * given + part * LANES : part * LANES * given + in) * window,
                   back ? window : given * window, LANES, window, lanes);
            for (int64_t number = 0; number < depth * phases; number++) {
                __m512 once[MOST][MOST], column[MOST], cells[MOST];
                struct phase at = phase(number * given, given, step);
                int64_t first = (back ? depth - 1 - at.plane : at.plane) * row * row;
                for (int right = 0; right < side; right++) {
                    for (int down = 0; down < side; down++) {
                        int64_t y = step * (back ? side - 1 - down : down) + at.down;
                        int64_t x = step * (back ? side - 1 - right : right) + at.right;
                        column[down] = _mm512_load_ps(lanes + (first + y * row + x) * LANES);
                    }
                    turn(column, cells, edge);
                    for (int down = 0; down < edge; down++) once[down][right] = cells[down];
                }
                int64_t line = back ? (number % phases * given / LANES + part) * ins + at.plane * f->filters + in
                                    : part * ins + number * given + in;
                float *to = f->tiled + line * LANES;
                for (int down = 0; down < edge; down++, to += edge * plane) {
                    turn(once[down], cells, edge);
                    for (int right = 0; right < edge; right++) _mm512_storeu_ps(to + right * plane, cells[right]);
                }
            }
        }
}

/* Images as they lie: steps between images, 16 channels, planes, rows and pixels; and what is of interest here: the stride of
 * the tiles' pixels, how far before the image the first of them is, and the channels of a plane of a phase. */
struct images {
    int64_t image, part, plane, row, pixel, deep, height, width, step, before, above, beside, channels;
};

struct convolution {
    int64_t channels, filters, phases; /* channels of all planes and phases of x; filters of one of the phases of y */
    struct images in, out;
    int64_t down, across, tiles; /* tiles in a column and in a row of an image, and in all */
    int64_t room;                /* tiles at a time: of a worker, or of all for the gradient of the filters */
};

static struct images images(int64_t channels, int64_t groups, int64_t deep, int64_t height, int64_t width, int64_t blocked) {
    int64_t all = groups * channels, pixel = blocked ? LANES : all, plane = height * width * pixel;
    return (struct images){.image = all * deep * height * width, .part = blocked ? deep * plane : LANES, .plane = plane,
                           .row = width * pixel, .pixel = pixel, .deep = deep, .height = height, .width = width, .step = 1,
                           .channels = channels};
}

/* Where the results of a tile are: the image, the plane, and the first row and column. */
struct origin {
    int64_t image, plane, row, column;
};

static struct origin origin(const struct convolution *w, int64_t tile) {
    int64_t line = tile / w->across, plane = line / w->down;
    return (struct origin){plane / w->out.deep, plane % w->out.deep, 2 * (line % w->down), 2 * (tile % w->across)};
}

/* Where 16 channels of a plane are, or -1 if there is no such plane; `top` and `left` become those of a tile whose numbers,
 * or results, begin there. */
static inline int64_t corner(const struct images *s, int64_t part, struct origin begin, int64_t *top, int64_t *left) {
    struct phase at = phase(part * LANES, s->channels, s->step);
    int64_t plane = begin.plane + at.plane - s->before;
    *top = s->step * begin.row + at.down - s->above, *left = s->step * begin.column + at.right - s->beside;
    if ((uint64_t)plane >= (uint64_t)s->deep) return -1;
    return begin.image * s->image + at.channel / LANES * s->part + plane * s->plane;
}

/* A tile of x of 16 channels. */
INLINE_AVX512 void read_tile(const float *x, const struct images *s, int64_t part, struct origin begin, float *to,
                             int64_t plane, const int edge) {
    __m512 once[MOST][MOST], cells[MOST];
    int64_t top, left, last = s->step * (edge - 1), at = corner(s, part, begin, &top, &left);
    if (at < 0) {
        for (int cell = 0; cell < edge * edge; cell++) _mm512_store_ps(to + cell * plane, _mm512_setzero_ps());
        return;
    }
    x += at;
    int inside = top >= 0 && left >= 0 && top + last < s->height && left + last < s->width;
    for (int right = 0; right < edge; right++) {
        __m512 lines[MOST];
        for (int down = 0; down < edge; down++) {
            int64_t i = top + s->step * down, j = left + s->step * right;
            int there = inside || ((uint64_t)i < (uint64_t)s->height && (uint64_t)j < (uint64_t)s->width);
            lines[down] = there ? _mm512_loadu_ps(x + i * s->row + j * s->pixel) : _mm512_setzero_ps();
        }
        transform(lines, cells, edge);
        for (int down = 0; down < edge; down++) once[down][right] = cells[down];
    }
    for (int down = 0; down < edge; down++, to += edge * plane) {
        transform(once[down], cells, edge);
        for (int right = 0; right < edge; right++) _mm512_store_ps(to + right * plane, cells[right]);
    }
}

/* Twelve tiles times 32 filters, or 16. Sums of so many channels are added up, since one sum of all would lose digits. */
enum { TOGETHER = 32 };

INLINE_AVX512 void product(const float *u, const float *v, float *m, int64_t channels, const int wide) {
    for (int64_t begin = 0; begin < channels; begin += TOGETHER) {
        __m512 sums[TILES][2];
        for (int tile = 0; tile < TILES; tile++)
            for (int half = 0; half <= wide; half++) sums[tile][half] = _mm512_setzero_ps();
        for (int64_t channel = begin; channel < smaller(begin + TOGETHER, channels); channel++) {
            __m512 weights[2];
            for (int half = 0; half <= wide; half++) weights[half] = _mm512_loadu_ps(v + (half * channels + channel) * LANES);
            for (int tile = 0; tile < TILES; tile++) {
                __m512 number = _mm512_set1_ps(u[tile * channels + channel]);
                for (int half = 0; half <= wide; half++)
                    sums[tile][half] = _mm512_fmadd_ps(number, weights[half], sums[tile][half]);
            }
        }
        for (int tile = 0; tile < TILES; tile++)
            for (int half = 0; half <= wide; half++) {
                float *to = m + (tile * 2 + half) * LANES;
                _mm512_store_ps(to, begin ? _mm512_add_ps(_mm512_load_ps(to), sums[tile][half]) : sums[tile][half]);
            }
    }
}

/* Two by two results of 16 filters. */
INLINE_AVX512 void write_tile(const float *m, int64_t plane, __m512 bias, int relu, float *y, const struct images *s,
                              int64_t part, struct origin begin, const int edge) {
    __m512 once[2][MOST], cells[MOST], two[2];
    int64_t top, left;
    y += corner(s, part, begin, &top, &left);
    for (int right = 0; right < edge; right++) {
        for (int down = 0; down < edge; down++) cells[down] = _mm512_load_ps(m + (down * edge + right) * plane);
        combine(cells, two, edge);
        once[0][right] = two[0], once[1][right] = two[1];
    }
    for (int down = 0; down < 2; down++) {
        int64_t i = top + s->step * down;
        if ((uint64_t)i >= (uint64_t)s->height) continue;
        combine(once[down], two, edge);
        for (int right = 0; right < 2; right++) {
            int64_t j = left + s->step * right;
            if ((uint64_t)j >= (uint64_t)s->width) continue;
            __m512 sum = _mm512_add_ps(two[right], bias);
            _mm512_storeu_ps(y + i * s->row + j * s->pixel, relu ? _mm512_max_ps(_mm512_setzero_ps(), sum) : sum);
        }
    }
}

static struct convolution convolution(const struct winograd *o) {
    struct convolution w = {
        .channels = o->channels * o->x_step * o->x_step * o->depth, .filters = o->filters, .phases = o->y_step * o->y_step,
        .room = o->tiles,
        .in = images(o->channels, o->groups, o->deep, o->height, o->width, o->x_blocked),
        .out = images(o->filters, o->groups, o->out_deep, o->out_height, o->out_width, o->y_blocked),
    };
    w.in.before = o->before, w.in.above = o->above, w.in.beside = o->beside, w.in.step = o->x_step, w.out.step = o->y_step;
    int64_t rows = (o->out_height + o->y_step - 1) / o->y_step, columns = (o->out_width + o->y_step - 1) / o->y_step;
    w.down = (rows + 1) / 2, w.across = (columns + 1) / 2, w.tiles = o->images * o->out_deep * w.down * w.across;
    return w;
}

/* The first row or column of y that belongs to a phase, and in *above how far before x its first tile is. */
static int64_t first_of(int64_t number, int64_t pad, int64_t step, int64_t edge, int64_t *above) {
    int64_t outside = pad > number ? (pad - number + step - 1) / step : 0; /* rows of the phase before y */
    *above = edge - 2 - outside;
    return step * outside + number - pad;
}

static void turn_to(struct convolution *w, const struct winograd *o, int64_t number) {
    w->out.above = -first_of(number / o->y_step, o->above, o->y_step, o->edge, &w->in.above);
    w->out.beside = -first_of(number % o->y_step, o->beside, o->y_step, o->edge, &w->in.beside);
}

/* How many pieces the tiles of a phase are. */
static int64_t pieces(const struct convolution *w) { return (w->tiles + w->room - 1) / w->room; }

/* y = x * w + b, and ReLU behind it. Scratch for each worker: what tiles become, and their results. Pieces are so many tiles
 * as there is room for, of one phase after the other. */
INLINE_AVX512 void strips(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int edge) {
    struct convolution w = convolution(&op->winograd);
    const int cells = edge * edge;
    const float *x = op->winograd.x, *bias = op->winograd.bias;
    int64_t plane = plane_of(w.room * w.channels), plane_of_m = plane_of(w.room * 2 * LANES), parts = w.filters / LANES;
    int64_t plane_of_v = plane_of(w.phases * w.filters * w.channels);
    float *y = op->winograd.y, *u = op->winograd.scratch + worker * cells * (plane + plane_of_m), *m = u + cells * plane;
    for (int64_t strip = start; strip < stop; strip++) {
        int64_t number = strip / pieces(&w), begin = strip % pieces(&w) * w.room, count = smaller(w.room, w.tiles - begin);
        const float *v = op->winograd.w + number * w.filters * w.channels;
        if (w.phases > 1) turn_to(&w, &op->winograd, number);
        for (int64_t tile = 0; tile < count; tile++) {
            struct origin at = origin(&w, begin + tile);
            for (int64_t part = 0; part < w.channels / LANES; part++)
                read_tile(x, &w.in, part, at, u + tile * w.channels + part * LANES, plane, edge);
        }
        for (int64_t part = 0; part < parts; part += 2) {
            int wide = part + 1 < parts;
            for (int64_t cell = 0; cell < cells; cell++)
                for (int64_t tile = 0; tile < count; tile += TILES) {
                    const float *weights = v + cell * plane_of_v + part * w.channels * LANES;
                    float *to = m + cell * plane_of_m + tile * 2 * LANES;
                    if (wide)
                        product(u + cell * plane + tile * w.channels, weights, to, w.channels, 1);
                    else
                        product(u + cell * plane + tile * w.channels, weights, to, w.channels, 0);
                }
            for (int64_t tile = 0; tile < count; tile++) {
                struct origin at = origin(&w, begin + tile);
                for (int half = 0; half <= wide; half++)
                    write_tile(m + (tile * 2 + half) * LANES, plane_of_m,
                               bias ? _mm512_loadu_ps(bias + (part + half) * LANES) : _mm512_setzero_ps(),
                               (int)op->winograd.relu, y, &w.out, part + half, at, edge);
            }
        }
    }
}

/* The gradients of two by two results of 16 filters. */
INLINE_AVX512 void read_top(const float *dy, const struct images *s, int rows, int columns, float *to, int64_t plane,
                            const int edge) {
    __m512 once[MOST][2], two[2], cells[MOST];
    for (int right = 0; right < 2; right++) {
        for (int row = 0; row < 2; row++)
            two[row] = row < rows && right < columns ? _mm512_loadu_ps(dy + row * s->row + right * s->pixel)
                                                     : _mm512_setzero_ps();
        spread(two, cells, edge);
        for (int down = 0; down < edge; down++) once[down][right] = cells[down];
    }
    for (int down = 0; down < edge; down++, to += edge * plane) {
        spread(once[down], cells, edge);
        for (int right = 0; right < edge; right++) _mm512_store_ps(to + right * plane, cells[right]);
    }
}

/* What the gradient of the filters needs: what `room` tiles of x and of dy become, (cells, tiles, channels or filters), the
 * sums of their products, (cells, filters, channels), and of dy. */
struct sums {
    float *u, *e, *products, *tops;
    int64_t plane_of_u, plane_of_e, plane, size;
};

static struct sums sums_of(const struct convolution *w, float *memory, int64_t part, int64_t edge) {
    int64_t cells = edge * edge;
    struct sums s = {.plane_of_u = plane_of(w->room * w->channels), .plane_of_e = plane_of(w->room * w->filters),
                     .plane = plane_of(w->filters * w->channels)};
    s.size = cells * (s.plane_of_u + s.plane_of_e + s.plane) + w->filters;
    s.u = memory + part * s.size, s.e = s.u + cells * s.plane_of_u, s.products = s.e + cells * s.plane_of_e;
    s.tops = s.products + cells * s.plane;
    return s;
}

/* The gradients of filters and bias. Scratch: the sums of a worker, for each worker, or one for all. Pieces are tiles
 * here, ... */
INLINE_AVX512 void both(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int edge) {
    struct convolution w = convolution(&op->winograd);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, edge);
    (void)worker;
    for (int64_t tile = start; tile < stop; tile++) {
        struct origin at = origin(&w, op->winograd.first + tile);
        const float *dy = op->winograd.dy + at.image * w.out.image + at.plane * w.out.plane;
        for (int64_t part = 0; part < w.channels / LANES; part++)
            read_tile(op->winograd.x, &w.in, part, at, s.u + tile * w.channels + part * LANES, s.plane_of_u, edge);
        for (int64_t part = 0; part < w.filters / LANES; part++)
            read_top(dy + part * w.out.part + at.row * w.out.row + at.column * w.out.pixel, &w.out,
                     (int)smaller(2, w.out.height - at.row), (int)smaller(2, w.out.width - at.column),
                     s.e + tile * w.filters + part * LANES, s.plane_of_e, edge);
    }
}

/* Eight filters times 16, 32 or 48 channels, over some tiles; what was added up before is added last. */
INLINE_AVX512 void outer(const float *u, const float *e, float *sums, int64_t tiles, int64_t channels, int64_t filters, int fresh,
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
INLINE_AVX512 void add_products(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int edge) {
    struct convolution w = convolution(&op->winograd);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, edge);
    int64_t tiles = op->winograd.end - op->winograd.first, eights = w.filters / EIGHT;
    int fresh = op->winograd.fresh != 0;
    (void)worker;
    for (int64_t task = start; task < stop; task++) {
        int64_t cell = task / eights, filter = task % eights * EIGHT;
        const float *u = s.u + cell * s.plane_of_u, *e = s.e + cell * s.plane_of_e + filter;
        float *products = s.products + cell * s.plane + filter * w.channels;
        for (int64_t part = 0, left = w.channels / LANES; left;) {
            int64_t parts = (left + (left + 2) / 3 - 1) / ((left + 2) / 3); /* threes, but no ones if it can be */
            const float *x = u + part * LANES;
            float *to = products + part * LANES;
            switch (parts) {
            case 1: outer(x, e, to, tiles, w.channels, w.filters, fresh, 1); break;
            case 2: outer(x, e, to, tiles, w.channels, w.filters, fresh, 2); break;
            default: outer(x, e, to, tiles, w.channels, w.filters, fresh, 3);
            }
            part += parts, left -= parts;
        }
        for (int64_t f = 0; cell == 0 && f < EIGHT; f++) { /* the cells in the corners are the gradients, or -1 times */
            const float sign = edge == 4 ? -1 : 1, *corner = e + f;
            const int64_t right = (edge - 1) * s.plane_of_e, down = edge * right;
            double sum = fresh ? 0 : s.tops[filter + f];
            for (int64_t tile = 0; tile < tiles; tile++, corner += w.filters)
                sum += corner[0] + corner[down + right] + sign * (corner[down] + corner[right]);
            s.tops[filter + f] = (float)sum;
        }
    }
}

/* ... and filters here, whose sums of all workers are added up. */
INLINE_AVX512 void filters_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int edge) {
    struct convolution w = convolution(&op->winograd);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, edge);
    const int side = edge - 1;
    const int64_t given = w.in.channels, step = w.in.step, row = step * side, window = op->winograd.depth * row * row;
    int64_t workers = larger(op->workers, 1);
    (void)worker;
    for (int64_t filter = start; filter < stop; filter++) {
        for (int64_t begin = 0; begin < given; begin += LANES) {
            _Alignas(64) float lanes[WINDOW * LANES];
            for (int64_t channel = begin; channel < w.channels; channel += given) {
                const float *products = s.products + filter * w.channels + channel;
                __m512 once[MOST][MOST], column[MOST], numbers[MOST];
                struct phase at = phase(channel, given, step);
                for (int right = 0; right < edge; right++) {
                    for (int down = 0; down < edge; down++) {
                        const float *cell = products + (down * edge + right) * s.plane;
                        column[down] = _mm512_load_ps(cell);
                        for (int64_t worker = 1; worker < workers; worker++)
                            column[down] = _mm512_add_ps(column[down], _mm512_load_ps(cell + worker * s.size));
                    }
                    turn_back(column, numbers, edge);
                    for (int down = 0; down < side; down++) once[down][right] = numbers[down];
                }
                for (int down = 0; down < side; down++) {
                    turn_back(once[down], numbers, edge);
                    for (int right = 0; right < side; right++)
                        _mm512_store_ps(
                            lanes + ((at.plane * row + step * down + at.down) * row + step * right + at.right) * LANES,
                            numbers[right]);
                }
            }
            scatter(lanes, op->winograd.dw + (filter * given + begin) * window, window, LANES, window);
        }
        float sum = 0;
        for (int64_t worker = 0; worker < workers; worker++) sum += s.tops[worker * s.size + filter];
        if (op->winograd.db) op->winograd.db[filter] = sum;
    }
}

/* The first two, all by one worker, over its share of the tiles. Pieces are workers. */
INLINE_AVX512 void alone(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int edge) {
    struct convolution w = convolution(&op->winograd);
    for (int64_t one = start; one < stop; one++) {
        int64_t end = w.tiles * (one + 1) / op->workers, from = w.tiles * one / op->workers;
        struct operation mine = *op;
        mine.winograd.scratch = sums_of(&w, op->winograd.scratch, one, edge).u;
        for (int64_t begin = from; begin < end || begin == from; begin += w.room) {
            mine.winograd.first = begin, mine.winograd.end = smaller(begin + w.room, end), mine.winograd.fresh = begin == from;
            both(&mine, 0, mine.winograd.end - begin, worker, edge);
            add_products(&mine, 0, edge * edge * w.filters / EIGHT, worker, edge);
        }
    }
}

#define OF_EDGES(work)                                                                                                 \
    WITH(ON_AVX512, work##_of_3, work, 3) WITH(ON_AVX512, work##_of_4, work, 4) WITH(ON_AVX512, work##_of_6, work, 6)
#define OF_EDGE(work, edge) ((edge) == 3 ? work##_of_3 : (edge) == 4 ? work##_of_4 : work##_of_6)

OF_EDGES(filters)
OF_EDGES(strips)
OF_EDGES(both)
OF_EDGES(add_products)
OF_EDGES(filters_back)
OF_EDGES(alone)

/* Where the numbers of a group begin, `apart` from those of the group before; NULL stays NULL. */
static float *later(const float *numbers, int64_t group, int64_t apart) {
    return numbers ? (float *)numbers + group * apart : NULL;
}

void run_winograd_filters(const struct machine *machine, const struct operation *op) {
    const struct winograd_filters *f = &op->winograd_filters;
    const int64_t edge = f->edge, phases = f->depth * f->step * f->step, numbers = f->filters * f->channels;
    for (int64_t group = 0; group < f->groups; group++) {
        struct operation part = *op;
        part.winograd_filters.w = later(f->w, group, numbers * phases * (edge - 1) * (edge - 1));
        part.winograd_filters.tiled = later(f->tiled, group, plane_of(numbers * phases) * edge * edge);
        share_out(machine, &part, OF_EDGE(filters, edge), (f->back ? f->channels : f->filters) / LANES, 1);
    }
}

/* The images of a group, of x and of y or dy. */
static struct operation of_group(const struct operation *op, const struct convolution *w, int64_t group) {
    const struct winograd *o = &op->winograd;
    const int64_t of_x = o->channels / LANES * w->in.part, of_y = o->filters / LANES * w->out.part;
    struct operation part = *op;
    part.winograd.x = later(o->x, group, of_x);
    part.winograd.y = later(o->y, group, of_y), part.winograd.dy = later(o->dy, group, of_y);
    return part;
}

void run_winograd(const struct machine *machine, const struct operation *op) {
    const struct winograd *o = &op->winograd;
    struct convolution w = convolution(o);
    for (int64_t group = 0; group < o->groups; group++) {
        struct operation part = of_group(op, &w, group);
        part.winograd.w = later(o->w, group, plane_of(w.phases * w.filters * w.channels) * o->edge * o->edge);
        part.winograd.bias = later(o->bias, group, w.filters);
        share_out(machine, &part, OF_EDGE(strips, o->edge), w.phases * pieces(&w), 1);
    }
}

void run_winograd_weights(const struct machine *machine, const struct operation *op) {
    const struct winograd *o = &op->winograd;
    struct convolution w = convolution(o);
    const int64_t edge = o->edge;
    for (int64_t group = 0; group < o->groups; group++) {
        struct operation part = of_group(op, &w, group);
        struct winograd *p = &part.winograd;
        p->dw = later(o->dw, group, w.filters * w.channels * (edge - 1) * (edge - 1)), p->db = later(o->db, group, w.filters);
        if (op->workers) share_out(machine, &part, OF_EDGE(alone, edge), op->workers, 1);
        for (int64_t begin = 0; !op->workers && begin < w.tiles; begin += w.room) {
            p->first = begin, p->end = smaller(begin + w.room, w.tiles), p->fresh = begin == 0;
            share_out(machine, &part, OF_EDGE(both, edge), p->end - begin, 1);
            share_out(machine, &part, OF_EDGE(add_products, edge), edge * edge * w.filters / EIGHT, 1);
        }
        share_out(machine, &part, OF_EDGE(filters_back, edge), w.filters, 1);
    }
}

#endif
