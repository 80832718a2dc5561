// Activation functions, functions of several arrays with one behind them, and penalties, element by element: any order
// of the elements will do that all arrays share. Results may be written over what they are made of.

#include "common.cuh"
#include "functions.cuh"

template <class T, class F> __global__ void activate(const T *x, T *y, i64 size, double a, double b) {
    typedef Wide<T> W;
    for_each<T>(size, aligned(x, y), [=](auto count, i64 start) {
        const int N = decltype(count)::value;
        Pack<T, N> pack = load<N>(x + start);
        for (int n = 0; n < N; n++) pack.at[n] = narrow<T>(F::forward(widen(pack.at[n]), (W)a, (W)b));
        store<N>(y + start, pack);
    });
}

template <class T, class F>
__global__ void activate_backward(const T *known, const T *dy, T *dx, i64 size, double a, double b) {
    typedef Wide<T> W;
    for_each<T>(size, aligned(known, dy, dx), [=](auto count, i64 start) {
        const int N = decltype(count)::value;
        const Pack<T, N> known_pack = load<N>(known + start);
        Pack<T, N> pack = load<N>(dy + start);
        for (int n = 0; n < N; n++)
            pack.at[n] = narrow<T>(F::backward(widen(known_pack.at[n]), widen(pack.at[n]), (W)a, (W)b));
        store<N>(dx + start, pack);
    });
}

struct L1 {
    template <class W> __device__ static W slope(W w) { return w > 0 ? W(1) : w < 0 ? W(-1) : w; } // 0 and NaN stay
};

struct L2 {
    template <class W> __device__ static W slope(W w) { return w; }
};

// Adds the gradient of a penalty on a parameter to that of the parameter.
template <class T, class Penalty> __global__ void penalise(const T *value, T *gradient, i64 size, double coefficient) {
    for_each<T>(size, aligned(value, gradient), [=](auto count, i64 start) {
        const int N = decltype(count)::value;
        const Pack<T, N> given = load<N>(value + start);
        Pack<T, N> pack = load<N>(gradient + start);
        for (int n = 0; n < N; n++) pack.at[n] += Penalty::slope(given.at[n]) * (T)coefficient;
        store<N>(gradient + start, pack);
    });
}

// Functions of several arrays: `inputs` has their addresses, `factors` a number for each. `begin` takes the first one,
// `join` the others, and `finish` ends it; `slope` multiplies the gradient of the result, dy, by that of input `one`.
template <class T, int N> __device__ inline Pack<T, N> input(const i64 *inputs, i64 one, i64 start) {
    return load<N>(reinterpret_cast<const T *>(inputs[one]) + start);
}

template <class T> __device__ inline bool aligned_inputs(const i64 *inputs, i64 count) {
    bool fit = true;
    for (i64 one = 0; one < count; one++) fit = fit && aligned(reinterpret_cast<const void *>(inputs[one]));
    return fit;
}

struct Add { // Σ factor x
    template <class W> __device__ static W begin(W x, W factor) { return x * factor; }
    template <class W> __device__ static W join(W sum, W x, W factor) { return sum + x * factor; }
    template <class W> __device__ static W finish(W sum, W) { return sum; }
    template <class T, int N>
    __device__ static void slope(Wide<T> *dy, const Pack<T, N> &, const i64 *, i64, i64, i64, Wide<T> factor) {
        for (int n = 0; n < N; n++) dy[n] *= factor;
    }
};

struct Mean { // factor Σ x
    template <class W> __device__ static W begin(W x, W) { return x; }
    template <class W> __device__ static W join(W sum, W x, W) { return sum + x; }
    template <class W> __device__ static W finish(W sum, W factor) { return sum * factor; }
    template <class T, int N>
    __device__ static void slope(Wide<T> *dy, const Pack<T, N> &, const i64 *, i64, i64, i64, Wide<T> factor) {
        for (int n = 0; n < N; n++) dy[n] *= factor;
    }
};

struct Multiply {
    template <class W> __device__ static W begin(W x, W) { return x; }
    template <class W> __device__ static W join(W product, W x, W) { return product * x; }
    template <class W> __device__ static W finish(W product, W) { return product; }
    template <class T, int N>
    __device__ static void slope(Wide<T> *dy, const Pack<T, N> &, const i64 *inputs, i64 start, i64 one, i64 count, Wide<T>) {
        for (i64 other = 0; other < count; other++) {
            if (other == one) continue;
            const Pack<T, N> pack = input<T, N>(inputs, other, start);
            for (int n = 0; n < N; n++) dy[n] *= widen(pack.at[n]);
        }
    }
};

