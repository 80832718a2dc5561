/* BatchNorm of float32 or bf16, in any layout: mean and variance in one pass, with the digits of two.
 *
 * A blob is (images, parts, pixels, width): plain blobs have parts of one channel, those in blocks parts of a block, and
 * with the channels last there is one image with one part. Work is divided into tasks whatever the number of threads, so
 * that the bits do not depend on it: a group of pixels of all images, of one part. A task adds up blocks of a few pixels
 * in float32, about a centre that is near, and puts the blocks together in float64: Chan, Golub and LeVeque, "Updating
 * formulae and a pairwise algorithm for computing sample variances", 1979.
 */

#include <math.h>

#include "narrow.h"

#if defined(__x86_64__) && defined(__GLIBC__) /* where a loader picks one of several versions, all with the same bits */
#define CLONES __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

enum { STEPS = 32 }; /* registers of a block */
enum { SCALED = 1, SHIFTED = 2, RECTIFIED = 4, FOLLOWING = 8, NARROW = 16, WITH_DX = 32, WITH_DSCALE = 64, WITH_DBIAS = 128 };
enum { MEASURE, NORMALISE, ADD_UP, SPREAD_BACK };

struct moments { /* of 16 lanes, each with numbers of one channel */
    double count[LANES], mean[LANES], squares[LANES];
};

struct sums {
    double sum[LANES], product[LANES]; /* of dy, and of dy (x - centre) */
};

struct batch {
    int64_t images, parts, pixels, width, groups, flags;
    int64_t channels, chunks; /* chunks: registers for the channels of a pixel */
    const void *x, *dy;
    const float *scale, *bias;
    void *y, *dx;
    float *running_mean, *running_variance, *dscale, *dbias;
    double *mean, *inverse;          /* kept from forward to backward; inverse: 1 / the standard deviation */
    float *centre, *factor, *shift;  /* likewise: y = (x - centre) factor + shift */
    void *parts_of_sums;             /* for each task and chunk */
    float *of_dy, *of_x, *constant;  /* dx = of_dy (dy - constant - of_x (x - centre)) */
};

/* numbers: images, parts, pixels, width, groups, flags. pointers, of which those that the flags leave out are not there:
 * x, scale, bias, y, running mean, running variance, what is kept, scratch; or x, dy, scale, dx, dscale, dbias, what is
 * kept, scratch. */
static struct batch batch(const struct operation *op) {
    const int64_t *n = op->numbers;
    struct batch b = {.images = n[0], .parts = n[1], .pixels = n[2], .width = n[3], .groups = n[4], .flags = n[5]};
    void *const *next = op->pointers;
    b.channels = b.parts * b.width, b.chunks = (b.width + LANES - 1) / LANES;
    b.x = *next++;
    if (op->kind == BATCH_NORM_GRADIENT) b.dy = *next++;
    if (b.flags & SCALED) b.scale = *next++;
    if (op->kind == BATCH_NORM) {
        if (b.flags & SHIFTED) b.bias = *next++;
        b.y = *next++, b.running_mean = *next++, b.running_variance = *next++;
    } else {
        if (b.flags & WITH_DX) b.dx = *next++;
        if (b.flags & WITH_DSCALE) b.dscale = *next++;
        if (b.flags & WITH_DBIAS) b.dbias = *next++;
    }
    b.mean = *next++, b.inverse = b.mean + b.channels;
    b.centre = (float *)(b.inverse + b.channels), b.factor = b.centre + b.channels, b.shift = b.factor + b.channels;
    b.of_dy = *next, b.of_x = b.of_dy + b.channels, b.constant = b.of_x + b.channels;
    b.parts_of_sums = (char *)*next + (3 * b.channels * (int64_t)sizeof(float) + 63) / 64 * 64;
    return b;
}

/* Registers `apart` from one another, from a place on. The channel of a lane is `channel` + the lane, or where several
 * pixels lie in a register, + the lane in a pixel. */
struct block {
    int64_t place, apart, steps, channel, lanes;
};

INLINE void coefficients(const struct batch *b, const struct block *k, const float *from, float *to) {
    int64_t mask = LANES % b->width == 0 ? b->width - 1 : LANES - 1;
    for (int64_t lane = 0; lane < k->lanes; lane++) to[lane] = from[k->channel + (lane & mask)];
}

/* Sums of what whole registers are off a centre, and of the squares; a function of its own, which compilers make good vectors of. */
CLONES static void sums_about(const float *x, int64_t apart, int64_t steps, const float *centre, float *sums, float *squares) {
    float about[LANES], sum[LANES] = {0}, square[LANES] = {0};
    memcpy(about, centre, sizeof about);
    for (int64_t step = 0; step < steps; step++, x += apart)
        for (int lane = 0; lane < LANES; lane++) {
            float off = x[lane] - about[lane];
            sum[lane] += off;
            square[lane] += off * off;
        }
    memcpy(sums, sum, sizeof sum);
    memcpy(squares, square, sizeof square);
}

