// Embedding: rows of the weight by their numbers, and the sums of the gradients with equal numbers.
//
// A key is a number with its position behind it, so no two are equal. Sorted, the positions of a number follow each other
// in their order: a run. Runs are added up in pieces of PIECE positions, each by one thread for a few columns, and what a
// piece has of runs that go beyond it is added up afterwards. No number is added by two threads, and sums have one order.

#include "common.cuh"
#include "numbers.cuh"

const i64 TILE = 1024, PIECE = 32; // as in embedding.py

__device__ inline i64 number_of(i64 key) { return key >> 32; }
__device__ inline i64 position_of(i64 key) { return key & 0xffffffff; }

// y = weight[x] + bias. What is no number from 0 to `limit` - 1 is not `right`; it is taken for 0, as are rows that do not
// count.
template <class T>
__global__ void embedding_forward(const void *x, i64 type, const Wide<T> *weight, const Wide<T> *bias, T *y, i64 *keys,
                                  u8 *right, i64 positions, i64 images, i64 limit, i64 width, const double *scalars,
                                  i64 rows) {
    const i64 real = (i64)scalars[rows], count = positions / images * (real < images ? real : images);
    const bool fit = width % Lanes<T>::most == 0 && aligned(weight, bias, y);
    for_each<T>(positions * width, fit, [=](auto lanes, i64 start) {
        const int N = decltype(lanes)::value;
        const u32 position = (u32)start / (u32)width, column = (u32)start % (u32)width;
        const double given = position < count ? number_at(x, type, position) : 0;
        const bool good = given >= 0 && given < limit && floor(given) == given;
        const i64 number = good ? (i64)given : 0;
        if (column == 0) keys[position] = number << 32 | position, right[position] = good;
        const Pack<Wide<T>, N> row = load<N>(weight + number * width + column);
        Pack<T, N> made;
        for (int n = 0; n < N; n++) made.at[n] = narrow<T>(bias ? row.at[n] + bias[column + n] : row.at[n]);
        store<N>(y + start, made);
    });
}

// Where key `index` comes if two neighbouring runs of `run` keys, each sorted, become one; of the last two one may be
// shorter, or missing. `run` is a power of two.
__device__ inline i64 place_in_both(const i64 *keys, i64 size, i64 run, i64 index) {
    const i64 begin = index & -(2 * run), middle = begin + run < size ? begin + run : size;
    const i64 end = middle + run < size ? middle + run : size;
    i64 low = index < middle ? middle : begin, high = index < middle ? end : middle;
    while (low < high) { // the first key of the other run that is not below this one
        const i64 half = (low + high) / 2;
        if (keys[half] < keys[index]) low = half + 1;
        else high = half;
    }
    return index - middle + low;
}

// Sorts every TILE keys, each tile by a block.
__global__ void embedding_sort(const i64 *keys, i64 *sorted, i64 size) {
    __shared__ i64 shared[2][TILE];
    for (i64 first = blockIdx.x * TILE; first < size; first += gridDim.x * TILE) {
        const i64 here = size - first < TILE ? size - first : TILE;
        int now = 0;
        for (i64 index = threadIdx.x; index < here; index += blockDim.x) shared[0][index] = keys[first + index];
        for (i64 run = 1; run < here; run *= 2, now = 1 - now) {
            __syncthreads();
            for (i64 index = threadIdx.x; index < here; index += blockDim.x)
                shared[1 - now][place_in_both(shared[now], here, run, index)] = shared[now][index];
        }
        __syncthreads();
        for (i64 index = threadIdx.x; index < here; index += blockDim.x) sorted[first + index] = shared[now][index];
        __syncthreads();
    }
}

// Makes one of every two runs of `run` sorted keys.
__global__ void embedding_merge(const i64 *keys, i64 *merged, i64 size, i64 run) {
    for (i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x; index < size; index += (i64)gridDim.x * blockDim.x)
        merged[place_in_both(keys, size, run, index)] = keys[index];
}

template <int N, class W> __device__ inline void add_to(W *to, const double *sums) {
    Pack<W, N> pack = load<N>(to);
    for (int n = 0; n < N; n++) pack.at[n] = (W)((double)pack.at[n] + sums[n]);
    store<N>(to, pack);
}

// Calls work(Count<N>(), piece, column) for N neighbouring columns of every piece, over all threads of the grid.
template <class T, class Work> __device__ inline void for_pieces(i64 size, i64 width, bool fit, Work work) {
    const i64 pieces = (size + PIECE - 1) / PIECE;
    for_each<T>(pieces * width, fit && width % Lanes<T>::most == 0, [=](auto lanes, i64 start) {
        work(lanes, (i64)((u32)start / (u32)width), (i64)((u32)start % (u32)width));
    });
}

// Adds every run that lies in one piece to its row of the gradient. `parts` is (pieces, 2, width): what a piece has of a
// run that began before it, and of one that begins in it and goes on.
template <class T>
__global__ void embedding_parts(const i64 *keys, const T *dy, Wide<T> *gradient, double *parts, i64 size, i64 width) {
    for_pieces<T>(size, width, aligned(dy, gradient), [=](auto lanes, i64 piece, i64 column) {
        const int N = decltype(lanes)::value;
        const i64 begin = piece * PIECE, end = begin + PIECE < size ? begin + PIECE : size;
        double sums[N], *part = parts + piece * 2 * width + column;
        for (int n = 0; n < N; n++) sums[n] = 0;
        i64 number = number_of(keys[begin]);
        bool began = begin == 0 || number_of(keys[begin - 1]) != number;
        for (i64 index = begin; index < end; index++) {
            const Pack<T, N> pack = load<N>(dy + position_of(keys[index]) * width + column);
            for (int n = 0; n < N; n++) sums[n] += (double)widen(pack.at[n]);
            const i64 next = index + 1 < size ? number_of(keys[index + 1]) : -1;
            if (next == number && index + 1 < end) continue;
            if (began && next != number) {
                add_to<N>(gradient + number * width + column, sums);
            } else {
                for (int n = 0; n < N; n++) part[(began ? width : 0) + n] = sums[n];
            }
            for (int n = 0; n < N; n++) sums[n] = 0;
            began = true;
            number = next;
        }
    });
}

// Adds the other runs: each from the piece in which it begins to that in which it ends.
template <class T>
__global__ void embedding_total(const i64 *keys, Wide<T> *gradient, const double *parts, i64 size, i64 width) {
    for_pieces<T>(size, width, aligned(gradient), [=](auto lanes, i64 piece, i64 column) {
        const int N = decltype(lanes)::value;
        const i64 begin = piece * PIECE, behind = begin + PIECE;
        if (behind >= size) return;
        const i64 number = number_of(keys[behind]);
        if (number_of(keys[behind - 1]) != number) return; // it ends
        if (begin > 0 && number_of(keys[begin - 1]) == number) return; // it began before
        i64 low = behind + 1, high = size; // the first position behind the run
        while (low < high) {
            const i64 half = (low + high) / 2;
            if (number_of(keys[half]) == number) low = half + 1;
            else high = half;
        }
        double sums[N];
        for (int n = 0; n < N; n++) sums[n] = parts[(piece * 2 + 1) * width + column + n];
        const i64 last = (low - 1) / PIECE;
#pragma unroll 4
        for (i64 other = piece + 1; other <= last; other++)
            for (int n = 0; n < N; n++) sums[n] += parts[other * 2 * width + column + n];
        add_to<N>(gradient + number * width + column, sums);
    });
}
