/* Attention in blocks of 64 queries and 64 keys: scores live in two such blocks of each thread, and are never stored.
 *
 * Compiled once for each kind of processor, with -DKIND=... and its options; dispatch.c chooses. One thread works on one
 * head of one image from beginning to end, so that the bits do not depend on the number of threads. After Dao et al.,
 * "FlashAttention", 2022.
 */

#include <math.h>
#include <string.h>

#include "flash.h"

#if defined(__AVX512F__)
enum { LANES = 16, WIDE = 4 };
#elif defined(__AVX__)
enum { LANES = 8, WIDE = 2 };
#else
enum { LANES = 4, WIDE = 2 };
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec value) { *(vec *)to = value; }

/* Products of matrices. All rows of b and c begin at a multiple of 16 numbers, and have as many. */

/* `high` rows and `wide` vectors of c = a b, or c + a b; a's element (i, l) is a[i * down + l * across]. */
INLINE void tile(const int high, const int wide, int64_t depth, const float *a, int64_t down, int64_t across,
                 const float *b, int64_t b_row, float *c, int64_t c_row, const int add) {
    vec sums[12][4];
#pragma GCC unroll 12
    for (int i = 0; i < high; i++)
#pragma GCC unroll 4
        for (int v = 0; v < wide; v++) sums[i][v] = add ? load(c + i * c_row + v * LANES) : (vec){0};
    for (int64_t l = 0; l < depth; l++) {
        vec row[4];
#pragma GCC unroll 4
        for (int v = 0; v < wide; v++) row[v] = load(b + l * b_row + v * LANES);
#pragma GCC unroll 12
        for (int i = 0; i < high; i++)
#pragma GCC unroll 4
            for (int v = 0; v < wide; v++) sums[i][v] += a[i * down + l * across] * row[v];
    }
#pragma GCC unroll 12
    for (int i = 0; i < high; i++)
#pragma GCC unroll 4
        for (int v = 0; v < wide; v++) store(c + i * c_row + v * LANES, sums[i][v]);
}

/* `wide` vectors of all rows; `high` rows at a time, as many as there are registers for. */
INLINE void strip(const int high, const int wide, int64_t rows, int64_t depth, const float *a, int64_t down,
                  int64_t across, const float *b, int64_t b_row, float *c, int64_t c_row, const int add) {
    int64_t i = 0;
    for (; i + high <= rows; i += high)
        tile(high, wide, depth, a + i * down, down, across, b, b_row, c + i * c_row, c_row, add);
    for (; i + 4 <= rows; i += 4)
        tile(4, wide, depth, a + i * down, down, across, b, b_row, c + i * c_row, c_row, add);
    for (; i < rows; i++) tile(1, wide, depth, a + i * down, down, across, b, b_row, c + i * c_row, c_row, add);
}

INLINE void multiply(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t down, int64_t across,
                     const float *b, int64_t b_row, float *c, int64_t c_row, const int add) {
    int64_t j = 0;
    for (; j + WIDE * LANES <= columns; j += WIDE * LANES)
        strip(6, WIDE, rows, depth, a, down, across, b + j, b_row, c + j, c_row, add);
#if defined(__AVX512F__)
    if (columns - j == 3 * LANES) strip(8, 3, rows, depth, a, down, across, b + j, b_row, c + j, c_row, add);
    if (columns - j == 2 * LANES) strip(12, 2, rows, depth, a, down, across, b + j, b_row, c + j, c_row, add);
    if (columns - j == LANES) strip(12, 1, rows, depth, a, down, across, b + j, b_row, c + j, c_row, add);
#endif
}

static void product(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t down, int64_t across,
                    const float *b, int64_t b_row, float *c, int64_t c_row) {
    multiply(rows, columns, depth, a, down, across, b, b_row, c, c_row, 0);
}

static void add_product(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t down, int64_t across,
                        const float *b, int64_t b_row, float *c, int64_t c_row) {
    multiply(rows, columns, depth, a, down, across, b, b_row, c, c_row, 1);
}

/* Numbers one by one */

/* exp(x) for x <= 0, with 0 for what is below 2^-125; a NaN stays one. */
INLINE float exponential(float x) {
    const float rounding = 0x1.8p23f; /* a sum with it is whole */
    float low = x < -86 ? -86 : x, whole = low * 0x1.715476p0f + rounding, p = 1.9875691500e-4f;
    uint32_t bits;
    memcpy(&bits, &whole, sizeof bits);
    bits = (bits - 0x4B400000u + 127) << 23;
    whole -= rounding;
    float r = low - whole * 0x1.62e4p-1f - whole * 0x1.7f7d1cp-20f, power;
    memcpy(&power, &bits, sizeof power);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r * r + r + 1) * power;
    return x < -86 ? 0 : p;
}

