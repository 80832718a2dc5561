#include "helper.h"

#if defined(__x86_64__)

#define ON __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define NUMBERS 16
#include "batch_norm_loops.h"

const struct batch_norm_loops batch_norm_on_avx512 = LOOPS;

#endif
