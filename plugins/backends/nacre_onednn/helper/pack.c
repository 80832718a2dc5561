/* Copies of weights into the layouts that oneDNN's products of matrices read, faster than oneDNN's own copies. Needs
 * AVX-512; for copies in bf16 also avx512_bf16.
 */

#include "avx512.h"

#if defined(__x86_64__)

/* A matrix (rows, columns) as oneDNN's products read it: in tiles of `block` rows and 16 columns, each turned; in bf16
 * two columns go together. */
struct strip { /* 16 rows of it, or fewer at the end */
    const float *from;
    uint32_t *to;
    int64_t rows, columns, tiles, block;
};

/* `deep`: rows of a tile when it is turned. */
static struct strip strip(const struct operation *op, int64_t number, int64_t deep) {
    const struct pack *p = &op->pack;
    int64_t row = number * LANES, columns = p->columns, block = p->block, tiles = pieces_of(columns, LANES);
    return (struct strip){
        .from = p->matrix + row * columns,
        .to = (uint32_t *)p->packed + row / block * tiles * deep * block + row % block,
        .rows = smaller(LANES, p->rows - row), .columns = columns, .tiles = tiles, .block = block,
    };
}

ON static void pack(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    for (int64_t number = start; number < stop; number++) {
        struct strip s = strip(op, number, LANES);
        for (int64_t tile = 0; tile < s.tiles; tile++) {
            WIDE turned[LANES];
            int64_t left = s.columns - tile * LANES;
            for (int row = 0; row < LANES; row++)
                turned[row] = row < s.rows ? load_first(s.from + row * s.columns + tile * LANES, left) : ZERO();
            transpose(turned);
            for (int column = 0; column < LANES; column++) _mm512_storeu_ps(s.to + (tile * LANES + column) * s.block, turned[column]);
        }
    }
}

/* `first` and `second`, 16 numbers each, in bf16. */
INLINE_BF16 WIDE narrow(WIDE first, WIDE second) {
    return (WIDE)_mm512_cvtne2ps_pbh(second, first);
}

ON_BF16 static void pack_narrow(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    for (int64_t number = start; number < stop; number++) {
        struct strip s = strip(op, number, LANES / 2);
        for (int64_t tile = 0; tile < s.tiles; tile += 2) { /* two tiles fill a register with pairs */
            WIDE turned[LANES];
            __mmask16 mask = mask_of(s.columns - tile * LANES), next = 0;
            if (tile + 1 < s.tiles) next = mask_of(s.columns - (tile + 1) * LANES);
            for (int row = 0; row < LANES; row++) {
                const float *source = s.from + row * s.columns + tile * LANES;
                turned[row] = row < s.rows ? narrow(_mm512_maskz_loadu_ps(mask, source),
                                                    _mm512_maskz_loadu_ps(next, source + LANES))
                                           : ZERO();
            }
            transpose(turned);
            for (int pair = 0; pair < (next ? LANES : LANES / 2); pair++)
                _mm512_storeu_ps(s.to + (tile * LANES / 2 + pair) * s.block, turned[pair]);
        }
    }
}

void run_pack(const struct machine *machine, const struct operation *op) {
    const struct pack *p = &op->pack;
    int64_t padded = pieces_of(p->rows, p->block) * p->block;
    share_out(machine, op, p->narrow ? pack_narrow : pack, padded / LANES, 1);
}

#endif
