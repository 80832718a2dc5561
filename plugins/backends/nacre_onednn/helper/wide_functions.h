/* Exponentials, and the functions made of them, as functions.h has them, for the registers of registers.h. */

#ifndef NACRE_WIDE_FUNCTIONS_H
#define NACRE_WIDE_FUNCTIONS_H

#include "functions.h"
#include "registers.h"

/* p 2^n for |p| below 2 and whole n from -190 to 0, where only the result may be denormal. */
INLINE_ON WIDE wide_scaled_down(WIDE p, WIDE n) {
#if BITS == 256
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(64 + 127));
    return MUL(MUL(p, (WIDE)_mm256_slli_epi32(exponent, 23)), ALL(0x1p-64f));
#else
    return _mm512_scalef_ps(p, n);
#endif
}

INLINE_ON WIDE wide_near_one(WIDE r) { RETURN_NEAR_ONE(WIDE, r); }

/* exp(x - n log 2) - 1 for the whole number n that is nearest to x / log 2, for x from -130 to 1. */
INLINE_ON WIDE wide_reduced(WIDE x, WIDE *n) {
    *n = SUB(FMA(x, ALL(PER_LOG2), ALL(ROUNDING)), ALL(ROUNDING));
    return wide_near_one(WITHOUT(x, *n));
}

/* -|x|. */
INLINE_ON WIDE negative(WIDE x) {
#if BITS == 256
    return _mm256_or_ps(x, ALL(-0.0f));
#else
    return (WIDE)_mm512_or_epi32((__m512i)x, _mm512_set1_epi32(INT32_MIN));
#endif
}

/* y with the sign of x. */
INLINE_ON WIDE with_sign(WIDE y, WIDE x) {
#if BITS == 256
    return _mm256_or_ps(_mm256_andnot_ps(ALL(-0.0f), y), _mm256_and_ps(ALL(-0.0f), x));
#else
    return (WIDE)_mm512_ternarylogic_epi32(_mm512_set1_epi32(INT32_MIN), (__m512i)x, (__m512i)y, 0xCA);
#endif
}

/* 1 where x is 0 or above, or with `strictly` only above, and `other` elsewhere, where x is NaN too. */
INLINE_ON WIDE one_where_positive(WIDE x, WIDE other, const int strictly) {
#if BITS == 256
    WIDE there = strictly ? _mm256_cmp_ps(x, ZERO(), _CMP_GT_OQ) : _mm256_cmp_ps(x, ZERO(), _CMP_GE_OQ);
    return _mm256_blendv_ps(other, ALL(1), there);
#else
    __mmask16 there = strictly ? _mm512_cmp_ps_mask(x, ZERO(), _CMP_GT_OQ) : _mm512_cmp_ps_mask(x, ZERO(), _CMP_GE_OQ);
    return _mm512_mask_mov_ps(other, there, ALL(1));
#endif
}

INLINE_ON WIDE wide_logistic(WIDE x) {
    WIDE n, p = ALL(1) + wide_reduced(MAX(ALL(-110), negative(x)), &n); /* of two MAX takes the second, if one is NaN */
    WIDE t = wide_scaled_down(p, n);
    return one_where_positive(x, t, 0) / (ALL(1) + t);
}

INLINE_ON WIDE wide_tanh(WIDE x) {
    WIDE n, p = wide_reduced(MAX(ALL(-30), negative(x + x)), &n), scale = wide_scaled_down(ALL(1), n);
    WIDE less = p * scale + (scale - ALL(1)); /* exp(-2 |x|) - 1 */
    return with_sign(less / (ALL(2) + less), x);
}

#endif