INLINE float larger(float x, float y) { return x > y ? x : y; }

/* The largest number of a row of a block, and of `from`; a NaN is passed over. */
INLINE float largest(const float *x, float from) {
    float most[16];
    for (int lane = 0; lane < 16; lane++) most[lane] = from;
    for (int j = 0; j < BLOCK; j += 16)
        for (int lane = 0; lane < 16; lane++) most[lane] = larger(x[j + lane], most[lane]);
#pragma GCC unroll 4
    for (int half = 8; half; half /= 2) /* as a tree, which takes a quarter of the time */
        for (int lane = 0; lane < half; lane++) most[lane] = larger(most[lane + half], most[lane]);
    return most[0];
}

INLINE float total_of(float *sums) {
#pragma GCC unroll 4
    for (int half = 8; half; half /= 2)
        for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
    return sums[0];
}

INLINE float total(const float *x) {
    float sums[16] = {0};
    for (int j = 0; j < BLOCK; j += 16)
        for (int lane = 0; lane < 16; lane++) sums[lane] += x[j + lane];
    return total_of(sums);
}

INLINE float dot(const float *x, const float *y, int64_t size) {
    float sums[16] = {0}, sum = 0;
    int64_t l = 0;
    for (; l + 16 <= size; l += 16)
        for (int lane = 0; lane < 16; lane++) sums[lane] += x[l + lane] * y[l + lane];
    for (; l < size; l++) sum += x[l] * y[l];
    return sum + total_of(sums);
}

/* What a head reads and writes */

/* Copies `count` rows of a head, times `scale`, into rows of `padded` numbers; turns them by the angles of their positions;
 * rows from `count` to `whole` are 0. */
static void read_rows(const struct flash *f, const float *from, int64_t apart, int64_t first, int64_t count, int64_t whole,
                      int turned, float scale, float *to) {
    int64_t size = f->size, padded = f->padded, half = size / 2;
    for (int64_t i = 0; i < count; i++) {
        const float *x = from + i * apart;
        float *y = to + i * padded;
        if (turned && f->cosines) {
            const float *c = f->cosines + (first + i) * half, *s = f->sines + (first + i) * half;
            for (int64_t l = 0; l < half; l++) {
                float one = x[l] * scale, other = x[half + l] * scale;
                y[l] = one * c[l] - other * s[l];
                y[half + l] = other * c[l] + one * s[l];
            }
        } else {
            for (int64_t l = 0; l < size; l++) y[l] = x[l] * scale;
        }
        for (int64_t l = size; l < padded; l++) y[l] = 0;
    }
    memset(to + count * padded, 0, (size_t)((whole - count) * padded) * sizeof *to);
}

/* The other way: rows times `scale`, turned back. */
static void write_rows(const struct flash *f, const float *from, int64_t first, int64_t count, int turned, float scale,
                       float *to, int64_t apart) {
    int64_t size = f->size, padded = f->padded, half = size / 2;
    for (int64_t i = 0; i < count; i++) {
        const float *x = from + i * padded;
        float *y = to + i * apart;
        if (turned && f->cosines) {
            const float *c = f->cosines + (first + i) * half, *s = f->sines + (first + i) * half;
            for (int64_t l = 0; l < half; l++) {
                float one = x[l] * scale, other = x[half + l] * scale;
                y[l] = one * c[l] + other * s[l];
                y[half + l] = other * c[l] - one * s[l];
            }
        } else {
            for (int64_t l = 0; l < size; l++) y[l] = x[l] * scale;
        }
    }
}

/* A block of 64 rows of `padded` numbers becomes `padded` rows of 64. */
static void turn(const float *restrict from, int64_t padded, float *restrict to) {
    for (int64_t l = 0; l < padded; l += 16)
        for (int64_t i = 0; i < BLOCK; i += 16)
            for (int one = 0; one < 16; one++)
                for (int other = 0; other < 16; other++)
                    to[(l + one) * BLOCK + i + other] = from[(i + other) * padded + l + one];
}

