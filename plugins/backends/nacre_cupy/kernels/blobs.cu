// Copies between layouts and types: of images, of filters, and of all that is computed in bf16 and kept in float32.

#include "common.cuh"

// Writes the numbers of one array in the type of another, in their order.
template <class To, class From> __global__ void convert_to(const From *from, To *to, i64 size) {
    const int least = Lanes<To>::most < Lanes<From>::most ? Lanes<To>::most : Lanes<From>::most;
    const bool fit = aligned(from, to);
    const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
    const i64 packs = fit ? size / least : 0;
    for (i64 index = first; index < packs; index += step) {
        const Pack<From, least> given = load<least>(from + index * least);
        Pack<To, least> made;
        for (int n = 0; n < least; n++) made.at[n] = narrow<To>(widen(given.at[n]));
        store<least>(to + index * least, made);
    }
    for (i64 index = packs * least + first; index < size; index += step) to[index] = narrow<To>(widen(from[index]));
}

// Writes `count` matrices with their rows as columns, (count, columns, rows), in tiles of 32 x 32: both are read and
// written along their last axis. Blocks have 256 threads.
template <class To, class From>
__global__ void transpose_to(const From *from, To *to, i64 count, i64 rows, i64 columns) {
    __shared__ Wide<To> tile[32][33];
    const u32 lane = threadIdx.x % 32, line = threadIdx.x / 32;
    const i64 down = (rows + 31) / 32, across = (columns + 31) / 32, tiles = count * down * across;
    for (i64 index = blockIdx.x; index < tiles; index += gridDim.x) {
        const i64 row = index / across % down * 32, column = index % across * 32;
        const i64 start = index / (down * across) * rows * columns;
        __syncthreads(); // the tile before has been read
        for (u32 n = line; n < 32; n += 8)
            if (row + n < rows && column + lane < columns)
                tile[n][lane] = widen(from[start + (row + n) * columns + column + lane]);
        __syncthreads();
        for (u32 n = line; n < 32; n += 8)
            if (column + n < columns && row + lane < rows)
                to[start + (column + n) * rows + row + lane] = narrow<To>(tile[lane][n]);
    }
}

// Writes (first, second, width) as (second, first, width).
template <class To, class From>
__global__ void swap_to(const From *from, To *to, i64 first, i64 second, i64 width) {
    const int least = Lanes<To>::most < Lanes<From>::most ? Lanes<To>::most : Lanes<From>::most;
    const auto copy = [=](auto count) {
        const int N = decltype(count)::value;
        const u32 packs = (u32)width / N, items = (u32)(first * second) * packs;
        for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
            const u32 line = item / packs, column = item % packs * N;
            const i64 other = (i64)(line % (u32)first) * second + line / (u32)first;
            const Pack<From, N> given = load<N>(from + other * width + column);
            Pack<To, N> made;
            for (int n = 0; n < N; n++) made.at[n] = narrow<To>((Wide<To>)widen(given.at[n]));
            store<N>(to + (i64)line * width + column, made);
        }
    };
    if (width % least == 0 && aligned(from, to)) copy(Count<least>());
    else copy(Count<1>());
}

// Copies rows of so many numbers, whose beginnings lie `from_step` and `to_step` numbers apart.
template <class T>
__global__ void copy_rows(const T *from, i64 from_start, i64 from_step, T *to, i64 to_start, i64 to_step, i64 rows,
                          i64 width) {
    const auto copy = [=](auto count) {
        const int N = decltype(count)::value;
        const i64 packs = width / N, threads = (i64)gridDim.x * blockDim.x, first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
        const i64 down = threads / packs, across = threads % packs;
        i64 row = first / packs, pack = first % packs;
        while (row < rows) {
            store<N>(to + to_start + row * to_step + pack * N, load<N>(from + from_start + row * from_step + pack * N));
            row += down;
            pack += across;
            if (pack >= packs) {
                pack -= packs;
                row++;
            }
        }
    };
    const int most = Lanes<T>::most;
    const auto fit = [=](i64 lanes) { // a power of 2
        return (width | from_start | from_step | to_start | to_step) % lanes == 0 && aligned(from, to);
    };
    if (fit(most)) copy(Count<most>());
    else if (most > 4 && fit(4)) copy(Count<4>());
    else if (most > 2 && fit(2)) copy(Count<2>());
    else copy(Count<1>());
}

// Adds one array to another.
template <class T> __global__ void add_to(const T *part, T *total, i64 size) {
    for_each<T>(size, aligned(part, total), [=](auto count, i64 start) {
        const int N = decltype(count)::value;
        const Pack<T, N> more = load<N>(part + start);
        Pack<T, N> pack = load<N>(total + start);
        for (int n = 0; n < N; n++) pack.at[n] = narrow<T>(widen(pack.at[n]) + widen(more.at[n]));
        store<N>(total + start, pack);
    });
}
