// CUDA on the processor, for tests: the blocks of a grid run one after the other, and the threads of a block as fibers
// that change at barriers. A barrier that some threads of a block or warp never reach is an error, as is a load or store
// of several numbers at an address that does not fit: a GPU stops at both.
//
// It is included before the text of a .cu file, and what follows that is made by cuda_on_host.py: for each kernel a
// function that launches it, which returns a text if something is wrong.

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <utility>

#define __global__
#define __device__
#define __shared__ static // blocks run one after the other
#define __launch_bounds__(...)

struct HostDimensions {
    unsigned x, y, z;
};
static HostDimensions threadIdx, blockIdx, blockDim, gridDim;

namespace host {

const int MOST_THREADS = 1024;
const size_t STACK = 1 << 17;

struct Fiber {
    ucontext_t first;
    jmp_buf here;
    char *stack;
    bool begun, done;
    uint64_t handed; // to the other threads of a warp
};
struct Barrier {
    int arrived;
    unsigned turn;
};

static Fiber fibers[MOST_THREADS];
static Barrier of_block, of_warp[MOST_THREADS / 32];
static jmp_buf scheduler;
static int current;
static bool moved;
static const char *fault;
static void (*body)(void *);
static void *argument;

inline void wait_for_turn() {
    if (!_setjmp(fibers[current].here)) _longjmp(scheduler, 1);
}

// A fiber runs the body once in every block, and then waits for the next one.
inline void fiber() {
    for (;;) {
        body(argument);
        fibers[current].done = moved = true;
        wait_for_turn();
    }
}

inline void go_on(int number) {
    Fiber &one = fibers[number];
    current = number;
    threadIdx = {(unsigned)number, 0, 0};
    if (_setjmp(scheduler)) return;
    if (one.begun) _longjmp(one.here, 1);
    if (one.stack == nullptr) one.stack = (char *)malloc(STACK);
    getcontext(&one.first);
    one.first.uc_stack.ss_sp = one.stack;
    one.first.uc_stack.ss_size = STACK;
    one.first.uc_link = nullptr;
    makecontext(&one.first, fiber, 0);
    one.begun = true;
    setcontext(&one.first);
}

inline void reach(Barrier &barrier, int threads) {
    const unsigned turn = barrier.turn;
    if (++barrier.arrived == threads) {
        barrier.arrived = 0;
        barrier.turn++;
        moved = true;
        return;
    }
    while (barrier.turn == turn) wait_for_turn();
}

inline void run_block() {
    const int threads = (int)blockDim.x;
    of_block.arrived = 0;
    for (Barrier &barrier : of_warp) barrier.arrived = 0;
    for (int number = 0; number < threads; number++) fibers[number].done = false;
    for (int left = threads; left > 0 && fault == nullptr;) {
        left = 0;
        moved = false;
        for (int number = 0; number < threads; number++) {
            if (!fibers[number].done) go_on(number);
            left += !fibers[number].done;
        }
        if (left > 0 && !moved) fault = "some threads wait at a barrier that the others do not reach";
    }
    for (int number = 0; number < threads && fault != nullptr; number++) fibers[number].begun = false;
}

template <class... A, size_t... I> void run_body(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    struct Call {
        void (*kernel)(A...);
        void **arguments;
    };
    Call call = {kernel, arguments};
    body = [](void *given) {
        const Call &one = *(Call *)given;
        one.kernel(*(A *)one.arguments[I]...);
    };
    argument = &call;
    for (unsigned block = 0; block < gridDim.x && fault == nullptr; block++) {
        blockIdx = {block, 0, 0};
        run_block();
    }
    argument = nullptr;
}

template <class... A>
const char *launch(void (*kernel)(A...), int64_t blocks, int64_t threads, int64_t count, void **arguments) {
    static_assert(((sizeof(A) == 8) && ...), "arguments of kernels have 8 bytes each");
    fault = nullptr;
    if (count != (int64_t)sizeof...(A)) return "the number of arguments is not that of the kernel";
    if (blocks < 1 || blocks > INT32_MAX || threads < 1 || threads > MOST_THREADS) return "no such grid can be launched";
    gridDim = {(unsigned)blocks, 1, 1};
    blockDim = {(unsigned)threads, 1, 1};
    run_body(kernel, arguments, std::index_sequence_for<A...>());
    return fault;
}

inline void check_aligned(const void *address, size_t bytes) {
    if ((uintptr_t)address % bytes) fault = "an address does not fit the number of bytes that are read or written";
}

} // namespace host

#define NACRE_CHECK_ALIGNED(address, bytes) host::check_aligned(address, bytes)

inline void __syncthreads() { host::reach(host::of_block, (int)blockDim.x); }

inline void __syncwarp() { host::reach(host::of_warp[host::current / 32], 32); }

template <class V> V __shfl_xor_sync(unsigned mask, V value, int other) {
    static_assert(sizeof(V) <= 8, "a shuffle hands over 4 or 8 bytes");
    if (mask != 0xffffffffu || blockDim.x % 32) host::fault = "a shuffle needs all threads of a warp";
    const int me = host::current;
    memcpy(&host::fibers[me].handed, &value, sizeof(V));
    __syncwarp();
    memcpy(&value, &host::fibers[me ^ other].handed, sizeof(V));
    __syncwarp();
    return value;
}

inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, 4);
    return bits;
}

inline float __fmul_rn(float a, float b) { return a * b; }
inline float rsqrt(float x) { return 1 / sqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
