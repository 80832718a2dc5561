// OneHot: y[..., c] = 1 where c is the number x[...], else 0; rows that do not count are 0.

#include "common.cuh"
#include "numbers.cuh"

// What is no number from 0 to `classes` - 1 is not `right`.
template <class T>
__global__ void one_hot(const void *x, i64 type, T *y, u8 *right, i64 positions, i64 images, i64 classes,
                        const double *scalars, i64 rows) {
    const i64 real = (i64)scalars[rows], count = positions / images * (real < images ? real : images);
    const bool fit = classes % Lanes<T>::most == 0 && aligned(y);
    for_each<T>(positions * classes, fit, [=](auto lanes, i64 start) {
        const int N = decltype(lanes)::value;
        const u32 position = (u32)start / (u32)classes, first = (u32)start % (u32)classes;
        const bool counts = position < count;
        const double given = counts ? number_at(x, type, position) : -1;
        if (first == 0) right[position] = !counts || (given >= 0 && given < classes && floor(given) == given);
        Pack<T, N> made;
        for (int n = 0; n < N; n++) made.at[n] = narrow<T>((Wide<T>)(given == (double)(first + n)));
        store<N>(y + start, made);
    });
}
