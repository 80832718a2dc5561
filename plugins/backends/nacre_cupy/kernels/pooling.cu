// Max and mean pooling over one or two neighbouring axes: arrays are (outer, rows, columns, inner), so one text serves
// images in C order (inner is 1) and with the channels last. A gradient is gathered from the windows that have a cell:
// there are no atomics, and the sums have one order, that of the layer's own state.

#include "common.cuh"

struct Windows { // along one axis: cell k of window i is pixel i stride - pad + k; `reach` is length and padding behind
    int length, kernel, stride, pad, reach, count;

    __device__ int start(int window) const { return window * stride - pad; }
    __device__ int first_cell(int window) const { return start(window) < 0 ? -start(window) : 0; }
    __device__ int end_cell(int window) const {
        const int left = length - start(window);
        return left < kernel ? left : kernel;
    }
    // The windows that have a pixel.
    __device__ int first_with(int pixel) const {
        const int before = pixel + pad - kernel;
        return before < 0 ? 0 : before / stride + 1;
    }
    __device__ int last_with(int pixel) const {
        const int last = (pixel + pad) / stride;
        return last < count ? last : count - 1;
    }
    // How many cells of a window count: those in the padded image (0), in the whole window (1), or in the image (2).
    __device__ int cells(int window, int divide_by) const {
        const int low = divide_by == 2 ? 0 : -pad, high = divide_by == 2 ? length : reach;
        const int from = start(window) < low ? low : start(window);
        const int end = start(window) + kernel;
        return divide_by == 1 ? kernel : (end < high ? end : high) - from;
    }
};

struct Grid {
    int outer, inner;
    Windows down, across;

    __device__ u32 pixels() const { return (u32)down.length * across.length; }
    __device__ u32 windows() const { return (u32)down.count * across.count; }
};

#define GRID_ARGUMENTS                                                                                                 \
    i64 outer, i64 inner, i64 rows, i64 kernel_rows, i64 stride_rows, i64 pad_rows, i64 reach_rows, i64 count_rows,    \
        i64 columns, i64 kernel_columns, i64 stride_columns, i64 pad_columns, i64 reach_columns, i64 count_columns
#define GRID                                                                                                           \
    Grid {                                                                                                             \
        (int)outer, (int)inner,                                                                                        \
            {(int)rows, (int)kernel_rows, (int)stride_rows, (int)pad_rows, (int)reach_rows, (int)count_rows}, {        \
            (int)columns, (int)kernel_columns, (int)stride_columns, (int)pad_columns, (int)reach_columns,              \
                (int)count_columns                                                                                     \
        }                                                                                                              \
    }

// Where a thread works: image `outer`, the window or pixel (row, column), and N neighbours along the inner axis.
struct Place {
    int image, row, column, channel;
};
template <int N> __device__ inline Place place_of(u32 item, int columns, int rows, int inner) {
    const u32 groups = (u32)inner / N;
    Place place;
    place.channel = item % groups * N;
    item /= groups;
    place.column = item % columns;
    item /= columns;
    place.row = item % rows;
    place.image = item / rows;
    return place;
}

template <int N, class T, class Index>
__device__ void max_windows(const T *x, T *y, Index *winners, i64 *mask, i64 mask_window, i64 mask_channel, Grid g) {
    typedef Wide<T> W;
    const u32 items = (u32)g.outer * g.windows() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = place_of<N>(item, g.across.count, g.down.count, g.inner);
        const int row = g.down.start(p.row), column = g.across.start(p.column);
        W best[N];
        int cell[N]; // below 0 until there is one
        for (int n = 0; n < N; n++) {
            best[n] = 0;
            cell[n] = -1;
        }
        for (int a = g.down.first_cell(p.row); a < g.down.end_cell(p.row); a++) {
            const T *line = x + (((i64)p.image * g.down.length + row + a) * g.across.length + column) * g.inner;
            for (int b = g.across.first_cell(p.column); b < g.across.end_cell(p.column); b++) {
                const Pack<T, N> pack = load<N>(line + (i64)b * g.inner + p.channel);
                for (int n = 0; n < N; n++) {
                    const W value = widen(pack.at[n]);
                    // the first of equal ones, and the first NaN
                    if (cell[n] < 0 || value > best[n] || (value != value && best[n] == best[n])) {
                        best[n] = value;
                        cell[n] = a * g.across.kernel + b;
                    }
                }
            }
        }
        const i64 window = ((i64)p.image * g.down.count + p.row) * g.across.count + p.column;
        Pack<T, N> top;
        Pack<Index, N> winner;
        for (int n = 0; n < N; n++) {
            top.at[n] = narrow<T>(best[n]);
            winner.at[n] = (Index)cell[n];
            if (mask != nullptr) {
                const i64 in_image = (i64)p.row * g.across.count + p.column;
                const i64 at = (i64)p.image * g.windows() * g.inner + in_image * mask_window + (p.channel + n) * mask_channel;
                mask[at] = (i64)(row + cell[n] / g.across.kernel) * g.across.length + column + cell[n] % g.across.kernel;
            }
        }
        store<N>(y + window * g.inner + p.channel, top);
        if (winners != nullptr) store<N>(winners + window * g.inner + p.channel, winner);
    }
}

