// The gates of LSTM, GRU and RNN: what is done in one step besides the products, in one pass over memory.
//
// Arrays are (rows, blocks · hidden), one row for each sequence. `gates` have the products of all weights with x, and
// `product` those with the state; both biases, each for all blocks, and `peephole` may be null. Arrays whose names begin
// with `narrow` get the numbers of another one in bf16, for products; they may be null. `dy` is the gradient of the top,
// which is added to `dh`; it may be null, too, and has a row every `ahead` numbers.

#include "common.cuh"

template <class W> __device__ inline W logistic(W x) { return tanh(x * W(0.5)) * W(0.5) + W(0.5); }

template <class T, int N> struct Lane { // N neighbours
    typedef Wide<T> W;
    W at[N];

    __device__ Lane() {}
    __device__ explicit Lane(const T *from) {
        const Pack<T, N> pack = load<N>(from);
        for (int n = 0; n < N; n++) at[n] = widen(pack.at[n]);
    }
    __device__ void add(const T *from) {
        if (from != nullptr) add(Lane(from));
    }
    __device__ void add(const Lane &other) {
        for (int n = 0; n < N; n++) at[n] += other.at[n];
    }
    __device__ void add_product(const T *from, const Lane &other) { // Σ += from other, where there is any
        if (from == nullptr) return;
        const Lane factor(from);
        for (int n = 0; n < N; n++) at[n] += factor.at[n] * other.at[n];
    }
    template <class To> __device__ void put(To *to) const {
        if (to == nullptr) return;
        Pack<To, N> pack;
        for (int n = 0; n < N; n++) pack.at[n] = narrow<To>((Wide<To>)at[n]);
        store<N>(to, pack);
    }
};

const int PAIR = 2; // neighbours that a thread works on: a step has few numbers, and all multiprocessors shall have some

// Calls work(Count<N>(), row, column) for N neighbours of a row at a time: a pair where that divides `hidden` and the
// arrays are aligned, else one.
template <class T, class Work> __device__ inline void for_each_unit(i64 rows, i64 hidden, bool fit, Work work) {
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    if (fit && hidden % PAIR == 0) {
        const u32 groups = (u32)hidden / PAIR, items = (u32)rows * groups;
        for (u32 item = first; item < items; item += step)
            work(Count<PAIR>(), (i64)(item / groups), (i64)(item % groups) * PAIR);
    } else {
        const u32 items = (u32)(rows * hidden);
        for (u32 item = first; item < items; item += step)
            work(Count<1>(), (i64)(item / (u32)hidden), (i64)(item % (u32)hidden));
    }
}

template <class T> __device__ inline T *at(T *array, i64 index) { return array == nullptr ? nullptr : array + index; }

// Whether pairs of every array, and of every row of dy, can be read and written at once.
template <class T> __device__ inline bool in_pairs(const T *one) { return (u64)one % (PAIR * sizeof(T)) == 0; }
template <class T, class... More> __device__ inline bool in_pairs(const T *one, const More *...more) {
    return in_pairs(one) && in_pairs(more...);
}
template <class T> __device__ inline bool rows_in_pairs(const T *dy, i64 ahead) {
    return in_pairs(dy) && (dy == nullptr || ahead % PAIR == 0);
}

// The sum of a block of both products and both biases.
template <class T, int N>
__device__ inline Lane<T, N> total(const T *gates, const T *product, const T *bias_x, const T *bias_h, i64 start, i64 column) {
    Lane<T, N> sum(gates + start);
    sum.add(at(bias_x, column));
    sum.add(at(bias_h, column));
    sum.add(product + start);
    return sum;
}

