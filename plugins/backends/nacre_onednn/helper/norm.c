/* LayerNorm and RMSNorm: rows of numbers are brought to mean 0 and variance 1, or to a mean square of 1, then scaled and
 * shifted. Runs on every processor. The mean is measured twice, the second time around the first one, and both are kept, so that
 * numbers far from 0 lose nothing. In bf16 the numbers of a row are widened first.
 *
 * The gradients of scale and bias are sums of each thread's rows, added up in the order of the threads.
 */

#include <math.h>

#include "narrow.h"

/* The sum of x - less, or of the products of x - less and y. */
INLINE float sum_of(const float *x, float less, const float *y, int64_t size) {
    float sums[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += (x[i + lane] - less) * (y ? y[i + lane] : 1);
    for (; i < size; i++) sum += (x[i] - less) * (y ? y[i] : 1);
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* The sum of the squares of x - less - rest. */
INLINE float squares_of(const float *x, float less, float rest, int64_t size) {
    float sums[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float apart = x[i + lane] - less - rest;
            sums[lane] += apart * apart;
        }
    for (; i < size; i++) sum += (x[i] - less - rest) * (x[i] - less - rest);
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* A row as float32: where it lies, or widened into `to`. */
INLINE const float *row_of(const void *from, int64_t at, int64_t size, int64_t narrow, float *to) {
    if (!narrow) return (const float *)from + at;
    for (int64_t i = 0; i < size; i++) to[i] = get(from, at + i, 1);
    return to;
}

INLINE void norm_rows(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct norm *n = &op->norm;
    int64_t size = n->size, narrow = n->narrow;
    float *wide = n->scratch + 4 * worker * size;
    for (int64_t row = start; row < stop; row++) {
        const float *x = row_of(n->x, row * size, size, narrow, wide);
        float mean = n->centred ? sum_of(x, 0, 0, size) / (float)size : 0;
        float rest = n->centred ? sum_of(x, mean, 0, size) / (float)size : 0;
        float slope = 1 / sqrtf(squares_of(x, mean, rest, size) / (float)size + (float)n->epsilon);
        float *kept = n->kept + 3 * row;
        kept[0] = mean, kept[1] = rest, kept[2] = slope;
        float *y = narrow ? wide + size : (float *)n->y + row * size;
        for (int64_t i = 0; i < size; i++) y[i] = (x[i] - mean - rest) * slope;
        if (n->scale)
            for (int64_t i = 0; i < size; i++) y[i] *= n->scale[i];
        if (n->bias)
            for (int64_t i = 0; i < size; i++) y[i] += n->bias[i];
        if (narrow)
            for (int64_t i = 0; i < size; i++) put(n->y, row * size + i, y[i], 1);
    }
}

/* dx = slope (g - mean(g) - normal mean(g normal)), where g = dy scale; without `centred` the first mean is left out. */
INLINE void norm_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct norm *n = &op->norm;
    int64_t size = n->size, narrow = n->narrow;
    float *wide = n->scratch + 4 * worker * size, *normal = wide + 2 * size, *g = wide + 3 * size;
    float *dscale = n->sums + 2 * worker * size, *dbias = dscale + size;
    for (int64_t row = start; row < stop; row++) {
        const float *x = row_of(n->x, row * size, size, narrow, wide);
        const float *dy = row_of(n->dy, row * size, size, narrow, wide + size);
        float mean = n->kept[3 * row], rest = n->kept[3 * row + 1], slope = n->kept[3 * row + 2];
        for (int64_t i = 0; i < size; i++) normal[i] = (x[i] - mean - rest) * slope;
        if (n->dscale)
            for (int64_t i = 0; i < size; i++) dscale[i] += dy[i] * normal[i];
        if (n->dbias)
            for (int64_t i = 0; i < size; i++) dbias[i] += dy[i];
        if (!n->dx) continue;
        for (int64_t i = 0; i < size; i++) g[i] = n->scale ? dy[i] * n->scale[i] : dy[i];
        float along = sum_of(g, 0, normal, size) / (float)size, even = n->centred ? sum_of(g, 0, 0, size) / (float)size : 0;
        float *dx = narrow ? wide : (float *)n->dx + row * size;
        for (int64_t i = 0; i < size; i++) dx[i] = (g[i] - even - normal[i] * along) * slope;
        if (narrow)
            for (int64_t i = 0; i < size; i++) put(n->dx, row * size + i, dx[i], 1);
    }
}

VERSIONS(norm_rows)
VERSIONS(norm_back)

void run_norm(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, best_norm_rows(), op->norm.rows, op->norm.rows * op->norm.size);
}

void run_norm_gradient(const struct machine *machine, const struct operation *op) {
    const struct norm *n = &op->norm;
    int64_t workers = op->workers, size = n->size;
    memset(n->sums, 0, (size_t)(2 * workers * size) * sizeof *n->sums);
    share_out(machine, op, best_norm_back(), n->rows, 1);
    float *results[] = {n->dscale, n->dbias};
    for (int which = 0; which < 2; which++)
        for (int64_t i = 0; results[which] && i < size; i++) {
            float sum = 0;
            for (int64_t worker = 0; worker < workers; worker++) sum += n->sums[(2 * worker + which) * size + i];
            results[which][i] = sum;
        }
}
