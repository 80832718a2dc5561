/* What the files that need AVX-512 share: a register holds the same element of 16 rows, images or channels. */

#ifndef NACRE_AVX512_H
#define NACRE_AVX512_H

#include "helper.h"

#if defined(__x86_64__)

/* Where products may be of bf16; what is of bf16 alone is used in bf16 alone. */
#define ON_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define INLINE_BF16 static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512bf16")))

#define BITS 512
#include "lanes.h"

/* A work_t that does a piece of work with a number that is a constant. */
#define WITH(on, variant, work, number)                                                                                \
    on static void variant(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {                   \
        work(op, start, stop, worker, number);                                                                         \
    }

#endif
#endif
