/* The update of parameters by SGD with momentum, and the gradient of an L2 norm. Runs on every processor; copies in bf16 need
 * avx512_bf16.
 *
 * Compiled with -ffp-contract=off, like all files: a product and a sum are rounded one after the other, as in NumPy, so
 * that parameters have the same bits as without the helper.
 */

#include "avx512.h"

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

#if defined(__x86_64__)
/* Moves 16 values, or as many as the mask says; a full one is to be a constant: with another, processors store half as
 * fast. */
INLINE_BF16 __m512 move_some(float *w, const float *g, float *v, uint16_t *to, __m512 rate, __m512 momentum,
                             const __mmask16 mask, const int past) {
    __m512 gradient = _mm512_maskz_loadu_ps(mask, g), value = _mm512_maskz_loadu_ps(mask, w);
    __m512 moved = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, v), momentum);
    moved = _mm512_sub_ps(moved, _mm512_mul_ps(gradient, rate));
    value = _mm512_add_ps(value, moved);
    _mm512_mask_storeu_ps(v, mask, moved);
    _mm512_mask_storeu_ps(w, mask, value);
    if (past)
        _mm256_stream_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh(value));
    else
        _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh(value));
    return _mm512_mul_ps(value, gradient);
}

/* The same, and writes the copy in bf16 too; at its address must be room for whole registers. */
ON_BF16 static double move_copied(float *w, const float *g, float *v, uint16_t *to, int64_t size, float rate, float momentum) {
    const __mmask16 all = 0xFFFF;
    __m512 sum = _mm512_setzero_ps(), by = _mm512_set1_ps(rate), kept = _mm512_set1_ps(momentum);
    int64_t i = 0;
    if (2 * size > LARGE) {
        for (; i + LANES <= size; i += LANES)
            sum = _mm512_add_ps(sum, move_some(w + i, g + i, v + i, to + i, by, kept, all, 1));
        _mm_sfence(); /* other threads see what was written straight to memory */
    }
    for (; i + LANES <= size; i += LANES)
        sum = _mm512_add_ps(sum, move_some(w + i, g + i, v + i, to + i, by, kept, all, 0));
    if (i < size)
        sum = _mm512_add_ps(sum, move_some(w + i, g + i, v + i, to + i, by, kept, mask_of(size - i), 0));
    return _mm512_reduce_add_ps(sum);
}
#else
/* No net computes in bf16 here, so that there are no copies. */
static double move_copied(float *w, const float *g, float *v, uint16_t *to, int64_t size, float rate, float momentum) {
    (void)w, (void)g, (void)v, (void)to, (void)size, (void)rate, (void)momentum;
    return 0;
}
#endif

/* The same for all values; some of them have a copy in bf16, which is written along. */
INLINE void update(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct update *u = &op->update;
    float *w = u->w, *v = u->v;
    const float *g = u->g;
    float rate = (float)(u->scalars[u->rate] * u->factor), momentum = (float)u->scalars[u->momentum];
    double sum = 0;
    int64_t at = start;
    for (const struct copied *one = u->copied; one < u->copied + u->n_copied; one++) {
        int64_t from = one->start > at ? one->start : at, to = one->stop < stop ? one->stop : stop;
        if (from >= to) continue;
        sum += move(w + at, g + at, v + at, from - at, rate, momentum);
        sum += move_copied(w + from, g + from, v + from, one->to + from - one->start, to - from, rate, momentum);
        at = to;
    }
    u->products[worker] = sum + move(w + at, g + at, v + at, stop - at, rate, momentum);
}

VERSIONS(update)

/* g = g + coefficient w */
INLINE void decay(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const float *restrict w = op->decay.w;
    float *restrict g = op->decay.g;
    float coefficient = (float)op->decay.coefficient;
    (void)worker;
    for (int64_t i = start; i < stop; i++) g[i] += w[i] * coefficient;
}

VERSIONS(decay)

void run_update(const struct machine *machine, const struct operation *op) {
    for (int64_t worker = 0; worker < machine->threads; worker++) op->update.products[worker] = 0;
    share_elements(machine, op, best_update(), op->update.size);
}

void run_decay(const struct machine *machine, const struct operation *op) {
    share_elements(machine, op, best_decay(), op->decay.size);
}
