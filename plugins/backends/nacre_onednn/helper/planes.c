/* Planes of images with three axes: copies of those that a filter sees along the first, and their sums. Runs on every
 * processor.
 */

#include <string.h>

#include "helper.h"

/* Pieces are planes of y. */
static void stack(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct planes *p = &op->planes;
    size_t bytes = (size_t)p->plane * sizeof(float);
    (void)worker;
    for (int64_t piece = start; piece < stop; piece++) {
        int64_t block = piece % p->blocks, k = piece / p->blocks % p->kernel, row = piece / p->blocks / p->kernel;
        int64_t depth = row % p->out - p->before + k;
        float *y = p->y + piece * p->plane;
        if (depth < 0 || depth >= p->deep)
            memset(y, 0, bytes);
        else
            memcpy(y, p->x + ((row / p->out * p->blocks + block) * p->deep + depth) * p->plane, bytes);
    }
}

/* Pieces are planes of x. */
INLINE void add_planes(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct planes *p = &op->planes;
    (void)worker;
    for (int64_t piece = start; piece < stop; piece++) {
        int64_t depth = piece % p->deep, block = piece / p->deep % p->blocks, image = piece / p->deep / p->blocks, some = 0;
        float *x = p->x + piece * p->plane;
        for (int64_t k = 0; k < p->kernel; k++) {
            int64_t out = depth + p->before - k;
            if (out < 0 || out >= p->out) continue;
            const float *y = p->y + (((image * p->out + out) * p->kernel + k) * p->blocks + block) * p->plane;
            if (some++)
                for (int64_t i = 0; i < p->plane; i++) x[i] += y[i];
            else
                memcpy(x, y, (size_t)p->plane * sizeof(float));
        }
        if (!some) memset(x, 0, (size_t)p->plane * sizeof(float));
    }
}

VERSIONS(add_planes)

void run_planes(const struct machine *machine, const struct operation *op) {
    const struct planes *p = &op->planes;
    share_out(machine, op, stack, p->images * p->out * p->kernel * p->blocks, 1);
}

void run_planes_gradient(const struct machine *machine, const struct operation *op) {
    const struct planes *p = &op->planes;
    share_out(machine, op, best_add_planes(), p->images * p->blocks * p->deep, 1);
}
