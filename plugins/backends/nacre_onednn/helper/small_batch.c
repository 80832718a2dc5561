/* Inner products of few images, in float32 or in bf16. Reading the weights takes most of their time, so these are fetched
 * some rows before their turn, and all else stays in the first cache in the order in which it is read: memory is never
 * waited for, nor idle while products are computed. oneDNN's products take up to twice as long. Needs AVX-512, for bf16 also
 * avx512_bf16.
 *
 * Images are counted by eights; where some are missing, there are zeros.
 */

#include "avx512.h"

#if defined(__x86_64__)

enum { EIGHT = SMALL_BATCH_IMAGES, BLOCK = SMALL_BATCH_FEATURES, LINE = ALIGNMENT, FAST = 1 << 15 };
enum { ROWS = 8, BEFORE = 8, NARROW_ROWS = 16, WIDE_ROWS = 8 };

struct sizes {
    int64_t images, outputs, features;
    int64_t padded;        /* images, with those that are missing */
    int64_t size, lines;   /* bytes of a number, registers that hold a row of x */
    int64_t tops, blocks;  /* rows of weights that go together, one by one or in pairs; blocks of 32 features */
};

static struct sizes product(const struct small_batch *b) {
    const int64_t size = b->narrow ? 2 : 4, step = LINE / size;
    return (struct sizes){
        .images = b->images, .outputs = b->outputs, .features = b->features,
        .padded = pieces_of(b->images, EIGHT) * EIGHT, .size = size, .lines = pieces_of(b->features, step),
        .tops = b->narrow ? pieces_of(b->outputs, 2) : b->outputs, .blocks = pieces_of(b->features, BLOCK),
    };
}

/* The sum and 16 products, or in bf16 32, which lie in pairs. */
INLINE_BF16 __m512 add(__m512 sum, __m512i one, __m512i other, const int narrow) {
    return narrow ? _mm512_dpbf16_ps(sum, (__m512bh)one, (__m512bh)other)
                  : _mm512_fmadd_ps((__m512)one, (__m512)other, sum);
}

/* A register of numbers, of which `left` are there; the others are 0. */
INLINE_BF16 __m512i read(const void *from, int64_t left, const int narrow) {
    if (narrow) return _mm512_maskz_loadu_epi16(left >= BLOCK ? ~0u : (1u << left) - 1, from);
    return _mm512_maskz_loadu_epi32(left > 0 ? mask_of(left) : 0, from);
}

/* Sixteen numbers become bf16. */
INLINE_BF16 void write_narrow(uint16_t *to, __m512 numbers, int64_t left) {
    __m256i bits = (__m256i)_mm512_cvtneps_pbh(numbers);
    if (left >= LANES)
        _mm256_storeu_si256((__m256i *)to, bits);
    else
        __builtin_memcpy(to, &bits, 2 * (left > 0 ? left : 0));
}

