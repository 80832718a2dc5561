/* Rows of numbers as registers that hold the same number of as many rows, and back. */

#ifndef NACRE_LANES_H
#define NACRE_LANES_H

#include "registers.h"

enum { AHEAD = 256 }; /* numbers are fetched so far ahead: the processor does so by itself for few rows only */

#if BITS == 256

INLINE_ON __m256i mask_of(int64_t count) {
    static const int32_t mask[2 * WIDTH] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i_u *)(mask + WIDTH - count));
}

INLINE_ON WIDE load_first(const float *p, int64_t count) {
    return count < WIDTH ? _mm256_maskload_ps(p, mask_of(count)) : LOAD(p);
}

INLINE_ON void store_first(float *p, int64_t count, WIDE numbers) { /* a mask takes long, also where it is full */
    if (count < WIDTH)
        _mm256_maskstore_ps(p, mask_of(count), numbers);
    else
        STORE(p, numbers);
}

/* Columns become rows. */
INLINE_ON void transpose(WIDE rows[WIDTH]) {
    WIDE pairs[WIDTH];
    for (int half = 0; half < WIDTH; half += 4)
        for (int row = 0; row < 2; row++) {
            WIDE one = rows[half + row], other = rows[half + row + 2];
            pairs[half + 2 * row] = _mm256_unpacklo_ps(one, other), pairs[half + 2 * row + 1] = _mm256_unpackhi_ps(one, other);
        }
    WIDE fours[WIDTH];
    for (int half = 0; half < WIDTH; half += 4)
        for (int column = 0; column < 2; column++) {
            WIDE even = pairs[half + column], odd = pairs[half + column + 2];
            fours[half + 2 * column] = _mm256_unpacklo_ps(even, odd), fours[half + 2 * column + 1] = _mm256_unpackhi_ps(even, odd);
        }
    for (int column = 0; column < 4; column++) {
        rows[column] = _mm256_permute2f128_ps(fours[column], fours[column + 4], 0x20);
        rows[column + 4] = _mm256_permute2f128_ps(fours[column], fours[column + 4], 0x31);
    }
}

#else

INLINE_ON __mmask16 mask_of(int64_t count) { return (__mmask16)(count >= WIDTH ? 0xFFFF : (1 << count) - 1); }

INLINE_ON WIDE load_first(const float *p, int64_t count) { return _mm512_maskz_loadu_ps(mask_of(count), p); }

INLINE_ON void store_first(float *p, int64_t count, WIDE numbers) { /* a mask takes long, also where it is full */
    if (count < WIDTH)
        _mm512_mask_storeu_ps(p, mask_of(count), numbers);
    else
        STORE(p, numbers);
}

/* Columns become rows. */
INLINE_ON void transpose(WIDE rows[WIDTH]) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    for (int round = 0; round < 4; round++) { /* four riffles of a deck of sixteen */
        WIDE next[WIDTH];
        for (int pair = 0; pair < 8; pair++) {
            next[2 * pair] = _mm512_permutex2var_ps(rows[pair], low, rows[pair + 8]);
            next[2 * pair + 1] = _mm512_permutex2var_ps(rows[pair], high, rows[pair + 8]);
        }
        for (int row = 0; row < WIDTH; row++) rows[row] = next[row];
    }
}

#endif

/* `count` rows of `length` numbers, so many bytes apart from one another, become `length` registers; missing rows are 0. */
ON static inline void gather(const void *rows, int64_t apart, int64_t count, int64_t length, float *lanes) {
    for (int64_t at = 0; at < length; at += WIDTH) {
        WIDE block[WIDTH];
        for (int row = 0; row < WIDTH; row++) {
            const float *from = (const float *)((const char *)rows + row * apart) + at;
            block[row] = row < count ? load_first(from, length - at) : ZERO();
            if (row < count) _mm_prefetch((const char *)(from + AHEAD), _MM_HINT_T0);
        }
        transpose(block);
        for (int row = 0; row < WIDTH && at + row < length; row++) STORE(lanes + (at + row) * WIDTH, block[row]);
    }
}

/* The other way round; rows are so many numbers apart. */
ON static inline void scatter(const float *lanes, float *rows, int64_t apart, int64_t count, int64_t length) {
    for (int64_t at = 0; at < length; at += WIDTH) {
        WIDE block[WIDTH];
        for (int row = 0; row < WIDTH; row++) block[row] = at + row < length ? LOAD(lanes + (at + row) * WIDTH) : ZERO();
        transpose(block);
        for (int row = 0; row < WIDTH && row < count; row++) store_first(rows + row * apart + at, length - at, block[row]);
    }
}

/* Adds up rows of numbers, of which there are `columns`: written, or added. */
ON static inline void add_up_rows(const float *rows, int64_t apart, int64_t count, float *to, int64_t columns, int64_t adds) {
    for (int64_t column = 0; column < columns; column += WIDTH) {
        const int64_t left = columns - column;
        WIDE sums[4] = {adds ? load_first(to + column, left) : ZERO(), ZERO(), ZERO(), ZERO()};
        for (int64_t row = 0; row < count; row++) sums[row % 4] = ADD(sums[row % 4], load_first(rows + row * apart + column, left));
        store_first(to + column, left, ADD(ADD(sums[0], sums[1]), ADD(sums[2], sums[3])));
    }
}

#endif