struct Maximum { // of equal ones the first gets the gradient
    template <class W> __device__ static W begin(W x, W) { return x; }
    template <class W> __device__ static W join(W most, W x, W) { return larger(most, x); }
    template <class W> __device__ static W finish(W most, W) { return most; }
    template <class T, int N>
    __device__ static void slope(Wide<T> *dy, const Pack<T, N> &y, const i64 *inputs, i64 start, i64 one, i64, Wide<T>) {
        bool wins[N];
        for (int n = 0; n < N; n++) wins[n] = true;
        for (i64 other = 0; other <= one; other++) {
            const Pack<T, N> pack = input<T, N>(inputs, other, start);
            for (int n = 0; n < N; n++) wins[n] = wins[n] && (widen(pack.at[n]) == widen(y.at[n])) == (other == one);
        }
        for (int n = 0; n < N; n++) dy[n] *= wins[n] ? Wide<T>(1) : Wide<T>(0);
    }
};

struct Divide { // two arrays
    template <class W> __device__ static W begin(W x, W) { return x; }
    template <class W> __device__ static W join(W a, W b, W) { return a / b; }
    template <class W> __device__ static W finish(W quotient, W) { return quotient; }
    template <class T, int N>
    __device__ static void slope(Wide<T> *dy, const Pack<T, N> &y, const i64 *inputs, i64 start, i64 one, i64, Wide<T>) {
        const Pack<T, N> divisor = input<T, N>(inputs, 1, start);
        for (int n = 0; n < N; n++) {
            const Wide<T> b = widen(divisor.at[n]);
            dy[n] = one == 0 ? dy[n] / b : -(dy[n] * widen(y.at[n]) / b);
        }
    }
};

template <class T, class Op, class F>
__global__ void combine(const i64 *inputs, const double *factors, i64 count, T *y, i64 size, double a, double b) {
    typedef Wide<T> W;
    const bool fit = aligned(y) && aligned_inputs<T>(inputs, count);
    for_each<T>(size, fit, [=](auto lanes, i64 start) {
        const int N = decltype(lanes)::value;
        W result[N];
        Pack<T, N> pack = input<T, N>(inputs, 0, start);
        W factor = (W)factors[0];
        for (int n = 0; n < N; n++) result[n] = Op::begin(widen(pack.at[n]), factor);
        for (i64 one = 1; one < count; one++) {
            pack = input<T, N>(inputs, one, start);
            factor = (W)factors[one];
            for (int n = 0; n < N; n++) result[n] = Op::join(result[n], widen(pack.at[n]), factor);
        }
        for (int n = 0; n < N; n++) pack.at[n] = narrow<T>(F::forward(Op::finish(result[n], factor), (W)a, (W)b));
        store<N>(y + start, pack);
    });
}

// The gradients of all inputs; one whose address in `diffs` is 0 is not wanted. Inputs and y are only read where the
// operation or the activation function needs them.
template <class T, class Op, class F>
__global__ void combine_backward(const i64 *inputs, const double *factors, i64 count, const T *y, const T *dy,
                                 const i64 *diffs, i64 size, double a, double b) {
    typedef Wide<T> W;
    const bool fit = aligned(y, dy) && aligned_inputs<T>(inputs, count) && aligned_inputs<T>(diffs, count);
    for_each<T>(size, fit, [=](auto lanes, i64 start) {
        const int N = decltype(lanes)::value;
        const Pack<T, N> top = load<N>(y + start), gradient = load<N>(dy + start);
        for (i64 one = 0; one < count; one++) {
            if (diffs[one] == 0) continue;
            W slope[N];
            for (int n = 0; n < N; n++) slope[n] = F::backward(widen(top.at[n]), widen(gradient.at[n]), (W)a, (W)b);
            Op::slope(slope, top, inputs, start, one, count, (W)factors[one]);
            Pack<T, N> pack;
            for (int n = 0; n < N; n++) pack.at[n] = narrow<T>(slope[n]);
            store<N>(reinterpret_cast<T *>(diffs[one]) + start, pack);
        }
    });
}
