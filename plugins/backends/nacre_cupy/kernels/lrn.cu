// Local response normalisation: y = x / norm^power with norm = shift + factor Σ x² over a window around each number.
// Arrays are (outer, rows, columns, inner), the windows along rows and columns: along the channels there is one column,
// and within a channel they are those of the image. Positions outside count as 0. The gradient gathers from the windows
// that have a number, and reads their norm, which forward leaves.
//
// Where windows lie along neighbours in memory, as along channels that lie last, a thread works on N of them, and reads
// the N before and behind: as far as its windows reach.

#include "common.cuh"

struct Reach { // a window goes from `down` before a number to `up` behind it
    Divisor length;
    int down, up;

    __device__ int first(int at, int before) const { return at < before ? 0 : at - before; }
    __device__ int end(int at, int behind) const { return at + behind < length ? at + behind + 1 : length; }
};

struct Extent {
    int outer;
    Divisor inner;
    Reach rows, columns;

    __device__ u32 items(int lanes) const { return (u32)outer * rows.length * columns.length * (inner / lanes); }
    // Where a number lies along rows and columns.
    __device__ void place(u32 number, int &row, int &column) const {
        rows.length.quotient(columns.length.quotient(inner.quotient(number), column), row);
    }
};

#define EXTENT_ARGUMENTS                                                                                               \
    i64 outer, i64 inner, i64 inner_inverse, i64 rows, i64 rows_inverse, i64 columns, i64 columns_inverse, i64 down,   \
        i64 up, i64 down_columns, i64 up_columns
#define EXTENT                                                                                                         \
    Extent {                                                                                                           \
        (int)outer, Divisor(inner, inner_inverse), {Divisor(rows, rows_inverse), (int)down, (int)up}, {                \
            Divisor(columns, columns_inverse), (int)down_columns, (int)up_columns                                      \
        }                                                                                                              \
    }

// What a number is multiplied with: 1 / norm^power, and `again` what its part in the gradients of others is, 1 / norm.
// USUAL is whether the power is 0.75, which two roots do much faster; it is asked once, since the code of other powers
// would part what is computed of neighbours at the same time.
template <bool USUAL, class W> struct Inverse {
    W raised, again;

    __device__ Inverse(W norm, W power) {
        if (USUAL) {
            const W root = rsqrt(norm);
            raised = root * sqrt(root);
            again = root * root;
        } else {
            raised = W(1) / pow(norm, power);
            again = W(1) / norm;
        }
    }
};

template <bool USUAL, int N, class T>
__device__ void normalise(const T *x, T *y, Wide<T> *norms, Wide<T> factor, Wide<T> shift, Wide<T> power, Extent e) {
    typedef Wide<T> W;
    const u32 items = e.items(N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        int row, column;
        e.place(item * N, row, column);
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
            top.at[n] = narrow<T>(widen(pack.at[n]) * Inverse<USUAL, W>(kept.at[n], power).raised);
        }
        store<N>(y + (i64)item * N, top);
        if (norms != nullptr) store<N>(norms + (i64)item * N, kept);
    }
}

// Whether a thread can work on N neighbours along the rows.
template <int N> __device__ inline bool in_line(Extent e) {
    return e.inner == 1 && e.columns.length == 1 && e.rows.length % N == 0 && e.rows.down <= N && e.rows.up <= N;
}

// The sums of what the windows of N numbers have, from `down` before each to `up` behind; `all` begins N numbers before
// the first one.
template <int N, class W> __device__ inline void window_sums(const W *all, int down, int up, W *sums) {
    for (int n = 0; n < N; n++) sums[n] = 0;
#pragma unroll
    for (int step = -N; step <= N; step++)
        if (step >= -down && step <= up)
            for (int n = 0; n < N; n++) sums[n] += all[N + n + step];
}

template <bool USUAL, int N, class T>
__device__ void normalise_line(const T *x, T *y, Wide<T> *norms, Wide<T> factor, Wide<T> shift, Wide<T> power, Extent e) {
    typedef Wide<T> W;
    const u32 items = (u32)e.outer * e.rows.length / N;
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        int row;
        e.rows.length.quotient(item * N, row);
        const i64 at = (i64)item * N;
        W squares[3 * N], own[N], sums[N];
#pragma unroll
        for (int third = 0; third < 3; third++) {
            const int there = row + (third - 1) * N;
            const bool inside = there >= 0 && there < e.rows.length;
            const Pack<T, N> given = load<N>(x + (inside ? at + (third - 1) * N : at));
#pragma unroll
            for (int n = 0; n < N; n++) {
                const W value = widen(given.at[n]);
                squares[third * N + n] = inside ? value * value * factor : W(0);
                if (third == 1) own[n] = value;
            }
        }
        window_sums<N>(squares, e.rows.down, e.rows.up, sums);
        Pack<T, N> top;
        Pack<W, N> kept;
#pragma unroll
        for (int n = 0; n < N; n++) {
            kept.at[n] = sums[n] + shift;
            top.at[n] = narrow<T>(own[n] * Inverse<USUAL, W>(kept.at[n], power).raised);
        }
        store<N>(y + at, top);
        if (norms != nullptr) store<N>(norms + at, kept);
    }
}

