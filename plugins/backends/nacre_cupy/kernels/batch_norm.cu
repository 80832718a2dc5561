// Batch normalisation: y = scale (x - mean) / sqrt(variance + epsilon) + bias for each channel, plus another array if there
// is one, with ReLU behind it or not.
// Arrays are (outer, channels, inner): in C order inner is an image, with the channels last it is 1. Sums over a channel
// are made in parts, each by one block, in float64, and a thread for each channel adds up the parts: always in one order.

#include "common.cuh"
#include "columns.cuh"

struct Channels {
    u32 outer, channels, inner;

    __device__ u32 size() const { return outer * channels * inner; }
    __device__ u32 of(u32 at) const { return at / inner % channels; }
};

// x without the mean of its channel. `mean` has a number for each channel, and behind them the rest that its type could not
// hold: far from 0 numbers are close to their mean, so that x minus the first is exact, and the rest is what matters.
template <class W> __device__ inline W centred(W x, const W *mean, u32 channel, u32 channels) {
    return (x - mean[channel]) - mean[channels + channel];
}

// What is summed of the number at `at`: two numbers.
template <class T> struct Moments { // distances from the channel's first number, and their squares
    const T *x;
    Channels c;

    template <int N> __device__ void add(u32 at, double *first, double *second) const {
        const Pack<T, N> pack = load<N>(x + at);
        for (int n = 0; n < N; n++) {
            const u32 channel = c.inner == 1 ? c.of(at + n) : c.of(at);
            const double apart = (double)widen(pack.at[n]) - (double)widen(x[channel * c.inner]);
            first[n] += apart;
            second[n] += apart * apart;
        }
    }
    __device__ bool fit() const { return aligned(x); }
};

template <class T> struct Slopes { // gradients of the top, and them times the normalised numbers
    const T *x, *y, *dy;           // y is null without ReLU
    const Wide<T> *mean, *slope;
    Channels c;

    template <int N> __device__ void add(u32 at, double *first, double *second) const {
        const Pack<T, N> given = load<N>(x + at), gradient = load<N>(dy + at);
        Pack<T, N> top = gradient;
        if (y != nullptr) top = load<N>(y + at);
        for (int n = 0; n < N; n++) {
            const u32 channel = c.inner == 1 ? c.of(at + n) : c.of(at);
            const Wide<T> normal = centred(widen(given.at[n]), mean, channel, c.channels) * slope[channel];
            const Wide<T> passed = y == nullptr || widen(top.at[n]) > 0 ? widen(gradient.at[n]) : Wide<T>(0);
            first[n] += (double)passed;
            second[n] += (double)passed * (double)normal;
        }
    }
    __device__ bool fit() const { return aligned(x, y, dy); }
};

// Where channels lie last: neighbours in a block are N neighbours each, and the rows of a part are shared out. There are
// n_parts blocks for each 256 channels, of which fewer are needed where packs are read.
template <int N, class Sum> __device__ void sum_rows(const Sum &sum, Channels c, double *parts, u32 n_parts) {
    const Columns<N> here(c.channels);
    if (here.part >= n_parts) return;
    double sums[2 * N];
    for (int number = 0; number < 2 * N; number++) sums[number] = 0;
    here.for_rows(c.outer, n_parts, [&](u32 row) {
        sum.template add<N>(row * c.channels + here.column, sums, sums + N);
    });
    here.add_up(sums, [&](int number, double all) {
        parts[((i64)here.part * c.channels + here.column + number % N) * 2 + number / N] = all;
    });
}

// In C order: a block has a part of one channel, in packs of N along the images.
template <int N, class Sum> __device__ void sum_images(const Sum &sum, Channels c, double *parts, u32 n_parts) {
    const u32 channel = blockIdx.x % c.channels, part = blockIdx.x / c.channels;
    const u32 packs = c.inner / N, items = c.outer * packs;
    double first[N], second[N];
    for (int n = 0; n < N; n++) first[n] = second[n] = 0;
    for (u32 item = part * blockDim.x + threadIdx.x; item < items; item += n_parts * blockDim.x)
        sum.template add<N>((item / packs * c.channels + channel) * c.inner + item % packs * N, first, second);
    double all[2] = {0, 0};
    for (int n = 0; n < N; n++) {
        all[0] += first[n];
        all[1] += second[n];
    }
    const double one = block_sum(all[0]), other = block_sum(all[1]);
    if (threadIdx.x != 0) return;
    parts[((i64)part * c.channels + channel) * 2] = one;
    parts[((i64)part * c.channels + channel) * 2 + 1] = other;
}

