/* The loops of BatchNorm, see batch_norm.c. The file that includes this defines ON, the instructions, and NUMBERS, how many
 * numbers of float32 a register of the processor holds: 8, or 16. */

#include <math.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "batch_norm.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* how vectors are passed does not matter: all that takes one is inlined */

/* What the loops over whole registers of float32 are made of, the most of the work: compilers make vectors of these in
 * every case, but of loops over lanes only in some. */
typedef float vector __attribute__((vector_size(4 * NUMBERS)));
typedef int32_t choices __attribute__((vector_size(4 * NUMBERS)));
typedef uint32_t words __attribute__((vector_size(4 * NUMBERS)));
typedef uint16_t halves __attribute__((vector_size(2 * NUMBERS)));
enum { PARTS = LANES / NUMBERS }; /* vectors of the lanes */

/* As many numbers as there are lanes. */
INLINE void load_all(const float *from, vector *to) { memcpy(to, from, LANES * sizeof *from); }

/* The same from a blob: as get() of narrow.h. */
INLINE vector read(const void *blob, int64_t index, const int narrow) {
    if (!narrow) {
        vector v;
        memcpy(&v, (const float *)blob + index, sizeof v);
        return v;
    }
    halves h;
    memcpy(&h, (const uint16_t *)blob + index, sizeof h);
    return (vector)(__builtin_convertvector(h, words) << 16);
}

/* As put(). `past_caches`: straight to memory, which is not read first then; the address must be a multiple of 16. */
INLINE void write(void *blob, int64_t index, const vector *v, int past_caches, const int narrow) {
    if (!narrow) {
        float *to = (float *)blob + index;
#if defined(__SSE2__)
        if (past_caches) {
            __m128 parts[NUMBERS / 4];
            memcpy(parts, v, sizeof *v);
            for (int i = 0; i < NUMBERS / 4; i++) _mm_stream_ps(to + 4 * i, parts[i]);
            return;
        }
#endif
        memcpy(to, v, sizeof *v);
        return;
    }
    words bits = (words)*v, is_nan = (words)(*v != *v);
    words rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    halves h = __builtin_convertvector((rounded & ~is_nan) | (quiet & is_nan), halves);
    uint16_t *to = (uint16_t *)blob + index;
#if defined(__SSE2__)
    if (past_caches) {
        __m128i parts[NUMBERS / 8];
        memcpy(parts, &h, sizeof h);
        for (int i = 0; i < NUMBERS / 8; i++) _mm_stream_si128((__m128i *)to + i, parts[i]);
        return;
    }
#endif
    memcpy(to, &h, sizeof h);
}

/* Registers of a block, where a pixel has one or several of them; and those after which sums are joined to those before. */
enum { STEPS = 32, STEPS_OF_WIDE = 8, JOINED = 256 };
enum { MEASURE, NORMALISE, ADD_UP, SPREAD_BACK };

/* Registers `apart` from one another, the first at `index`. The channel of a lane is `channel` + the lane, or where several
 * pixels lie in a register, + the lane in a pixel. */
struct block {
    int64_t index, apart, steps, channel, lanes;
    int past_caches; /* written straight to memory */
};

INLINE void coefficients(const struct batch *b, const struct block *k, const float *from, float *to) {
    int64_t width = smaller(b->width, LANES), mask = LANES % width == 0 ? width - 1 : LANES - 1;
    if (k->lanes == LANES && (width == LANES || width == LANES / 2)) { /* the usual ones, without a loop */
        memcpy(to, from + k->channel, LANES / 2 * sizeof(float));
        memcpy(to + LANES / 2, from + k->channel + width - LANES / 2, LANES / 2 * sizeof(float));
    } else {
        for (int64_t lane = 0; lane < k->lanes; lane++) to[lane] = from[k->channel + (lane & mask)];
    }
}

