/* The helper of nacre's onednn backend: a run of a net in one foreign call, and the operations that oneDNN lacks.
 *
 * C11 with GCC's or Clang's builtins; it knows neither Python nor oneDNN, whose functions it is given, and OpenMP's too,
 * so that a process has one OpenMP runtime. Compiled with -ffp-contract=off: a product and a sum are rounded one after
 * the other, as NumPy does, so that updates and masks have the same bits as without the helper.
 */

#include <math.h>

#include "helper.h"

int64_t instructions = ANY;

struct share {
    const struct machine *machine;
    const struct operation *op;
    work_t work;
    int64_t size, unit;
};

static void piece(void *data) {
    const struct share *share = data;
    int64_t worker = share->machine->thread(), team = share->machine->team(), unit = share->unit;
    int64_t units = (share->size + unit - 1) / unit;
    int64_t start = units * worker / team * unit, stop = units * (worker + 1) / team * unit;
    share->work(share->op, start, stop < share->size ? stop : share->size, worker);
}

void share_out(const struct machine *machine, const struct operation *op, work_t work, int64_t size, int64_t unit) {
    struct share share = {machine, op, work, size, unit};
    int64_t threads = op->workers && op->workers < machine->threads ? op->workers : machine->threads;
    if (machine->parallel && threads > 1 && size > unit)
        machine->parallel(piece, &share, (unsigned)threads, 0);
    else
        work(op, 0, size, 0);
}

void share_elements(const struct machine *machine, const struct operation *op, work_t work, int64_t size) {
    share_out(machine, op, work, size, size > ALONE ? LANES : size);
}

/* v = momentum v - rate g; w = w + v; gives the sum of w g. */
INLINE double move(float *restrict w, const float *restrict g, float *restrict v, int64_t size, float rate,
                   float momentum) {
    float sums[LANES] = {0};
    double sum = 0;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float moved = v[i + lane] * momentum - g[i + lane] * rate;
            v[i + lane] = moved;
            w[i + lane] += moved;
            sums[lane] += w[i + lane] * g[i + lane];
        }
    for (; i < size; i++) {
        v[i] = v[i] * momentum - g[i] * rate;
        w[i] += v[i];
        sum += w[i] * g[i];
    }
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* The same for all values; some of them have a copy in bf16, which is written along. products[worker] is the sum.
 * pointers: w, g, v, scalars, products, what has a copy, in order; numbers: size, place of the rate, place of the
 * momentum, how many have a copy; values: multiplies the rate. */
INLINE void update(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    float *w = op->pointers[0], *v = op->pointers[2];
    const float *g = op->pointers[1];
    const double *scalars = op->pointers[3];
    const struct copied *copied = op->pointers[5];
    float rate = (float)(scalars[op->numbers[1]] * op->values[0]), momentum = (float)scalars[op->numbers[2]];
    double sum = 0;
    int64_t at = start;
    for (const struct copied *one = copied; one < copied + op->numbers[3]; one++) {
        int64_t from = one->start > at ? one->start : at, to = one->stop < stop ? one->stop : stop;
        if (from >= to) continue;
        sum += move(w + at, g + at, v + at, from - at, rate, momentum);
        sum += move_copied(w + from, g + from, v + from, one->to + from - one->start, to - from, rate, momentum);
        at = to;
    }
    ((double *)op->pointers[4])[worker] = sum + move(w + at, g + at, v + at, stop - at, rate, momentum);
}

VERSIONS(update)

/* g = g + coefficient w. pointers: w, g; numbers: size; values: the coefficient. */
INLINE void decay(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const float *restrict w = op->pointers[0];
    float *restrict g = op->pointers[1];
    float coefficient = (float)op->values[0];
    (void)worker;
    for (int64_t i = start; i < stop; i++) g[i] += w[i] * coefficient;
}

VERSIONS(decay)

