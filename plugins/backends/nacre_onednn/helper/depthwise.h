/* What the files of convolutions channel by channel share: see depthwise.c. */

#ifndef NACRE_DEPTHWISE_H
#define NACRE_DEPTHWISE_H

#include "helper.h"

extern const work_t depthwise_on_avx2, depthwise_on_avx512; /* pieces are rows of y, or blocks of channels */

#endif
