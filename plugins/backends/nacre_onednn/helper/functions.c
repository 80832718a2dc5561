/* Neurons other than ReLU, and their slopes, exact over the whole range of floats: docs/numerics.md has the bounds. Runs on
 * every processor, with the same bits; the loops are written so that compilers make vectors of them.
 *
 * The formulas are those of nacre_layers/neurons.py and mills_ratio.py.
 */

#include "functions.h"
#include "narrow.h"

enum { CHUNK = 256 };

/* log(1 + t) for t from 0 to 1: twice the inverse of tanh at t / (2 + t). */
INLINE float logarithm(float t) {
    float s = 2 * t / (2 + t), z = 0.25f * s * s;
    float p = 1.21503805e-1f;
    p = p * z + 1.07138519e-1f;
    p = p * z + 1.43084403e-1f;
    p = p * z + 1.99994389e-1f;
    p = p * z + 3.33333378e-1f;
    return s + s * z * p;
}

/* (1 - F(a)) / f(a), of the normal distribution, for a from 0 to 16. */
INLINE float mills_ratio(float a) {
    float z = a * a, p = 0.010575434652397847f, q = 0.0105753365168511f * a + 0.10358379187183936f;
    p = p * z + (0.10357823918485105f * a + 0.4644077704598022f), q = q * z + (0.4748488322206756f * a + 1.2109475193229127f);
    p = p * z + (1.1055093367580657f * a + 1.2533141460688395f), q = q * z + (1.6799538842146522f * a + 1);
    return p / q;
}

/* y f(a), where only the result may be denormal: a^2 = h^2 + (a - h) (a + h) with a multiple h of 1/16, whose square is exact.
 * Their sum, which is rounded, is exact enough for n. */
INLINE float times_density(float y, float a) {
    const float rounding = 0x1.8p19f;
    float high = a + rounding - rounding;
    float most = -0.5f * high * high, rest = -0.5f * (a - high) * (a + high);
    uint32_t n;
    float whole = whole_of(most + rest, &n), p = 1 + near_one(WITHOUT(most, whole) + rest);
    return scaled_down(y * 0.39894228f * p, n);
}

/* A gate s rises from 0 to 1: y = x s(x), by its tail q = s(-a) at a = |x|; see neurons.py. `times_tail` is y q(a), and
 * `below` the slope at -a, (1 + a q'(a) / q(a)) q(a). */
#define GATED(name, far)                                                                                                \
    INLINE float name(float x, float parameter) {                                                               \
        float a = not_above(fabsf(x), far), part = name##_times_tail(a, a, parameter);                                   \
        return (x > 0 ? x : 0) - part;                                                                                 \
    }                                                                                                                  \
    INLINE float name##_slope(float x, float parameter) {                                                       \
        float slope = name##_below(not_above(fabsf(x), far), parameter);                                               \
        return x > 0 ? 1 - slope : slope;                                                                              \
    }

INLINE float times_logistic_tail(float y, float z) { /* y / (1 + exp(z)) for z >= 0 */
    float root = exponential(-0.5f * z);
    return y / (1 + root * root) * root * root;
}

INLINE float gelu_times_tail(float y, float a, float parameter) {
    (void)parameter;
    return times_density(y * mills_ratio(a), a);
}
INLINE float gelu_below(float a, float parameter) { /* q is the Mills ratio times the density, and -q' the density */
    (void)parameter;
    return times_density(mills_ratio(a) - a, a);
}
GATED(gelu, 16)

#define TWICE 1.5957691f /* 2 sqrt(2 / pi) */
#define CUBIC 0.044715f
INLINE float angle(float a) { return (a * a * CUBIC + 1) * a * TWICE; }
INLINE float gelu_tanh_times_tail(float y, float a, float parameter) {
    (void)parameter;
    return times_logistic_tail(y, angle(a));
}
INLINE float gelu_tanh_below(float a, float parameter) {
    float fall = (a * a * (3 * CUBIC * TWICE) + TWICE) / (1 + exponential(-angle(a)));
    return gelu_tanh_times_tail(1 - a * fall, a, parameter);
}
GATED(gelu_tanh, 16)

INLINE float rising_times_tail(float y, float a, float beta) { return times_logistic_tail(y, a * beta); }
INLINE float rising_below(float a, float beta) {
    float fall = beta / (1 + exponential(-a * beta));
    return rising_times_tail(1 - a * fall, a, beta);
}
GATED(rising, not_above(256 / parameter, 1e30f))

/* With a parameter below 0 the gate falls: y is minus what it would be at -x. */
INLINE float silu(float x, float parameter) {
    return copysignf(1, parameter) * rising(copysignf(1, parameter) * x, fabsf(parameter));
}
INLINE float silu_slope(float x, float parameter) {
    return rising_slope(copysignf(1, parameter) * x, fabsf(parameter));
}

INLINE float elu(float x, float parameter) { return x > 0 ? x : parameter * less_one(x > 0 ? 0 : x); }
INLINE float elu_slope(float y, float parameter) { return y > 0 ? 1 : y + parameter; }

INLINE float lrelu(float x, float parameter) { return x > 0 ? x : parameter * x; }
INLINE float lrelu_slope(float y, float parameter) { return y > 0 ? 1 : parameter; }