INLINE void measure(const struct batch *b, const struct block *k, struct moments *m, const int lanes, const int narrow) {
    float sum[LANES] = {0}, squares[LANES] = {0};
    if (lanes == LANES) {
        vector about[PARTS], sums[PARTS] = {0}, products[PARTS] = {0};
        load_all(m->centre, about);
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < PARTS; i++) {
                vector off = read(b->x, at + i * NUMBERS, narrow) - about[i];
                sums[i] += off;
                products[i] += off * off;
            }
        memcpy(sum, sums, sizeof sum), memcpy(squares, products, sizeof squares);
    } else {
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int lane = 0; lane < lanes; lane++) {
                float off = get(b->x, at + lane, narrow) - m->centre[lane];
                sum[lane] += off;
                squares[lane] += off * off;
            }
    }
    for (int lane = 0; lane < lanes; lane++) {
        m->more[lane] += (double)k->steps;
        m->sum[lane] += sum[lane];
        m->products[lane] += squares[lane];
    }
}

/* Measures from here on about the mean so far, or about the first number. */
static void centre(const struct batch *b, const struct block *k, struct moments *m, int narrow) {
    for (int64_t lane = 0; lane < LANES; lane++)
        m->centre[lane] = m->count[lane] > 0 ? (float)m->mean[lane] : get(b->x, k->index + lane % k->lanes, narrow);
}

static void join(struct moments *m) {
    for (int lane = 0; lane < LANES; lane++) {
        double before = m->count[lane], more = m->more[lane], total = before + more;
        if (more == 0) continue;
        double off = m->sum[lane] / more, moved = m->centre[lane] + off - m->mean[lane];
        m->squares[lane] += m->products[lane] - m->sum[lane] * off + moved * moved * before * more / total;
        m->mean[lane] += moved * more / total;
        m->count[lane] = total;
    }
    memset(m->more, 0, sizeof m->more), memset(m->sum, 0, sizeof m->sum), memset(m->products, 0, sizeof m->products);
}

INLINE void normalise(const struct batch *b, const struct block *k, const int lanes, const int narrow, const int sum) {
    float centre[LANES], factor[LANES], shift[LANES];
    coefficients(b, k, b->centre, centre), coefficients(b, k, b->factor, factor), coefficients(b, k, b->shift, shift);
    float low = b->relu ? 0 : -INFINITY;
    if (lanes == LANES) {
        vector centres[PARTS], factors[PARTS], shifts[PARTS], least = low - (vector){0};
        load_all(centre, centres), load_all(factor, factors), load_all(shift, shifts);
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < PARTS; i++) {
                vector value = (read(b->x, at + i * NUMBERS, narrow) - centres[i]) * factors[i] + shifts[i];
                if (sum) value += read(b->other, at + i * NUMBERS, narrow);
                choices below = value < least; /* never of a NaN */
                value = (vector)((~below & (choices)value) | (below & (choices)least));
                write(b->y, at + i * NUMBERS, &value, k->past_caches, narrow);
            }
        return;
    }
    for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart) {
        float y[LANES];
        for (int lane = 0; lane < lanes; lane++) {
            y[lane] = (get(b->x, at + lane, narrow) - centre[lane]) * factor[lane] + shift[lane];
            if (sum) y[lane] += get(b->other, at + lane, narrow);
            y[lane] = y[lane] < low ? low : y[lane]; /* NaN stays */
        }
        for (int lane = 0; lane < lanes; lane++) put(b->y, at + lane, y[lane], narrow);
    }
}

/* dy behind ReLU, if there is one: times 0 where y was not above 0. */
INLINE float gated(float dy, float off, float factor, float shift, const int relu) {
    return relu ? dy * (off * factor + shift > 0 ? 1.f : 0.f) : dy;
}

INLINE vector gated_vector(vector dy, vector off, vector factor, vector shift, const int relu) {
    const vector one = 1 - (vector){0};
    return relu ? dy * (vector)((off * factor + shift > 0) & (choices)one) : dy;
}

