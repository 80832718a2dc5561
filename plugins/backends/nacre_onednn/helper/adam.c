/* The update of Adam and AdamW. Runs on every processor, with the bits of NumPy: products and sums are rounded one after the
 * other.
 */

#include <math.h>

#include "helper.h"

/* m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w = w - rate m / (root of v + epsilon); gives w g. */
INLINE float step_of(const struct adam *a, int64_t i, float rate, float epsilon) {
    float g = a->g[i];
    float m = a->m[i] * (float)a->beta1 + g * (float)(1 - a->beta1);
    float v = a->v[i] * (float)a->beta2 + g * g * (float)(1 - a->beta2);
    float root = a->inside ? sqrtf(v + epsilon) : sqrtf(v) + epsilon;
    a->m[i] = m;
    a->v[i] = v;
    a->w[i] -= m / root * rate;
    return a->w[i] * g;
}

INLINE void adam(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct adam local = op->adam, *a = &local; /* a copy, which no store can change */
    float rate = (float)(a->scalars[a->rate] * a->factor * a->scalars[a->correction]);
    float epsilon = (float)a->scalars[a->epsilon], sums[LANES] = {0};
    double sum = 0;
    int64_t i = start;
    for (; i + LANES <= stop; i += LANES)
#pragma GCC ivdep
        for (int lane = 0; lane < LANES; lane++) sums[lane] += step_of(a, i + lane, rate, epsilon);
    for (; i < stop; i++) sum += step_of(a, i, rate, epsilon);
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    a->products[worker] = sum;
}

VERSIONS(adam)

void run_adam(const struct machine *machine, const struct operation *op) {
    for (int64_t worker = 0; worker < machine->threads; worker++) op->adam.products[worker] = 0;
    share_elements(machine, op, best_adam(), op->adam.size);
}
