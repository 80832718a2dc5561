// Chains of functions, element by element, in one pass: any order of the elements will do that all arrays share. Of the
// arrays in between none is written. Results may be written over what they are made of.
//
// A link turns x into y: `forward`; and the gradient of y into that of x: `backward`. One with `others` = 1 reads another
// array as well, and has `backward_other`, its gradient. `c` are three numbers, such as fields of the layer. `reads` says
// what of the values its gradients need: x (and other), y, or nothing. What is `other` is fetched by the link's `words`,
// the address of its array for example; one that `draws` makes it of random numbers, in backward the same once more.

#include "common.cuh"
#include "functions.cuh"
#include "philox.cuh"

const int NUMBERS = 3;
enum Reads { NOTHING, X, Y };

template <class T, int N> __device__ inline void load_wide(Wide<T> *to, const T *from) {
    const Pack<T, N> pack = load<N>(from);
    for (int n = 0; n < N; n++) to[n] = widen(pack.at[n]);
}
template <class T, int N> __device__ inline void store_wide(T *to, const Wide<T> *from) {
    Pack<T, N> pack;
    for (int n = 0; n < N; n++) pack.at[n] = narrow<T>(from[n]);
    store<N>(to, pack);
}

struct Alone {
    static const int others = 0, words = 0;
    static const bool draws = false;
    template <class T, int N> __device__ static void fetch(Wide<T> *, const i64 *, i64, const Wide<T> *) {}
    template <class T> __device__ static bool fit(const i64 *) { return true; }
    template <class W> __device__ static W backward_other(W, W, W, W, const W *) { return W(0); }
};

template <class F> struct ByTop : Alone { // of functions.cuh, with its gradient seen in y
    static const Reads reads = Y;
    template <class W> __device__ static W forward(W x, W, const W *c) { return F::forward(x, c[0], c[1]); }
    template <class W> __device__ static W backward(W, W, W y, W dy, const W *c) {
        return F::backward(y, dy, c[0], c[1]);
    }
};

template <class F> struct ByBottom : Alone { // of functions.cuh, with its gradient seen in x
    static const Reads reads = X;
    template <class W> __device__ static W forward(W x, W, const W *c) { return F::forward(x, c[0], c[1]); }
    template <class W> __device__ static W backward(W x, W, W, W dy, const W *c) {
        return F::backward(x, dy, c[0], c[1]);
    }
};

struct AbsVal : Alone {
    static const Reads reads = X;
    template <class W> __device__ static W forward(W x, W, const W *) { return fabs(x); }
    template <class W> __device__ static W backward(W x, W, W, W dy, const W *) {
        return dy * (x > 0 ? W(1) : x < 0 ? W(-1) : x); // 0 and NaN stay
    }
};

struct Clip : Alone { // c: low, high
    static const Reads reads = X;
    template <class W> __device__ static W forward(W x, W, const W *c) { return smaller(larger(x, c[0]), c[1]); }
    template <class W> __device__ static W backward(W x, W, W, W dy, const W *c) {
        return dy * (x >= c[0] && x <= c[1] ? W(1) : W(0));
    }
};

struct Exp : Alone { // c: scale and shift, times the logarithm of the base
    static const Reads reads = Y;
    template <class W> __device__ static W forward(W x, W, const W *c) { return exp(x * c[0] + c[1]); }
    template <class W> __device__ static W backward(W, W, W y, W dy, const W *c) { return dy * y * c[0]; }
};

struct Log : Alone { // c: scale, shift, 1 / the logarithm of the base
    static const Reads reads = X;
    template <class W> __device__ static W forward(W x, W, const W *c) { return log(x * c[0] + c[1]) * c[2]; }
    template <class W> __device__ static W backward(W x, W, W, W dy, const W *c) {
        return dy * (c[0] * c[2]) / (x * c[0] + c[1]);
    }
};

// x to a power that is the same for all numbers; NaN for a number below 0 and a power with a fraction.
template <class W> __device__ inline W raised(W x, W power) {
    if (power == 1) return x;
    if (power == 2) return x * x;
    if (power == W(0.5)) return sqrt(x);
    const W whole = floor(power);
    if (whole != power) return pow(x, power);
    const W size = pow(fabs(x), power);
    return whole == 2 * floor(whole / 2) ? size : copysign(size, x);
}

