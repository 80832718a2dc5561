#include "helper.h"

#if defined(__x86_64__)

#define BITS 256
#include "product_loops.h"

const struct product_loops product_on_avx2 = LOOPS;

#endif
