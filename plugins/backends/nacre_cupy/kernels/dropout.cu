// Dropout with the random numbers of philox.cuh. A thread makes eight numbers, and leaves a byte with a bit for each one
// that stays, for backward. Number 0 of the array is number `first` of what is drawn, as on one of several ranks.

#include "common.cuh"
#include "philox.cuh"

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
__global__ void dropout_forward(const T *x, T *y, u8 *kept, i64 size, const double *scalars, i64 step, i64 draw,
                                i64 key0, i64 key1, i64 first, double ratio, double scale) {
    const u64 iteration = (u64)scalars[step];
    const i64 blocks = (size + 7) / 8;
    for (i64 block = (i64)blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += (i64)gridDim.x * blockDim.x) {
        const u32 bits = kept_bits(first + block * 8, 8, (float)ratio, (u64)draw, iteration, (u64)key0, (u64)key1);
        kept[block] = (u8)bits;
        mask_eight(x, y, block * 8, size, bits, (Wide<T>)scale);
    }
}

template <class T> __global__ void dropout_backward(const u8 *kept, const T *dy, T *dx, i64 size, double scale) {
    const i64 blocks = (size + 7) / 8;
    for (i64 block = (i64)blockIdx.x * blockDim.x + threadIdx.x; block < blocks; block += (i64)gridDim.x * blockDim.x)
        mask_eight(dy, dx, block * 8, size, kept[block], (Wide<T>)scale);
}
