// Pictures on their way into a net: cut, turned, shifted, their mean subtracted, scaled, in the net's type and layout, in
// one pass over the numbers as they are stored (images, channels, rows, columns).

#include "common.cuh"

enum Kind { SUBTRACT, MULTIPLY, OUTSIDE };

// A row of the table: subtract or multiply, by one number, one for each channel, or pixel (mode); or let what is outside of
// the picture at this stage be 0, which has rows x columns pixels then.
struct Change {
    i64 kind, stage, operand, mode, rows, columns;
};

__device__ inline bool inside(int row, int column, i64 rows, i64 columns) {
    return row >= 0 && row < rows && column >= 0 && column < columns;
}

struct Place { // what pixel (i, j) of a result was at an earlier stage: (row + i, column + step j)
    int row, column, step;
};

template <class S> struct Pictures {
    const S *from;
    const Place *places; // of stage s and image n: places[s images + n]
    const Change *changes;
    int images, channels, rows, columns, n_changes;
};

// The result has `height` x `width` pixels: in C order, or if `to_channels` is not 0 with so many channels last, of which
// those that pictures do not have are 0.
template <int N, class T, class S>
__device__ void convert_pictures(const Pictures<S> &p, T *to, int height, int width, int to_channels) {
    typedef Wide<T> W;
    const bool last = to_channels > 0;
    const u32 groups = (u32)(last ? to_channels : width) / N;
    const u32 lines = (u32)p.images * height * (last ? width : p.channels), items = lines * groups;
    for (u32 item = blockIdx.x * blockDim.x + threadIdx.x; item < items; item += gridDim.x * blockDim.x) {
        const int start = (int)(item % groups) * N;
        const u32 line = item / groups; // (image, row, column) or (image, channel, row)
        const int low = (int)(line % (last ? width : height));
        const int high = (int)(line / (last ? width : height) % (last ? height : p.channels));
        const int image = (int)(line / (last ? width : height) / (last ? height : p.channels));
        const int i = last ? high : low;
        const int here = last ? p.channels - start : N; // so many of the N are in the picture
        W values[N];
        const Place first = p.places[image];
        for (int n = 0; n < N; n++) {
            const int channel = last ? start + n : high, j = last ? low : start + n;
            const int row = first.row + i, column = first.column + first.step * j;
            const i64 at = ((i64)(image * p.channels + channel) * p.rows + row) * p.columns + column;
            values[n] = n < here && inside(row, column, p.rows, p.columns) ? (W)p.from[at] : W(0);
        }
        for (int k = 0; k < p.n_changes; k++) {
            const Change change = p.changes[k];
            const Place place = p.places[change.stage * p.images + image];
            const W *operand = reinterpret_cast<const W *>(change.operand);
            for (int n = 0; n < N; n++) {
                if (n >= here) continue;
                const int channel = last ? start + n : high, j = last ? low : start + n;
                const int row = place.row + i, column = place.column + place.step * j;
                const bool in = inside(row, column, change.rows, change.columns);
                i64 index = change.mode == 0 ? 0 : channel;
                if (change.mode == 2) index = (index * change.rows + row) * change.columns + column;
                if (change.kind == OUTSIDE)
                    values[n] = in ? values[n] : W(0);
                else if (in || change.mode != 2) // else it becomes 0 later
                    values[n] = change.kind == SUBTRACT ? values[n] - operand[index] : values[n] * operand[index];
            }
        }
        Pack<T, N> pack;
        for (int n = 0; n < N; n++) pack.at[n] = narrow<T>(values[n]);
        store<N>(to + (i64)item * N, pack);
    }
}

template <class T, class S>
__global__ void convert(const S *from, T *to, const Place *places, const Change *changes, i64 n_changes, i64 images,
                        i64 channels, i64 rows, i64 columns, i64 height, i64 width, i64 to_channels) {
    const Pictures<S> pictures = {from,          places,    changes,      (int)images,
                                  (int)channels, (int)rows, (int)columns, (int)n_changes};
    const i64 inner = to_channels > 0 ? to_channels : width;
    if (inner % Lanes<T>::most == 0 && aligned(to))
        convert_pictures<Lanes<T>::most>(pictures, to, (int)height, (int)width, (int)to_channels);
    else
        convert_pictures<1>(pictures, to, (int)height, (int)width, (int)to_channels);
}
