/* What the files that need AVX-512 share: a register holds the same element of 16 rows, images or channels. */

#ifndef NACRE_AVX512_H
#define NACRE_AVX512_H

#include "helper.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define ON_AVX512 __attribute__((target("avx512f")))
#define INLINE_AVX512 static inline __attribute__((always_inline, target("avx512f"))) /* for arguments that are constants */

/* The same where products may be of bf16; what is of bf16 alone is used in bf16 alone. */
#define ON_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define INLINE_BF16 static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512bf16")))

/* A work_t that does a piece of work with a number that is a constant. */
#define WITH(on, variant, work, number)                                                                                \
    on static void variant(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {                   \
        work(op, start, stop, worker, number);                                                                         \
    }

enum { AHEAD = 256 };     /* numbers are fetched so far ahead: the processor does so by itself for few rows only */
enum { LARGE = 1 << 22 }; /* bytes; larger arrays are written past the caches, which would not keep them */

/* Columns become rows. */
INLINE_AVX512 void transpose(__m512i rows[LANES]) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    for (int round = 0; round < 4; round++) { /* four riffles of a deck of sixteen */
        __m512i next[LANES];
        for (int pair = 0; pair < 8; pair++) {
            next[2 * pair] = _mm512_permutex2var_epi32(rows[pair], low, rows[pair + 8]);
            next[2 * pair + 1] = _mm512_permutex2var_epi32(rows[pair], high, rows[pair + 8]);
        }
        for (int row = 0; row < LANES; row++) rows[row] = next[row];
    }
}

INLINE_AVX512 __mmask16 first(int64_t count) { return (__mmask16)(count >= LANES ? 0xFFFF : (1 << count) - 1); }

/* `count` rows of `length` numbers, `apart` from one another, become `length` registers; missing rows are 0. */
ON_AVX512 static inline void gather(const float *rows, int64_t apart, int64_t count, int64_t length, float *lanes) {
    for (int64_t at = 0; at < length; at += LANES) {
        __m512i block[LANES];
        __mmask16 mask = first(length - at);
        for (int row = 0; row < LANES; row++) {
            block[row] = row < count ? _mm512_maskz_loadu_epi32(mask, rows + row * apart + at) : _mm512_setzero_si512();
            if (row < count) _mm_prefetch((const char *)(rows + row * apart + at + AHEAD), _MM_HINT_T0);
        }
        transpose(block);
        for (int row = 0; row < LANES && at + row < length; row++)
            _mm512_store_si512(lanes + (at + row) * LANES, block[row]);
    }
}

/* The other way round. */
ON_AVX512 static inline void scatter(const float *lanes, float *rows, int64_t apart, int64_t count, int64_t length) {
    for (int64_t at = 0; at < length; at += LANES) {
        __m512i block[LANES];
        __mmask16 mask = first(length - at);
        for (int row = 0; row < LANES; row++)
            block[row] = at + row < length ? _mm512_load_si512(lanes + (at + row) * LANES) : _mm512_setzero_si512();
        transpose(block);
        for (int row = 0; row < LANES && row < count; row++)
            _mm512_mask_storeu_epi32(rows + row * apart + at, mask, block[row]);
    }
}

#endif
#endif
