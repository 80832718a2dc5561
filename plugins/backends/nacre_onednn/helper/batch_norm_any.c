#define ON
#define NUMBERS 8
#include "batch_norm_loops.h"

const struct batch_norm_loops batch_norm_on_any = LOOPS;