INLINE void add_up(const struct batch *b, const struct block *k, struct sums *s, const int lanes, const int narrow,
                   const int relu) {
    float centre[LANES], factor[LANES], shift[LANES], sum[LANES] = {0}, product[LANES] = {0};
    coefficients(b, k, b->centre, centre), coefficients(b, k, b->factor, factor), coefficients(b, k, b->shift, shift);
    if (lanes == LANES) {
        vector centres[PARTS], factors[PARTS], shifts[PARTS], sums[PARTS] = {0}, products[PARTS] = {0};
        load_all(centre, centres), load_all(factor, factors), load_all(shift, shifts);
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < PARTS; i++) {
                vector off = read(b->x, at + i * NUMBERS, narrow) - centres[i];
                vector passed = gated_vector(read(b->dy, at + i * NUMBERS, narrow), off, factors[i], shifts[i], relu);
                sums[i] += passed;
                products[i] += passed * off;
            }
        memcpy(sum, sums, sizeof sum), memcpy(product, products, sizeof product);
    } else {
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int lane = 0; lane < lanes; lane++) {
                float off = get(b->x, at + lane, narrow) - centre[lane];
                float dy = gated(get(b->dy, at + lane, narrow), off, factor[lane], shift[lane], relu);
                sum[lane] += dy;
                product[lane] += dy * off;
            }
    }
    for (int lane = 0; lane < lanes; lane++) s->sum[lane] += sum[lane], s->product[lane] += product[lane];
}

INLINE void spread_back(const struct batch *b, const struct block *k, const int lanes, const int narrow, const int relu) {
    float centre[LANES], factor[LANES], shift[LANES], of_dy[LANES], of_x[LANES], constant[LANES];
    coefficients(b, k, b->centre, centre), coefficients(b, k, b->factor, factor), coefficients(b, k, b->shift, shift);
    coefficients(b, k, b->of_dy, of_dy), coefficients(b, k, b->of_x, of_x), coefficients(b, k, b->constant, constant);
    int follows = b->follows != 0;
    if (lanes == LANES) {
        vector centres[PARTS], factors[PARTS], shifts[PARTS], of_dys[PARTS], of_xs[PARTS], constants[PARTS];
        load_all(centre, centres), load_all(factor, factors), load_all(shift, shifts);
        load_all(of_dy, of_dys), load_all(of_x, of_xs), load_all(constant, constants);
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < PARTS; i++) {
                vector off = read(b->x, at + i * NUMBERS, narrow) - centres[i];
                vector passed = gated_vector(read(b->dy, at + i * NUMBERS, narrow), off, factors[i], shifts[i], relu);
                vector away = follows ? passed - constants[i] - of_xs[i] * off : passed;
                away *= of_dys[i];
                write(b->dx, at + i * NUMBERS, &away, k->past_caches, narrow);
            }
        return;
    }
    for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart) {
        float dx[LANES];
        for (int lane = 0; lane < lanes; lane++) {
            float off = get(b->x, at + lane, narrow) - centre[lane];
            float dy = gated(get(b->dy, at + lane, narrow), off, factor[lane], shift[lane], relu);
            float away = dy - constant[lane] - of_x[lane] * off;
            dx[lane] = of_dy[lane] * (follows ? away : dy);
        }
        for (int lane = 0; lane < lanes; lane++) put(b->dx, at + lane, dx[lane], narrow);
    }
}

/* What a pass does with a block; `lanes` is a constant where all are there. */
INLINE void work_on(const struct batch *b, const struct block *k, int64_t index, const int lanes, const int pass,
                    const int narrow) {
    int relu = b->relu != 0;
    if (pass == MEASURE) measure(b, k, (struct moments *)b->parts_of_sums + index, lanes, narrow);
    if (pass == NORMALISE && b->other) normalise(b, k, lanes, narrow, 1);
    if (pass == NORMALISE && !b->other) normalise(b, k, lanes, narrow, 0);
    if (pass == ADD_UP && relu) add_up(b, k, (struct sums *)b->parts_of_sums + index, lanes, narrow, 1);
    if (pass == ADD_UP && !relu) add_up(b, k, (struct sums *)b->parts_of_sums + index, lanes, narrow, 0);
    if (pass == SPREAD_BACK && relu) spread_back(b, k, lanes, narrow, 1);
    if (pass == SPREAD_BACK && !relu) spread_back(b, k, lanes, narrow, 0);
}

