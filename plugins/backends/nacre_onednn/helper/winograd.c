/* Convolutions of 2 x 2, of 3 x 3 and of 5 x 5 by Winograd's minimal filtering, after Lavin and Gray, "Fast algorithms for
 * convolutional neural networks", 2016. F(2x2, 3x3), which makes 2 x 2 results of a filter of 3 x 3, takes 16 products
 * instead of 36, F(4x2, 3x3) 24 instead of 72, F(4x4, 3x3) 36 instead of 144, F(2x2, 2x2) 9 instead of 16, F(4x4, 2x2) 25
 * instead of 64, and F(2x2, 5x5) 36 instead of 100. A register holds 16 channels.
 *
 * An edge of a tile has as many numbers as its results and the `side` of the filter together, less one; its transform is as
 * large. It has the values of polynomials at points: at infinity, at 0 where the edge is not odd, and at one or two pairs of
 * a number and its opposite, where rounding does least harm of all that was tried. An edge of 3 has 0 and 1.
 *
 * With a stride of 2, filters of 4 x 4 and of 6 x 6 are four filters of half the size, each over every second pixel of every
 * second row: four phases, which stand for channels here. So do the planes that a filter with three axes sees along the first
 * of them. All are read from where they lie.
 *
 * Images are of float32 or of bf16, all sums of float32. Needs AVX-512, and channels and filters of a group in multiples of 16.
 */

#include <math.h>

#include "avx512.h"

#if defined(__x86_64__)

enum { TILES = WINOGRAD_TILES, EIGHT = 8, MOST = 6, RESULTS = 4, WINDOW = WINOGRAD_WINDOW };

INLINE_AVX512 __m512 times(float factor, __m512 number) { return _mm512_mul_ps(_mm512_set1_ps(factor), number); }

/* sum + factor number */
INLINE_AVX512 __m512 plus(__m512 sum, float factor, __m512 number) {
    return _mm512_fmadd_ps(_mm512_set1_ps(factor), number, sum);
}

/* How many pairs of points an edge has, the first of a pair, and the first index of them: behind 0, which has none. */
#define PAIRS(edge) ((edge) == 4 ? 1 : 2)
#define POINT(edge, pair) ((edge) == 4 ? 1.0f : (edge) == 5 ? ((pair) ? 1.25f : 0.5f) : ((pair) ? 1.5f : 0.75f))
#define BEHIND_0(edge) ((edge) % 2 == 0)

/* An edge of a tile of x. */
INLINE_AVX512 void transform(const __m512 *d, __m512 *to, const int edge) {
    if (edge == 3) {
        to[0] = _mm512_sub_ps(d[0], d[1]), to[1] = d[1], to[2] = _mm512_sub_ps(d[2], d[1]);
        return;
    }
    if (edge == 4) {
        to[0] = _mm512_sub_ps(d[0], d[2]), to[1] = _mm512_add_ps(d[1], d[2]);
        to[2] = _mm512_sub_ps(d[2], d[1]), to[3] = _mm512_sub_ps(d[3], d[1]);
        return;
    }
    const int first = BEHIND_0(edge);
    const float one = POINT(edge, 0) * POINT(edge, 0), two = POINT(edge, 1) * POINT(edge, 1);
    for (int pair = 0; pair < 2; pair++) {
        const float point = POINT(edge, pair), other = pair ? one : two;
        __m512 high = plus(d[first + 3], -other, d[first + 1]), low = times(point, plus(d[first + 2], -other, d[first]));
        to[first + 2 * pair] = _mm512_add_ps(high, low);
        to[first + 2 * pair + 1] = first ? _mm512_sub_ps(high, low) : _mm512_sub_ps(low, high);
    }
    if (first) to[0] = plus(plus(d[4], -one - two, d[2]), one * two, d[0]);
    to[edge - 1] = plus(plus(d[edge - 1], -one - two, d[edge - 3]), one * two, d[edge - 5]);
}

/* 1 / the products of the differences of a point from all others; of 0, but for the sign. */
INLINE_AVX512 float weight(const int edge, const int pair) {
    const float own = POINT(edge, pair), other = POINT(edge, 1 - pair);
    if (edge == 4) return 0.5f;
    return 1 / (2 * (edge == 6 ? own * own : own) * (own * own - other * other));
}

