// Dropout with the random numbers of nacre.random: Philox 4x64-10 with the key (seed, hash of the name) and the counter
// (block, draw, iteration, 0). The first four numbers come from block 1. Each of 64 bits is two uniform numbers, its
// lower half first: (half >> 8) 2^-24. A thread makes eight of them, and leaves a byte with a bit for each number that
// stays, for backward. `first` is the number of the first element: of several ranks, each has its own.

#include "common.cuh"

struct Words {
    u64 at[4];
};

__device__ inline Words philox(u64 block, u64 draw, u64 iteration, u64 key0, u64 key1) {
    u64 a = block, b = draw, c = iteration, d = 0;
    for (int round = 0; round < 10; round++) {
        const u64 high_a = __umul64hi(a, 0xD2E7470EE14C6C93ull), low_a = a * 0xD2E7470EE14C6C93ull;
        const u64 high_c = __umul64hi(c, 0xCA5A826395121157ull), low_c = c * 0xCA5A826395121157ull;
        a = high_c ^ b ^ key0;
        b = low_c;
        c = high_a ^ d ^ key1;
        d = low_a;
        key0 += 0x9E3779B97F4A7C15ull;
        key1 += 0xBB67AE8584CAA73Bull;
    }
    return {{a, b, c, d}};
}

// Multiplies the eight numbers from `start` by `scale` where their bit is set, and by 0 elsewhere: a NaN stays one.
template <class T> __device__ inline void mask_eight(const T *from, T *to, i64 start, i64 size, u32 bits, Wide<T> scale) {
    if (start + 8 <= size && aligned(from, to)) {
        Pack<T, 8> pack = load<8>(from + start);
        for (int n = 0; n < 8; n++) pack.at[n] = narrow<T>(widen(pack.at[n]) * (bits >> n & 1 ? scale : Wide<T>(0)));
        store<8>(to + start, pack);
    } else {
        for (int n = 0; n < 8 && start + n < size; n++)
            to[start + n] = narrow<T>(widen(from[start + n]) * (bits >> n & 1 ? scale : Wide<T>(0)));
    }
}

template <class T>
__global__ void dropout_forward(const T *x, T *y, u8 *kept, i64 size, i64 first, const double *scalars, i64 step,
                                i64 draw, i64 key0, i64 key1, double ratio, double scale) {
    const u64 iteration = (u64)scalars[step], from = (u64)first / 8;
    const int shift = (int)(first % 8);
    const i64 blocks = (size + 7) / 8;
    for (i64 block = (i64)blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += (i64)gridDim.x * blockDim.x) {
        Words words = philox(from + (u64)block + 1, (u64)draw, iteration, (u64)key0, (u64)key1);
        u32 bits = 0;
        for (int n = 0; n < 8; n++) {
            const int at = (n + shift) % 8;
            if (n && !at) words = philox(from + (u64)block + 2, (u64)draw, iteration, (u64)key0, (u64)key1);
            const u32 half = (u32)(words.at[at / 2] >> (at % 2 * 32));
            const float uniform = (float)(half >> 8) * 5.9604644775390625e-8f;
            if (uniform >= (float)ratio) bits |= 1u << n;
        }
        kept[block] = (u8)bits;
        mask_eight(x, y, block * 8, size, bits, (Wide<T>)scale);
    }
}

template <class T> __global__ void dropout_backward(const u8 *kept, const T *dy, T *dx, i64 size, double scale) {
    const i64 blocks = (size + 7) / 8;
    for (i64 block = (i64)blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += (i64)gridDim.x * blockDim.x)
        mask_eight(dy, dx, block * 8, size, kept[block], (Wide<T>)scale);
}
