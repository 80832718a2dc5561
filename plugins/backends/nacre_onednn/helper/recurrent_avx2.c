#include "helper.h"

#if defined(__x86_64__)

#define BITS 256
#include "recurrent_loops.h"

const struct recurrent_loops recurrent_on_avx2 = LOOPS;

#endif
