/* Exponentials, and the functions made of them, exact over the whole range of floats; loops over them become vectors. */

#ifndef NACRE_FUNCTIONS_H
#define NACRE_FUNCTIONS_H

#include <math.h>
#include <string.h>

#include "helper.h"

INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A sum, in the same order for every kind of instructions. */
INLINE double sum_in_float64(const float *numbers, int64_t count) {
    double sums[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int lane = 0; lane < LANES; lane++) sums[lane] += numbers[i + lane];
    for (; i < count; i++) sum += numbers[i];
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    return sum;
}

/* Formulas of numbers, which wide_functions.h takes for registers of them. */

/* 1 / log 2; and what makes a sum whole. */
#define PER_LOG2 0x1.715476p0f
#define ROUNDING 0x1.8p23f

/* x - n log 2. */
#define WITHOUT(x, n) ((x) - (n) * 0x1.62e4p-1f - (n) * 0x1.7f7d1cp-20f)

/* exp(r) - 1 for |r| <= log(2) / 2, as the end of a function. */
#define RETURN_NEAR_ONE(type, r)                                                                                       \
    type z = r * r, p = 1.9875691500e-4f * r + 1.3981999507e-3f;                                                       \
    p = p * z + (8.3334519073e-3f * r + 4.1665795894e-2f);                                                             \
    p = p * z + (1.6666665459e-1f * r + 5.0000001201e-1f);                                                             \
    return p * z + r

/* The whole number n that is nearest to x / log 2, for x from -130 to 1; gives its bits, too. */
INLINE float whole_of(float x, uint32_t *n) {
    const float rounding = ROUNDING;
    float whole = x * PER_LOG2 + rounding;
    *n = bits_of(whole) - bits_of(rounding);
    return whole - rounding;
}

INLINE float near_one(float r) { RETURN_NEAR_ONE(float, r); }

/* exp(x - n log 2) - 1, and the bits of n. */
INLINE float reduced(float x, uint32_t *n) {
    float whole = whole_of(x, n);
    return near_one(WITHOUT(x, whole));
}

/* 2^n for n from -126 to 127. */
INLINE float power_of_two(uint32_t n) { return of_bits((n + 127) << 23); }

INLINE float not_below(float x, float low) { return x < low ? low : x; } /* NaN stays, here and below */
INLINE float not_above(float x, float high) { return x > high ? high : x; }

/* p 2^n for |p| below 2 and n from -190 to 0, where only the result may be denormal. */
INLINE float scaled_down(float p, uint32_t n) { return p * power_of_two(n + 64) * 0x1p-64f; }

/* exp(x) for x <= 0, denormal results included. */
INLINE float exponential(float x) {
    uint32_t n;
    float p = 1 + reduced(not_below(x, -110), &n);
    return scaled_down(p, n);
}

/* exp(x) - 1 for x <= 0. */
INLINE float less_one(float x) {
    uint32_t n;
    float p = reduced(not_below(x, -30), &n), scale = power_of_two(n);
    return p * scale + (scale - 1);
}

INLINE float logistic(float x) {
    float t = exponential(-fabsf(x));
    return (x >= 0 ? 1 : t) / (1 + t);
}

INLINE float hyperbolic_tangent(float x) {
    float less = less_one(-2 * fabsf(x));
    return copysignf(-less / (2 + less), x);
}

#endif