INLINE void measure(const struct batch *b, const struct block *k, struct moments *m, const int lanes, const int narrow) {
    float centre[LANES], sum[LANES] = {0}, squares[LANES] = {0};
    for (int lane = 0; lane < lanes; lane++)
        centre[lane] = m->count[lane] > 0 ? (float)m->mean[lane] : get(b->x, k->place + lane, narrow);
    if (lanes == LANES && !narrow)
        sums_about((const float *)b->x + k->place, k->apart, k->steps, centre, sum, squares);
    else
        for (int64_t step = 0, at = k->place; step < k->steps; step++, at += k->apart)
            for (int lane = 0; lane < lanes; lane++) {
                float off = get(b->x, at + lane, narrow) - centre[lane];
                sum[lane] += off;
                squares[lane] += off * off;
            }
    double count = (double)k->steps;
    for (int lane = 0; lane < lanes; lane++) {
        double before = m->count[lane], total = before + count, off = sum[lane] / count;
        double moved = (double)centre[lane] + off - m->mean[lane];
        m->squares[lane] += squares[lane] - sum[lane] * off + moved * moved * before * count / total;
        m->mean[lane] += moved * count / total;
        m->count[lane] = total;
    }
}

INLINE void normalise(const struct batch *b, const struct block *k, const int lanes, const int narrow) {
    float centre[LANES], factor[LANES], shift[LANES];
    coefficients(b, k, b->centre, centre), coefficients(b, k, b->factor, factor), coefficients(b, k, b->shift, shift);
    float low = b->flags & RECTIFIED ? 0 : -INFINITY;
    for (int64_t step = 0, at = k->place; step < k->steps; step++, at += k->apart) {
        float y[LANES];
        for (int lane = 0; lane < lanes; lane++) {
            y[lane] = (get(b->x, at + lane, narrow) - centre[lane]) * factor[lane] + shift[lane];
            y[lane] = y[lane] < low ? low : y[lane]; /* NaN stays */
        }
        for (int lane = 0; lane < lanes; lane++) put(b->y, at + lane, y[lane], narrow);
    }
}

/* dy behind ReLU, if there is one: times 0 where y was not above 0. */
INLINE float gated(float dy, float off, float factor, float shift, const int relu) {
    return relu ? dy * (off * factor + shift > 0 ? 1.f : 0.f) : dy;
}

INLINE void add_up(const struct batch *b, const struct block *k, struct sums *s, const int lanes, const int narrow,
                   const int relu) {
    float centre[LANES], factor[LANES], shift[LANES], sum[LANES] = {0}, product[LANES] = {0};
    coefficients(b, k, b->centre, centre), coefficients(b, k, b->factor, factor), coefficients(b, k, b->shift, shift);
    for (int64_t step = 0, at = k->place; step < k->steps; step++, at += k->apart)
        for (int lane = 0; lane < lanes; lane++) {
            float off = get(b->x, at + lane, narrow) - centre[lane];
            float dy = gated(get(b->dy, at + lane, narrow), off, factor[lane], shift[lane], relu);
            sum[lane] += dy;
            product[lane] += dy * off;
        }
    for (int lane = 0; lane < lanes; lane++) s->sum[lane] += sum[lane], s->product[lane] += product[lane];
}

