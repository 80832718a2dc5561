/* RNN, GRU and LSTM: all steps of a layer in one direction, forward and backward, in one parallel region. The products with
 * x are there before, and those for the gradients of weights come after, each one product for all steps.
 *
 * A thread has some of the sequences and all units of the state, and never waits; or all sequences and some of the units, and
 * waits for the others at each step, but reads only its part of the weights. Needs AVX2 or AVX-512, for bf16 also
 * avx512_bf16; with AVX2 alone bf16 is computed slowly, for tests.
 */

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* products and sums in one */
#endif

#include "functions.h"
#include "narrow.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>

enum { PART = 256, SPINS = 4000, UNITS = RECURRENT_UNITS };

/* Threads that wait for one another. */
struct team {
    _Alignas(64) atomic_long arrived;
    _Alignas(64) atomic_long phase;
};

static void meet(struct team *team, int64_t count) {
    if (count == 1) return;
    long phase = atomic_load_explicit(&team->phase, memory_order_relaxed);
    if (atomic_fetch_add(&team->arrived, 1) == count - 1) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->phase, phase + 1, memory_order_release);
        return;
    }
    for (int64_t turn = 0; atomic_load_explicit(&team->phase, memory_order_acquire) == phase; turn++)
        if (turn < SPINS)
            _mm_pause();
        else
            sched_yield(); /* the processor may be wanted by the thread that is waited for */
}

/* What a worker does: sequences from `top` to `bottom`, panels of units from `first` to `last`. At each step `count` of the
 * `workers` wait for each other. */
struct share {
    int64_t worker, workers, count, top, bottom, first, last;
};

static int64_t padded(int64_t units) { return (units + UNITS - 1) / UNITS * UNITS; }
static int64_t paired(int64_t length, int64_t step) { return (length + step - 1) / step * step; }

/* Rows of sequence n at a step, in the order in which steps are taken. */
static int64_t row_of(const struct recurrent *o, int64_t n, int64_t step) {
    return n * o->image_rows + (o->backward ? o->steps - 1 - step : step) * o->step_rows;
}

/* Whether a sequence has no such step. */
static int is_past(const struct recurrent *o, int64_t n, int64_t step) {
    return o->marks && o->marks[row_of(o, n, step)] == MARK_PAST;
}

/* Whether the state that a step reads is 0, because a sequence begins there: with it, or backward with the one before. */
static int is_fresh(const struct recurrent *o, int64_t n, int64_t step) {
    if (!o->marks || (o->backward && !step)) return 0;
    return o->marks[row_of(o, n, o->backward ? step - 1 : step)] == MARK_FRESH;
}

#define ON __attribute__((target("avx2,fma")))
#define WIDE __m256
#define WIDTH 8
#define ROWS 6
#define MORE_ROWS(do)
#define LOAD(p) _mm256_loadu_ps((const float *)(p))
#define STORE _mm256_storeu_ps
#define ADD _mm256_add_ps
#define ZERO _mm256_setzero_ps
#define EACH(p) _mm256_broadcast_ss((const float *)(p))

#define NAME(x) x##_on_avx2
#define NARROW 0
#define PRODUCT(sum, one, other) _mm256_fmadd_ps(one, other, sum)
#define number float
#include "recurrent_steps.h"
#undef NAME
#undef NARROW
#undef PRODUCT
#undef number

#define NAME(x) x##_narrow_on_avx2
#define NARROW 1
#define LOW(x) ((__m256)_mm256_slli_epi32((__m256i)(x), 16))
#define HIGH(x) ((__m256)_mm256_and_si256((__m256i)(x), _mm256_set1_epi32(-65536)))
#define PRODUCT(sum, one, other) _mm256_fmadd_ps(HIGH(one), HIGH(other), _mm256_fmadd_ps(LOW(one), LOW(other), sum))
#define number uint16_t
#include "recurrent_steps.h"
#undef NAME
#undef NARROW
#undef PRODUCT
#undef number

#undef ON
#undef WIDE
#undef WIDTH
#undef ROWS
#undef MORE_ROWS
#undef LOAD
#undef STORE
#undef ADD
#undef ZERO
#undef EACH

#define ON __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define WIDE __m512
#define WIDTH 16
#define ROWS 12
#define MORE_ROWS(do) do(6) do(7) do(8) do(9) do(10) do(11)
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE _mm512_storeu_ps
#define ADD _mm512_add_ps
#define ZERO _mm512_setzero_ps
#define EACH(p) _mm512_set1_ps(*(const float *)(p))

#define NAME(x) x##_on_avx512
#define NARROW 0
#define PRODUCT(sum, one, other) _mm512_fmadd_ps(one, other, sum)
#define number float
#include "recurrent_steps.h"
#undef ON
#undef NAME
#undef NARROW
#undef PRODUCT
#undef number
#undef EACH

#define ON __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define EACH(p) ((__m512)_mm512_set1_epi32(*(const int __attribute__((may_alias, aligned(2))) *)(p)))
#define NAME(x) x##_narrow_on_avx512
#define NARROW 1
#define PRODUCT(sum, one, other) _mm512_dpbf16_ps(sum, (__m512bh)(one), (__m512bh)(other))
#define number uint16_t
#include "recurrent_steps.h"

typedef void steps_t(const struct operation *op, struct share share, struct team *team);

struct work {
    const struct machine *machine;
    const struct operation *op;
    steps_t *steps;
    int64_t panels;
    struct team team;
};

static void part_of(struct work *work, int64_t worker, int64_t count) {
    const struct recurrent *o = &work->op->recurrent;
    struct share share = {worker, count, 1, 0, o->images, 0, work->panels};
    if (o->by_images)
        share.top = o->images * worker / count, share.bottom = o->images * (worker + 1) / count;
    else
        share.count = count, share.first = work->panels * worker / count, share.last = work->panels * (worker + 1) / count;
    work->steps(work->op, share, &work->team);
}

static void piece(void *data) {
    struct work *work = data;
    part_of(work, work->machine->thread(), work->machine->team());
}

static int64_t panels_of(int64_t hidden) {
    int64_t width = instructions == AVX512 ? 32 : 16;
    return (hidden + width - 1) / width;
}

static void run_steps(const struct machine *machine, const struct operation *op, steps_t *steps) {
    struct work work = {machine, op, steps, panels_of(op->recurrent.hidden), {0}};
    int64_t threads = smaller(op->workers, machine->threads);
    if (machine->parallel && threads > 1)
        machine->parallel(piece, &work, (unsigned)threads, 0);
    else
        part_of(&work, 0, 1);
}

#define BEST(work, narrow)                                                                                             \
    (instructions == AVX512 ? (narrow) ? work##_narrow_on_avx512 : work##_on_avx512                                   \
                            : (narrow) ? work##_narrow_on_avx2 : work##_on_avx2)

void run_recurrent(const struct machine *machine, const struct operation *op) {
    run_steps(machine, op, BEST(forward, op->recurrent.narrow));
}

void run_recurrent_gradient(const struct machine *machine, const struct operation *op) {
    run_steps(machine, op, BEST(backward, op->recurrent.narrow));
}

void run_recurrent_weights(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, BEST(lay, op->recurrent_weights.narrow), panels_of(op->recurrent_weights.hidden), 1);
}

#endif
