/* Chooses the code for the processor that it runs on. */

#include "flash.h"

#define EXPORT __attribute__((visibility("default")))

enum { VERSION = 1 };

EXPORT int64_t nacre_transformer_version(void) { return VERSION; }

/* The numbers that a thread needs. */
EXPORT int64_t nacre_transformer_room(int64_t rows, int64_t keys, int64_t padded) {
    int64_t queries = (rows + BLOCK - 1) / BLOCK, others = (keys + BLOCK - 1) / BLOCK;
    int64_t forward = (2 * others + 2) * BLOCK * padded, backward = (3 * queries + 6) * BLOCK * padded;
    return (forward > backward ? forward : backward) + 2 * BLOCK * BLOCK + 2 * (queries + 1) * BLOCK;
}

EXPORT void nacre_transformer_flash(const struct flash *f, int64_t start, int64_t stop, int64_t worker) {
#if defined(__x86_64__)
    static flash_t *chosen;
    if (!chosen) {
        __builtin_cpu_init();
        int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
        int fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        chosen = wide ? flash_avx512 : fused ? flash_avx2 : flash_any;
    }
    chosen(f, start, stop, worker);
#else
    flash_any(f, start, stop, worker);
#endif
}
