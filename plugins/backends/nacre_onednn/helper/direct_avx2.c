#include "helper.h"

#if defined(__x86_64__)

#define BITS 256
#include "direct_loops.h"

const struct direct_loops direct_on_avx2 = LOOPS;

#endif
