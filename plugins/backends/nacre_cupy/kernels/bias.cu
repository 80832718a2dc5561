// A bias with a ReLU behind it, its gradient, and that below the ReLU. Arrays are (rows, channels): images with the
// channels last. A channel is summed up in parts, each by one block, in float64, and the warps of a block add up the
// parts: always in one order.

#include "common.cuh"
#include "columns.cuh"

template <int N, class T> __device__ inline void add_to_rows(T *y, const float *bias, i64 size, u32 channels, bool relu) {
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    const u32 groups = channels / N, step = threads % groups;
    u32 group = first % groups;
    for (i64 item = first; item * N < size; item += threads) {
        Pack<T, N> pack = load<N>(y + item * N);
        for (int n = 0; n < N; n++) {
            const Wide<T> sum = widen(pack.at[n]) + (bias == nullptr ? 0 : bias[group * N + n]);
            pack.at[n] = narrow<T>(relu ? larger(sum, Wide<T>(0)) : sum);
        }
        store<N>(y + item * N, pack);
        group += step;
        if (group >= groups) group -= groups;
    }
}

// Adds the bias, if there is one, to each row of y.
template <class T> __global__ void bias_add(T *y, const float *bias, i64 size, i64 channels, i64 relu) {
    const int most = Lanes<T>::most;
    if (channels % most == 0 && aligned(y)) add_to_rows<most>(y, bias, size, (u32)channels, relu != 0);
    else add_to_rows<1>(y, bias, size, (u32)channels, relu != 0);
}

template <int N, class T>
__device__ inline void gate_rows(const T *y, const T *dy, T *below, double *parts, u32 n_parts, i64 rows, u32 channels) {
    const Columns<N> here(channels);
    if (here.part >= n_parts) return;
    double sums[N];
    for (int n = 0; n < N; n++) sums[n] = 0;
    here.for_rows(rows, n_parts, [&](i64 row) {
        const i64 at = row * channels + here.column; // of tops, which may have more numbers than u32 counts
        Pack<T, N> pack = load<N>(dy + at);
        if (y != nullptr) {
            const Pack<T, N> top = load<N>(y + at);
            for (int n = 0; n < N; n++)
                if (!(widen(top.at[n]) > 0)) pack.at[n] = narrow<T>(0);
            store<N>(below + at, pack);
        }
        for (int n = 0; n < N; n++) sums[n] += (double)widen(pack.at[n]);
    });
    here.add_up(sums, [&](int n, double all) { parts[(i64)here.part * channels + here.column + n] = all; });
}

// Where there is y, writes dy where y is above 0, else 0, into `below`; sums up what is left of dy for each channel. There
// are n_parts blocks for each 256 channels, of which fewer are needed where packs are read.
template <class T>
__global__ void bias_parts(const T *y, const T *dy, T *below, double *parts, i64 n_parts, i64 rows, i64 channels) {
    const int most = Lanes<T>::most;
    const bool fit = channels % most == 0 && aligned(y, dy, below);
    if (fit) gate_rows<most>(y, dy, below, parts, (u32)n_parts, rows, (u32)channels);
    else gate_rows<1>(y, dy, below, parts, (u32)n_parts, rows, (u32)channels);
}

template <class T> __global__ void bias_total(const double *parts, T *gradient, i64 n_parts, i64 channels) {
    __shared__ double shared[BLOCK];
    const u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, lines = BLOCK / 32;
    for (i64 first = (i64)blockIdx.x * 32; first < channels; first += (i64)gridDim.x * 32) {
        const i64 channel = first + lane;
        double all = 0;
        for (i64 part = line; part < n_parts && channel < channels; part += lines) all += parts[part * channels + channel];
        __syncthreads(); // what is left of the channels before has been read
        shared[threadIdx.x] = all;
        __syncthreads();
        if (line != 0 || channel >= channels) continue;
        for (u32 other = 1; other < lines; other++) all += shared[other * 32 + lane];
        gradient[channel] = (T)all;
    }
}
