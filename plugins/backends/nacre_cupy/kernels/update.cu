// Updates of all parameters of a net in one launch: a block changes one chunk of the flat arrays of a span. Each method is
// that of nacre_solvers, number by number; rates and momenta are read from the scalars of the iteration.
// `products` gets the sum of value times gradient of each chunk, which is not finite if any of the two is not.

#include "common.cuh"

struct Chunk { // a row of the table: addresses, and the number of elements
    i64 value, gradient, first, second, third, size;
};

template <class W> struct Step { // what the methods are told
    W rate, momentum, one, two; // of the scalars; `one` and `two` are a method's own
    W a, b, c;                  // fields of the method
    double exact_a, exact_b;
    bool inside;

    __device__ W root(W square, W epsilon) const { return inside ? sqrt(square + epsilon) : sqrt(square) + epsilon; }
};

// An average with the share `rho` of the past, of numbers or of squares.
template <class W> __device__ inline W averaged(W mean, W x, double rho) { return mean * (W)rho + x * (W)(1 - rho); }

struct SGD {
    template <class W> __device__ static W change(W w, W g, W &v, W &, W &, const Step<W> &s) {
        v = v * s.momentum - g * s.rate;
        return w + v;
    }
    static const int histories = 1;
};

struct Nesterov {
    template <class W> __device__ static W change(W w, W g, W &v, W &, W &, const Step<W> &s) {
        const W part = g * s.rate;
        v = v * s.momentum - part;
        return w - part + v * s.momentum;
    }
    static const int histories = 1;
};

struct AdaGrad { // a: epsilon
    template <class W> __device__ static W change(W w, W g, W &h, W &, W &, const Step<W> &s) {
        h += g * g;
        return w - g / s.root(h, s.a) * s.rate;
    }
    static const int histories = 1;
};

struct RMSProp { // a: rho, b: epsilon
    template <class W> __device__ static W change(W w, W g, W &h, W &v, W &, const Step<W> &s) {
        h = averaged(h, g * g, s.exact_a);
        v = v * s.momentum - g / s.root(h, s.b) * s.rate;
        return w + v;
    }
    static const int histories = 2;
};

struct CenteredRMSProp {
    template <class W> __device__ static W change(W w, W g, W &h, W &v, W &m, const Step<W> &s) {
        h = averaged(h, g * g, s.exact_a);
        m = averaged(m, g, s.exact_a);
        v = v * s.momentum - g / s.root(larger(h - multiplied(m, m), W(0)), s.b) * s.rate;
        return w + v;
    }
    static const int histories = 3;
};

struct AdaDelta { // a: rho, b: epsilon
    template <class W> __device__ static W change(W w, W g, W &h, W &u, W &, const Step<W> &s) {
        h = averaged(h, g * g, s.exact_a);
        const W d = sqrt((u + s.b) / (h + s.b)) * g;
        u = averaged(u, d * d, s.exact_a);
        return w - d * s.rate;
    }
    static const int histories = 2;
};

struct Adam { // a: beta1, b: beta2; one: the factor of the rate, two: the epsilon of this iteration
    template <class W> __device__ static W change(W w, W g, W &m, W &v, W &, const Step<W> &s) {
        m = averaged(m, g, s.exact_a);
        v = averaged(v, g * g, s.exact_b);
        return w - m / s.root(v, s.two) * s.rate;
    }
    static const int histories = 2;
};

struct AdaMax { // a: beta1, b: beta2, c: epsilon
    template <class W> __device__ static W change(W w, W g, W &m, W &u, W &, const Step<W> &s) {
        m = averaged(m, g, s.exact_a);
        u = larger(u * s.b, fabs(g) + s.c);
        return w - m / u * s.rate;
    }
    static const int histories = 2;
};

// `scalars[rate]` times the span's rate, and times `scalars[one]` unless that place is below 0.
template <class T, class Method>
__global__ void update(const Chunk *chunks, const double *rates, i64 count, double *products, const double *scalars,
                       i64 rate, i64 momentum, i64 one, i64 two, double a, double b, double c, i64 inside) {
    for (i64 number = blockIdx.x; number < count; number += gridDim.x) {
        const Chunk chunk = chunks[number];
        T *values = reinterpret_cast<T *>(chunk.value);
        const T *gradients = reinterpret_cast<const T *>(chunk.gradient);
        T *histories[3] = {reinterpret_cast<T *>(chunk.first), reinterpret_cast<T *>(chunk.second),
                           reinterpret_cast<T *>(chunk.third)};
        const double factor = one < 0 ? 1.0 : scalars[one];
        const Step<T> step = {(T)(scalars[rate] * rates[number] * factor), (T)scalars[momentum],
                              (T)factor, two < 0 ? T(0) : (T)scalars[two],
                              (T)a, (T)b, (T)c, a, b, inside != 0};
        double product = 0;
        const auto work = [&](auto lanes, i64 start) {
            const int N = decltype(lanes)::value;
            Pack<T, N> value = load<N>(values + start), history[3];
            const Pack<T, N> gradient = load<N>(gradients + start);
#pragma unroll
            for (int k = 0; k < Method::histories; k++) history[k] = load<N>(histories[k] + start);
            for (int n = 0; n < N; n++) {
                T first = history[0].at[n];
                T second = Method::histories > 1 ? history[1].at[n] : T(0);
                T third = Method::histories > 2 ? history[2].at[n] : T(0);
                value.at[n] = Method::change(value.at[n], gradient.at[n], first, second, third, step);
                history[0].at[n] = first;
                history[1].at[n] = second;
                history[2].at[n] = third;
                product += (double)value.at[n] * (double)gradient.at[n];
            }
            store<N>(values + start, value);
#pragma unroll
            for (int k = 0; k < Method::histories; k++) store<N>(histories[k] + start, history[k]);
        };
        const int most = Lanes<T>::most;
        const bool fit = aligned(values, gradients, histories[0], histories[1], histories[2]);
        const i64 packs = fit ? chunk.size / most : 0;
        for (i64 at = threadIdx.x; at < packs; at += blockDim.x) work(Count<most>(), at * most);
        for (i64 at = packs * most + threadIdx.x; at < chunk.size; at += blockDim.x) work(Count<1>(), at);
        product = block_sum(product);
        if (threadIdx.x == 0) products[number] = product;
    }
}
