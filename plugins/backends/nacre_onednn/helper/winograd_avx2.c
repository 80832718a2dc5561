#include "helper.h"

#if defined(__x86_64__)

#define BITS 256
#define NARROW 0
#define PAIRED 0
#include "winograd_loops.h"

const struct winograd_loops winograd_on_avx2 = LOOPS;

#endif
