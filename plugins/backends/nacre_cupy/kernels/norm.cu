// LayerNorm and RMSNorm: y = scale (x - mean) / sqrt(variance + epsilon) + bias for each row; RMSNorm takes 0 for the mean.
// Arrays are (rows, size). `lanes` threads work on a row: a power of 2 up to those of a warp, or a whole block. A row is
// read from memory once, and then from a cache. Sums always have one order.

#include "common.cuh"
#include "columns.cuh"

// The sum over the threads of a row, for each of them. All threads of a warp call it, and of a block if rows have one each.
template <class W> __device__ inline W row_sum(W value, u32 lanes) {
    __shared__ W parts[BLOCK / 32];
    for (u32 step = (lanes < 32 ? lanes : 32) / 2; step > 0; step /= 2) value += __shfl_xor_sync(WARP, value, step);
    if (lanes <= 32) return value;
    __syncthreads(); // what an earlier call has left has been read
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (u32 warp = 0; warp < BLOCK / 32; warp++) value += parts[warp];
    return value;
}

// Calls work(row, lane) on all threads alike; the last rows may not be there.
template <class Work> __device__ inline void for_rows(i64 rows, u32 lanes, Work work) {
    const i64 each = BLOCK / lanes, here = threadIdx.x / lanes;
    for (i64 first = blockIdx.x * each; first < rows; first += gridDim.x * each) work(first + here, threadIdx.x % lanes);
}

// What is kept of a row: the mean, with the rest that its type could not hold, and 1 / sqrt(variance + epsilon).
template <class W> struct Kept {
    W mean, rest, slope;

    __device__ W normal(W x) const { return ((x - mean) - rest) * slope; }
};

template <int N, class T> __device__ inline Pack<Wide<T>, N> learned(const Wide<T> *from, i64 at, Wide<T> otherwise) {
    Pack<Wide<T>, N> pack;
    if (from != nullptr) return load<N>(from + at);
    for (int n = 0; n < N; n++) pack.at[n] = otherwise;
    return pack;
}

template <int N, class T>
__device__ inline void rows_forward(const T *x, T *y, const Wide<T> *scale, const Wide<T> *bias, Kept<Wide<T>> *kept,
                                    i64 rows, i64 size, bool centred, Wide<T> epsilon, u32 lanes) {
    typedef Wide<T> W;
    for_rows(rows, lanes, [&](i64 row, u32 lane) {
        const bool there = row < rows;
        const T *from = x + (there ? row : 0) * size;
        Kept<W> one = {0, 0, 0};
        if (centred) {
            const W first = widen(from[0]);
            W sum = 0;
            for (i64 at = lane * N; there && at < size; at += lanes * N) {
                const Pack<T, N> pack = load<N>(from + at);
                for (int n = 0; n < N; n++) sum += widen(pack.at[n]) - first;
            }
            one.mean = first + row_sum(sum, lanes) / (W)size;
        }
        W rest = 0, squares = 0;
        for (i64 at = lane * N; there && at < size; at += lanes * N) {
            const Pack<T, N> pack = load<N>(from + at);
            for (int n = 0; n < N; n++) {
                const W apart = widen(pack.at[n]) - one.mean;
                rest += apart;
                squares += apart * apart;
            }
        }
        if (centred) one.rest = row_sum(rest, lanes) / (W)size;
        const W variance = row_sum(squares, lanes) / (W)size - multiplied(one.rest, one.rest);
        one.slope = W(1) / sqrt((variance < 0 ? W(0) : variance) + epsilon);
        for (i64 at = lane * N; there && at < size; at += lanes * N) {
            const Pack<T, N> pack = load<N>(from + at);
            const Pack<W, N> by = learned<N, T>(scale, at, 1), more = learned<N, T>(bias, at, 0);
            Pack<T, N> top;
            for (int n = 0; n < N; n++) top.at[n] = narrow<T>(one.normal(widen(pack.at[n])) * by.at[n] + more.at[n]);
            store<N>(y + row * size + at, top);
        }
        if (kept != nullptr && there && lane == 0) kept[row] = one;
    });
}

