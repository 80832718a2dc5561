/* BatchNorm of float32 or bf16, in any layout: mean and variance in one pass, with the digits of two. Runs on every
 * processor, with the same bits.
 *
 * A blob is (images, parts, pixels, width): plain blobs have parts of one channel, those in blocks parts of a block, and
 * with the channels last there is one image with one part. Work is divided into tasks whatever the number of threads, so
 * that the bits do not depend on it: a group of pixels of all images, of one part. A task adds up a few pixels in float32,
 * about a centre that is near, adds such sums up in float64, and after some hundred pixels joins them to those before:
 * Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
 *
 * If there are enough parts, a thread does all passes over one part before it goes to the next: a part of a blob of
 * images is still in the caches when the second pass reads it.
 */

#include <math.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "narrow.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* how vectors are passed does not matter: all that takes one is inlined */

/* What the loops over whole registers of float32 are made of, the most of the work: compilers make vectors of these in
 * every case, but of loops over lanes only in some. */
typedef float vector __attribute__((vector_size(32)));
typedef int32_t choices __attribute__((vector_size(32)));
typedef uint32_t words __attribute__((vector_size(32)));
typedef uint16_t halves __attribute__((vector_size(16)));
enum { HALF = LANES / 2 }; /* the lanes of a vector; two are a register */

INLINE vector load(const float *from) {
    vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* The same from a blob: as get() of narrow.h. */
INLINE vector read(const void *blob, int64_t index, const int narrow) {
    if (!narrow) return load((const float *)blob + index);
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
            __m128 parts[2];
            memcpy(parts, v, sizeof *v);
            _mm_stream_ps(to, parts[0]), _mm_stream_ps(to + 4, parts[1]);
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
        _mm_stream_si128((__m128i *)to, (__m128i)h);
        return;
    }
#endif
    memcpy(to, &h, sizeof h);
}

/* Registers of a block, where a pixel has one or several of them; and those after which sums are joined to those before. */
enum { STEPS = 32, STEPS_OF_WIDE = 8, JOINED = 256 };
enum { MEASURE, NORMALISE, ADD_UP, SPREAD_BACK };

struct moments { /* of 16 lanes, each with numbers of one channel */
    double count[LANES], mean[LANES], squares[LANES];
    double more[LANES], sum[LANES], products[LANES]; /* of what is not joined to them yet, less the centre */
    float centre[LANES];
};

struct sums {
    double sum[LANES], product[LANES]; /* of dy, and of dy (x - centre) */
};

_Static_assert(sizeof(struct moments) == BATCH_NORM_MOMENTS * LANES, "operations.h says otherwise");
_Static_assert(sizeof(struct sums) == BATCH_NORM_SUMS * LANES, "operations.h says otherwise");

struct batch {
    int64_t images, parts, pixels, width, groups;
    int64_t channels, chunks; /* chunks: registers for the channels of a pixel */
    int64_t relu, follows, narrow;
    const void *x, *dy, *other;
    const float *scale, *bias;
    void *y, *dx;
    float *running_mean, *running_variance, *dscale, *dbias;
    double *mean, *inverse;          /* kept from forward to backward; inverse: 1 / the standard deviation */
    float *centre, *factor, *shift;  /* likewise: y = (x - centre) factor + shift */
    void *parts_of_sums;             /* for each task and chunk */
    float *of_dy, *of_x, *constant;  /* dx = of_dy (dy - constant - of_x (x - centre)) */
};

