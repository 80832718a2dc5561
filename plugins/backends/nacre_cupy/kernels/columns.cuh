// Sums over the rows of arrays (rows, columns): a block takes the rows of one part, and a tile of columns, 256 packs of N
// neighbours at most; where these are fewer, several lines of threads share out the rows. Sums always have one order.

const u32 BLOCK = 256;

template <int N> struct Columns {
    u32 part, here, lines, group, line, column;

    __device__ explicit Columns(u32 columns) {
        const u32 groups = columns / N, tiles = (groups + BLOCK - 1) / BLOCK, tile = blockIdx.x % tiles;
        part = blockIdx.x / tiles;
        here = groups - tile * BLOCK < BLOCK ? groups - tile * BLOCK : BLOCK;
        lines = BLOCK / here;
        group = threadIdx.x % here;
        line = threadIdx.x / here;
        column = (tile * BLOCK + group) * N;
    }

    // Calls work(row) for the rows of the thread's line in its part, of n_parts.
    template <class Row, class Work> __device__ void for_rows(Row rows, u32 n_parts, Work work) const {
        if (line < lines)
            for (Row row = part * lines + line; row < rows; row += n_parts * lines) work(row);
    }

    // Adds up what all lines have, number by number; calls put(number, sum) for the columns of a tile.
    template <int COUNT, class Put> __device__ void add_up(const double (&sums)[COUNT], Put put) const {
        __shared__ double shared[BLOCK];
#pragma unroll
        for (int number = 0; number < COUNT; number++) {
            __syncthreads();
            shared[threadIdx.x] = sums[number];
            __syncthreads();
            if (line != 0) continue;
            double all = 0;
            for (u32 other = 0; other < lines; other++) all += shared[other * here + group];
            put(number, all);
        }
    }
};
