#include "helper.h"

#if defined(__x86_64__)

#define ON ON_BF16
#define NARROW 1
#define PAIRED 1
#include "avx512.h"
#include "winograd_loops.h"

const struct winograd_loops winograd_in_pairs = LOOPS;

#endif
