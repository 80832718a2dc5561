// SoftmaxLoss over scores (before, classes, behind), with a label for each (before, behind). `rows` finds for each label
// the maximum and the logarithm of the sum of exponentials, `total` adds the losses up and divides, `gradient` writes the
// gradient. No number is added by two threads, and sums have one order.
//
// With `smoothing` e a label is a distribution, 1 - e + e / classes for its class and e / classes for the other ones.

#include "common.cuh"
#include "numbers.cuh"

// What is known of each label, one after the other in memory.
template <class W> struct Known {
    W *most, *log_sum; // of the scores: maximum, and logarithm of the sum of exp(x - maximum)
    W *share, *total;  // weight of the label; with smoothing of its record, and the sum of its distribution
    int *chosen;       // its class; below 0 if it is none
    double *term;      // share log p
    __device__ Known(void *memory, i64 labels) {
        term = (double *)memory;
        most = (W *)(term + labels);
        log_sum = most + labels;
        share = log_sum + labels;
        total = share + labels;
        chosen = (int *)(total + labels);
    }
};

const int NO_LABEL = -1, IGNORED = -2;

__device__ inline i64 counted(const double *scalars, i64 rows, i64 images, i64 labels) {
    const i64 real = (i64)scalars[rows];
    return labels / images * (real < images ? real : images);
}

// The scores of a label, a warp for each if they are neighbours, else a thread.
template <class T> struct Scores {
    const T *x;
    int classes;
    i64 behind;
    int first, step;

    // Calls work for all numbers of this thread and their classes, in packs of N.
    template <int N, class Work> __device__ void each(Work work) const {
        for (int at = first * N; at < classes; at += step * N) {
            const Pack<T, N> pack = load<N>(x + (i64)at * behind);
            for (int n = 0; n < N; n++) work(widen(pack.at[n]), at + n);
        }
    }
    template <class Work> __device__ void each(Work work) const {
        if (behind == 1 && classes % Lanes<T>::most == 0 && aligned(x))
            each<Lanes<T>::most>(work);
        else
            each<1>(work);
    }
};

template <class T, bool Alone>
__global__ void softmax_loss_rows(const T *x, const void *labels, i64 label_type, const Wide<T> *weight_of,
                                  const void *record_weights, i64 record_type, void *known_memory, i64 before,
                                  i64 classes, i64 behind, i64 images, i64 ignores, double ignored,
                                  double smoothing) {
    typedef Wide<T> W;
    const i64 count = before * behind;
    const Known<W> known(known_memory, count);
    const int team = Alone ? 1 : 32, me = threadIdx.x % team;
    const i64 step = (i64)gridDim.x * blockDim.x / team;
    for (i64 label = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / team; label < count; label += step) {
        const i64 start = label / behind * classes * behind + label % behind;
        const Scores<T> scores = {x + start, (int)classes, behind, me, team};
        W most = minus_infinity<W>();
        scores.each([&](W value, int) { most = larger(most, value); });
        if (!Alone) most = warp_max(most);
        W sum = 0;
        scores.each([&](W value, int) { sum += exp(value - most); });
        if (!Alone) sum = warp_sum(sum);
        const W log_sum = log(sum), even = (W)(smoothing / (double)classes);
        W all = 0, all_logs = 0; // of the weights of all classes, and of them times log p
        if (smoothing > 0) {
            scores.each([&](W value, int at) {
                const W weight = weight_of == nullptr ? W(1) : weight_of[start + at * behind];
                all += weight;
                all_logs += weight == 0 ? W(0) : weight * ((value - most) - log_sum);
            });
            if (!Alone) {
                all = warp_sum(all);
                all_logs = warp_sum(all_logs);
            }
        }
        if (me != 0) continue;
        const double given = number_at(labels, label_type, label);
        int chosen = NO_LABEL;
        if (ignores && given == ignored)
            chosen = IGNORED;
        else if (given >= 0 && given < (double)classes && given == floor(given))
            chosen = (int)given;
        const i64 picked = start + (chosen < 0 ? 0 : chosen) * behind;
        W share = chosen == IGNORED ? W(0) : W(1);
        if (record_weights != nullptr) share *= (W)number_at(record_weights, record_type, label / (count / images));
        W weight = weight_of == nullptr ? W(1) : weight_of[picked];
        if (smoothing > 0) {
            weight *= (W)(1 - smoothing);
            known.total[label] = share * (even * all + weight);
        } else {
            share *= weight;
            weight = 1;
        }
        known.most[label] = most;
        known.log_sum[label] = log_sum;
        known.share[label] = share;
        known.chosen[label] = chosen;
        const W log_p = weight == 0 ? W(0) : ((widen(x[picked]) - most) - log_sum) * weight;
        known.term[label] = share == 0 ? 0.0 : (double)((log_p + even * all_logs) * share);
    }
}

