/* What kernel.py hands over: all fields have 8 bytes, in this order. */

#ifndef NACRE_FLASH_H
#define NACRE_FLASH_H

#include <stdint.h>

enum { BLOCK = 64 }; /* queries, and keys, that are worked on at a time */
enum instructions { ANY, AVX2, AVX512 };
enum { MASK_UINT8, MASK_INT32, MASK_INT64, MASK_FLOAT32 };

/* Queries are (images, rows, heads x size), keys and values (images, keys, heads x size), y is like the queries; rows
 * of q, k and v lie `q_row`, ... numbers apart, images `q_image`, ...; their gradients lie as they do. */
struct flash {
    const float *q, *k, *v, *dy; /* dy: NULL in forward */
    float *y, *dq, *dk, *dv;     /* gradients: NULL where they are not wanted */
    float *levels;               /* (images, heads, rows): the logarithms of the sums; NULL if they are not wanted */
    const float *cosines, *sines; /* (positions, size / 2), or NULL */
    const void *mask;            /* (images, keys) or (images, rows, keys), or NULL */
    void *cleared;               /* gets `bytes` zeros: the gradient of the mask; NULL if it is not wanted */
    float *scratch;              /* `room` numbers for each thread */
    int64_t images, heads, rows, keys, size, padded; /* padded: size, as a multiple of 16 */
    int64_t q_row, q_image, k_row, k_image, v_row, v_image;
    int64_t mask_type, mask_row, mask_image, causal, room, bytes;
    double scale;
};

typedef void flash_t(const struct flash *f, int64_t start, int64_t stop, int64_t worker);

flash_t flash_any, flash_avx2, flash_avx512;

#endif