/* A label as a whole number, or -1. */
static int64_t label_of(const void *labels, int64_t type, int64_t place, int64_t classes) {
    double label = 0;
    switch (type) {
    case 0: label = ((const float *)labels)[place]; break;
    case 1: label = ((const double *)labels)[place]; break;
    case 2: label = ((const int32_t *)labels)[place]; break;
    case 3: label = (double)((const int64_t *)labels)[place]; break;
    default: label = ((const uint8_t *)labels)[place];
    }
    return label >= 0 && label < (double)classes && label == floor(label) ? (int64_t)label : -1;
}

/* How many of the images count. */
static int64_t rows_of(const struct operation *op) {
    double rows = ((const double *)op->pointers[3])[op->numbers[3]];
    return rows < (double)op->numbers[0] ? (int64_t)rows : op->numbers[0];
}

/* The mean over the rows of -log softmax(x)[label], times the weight.
 * pointers: x, labels, probabilities, scalars, loss, labels as whole numbers; numbers: images, classes, type of the
 * labels, place of the rows; values: the weight. Gives 1 where a label is none; the probabilities are as before then. */
static int loss(const struct operation *op) {
    int64_t images = op->numbers[0], classes = op->numbers[1], rows = rows_of(op);
    int64_t *chosen = op->pointers[5];
    double total = 0;
    for (int64_t i = 0; i < rows; i++)
        if ((chosen[i] = label_of(op->pointers[1], op->numbers[2], i, classes)) < 0) return 1;
    for (int64_t i = 0; i < images; i++) {
        const float *x = (const float *)op->pointers[0] + i * classes;
        float *p = (float *)op->pointers[2] + i * classes;
        float most = x[0];
        double sum = 0;
        for (int64_t c = 1; c < classes; c++) most = x[c] > most || x[c] != x[c] ? x[c] : most;
        for (int64_t c = 0; c < classes; c++) sum += p[c] = expf(x[c] - most);
        for (int64_t c = 0; c < classes; c++) p[c] = (float)(p[c] / sum);
        if (i < rows) total += (double)x[chosen[i]] - most - log(sum); /* p itself may be 0 */
    }
    *(double *)op->pointers[4] = -op->values[0] / (double)rows * total;
    return 0;
}

/* dx = (softmax(x) - 1 at the label) weight / rows; rows that do not count get 0.
 * As for LOSS, with dx in the place of x. */
static void loss_gradient(const struct operation *op) {
    int64_t images = op->numbers[0], classes = op->numbers[1], rows = rows_of(op);
    const int64_t *chosen = op->pointers[5];
    float scale = (float)(op->values[0] / (double)rows);
    for (int64_t i = 0; i < images; i++) {
        float *dx = (float *)op->pointers[0] + i * classes;
        const float *p = (const float *)op->pointers[2] + i * classes;
        for (int64_t c = 0; c < classes; c++) dx[c] = i < rows ? p[c] * scale : 0;
        if (i < rows) dx[chosen[i]] = (p[chosen[i]] - 1) * scale;
    }
}

/* Philox 4x64-10 (Salmon and others, 2011): four random numbers of 64 bits from a counter and a key. */
static void philox(uint64_t counter[4], uint64_t first, uint64_t second) {
    for (int round = 0; round < 10; round++) {
        unsigned __int128 one = (unsigned __int128)0xD2E7470EE14C6C93u * counter[0];
        unsigned __int128 other = (unsigned __int128)0xCA5A826395121157u * counter[2];
        uint64_t next[4] = {(uint64_t)(other >> 64) ^ counter[1] ^ first, (uint64_t)other,
                            (uint64_t)(one >> 64) ^ counter[3] ^ second, (uint64_t)one};
        for (int word = 0; word < 4; word++) counter[word] = next[word];
        first += 0x9E3779B97F4A7C15u;
        second += 0xBB67AE8584CAA73Bu;
    }
}

/* y = x scale where the uniform number of the element is ratio or more, else x 0; see nacre.random.
 * pointers: x, y, kept (a byte for each element), scalars, key; numbers: size, place of the step; values: ratio, scale. */