// c' = f c + i g and h' = o tanh(c'). `gates` get i, f, g and o. `h` may be what a projection is made of.
template <class T>
__global__ void lstm_forward(T *gates, const T *product, const T *bias_x, const T *bias_h, const T *peephole,
                             const T *c_old, T *c_new, T *tanh_c, T *h, bf16 *narrow_h, i64 rows, i64 hidden) {
    const bool fit = in_pairs(gates, product, bias_x, bias_h, peephole, c_old, c_new, tanh_c, h, narrow_h);
    for_each_unit<T>(rows, hidden, fit, [=](auto count, i64 row, i64 column) {
        const int N = decltype(count)::value;
        typedef Lane<T, N> L;
        const i64 start = row * 4 * hidden + column, unit = row * hidden + column;
        const L c(c_old + unit);
        L i = total<T, N>(gates, product, bias_x, bias_h, start, column);
        L f = total<T, N>(gates, product, bias_x, bias_h, start + hidden, column + hidden);
        L g = total<T, N>(gates, product, bias_x, bias_h, start + 2 * hidden, column + 2 * hidden);
        L o = total<T, N>(gates, product, bias_x, bias_h, start + 3 * hidden, column + 3 * hidden);
        i.add_product(at(peephole, column), c);
        f.add_product(at(peephole, column + hidden), c);
        L cell, bent, out;
        for (int n = 0; n < N; n++) {
            i.at[n] = logistic(i.at[n]);
            f.at[n] = logistic(f.at[n]);
            g.at[n] = tanh(g.at[n]);
            cell.at[n] = f.at[n] * c.at[n] + i.at[n] * g.at[n];
            bent.at[n] = tanh(cell.at[n]);
        }
        o.add_product(at(peephole, column + 2 * hidden), cell);
        for (int n = 0; n < N; n++) {
            o.at[n] = logistic(o.at[n]);
            out.at[n] = o.at[n] * bent.at[n];
        }
        i.put(gates + start);
        f.put(gates + start + hidden);
        g.put(gates + start + 2 * hidden);
        o.put(gates + start + 3 * hidden);
        cell.put(c_new + unit);
        bent.put(tanh_c + unit);
        out.put(h + unit);
        out.put(at(narrow_h, unit));
    });
}

// `dc`, the gradient of the new cell without the part that comes by the output, becomes that of the old one.
template <class T>
__global__ void lstm_backward(const T *gates, const T *tanh_c, const T *c_old, const T *peephole, const T *dh,
                              const T *dy, i64 ahead, T *dc, T *dgates, bf16 *narrow_dgates, i64 rows, i64 hidden) {
    const bool fit = in_pairs(gates, tanh_c, c_old, peephole, dh, dc, dgates, narrow_dgates) && rows_in_pairs(dy, ahead);
    for_each_unit<T>(rows, hidden, fit, [=](auto count, i64 row, i64 column) {
        const int N = decltype(count)::value;
        typedef Lane<T, N> L;
        const i64 start = row * 4 * hidden + column, unit = row * hidden + column;
        L i(gates + start), f(gates + start + hidden), g(gates + start + 2 * hidden), o(gates + start + 3 * hidden);
        const L bent(tanh_c + unit), c(c_old + unit);
        L cell(dc + unit), slope(dh + unit);
        slope.add(at(dy, row * ahead + column));
        L di, df, dg, out;
        for (int n = 0; n < N; n++) {
            out.at[n] = (o.at[n] - o.at[n] * o.at[n]) * (slope.at[n] * bent.at[n]);
            cell.at[n] += (1 - bent.at[n] * bent.at[n]) * o.at[n] * slope.at[n];
        }
        cell.add_product(at(peephole, column + 2 * hidden), out);
        for (int n = 0; n < N; n++) {
            di.at[n] = (i.at[n] - i.at[n] * i.at[n]) * g.at[n] * cell.at[n];
            df.at[n] = (f.at[n] - f.at[n] * f.at[n]) * c.at[n] * cell.at[n];
            dg.at[n] = (1 - g.at[n] * g.at[n]) * i.at[n] * cell.at[n];
            cell.at[n] *= f.at[n];
        }
        cell.add_product(at(peephole, column), di);
        cell.add_product(at(peephole, column + hidden), df);
        const L *of_gates[] = {&di, &df, &dg, &out};
        for (int block = 0; block < 4; block++) {
            of_gates[block]->put(at(dgates, start + block * hidden));
            of_gates[block]->put(at(narrow_dgates, start + block * hidden));
        }
        cell.put(dc + unit);
    });
}

// h' = n + (h - n) z with n = tanh(W_n x + r reset), where `reset` gets R_n h with its bias. `gates` get r, z and n.
template <class T>
__global__ void gru_forward(T *gates, const T *product, const T *bias_x, const T *bias_h, const T *h_old, T *reset,
                            T *h_new, bf16 *narrow_h, i64 rows, i64 hidden) {
    const bool fit = in_pairs(gates, product, bias_x, bias_h, h_old, reset, h_new, narrow_h);
    for_each_unit<T>(rows, hidden, fit, [=](auto count, i64 row, i64 column) {
        const int N = decltype(count)::value;
        typedef Lane<T, N> L;
        const i64 start = row * 3 * hidden + column, unit = row * hidden + column;
        const L h(h_old + unit);
        L r = total<T, N>(gates, product, bias_x, bias_h, start, column);
        L z = total<T, N>(gates, product, bias_x, bias_h, start + hidden, column + hidden);
        L n_gate(gates + start + 2 * hidden), part(product + start + 2 * hidden), out;
        n_gate.add(at(bias_x, column + 2 * hidden));
        part.add(at(bias_h, column + 2 * hidden));
        for (int n = 0; n < N; n++) {
            r.at[n] = logistic(r.at[n]);
            z.at[n] = logistic(z.at[n]);
            n_gate.at[n] = tanh(n_gate.at[n] + r.at[n] * part.at[n]);
            out.at[n] = n_gate.at[n] + (h.at[n] - n_gate.at[n]) * z.at[n];
        }
        r.put(gates + start);
        z.put(gates + start + hidden);
        n_gate.put(gates + start + 2 * hidden);
        part.put(reset + unit);
        out.put(h_new + unit);
        out.put(at(narrow_h, unit));
    });
}

