/* Gradients of weights whose bottoms and tops are of bf16: products of matrices that have many rows and few columns. The
 * processor multiplies numbers of two rows at a time, so both matrices are copied by pairs of rows, into panels of sixteen
 * columns that stay in a core's caches while they are multiplied. What is copied next is fetched meanwhile. oneDNN's products
 * take 1.15 times as long on Zen 4. Needs avx512_bf16; where there is AMX, that is faster.
 */

#include "avx512.h"

#if defined(__x86_64__)

enum { DEEP = PAIRS_DEEP, MANY = PAIRS_MANY, HIGH = 8, CHAINS = 4, PANEL = DEEP * LANES + LANES };
enum { ROOM = MANY / LANES * PANEL }; /* pairs of a matrix, of so many columns */
_Static_assert(2 * ROOM * sizeof(uint32_t) == PAIRS_ROOM, "another room");

/* Up to MANY columns of up to 2 * DEEP rows of a matrix, whose rows are `apart`. */
struct part {
    const uint16_t *from;
    int64_t apart, rows, columns;
};

static struct part part_of(const void *matrix, int64_t apart, int64_t begin, int64_t end, int64_t from, int64_t to) {
    const uint16_t *first = (const uint16_t *)matrix + begin * apart + from;
    return (struct part){first, apart, smaller(end - begin, 2 * DEEP), smaller(to - from, MANY)};
}

/* A part as (columns / 16, DEEP, 16) pairs; what is missing is 0. */
ON_BF16 static void lay_pairs(const struct part *p, uint32_t *to) {
    static const uint16_t order[4 * LANES] = {
        0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47,
        16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
    const __m512i left = _mm512_loadu_si512(order), right = _mm512_loadu_si512(order + 2 * LANES);
    for (int64_t row = 0; row < p->rows; row += 2, to += LANES) {
        const uint16_t *one = p->from + row * p->apart, *other = one + p->apart;
        uint32_t *panel = to;
        for (int64_t column = 0; column < p->columns; column += 2 * LANES, panel += 2 * PANEL) {
            const int64_t there = p->columns - column;
            const __mmask32 mask = there < 2 * LANES ? (1u << there) - 1 : ~0u;
            const __m512i first = _mm512_maskz_loadu_epi16(mask, one + column);
            const __m512i second = row + 1 < p->rows ? _mm512_maskz_loadu_epi16(mask, other + column) : _mm512_setzero_si512();
            _mm512_store_si512(panel, _mm512_permutex2var_epi16(first, left, second));
            _mm512_store_si512(panel + PANEL, _mm512_permutex2var_epi16(first, right, second));
        }
    }
}

/* What becomes of sums: they are written, past the caches or not, or are added to those that dw has. */
enum { WRITTEN_PAST, WRITTEN, ADDED };

/* Eight rows of a panel of dy by two panels of x; `rows` and `columns` of dw are left. */
ON_BF16 static void multiply_pairs(const uint32_t *dy, const uint32_t *x, int64_t pairs, float *dw, int64_t apart,
                                   int64_t rows, int64_t columns, int how) {
    __m512 sums[HIGH][2];
#pragma GCC unroll 8
    for (int row = 0; row < HIGH; row++) sums[row][0] = sums[row][1] = _mm512_setzero_ps();
    for (int64_t pair = 0; pair < pairs; pair++, dy += LANES, x += LANES) {
        const __m512bh one = (__m512bh)_mm512_load_si512(x), other = (__m512bh)_mm512_load_si512(x + PANEL);
#pragma GCC unroll 8
        for (int row = 0; row < HIGH; row++) {
            const __m512bh each = (__m512bh)_mm512_set1_epi32((int)dy[row]);
            sums[row][0] = _mm512_dpbf16_ps(sums[row][0], each, one);
            sums[row][1] = _mm512_dpbf16_ps(sums[row][1], each, other);
        }
    }
#pragma GCC unroll 8
    for (int row = 0; row < HIGH; row++, dw += apart)
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            const int64_t count = columns - half * LANES;
            if (row >= rows || count <= 0) continue;
            float *to = dw + half * LANES;
            if (how == WRITTEN_PAST)
                STREAM(to, sums[row][half]);
            else
                store_first(to, count, how == ADDED ? _mm512_add_ps(load_first(to, count), sums[row][half]) : sums[row][half]);
        }
}

