/* Neurons of bf16, which have no more than 65,536 results and slopes: to look them up takes a third of the time of an
 * exponential. Instructions that gather take longer than single loads. On AMD a number is put into its place of a register at
 * once, which takes 0.6 of the time; Intel's processors put half as many, and write them one by one as fast.
 */

#include "narrow.h"

enum { UNIT = 128 };   /* numbers that a thread has at least */
enum { CHUNK = 1024 }; /* of slopes: reading as a register what was just written number by number has to wait */

static void look_up_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const uint16_t *x = op->look_up.x, *results = op->look_up.results;
    uint16_t *y = op->look_up.y;
    (void)worker;
#pragma GCC unroll 8
    for (int64_t i = start; i < stop; i++) y[i] = results[x[i]];
}

/* Not in VERSIONS: the compiler would gather, or keep the upper parts of registers. */
__attribute__((noinline)) static void read_table(const uint16_t *x, int64_t count, const float *table, float *out) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < count; i++) memcpy(out + i, table + x[i], sizeof *out);
}

INLINE void slope_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct chain *c = &op->chain;
    float slopes[CHUNK];
    (void)worker;
    for (int64_t at = start; at < stop; at += CHUNK) {
        int64_t count = smaller(CHUNK, stop - at);
        read_table((const uint16_t *)c->x + at, count, c->slopes, slopes);
#pragma GCC ivdep
        for (int64_t i = 0; i < count; i++) put(c->dx, at + i, get(c->dy, at + i, 1) * slopes[i], 1);
    }
}

VERSIONS(slope_some)

#if defined(__x86_64__)

#include "avx512.h"

/* Four numbers of bf16, which were read at once, as a place in a table each. */
#define NUMBER(four, place) (uint16_t)((four) >> 16 * (place))

INLINE uint64_t read_four(const uint16_t *x) {
    uint64_t four;
    memcpy(&four, x, sizeof four);
    return four;
}

static void look_up_eights(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const uint16_t *x = op->look_up.x, *results = op->look_up.results;
    int64_t whole = stop - (stop - start) % 8;
    for (int64_t i = start; i < whole; i += 8) {
        uint64_t low = read_four(x + i), high = read_four(x + i + 4);
        __m128i eight = _mm_cvtsi32_si128(results[NUMBER(low, 0)]);
        eight = _mm_insert_epi16(eight, results[NUMBER(low, 1)], 1);
        eight = _mm_insert_epi16(eight, results[NUMBER(low, 2)], 2);
        eight = _mm_insert_epi16(eight, results[NUMBER(low, 3)], 3);
        eight = _mm_insert_epi16(eight, results[NUMBER(high, 0)], 4);
        eight = _mm_insert_epi16(eight, results[NUMBER(high, 1)], 5);
        eight = _mm_insert_epi16(eight, results[NUMBER(high, 2)], 6);
        eight = _mm_insert_epi16(eight, results[NUMBER(high, 3)], 7);
        _mm_storeu_si128((__m128i_u *)(op->look_up.y + i), eight);
    }
    look_up_some(op, whole, stop, worker);
}

INLINE_ON __m128i four_slopes(const uint16_t *x, const int32_t *slopes) {
    uint64_t numbers = read_four(x);
    __m128i four = _mm_cvtsi32_si128(slopes[NUMBER(numbers, 0)]);
    four = _mm_insert_epi32(four, slopes[NUMBER(numbers, 1)], 1);
    four = _mm_insert_epi32(four, slopes[NUMBER(numbers, 2)], 2);
    return _mm_insert_epi32(four, slopes[NUMBER(numbers, 3)], 3);
}

INLINE_ON __m256i eight_slopes(const uint16_t *x, const int32_t *slopes) {
    return _mm256_set_m128i(four_slopes(x + 4, slopes), four_slopes(x, slopes));
}

/* `put` for a register: the bits are the same. */
ON static void slope_sixteens(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const uint16_t *x = op->chain.x, *dy = op->chain.dy;
    uint16_t *dx = op->chain.dx;
    const int32_t *table = (const int32_t *)op->chain.slopes;
    const __m512i half = _mm512_set1_epi32(0x7FFF), one = _mm512_set1_epi32(1), quiet = _mm512_set1_epi32(0x40);
    int64_t whole = stop - (stop - start) % WIDTH;
    for (int64_t i = start; i < whole; i += WIDTH) {
        __m512i low = _mm512_castsi256_si512(eight_slopes(x + i, table));
        WIDE slopes = _mm512_castsi512_ps(_mm512_inserti64x4(low, eight_slopes(x + i + 8, table), 1));
        __m512i narrow = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(dy + i)));
        WIDE product = MUL(_mm512_castsi512_ps(_mm512_slli_epi32(narrow, 16)), slopes);
        __m512i bits = _mm512_castps_si512(product), upper = _mm512_srli_epi32(bits, 16);
        __m512i odd = _mm512_and_epi32(upper, one);
        __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, half), odd), 16);
        rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(product, product, _CMP_UNORD_Q), upper, quiet);
        _mm256_storeu_si256((__m256i_u *)(dx + i), _mm512_cvtepi32_epi16(rounded));
    }
    slope_some_on_avx512(op, whole, stop, worker);
}

static work_t work_of_look_up(void) { return amd ? look_up_eights : look_up_some; }
static work_t work_of_slopes(void) { return amd && instructions >= AVX512 ? slope_sixteens : best_slope_some(); }

#else

static work_t work_of_look_up(void) { return look_up_some; }
static work_t work_of_slopes(void) { return best_slope_some(); }

#endif

static void share_numbers(const struct machine *machine, const struct operation *op, work_t work, int64_t size) {
    share_out(machine, op, work, size, EXPENSIVE * size > ALONE ? UNIT : size);
}

void run_look_up(const struct machine *machine, const struct operation *op) {
    share_numbers(machine, op, work_of_look_up(), op->look_up.size);
}

void run_slopes(const struct machine *machine, const struct operation *op) {
    share_numbers(machine, op, work_of_slopes(), op->chain.size);
}