INLINE int is_open(const struct flash *f, int64_t place) {
    switch (f->mask_type) {
    case MASK_FLOAT32: return ((const float *)f->mask)[place] != 0;
    case MASK_INT32: return ((const int32_t *)f->mask)[place] != 0;
    case MASK_INT64: return ((const int64_t *)f->mask)[place] != 0;
    default: return ((const uint8_t *)f->mask)[place] != 0;
    }
}

/* Scores that are not looked at become -inf: behind the last key, later ones, and those of the mask. */
static void shut(const struct flash *f, int64_t image, int64_t row, int64_t key, float *scores) {
    int64_t keys = f->keys - key;
    for (int64_t i = 0; i < BLOCK; i++) {
        int64_t open = f->causal && row + i - key + 1 < keys ? row + i - key + 1 : keys;
        for (int64_t j = open < 0 ? 0 : open; j < BLOCK; j++) scores[i * BLOCK + j] = -INFINITY;
        if (f->mask && row + i < f->rows)
            for (int64_t j = 0; j < BLOCK && j < keys; j++)
                if (!is_open(f, image * f->mask_image + (row + i) * f->mask_row + key + j))
                    scores[i * BLOCK + j] = -INFINITY;
    }
}

/* Whether all scores of a block are looked at. */
INLINE int is_whole(const struct flash *f, int64_t row, int64_t key) {
    return !f->mask && key + BLOCK <= f->keys && !(f->causal && key + BLOCK - 1 > row);
}

INLINE int64_t blocks(int64_t count) { return (count + BLOCK - 1) / BLOCK; }

/* The blocks of keys that a block of queries looks at. */
INLINE int64_t seen_blocks(const struct flash *f, int64_t block) {
    int64_t all = blocks(f->keys);
    return f->causal && block + 1 < all ? block + 1 : all;
}

static void head_forward(const struct flash *f, int64_t image, int64_t head, float *room) {
    int64_t padded = f->padded, area = BLOCK * padded, count = blocks(f->keys);
    float *turned = room, *v = turned + count * area, *q = v + count * area, *y = q + area;
    float *scores = y + area, *most = scores + BLOCK * BLOCK, *sum = most + BLOCK;
    for (int64_t block = 0; block < count; block++) {
        int64_t key = block * BLOCK, some = f->keys - key < BLOCK ? f->keys - key : BLOCK;
        read_rows(f, f->k + image * f->k_image + head * f->size + key * f->k_row, f->k_row, key, some, BLOCK, 1, 1, q);
        turn(q, padded, turned + block * area);
        read_rows(f, f->v + image * f->v_image + head * f->size + key * f->v_row, f->v_row, key, some, BLOCK, 0, 1,
                  v + block * area);
    }
    for (int64_t block = 0; block < blocks(f->rows); block++) {
        int64_t row = block * BLOCK, some = f->rows - row < BLOCK ? f->rows - row : BLOCK;
        read_rows(f, f->q + image * f->q_image + head * f->size + row * f->q_row, f->q_row, row, some, BLOCK, 1,
                  (float)f->scale, q);
        memset(y, 0, (size_t)area * sizeof *y);
        for (int64_t i = 0; i < BLOCK; i++) most[i] = -INFINITY, sum[i] = 0;
        for (int64_t one = 0; one < seen_blocks(f, block); one++) {
            product(BLOCK, BLOCK, padded, q, padded, 1, turned + one * area, BLOCK, scores, BLOCK);
            if (!is_whole(f, row, one * BLOCK)) shut(f, image, row, one * BLOCK, scores);
            for (int64_t i = 0; i < BLOCK; i++) {
                float *score = scores + i * BLOCK, before = most[i], now = largest(score, before);
                float base = now == -INFINITY ? 0 : now, kept = exponential(before - base);
                for (int j = 0; j < BLOCK; j++) score[j] = exponential(score[j] - base);
                most[i] = now;
                sum[i] = sum[i] * kept + total(score);
                if (kept != 1)
                    for (int64_t l = 0; l < padded; l++) y[i * padded + l] *= kept;
            }
            add_product(BLOCK, padded, BLOCK, scores, BLOCK, 1, v + one * area, padded, y, padded);
        }
        for (int64_t i = 0; i < some; i++) {
            float by = sum[i] == 0 ? 0 : 1 / sum[i];
            for (int64_t l = 0; l < padded; l++) y[i * padded + l] *= by;
            if (f->levels)
                f->levels[(image * f->heads + head) * f->rows + row + i] = sum[i] == 0 ? INFINITY : most[i] + logf(sum[i]);
        }
        write_rows(f, y, row, some, 0, 1, f->y + (image * f->rows + row) * f->heads * f->size + head * f->size,
                   f->heads * f->size);
    }
}

