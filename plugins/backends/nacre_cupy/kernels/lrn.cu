// Local response normalisation: y = x / norm^power with norm = shift + factor Σ x² over a window around each number.
// Arrays are (outer, rows, columns, inner), the windows along rows and columns: along the channels there is one column,
// and within a channel they are those of the image. Positions outside count as 0. The gradient gathers from the windows
// that have a number, and reads their norm, which forward leaves.

#include "common.cuh"

struct Reach { // a window goes from `down` before a number to `up` behind it
    int length, down, up;

    __device__ int first(int at, int before) const { return at < before ? 0 : at - before; }
    __device__ int end(int at, int behind) const { return at + behind < length ? at + behind + 1 : length; }
};

struct Extent {
    int outer, inner;
    Reach rows, columns;

    __device__ u32 items(int lanes) const { return (u32)outer * rows.length * columns.length * (inner / lanes); }
};

#define EXTENT_ARGUMENTS i64 outer, i64 inner, i64 rows, i64 columns, i64 down, i64 up, i64 down_columns, i64 up_columns
#define EXTENT                                                                                                         \
    Extent {                                                                                                           \
        (int)outer, (int)inner, {(int)rows, (int)down, (int)up}, { (int)columns, (int)down_columns, (int)up_columns }  \
    }

template <class W> __device__ inline W raised(W norm, W power) {
    if (power == W(0.75)) { // two roots are much faster
        const W root = sqrt(norm);
        return root * sqrt(root);
    }
    return pow(norm, power);
}

template <int N, class T>
__device__ void normalise(const T *x, T *y, Wide<T> *norms, Wide<T> factor, Wide<T> shift, Wide<T> power, Extent e) {
    typedef Wide<T> W;
    const u32 groups = e.inner / N, items = e.items(N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const int column = item / groups % e.columns.length;
        const int row = item / groups / e.columns.length % e.rows.length;
        W norm[N];
        for (int n = 0; n < N; n++) norm[n] = 0;
        for (int i = e.rows.first(row, e.rows.down); i < e.rows.end(row, e.rows.up); i++)
            for (int j = e.columns.first(column, e.columns.down); j < e.columns.end(column, e.columns.up); j++) {
                const i64 apart = (i64)(i - row) * e.columns.length + j - column;
                const Pack<T, N> pack = load<N>(x + (i64)item * N + apart * e.inner);
                for (int n = 0; n < N; n++) norm[n] += widen(pack.at[n]) * widen(pack.at[n]) * factor;
            }
        const Pack<T, N> pack = load<N>(x + (i64)item * N);
        Pack<T, N> top;
        Pack<W, N> kept;
        for (int n = 0; n < N; n++) {
            kept.at[n] = norm[n] + shift;
            top.at[n] = narrow<T>(widen(pack.at[n]) / raised(kept.at[n], power));
        }
        store<N>(y + (i64)item * N, top);
        if (norms != nullptr) store<N>(norms + (i64)item * N, kept);
    }
}

template <class T>
__global__ void lrn_forward(const T *x, T *y, Wide<T> *norms, double factor, double shift, double power,
                            EXTENT_ARGUMENTS) {
    typedef Wide<T> W;
    const Extent e = EXTENT;
    if (inner % Lanes<T>::most == 0 && aligned(x, y, norms))
        normalise<Lanes<T>::most>(x, y, norms, (W)factor, (W)shift, (W)power, e);
    else
        normalise<1>(x, y, norms, (W)factor, (W)shift, (W)power, e);
}

// dx = dy / norm^power - twice x Σ (dy x / norm^(power + 1)), over the windows that have the number; `twice` is
// 2 power factor.
template <int N, class T>
__device__ void differentiate(const T *x, const Wide<T> *norms, const T *dy, T *dx, Wide<T> twice, Wide<T> power, Extent e) {
    typedef Wide<T> W;
    const u32 groups = e.inner / N, items = e.items(N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const int column = item / groups % e.columns.length;
        const int row = item / groups / e.columns.length % e.rows.length;
        W sum[N], direct[N];
        for (int n = 0; n < N; n++) sum[n] = direct[n] = 0;
        for (int i = e.rows.first(row, e.rows.up); i < e.rows.end(row, e.rows.down); i++)
            for (int j = e.columns.first(column, e.columns.up); j < e.columns.end(column, e.columns.down); j++) {
                const i64 at = (i64)item * N + ((i64)(i - row) * e.columns.length + j - column) * e.inner;
                const Pack<T, N> given = load<N>(x + at), gradient = load<N>(dy + at);
                const Pack<W, N> norm = load<N>(norms + at);
                for (int n = 0; n < N; n++) {
                    const W part = widen(gradient.at[n]) / raised(norm.at[n], power);
                    sum[n] += part * widen(given.at[n]) / norm.at[n];
                    if (i == row && j == column) direct[n] = part;
                }
            }
        const Pack<T, N> given = load<N>(x + (i64)item * N);
        Pack<T, N> result;
        for (int n = 0; n < N; n++) result.at[n] = narrow<T>(direct[n] - sum[n] * widen(given.at[n]) * twice);
        store<N>(dx + (i64)item * N, result);
    }
}

template <class T>
__global__ void lrn_backward(const T *x, const Wide<T> *norms, const T *dy, T *dx, double twice, double power,
                             EXTENT_ARGUMENTS) {
    typedef Wide<T> W;
    const Extent e = EXTENT;
    if (inner % Lanes<T>::most == 0 && aligned(x, norms, dy, dx))
        differentiate<Lanes<T>::most>(x, norms, dy, dx, (W)twice, (W)power, e);
    else
        differentiate<1>(x, norms, dy, dx, (W)twice, (W)power, e);
}