template <bool USUAL, class T>
__device__ void normalise_any(const T *x, T *y, Wide<T> *norms, Wide<T> factor, Wide<T> shift, Wide<T> power,
                              Extent e) {
    if (in_line<Lanes<T>::most>(e) && aligned(x, y, norms))
        normalise_line<USUAL, Lanes<T>::most>(x, y, norms, factor, shift, power, e);
    else if (e.inner % Lanes<T>::most == 0 && aligned(x, y, norms))
        normalise<USUAL, Lanes<T>::most>(x, y, norms, factor, shift, power, e);
    else
        normalise<USUAL, 1>(x, y, norms, factor, shift, power, e);
}

template <class T>
__global__ void lrn_forward(const T *x, T *y, Wide<T> *norms, double factor, double shift, double power,
                            EXTENT_ARGUMENTS) {
    typedef Wide<T> W;
    if ((W)power == W(0.75))
        normalise_any<true>(x, y, norms, (W)factor, (W)shift, (W)power, EXTENT);
    else
        normalise_any<false>(x, y, norms, (W)factor, (W)shift, (W)power, EXTENT);
}

// dx = dy / norm^power - twice x Σ (dy x / norm^(power + 1)), over the windows that have the number; `twice` is
// 2 power factor.
template <bool USUAL, int N, class T>
__device__ void differentiate(const T *x, const Wide<T> *norms, const T *dy, T *dx, Wide<T> twice, Wide<T> power, Extent e) {
    typedef Wide<T> W;
    const u32 items = e.items(N);
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        int row, column;
        e.place(item * N, row, column);
        W sum[N], direct[N];
        for (int n = 0; n < N; n++) sum[n] = direct[n] = 0;
        for (int i = e.rows.first(row, e.rows.up); i < e.rows.end(row, e.rows.down); i++)
            for (int j = e.columns.first(column, e.columns.up); j < e.columns.end(column, e.columns.down); j++) {
                const i64 at = (i64)item * N + ((i64)(i - row) * e.columns.length + j - column) * e.inner;
                const Pack<T, N> given = load<N>(x + at), gradient = load<N>(dy + at);
                const Pack<W, N> norm = load<N>(norms + at);
                for (int n = 0; n < N; n++) {
                    const Inverse<USUAL, W> inverse(norm.at[n], power);
                    const W part = widen(gradient.at[n]) * inverse.raised;
                    sum[n] += part * widen(given.at[n]) * inverse.again;
                    if (i == row && j == column) direct[n] = part;
                }
            }
        const Pack<T, N> given = load<N>(x + (i64)item * N);
        Pack<T, N> result;
        for (int n = 0; n < N; n++) result.at[n] = narrow<T>(direct[n] - sum[n] * widen(given.at[n]) * twice);
        store<N>(dx + (i64)item * N, result);
    }
}

template <bool USUAL, int N, class T>
__device__ void differentiate_line(const T *x, const Wide<T> *norms, const T *dy, T *dx, Wide<T> twice, Wide<T> power,
                                   Extent e) {
    typedef Wide<T> W;
    const u32 items = (u32)e.outer * e.rows.length / N;
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        int row;
        e.rows.length.quotient(item * N, row);
        const i64 at = (i64)item * N;
        W parts[3 * N], direct[N], own[N], sums[N];
#pragma unroll
        for (int third = 0; third < 3; third++) {
            const int there = row + (third - 1) * N;
            const bool inside = there >= 0 && there < e.rows.length;
            const i64 from = inside ? at + (third - 1) * N : at;
            const Pack<T, N> given = load<N>(x + from), gradient = load<N>(dy + from);
            const Pack<W, N> norm = load<N>(norms + from);
#pragma unroll
            for (int n = 0; n < N; n++) {
                if (third == 0 ? n < N - e.rows.up : third == 2 && n >= e.rows.down) continue; // no window has it
                const Inverse<USUAL, W> inverse(norm.at[n], power);
                const W part = widen(gradient.at[n]) * inverse.raised;
                parts[third * N + n] = inside ? part * widen(given.at[n]) * inverse.again : W(0);
                if (third == 1) {
                    direct[n] = part;
                    own[n] = widen(given.at[n]);
                }
            }
        }
        window_sums<N>(parts, e.rows.up, e.rows.down, sums);
        Pack<T, N> result;
#pragma unroll
        for (int n = 0; n < N; n++) result.at[n] = narrow<T>(direct[n] - sums[n] * own[n] * twice);
        store<N>(dx + at, result);
    }
}

template <bool USUAL, class T>
__device__ void differentiate_any(const T *x, const Wide<T> *norms, const T *dy, T *dx, Wide<T> twice, Wide<T> power,
                                  Extent e) {
    if (in_line<Lanes<T>::most>(e) && aligned(x, norms, dy, dx))
        differentiate_line<USUAL, Lanes<T>::most>(x, norms, dy, dx, twice, power, e);
    else if (e.inner % Lanes<T>::most == 0 && aligned(x, norms, dy, dx))
        differentiate<USUAL, Lanes<T>::most>(x, norms, dy, dx, twice, power, e);
    else
        differentiate<USUAL, 1>(x, norms, dy, dx, twice, power, e);
}

template <class T>
__global__ void lrn_backward(const T *x, const Wide<T> *norms, const T *dy, T *dx, double twice, double power,
                             EXTENT_ARGUMENTS) {
    typedef Wide<T> W;
    if ((W)power == W(0.75))
        differentiate_any<true>(x, norms, dy, dx, (W)twice, (W)power, EXTENT);
    else
        differentiate_any<false>(x, norms, dy, dx, (W)twice, (W)power, EXTENT);
}