template <class T, class Sum> __device__ void sum_channels(const Sum &sum, Channels c, double *parts, u32 n_parts) {
    const int most = Lanes<T>::most;
    const bool last = c.inner == 1, fit = sum.fit() && (last ? c.channels : c.inner) % most == 0;
    if (last && fit)
        sum_rows<most>(sum, c, parts, n_parts);
    else if (last)
        sum_rows<1>(sum, c, parts, n_parts);
    else if (fit)
        sum_images<most>(sum, c, parts, n_parts);
    else
        sum_images<1>(sum, c, parts, n_parts);
}

#define CHANNELS Channels{(u32)outer, (u32)channels, (u32)inner}

template <class T>
__global__ void batch_norm_moments(const T *x, double *parts, i64 n_parts, i64 outer, i64 channels, i64 inner) {
    const Channels c = CHANNELS;
    sum_channels<T>(Moments<T>{x, c}, c, parts, (u32)n_parts);
}

template <class T>
__global__ void batch_norm_slopes(const T *x, const T *y, const T *dy, const Wide<T> *mean, const Wide<T> *slope,
                                  double *parts, i64 n_parts, i64 outer, i64 channels, i64 inner) {
    const Channels c = CHANNELS;
    sum_channels<T>(Slopes<T>{x, y, dy, mean, slope, c}, c, parts, (u32)n_parts);
}

__device__ inline double added(const double *parts, i64 n_parts, i64 channels, i64 channel, int which) {
    double sum = 0;
    for (i64 part = 0; part < n_parts; part++) sum += parts[(part * channels + channel) * 2 + which];
    return sum;
}

// Mean, as `centred` reads it, and slope, 1 / sqrt(variance + epsilon), of each channel: with parts those of the batch, and
// the running ones follow; without (null) the running ones.
template <class T>
__global__ void batch_norm_measure(const T *x, const double *parts, i64 n_parts, Wide<T> *running_mean,
                                   Wide<T> *running_variance, Wide<T> *mean, Wide<T> *slope, double decay,
                                   double epsilon, i64 outer, i64 channels, i64 inner) {
    typedef Wide<T> W;
    const double count = (double)(outer * inner);
    for (i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x; c < channels; c += (i64)gridDim.x * blockDim.x) {
        double middle = (double)running_mean[c], variance = (double)running_variance[c];
        if (parts != nullptr) {
            const double apart = added(parts, n_parts, channels, c, 0) / count;
            variance = added(parts, n_parts, channels, c, 1) / count - apart * apart;
            variance = variance < 0 ? 0 : variance; // by rounding
            middle = (double)widen(x[c * inner]) + apart;
            running_mean[c] = running_mean[c] * (W)decay + (W)middle * (W)(1 - decay);
            const double factor = (1 - decay) * (count / (count > 1 ? count - 1 : 1));
            running_variance[c] = running_variance[c] * (W)decay + (W)variance * (W)factor;
        }
        mean[c] = (W)middle;
        mean[channels + c] = parts == nullptr ? W(0) : (W)(middle - (double)mean[c]); // of an infinity it would be NaN
        slope[c] = (W)(1 / sqrt(variance + epsilon));
    }
}

// Lets the running values follow mean and slope of a batch of `count` numbers a channel, which cuDNN has measured.
template <class W>
__global__ void batch_norm_follow(const W *mean, const W *slope, W *running_mean, W *running_variance, double decay,
                                  double epsilon, i64 count, i64 channels) {
    const double factor = (1 - decay) * ((double)count / (double)(count > 1 ? count - 1 : 1));
    for (i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x; c < channels; c += (i64)gridDim.x * blockDim.x) {
        double variance = 1 / ((double)slope[c] * (double)slope[c]) - epsilon;
        variance = variance < 0 ? 0 : variance; // by rounding
        running_mean[c] = running_mean[c] * (W)decay + mean[c] * (W)(1 - decay);
        running_variance[c] = running_variance[c] * (W)decay + (W)variance * (W)factor;
    }
}

