/* Chooses the code for the processor that it runs on. */

#include "flash.h"

#define EXPORT __attribute__((visibility("default")))

enum { VERSION = 2 };

EXPORT int64_t nacre_transformer_version(void) { return VERSION; }

/* The numbers that a thread needs. */
EXPORT int64_t nacre_transformer_room(int64_t rows, int64_t keys, int64_t padded) {
    int64_t queries = (rows + BLOCK - 1) / BLOCK, others = (keys + BLOCK - 1) / BLOCK;
    int64_t forward = (2 * others + 2) * BLOCK * padded, backward = (3 * queries + 6) * BLOCK * padded;
    return (forward > backward ? forward : backward) + 2 * BLOCK * BLOCK + 2 * (queries + 1) * BLOCK;
}

static flash_t *chosen = flash_any;

/* Sets the most instructions that may be used, of `enum instructions`; returns those that are, and that there are. */
EXPORT int64_t nacre_transformer_use(int64_t most) {
    chosen = flash_any;
#if defined(__x86_64__)
    __builtin_cpu_init();
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    int fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (most >= AVX512 && wide) {
        chosen = flash_avx512;
        return AVX512;
    }
    if (most >= AVX2 && fused) {
        chosen = flash_avx2;
        return AVX2;
    }
#else
    (void)most;
#endif
    return ANY;
}

EXPORT void nacre_transformer_flash(const struct flash *f, int64_t start, int64_t stop, int64_t worker) {
    chosen(f, start, stop, worker);
}
