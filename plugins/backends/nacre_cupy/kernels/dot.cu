// The dot product of two vectors. It is summed up in parts, each by one block, in float64, and a block adds up the parts:
// always in one order.

#include "common.cuh"

template <class T> __global__ void dot_parts(const T *a, const T *b, double *parts, i64 size) {
    double sum = 0;
    for_each<T>(size, aligned(a, b), [&](auto lanes, i64 start) {
        const int N = decltype(lanes)::value;
        const Pack<T, N> one = load<N>(a + start), other = load<N>(b + start);
        for (int n = 0; n < N; n++) sum += (double)one.at[n] * (double)other.at[n];
    });
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// One block.
template <class T> __global__ void dot_total(const double *parts, T *result, i64 count) {
    double sum = 0;
    for (i64 part = threadIdx.x; part < count; part += blockDim.x) sum += parts[part];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *result = (T)sum;
}
