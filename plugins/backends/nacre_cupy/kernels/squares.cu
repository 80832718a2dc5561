// Convolutions that step over images of few channels, as ones that go pixel by pixel over squares: what is in a square of
// `down` x `across` pixels is the channels of one pixel, in the order (row, column, channel), and up to a whole number of
// vectors there are zeros. Images lie with the channels last; arguments are those of squares.py.

#include "common.cuh"

struct Square {
    int down, across, channels;

    __device__ int size() const { return down * across * channels; }
    __device__ int row(int at) const { return at / (across * channels); }
    __device__ int column(int at) const { return at / channels % across; }
    __device__ int channel(int at) const { return at % channels; }
};

// (images, height, width, channels) -> (images, rows, columns, wide), where `wide` channels are a multiple of Lanes; the
// first square begins `above` rows before the image and `before` columns.
template <class T>
__global__ void square_images(const T *x, T *to, i64 images, i64 height, i64 width, i64 channels, i64 down, i64 across,
                              i64 above, i64 before, i64 rows, i64 columns, i64 wide) {
    const int N = Lanes<T>::most;
    const Square square = {(int)down, (int)across, (int)channels};
    const u32 groups = wide / N, items = (u32)(images * rows * columns) * groups;
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const u32 pixel = item / groups, image = pixel / (u32)(rows * columns);
        const int top = (int)(pixel / (u32)columns % (u32)rows) * square.down - (int)above;
        const int left = (int)(pixel % (u32)columns) * square.across - (int)before;
        Pack<T, N> made;
#pragma unroll
        for (int n = 0; n < N; n++) {
            const int at = (int)(item % groups) * N + n, i = top + square.row(at), j = left + square.column(at);
            const bool inside = at < square.size() && i >= 0 && i < height && j >= 0 && j < width;
            made.at[n] = narrow<T>(Wide<T>(0));
            if (inside) made.at[n] = x[((image * height + i) * width + j) * channels + square.channel(at)];
        }
        store<N>(to + (i64)item * N, made);
    }
}

// The filters (filters, channels, height, width) of the layer -> (filters, rows, columns, wide).
template <class T>
__global__ void square_filters(const float *w, T *to, i64 filters, i64 height, i64 width, i64 channels, i64 down,
                               i64 across, i64 rows, i64 columns, i64 wide) {
    const Square square = {(int)down, (int)across, (int)channels};
    const u32 items = (u32)(filters * rows * columns * wide);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const int at = (int)(item % (u32)wide), cell = (int)(item / (u32)wide % (u32)(rows * columns));
        const int i = cell / (int)columns * square.down + square.row(at);
        const int j = cell % (int)columns * square.across + square.column(at);
        const u32 filter = item / (u32)(rows * columns * wide);
        const bool inside = at < square.size() && i < height && j < width;
        to[item] = narrow<T>(inside ? w[((filter * channels + square.channel(at)) * height + i) * width + j] : 0.0f);
    }
}

// The way back, of the filters' gradient: every number of the layer's is one of the squares'.
template <class T>
__global__ void filters_of_squares(const T *from, float *w, i64 filters, i64 height, i64 width, i64 channels, i64 down,
                                   i64 across, i64 rows, i64 columns, i64 wide) {
    const u32 items = (u32)(filters * channels * height * width);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const int j = (int)(item % (u32)width), i = (int)(item / (u32)width % (u32)height);
        const int channel = (int)(item / (u32)(width * height) % (u32)channels);
        const u32 filter = item / (u32)(width * height * channels);
        const int at = (i % (int)down * (int)across + j % (int)across) * (int)channels + channel;
        const i64 cell = (filter * rows + i / (int)down) * columns + j / (int)across;
        w[item] = widen(from[cell * wide + at]);
    }
}
