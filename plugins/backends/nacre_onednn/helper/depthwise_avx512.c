#include "helper.h"

#if defined(__x86_64__)

#define BITS 512
#include "depthwise_loops.h"

const work_t depthwise_on_avx512 = convolve;

#endif
