// Uniform numbers of nacre.random, as nacre.random.Random.uniform fills an array with them.

#include "common.cuh"
#include "philox.cuh"

// An array of five axes that is a box of a larger one: its lengths but the first, how far its elements lie apart in that
// along each axis, and which number there its first one is.
template <class T>
__global__ void uniform(T *to, i64 size, const double *scalars, i64 step, i64 draw, i64 key0, i64 key1, i64 first,
                        i64 length1, i64 length2, i64 length3, i64 length4, i64 step0, i64 step1, i64 step2, i64 step3,
                        i64 step4) {
    const int each = 32 / sizeof(T); // numbers of a block
    const u64 iteration = (u64)scalars[step];
    for (i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x; index < size; index += (i64)gridDim.x * blockDim.x) {
        i64 left = index, number = first;
        number += left % length4 * step4, left /= length4;
        number += left % length3 * step3, left /= length3;
        number += left % length2 * step2, left /= length2;
        number += left % length1 * step1 + left / length1 * step0;
        const Words words = philox((u64)(number / each) + 1, (u64)draw, iteration, (u64)key0, (u64)key1);
        to[index] = uniform_of<T>(words, (int)(number % each));
    }
}
