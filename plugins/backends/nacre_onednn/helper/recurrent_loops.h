/* The loops of recurrent layers, see recurrent.c, for the instructions of registers.h, which is included before. */

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* products and sums in one */
#endif

#include "lanes.h"
#include "narrow.h"
#include "product.h"
#include "recurrent.h"
#include "wide_functions.h"

enum { DEPTH = PRODUCT_DEPTH, TOGETHER = PRODUCT_TOGETHER, GROUP = TOGETHER * HEIGHT, PANEL = 2 * WIDTH };

#define number float
#define NARROW 0
#define PRODUCT(sum, one, other) FMA(one, other, sum)
#define NAME(x) x##_float32
#if BITS == 256
#define ON_STEPS ON
#else
#define ON_STEPS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#endif
#include "recurrent_steps.h"
#undef number
#undef NARROW
#undef PRODUCT
#undef NAME

#define number uint16_t
#define NARROW 1
#define NAME(x) x##_bf16
#if BITS == 256
#define LOW(x) ((__m256)_mm256_slli_epi32((__m256i)(x), 16))
#define HIGH(x) ((__m256)_mm256_and_si256((__m256i)(x), _mm256_set1_epi32(-65536)))
#define PRODUCT(sum, one, other) _mm256_fmadd_ps(HIGH(one), HIGH(other), _mm256_fmadd_ps(LOW(one), LOW(other), sum))
#else
#undef ON_STEPS
#define ON_STEPS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))
#define PRODUCT(sum, one, other) _mm512_dpbf16_ps(sum, (__m512bh)(one), (__m512bh)(other))
#endif
#include "recurrent_steps.h"

#define LOOPS {PANEL, {lay_float32, lay_bf16}, {forward_float32, forward_bf16}, {backward_float32, backward_bf16}}
