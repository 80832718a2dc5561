/* Neurons and their slopes, exact over the whole range of floats: docs/numerics.md has the bounds. The same bits on every
 * processor; loops over them become vectors.
 *
 * The formulas are those of nacre_layers/neurons.py and mills_ratio.py. Slopes are functions of y, or of x where a neuron
 * says `needs_input` there. Their parameters are the neuron's fields.
 */

#ifndef NACRE_NEURONS_H
#define NACRE_NEURONS_H

#include "functions.h"

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

INLINE float sigmoid_slope(float y) {
    return (1 - y) * y;
}

INLINE float softplus(float x, float parameter) {
    return (x > 0 ? x : 0) + logarithm(exponential(-fabsf(x) * parameter)) / parameter;
}
INLINE float softplus_slope(float y, float parameter) { return -less_one(-y * parameter); }

INLINE float hyperbolic_slope(float y) {
    return 1 - y * y;
}

INLINE float scaled_hyperbolic(float x, float outer, float inner) { return hyperbolic_tangent(x * inner) * outer; }
INLINE float scaled_hyperbolic_slope(float y, float outer, float inner) {
    return y * y * -(inner / outer) + inner * outer;
}

#define SELU_SCALE 1.0507009873554805f
#define SELU_BELOW 1.7580993408473766f /* scale alpha */
INLINE float selu(float x) { return x > 0 ? x * SELU_SCALE : less_one(x > 0 ? 0 : x) * SELU_BELOW; }
INLINE float selu_slope(float y) { return y > 0 ? SELU_SCALE : y + SELU_BELOW; }

/* exp(x) for any x: 2^n in two steps, since n may be up to 128 or denormal. */
INLINE float exponential_of_any(float x) {
    uint32_t n;
    float p = 1 + reduced(not_above(not_below(x, -110), 89), &n);
    uint32_t half = (n + 256) / 2 - 128;
    return p * power_of_two(half) * power_of_two(n - half);
}

INLINE float hardswish(float x) { return not_below(x, -3) * (not_above(not_below(x + 3, 0), 6) / 6); }
INLINE float hardswish_slope(float x) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6; }

/* x times root^2 over / under; with t = exp(-|x|). */
struct mish { float root, over, under, bend, t; };
INLINE struct mish mish_parts(float x) {
    float root = exponential(-0.5f * fabsf(x)), t = root * root, bend = x >= 0 ? t * t : 1;
    return (struct mish){x >= 0 ? 1 : root, (x >= 0 ? t : 1) + t + 1, (t + 1) * (t + 1) + bend, bend, t};
}
#define MISH_FAR 256.0f /* from there on root is 0 or t, and x may be infinite */
INLINE float mish(float x) {
    struct mish p = mish_parts(x);
    return not_below(x, -MISH_FAR) * p.root * p.over / p.under * p.root;
}
INLINE float mish_slope(float x) { /* root^2 (over / under + 4 x bend (1 + t) / under^2) */
    struct mish p = mish_parts(x);
    float near = not_above(not_below(x, -MISH_FAR), MISH_FAR);
    return (near * (p.t + 1) * p.bend * 4 / p.under + p.over) / p.under * p.root * p.root;
}

#endif
