// Max and mean pooling over up to three neighbouring axes: arrays are (outer, rows, columns, inner), so one text serves
// images in C order (inner is 1) and with the channels last, or (outer, planes, rows, columns, inner) in kernels that are
// `deep`. A gradient is gathered from the windows that have a cell: there are no atomics, and the sums have one order, that
// of the layer's own state.

#include "common.cuh"

struct Windows { // along one axis: cell k of window i is pixel i stride - pad + k; `reach` is length and padding behind
    Divisor length, stride, count;
    int kernel, pad, reach;

    __device__ int start(int window) const { return window * stride - pad; }
    __device__ int first_cell(int window) const { return start(window) < 0 ? -start(window) : 0; }
    __device__ int end_cell(int window) const {
        const int left = length - start(window);
        return left < kernel ? left : kernel;
    }
    // Calls work(window, cell) for all windows that have a pixel, from the last one on.
    template <class Work> __device__ void for_windows_with(int pixel, Work work) const {
        const int begun = (int)stride.quotient(pixel + pad);
        int window = begun < count ? begun : count - 1, cell = pixel - start(window);
        for (; window >= 0 && cell < kernel; window--, cell += stride) work(window, cell);
    }
    // How many cells of a window count: those in the padded image (0), in the whole window (1), or in the image (2).
    __device__ int cells(int window, int divide_by) const {
        const int low = divide_by == 2 ? 0 : -pad, high = divide_by == 2 ? length : reach;
        const int from = start(window) < low ? low : start(window);
        const int end = start(window) + kernel;
        return divide_by == 1 ? kernel : (end < high ? end : high) - from;
    }
};

// Where a thread works: image `image`, the window or pixel (plane, row, column), and N neighbours along the inner axis from
// `channel` on.
struct Place {
    u32 image;
    int plane, row, column, channel;
};

template <bool deep> struct Grid { // places in arrays are counted with 32 bits
    int outer;
    Divisor inner;
    Windows through, down, across;

    __device__ u32 pixels() const { return (deep ? (u32)through.length : 1) * down.length * across.length; }
    __device__ u32 windows() const { return (deep ? (u32)through.count : 1) * down.count * across.count; }

    __device__ Place place(u32 number, const Divisor &planes, const Divisor &rows, const Divisor &columns) const {
        Place p;
        p.image = rows.quotient(columns.quotient(inner.quotient(number, p.channel), p.column), p.row);
        p.plane = 0;
        if (deep) p.image = planes.quotient(p.image, p.plane);
        return p;
    }
    __device__ Place pixel(u32 number) const { return place(number, through.length, down.length, across.length); }
    __device__ Place window(u32 number) const { return place(number, through.count, down.count, across.count); }

    // The first of the numbers in channel `channel` of a pixel.
    __device__ u32 pixel_at(u32 image, int plane, int row, int column, int channel) const {
        const u32 before = deep ? image * through.length + plane : image;
        return ((before * down.length + row) * across.length + column) * inner + channel;
    }
    __device__ u32 window_at(u32 image, int plane, int row, int column, int channel) const {
        const u32 before = deep ? image * through.count + plane : image;
        return ((before * down.count + row) * across.count + column) * inner + channel;
    }

    // Calls work(plane, row, line) for all lines of a window's cells that lie in the image; lines are counted over all planes.
    template <class Work> __device__ void for_rows_of(const Place &p, Work work) const {
        const int from = deep ? through.first_cell(p.plane) : 0, to = deep ? through.end_cell(p.plane) : 1;
        for (int c = from; c < to; c++)
            for (int a = down.first_cell(p.row); a < down.end_cell(p.row); a++)
                work(deep ? through.start(p.plane) + c : 0, down.start(p.row) + a, c * down.kernel + a);
    }
    // Calls work(plane, row, column, cell) for all windows that have a pixel, from the last one on.
    template <class Work> __device__ void for_windows_with(const Place &p, Work work) const {
        const auto of_plane = [&](int h, int c) {
            down.for_windows_with(p.row, [&](int i, int a) {
                across.for_windows_with(p.column, [&](int j, int b) {
                    work(h, i, j, (c * down.kernel + a) * across.kernel + b);
                });
            });
        };
        if (deep) through.for_windows_with(p.plane, of_plane);
        else of_plane(0, 0);
    }
    // How many cells of a window count.
    __device__ int cells(int plane, int row, int column, int divide_by) const {
        const int in_plane = down.cells(row, divide_by) * across.cells(column, divide_by);
        return deep ? through.cells(plane, divide_by) * in_plane : in_plane;
    }
};