static struct batch batch(const struct batch_norm *o) {
    struct batch b = {
        .images = o->images, .parts = o->parts, .pixels = o->pixels, .width = o->width, .groups = o->groups,
        .channels = o->parts * o->width, .chunks = pieces_of(o->width, LANES),
        .relu = o->relu, .follows = o->follows, .narrow = o->narrow,
        .x = o->x, .dy = o->dy, .other = o->other, .scale = o->scale, .bias = o->bias, .y = o->y, .dx = o->dx,
        .running_mean = o->running_mean, .running_variance = o->running_variance, .dscale = o->dscale, .dbias = o->dbias,
    };
    b.mean = o->kept, b.inverse = b.mean + b.channels;
    b.centre = (float *)(b.inverse + b.channels), b.factor = b.centre + b.channels, b.shift = b.factor + b.channels;
    b.of_dy = o->scratch, b.of_x = b.of_dy + b.channels, b.constant = b.of_x + b.channels;
    b.parts_of_sums = (char *)o->scratch + pieces_of(3 * b.channels * (int64_t)sizeof(float), ALIGNMENT) * ALIGNMENT;
    return b;
}

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
        vector about[2] = {load(m->centre), load(m->centre + HALF)}, sums[2] = {0}, products[2] = {0};
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < 2; i++) {
                vector off = read(b->x, at + i * HALF, narrow) - about[i];
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
        vector centres[2] = {load(centre), load(centre + HALF)}, factors[2] = {load(factor), load(factor + HALF)};
        vector shifts[2] = {load(shift), load(shift + HALF)}, least = low - (vector){0};
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < 2; i++) {
                vector value = (read(b->x, at + i * HALF, narrow) - centres[i]) * factors[i] + shifts[i];
                if (sum) value += read(b->other, at + i * HALF, narrow);
                choices below = value < least; /* never of a NaN */
                value = (vector)((~below & (choices)value) | (below & (choices)least));
                write(b->y, at + i * HALF, &value, k->past_caches, narrow);
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
        vector centres[2] = {load(centre), load(centre + HALF)}, factors[2] = {load(factor), load(factor + HALF)};
        vector shifts[2] = {load(shift), load(shift + HALF)}, sums[2] = {0}, products[2] = {0};
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < 2; i++) {
                vector off = read(b->x, at + i * HALF, narrow) - centres[i];
                vector passed = gated_vector(read(b->dy, at + i * HALF, narrow), off, factors[i], shifts[i], relu);
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
        vector centres[2] = {load(centre), load(centre + HALF)}, factors[2] = {load(factor), load(factor + HALF)};
        vector shifts[2] = {load(shift), load(shift + HALF)}, of_dys[2] = {load(of_dy), load(of_dy + HALF)};
        vector of_xs[2] = {load(of_x), load(of_x + HALF)}, constants[2] = {load(constant), load(constant + HALF)};
        for (int64_t step = 0, at = k->index; step < k->steps; step++, at += k->apart)
            for (int i = 0; i < 2; i++) {
                vector off = read(b->x, at + i * HALF, narrow) - centres[i];
                vector passed = gated_vector(read(b->dy, at + i * HALF, narrow), off, factors[i], shifts[i], relu);
                vector away = follows ? passed - constants[i] - of_xs[i] * off : passed;
                away *= of_dys[i];
                write(b->dx, at + i * HALF, &away, k->past_caches, narrow);
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

/* The lanes of a channel: the first, those of a task and chunk, and how far they are apart. */
struct lanes {
    int64_t task, chunk, first, apart;
};

static struct lanes lanes_of(const struct batch *b, int64_t channel) {
    int64_t part = channel / b->width, index = channel % b->width;
    int several = LANES % b->width == 0;
    return (struct lanes){part * b->groups * b->chunks, index / LANES, index % LANES, several ? b->width : LANES};
}

/* Mean and variance of channels from those of the tasks, or the running ones; and what y is computed with. */
static void finish(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct batch b = batch(&op->batch_norm);
    double epsilon = op->batch_norm.epsilon, decay = op->batch_norm.decay;
    (void)worker;
    for (int64_t c = start; c < stop; c++) {
        double mean = b.running_mean[c], variance = b.running_variance[c];
        if (b.follows) {
            struct lanes l = lanes_of(&b, c);
            double count = 0, squares = 0;
            mean = 0;
            for (int64_t group = 0; group < b.groups; group++) {
                const struct moments *m = (struct moments *)b.parts_of_sums + l.task + group * b.chunks + l.chunk;
                for (int64_t lane = l.first; lane < LANES; lane += l.apart) {
                    double more = m->count[lane], total = count + more, moved = m->mean[lane] - mean;
                    if (more == 0) continue;
                    squares += m->squares[lane] + moved * moved * count * more / total;
                    mean += moved * more / total;
                    count = total;
                }
            }
            variance = squares > 0 || squares != squares ? squares / count : 0;
            double unbiased = squares / (count > 1 ? count - 1 : 1);
            b.running_mean[c] = (float)(decay * b.running_mean[c] + (1 - decay) * mean);
            b.running_variance[c] = (float)(decay * b.running_variance[c] + (1 - decay) * unbiased);
        }
        double inverse = 1 / sqrt(variance + epsilon), factor = inverse * (b.scale ? b.scale[c] : 1);
        b.mean[c] = mean, b.inverse[c] = inverse;
        b.centre[c] = (float)mean, b.factor[c] = (float)factor;
        b.shift[c] = (float)((b.bias ? b.bias[c] : 0) - (mean - b.centre[c]) * factor);
    }
}

/* The gradients of scale and bias from the sums of the tasks, and what dx is computed with. */
static void finish_gradient(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct batch b = batch(&op->batch_norm);
    double count = (double)(b.images * b.pixels);
    (void)worker;
    for (int64_t c = start; c < stop; c++) {
        struct lanes l = lanes_of(&b, c);
        double sum = 0, product = 0, away = b.mean[c] - b.centre[c];
        for (int64_t group = 0; group < b.groups; group++) {
            const struct sums *s = (struct sums *)b.parts_of_sums + l.task + group * b.chunks + l.chunk;
            for (int64_t lane = l.first; lane < LANES; lane += l.apart) sum += s->sum[lane], product += s->product[lane];
        }
        product = (product - away * sum) * b.inverse[c];
        if (b.dbias) b.dbias[c] = (float)sum;
        if (b.dscale) b.dscale[c] = (float)product;
        double of_x = b.inverse[c] * product / count;
        b.of_dy[c] = (float)(b.inverse[c] * (b.scale ? b.scale[c] : 1)), b.of_x[c] = (float)of_x;
        b.constant[c] = (float)(sum / count - of_x * away);
    }
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
    INLINE void name(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {                        \
        (void)worker;                                                                                                  \
        tasks(op, start, stop, pass);                                                                                  \
    }                                                                                                                  \
    VERSIONS(name)

PASS(all_measure, MEASURE)
PASS(all_normalise, NORMALISE)
PASS(all_add_up, ADD_UP)
PASS(all_spread_back, SPREAD_BACK)

/* The passes of an operation: over x or dy, over its channels, and over what it writes; or NULL. */
struct passes {
    work_t first, between, last;
};

static struct passes passes(const struct operation *op, const struct batch *b) {
    int follows = b->follows != 0;
    if (op->kind == BATCH_NORM_SUM) return (struct passes){NULL, NULL, best_all_normalise()};
    if (op->kind == BATCH_NORM)
        return (struct passes){follows ? best_all_measure() : NULL, finish, b->y ? best_all_normalise() : NULL};
    int adds_up = follows || b->dscale || b->dbias;
    return (struct passes){adds_up ? best_all_add_up() : NULL, finish_gradient, b->dx ? best_all_spread_back() : NULL};
}

static void whole_parts(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct batch b = batch(&op->batch_norm);
    struct passes p = passes(op, &b);
    for (int64_t part = start; part < stop; part++) {
        int64_t task = part * b.groups, channel = part * b.width;
        if (p.first) p.first(op, task, task + b.groups, worker);
        if (p.between) p.between(op, channel, channel + b.width, worker);
        if (p.last) p.last(op, task, task + b.groups, worker);
    }
}

void run_batch_norm(const struct machine *machine, const struct operation *op) {
    struct batch b = batch(&op->batch_norm);
    struct passes p = passes(op, &b);
    int64_t tasks = b.parts * b.groups, alone = b.images * b.pixels * b.channels <= ALONE;
    size_t size = op->kind == BATCH_NORM ? sizeof(struct moments) : sizeof(struct sums);
    if (op->kind != BATCH_NORM_SUM) memset(b.parts_of_sums, 0, (size_t)(tasks * b.chunks) * size);
    if (alone || b.parts % machine->threads == 0 || b.parts >= 8 * machine->threads) {
        share_out(machine, op, whole_parts, b.parts, alone ? b.parts : 1);
        return;
    }
    if (p.first) share_out(machine, op, p.first, tasks, 1);
    if (p.between) share_out(machine, op, p.between, b.channels, 256);
    if (p.last) share_out(machine, op, p.last, tasks, 1);
}
