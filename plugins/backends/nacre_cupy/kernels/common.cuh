// What all kernels share: numbers in bfloat16, loads and stores of 16 bytes, sums over a warp and a block.
//
// A .cu file begins with this one. NVRTC compiles it for a GPU, and tests/cuda_on_host.h lets a C++17 compiler make a
// library for the processor of the same text. Arguments of kernels are pointers, i64 and double: 8 bytes each, as a
// Python int and float are.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

#ifndef NACRE_CHECK_ALIGNED // tests do
#define NACRE_CHECK_ALIGNED(address, bytes)
#endif

struct bf16 {
    unsigned short bits;
};

// The type in which sums of a type are made, and functions of it computed.
template <class T> struct WideType {
    typedef T type;
};
template <> struct WideType<bf16> {
    typedef float type;
};
template <class T> using Wide = typename WideType<T>::type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

template <class T> __device__ inline T narrow(Wide<T> x) { return x; }
// To the nearest number, of two equally near ones the even one; a NaN stays one.
template <> __device__ inline bf16 narrow<bf16>(float x) {
    bf16 result;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#else
    u32 bits = __float_as_uint(x);
    result.bits = x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
    return result;
}

// N numbers that are loaded and stored as one, 16 bytes at a time.
template <class T, int N> struct PackSize {
    static const int fit = sizeof(T) * N < 16 ? sizeof(T) * N : 16;
};
template <class T, int N> struct alignas(PackSize<T, N>::fit) Pack {
    T at[N];
};

template <class T> struct Lanes {
    static const int most = 16 / sizeof(T);
};

__device__ inline bool aligned(const void *one) { return (u64)one % 16 == 0; }
template <class... More> __device__ inline bool aligned(const void *one, More... more) {
    return aligned(one) && aligned(more...);
}

template <int N, class T> __device__ inline Pack<T, N> load(const T *from) {
    NACRE_CHECK_ALIGNED(from, (PackSize<T, N>::fit));
    return *reinterpret_cast<const Pack<T, N> *>(from);
}
template <int N, class T> __device__ inline void store(T *to, const Pack<T, N> &pack) {
    NACRE_CHECK_ALIGNED(to, (PackSize<T, N>::fit));
    *reinterpret_cast<Pack<T, N> *>(to) = pack;
}

template <int N> struct Count {
    static const int value = N;
};

// A number that others are divided by, with a product and a shift in place of a division: those by numbers that the
// compiler does not know are slow. Python makes both with `launch.divisor`. All numbers of 32 bits will do.
// Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
struct Divisor {
    int number;
    u32 factor, shift;

    __device__ Divisor(i64 number, i64 inverse)
        : number((int)number), factor((u32)inverse), shift((u32)(inverse >> 32)) {}
    __device__ operator int() const { return number; }
    __device__ u32 quotient(u32 of) const { return (u32)(((u64)__umulhi(of, factor) + of) >> shift); }
    // The same, with the remainder.
    __device__ u32 quotient(u32 of, int &rest) const {
        const u32 whole = quotient(of);
        rest = (int)(of - whole * number);
        return whole;
    }
};

// Calls work(Count<N>(), start) for all numbers below `size`, N neighbours at a time, over all threads of the grid: as
// many as 16 bytes hold where the arrays are aligned, and what is left one by one.
template <class T, class Work> __device__ inline void for_each(i64 size, bool fit, Work work) {
    const int most = Lanes<T>::most;
    const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
    const i64 packs = fit ? size / most : 0;
    for (i64 index = first; index < packs; index += step) work(Count<most>(), index * most);
    for (i64 index = packs * most + first; index < size; index += step) work(Count<1>(), index);
}

// A product that is rounded. A compiler may make one fused multiply-add of `h - m * m`, which does not round the product:
// where m * m overflows, inf - m * m would then be inf, and not NaN.
__device__ inline float multiplied(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double multiplied(double a, double b) { return __dmul_rn(a, b); }

// NumPy's maximum and minimum: of a number and a NaN, the NaN.
template <class W> __device__ inline W larger(W a, W b) { return a > b || a != a ? a : b; }
template <class W> __device__ inline W smaller(W a, W b) { return a < b || a != a ? a : b; }

template <class W> __device__ inline W minus_infinity();
template <> __device__ inline float minus_infinity<float>() { return __uint_as_float(0xff800000u); }
template <> __device__ inline double minus_infinity<double>() { return (double)minus_infinity<float>(); }

const u32 WARP = 0xffffffffu;

template <class W> __device__ inline W warp_sum(W value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(WARP, value, step);
    return value;
}

template <class W> __device__ inline W warp_max(W value) {
    for (int step = 16; step > 0; step /= 2) value = larger(value, __shfl_xor_sync(WARP, value, step));
    return value;
}

// The sum over all threads of a block, which has at most 32 whole warps; only thread 0 gets it. Always in one order.
template <class W> __device__ inline W block_sum(W value) {
    __shared__ W parts[32];
    value = warp_sum(value);
    __syncthreads(); // what an earlier call has left may still be read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : W(0);
    return threadIdx.x < 32 ? warp_sum(value) : value;
}