struct Power : Alone { // c: scale, shift, power
    static const Reads reads = X;
    template <class W> __device__ static W forward(W x, W, const W *c) { return raised(x * c[0] + c[1], c[2]); }
    template <class W> __device__ static W backward(W x, W, W, W dy, const W *c) {
        const W factor = c[0] * c[2];
        if (factor == 0 || c[2] == 1) return dy * factor;
        W base = x * c[0] + c[1];
        if (base == 0 && c[2] > 0 && c[2] < 1) base = -minus_infinity<W>();
        return dy * (raised(base, c[2] - 1) * factor);
    }
};

// Functions of two arrays: `slope` multiplies dy by the slope along the first array, or the second.
struct Add { // c: the two factors
    static const Reads reads = NOTHING;
    template <class W> __device__ static W of(W a, W b, const W *c) { return a * c[0] + b * c[1]; }
    template <bool SECOND, class W> __device__ static W slope(W, W, W, W dy, const W *c) { return dy * c[SECOND]; }
};

struct Mean { // c: one half
    static const Reads reads = NOTHING;
    template <class W> __device__ static W of(W a, W b, const W *c) { return (a + b) * c[0]; }
    template <bool SECOND, class W> __device__ static W slope(W, W, W, W dy, const W *c) { return dy * c[0]; }
};

struct Multiply {
    static const Reads reads = X;
    template <class W> __device__ static W of(W a, W b, const W *) { return a * b; }
    template <bool SECOND, class W> __device__ static W slope(W a, W b, W, W dy, const W *) {
        return dy * (SECOND ? a : b);
    }
};

struct Maximum { // of equal ones the first gets the gradient
    static const Reads reads = X;
    template <class W> __device__ static W of(W a, W b, const W *) { return larger(a, b); }
    template <bool SECOND, class W> __device__ static W slope(W a, W b, W y, W dy, const W *) {
        return dy * (SECOND ? (a != y && b == y ? W(1) : W(0)) : (a == y ? W(1) : W(0)));
    }
};

struct Divide {
    static const Reads reads = X;
    template <class W> __device__ static W of(W a, W b, const W *) { return a / b; }
    template <bool SECOND, class W> __device__ static W slope(W, W b, W y, W dy, const W *) {
        return SECOND ? -(dy * y / b) : dy / b;
    }
};

template <class Op, bool SECOND> struct Two { // x is the first of the two arrays, or the second
    static const int others = 1, words = 1;
    static const bool draws = false;
    static const Reads reads = Op::reads;
    template <class T, int N> __device__ static void fetch(Wide<T> *other, const i64 *words, i64 start, const Wide<T> *) {
        load_wide<T, N>(other, reinterpret_cast<const T *>(words[0]) + start);
    }
    template <class T> __device__ static bool fit(const i64 *words) {
        return aligned(reinterpret_cast<const void *>(words[0]));
    }
    template <class W> __device__ static W forward(W x, W other, const W *c) {
        return SECOND ? Op::of(other, x, c) : Op::of(x, other, c);
    }
    template <class W> __device__ static W backward(W x, W other, W y, W dy, const W *c) {
        return SECOND ? Op::template slope<true>(other, x, y, dy, c) : Op::template slope<false>(x, other, y, dy, c);
    }
    template <class W> __device__ static W backward_other(W x, W other, W y, W dy, const W *c) {
        return SECOND ? Op::template slope<false>(other, x, y, dy, c) : Op::template slope<true>(x, other, y, dy, c);
    }
};

// Words: the address of the scalars, which of them is the iteration, the number of the draw, both keys, and which number
// of what is drawn the first one is; as dropout.cu draws them. Arrays are in C order.
struct Dropout : Alone { // c: ratio, scale
    static const int words = 6;
    static const bool draws = true;
    static const Reads reads = NOTHING;
    template <class T, int N>
    __device__ static void fetch(Wide<T> *other, const i64 *words, i64 start, const Wide<T> *c) {
        const u64 iteration = (u64) reinterpret_cast<const double *>(words[0])[words[1]];
        const u32 bits = kept_bits(words[5] + start, N, (float)c[0], (u64)words[2], iteration, (u64)words[3], (u64)words[4]);
        for (int n = 0; n < N; n++) other[n] = bits >> n & 1 ? c[1] : Wide<T>(0);
    }
    template <class W> __device__ static W forward(W x, W kept, const W *) { return x * kept; }
    template <class W> __device__ static W backward(W, W kept, W, W dy, const W *) { return dy * kept; }
};