/* The sums of the columns of dy, which lie in pairs. */
ON_BF16 static void add_up_pairs(const uint32_t *dy, int64_t pairs, int64_t columns, float *db, int adds) {
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3F80);
    for (int64_t column = 0; column < columns; column += LANES) {
        const int64_t count = columns - column;
        const uint32_t *panel = dy + column / LANES * PANEL;
        __m512 sums[CHAINS] = {adds ? load_first(db + column, count) : _mm512_setzero_ps()};
#pragma GCC unroll 4
        for (int one = 1; one < CHAINS; one++) sums[one] = _mm512_setzero_ps();
        for (int64_t pair = 0; pair < pairs; pair += CHAINS)
#pragma GCC unroll 4
            for (int one = 0; one < CHAINS && pair + one < pairs; one++)
                sums[one] = _mm512_dpbf16_ps(sums[one], (__m512bh)_mm512_load_si512(panel + (pair + one) * LANES), ones);
        store_first(db + column, count, _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
    }
}

/* Fetches the rows of a part from `start` to `stop`. */
static inline void fetch_rows(const struct part *p, int64_t start, int64_t stop) {
    for (int64_t row = start; row < smaller(stop, p->rows); row++)
        for (int64_t column = 0; column < p->columns; column += 2 * LANES)
            __builtin_prefetch(p->from + row * p->apart + column, 0, 2);
}

/* Some rows of dw, and some of its columns. What is laid next is fetched before: some of its rows ahead of each tile. */
ON_BF16 static void some_sums(const struct pairs_gradient *o, int64_t top, int64_t end, int64_t from, int64_t to, uint32_t *dy) {
    uint32_t *x = dy + ROOM;
    const int large = 4 * o->outputs * o->features > LARGE && o->features % LANES == 0 && (uintptr_t)o->dw % ALIGNMENT == 0;
    const int past = large && o->rows <= 2 * DEEP;
    for (int64_t begin = 0; begin < o->rows; begin += 2 * DEEP)
        for (int64_t first = top; first < end; first += MANY) {
            const struct part tops = part_of(o->dy, o->outputs, begin, o->rows, first, end);
            const int64_t pairs = pieces_of(tops.rows, 2);
            lay_pairs(&tops, dy);
            if (o->db && from == 0) add_up_pairs(dy, pairs, tops.columns, o->db + first, begin > 0);
            for (int64_t left = from; left < to; left += MANY) {
                const struct part bottoms = part_of(o->x, o->features, begin, o->rows, left, to);
                const int ends = left + MANY >= to, ends_all = ends && first + MANY >= end;
                const int64_t later = ends_all ? begin + 2 * DEEP : begin;
                const struct part next = part_of(o->x, o->features, later, o->rows, ends ? from : left + MANY, to);
                const struct part above = part_of(o->dy, o->outputs, ends ? later : o->rows, o->rows, ends_all ? top : first + MANY, end);
                const int64_t tiles = pieces_of(bottoms.columns, 2 * LANES) * pieces_of(tops.columns, HIGH);
                const int64_t some = pieces_of(2 * DEEP, tiles);
                int64_t fetched = 0;
                lay_pairs(&bottoms, x);
                for (int64_t column = 0; column < bottoms.columns; column += 2 * LANES)
                    for (int64_t row = 0; row < tops.columns; row += HIGH, fetched += some) {
                        float *dw = o->dw + (first + row) * o->features + left + column;
                        const int64_t rows = tops.columns - row, columns = bottoms.columns - column;
                        fetch_rows(&next, fetched, fetched + some);
                        fetch_rows(&above, fetched, fetched + some);
                        multiply_pairs(dy + row / LANES * PANEL + row % LANES, x + column / LANES * PANEL, pairs, dw, o->features,
                                       rows, columns, past ? WRITTEN_PAST : begin > 0 ? ADDED : WRITTEN);
                    }
            }
        }
    if (past) _mm_sfence(); /* other threads see what was written straight to memory */
}

/* Pieces are panels of dy, or pairs of panels of x. */
static void multiply(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct pairs_gradient *o = &op->pairs_gradient;
    uint32_t *scratch = (uint32_t *)o->scratch + worker * 2 * ROOM;
    if (start == stop) return;
    if (o->by_features)
        some_sums(o, 0, o->outputs, start * 2 * LANES, smaller(stop * 2 * LANES, o->features), scratch);
    else
        some_sums(o, start * LANES, smaller(stop * LANES, o->outputs), 0, o->features, scratch);
}

void run_pairs_gradient(const struct machine *machine, const struct operation *op) {
    struct operation part = *op;
    struct pairs_gradient *o = &part.pairs_gradient;
    const int64_t tops = pieces_of(o->outputs, LANES), pairs = pieces_of(o->features, 2 * LANES);
    o->by_features = more_alike(machine, op, pairs, tops) || (o->features > o->outputs && !more_alike(machine, op, tops, pairs));
    share_rows(machine, &part, multiply, o->by_features ? pairs : tops, o->rows * o->outputs * o->features);
}

#endif