// `direct` gets what goes to the old state past the gates, `dproducts` the gradient of the products with it.
template <class T>
__global__ void gru_backward(const T *gates, const T *reset, const T *h_old, const T *dh, const T *dy, i64 ahead,
                             T *direct, T *dgates, T *dproducts, bf16 *narrow_dgates, bf16 *narrow_dproducts, i64 rows,
                             i64 hidden) {
    const bool fit = in_pairs(gates, reset, h_old, dh, direct, dgates, dproducts, narrow_dgates, narrow_dproducts) &&
                     rows_in_pairs(dy, ahead);
    for_each_unit<T>(rows, hidden, fit, [=](auto count, i64 row, i64 column) {
        const int N = decltype(count)::value;
        typedef Lane<T, N> L;
        const i64 start = row * 3 * hidden + column, unit = row * hidden + column;
        const L r(gates + start), z(gates + start + hidden), n_gate(gates + start + 2 * hidden), part(reset + unit);
        const L h(h_old + unit);
        L slope(dh + unit);
        slope.add(at(dy, row * ahead + column));
        L dr, dz, dn, past, of_product;
        for (int n = 0; n < N; n++) {
            dz.at[n] = (z.at[n] - z.at[n] * z.at[n]) * ((h.at[n] - n_gate.at[n]) * slope.at[n]);
            past.at[n] = slope.at[n] * z.at[n];
            dn.at[n] = (1 - n_gate.at[n] * n_gate.at[n]) * (slope.at[n] - past.at[n]);
            dr.at[n] = (r.at[n] - r.at[n] * r.at[n]) * dn.at[n] * part.at[n];
            of_product.at[n] = dn.at[n] * r.at[n];
        }
        const L *of_gates[] = {&dr, &dz, &dn}, *of_products[] = {&dr, &dz, &of_product};
        for (int block = 0; block < 3; block++) {
            of_gates[block]->put(at(dgates, start + block * hidden));
            of_gates[block]->put(at(narrow_dgates, start + block * hidden));
            of_products[block]->put(at(dproducts, start + block * hidden));
            of_products[block]->put(at(narrow_dproducts, start + block * hidden));
        }
        past.put(direct + unit);
    });
}

struct Bent {
    template <class W> __device__ static W forward(W x) { return tanh(x); }
    template <class W> __device__ static W slope(W y) { return 1 - y * y; }
};

struct Cut {
    template <class W> __device__ static W forward(W x) { return larger(x, W(0)); }
    template <class W> __device__ static W slope(W y) { return y > 0 ? W(1) : W(0); }
};

template <class T, class F>
__global__ void rnn_forward(const T *gates, const T *product, const T *bias_x, const T *bias_h, T *h,
                            bf16 *narrow_h, i64 rows, i64 hidden) {
    const bool fit = in_pairs(gates, product, bias_x, bias_h, h, narrow_h);
    for_each_unit<T>(rows, hidden, fit, [=](auto count, i64 row, i64 column) {
        const int N = decltype(count)::value;
        const i64 unit = row * hidden + column;
        Lane<T, N> sum = total<T, N>(gates, product, bias_x, bias_h, unit, column);
        for (int n = 0; n < N; n++) sum.at[n] = F::forward(sum.at[n]);
        sum.put(h + unit);
        sum.put(at(narrow_h, unit));
    });
}

template <class T, class F>
__global__ void rnn_backward(const T *h, const T *dh, const T *dy, i64 ahead, T *dgates, bf16 *narrow_dgates, i64 rows,
                             i64 hidden) {
    const bool fit = in_pairs(h, dh, dgates, narrow_dgates) && rows_in_pairs(dy, ahead);
    for_each_unit<T>(rows, hidden, fit, [=](auto count, i64 row, i64 column) {
        const int N = decltype(count)::value;
        const i64 unit = row * hidden + column;
        const Lane<T, N> y(h + unit);
        Lane<T, N> slope(dh + unit);
        slope.add(at(dy, row * ahead + column));
        for (int n = 0; n < N; n++) slope.at[n] *= F::slope(y.at[n]);
        slope.put(at(dgates, unit));
        slope.put(at(narrow_dgates, unit));
    });
}