template <class... Links> struct Chain {
    static const int others = 0;
    template <class T> __device__ static bool fit(const i64 *) { return true; }
    template <class T, int N> __device__ static void forward(Wide<T> *, const i64 *, const double *, i64) {}
    template <bool TOP, class T, int N>
    __device__ static void backward(const Wide<T> *, const Wide<T> *, Wide<T> *, const i64 *, const i64 *,
                                    const double *, i64) {}
};

template <class First, class... Rest> struct Chain<First, Rest...> {
    typedef Chain<Rest...> Above;
    static const int others = First::others + Above::others;

    // Whether the arrays that links read begin where packs may.
    template <class T> __device__ static bool fit(const i64 *words) {
        return First::template fit<T>(words) && Above::template fit<T>(words + First::words);
    }

    template <class W> __device__ static void numbers_of(W *c, const double *numbers) {
        for (int n = 0; n < NUMBERS; n++) c[n] = (W)numbers[n];
    }

    // Turns N numbers, x, into those of the last link; `start` is the place of the first.
    template <class T, int N>
    __device__ static void forward(Wide<T> *x, const i64 *words, const double *numbers, i64 start) {
        Wide<T> c[NUMBERS], other[N];
        numbers_of(c, numbers);
        for (int n = 0; n < N; n++) other[n] = 0;
        First::template fetch<T, N>(other, words, start, c);
#pragma unroll
        for (int n = 0; n < N; n++) x[n] = First::forward(x[n], other[n], c);
        Above::template forward<T, N>(x, words + First::words, numbers + NUMBERS, start);
    }

    // Turns the gradients of the last link's results, d, into those of x. With TOP nothing is computed once more: no
    // link but the last one needs any value, and that only its result, which is `top`.
    template <bool TOP, class T, int N>
    __device__ static void backward(const Wide<T> *x, const Wide<T> *top, Wide<T> *d, const i64 *words,
                                    const i64 *diffs, const double *numbers, i64 start) {
        Wide<T> c[NUMBERS], other[N], y[N];
        numbers_of(c, numbers);
        for (int n = 0; n < N; n++) other[n] = 0;
        if (First::draws || !TOP) First::template fetch<T, N>(other, words, start, c);
#pragma unroll
        for (int n = 0; n < N; n++) y[n] = TOP ? top[n] : First::forward(x[n], other[n], c);
        Above::template backward<TOP, T, N>(y, top, d, words + First::words, diffs + First::others, numbers + NUMBERS,
                                            start);
        if (First::others && diffs[0]) {
            Wide<T> slope[N];
#pragma unroll
            for (int n = 0; n < N; n++) slope[n] = First::backward_other(x[n], other[n], y[n], d[n], c);
            store_wide<T, N>(reinterpret_cast<T *>(diffs[0]) + start, slope);
        }
#pragma unroll
        for (int n = 0; n < N; n++) d[n] = First::backward(x[n], other[n], y[n], d[n], c);
    }
};

template <class T> __device__ inline bool aligned_all(const i64 *addresses, i64 count) {
    bool fit = true;
    for (i64 one = 0; one < count; one++) fit = fit && aligned(reinterpret_cast<const void *>(addresses[one]));
    return fit;
}

// `words` are those of the links, in their order.
template <class T, class Links>
__global__ void chain_forward(const T *x, const i64 *words, const double *numbers, T *y, i64 size) {
    for_each<T>(size, aligned(x, y) && Links::template fit<T>(words), [=](auto lanes, i64 start) {
        const int N = decltype(lanes)::value;
        Wide<T> values[N];
        load_wide<T, N>(values, x + start);
        Links::template forward<T, N>(values, words, numbers, start);
        store_wide<T, N>(y + start, values);
    });
}

// The gradients of x and of the other arrays, into dx and the addresses in `diffs`; those of which the address is 0 are
// not wanted. With TOP y is read and no x, without it x and no y.
template <class T, bool TOP, class Links>
__global__ void chain_backward(const T *x, const i64 *words, const double *numbers, const T *y, const T *dy, T *dx,
                               const i64 *diffs, i64 size) {
    const bool fit = aligned(TOP ? y : x, dy, dx) && aligned_all<T>(diffs, Links::others) &&
                     (TOP || Links::template fit<T>(words));
    for_each<T>(size, fit, [=](auto lanes, i64 start) {
        const int N = decltype(lanes)::value;
        Wide<T> known[N], d[N];
        load_wide<T, N>(known, (TOP ? y : x) + start);
        load_wide<T, N>(d, dy + start);
        Links::template backward<TOP, T, N>(known, known, d, words, diffs, numbers, start);
        if (dx) store_wide<T, N>(dx + start, d);
    });
}