static void dropout(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const float *x = op->pointers[0];
    float *y = op->pointers[1];
    uint8_t *kept = op->pointers[2];
    const uint64_t *key = op->pointers[4];
    uint64_t step = (uint64_t)((const double *)op->pointers[3])[op->numbers[1]];
    float ratio = (float)op->values[0], scale = (float)op->values[1];
    (void)worker;
    for (int64_t block = start; block < stop; block += 8) { /* eight numbers of 32 bits come from one counter */
        uint64_t words[4] = {(uint64_t)(block / 8) + 1, 0, step, 0};
        philox(words, key[0], key[1]);
        for (int64_t i = block; i < block + 8 && i < stop; i++) {
            uint32_t half = (uint32_t)(words[(i - block) / 2] >> (i % 2 ? 32 : 0));
            kept[i] = (float)(half >> 8) * 0x1p-24f >= ratio;
            y[i] = x[i] * (kept[i] ? scale : 0);
        }
    }
}

/* The same with the elements that were kept: pointers: dy, dx, kept. */
INLINE void dropout_gradient(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const float *dy = op->pointers[0];
    float *dx = op->pointers[1];
    const uint8_t *kept = op->pointers[2];
    float scale = (float)op->values[1];
    (void)worker;
    for (int64_t i = start; i < stop; i++) dx[i] = dy[i] * (kept[i] ? scale : 0);
}

VERSIONS(dropout_gradient)

/* Runs operations in order; gives the number of the first that fails, counted from 1, or 0. */
EXPORT int64_t nacre_run(const struct machine *machine, const struct operation *ops, int64_t count) {
    for (int64_t place = 0; place < count; place++) {
        const struct operation *op = ops + place;
        int failed = 0;
        switch (op->kind) {
        case PRIMITIVE:
            failed = machine->execute(op->pointers[0], machine->stream, (int)op->numbers[0], op->pointers[1]);
            break;
        case UPDATE:
            for (int64_t worker = 0; worker < machine->threads; worker++) ((double *)op->pointers[4])[worker] = 0;
            share_elements(machine, op, best_update(), op->numbers[0]);
            break;
        case DECAY: share_elements(machine, op, best_decay(), op->numbers[0]); break;
        case LOSS: failed = loss(op); break;
        case LOSS_GRADIENT: loss_gradient(op); break;
        case DROPOUT: share_elements(machine, op, dropout, op->numbers[0]); break;
        case DROPOUT_GRADIENT: share_elements(machine, op, best_dropout_gradient(), op->numbers[0]); break;
        case RECTIFY: run_rectify(machine, op); break;
        case GATE: run_gate(machine, op); break;
        case ADD: run_add(machine, op); break;
        case SOFTMAX: run_softmax(machine, op); break;
        case SOFTMAX_GRADIENT: run_softmax_gradient(machine, op); break;
        case POOLING: run_pool(machine, op); break;
        case POOLING_GRADIENT: run_pool_gradient(machine, op); break;
        case LRN: run_lrn(machine, op); break;
        case LRN_GRADIENT: run_lrn_gradient(machine, op); break;
        case FUNCTION:
        case FUNCTION_GRADIENT: apply_function(machine, op); break;
        case BATCH_NORM:
        case BATCH_NORM_GRADIENT: batch_norm(machine, op); break;
        default: failed = run_on_lanes(machine, op);
        }
        if (failed) return place + 1;
    }
    return 0;
}

/* Says which instructions may be used; gives those of them that there is code for. */
EXPORT int64_t nacre_use(int64_t most) {
#if defined(__x86_64__)
    instructions = most;
#else
    (void)most;
#endif
    return instructions;
}

/* Rises whenever `operation` or the meaning of a kind changes: a helper that was left behind is not used. */
EXPORT int64_t nacre_helper_version(void) { return 9; }