#define AXIS_ARGUMENTS(of)                                                                                             \
    i64 length##of, i64 length_inverse##of, i64 kernel##of, i64 stride##of, i64 stride_inverse##of, i64 pad##of,       \
        i64 reach##of, i64 count##of, i64 count_inverse##of
#define AXIS(of)                                                                                                       \
    {                                                                                                                  \
        Divisor(length##of, length_inverse##of), Divisor(stride##of, stride_inverse##of),                              \
            Divisor(count##of, count_inverse##of), (int)kernel##of, (int)pad##of, (int)reach##of                       \
    }
#define GRID_ARGUMENTS                                                                                                 \
    i64 outer, i64 inner, i64 inner_inverse, AXIS_ARGUMENTS(_planes), AXIS_ARGUMENTS(_rows), AXIS_ARGUMENTS(_columns)
#define GRID                                                                                                           \
    Grid<deep> { (int)outer, Divisor(inner, inner_inverse), AXIS(_planes), AXIS(_rows), AXIS(_columns) }

template <int N, class T, class Index, bool deep>
__device__ void max_windows(const T *x, T *y, Index *winners, i64 *mask, i64 mask_window, i64 mask_channel,
                            Grid<deep> g) {
    typedef Wide<T> W;
    const u32 items = g.outer * g.windows() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = g.window(item * N);
        const int column = g.across.start(p.column);
        const int first = g.across.first_cell(p.column), end = g.across.end_cell(p.column);
        W best[N];
        int cell[N];
        const int lines = deep ? g.through.first_cell(p.plane) * g.down.kernel : 0;
        for (int n = 0; n < N; n++) {
            best[n] = minus_infinity<W>();
            cell[n] = (lines + g.down.first_cell(p.row)) * g.across.kernel + first; // it stays if no number is larger
        }
        g.for_rows_of(p, [&](int plane, int row, int line) {
            const T *from = x + g.pixel_at(p.image, plane, row, column + first, p.channel);
            for (int b = first; b < end; b++, from += g.inner) {
                const Pack<T, N> pack = load<N>(from);
                for (int n = 0; n < N; n++) {
                    const W value = widen(pack.at[n]);
                    // the first of equal ones, and the first NaN
                    if (!(value <= best[n]) && best[n] == best[n]) {
                        best[n] = value;
                        cell[n] = line * g.across.kernel + b;
                    }
                }
            }
        });
        Pack<T, N> top;
        Pack<Index, N> winner;
        for (int n = 0; n < N; n++) {
            top.at[n] = narrow<T>(best[n]);
            winner.at[n] = (Index)cell[n];
        }
        store<N>(y + item * N, top);
        if (winners != nullptr) store<N>(winners + item * N, winner);
        if (mask != nullptr) {
            const i64 image = (i64)p.image * g.windows() * g.inner;
            const i64 window = ((i64)p.plane * g.down.count + p.row) * g.across.count + p.column;
            i64 *at = mask + image + window * mask_window + p.channel * mask_channel;
            for (int n = 0; n < N; n++, at += mask_channel) {
                const int line = cell[n] / g.across.kernel, b = cell[n] % g.across.kernel;
                const int a = deep ? line % g.down.kernel : line;
                const int plane = deep ? g.through.start(p.plane) + line / g.down.kernel : 0;
                *at = ((i64)plane * g.down.length + g.down.start(p.row) + a) * g.across.length + column + b;
            }
        }
    }
}

// y = the maximum of every window; `winners` gets the number of its cell in the window, `mask` that of its pixel in the
// image, with the given distance of neighbouring windows and channels. Both may be null.
template <class T, class Index, bool deep>
__global__ void max_forward(const T *x, T *y, Index *winners, i64 *mask, i64 mask_window, i64 mask_channel,
                            GRID_ARGUMENTS) {
    const Grid<deep> g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(x, y, winners))
        max_windows<Lanes<T>::most>(x, y, winners, mask, mask_window, mask_channel, g);
    else
        max_windows<1>(x, y, winners, mask, mask_window, mask_channel, g);
}

