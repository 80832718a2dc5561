/* LayerNorm and RMSNorm: rows of numbers are brought to mean 0 and variance 1, or to a mean square of 1, then scaled and
 * shifted. Runs on every processor. The mean is measured twice, the second time around the first one, and both are kept, so that
 * numbers far from 0 lose nothing. In bf16 the numbers of a row are widened first.
 *
 * Sums of a row wait for each other: where rows are short, some of them take each step together, so that others need not.
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

INLINE int64_t together(const struct norm *n) { return n->size <= NORM_SHORT ? NORM_TOGETHER : 1; }

INLINE void norm_rows(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct norm *n = &op->norm;
    int64_t size = n->size, narrow = n->narrow, some = together(n);
    float *wide = n->scratch + 3 * some * worker * size, *result = wide + some * size;
    for (int64_t first = start; first < stop; first += some) {
        int64_t count = smaller(some, stop - first);
        const float *x[NORM_TOGETHER];
        float *kept = n->kept + 3 * first;
        for (int64_t r = 0; r < count; r++) x[r] = row_of(n->x, (first + r) * size, size, narrow, wide + r * size);
        for (int64_t r = 0; r < count; r++) kept[3 * r] = n->centred ? sum_of(x[r], 0, 0, size) / (float)size : 0;
        for (int64_t r = 0; r < count; r++)
            kept[3 * r + 1] = n->centred ? sum_of(x[r], kept[3 * r], 0, size) / (float)size : 0;
        for (int64_t r = 0; r < count; r++) {
            float square = squares_of(x[r], kept[3 * r], kept[3 * r + 1], size) / (float)size;
            kept[3 * r + 2] = 1 / sqrtf(square + (float)n->epsilon);
        }
        for (int64_t r = 0; r < count; r++) {
            float mean = kept[3 * r], rest = kept[3 * r + 1], slope = kept[3 * r + 2];
            float *y = narrow ? result : (float *)n->y + (first + r) * size;
            for (int64_t i = 0; i < size; i++) y[i] = (x[r][i] - mean - rest) * slope;
            if (n->scale)
                for (int64_t i = 0; i < size; i++) y[i] *= n->scale[i];
            if (n->bias)
                for (int64_t i = 0; i < size; i++) y[i] += n->bias[i];
            if (narrow)
                for (int64_t i = 0; i < size; i++) put(n->y, (first + r) * size + i, y[i], 1);
        }
    }
}

/* For a row x whose gradient is dy: adds the gradients of scale and bias to those before; gives the means of g and of g normal. */
INLINE void learn(const float *x, const float *dy, const float *scale, const float *kept, int64_t size, float *dscale, float *dbias,
                  float *even, float *along) {
    float sums[LANES] = {0}, products[LANES] = {0}, sum = 0, product = 0, mean = kept[0], rest = kept[1], slope = kept[2];
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
#pragma GCC ivdep
        for (int lane = 0; lane < LANES; lane++) {
            float normal = (x[i + lane] - mean - rest) * slope, g = dy[i + lane];
            dscale[i + lane] += g * normal;
            dbias[i + lane] += g;
            g *= scale ? scale[i + lane] : 1;
            sums[lane] += g;
            products[lane] += g * normal;
        }
    for (; i < size; i++) {
        float normal = (x[i] - mean - rest) * slope, g = dy[i];
        dscale[i] += g * normal;
        dbias[i] += g;
        g *= scale ? scale[i] : 1;
        sum += g;
        product += g * normal;
    }
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane], product += products[lane];
    *even = sum / (float)size;
    *along = product / (float)size;
}

/* dx = slope (g - mean(g) - normal mean(g normal)), where g = dy scale; without `centred` the first mean is left out. */
INLINE void norm_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct norm *n = &op->norm;
    int64_t size = n->size, narrow = n->narrow, some = together(n);
    float *wide = n->scratch + 3 * some * worker * size, *result = wide + 2 * some * size;
    float *dscale = n->sums + 2 * worker * size, *dbias = dscale + size;
    const float *scale = n->scale;
    for (int64_t first = start; first < stop; first += some) {
        int64_t count = smaller(some, stop - first);
        const float *x[NORM_TOGETHER], *dy[NORM_TOGETHER], *kept = n->kept + 3 * first;
        float along[NORM_TOGETHER], even[NORM_TOGETHER];
        for (int64_t r = 0; r < count; r++) {
            x[r] = row_of(n->x, (first + r) * size, size, narrow, wide + 2 * r * size);
            dy[r] = row_of(n->dy, (first + r) * size, size, narrow, wide + (2 * r + 1) * size);
        }
        for (int64_t r = 0; r < count; r++)
            learn(x[r], dy[r], scale, kept + 3 * r, size, dscale, dbias, &even[r], &along[r]);
        for (int64_t r = 0; n->dx && r < count; r++) {
            float mean = kept[3 * r], rest = kept[3 * r + 1], slope = kept[3 * r + 2], centre = n->centred ? even[r] : 0;
            float *dx = narrow ? result : (float *)n->dx + (first + r) * size;
            const float *from = x[r], *given = dy[r];
#pragma GCC ivdep
            for (int64_t i = 0; i < size; i++) {
                float normal = (from[i] - mean - rest) * slope, g = given[i] * (scale ? scale[i] : 1);
                dx[i] = (g - centre - normal * along[r]) * slope;
            }
            if (narrow)
                for (int64_t i = 0; i < size; i++) put(n->dx, (first + r) * size + i, dx[i], 1);
        }
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
