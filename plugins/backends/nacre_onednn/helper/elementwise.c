/* ReLU, its gradient, and sums of two blobs, in float32 or in bf16. Runs on every processor. A NaN stays one, as in NumPy;
 * some of oneDNN's code loses it.
 */

#include "narrow.h"

/* y = max(0, x) */
INLINE void rectify_in(const void *x, void *y, int64_t start, int64_t stop, const int narrow) {
#pragma GCC ivdep
    for (int64_t i = start; i < stop; i++) {
        float number = get(x, i, narrow);
        put(y, i, number < 0 ? 0 : number, narrow);
    }
}

INLINE void rectify_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    if (op->rectify.narrow)
        rectify_in(op->rectify.x, op->rectify.y, start, stop, 1);
    else
        rectify_in(op->rectify.x, op->rectify.y, start, stop, 0);
}

/* dx = dy where y > 0, else 0, whatever dy is; `both`: written to two places; `open`: dy everywhere. */
INLINE void gate_in(const struct gate *g, int64_t start, int64_t stop, const int narrow, const int both, const int open) {
    const void *y = g->y, *dy = g->dy;
    void *dx = g->dx, *also = g->also;
#pragma GCC ivdep
    for (int64_t i = start; i < stop; i++) {
        float whole = get(dy, i, narrow), gradient = open || get(y, i, narrow) > 0 ? whole : 0;
        put(dx, i, gradient, narrow);
        if (both) put(also, i, gradient, narrow);
    }
}

INLINE void gate_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    const struct gate *g = &op->gate;
    switch ((g->y ? 0 : 4) + (g->also ? 2 : 0) + g->narrow) {
    case 0: gate_in(g, start, stop, 0, 0, 0); break;
    case 1: gate_in(g, start, stop, 1, 0, 0); break;
    case 2: gate_in(g, start, stop, 0, 1, 0); break;
    case 3: gate_in(g, start, stop, 1, 1, 0); break;
    case 6: gate_in(g, start, stop, 0, 1, 1); break;
    case 7: gate_in(g, start, stop, 1, 1, 1); break;
    }
}

/* y = one + other, or max(0, one + other). */
INLINE void add_in(const void *one, const void *other, void *y, int64_t start, int64_t stop, const int relu,
                   const int narrow) {
#pragma GCC ivdep
    for (int64_t i = start; i < stop; i++) {
        float sum = get(one, i, narrow) + get(other, i, narrow);
        put(y, i, relu && sum < 0 ? 0 : sum, narrow);
    }
}

INLINE void add_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    const struct add *a = &op->add;
    switch (a->relu * 2 + a->narrow) {
    case 0: add_in(a->one, a->other, a->y, start, stop, 0, 0); break;
    case 1: add_in(a->one, a->other, a->y, start, stop, 0, 1); break;
    case 2: add_in(a->one, a->other, a->y, start, stop, 1, 0); break;
    default: add_in(a->one, a->other, a->y, start, stop, 1, 1);
    }
}

VERSIONS(rectify_some)
VERSIONS(gate_some)
VERSIONS(add_some)

void run_rectify(const struct machine *machine, const struct operation *op) {
    share_elements(machine, op, best_rectify_some(), op->rectify.size);
}

void run_gate(const struct machine *machine, const struct operation *op) {
    share_elements(machine, op, best_gate_some(), op->gate.size);
}

void run_add(const struct machine *machine, const struct operation *op) {
    share_elements(machine, op, best_add_some(), op->add.size);
}
