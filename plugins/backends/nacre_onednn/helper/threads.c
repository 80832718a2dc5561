/* Shares out the work of an operation over OpenMP's threads. Needs no other file of the helper.
 *
 * To wake the threads takes half a microsecond, a good part of what a small net's operations take. So those in a row that only
 * share out work run together: the threads are woken once, and wait for one another between operations.
 */

#include <limits.h>
#include <sched.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "helper.h"

#if defined(__x86_64__)
#define PAUSE __builtin_ia32_pause
#else
#define PAUSE() ((void)0)
#endif

struct share {
    const struct machine *machine;
    const struct operation *op;
    work_t work;
    int64_t size, unit;
};

static void work_of(const struct share *share, int64_t worker, int64_t team) {
    int64_t units = pieces_of(share->size, share->unit);
    int64_t start = units * worker / team * share->unit, stop = units * (worker + 1) / team * share->unit;
    share->work(share->op, start, smaller(stop, share->size), worker);
}

static void piece(void *data) {
    const struct share *share = data;
    work_of(share, share->machine->thread(), share->machine->team());
}

/* Operations that run together: each thread runs all of them, and does its share of each. A thread alone does what is too
 * little to be shared. */
struct together {
    const struct machine *machine;
    const struct operation *ops;
    int64_t count;
    run_any_t *run;
    int64_t counts, shares; /* whether shares are counted instead, and how many there were */
    _Alignas(ALIGNMENT) int32_t arrived;
    _Alignas(ALIGNMENT) int32_t rounds;
    int32_t asleep;
};

enum { PATIENCE = 1000 }; /* looks at what others do, before a thread sleeps: on a busy machine others may have to wait for it */

static void sleep_until(struct together *t, int32_t round) {
#if defined(__linux__)
    __atomic_add_fetch(&t->asleep, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&t->rounds, __ATOMIC_SEQ_CST) == round) syscall(SYS_futex, &t->rounds, FUTEX_WAIT_PRIVATE, round, 0, 0, 0);
    __atomic_sub_fetch(&t->asleep, 1, __ATOMIC_SEQ_CST);
#else
    while (__atomic_load_n(&t->rounds, __ATOMIC_ACQUIRE) == round) sched_yield();
#endif
}

static void wake(struct together *t) {
#if defined(__linux__)
    if (__atomic_load_n(&t->asleep, __ATOMIC_SEQ_CST)) syscall(SYS_futex, &t->rounds, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
#else
    (void)t;
#endif
}

/* Returns when all threads have got here: what they have written can be read now. */
static void wait_for_others(struct together *t, int64_t team) {
    int32_t round = __atomic_load_n(&t->rounds, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&t->arrived, 1, __ATOMIC_ACQ_REL) == team) {
        __atomic_store_n(&t->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&t->rounds, round + 1, __ATOMIC_SEQ_CST);
        wake(t);
        return;
    }
    for (int64_t look = 0; __atomic_load_n(&t->rounds, __ATOMIC_ACQUIRE) == round; look++) {
        if (look == PATIENCE) {
            sleep_until(t, round);
            return;
        }
        PAUSE();
    }
}

static void run_all(void *data) {
    struct together *t = data;
    struct machine machine = *t->machine;
    machine.together = t;
    for (int64_t number = 0; number < t->count; number++) t->run(&machine, t->ops + number);
}

void run_together(const struct machine *machine, const struct operation *ops, int64_t count, run_any_t *run) {
    struct together together = {.machine = machine, .ops = ops, .count = count, .run = run};
    machine->parallel(run_all, &together, (unsigned)machine->threads, 0);
}

int64_t count_shares(const struct machine *machine, const struct operation *op, run_any_t *run) {
    struct together together = {.counts = 1};
    struct machine counting = *machine;
    counting.together = &together;
    run(&counting, op);
    return together.shares;
}

int64_t threads_of(const struct machine *machine, const struct operation *op) {
    return op->workers && op->workers < machine->threads ? op->workers : machine->threads;
}

int more_alike(const struct machine *machine, const struct operation *op, int64_t pieces, int64_t others) {
    const int64_t threads = threads_of(machine, op);
    return pieces_of(pieces, threads) * others < pieces_of(others, threads) * pieces;
}

void share_out(const struct machine *machine, const struct operation *op, work_t work, int64_t size, int64_t unit) {
    struct share share = {machine, op, work, size, unit};
    struct together *together = machine->together;
    int64_t threads = threads_of(machine, op);
    const int alone = !machine->parallel || threads == 1 || size <= unit;
    if (together && together->counts) {
        together->shares += !alone;
    } else if (together) {
        int64_t worker = machine->thread(), team = machine->team();
        threads = alone ? 1 : smaller(threads, team);
        if (worker < threads) work_of(&share, worker, threads);
        wait_for_others(together, team);
    } else if (alone) {
        work(op, 0, size, 0);
    } else {
        machine->parallel(piece, &share, (unsigned)threads, 0);
    }
}

void share_rows(const struct machine *machine, const struct operation *op, work_t work, int64_t rows, int64_t numbers) {
    share_out(machine, op, work, rows, numbers > ALONE ? 1 : rows);
}

void share_elements(const struct machine *machine, const struct operation *op, work_t work, int64_t size) {
    share_out(machine, op, work, size, size > ALONE ? LANES : size);
}

static void call_shared(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    op->shared.function(op->shared.arguments, start, stop, worker);
}

void run_shared(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, call_shared, op->shared.size, op->shared.unit);
}
