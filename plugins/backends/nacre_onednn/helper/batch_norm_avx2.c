#include "helper.h"

#if defined(__x86_64__)

#define ON __attribute__((target("avx2")))
#define NUMBERS 8
#include "batch_norm_loops.h"

const struct batch_norm_loops batch_norm_on_avx2 = LOOPS;

#endif