// Calls work(n) for those of N winners that are a cell.
template <int N, class Index, class Work> __device__ inline void for_winners(const Index *from, int cell, Work work) {
    if constexpr (sizeof(Index) == 1 && N % 4 == 0) { // compared four at a time
        const Pack<u32, N / 4> four = load<N / 4>(reinterpret_cast<const u32 *>(from));
        for (int n = 0; n < N; n++)
            if (((four.at[n / 4] ^ cell * 0x01010101u) & 0xffu << n % 4 * 8) == 0) work(n);
    } else {
        const Pack<Index, N> winner = load<N>(from);
        for (int n = 0; n < N; n++)
            if (winner.at[n] == cell) work(n);
    }
}

template <int N, class T, class Index, bool deep>
__device__ void max_pixels(const Index *winners, const T *dy, T *dx, Grid<deep> g) {
    const u32 items = g.outer * g.pixels() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = g.pixel(item * N);
        Wide<T> sum[N];
        for (int n = 0; n < N; n++) sum[n] = 0;
        g.for_windows_with(p, [&](int plane, int row, int column, int cell) {
            const u32 at = g.window_at(p.image, plane, row, column, p.channel);
            const Pack<T, N> pack = load<N>(dy + at);
            for_winners<N>(winners + at, cell, [&](int n) { sum[n] += widen(pack.at[n]); });
        });
        Pack<T, N> result;
        for (int n = 0; n < N; n++) result.at[n] = narrow<T>(sum[n]);
        store<N>(dx + item * N, result);
    }
}

template <class T, class Index, bool deep>
__global__ void max_backward(const Index *winners, const T *dy, T *dx, GRID_ARGUMENTS) {
    const Grid<deep> g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(winners, dy, dx))
        max_pixels<Lanes<T>::most>(winners, dy, dx, g);
    else
        max_pixels<1>(winners, dy, dx, g);
}

template <int N, class T, bool deep> __device__ void mean_windows(const T *x, T *y, int divide_by, Grid<deep> g) {
    const u32 items = g.outer * g.windows() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = g.window(item * N);
        const int column = g.across.start(p.column);
        const int first = g.across.first_cell(p.column), end = g.across.end_cell(p.column);
        Wide<T> sum[N];
        for (int n = 0; n < N; n++) sum[n] = 0;
        g.for_rows_of(p, [&](int plane, int row, int) {
            const T *from = x + g.pixel_at(p.image, plane, row, column + first, p.channel);
            for (int b = first; b < end; b++, from += g.inner) {
                const Pack<T, N> pack = load<N>(from);
                for (int n = 0; n < N; n++) sum[n] += widen(pack.at[n]);
            }
        });
        const Wide<T> size = (Wide<T>)g.cells(p.plane, p.row, p.column, divide_by);
        Pack<T, N> top;
        for (int n = 0; n < N; n++) top.at[n] = narrow<T>(sum[n] / size);
        store<N>(y + item * N, top);
    }
}

template <class T, bool deep> __global__ void mean_forward(const T *x, T *y, i64 divide_by, GRID_ARGUMENTS) {
    const Grid<deep> g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(x, y))
        mean_windows<Lanes<T>::most>(x, y, (int)divide_by, g);
    else
        mean_windows<1>(x, y, (int)divide_by, g);
}

template <int N, class T, bool deep> __device__ void mean_pixels(const T *dy, T *dx, int divide_by, Grid<deep> g) {
    const u32 items = g.outer * g.pixels() * (g.inner / N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const Place p = g.pixel(item * N);
        Wide<T> sum[N];
        for (int n = 0; n < N; n++) sum[n] = 0;
        g.for_windows_with(p, [&](int plane, int row, int column, int) {
            const Wide<T> size = (Wide<T>)g.cells(plane, row, column, divide_by);
            const Pack<T, N> pack = load<N>(dy + g.window_at(p.image, plane, row, column, p.channel));
            for (int n = 0; n < N; n++) sum[n] += widen(pack.at[n]) / size;
        });
        Pack<T, N> result;
        for (int n = 0; n < N; n++) result.at[n] = narrow<T>(sum[n]);
        store<N>(dx + item * N, result);
    }
}

template <class T, bool deep> __global__ void mean_backward(const T *dy, T *dx, i64 divide_by, GRID_ARGUMENTS) {
    const Grid<deep> g = GRID;
    if (inner % Lanes<T>::most == 0 && aligned(dy, dx))
        mean_pixels<Lanes<T>::most>(dy, dx, (int)divide_by, g);
    else
        mean_pixels<1>(dy, dx, (int)divide_by, g);
}