// result: the loss, what gradients are multiplied by, and how many labels are not ignored; `right` whether all labels
// that count are classes. One block.
template <class W>
__global__ void softmax_loss_total(void *known_memory, i64 count, i64 images, const double *scalars, i64 rows,
                                   double weight, i64 normalize, double *result, u8 *right) {
    const Known<W> known(known_memory, count);
    const i64 real = counted(scalars, rows, images, count);
    double sum = 0, valid = 0, wrong = 0;
    for (i64 label = threadIdx.x; label < real; label += blockDim.x) {
        sum += known.term[label];
        valid += known.chosen[label] != IGNORED;
        wrong += known.chosen[label] == NO_LABEL;
    }
    sum = block_sum(sum);
    valid = block_sum(valid);
    wrong = block_sum(wrong);
    if (threadIdx.x != 0) return;
    // the labels not ignored, all labels, the records, or 1
    const i64 rows_counted = real / (count / images);
    const double divisor = normalize == 0 ? valid : normalize == 1 ? real : normalize == 2 ? rows_counted : 1;
    const double factor = weight / (divisor < 1 ? 1 : divisor);
    result[0] = -factor * sum;
    result[1] = factor;
    result[2] = valid;
    *right = wrong == 0;
}

template <int N, class T>
__device__ void write_gradient(const T *x, const Known<Wide<T>> &known, T *dx, u32 size, int classes, u32 behind,
                               i64 real, Wide<T> factor, const Wide<T> *weight_of, double smoothing) {
    typedef Wide<T> W;
    const u32 items = size / N;
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const u32 at = item * N, row = at / behind;
        const i64 label = (i64)(row / classes) * behind + at % behind;
        const int first = (int)(row % classes);
        Pack<T, N> pack = load<N>(x + at);
        const W share = label < real ? known.share[label] : W(0);
        const W most = known.most[label], log_sum = known.log_sum[label];
        const int chosen = known.chosen[label];
        const W even = (W)(smoothing / classes), own = (W)(1 - smoothing + smoothing / classes);
        for (int n = 0; n < N; n++) {
            const W log_p = (widen(pack.at[n]) - most) - log_sum;
            W slope;
            if (smoothing > 0) {
                const W weight = weight_of == nullptr ? W(1) : weight_of[at + n];
                slope = exp(log_p) * known.total[label] - share * weight * (first + n == chosen ? own : even);
            } else {
                slope = (first + n == chosen ? expm1(log_p) : exp(log_p)) * share;
            }
            pack.at[n] = narrow<T>(share == 0 ? W(0) : slope * factor);
        }
        store<N>(dx + at, pack);
    }
}

template <class T>
__global__ void softmax_loss_gradient(const T *x, void *known_memory, T *dx, i64 before, i64 classes, i64 behind,
                                      i64 images, const double *scalars, i64 rows, const double *result,
                                      const Wide<T> *weight_of, double smoothing) {
    typedef Wide<T> W;
    const i64 count = before * behind, real = counted(scalars, rows, images, count);
    const Known<W> known(known_memory, count);
    const u32 size = (u32)(count * classes);
    if (behind == 1 && classes % Lanes<T>::most == 0 && aligned(x, dx))
        write_gradient<Lanes<T>::most>(x, known, dx, size, (int)classes, 1, real, (W)result[1], weight_of, smoothing);
    else
        write_gradient<1>(x, known, dx, size, (int)classes, (u32)behind, real, (W)result[1], weight_of, smoothing);
}