// Any of scale, bias and kept may be null.
template <class T>
__global__ void norm_forward(const T *x, T *y, const Wide<T> *scale, const Wide<T> *bias, Kept<Wide<T>> *kept, i64 rows,
                             i64 size, i64 centred, double epsilon, i64 lanes) {
    const int most = Lanes<T>::most;
    if (size % most == 0 && aligned(x, y, scale, bias))
        rows_forward<most>(x, y, scale, bias, kept, rows, size, centred != 0, (Wide<T>)epsilon, (u32)lanes);
    else
        rows_forward<1>(x, y, scale, bias, kept, rows, size, centred != 0, (Wide<T>)epsilon, (u32)lanes);
}

template <int N, class T>
__device__ inline void rows_backward(const T *x, const T *dy, T *dx, const Wide<T> *scale, const Kept<Wide<T>> *kept,
                                     i64 rows, i64 size, bool centred, u32 lanes) {
    typedef Wide<T> W;
    for_rows(rows, lanes, [&](i64 row, u32 lane) {
        const bool there = row < rows;
        const i64 from = (there ? row : 0) * size;
        const Kept<W> one = kept[there ? row : 0];
        W sum = 0, slope = 0;
        for (i64 at = lane * N; there && at < size; at += lanes * N) {
            const Pack<T, N> given = load<N>(x + from + at), gradient = load<N>(dy + from + at);
            const Pack<W, N> by = learned<N, T>(scale, at, 1);
            for (int n = 0; n < N; n++) {
                const W passed = widen(gradient.at[n]) * by.at[n];
                sum += passed;
                slope += passed * one.normal(widen(given.at[n]));
            }
        }
        sum = centred ? row_sum(sum, lanes) / (W)size : W(0);
        slope = row_sum(slope, lanes) / (W)size;
        for (i64 at = lane * N; there && at < size; at += lanes * N) {
            const Pack<T, N> given = load<N>(x + from + at), gradient = load<N>(dy + from + at);
            const Pack<W, N> by = learned<N, T>(scale, at, 1);
            Pack<T, N> bottom;
            for (int n = 0; n < N; n++) {
                const W passed = widen(gradient.at[n]) * by.at[n];
                bottom.at[n] = narrow<T>(((passed - sum) - one.normal(widen(given.at[n])) * slope) * one.slope);
            }
            store<N>(dx + from + at, bottom);
        }
    });
}

template <class T>
__global__ void norm_backward(const T *x, const T *dy, T *dx, const Wide<T> *scale, const Kept<Wide<T>> *kept, i64 rows,
                              i64 size, i64 centred, i64 lanes) {
    const int most = Lanes<T>::most;
    if (size % most == 0 && aligned(x, dy, dx, scale))
        rows_backward<most>(x, dy, dx, scale, kept, rows, size, centred != 0, (u32)lanes);
    else
        rows_backward<1>(x, dy, dx, scale, kept, rows, size, centred != 0, (u32)lanes);
}

template <int N, class T>
__device__ inline void sum_columns(const T *x, const T *dy, const Kept<Wide<T>> *kept, double *scales, double *biases,
                                   u32 n_parts, i64 rows, u32 size) {
    const Columns<N> here(size);
    if (here.part >= n_parts) return;
    double sums[2 * N];
    for (int n = 0; n < 2 * N; n++) sums[n] = 0;
    here.for_rows(rows, n_parts, [&](i64 row) {
        const i64 at = row * size + here.column;
        const Pack<T, N> given = load<N>(x + at), gradient = load<N>(dy + at);
        const Kept<Wide<T>> one = kept[row];
        for (int n = 0; n < N; n++) {
            const Wide<T> passed = widen(gradient.at[n]);
            sums[n] += (double)(passed * one.normal(widen(given.at[n])));
            sums[N + n] += (double)passed;
        }
    });
    here.add_up(sums, [&](int number, double all) {
        (number < N ? scales : biases)[(i64)here.part * size + here.column + number % N] = all;
    });
}

// The gradients of scale and bias, in parts, which `bias_total` adds up. There are n_parts blocks for each 256 columns, of
// which fewer are needed where packs are read.
template <class T>
__global__ void norm_columns(const T *x, const T *dy, const Kept<Wide<T>> *kept, double *scales, double *biases,
                             i64 n_parts, i64 rows, i64 size) {
    const int most = Lanes<T>::most;
    if (size % most == 0 && aligned(x, dy)) sum_columns<most>(x, dy, kept, scales, biases, (u32)n_parts, rows, (u32)size);
    else sum_columns<1>(x, dy, kept, scales, biases, (u32)n_parts, rows, (u32)size);
}
