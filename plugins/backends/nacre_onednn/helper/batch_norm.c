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
#include <string.h>

#include "batch_norm.h"

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

static const struct batch_norm_loops *best(void) {
#if defined(__x86_64__)
    if (instructions >= AVX512) return &batch_norm_on_avx512;
    if (instructions == AVX2) return &batch_norm_on_avx2;
#endif
    return &batch_norm_on_any;
}

/* The passes of an operation: over x or dy, over its channels, and over what it writes; or NULL. */
struct passes {
    work_t first, between, last;
};

static struct passes passes(const struct operation *op, const struct batch *b) {
    int follows = b->follows != 0;
    if (op->kind == BATCH_NORM_SUM) return (struct passes){NULL, NULL, best()->normalise};
    if (op->kind == BATCH_NORM)
        return (struct passes){follows ? best()->measure : NULL, finish, b->y ? best()->normalise : NULL};
    int adds_up = follows || b->dscale || b->dbias;
    return (struct passes){adds_up ? best()->add_up : NULL, finish_gradient, b->dx ? best()->spread_back : NULL};
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