/* The sums of sixteen registers, in their order. */
INLINE_BF16 __m512 sums_of(const __m512 *all) {
    __m512 twos[8], fours[4], eights[2];
    for (int i = 0; i < 8; i++)
        twos[i] = _mm512_add_ps(_mm512_unpacklo_ps(all[2 * i], all[2 * i + 1]), _mm512_unpackhi_ps(all[2 * i], all[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        __m512d one = (__m512d)twos[2 * i], other = (__m512d)twos[2 * i + 1];
        fours[i] = _mm512_add_ps((__m512)_mm512_unpacklo_pd(one, other), (__m512)_mm512_unpackhi_pd(one, other));
    }
    for (int i = 0; i < 2; i++)
        eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(fours[2 * i], fours[2 * i + 1], 0x88),
                                  _mm512_shuffle_f32x4(fours[2 * i], fours[2 * i + 1], 0xDD));
    return _mm512_add_ps(_mm512_shuffle_f32x4(eights[0], eights[1], 0x88), _mm512_shuffle_f32x4(eights[0], eights[1], 0xDD));
}

/* y = x wT + b, and ReLU behind it. Scratch: registers of x (lines, images), and y as (outputs / 2, eights of images, 2, 8).
 * Pieces are lines of x here, ... */
INLINE_BF16 void lay_images(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct sizes s = product(&op->small_batch);
    (void)worker;
    for (int64_t line = start; line < stop; line++)
        for (int64_t image = 0; image < s.padded; image++) {
            int64_t at = line * (LINE / s.size);
            const char *from = (const char *)op->small_batch.x + (image * s.features + at) * s.size;
            _mm512_store_si512((char *)op->small_batch.scratch + (line * s.padded + image) * LINE,
                               image < s.images ? read(from, s.features - at, narrow) : _mm512_setzero_si512());
        }
}

/* ... and two outputs here. */
INLINE_BF16 void forward(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct sizes s = product(&op->small_batch);
    (void)worker;
    const float *bias = op->small_batch.bias;
    const char *x = op->small_batch.scratch, *w = op->small_batch.w;
    float *results = (float *)(x + s.lines * s.padded * LINE);
    int64_t room = amd ? FAST / 2 : FAST; /* for x in the first cache, of which Zen 4 has 32 KiB, and Intel's have 48 */
    int64_t chunk = room / LINE / s.padded, row = s.features * s.size, groups = s.padded / EIGHT;
    for (int64_t begin = 0; begin < s.lines; begin += chunk) {
        int64_t end = smaller(begin + chunk, s.lines);
        for (int64_t pair = start; pair < stop; pair++)
            for (int64_t group = 0; group < groups; group++) {
                const char *one = w + 2 * pair * row, *other = 2 * pair + 1 < s.outputs ? one + row : one;
                const char *images = x + group * EIGHT * LINE;
                float *result = results + (pair * groups + group) * LANES;
                __m512 sums[2 * EIGHT];
                for (int sum = 0; sum < 2 * EIGHT; sum++) sums[sum] = _mm512_setzero_ps();
                for (int64_t line = begin; line < end; line++) {
                    int whole = line + 1 < s.lines;
                    int64_t left = s.features - line * (LINE / s.size);
                    __m512i weights = whole ? _mm512_loadu_si512(one + line * LINE) : read(one + line * LINE, left, narrow);
                    __m512i others = whole ? _mm512_loadu_si512(other + line * LINE) : read(other + line * LINE, left, narrow);
                    if (group == 0) _mm_prefetch(one + BEFORE * row + line * LINE, _MM_HINT_T0);
                    if (group == groups - 1) _mm_prefetch(other + BEFORE * row + line * LINE, _MM_HINT_T0);
                    for (int image = 0; image < EIGHT; image++) {
                        __m512i numbers = _mm512_load_si512(images + (line * s.padded + image) * LINE);
                        sums[image] = add(sums[image], weights, numbers, narrow);
                        sums[EIGHT + image] = add(sums[EIGHT + image], others, numbers, narrow);
                    }
                }
                __m512 sum = sums_of(sums);
                _mm512_store_ps(result, begin ? _mm512_add_ps(_mm512_load_ps(result), sum) : sum);
            }
    }
    for (int64_t image = 0; image < s.images; image++)
        for (int64_t out = 2 * start; out < smaller(2 * stop, s.outputs); out++) {
            float y = results[((out / 2 * groups + image / EIGHT) * 2 + out % 2) * EIGHT + image % EIGHT];
            y += bias ? bias[out] : 0;
            if (op->small_batch.relu && y < 0) y = 0;
            if (narrow)
                write_narrow((uint16_t *)op->small_batch.y + image * s.outputs + out, _mm512_set1_ps(y), 1);
            else
                ((float *)op->small_batch.y)[image * s.outputs + out] = y;
        }
}

/* dx = dy w. Scratch: dy as (outputs, images), in bf16 by pairs of outputs, and dx as (blocks, images, 32). Pieces are
 * outputs, or pairs, here, ... */
INLINE_BF16 void lay_tops(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct sizes s = product(&op->small_batch);
    (void)worker;
    uint32_t *tops = op->small_batch.scratch;
    for (int64_t top = start; top < stop; top++)
        for (int64_t image = 0; image < s.padded; image++) {
            const uint16_t *pair = (const uint16_t *)op->small_batch.dy + image * s.outputs + 2 * top;
            uint32_t bits = 0;
            if (image < s.images && narrow) bits = pair[0] | (2 * top + 1 < s.outputs ? (uint32_t)pair[1] << 16 : 0);
            if (image < s.images && !narrow) bits = ((const uint32_t *)op->small_batch.dy)[image * s.outputs + top];
            tops[top * s.padded + image] = bits;
        }
}

/* Some rows of weights times eight images, at a block of features. */
INLINE_BF16 void add_rows(const struct sizes *s, const char *w, const uint32_t *tops, float *sums, int64_t rows, int64_t left,
                          int fetch, int fresh, const int narrow) {
    /* pairs of the numbers of two rows: of the first half, and of the second */
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36,
                                         4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_or_si512(low, _mm512_set1_epi16(LANES));
    const int64_t row = s->features * s->size, together = narrow ? 2 : 1;
    __m512 kept[EIGHT][2];
    for (int image = 0; image < EIGHT; image++)
        for (int half = 0; half < 2; half++)
            kept[image][half] = fresh ? _mm512_setzero_ps() : _mm512_load_ps(sums + image * BLOCK + half * LANES);
    for (int64_t at = 0; at < rows; at += together, w += together * row, tops += s->padded) {
        __m512i weights[2];
        if (narrow) {
            __m512i one = read(w, left, 1), other = at + 1 < rows ? read(w + row, left, 1) : _mm512_setzero_si512();
            weights[0] = _mm512_permutex2var_epi16(one, low, other), weights[1] = _mm512_permutex2var_epi16(one, high, other);
        } else {
            weights[0] = read(w, left, 0), weights[1] = read(w + LINE, left - LANES, 0);
        }
        if (fetch) {
            _mm_prefetch(w + (narrow ? NARROW_ROWS : WIDE_ROWS) * row, _MM_HINT_T0);
            _mm_prefetch(w + (narrow ? NARROW_ROWS * row + row : WIDE_ROWS * row + LINE), _MM_HINT_T0);
        }
        for (int image = 0; image < EIGHT; image++)
            for (int half = 0; half < 2; half++)
                kept[image][half] = add(kept[image][half], _mm512_set1_epi32((int32_t)tops[image]), weights[half], narrow);
    }
    for (int image = 0; image < EIGHT; image++)
        for (int half = 0; half < 2; half++) _mm512_store_ps(sums + image * BLOCK + half * LANES, kept[image][half]);
}

/* ... and blocks here. */
INLINE_BF16 void data(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct sizes s = product(&op->small_batch);
    (void)worker;
    const uint32_t *tops = op->small_batch.scratch;
    float *sums = (float *)op->small_batch.scratch + pieces_of(s.tops * s.padded, LANES) * LANES;
    int64_t chunk = FAST / (int64_t)sizeof(float) / BLOCK / s.padded, deep = narrow ? NARROW_ROWS : WIDE_ROWS;
    for (int64_t begin = start; begin < stop; begin += chunk) {
        int64_t end = smaller(begin + chunk, stop);
        for (int64_t row = 0; row < s.outputs; row += deep)
            for (int64_t block = begin; block < end; block++)
                for (int64_t image = 0; image < s.padded; image += EIGHT)
                    add_rows(&s, (const char *)op->small_batch.w + (row * s.features + block * BLOCK) * s.size,
                             tops + row / (narrow ? 2 : 1) * s.padded + image, sums + (block * s.padded + image) * BLOCK,
                             smaller(deep, s.outputs - row), s.features - block * BLOCK, image == 0, row == 0, narrow);
        for (int64_t block = begin; block < end; block++)
            for (int64_t image = 0; image < s.images; image++)
                for (int64_t at = 0; at < BLOCK; at += LANES) {
                    __m512 sum = _mm512_load_ps(sums + (block * s.padded + image) * BLOCK + at);
                    int64_t there = image * s.features + block * BLOCK + at, left = s.features - block * BLOCK - at;
                    if (narrow)
                        write_narrow((uint16_t *)op->small_batch.dx + there, sum, left);
                    else if (left > 0)
                        _mm512_mask_storeu_ps((float *)op->small_batch.dx + there, mask_of(left), sum);
                }
    }
}

/* Some rows of the gradients of weights at a block of features. */
INLINE_ON void outer(const struct small_batch *b, const float *x, const float *dy, float *dw, int64_t left, int past,
                         const int rows) {
    const __mmask16 masks[2] = {mask_of(left), left > LANES ? mask_of(left - LANES) : 0};
    __m512 sums[ROWS][2];
    for (int row = 0; row < rows; row++) sums[row][0] = sums[row][1] = _mm512_setzero_ps();
    for (int64_t image = 0; image < b->images; image++, x += b->features, dy += b->outputs)
        for (int half = 0; half < 2; half++) {
            __m512 numbers = _mm512_maskz_loadu_ps(masks[half], x + half * LANES);
            for (int row = 0; row < rows; row++)
                sums[row][half] = _mm512_fmadd_ps(_mm512_set1_ps(dy[row]), numbers, sums[row][half]);
        }
    for (int row = 0; row < rows; row++, dw += b->features)
        for (int half = 0; half < 2; half++)
            if (past)
                _mm512_stream_ps(dw + half * LANES, sums[row][half]);
            else if (left >= BLOCK)
                _mm512_storeu_ps(dw + half * LANES, sums[row][half]);
            else
                _mm512_mask_storeu_ps(dw + half * LANES, masks[half], sums[row][half]);
}

/* dw = dyT x, db = the sums of dy, all of float32: sums of so few outer products that writing them takes longer than
 * computing them. Pieces are eight rows. */
ON static void weights(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct small_batch *b = &op->small_batch;
    const int64_t outputs = b->outputs, features = b->features;
    const float *x = b->x, *dy = b->dy;
    float *dw = b->dw, *db = b->db;
    int past = 4 * outputs * features > LARGE && features % BLOCK == 0 && (uintptr_t)dw % ALIGNMENT == 0;
    (void)worker;
    for (int64_t row = start * ROWS; row < smaller(stop * ROWS, outputs); row += ROWS) {
        int64_t rows = smaller(ROWS, outputs - row);
        for (int64_t at = 0; at < features; at += BLOCK)
            if (rows == ROWS)
                outer(b, x + at, dy + row, dw + row * features + at, features - at, past, ROWS);
            else
                for (int64_t one = row; one < row + rows; one++)
                    outer(b, x + at, dy + one, dw + one * features + at, features - at, past, 1);
        for (int64_t one = row; db && one < row + rows; one++) {
            float sum = 0;
            for (int64_t image = 0; image < b->images; image++) sum += dy[image * outputs + one];
            db[one] = sum;
        }
    }
    if (past) _mm_sfence(); /* other threads see what was written straight to memory */
}

#define IN_BOTH(work) WITH(ON_BF16, wide_##work, work, 0) WITH(ON_BF16, narrow_##work, work, 1)

IN_BOTH(lay_images)
IN_BOTH(forward)
IN_BOTH(lay_tops)
IN_BOTH(data)

void run_small_batch(const struct machine *machine, const struct operation *op) {
    struct sizes s = product(&op->small_batch);
    share_rows(machine, op, op->small_batch.narrow ? narrow_lay_images : wide_lay_images, s.lines, s.padded * s.features);
    share_rows(machine, op, op->small_batch.narrow ? narrow_forward : wide_forward, pieces_of(s.outputs, 2), s.outputs * s.features);
}

void run_small_batch_data(const struct machine *machine, const struct operation *op) {
    struct sizes s = product(&op->small_batch);
    share_out(machine, op, op->small_batch.narrow ? narrow_lay_tops : wide_lay_tops, s.tops, s.tops * s.padded > ALONE ? LANES : s.tops);
    share_rows(machine, op, op->small_batch.narrow ? narrow_data : wide_data, s.blocks, s.outputs * s.features);
}

void run_small_batch_weights(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, weights, pieces_of(op->small_batch.outputs, ROWS), op->small_batch.outputs * op->small_batch.features);
}

#endif