/* A block of fewer lanes than a register has; a function of its own, once for all passes, or compiling takes minutes. */
__attribute__((noinline)) static void work_on_few(const struct batch *b, const struct block *k, int64_t index, int pass,
                                                  int narrow) {
    work_on(b, k, index, (int)k->lanes, pass, narrow);
}

INLINE void block(const struct batch *b, const struct block *k, int64_t index, const int pass, const int narrow) {
    if (k->lanes == LANES)
        work_on(b, k, index, LANES, pass, narrow);
    else
        work_on_few(b, k, index, pass, narrow);
}

/* Whether a blob is larger than caches are, and all its registers lie where they can be written past them. */
INLINE int past_caches(const struct batch *b) {
    const int64_t whole = b->narrow ? 8 : 4; /* numbers of 16 bytes */
    return b->images * b->pixels * b->channels >= 1 << 21 && b->width % whole == 0 && b->pixels * b->width % whole == 0;
}

INLINE void task(const struct batch *b, int64_t number, const int pass, const int narrow) {
    int64_t part = number / b->groups, group = number % b->groups, all = b->images * b->pixels;
    int64_t stop = all * (group + 1) / b->groups, to_join = 0;
    struct moments *moments = (struct moments *)b->parts_of_sums + number * b->chunks;
    for (int64_t at = all * group / b->groups; at < stop;) {
        int64_t pixel = at % b->pixels, run = smaller(b->pixels - pixel, stop - at);
        int64_t index = ((at / b->pixels * b->parts + part) * b->pixels + pixel) * b->width;
        int several = LANES % b->width == 0; /* whole pixels in a register, and a rest in the last one */
        int64_t steps = several ? run * b->width / LANES : run, rest = several ? run * b->width % LANES : 0;
        struct block k = {.apart = several ? LANES : b->width, .past_caches = past_caches(b)};
        at += run;
        for (int64_t step = 0; step < steps + (rest > 0); step += k.steps) {
            k.steps = step < steps ? smaller(b->chunks > 1 ? STEPS_OF_WIDE : STEPS, steps - step) : 1;
            for (int64_t chunk = 0; chunk < b->chunks; chunk++) {
                k.index = index + step * k.apart + chunk * LANES, k.channel = part * b->width + chunk * LANES;
                k.lanes = step == steps ? rest : several ? LANES : smaller(LANES, b->width - chunk * LANES);
                if (pass == MEASURE && to_join == 0) centre(b, &k, moments + chunk, narrow);
                block(b, &k, number * b->chunks + chunk, pass, narrow);
                if (pass == MEASURE && to_join + k.steps >= JOINED) join(moments + chunk);
            }
            to_join = to_join + k.steps >= JOINED ? 0 : to_join + k.steps;
        }
    }
    for (int64_t chunk = 0; pass == MEASURE && chunk < b->chunks; chunk++) join(moments + chunk);
}

INLINE void tasks(const struct operation *op, int64_t start, int64_t stop, const int pass) {
    struct batch b = batch(&op->batch_norm);
    for (int64_t number = start; number < stop; number++)
        if (b.narrow)
            task(&b, number, pass, 1);
        else
            task(&b, number, pass, 0);
#if defined(__SSE2__)
    _mm_sfence(); /* other threads see what was written straight to memory */
#endif
}

#define PASS(name, pass)                                                                                               \
    ON static void name(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {                     \
        (void)worker;                                                                                                  \
        tasks(op, start, stop, pass);                                                                                  \
    }

PASS(all_measure, MEASURE)
PASS(all_normalise, NORMALISE)
PASS(all_add_up, ADD_UP)
PASS(all_spread_back, SPREAD_BACK)

#define LOOPS {all_measure, all_normalise, all_add_up, all_spread_back}
