/* What the files of recurrent layers share: see recurrent.c. */

#ifndef NACRE_RECURRENT_H
#define NACRE_RECURRENT_H

#include "helper.h"

#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>

enum { SPINS = 4000, UNITS = RECURRENT_UNITS };

/* Threads that wait for one another. */
struct team {
    _Alignas(64) atomic_long arrived;
    _Alignas(64) atomic_long phase;
};

static inline void meet(struct team *team, int64_t count) {
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

static inline int64_t padded(int64_t units) { return pieces_of(units, UNITS) * UNITS; }
static inline int64_t paired(int64_t length, int64_t step) { return pieces_of(length, step) * step; }

/* Rows of sequence n at a step, in the order in which steps are taken. */
static inline int64_t row_of(const struct recurrent *o, int64_t n, int64_t step) {
    return n * o->image_rows + (o->backward ? o->steps - 1 - step : step) * o->step_rows;
}

/* Whether a sequence has no such step. */
static inline int is_past(const struct recurrent *o, int64_t n, int64_t step) {
    return o->marks && o->marks[row_of(o, n, step)] == MARK_PAST;
}

/* Whether the state that a step reads is 0, because a sequence begins there: with it, or backward with the one before. */
static inline int is_fresh(const struct recurrent *o, int64_t n, int64_t step) {
    if (!o->marks || (o->backward && !step)) return 0;
    return o->marks[row_of(o, n, o->backward ? step - 1 : step)] == MARK_FRESH;
}

typedef void steps_t(const struct operation *op, struct share share, struct team *team);

/* The loops for one kind of instructions, in float32 and in bf16. */
struct recurrent_loops {
    int64_t panel; /* units that go together */
    work_t lay[2];
    steps_t *forward[2], *backward[2];
};

extern const struct recurrent_loops recurrent_on_avx2, recurrent_on_avx512;

#endif