INLINE void spread_back(const struct batch *b, const struct block *k, const int lanes, const int narrow, const int relu) {
    float centre[LANES], factor[LANES], shift[LANES], of_dy[LANES], of_x[LANES], constant[LANES];
    coefficients(b, k, b->centre, centre), coefficients(b, k, b->factor, factor), coefficients(b, k, b->shift, shift);
    coefficients(b, k, b->of_dy, of_dy), coefficients(b, k, b->of_x, of_x), coefficients(b, k, b->constant, constant);
    int follows = (b->flags & FOLLOWING) != 0;
    for (int64_t step = 0, at = k->place; step < k->steps; step++, at += k->apart) {
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
INLINE void work_on(const struct batch *b, const struct block *k, int64_t place, const int lanes, const int pass,
                    const int narrow) {
    int relu = (b->flags & RECTIFIED) != 0;
    if (pass == MEASURE) measure(b, k, (struct moments *)b->parts_of_sums + place, lanes, narrow);
    if (pass == NORMALISE) normalise(b, k, lanes, narrow);
    if (pass == ADD_UP && relu) add_up(b, k, (struct sums *)b->parts_of_sums + place, lanes, narrow, 1);
    if (pass == ADD_UP && !relu) add_up(b, k, (struct sums *)b->parts_of_sums + place, lanes, narrow, 0);
    if (pass == SPREAD_BACK && relu) spread_back(b, k, lanes, narrow, 1);
    if (pass == SPREAD_BACK && !relu) spread_back(b, k, lanes, narrow, 0);
}

/* A block of fewer lanes than a register has; a function of its own, once for all passes, or compiling takes minutes. */
__attribute__((noinline)) static void work_on_few(const struct batch *b, const struct block *k, int64_t place, int pass,
                                                  int narrow) {
    work_on(b, k, place, (int)k->lanes, pass, narrow);
}

INLINE void block(const struct batch *b, const struct block *k, int64_t place, const int pass, const int narrow) {
    if (k->lanes == LANES)
        work_on(b, k, place, LANES, pass, narrow);
    else
        work_on_few(b, k, place, pass, narrow);
}

INLINE void task(const struct batch *b, int64_t number, const int pass, const int narrow) {
    int64_t part = number / b->groups, group = number % b->groups, all = b->images * b->pixels;
    int64_t stop = all * (group + 1) / b->groups;
    for (int64_t at = all * group / b->groups; at < stop;) {
        int64_t pixel = at % b->pixels, run = at_most(b->pixels - pixel, stop - at);
        int64_t place = ((at / b->pixels * b->parts + part) * b->pixels + pixel) * b->width;
        int several = LANES % b->width == 0; /* whole pixels in a register, and a rest in the last one */
        int64_t steps = several ? run * b->width / LANES : run, rest = several ? run * b->width % LANES : 0;
        struct block k = {.apart = several ? LANES : b->width};
        at += run;
        for (int64_t step = 0; step < steps + (rest > 0); step += k.steps) {
            k.steps = step < steps ? at_most(STEPS, steps - step) : 1;
            for (int64_t chunk = 0; chunk < b->chunks; chunk++) {
                k.place = place + step * k.apart + chunk * LANES, k.channel = part * b->width + chunk * LANES;
                k.lanes = step == steps ? rest : several ? LANES : at_most(LANES, b->width - chunk * LANES);
                block(b, &k, number * b->chunks + chunk, pass, narrow);
            }
        }
    }
}

#define PASS(name, pass)                                                                                               \
    INLINE void name(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {                        \
        struct batch b = batch(op);                                                                                    \
        (void)worker;                                                                                                  \
        for (int64_t number = start; number < stop; number++)                                                          \
            if (b.flags & NARROW)                                                                                      \
                task(&b, number, pass, 1);                                                                             \
            else                                                                                                       \
                task(&b, number, pass, 0);                                                                             \
    }                                                                                                                  \
    VERSIONS(name)

PASS(all_measure, MEASURE)
PASS(all_normalise, NORMALISE)
PASS(all_add_up, ADD_UP)
PASS(all_spread_back, SPREAD_BACK)

/* The lanes of a channel: the first, those of a task and chunk, and how far they are apart. */
struct lanes {
    int64_t task, chunk, first, apart;
};

static struct lanes lanes_of(const struct batch *b, int64_t channel) {
    int64_t part = channel / b->width, place = channel % b->width;
    int several = LANES % b->width == 0;
    return (struct lanes){part * b->groups * b->chunks, place / LANES, place % LANES, several ? b->width : LANES};
}

/* Mean and variance of channels from those of the tasks, or the running ones; and what y is computed with. */
static void finish(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct batch b = batch(op);
    double epsilon = op->values[0], decay = op->values[1];
    (void)worker;
    for (int64_t c = start; c < stop; c++) {
        double mean = b.running_mean[c], variance = b.running_variance[c];
        if (b.flags & FOLLOWING) {
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
    struct batch b = batch(op);
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

static void clear(const struct batch *b, size_t size) {
    memset(b->parts_of_sums, 0, (size_t)(b->parts * b->groups * b->chunks) * size);
}

void batch_norm(const struct machine *machine, const struct operation *op) {
    struct batch b = batch(op);
    int64_t tasks = b.parts * b.groups, unit = b.images * b.pixels * b.channels > ALONE ? 1 : tasks;
    int forward = op->kind == BATCH_NORM;
    if (forward && b.flags & FOLLOWING) {
        clear(&b, sizeof(struct moments));
        share_out(machine, op, best_all_measure(), tasks, unit);
    }
    if (!forward) {
        clear(&b, sizeof(struct sums));
        if (b.flags & (FOLLOWING | WITH_DSCALE | WITH_DBIAS)) share_out(machine, op, best_all_add_up(), tasks, unit);
    }
    share_out(machine, op, forward ? finish : finish_gradient, b.channels, 256);
    if (forward || b.flags & WITH_DX) share_out(machine, op, forward ? best_all_normalise() : best_all_spread_back(), tasks, unit);
}