static void head_backward(const struct flash *f, int64_t image, int64_t head, float *room) {
    int64_t padded = f->padded, area = BLOCK * padded, count = blocks(f->rows), wide = f->heads * f->size;
    float *q = room, *dy = q + count * area, *dq = dy + count * area;
    float *k = dq + count * area, *v = k + area, *k_turned = v + area, *v_turned = k_turned + area;
    float *dk = v_turned + area, *dv = dk + area, *scores = dv + area, *slopes = scores + BLOCK * BLOCK;
    float *level = slopes + BLOCK * BLOCK, *mean = level + count * BLOCK;
    int64_t place = image * f->rows * wide + head * f->size;
    read_rows(f, f->q + image * f->q_image + head * f->size, f->q_row, 0, f->rows, count * BLOCK, 1, (float)f->scale, q);
    read_rows(f, f->dy + place, wide, 0, f->rows, count * BLOCK, 0, 1, dy);
    memset(dq, 0, (size_t)(count * area) * sizeof *dq);
    for (int64_t i = 0; i < count * BLOCK; i++) {
        mean[i] = i < f->rows ? dot(f->y + place + i * wide, f->dy + place + i * wide, f->size) : 0;
        level[i] = i < f->rows ? f->levels[(image * f->heads + head) * f->rows + i] : INFINITY;
    }
    for (int64_t one = 0; one < blocks(f->keys); one++) {
        int64_t key = one * BLOCK, some = f->keys - key < BLOCK ? f->keys - key : BLOCK;
        read_rows(f, f->k + image * f->k_image + head * f->size + key * f->k_row, f->k_row, key, some, BLOCK, 1, 1, k);
        read_rows(f, f->v + image * f->v_image + head * f->size + key * f->v_row, f->v_row, key, some, BLOCK, 0, 1, v);
        turn(k, padded, k_turned);
        turn(v, padded, v_turned);
        memset(dk, 0, (size_t)area * sizeof *dk);
        memset(dv, 0, (size_t)area * sizeof *dv);
        for (int64_t block = f->causal ? one : 0; block < count; block++) {
            int64_t row = block * BLOCK;
            product(BLOCK, BLOCK, padded, q + block * area, padded, 1, k_turned, BLOCK, scores, BLOCK);
            if (!is_whole(f, row, key)) shut(f, image, row, key, scores);
            product(BLOCK, BLOCK, padded, dy + block * area, padded, 1, v_turned, BLOCK, slopes, BLOCK);
            for (int64_t i = 0; i < BLOCK; i++) {
                float *p = scores + i * BLOCK, *s = slopes + i * BLOCK, less = level[row + i], by = mean[row + i];
                for (int j = 0; j < BLOCK; j++) {
                    p[j] = exponential(p[j] - less);
                    s[j] = p[j] * (s[j] - by);
                }
            }
            add_product(BLOCK, padded, BLOCK, scores, 1, BLOCK, dy + block * area, padded, dv, padded);
            add_product(BLOCK, padded, BLOCK, slopes, 1, BLOCK, q + block * area, padded, dk, padded);
            add_product(BLOCK, padded, BLOCK, slopes, BLOCK, 1, k, padded, dq + block * area, padded);
        }
        if (f->dk)
            write_rows(f, dk, key, some, 1, 1, f->dk + image * f->k_image + head * f->size + key * f->k_row, f->k_row);
        if (f->dv)
            write_rows(f, dv, key, some, 0, 1, f->dv + image * f->v_image + head * f->size + key * f->v_row, f->v_row);
    }
    if (f->dq)
        write_rows(f, dq, 0, f->rows, 1, (float)f->scale, f->dq + image * f->q_image + head * f->size, f->q_row);
}

#define NAMED(kind) flash_##kind
#define NAME(kind) NAMED(kind)

/* Works on the heads from `start` to `stop`, counted over all images. */
void NAME(KIND)(const struct flash *f, int64_t start, int64_t stop, int64_t worker) {
    if (f->cleared && start == 0) memset(f->cleared, 0, (size_t)f->bytes);
    for (int64_t piece = start; piece < stop; piece++)
        (f->dy ? head_backward : head_forward)(f, piece / f->heads, piece % f->heads, f->scratch + worker * f->room);
}