// The gradients of scale and bias, unless null, and what is subtracted from those of the numbers: means over the channel,
// or 0 if mean and variance were not those of the batch.
template <class W>
__global__ void batch_norm_total(const double *parts, i64 n_parts, W *scale, W *bias, W *means, i64 count, i64 follows,
                                 i64 channels) {
    for (i64 c = (i64)blockIdx.x * blockDim.x + threadIdx.x; c < channels; c += (i64)gridDim.x * blockDim.x) {
        const double first = added(parts, n_parts, channels, c, 0), second = added(parts, n_parts, channels, c, 1);
        if (bias != nullptr) bias[c] = (W)first;
        if (scale != nullptr) scale[c] = (W)second;
        means[2 * c] = follows ? (W)(first / (double)count) : W(0);
        means[2 * c + 1] = follows ? (W)(second / (double)count) : W(0);
    }
}

// Calls work(Count<N>(), start) for all numbers; those of a pack have one channel after the other, or all the same.
template <class T, class Work> __device__ inline void each_number(Channels c, bool fit, Work work) {
    for_each<T>(c.size(), fit && (c.inner == 1 ? c.channels : c.inner) % Lanes<T>::most == 0, work);
}

template <class T>
__global__ void batch_norm_apply(const T *x, const T *other, T *y, const Wide<T> *mean, const Wide<T> *slope,
                                 const Wide<T> *scale, const Wide<T> *bias, i64 relu, i64 outer, i64 channels,
                                 i64 inner) {
    typedef Wide<T> W;
    const Channels c = CHANNELS;
    each_number<T>(c, aligned(x, other, y), [=](auto count, i64 start) {
        const int N = decltype(count)::value;
        Pack<T, N> pack = load<N>(x + start), more = pack;
        if (other != nullptr) more = load<N>(other + start);
        const u32 first = c.of((u32)start), step = c.inner == 1 ? 1 : 0;
        for (int n = 0; n < N; n++) {
            const u32 at = first + step * n;
            W value = centred(widen(pack.at[n]), mean, at, c.channels) * slope[at];
            if (scale != nullptr) value *= scale[at];
            if (bias != nullptr) value += bias[at];
            if (other != nullptr) value += widen(more.at[n]);
            pack.at[n] = narrow<T>(relu ? larger(value, W(0)) : value);
        }
        store<N>(y + start, pack);
    });
}

// The gradients of x, and of the other array: `passed_on`. Null if they are not wanted.
template <class T>
__global__ void batch_norm_backward(const T *x, const T *y, const T *dy, T *dx, T *passed_on, const Wide<T> *mean,
                                    const Wide<T> *slope, const Wide<T> *scale, const Wide<T> *means, i64 outer,
                                    i64 channels, i64 inner) {
    typedef Wide<T> W;
    const Channels c = CHANNELS;
    each_number<T>(c, aligned(x, y, dy, dx, passed_on), [=](auto count, i64 start) {
        const int N = decltype(count)::value;
        const Pack<T, N> given = load<N>(x + start);
        Pack<T, N> pack = load<N>(dy + start), top = pack;
        if (y != nullptr) top = load<N>(y + start);
        const u32 first = c.of((u32)start), step = c.inner == 1 ? 1 : 0;
        for (int n = 0; n < N; n++)
            if (y != nullptr && !(widen(top.at[n]) > 0)) pack.at[n] = narrow<T>(W(0));
        if (passed_on != nullptr) store<N>(passed_on + start, pack);
        if (dx == nullptr) return;
        for (int n = 0; n < N; n++) {
            const u32 at = first + step * n;
            const W normal = centred(widen(given.at[n]), mean, at, c.channels) * slope[at];
            const W factor = scale == nullptr ? slope[at] : slope[at] * scale[at];
            pack.at[n] = narrow<T>((widen(pack.at[n]) - means[2 * at] - normal * means[2 * at + 1]) * factor);
        }
        store<N>(dx + start, pack);
    });
}
