/* What softmax and its loss share: see softmax.c and loss.c. */

#ifndef NACRE_SOFTMAX_H
#define NACRE_SOFTMAX_H

#include "functions.h"
#include "narrow.h"

INLINE float larger_score(float score, float most) { return score > most || score != score ? score : most; } /* or NaN */

/* The largest of some scores, or NaN if one of them is NaN. */
INLINE float largest_of(const void *x, int64_t start, int64_t count, const int narrow) {
    float most[LANES], all = get(x, start, narrow);
    int64_t at = 0;
    for (int lane = 0; lane < LANES; lane++) most[lane] = all;
    for (; at + LANES <= count; at += LANES)
        for (int lane = 0; lane < LANES; lane++) most[lane] = larger_score(get(x, start + at + lane, narrow), most[lane]);
    for (int lane = 0; lane < LANES; lane++) all = larger_score(most[lane], all);
    for (; at < count; at++) all = larger_score(get(x, start + at, narrow), all);
    return all;
}

/* exp of each score less the largest; returns their sum. */
INLINE double exponentials(const void *x, int64_t start, int64_t count, float most, float *to, const int narrow) {
    for (int64_t at = 0; at < count; at++) to[at] = exponential(get(x, start + at, narrow) - most);
    return sum_in_float64(to, count);
}

#endif