INLINE float sigmoid(float x, float parameter) {
    (void)parameter;
    return logistic(x);
}
INLINE float sigmoid_slope(float y, float parameter) {
    (void)parameter;
    return (1 - y) * y;
}

INLINE float softplus(float x, float parameter) {
    return (x > 0 ? x : 0) + logarithm(exponential(-fabsf(x) * parameter)) / parameter;
}
INLINE float softplus_slope(float y, float parameter) { return -less_one(-y * parameter); }

INLINE float hyperbolic(float x, float parameter) {
    (void)parameter;
    return hyperbolic_tangent(x);
}
INLINE float hyperbolic_slope(float y, float parameter) {
    (void)parameter;
    return 1 - y * y;
}

/* `count` numbers of `from`, beginning at an index, as a whole chunk of float32; and back. */
INLINE void read_chunk(const void *from, int64_t index, int64_t count, int narrow, float *to) {
    if (narrow)
        for (int64_t i = 0; i < count; i++) to[i] = get(from, index + i, 1);
    else
        memcpy(to, (const float *)from + index, (size_t)count * sizeof *to);
    for (int64_t i = count; i < CHUNK; i++) to[i] = 0;
}

INLINE void write_chunk(const float *from, void *to, int64_t index, int64_t count, int narrow) {
    if (narrow)
        for (int64_t i = 0; i < count; i++) put(to, index + i, from[i], 1);
    else
        memcpy((float *)to + index, from, (size_t)count * sizeof *from);
}

#define EACH(number, expression)                                                                                       \
    case number:                                                                                                       \
        for (int i = 0; i < CHUNK; i++) out[i] = expression;                                                           \
        break;

/* In bf16 a function has no more than 65,536 results: they are looked up, which takes a third of the time. The loops are not for
 * VERSIONS, since instructions that gather take longer than single loads. */
static void look_up(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct function *f = &op->function;
    const uint16_t *x = f->x, *results = f->results;
    uint16_t *y = f->y;
    (void)worker;
    for (int64_t i = start; i < stop; i++) y[i] = results[x[i]];
}

__attribute__((noinline)) static void look_up_slopes(const uint16_t *known, int64_t count, const float *slopes, float *to) {
    for (int64_t i = 0; i < count; i++) to[i] = slopes[known[i]];
}

/* y = f(x), where y may be x. */
INLINE void apply(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct function *f = &op->function;
    float parameter = (float)f->parameter, x[CHUNK], out[CHUNK];
    int narrow = (int)f->narrow;
    (void)worker;
    for (int64_t at = start; at < stop; at += CHUNK) {
        int64_t count = smaller(CHUNK, stop - at);
        read_chunk(f->x, at, count, narrow, x);
        switch (f->function) {
            EACH(ELU, elu(x[i], parameter))
            EACH(GELU, gelu(x[i], parameter))
            EACH(GELU_TANH, gelu_tanh(x[i], parameter))
            EACH(LRELU, lrelu(x[i], parameter))
            EACH(SIGMOID, sigmoid(x[i], parameter))
            EACH(SILU, silu(x[i], parameter))
            EACH(SOFTPLUS, softplus(x[i], parameter))
            EACH(TANH, hyperbolic(x[i], parameter))
        }
        write_chunk(out, f->y, at, count, narrow);
    }
}

VERSIONS(apply)

/* dx = dy f', where dx may be dy; `known` is x for a gate, else y. */
INLINE void differentiate(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct function *f = &op->function;
    float parameter = (float)f->parameter, v[CHUNK], dy[CHUNK], out[CHUNK];
    int narrow = (int)f->narrow;
    (void)worker;
    for (int64_t at = start; at < stop; at += CHUNK) {
        int64_t count = smaller(CHUNK, stop - at);
        read_chunk(f->dy, at, count, narrow, dy);
        if (f->slopes) {
            look_up_slopes((const uint16_t *)f->known + at, count, f->slopes, v);
            for (int64_t i = 0; i < count; i++) out[i] = dy[i] * v[i];
            write_chunk(out, f->dx, at, count, narrow);
            continue;
        }
        read_chunk(f->known, at, count, narrow, v);
        switch (f->function) {
            EACH(ELU, dy[i] * elu_slope(v[i], parameter))
            EACH(GELU, dy[i] * gelu_slope(v[i], parameter))
            EACH(GELU_TANH, dy[i] * gelu_tanh_slope(v[i], parameter))
            EACH(LRELU, dy[i] * lrelu_slope(v[i], parameter))
            EACH(SIGMOID, dy[i] * sigmoid_slope(v[i], parameter))
            EACH(SILU, dy[i] * silu_slope(v[i], parameter))
            EACH(SOFTPLUS, dy[i] * softplus_slope(v[i], parameter))
            EACH(TANH, dy[i] * hyperbolic_slope(v[i], parameter))
        }
        write_chunk(out, f->dx, at, count, narrow);
    }
}

VERSIONS(differentiate)

static void share_chunks(const struct machine *machine, const struct operation *op, work_t work) {
    int64_t size = op->function.size;
    share_out(machine, op, work, size, EXPENSIVE * size > ALONE ? CHUNK : size);
}

void run_function(const struct machine *machine, const struct operation *op) {
    share_chunks(machine, op, op->function.results ? look_up : best_apply());
}

void run_function_gradient(const struct machine *machine, const struct operation *op) {
    share_chunks(machine, op, best_differentiate());
}
