/* The registers of one kind of instructions, for loops that are compiled once for each: the file that includes this defines
 * BITS before, 256 for AVX2 or 512 for AVX-512, and ON if it needs more of the latter.
 *
 * ON         the target's attribute; INLINE_ON, for functions with arguments that are constants
 * WIDE       a register of WIDTH numbers of float32, which lie at any address but for STREAM, which writes past the caches
 * ALL, EACH  a number, or that at an address, in each place of a register
 */

#ifndef NACRE_REGISTERS_H
#define NACRE_REGISTERS_H

#include "helper.h"

#include <immintrin.h>

#if BITS == 256

#define ON __attribute__((target("avx2,fma")))
#define WIDE __m256
#define WIDTH 8
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define STREAM _mm256_stream_ps
#define ZERO _mm256_setzero_ps
#define ALL _mm256_set1_ps
#define ADD _mm256_add_ps
#define SUB _mm256_sub_ps
#define MUL _mm256_mul_ps
#define FMA _mm256_fmadd_ps
#define MAX _mm256_max_ps

#else

#ifndef ON
#define ON __attribute__((target("avx512f")))
#endif
#define WIDE __m512
#define WIDTH 16
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define STREAM _mm512_stream_ps
#define ZERO _mm512_setzero_ps
#define ALL _mm512_set1_ps
#define ADD _mm512_add_ps
#define SUB _mm512_sub_ps
#define MUL _mm512_mul_ps
#define FMA _mm512_fmadd_ps
#define MAX _mm512_max_ps

#endif

#define EACH(p) ALL(*(p)) /* GCC takes a load that broadcasts for one that may read any memory, and keeps no sums in registers */
/* A tile of a product has so many rows at most, each in two registers. */
#if BITS == 256
enum { HEIGHT = 6 };
#define ALL_HEIGHTS(do) do(1) do(2) do(3) do(4) do(5) do(6)
#else
enum { HEIGHT = 12 };
#define ALL_HEIGHTS(do) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12)
#endif

enum { IN_LINE = ALIGNMENT / 4 }; /* numbers in a line of the caches */
enum { LARGE = 1 << 22 };         /* bytes; larger arrays are written past the caches, which would not keep them */

#define INLINE_ON static inline __attribute__((always_inline)) ON

INLINE_ON float sum_of(WIDE numbers) {
#if BITS == 256
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(numbers), _mm256_extractf128_ps(numbers, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
    return _mm512_reduce_add_ps(numbers);
#endif
}

/* Whether one of the numbers is NaN. */
INLINE_ON int has_nan(WIDE one, WIDE other) {
#if BITS == 256
    return _mm256_movemask_ps(_mm256_cmp_ps(one, other, _CMP_UNORD_Q));
#else
    return _mm512_cmp_ps_mask(one, other, _CMP_UNORD_Q);
#endif
}

/* The numbers, with 0 for those that are not finite; *bad becomes 1 if there is one, and else stays. */
INLINE_ON WIDE only_finite(WIDE numbers, uint8_t *bad) {
    WIDE none = SUB(numbers, numbers);
#if BITS == 256
    WIDE kept = _mm256_cmp_ps(none, none, _CMP_ORD_Q);
    *bad |= _mm256_movemask_ps(kept) != 0xFF;
    return _mm256_and_ps(kept, numbers);
#else
    __mmask16 kept = _mm512_cmp_ps_mask(none, none, _CMP_ORD_Q);
    *bad |= kept != 0xFFFF;
    return _mm512_maskz_mov_ps(kept, numbers);
#endif
}

#endif
