/* Reads and writes numbers of float32, or of bf16 if the constant `narrow` is 1. */

#ifndef NACRE_NARROW_H
#define NACRE_NARROW_H

#include <string.h>

#include "helper.h"

INLINE float get(const void *numbers, int64_t index, const int narrow) {
    if (!narrow) return ((const float *)numbers)[index];
    uint32_t bits = (uint32_t)((const uint16_t *)numbers)[index] << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Rounds to the nearest, of two to the even one; a NaN stays one. */
INLINE void put(void *numbers, int64_t index, float number, const int narrow) {
    if (!narrow) {
        ((float *)numbers)[index] = number;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    ((uint16_t *)numbers)[index] = (uint16_t)(number == number ? rounded : (bits >> 16 | 0x40));
}

#endif