INLINE_AVX512 float weight_of_0(const int edge) {
    const float one = POINT(edge, 0), two = POINT(edge, 1);
    return edge == 6 ? 1 / (one * one * two * two) : 1;
}

/* The values of a polynomial of `count` coefficients at all points; weighed, for a filter. */
INLINE_AVX512 void evaluate(const __m512 *c, __m512 *to, const int edge, const int count, const int weighed) {
    to[edge - 1] = c[count - 1];
    if (BEHIND_0(edge) || edge == 3) to[0] = weighed && edge == 6 ? times(weight_of_0(edge), c[0]) : c[0];
    if (edge == 3) {
        to[1] = _mm512_add_ps(c[0], c[1]);
        return;
    }
    for (int pair = 0; pair < PAIRS(edge); pair++) {
        const float point = POINT(edge, pair), square = point * point, factor = weighed ? weight(edge, pair) : 1;
        __m512 even = weighed ? times(factor, c[0]) : c[0], odd = times(factor * point, c[1]);
        if (count > 2) even = plus(even, factor * square, c[2]);
        if (count > 3) odd = plus(odd, factor * square * point, c[3]);
        if (count > 4) even = plus(even, factor * square * square, c[4]);
        to[BEHIND_0(edge) + 2 * pair] = _mm512_add_ps(even, odd);
        to[BEHIND_0(edge) + 2 * pair + 1] = _mm512_sub_ps(even, odd);
    }
}

/* The transpose: `count` numbers of the values at all points. */
INLINE_AVX512 void combine(const __m512 *v, __m512 *to, const int edge, const int count, const int weighed) {
    if (edge == 3) {
        to[0] = _mm512_add_ps(v[0], v[1]), to[1] = _mm512_add_ps(v[1], v[2]);
        return;
    }
    for (int pair = 0; pair < PAIRS(edge); pair++) {
        const float point = POINT(edge, pair), factor = weighed ? weight(edge, pair) : 1;
        const __m512 *values = v + BEHIND_0(edge) + 2 * pair;
        __m512 even = _mm512_add_ps(values[0], values[1]), odd = _mm512_sub_ps(values[0], values[1]);
        float power = factor;
        for (int k = 0; k < count; k++, power *= point) {
            __m512 part = k % 2 ? odd : even;
            to[k] = pair ? plus(to[k], power, part) : power == 1 ? part : times(power, part);
        }
    }
    if (BEHIND_0(edge)) to[0] = weighed && edge == 6 ? plus(to[0], weight_of_0(edge), v[0]) : _mm512_add_ps(to[0], v[0]);
    to[count - 1] = _mm512_add_ps(to[count - 1], v[edge - 1]);
}

