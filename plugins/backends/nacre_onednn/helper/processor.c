/* Which of the processor's instructions the helper uses: no more than oneDNN does. Needs no other file of the helper. */

#include "helper.h"

#if defined(HAS_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif

int64_t instructions = ANY;
int amd = 0;

/* Whether Linux lends the registers of AMX, which are so large that it does so only if asked: for all threads, from then on. */
static int lends_amx(void) {
#if defined(HAS_AMX)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return 0;
#endif
}

/* Sets the most instructions that may be used; returns those of them that there is code for. */
EXPORT int64_t nacre_use(int64_t most) {
#if defined(__x86_64__)
    instructions = most == AMX && !lends_amx() ? AVX512 : most;
    __builtin_cpu_init();
    amd = __builtin_cpu_is("amd");
#else
    (void)most;
#endif
    return instructions;
}
