/* LayerNorm and RMSNorm: rows of numbers are brought to mean 0 and variance 1, or to a mean square of 1, then scaled and
 * shifted. Runs on every processor. The mean is measured twice, the second time around the first one, as squares are, and both
 * are kept, so that numbers far from 0 lose nothing. In bf16 the numbers of a row are widened first.
 *
 * Sums of a row wait for each other: where rows are short, some of them take each step together, so that others need not.
 *
 * The gradients of scale and bias are sums of each thread's rows, added up in the order of the threads.
 */

#include <math.h>

#include "narrow.h"

/* Adds up LANES sums, half to half: in memory, since compilers take a register apart number by number. */
INLINE float total(const float *sums) {
    float halves[LANES / 2], quarters[LANES / 4];
    for (int lane = 0; lane < LANES / 2; lane++) halves[lane] = sums[lane] + sums[lane + LANES / 2];
    for (int lane = 0; lane < LANES / 4; lane++) quarters[lane] = halves[lane] + halves[lane + LANES / 4];
    return (quarters[0] + quarters[2]) + (quarters[1] + quarters[3]);
}

/* LANES sums of x. */
INLINE void add_up(const float *x, int64_t size, float *sums) {
    float some[LANES] = {0}, others[LANES] = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= size; i += 2 * LANES)
        for (int lane = 0; lane < LANES; lane++) some[lane] += x[i + lane], others[lane] += x[i + LANES + lane];
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; lane++) some[lane] += x[i + lane];
    for (int lane = 0; lane < LANES; lane++) sums[lane] = some[lane] + others[lane];
    for (int lane = 0; i < size; i++, lane++) sums[lane] += x[i];
}

/* LANES sums of x - less - rest, and of its squares. */
INLINE void add_up_squares(const float *x, float less, float rest, int64_t size, float *sums, float *squares) {
    float some[LANES] = {0}, others[LANES] = {0}, square[LANES] = {0}, more[LANES] = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= size; i += 2 * LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float one = x[i + lane] - less - rest, other = x[i + LANES + lane] - less - rest;
            some[lane] += one, square[lane] += one * one;
            others[lane] += other, more[lane] += other * other;
        }
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float one = x[i + lane] - less - rest;
            some[lane] += one, square[lane] += one * one;
        }
    for (int lane = 0; lane < LANES; lane++)
        sums[lane] = some[lane] + others[lane], squares[lane] = square[lane] + more[lane];
    for (int lane = 0; i < size; i++, lane++) {
        float one = x[i] - less - rest;
        sums[lane] += one, squares[lane] += one * one;
    }
}

/* A row as float32: where it lies, or widened into `to`. */
INLINE const float *row_of(const void *from, int64_t at, int64_t size, const int narrow, float *to) {
    if (!narrow) return (const float *)from + at;
    for (int64_t i = 0; i < size; i++) to[i] = get(from, at + i, 1);
    return to;
}

INLINE int64_t together(const struct norm *n) { return n->size <= NORM_SHORT ? NORM_TOGETHER : 1; }

INLINE void norm_rows_of(const struct norm *n, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    int64_t size = n->size, some = together(n);
    float *wide = n->scratch + 2 * some * worker * size;
    for (int64_t first = start; first < stop; first += some) {
        int64_t count = smaller(some, stop - first);
        const float *rows[NORM_TOGETHER];
        float sums[NORM_TOGETHER][LANES], squares[NORM_TOGETHER][LANES];
        float *kept = n->kept + 3 * first;
        for (int64_t r = 0; r < count; r++) rows[r] = row_of(n->x, (first + r) * size, size, narrow, wide + r * size);
        for (int64_t r = 0; n->centred && r < count; r++) add_up(rows[r], size, sums[r]);
        for (int64_t r = 0; r < count; r++) kept[3 * r] = n->centred ? total(sums[r]) / (float)size : 0;
        for (int64_t r = 0; r < count; r++) add_up_squares(rows[r], kept[3 * r], 0, size, sums[r], squares[r]);
        for (int64_t r = 0; r < count; r++) {
            float mean = kept[3 * r], rest = n->centred ? total(sums[r]) / (float)size : 0;
            float square = total(squares[r]) / (float)size - rest * rest;
            if (!(square > rest * rest)) { /* more of it was the mean's rounding: too few digits are left */
                add_up_squares(rows[r], mean, rest, size, sums[r], squares[r]);
                square = total(squares[r]) / (float)size;
            }
            kept[3 * r + 1] = rest;
            kept[3 * r + 2] = 1 / sqrtf(square + (float)n->epsilon);
        }
        for (int64_t r = 0; r < count; r++) {
            float mean = kept[3 * r], rest = kept[3 * r + 1], slope = kept[3 * r + 2];
            const float *x = rows[r], *scale = n->scale, *bias = n->bias;
            int64_t at = (first + r) * size;
#pragma GCC ivdep
            for (int64_t i = 0; i < size; i++)
                put(n->y, at + i, (x[i] - mean - rest) * slope * (scale ? scale[i] : 1) + (bias ? bias[i] : 0), narrow);
        }
    }
}