/* Sixteen numbers of float32, or of bf16 if the constant `narrow` is 1: see narrow.h. */
INLINE_AVX512 __m512 read16(const void *numbers, int64_t index, const int narrow) {
    if (!narrow) return _mm512_loadu_ps((const float *)numbers + index);
    __m256i halves = _mm256_loadu_si256((const __m256i_u *)((const uint16_t *)numbers + index));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

INLINE_AVX512 void write16(void *numbers, int64_t index, __m512 number, const int narrow) {
    if (!narrow) {
        _mm512_storeu_ps((float *)numbers + index, number);
        return;
    }
    __m512i bits = _mm512_castps_si512(number), high = _mm512_srli_epi32(bits, 16);
    __m512i even = _mm512_add_epi32(_mm512_and_si512(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7FFF));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, even), 16);
    __mmask16 is_nan = _mm512_cmp_ps_mask(number, number, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i_u *)((uint16_t *)numbers + index), _mm512_cvtepi32_epi16(rounded));
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
INLINE_AVX512 void filters(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall,
                           const int broad, const int side, const int narrow) {
    const struct winograd_filters *f = &op->winograd_filters;
    const int64_t given = f->channels, back = f->back, step = f->step, phases = step * step, depth = f->depth;
    const int64_t ins = depth * (back ? f->filters : phases * given), plane = plane_of(f->filters * depth * phases * given);
    const int64_t row = step * side, window = depth * row * row;
    (void)worker, (void)narrow;
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
                    evaluate(column, cells, tall, side, 1);
                    for (int down = 0; down < tall; down++) once[down][right] = cells[down];
                }
                int64_t line = back ? (number % phases * given / LANES + part) * ins + at.plane * f->filters + in
                                    : part * ins + number * given + in;
                float *to = f->tiled + line * LANES;
                for (int down = 0; down < tall; down++, to += broad * plane) {
                    evaluate(once[down], cells, broad, side, 1);
                    for (int right = 0; right < broad; right++) _mm512_storeu_ps(to + right * plane, cells[right]);
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
    int64_t side, rows, columns; /* of the filters of a phase, and of the results of a tile */
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
    int64_t row = w->rows * (line % w->down), column = w->columns * (tile % w->across);
    return (struct origin){plane / w->out.deep, plane % w->out.deep, row, column};
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

/* A tile of x of 16 channels; if `is_bad` is not NULL, numbers that are not finite become 0, and are noted there. */
INLINE_AVX512 void read_tile(const void *x, const struct images *s, int64_t part, struct origin begin, float *to,
                             int64_t plane, uint8_t (*is_bad)[MOST], const int tall, const int broad, const int narrow) {
    __m512 once[MOST][MOST], cells[MOST];
    int64_t top, left, at = corner(s, part, begin, &top, &left);
    if (at < 0) {
        for (int cell = 0; cell < tall * broad; cell++) _mm512_store_ps(to + cell * plane, _mm512_setzero_ps());
        return;
    }
    int inside = top >= 0 && left >= 0 && top + s->step * (tall - 1) < s->height && left + s->step * (broad - 1) < s->width;
    for (int right = 0; right < broad; right++) {
        __m512 lines[MOST];
        for (int down = 0; down < tall; down++) {
            int64_t i = top + s->step * down, j = left + s->step * right;
            int there = inside || ((uint64_t)i < (uint64_t)s->height && (uint64_t)j < (uint64_t)s->width);
            lines[down] = there ? read16(x, at + i * s->row + j * s->pixel, narrow) : _mm512_setzero_ps();
            if (is_bad) {
                __m512 none = _mm512_sub_ps(lines[down], lines[down]);
                __mmask16 finite = _mm512_cmp_ps_mask(none, none, _CMP_ORD_Q);
                lines[down] = _mm512_maskz_mov_ps(finite, lines[down]);
                is_bad[down][right] |= finite != 0xFFFF;
            }
        }
        transform(lines, cells, tall);
        for (int down = 0; down < tall; down++) once[down][right] = cells[down];
    }
    for (int down = 0; down < tall; down++, to += broad * plane) {
        transform(once[down], cells, broad);
        for (int right = 0; right < broad; right++) _mm512_store_ps(to + right * plane, cells[right]);
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

/* The results of a tile of 16 filters; returns whether one is NaN. If `is_bad` is not NULL, those become NaN whose windows
 * have such a number. */
INLINE_AVX512 int write_tile(const struct winograd *o, const struct images *s, const float *m, int64_t plane, int64_t part,
                             struct origin begin, uint8_t (*is_bad)[MOST], const int tall, const int broad, const int side, const int narrow) {
    const int rows = tall + 1 - side, columns = broad + 1 - side;
    int has_nan = 0;
    const __m512 bias = o->bias ? _mm512_loadu_ps(o->bias + part * LANES) : _mm512_setzero_ps();
    __m512 once[RESULTS][MOST], cells[MOST], line[RESULTS];
    int64_t top, left, at = corner(s, part, begin, &top, &left);
    for (int right = 0; right < broad; right++) {
        for (int down = 0; down < tall; down++) cells[down] = _mm512_load_ps(m + (down * broad + right) * plane);
        combine(cells, line, tall, rows, 0);
        for (int down = 0; down < rows; down++) once[down][right] = line[down];
    }
    for (int down = 0; down < rows; down++) {
        int64_t i = top + s->step * down;
        if ((uint64_t)i >= (uint64_t)s->height) continue;
        combine(once[down], line, broad, columns, 0);
        for (int right = 0; right < columns; right += 2)
            has_nan |= _mm512_cmp_ps_mask(line[right], line[right + 1], _CMP_UNORD_Q);
        for (int right = 0; right < columns; right++) {
            int64_t j = left + s->step * right;
            if ((uint64_t)j >= (uint64_t)s->width) continue;
            __m512 sum = _mm512_add_ps(line[right], bias);
            for (int cell = 0; is_bad && cell < side * side; cell++)
                if (is_bad[down + cell / side][right + cell % side]) sum = _mm512_set1_ps(NAN);
            if (o->relu) sum = _mm512_max_ps(_mm512_setzero_ps(), sum);
            write16(o->y, at + i * s->row + j * s->pixel, sum, narrow);
        }
    }
    return has_nan;
}

static struct convolution convolution(const struct winograd *o) {
    struct convolution w = {
        .channels = o->channels * o->x_step * o->x_step * o->depth, .filters = o->filters, .phases = o->y_step * o->y_step,
        .room = o->tiles, .side = o->side, .rows = o->tall + 1 - o->side, .columns = o->broad + 1 - o->side,
        .in = images(o->channels, o->groups, o->deep, o->height, o->width, o->x_blocked),
        .out = images(o->filters, o->groups, o->out_deep, o->out_height, o->out_width, o->y_blocked),
    };
    w.in.before = o->before, w.in.above = o->above, w.in.beside = o->beside, w.in.step = o->x_step, w.out.step = o->y_step;
    int64_t rows = (o->out_height + o->y_step - 1) / o->y_step, columns = (o->out_width + o->y_step - 1) / o->y_step;
    w.down = (rows + w.rows - 1) / w.rows, w.across = (columns + w.columns - 1) / w.columns;
    w.tiles = o->images * o->out_deep * w.down * w.across;
    return w;
}

/* The first row or column of y that belongs to a phase, and in *above how far before x its first tile is. */
static int64_t first_of(int64_t number, int64_t pad, int64_t step, int64_t side, int64_t *above) {
    int64_t outside = pad > number ? (pad - number + step - 1) / step : 0; /* rows of the phase before y */
    *above = side - 1 - outside;
    return step * outside + number - pad;
}

static void turn_to(struct convolution *w, const struct winograd *o, int64_t number) {
    w->out.above = -first_of(number / o->y_step, o->above, o->y_step, o->side, &w->in.above);
    w->out.beside = -first_of(number % o->y_step, o->beside, o->y_step, o->side, &w->in.beside);
}

/* How many pieces the tiles of a phase are. */
static int64_t pieces(const struct convolution *w) { return (w->tiles + w->room - 1) / w->room; }

/* Once more a tile that has a NaN. With two results in a row it gets only where the windows have one: the first and the last
 * number of a row are in no other result. Of four it gets into all of them. */
INLINE_AVX512 void write_apart(const struct convolution *w, const struct winograd *o, const float *v, int64_t plane_of_v,
                               struct origin at, float *u, int64_t plane, float *m, int64_t plane_of_m, const int tall, const int broad,
                               const int side, const int narrow) {
    uint8_t is_bad[MOST][MOST] = {{0}};
    for (int64_t part = 0; part < w->channels / LANES; part++)
        read_tile(o->x, &w->in, part, at, u + part * LANES, plane, is_bad, tall, broad, narrow);
    for (int64_t part = 0; part < w->filters / LANES; part++) {
        for (int64_t cell = 0; cell < tall * broad; cell++)
            product(u + cell * plane, v + cell * plane_of_v + part * w->channels * LANES, m + cell * plane_of_m, w->channels, 0);
        write_tile(o, &w->out, m, plane_of_m, part, at, is_bad, tall, broad, side, narrow);
    }
}

/* y = x * w + b, and ReLU behind it. Scratch for each worker: what tiles become, and their results. Pieces are so many tiles
 * as there is room for, of one phase after the other. */
INLINE_AVX512 void strips(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                          const int side, const int narrow) {
    struct convolution w = convolution(&op->winograd);
    const int cells = tall * broad;
    int64_t plane = plane_of(w.room * w.channels), plane_of_m = plane_of(w.room * 2 * LANES), parts = w.filters / LANES;
    int64_t plane_of_v = plane_of(w.phases * w.filters * w.channels);
    float *u = op->winograd.scratch + worker * cells * (plane + plane_of_m), *m = u + cells * plane;
    for (int64_t strip = start; strip < stop; strip++) {
        int64_t number = strip / pieces(&w), begin = strip % pieces(&w) * w.room, count = smaller(w.room, w.tiles - begin);
        const float *v = op->winograd.w + number * w.filters * w.channels;
        if (w.phases > 1) turn_to(&w, &op->winograd, number);
        uint64_t with_nan = 0;
        for (int64_t tile = 0; tile < count; tile++) {
            struct origin at = origin(&w, begin + tile);
            for (int64_t part = 0; part < w.channels / LANES; part++)
                read_tile(op->winograd.x, &w.in, part, at, u + tile * w.channels + part * LANES, plane, NULL, tall, broad, narrow);
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
                    if (write_tile(&op->winograd, &w.out, m + (tile * 2 + half) * LANES, plane_of_m, part + half, at, NULL,
                                   tall, broad, side, narrow))
                        with_nan |= 1ull << tile;
            }
        }
        for (int64_t tile = 0; (tall > side + 1 || broad > side + 1) && with_nan >> tile && tile < count; tile++)
            if (with_nan >> tile & 1)
                write_apart(&w, &op->winograd, v, plane_of_v, origin(&w, begin + tile), u, plane, m, plane_of_m, tall, broad,
                            side, narrow);
    }
}

/* The gradients of a tile's results of 16 filters, of which so many rows and columns are there; their sum is the last cell. */
INLINE_AVX512 void read_top(const void *dy, int64_t at, const struct images *s, int64_t rows_there, int64_t columns_there, float *to,
                            int64_t plane, const int tall, const int broad, const int side, const int narrow) {
    const int rows = tall + 1 - side, columns = broad + 1 - side;
    __m512 once[MOST][RESULTS], line[RESULTS], cells[MOST], sum = _mm512_setzero_ps();
    for (int right = 0; right < columns; right++) {
        for (int row = 0; row < rows; row++) {
            int there = row < rows_there && right < columns_there;
            line[row] = there ? read16(dy, at + row * s->row + right * s->pixel, narrow) : _mm512_setzero_ps();
            sum = _mm512_add_ps(sum, line[row]);
        }
        evaluate(line, cells, tall, rows, 0);
        for (int down = 0; down < tall; down++) once[down][right] = cells[down];
    }
    for (int down = 0; down < tall; down++, to += broad * plane) {
        evaluate(once[down], cells, broad, columns, 0);
        for (int right = 0; right < broad; right++) _mm512_store_ps(to + right * plane, cells[right]);
    }
    _mm512_store_ps(to, sum);
}

/* What the gradient of the filters needs: what `room` tiles of x and of dy become, (cells, tiles, channels or filters), of dy
 * with a cell more, the sums of their products, (cells, filters, channels), and of dy. */
struct sums {
    float *u, *e, *products, *tops;
    int64_t plane_of_u, plane_of_e, plane, size;
};

static struct sums sums_of(const struct convolution *w, float *memory, int64_t part, int64_t cells) {
    struct sums s = {.plane_of_u = plane_of(w->room * w->channels), .plane_of_e = plane_of(w->room * w->filters),
                     .plane = plane_of(w->filters * w->channels)};
    s.size = cells * (s.plane_of_u + s.plane_of_e + s.plane) + s.plane_of_e + w->filters;
    s.u = memory + part * s.size, s.e = s.u + cells * s.plane_of_u, s.products = s.e + (cells + 1) * s.plane_of_e;
    s.tops = s.products + cells * s.plane;
    return s;
}

/* The gradients of filters and bias. Scratch: the sums of a worker, for each worker, or one for all. Pieces are tiles
 * here, ... */
INLINE_AVX512 void both(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                        const int side, const int narrow) {
    struct convolution w = convolution(&op->winograd);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, tall * broad);
    (void)worker;
    for (int64_t tile = start; tile < stop; tile++) {
        struct origin at = origin(&w, op->winograd.first + tile);
        int64_t top = at.image * w.out.image + at.plane * w.out.plane + at.row * w.out.row + at.column * w.out.pixel;
        for (int64_t part = 0; part < w.channels / LANES; part++)
            read_tile(op->winograd.x, &w.in, part, at, s.u + tile * w.channels + part * LANES, s.plane_of_u, NULL, tall, broad,
                      narrow);
        for (int64_t part = 0; part < w.filters / LANES; part++)
            read_top(op->winograd.dy, top + part * w.out.part, &w.out, w.out.height - at.row, w.out.width - at.column,
                     s.e + tile * w.filters + part * LANES, s.plane_of_e, tall, broad, side, narrow);
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
INLINE_AVX512 void add_products(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                                const int side, const int narrow) {
    struct convolution w = convolution(&op->winograd);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, tall * broad);
    int64_t tiles = op->winograd.end - op->winograd.first, eights = w.filters / EIGHT;
    int fresh = op->winograd.fresh != 0;
    (void)worker, (void)side, (void)narrow;
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
        const float *last = s.e + tall * broad * s.plane_of_e + filter;
        for (int64_t f = 0; cell == 0 && f < EIGHT; f++) {
            double sum = fresh ? 0 : s.tops[filter + f];
            for (int64_t tile = 0; tile < tiles; tile++) sum += last[tile * w.filters + f];
            s.tops[filter + f] = (float)sum;
        }
    }
}

/* ... and filters here, whose sums of all workers are added up. */
INLINE_AVX512 void filters_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                                const int side, const int narrow) {
    struct convolution w = convolution(&op->winograd);
    struct sums s = sums_of(&w, op->winograd.scratch, 0, tall * broad);
    const int64_t given = w.in.channels, step = w.in.step, row = step * side, window = op->winograd.depth * row * row;
    int64_t workers = larger(op->workers, 1);
    (void)worker, (void)narrow;
    for (int64_t filter = start; filter < stop; filter++) {
        for (int64_t begin = 0; begin < given; begin += LANES) {
            _Alignas(64) float lanes[WINDOW * LANES];
            for (int64_t channel = begin; channel < w.channels; channel += given) {
                const float *products = s.products + filter * w.channels + channel;
                __m512 once[MOST][MOST], column[MOST], numbers[MOST];
                struct phase at = phase(channel, given, step);
                for (int right = 0; right < broad; right++) {
                    for (int down = 0; down < tall; down++) {
                        const float *cell = products + (down * broad + right) * s.plane;
                        column[down] = _mm512_load_ps(cell);
                        for (int64_t worker = 1; worker < workers; worker++)
                            column[down] = _mm512_add_ps(column[down], _mm512_load_ps(cell + worker * s.size));
                    }
                    combine(column, numbers, tall, side, 1);
                    for (int down = 0; down < side; down++) once[down][right] = numbers[down];
                }
                for (int down = 0; down < side; down++) {
                    combine(once[down], numbers, broad, side, 1);
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
INLINE_AVX512 void alone(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int tall, const int broad,
                         const int side, const int narrow) {
    struct convolution w = convolution(&op->winograd);
    for (int64_t one = start; one < stop; one++) {
        int64_t end = w.tiles * (one + 1) / op->workers, from = w.tiles * one / op->workers;
        struct operation mine = *op;
        mine.winograd.scratch = sums_of(&w, op->winograd.scratch, one, tall * broad).u;
        for (int64_t begin = from; begin < end || begin == from; begin += w.room) {
            mine.winograd.first = begin, mine.winograd.end = smaller(begin + w.room, end), mine.winograd.fresh = begin == from;
            both(&mine, 0, mine.winograd.end - begin, worker, tall, broad, side, narrow);
            add_products(&mine, 0, tall * broad * w.filters / EIGHT, worker, tall, broad, side, narrow);
        }
    }
}

/* The tiles that there are, and a work_t for each of them and each type of images. */
static const struct tile {
    int64_t tall, broad, side;
} TILINGS[] = {{3, 3, 2}, {4, 4, 3}, {5, 5, 2}, {6, 4, 3}, {6, 6, 3}, {6, 6, 5}};
enum { KINDS = sizeof TILINGS / sizeof *TILINGS };

static int64_t kind_of(int64_t tall, int64_t broad, int64_t side) {
    int64_t kind = 0;
    while (TILINGS[kind].tall != tall || TILINGS[kind].broad != broad || TILINGS[kind].side != side) kind++;
    return kind;
}

#define FOR(work, tall, broad, side, narrow)                                                                           \
    ON_AVX512 static void work##_##tall##broad##side##narrow(const struct operation *op, int64_t start, int64_t stop,  \
                                                             int64_t worker) {                                         \
        work(op, start, stop, worker, tall, broad, side, narrow);                                                      \
    }
#define FOR_TILES(work, narrow)                                                                                        \
    FOR(work, 3, 3, 2, narrow) FOR(work, 4, 4, 3, narrow) FOR(work, 5, 5, 2, narrow)                                   \
    FOR(work, 6, 4, 3, narrow) FOR(work, 6, 6, 3, narrow) FOR(work, 6, 6, 5, narrow)
#define OF_TILES(work, narrow)                                                                                         \
    work##_332##narrow, work##_443##narrow, work##_552##narrow, work##_643##narrow, work##_663##narrow, work##_665##narrow
#define FOR_BOTH(work)                                                                                                 \
    FOR_TILES(work, 0) FOR_TILES(work, 1) static const work_t all_##work[] = {OF_TILES(work, 0), OF_TILES(work, 1)};
#define FOR_FLOAT32(work) FOR_TILES(work, 0) static const work_t all_##work[] = {OF_TILES(work, 0)};

FOR_FLOAT32(filters)
FOR_BOTH(strips)
FOR_BOTH(both)
FOR_FLOAT32(add_products)
FOR_FLOAT32(filters_back)
FOR_BOTH(alone)

/* Where the numbers of a group begin, `apart` from those of the group before; NULL stays NULL. */
static float *later(const float *numbers, int64_t group, int64_t apart) {
    return numbers ? (float *)numbers + group * apart : NULL;
}

static void *images_later(const void *images, int64_t group, int64_t apart, int64_t narrow) {
    return images ? (char *)images + group * apart * (narrow ? 2 : 4) : NULL;
}

void run_winograd_filters(const struct machine *machine, const struct operation *op) {
    const struct winograd_filters *f = &op->winograd_filters;
    const int64_t phases = f->depth * f->step * f->step, numbers = f->filters * f->channels;
    for (int64_t group = 0; group < f->groups; group++) {
        struct operation part = *op;
        part.winograd_filters.w = later(f->w, group, numbers * phases * f->side * f->side);
        part.winograd_filters.tiled = later(f->tiled, group, plane_of(numbers * phases) * f->tall * f->broad);
        share_out(machine, &part, all_filters[kind_of(f->tall, f->broad, f->side)], (f->back ? f->channels : f->filters) / LANES, 1);
    }
}

/* The images of a group, of x and of y or dy. */
static struct operation of_group(const struct operation *op, const struct convolution *w, int64_t group) {
    const struct winograd *o = &op->winograd;
    const int64_t of_x = o->channels / LANES * w->in.part, of_y = o->filters / LANES * w->out.part;
    struct operation part = *op;
    part.winograd.x = images_later(o->x, group, of_x, o->narrow);
    part.winograd.y = images_later(o->y, group, of_y, o->narrow);
    part.winograd.dy = images_later(o->dy, group, of_y, o->narrow);
    return part;
}

void run_winograd(const struct machine *machine, const struct operation *op) {
    const struct winograd *o = &op->winograd;
    struct convolution w = convolution(o);
    const int64_t kind = kind_of(o->tall, o->broad, o->side) + (o->narrow ? KINDS : 0);
    for (int64_t group = 0; group < o->groups; group++) {
        struct operation part = of_group(op, &w, group);
        part.winograd.w = later(o->w, group, plane_of(w.phases * w.filters * w.channels) * o->tall * o->broad);
        part.winograd.bias = later(o->bias, group, w.filters);
        share_out(machine, &part, all_strips[kind], w.phases * pieces(&w), 1);
    }
}

void run_winograd_weights(const struct machine *machine, const struct operation *op) {
    const struct winograd *o = &op->winograd;
    struct convolution w = convolution(o);
    const int64_t tile = kind_of(o->tall, o->broad, o->side), kind = tile + (o->narrow ? KINDS : 0);
    for (int64_t group = 0; group < o->groups; group++) {
        struct operation part = of_group(op, &w, group);
        struct winograd *p = &part.winograd;
        p->dw = later(o->dw, group, w.filters * w.channels * o->side * o->side), p->db = later(o->db, group, w.filters);
        if (op->workers) share_out(machine, &part, all_alone[kind], op->workers, 1);
        for (int64_t begin = 0; !op->workers && begin < w.tiles; begin += w.room) {
            p->first = begin, p->end = smaller(begin + w.room, w.tiles), p->fresh = begin == 0;
            share_out(machine, &part, all_both[kind], p->end - begin, 1);
            share_out(machine, &part, all_add_products[tile], o->tall * o->broad * w.filters / EIGHT, 1);
        }
        share_out(machine, &part, all_filters_back[tile], w.filters, 1);
    }
}

#endif
