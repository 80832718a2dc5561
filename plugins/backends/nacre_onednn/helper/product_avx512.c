#include "helper.h"

#if defined(__x86_64__)

#define BITS 512
#include "product_loops.h"

const struct product_loops product_on_avx512 = LOOPS;

#endif