INLINE void norm_rows(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    if (op->norm.narrow)
        norm_rows_of(&op->norm, start, stop, worker, 1);
    else
        norm_rows_of(&op->norm, start, stop, worker, 0);
}

/* For a row x whose gradient is dy: adds the gradients of scale and bias to those before; gives LANES sums of g and of g normal.
 * That there is a scale is a constant, so that the sums stay in registers. */
INLINE void learn(const float *x, const float *dy, const float *scale, const int scaled, const float *kept, int64_t size,
                  float *dscale, float *dbias, float *sums, float *products) {
    float some[LANES] = {0}, along[LANES] = {0}, mean = kept[0], rest = kept[1], slope = kept[2];
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES)
#pragma GCC ivdep
        for (int lane = 0; lane < LANES; lane++) {
            float normal = (x[i + lane] - mean - rest) * slope, g = dy[i + lane];
            dscale[i + lane] += g * normal;
            dbias[i + lane] += g;
            if (scaled) g *= scale[i + lane];
            some[lane] += g;
            along[lane] += g * normal;
        }
    for (int lane = 0; lane < LANES; lane++) sums[lane] = some[lane], products[lane] = along[lane];
    for (int lane = 0; i < size; i++, lane++) {
        float normal = (x[i] - mean - rest) * slope, g = dy[i];
        dscale[i] += g * normal;
        dbias[i] += g;
        if (scaled) g *= scale[i];
        sums[lane] += g;
        products[lane] += g * normal;
    }
}

/* dx = slope (g - mean(g) - normal mean(g normal)), where g = dy scale; without `centred` the first mean is left out. */
INLINE void norm_back_of(const struct norm *n, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    int64_t size = n->size, some = together(n);
    float *wide = n->scratch + 2 * some * worker * size;
    float *dscale = n->sums + 2 * worker * size, *dbias = dscale + size;
    const float *scale = n->scale;
    for (int64_t first = start; first < stop; first += some) {
        int64_t count = smaller(some, stop - first);
        const float *rows[NORM_TOGETHER], *given[NORM_TOGETHER], *kept = n->kept + 3 * first;
        float sums[NORM_TOGETHER][LANES], products[NORM_TOGETHER][LANES];
        for (int64_t r = 0; r < count; r++) {
            rows[r] = row_of(n->x, (first + r) * size, size, narrow, wide + 2 * r * size);
            given[r] = row_of(n->dy, (first + r) * size, size, narrow, wide + (2 * r + 1) * size);
        }
        for (int64_t r = 0; r < count; r++)
            if (scale)
                learn(rows[r], given[r], scale, 1, kept + 3 * r, size, dscale, dbias, sums[r], products[r]);
            else
                learn(rows[r], given[r], scale, 0, kept + 3 * r, size, dscale, dbias, sums[r], products[r]);
        for (int64_t r = 0; n->dx && r < count; r++) {
            float mean = kept[3 * r], rest = kept[3 * r + 1], slope = kept[3 * r + 2];
            float centre = n->centred ? total(sums[r]) / (float)size : 0, along = total(products[r]) / (float)size;
            const float *x = rows[r], *dy = given[r];
            int64_t at = (first + r) * size;
#pragma GCC ivdep
            for (int64_t i = 0; i < size; i++) {
                float normal = (x[i] - mean - rest) * slope, g = dy[i] * (scale ? scale[i] : 1);
                put(n->dx, at + i, (g - centre - normal * along) * slope, narrow);
            }
        }
    }
}

INLINE void norm_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    if (op->norm.narrow)
        norm_back_of(&op->norm, start, stop, worker, 1);
    else
        norm_back_of(&op->norm, start, stop, worker, 0);
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