// y = the maximum of every window; `winners` gets the number of its cell in the window, `mask` that of its pixel in the
// image, with the given distance of neighbouring windows and channels. Both may be null.
template <class T, class Index>
__global__ void max_forward(const T *x, T *y, Index *winners, i64 *mask, i64 mask_window, i64 mask_channel,
                            GRID_ARGUMENTS) {
    const Grid g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(x, y, winners))
        max_windows<Lanes<T>::most>(x, y, winners, mask, mask_window, mask_channel, g);
    else
        max_windows<1>(x, y, winners, mask, mask_window, mask_channel, g);
}

template <int N, class T, class Index> __device__ void max_pixels(const Index *winners, const T *dy, T *dx, Grid g) {
    const u32 items = (u32)g.outer * g.pixels() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = place_of<N>(item, g.across.length, g.down.length, g.inner);
        Wide<T> sum[N];
        for (int n = 0; n < N; n++) sum[n] = 0;
        for (int i = g.down.last_with(p.row); i >= g.down.first_with(p.row); i--) {
            const int a = p.row - g.down.start(i);
            for (int j = g.across.last_with(p.column); j >= g.across.first_with(p.column); j--) {
                const int cell = a * g.across.kernel + p.column - g.across.start(j);
                const i64 at = (((i64)p.image * g.down.count + i) * g.across.count + j) * g.inner + p.channel;
                const Pack<Index, N> winner = load<N>(winners + at);
                const Pack<T, N> pack = load<N>(dy + at);
                for (int n = 0; n < N; n++)
                    if (winner.at[n] == cell) sum[n] += widen(pack.at[n]);
            }
        }
        Pack<T, N> result;
        for (int n = 0; n < N; n++) result.at[n] = narrow<T>(sum[n]);
        store<N>(dx + (((i64)p.image * g.down.length + p.row) * g.across.length + p.column) * g.inner + p.channel, result);
    }
}

template <class T, class Index>
__global__ void max_backward(const Index *winners, const T *dy, T *dx, GRID_ARGUMENTS) {
    const Grid g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(winners, dy, dx))
        max_pixels<Lanes<T>::most>(winners, dy, dx, g);
    else
        max_pixels<1>(winners, dy, dx, g);
}

template <int N, class T> __device__ void mean_windows(const T *x, T *y, int divide_by, Grid g) {
    const u32 items = (u32)g.outer * g.windows() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = place_of<N>(item, g.across.count, g.down.count, g.inner);
        const int row = g.down.start(p.row), column = g.across.start(p.column);
        Wide<T> sum[N];
        for (int n = 0; n < N; n++) sum[n] = 0;
        for (int a = g.down.first_cell(p.row); a < g.down.end_cell(p.row); a++) {
            const T *line = x + (((i64)p.image * g.down.length + row + a) * g.across.length + column) * g.inner;
            for (int b = g.across.first_cell(p.column); b < g.across.end_cell(p.column); b++) {
                const Pack<T, N> pack = load<N>(line + (i64)b * g.inner + p.channel);
                for (int n = 0; n < N; n++) sum[n] += widen(pack.at[n]);
            }
        }
        const Wide<T> size = (Wide<T>)(g.down.cells(p.row, divide_by) * g.across.cells(p.column, divide_by));
        Pack<T, N> top;
        for (int n = 0; n < N; n++) top.at[n] = narrow<T>(sum[n] / size);
        store<N>(y + (((i64)p.image * g.down.count + p.row) * g.across.count + p.column) * g.inner + p.channel, top);
    }
}

template <class T> __global__ void mean_forward(const T *x, T *y, i64 divide_by, GRID_ARGUMENTS) {
    const Grid g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(x, y))
        mean_windows<Lanes<T>::most>(x, y, (int)divide_by, g);
    else
        mean_windows<1>(x, y, (int)divide_by, g);
}

template <int N, class T> __device__ void mean_pixels(const T *dy, T *dx, int divide_by, Grid g) {
    const u32 items = (u32)g.outer * g.pixels() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = place_of<N>(item, g.across.length, g.down.length, g.inner);
        Wide<T> sum[N];
        for (int n = 0; n < N; n++) sum[n] = 0;
        for (int i = g.down.last_with(p.row); i >= g.down.first_with(p.row); i--) {
            for (int j = g.across.last_with(p.column); j >= g.across.first_with(p.column); j--) {
                const Wide<T> size = (Wide<T>)(g.down.cells(i, divide_by) * g.across.cells(j, divide_by));
                const Pack<T, N> pack =
                    load<N>(dy + (((i64)p.image * g.down.count + i) * g.across.count + j) * g.inner + p.channel);
                for (int n = 0; n < N; n++) sum[n] += widen(pack.at[n]) / size;
            }
        }
        Pack<T, N> result;
        for (int n = 0; n < N; n++) result.at[n] = narrow<T>(sum[n]);
        store<N>(dx + (((i64)p.image * g.down.length + p.row) * g.across.length + p.column) * g.inner + p.channel, result);
    }
}

template <class T> __global__ void mean_backward(const T *dy, T *dx, i64 divide_by, GRID_ARGUMENTS) {
    const Grid g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(dy, dx))
        mean_pixels<Lanes<T>::most>(dy, dx, (int)divide_by, g);
    else
        mean_pixels<1>(dy, dx, (int)divide_by, g);
}
