#include "helper.h"

#if defined(__x86_64__)

#define BITS 512
#define ON __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define NARROW 1
#define PAIRED 0
#include "winograd_loops.h"

const struct winograd_loops winograd_in_bf16 = LOOPS;

#endif
