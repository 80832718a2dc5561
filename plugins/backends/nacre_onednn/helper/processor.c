/* Which of the processor's instructions the helper uses: no more than oneDNN does. Needs no other file of the helper. */

#include "helper.h"

int64_t instructions = ANY;

/* Sets the most instructions that may be used; returns those of them that there is code for. */
EXPORT int64_t nacre_use(int64_t most) {
#if defined(__x86_64__)
    instructions = most;
#else
    (void)most;
#endif
    return instructions;
}
