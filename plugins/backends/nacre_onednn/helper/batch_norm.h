/* What the files of BatchNorm share: see batch_norm.c. */

#ifndef NACRE_BATCH_NORM_H
#define NACRE_BATCH_NORM_H

#include "narrow.h"

struct batch_norm_loops {
    work_t measure, normalise, add_up, spread_back; /* pieces are tasks */
};

extern const struct batch_norm_loops batch_norm_on_any, batch_norm_on_avx2, batch_norm_on_avx512;

struct moments { /* of 16 lanes, each with numbers of one channel */
    double count[LANES], mean[LANES], squares[LANES];
    double more[LANES], sum[LANES], products[LANES]; /* of what is not joined to them yet, less the centre */
    float centre[LANES];
};

struct sums {
    double sum[LANES], product[LANES]; /* of dy, and of dy (x - centre) */
};

_Static_assert(sizeof(struct moments) == BATCH_NORM_MOMENTS * LANES, "operations.h says otherwise");
_Static_assert(sizeof(struct sums) == BATCH_NORM_SUMS * LANES, "operations.h says otherwise");

struct batch {
    int64_t images, parts, pixels, width, groups;
    int64_t channels, chunks; /* chunks: registers for the channels of a pixel */
    int64_t relu, follows, narrow;
    const void *x, *dy, *other;
    const float *scale, *bias;
    void *y, *dx;
    float *running_mean, *running_variance, *dscale, *dbias;
    double *mean, *inverse;          /* kept from forward to backward; inverse: 1 / the standard deviation */
    float *centre, *factor, *shift;  /* likewise: y = (x - centre) factor + shift */
    void *parts_of_sums;             /* for each task and chunk */
    float *of_dy, *of_x, *constant;  /* dx = of_dy (dy - constant - of_x (x - centre)) */
};

static inline struct batch batch(const struct batch_norm *o) {
    struct batch b = {
        .images = o->images, .parts = o->parts, .pixels = o->pixels, .width = o->width, .groups = o->groups,
        .channels = o->parts * o->width, .chunks = pieces_of(o->width, LANES),
        .relu = o->relu, .follows = o->follows, .narrow = o->narrow,
        .x = o->x, .dy = o->dy, .other = o->other, .scale = o->scale, .bias = o->bias, .y = o->y, .dx = o->dx,
        .running_mean = o->running_mean, .running_variance = o->running_variance, .dscale = o->dscale, .dbias = o->dbias,
    };
    b.mean = o->kept, b.inverse = b.mean + b.channels;
    b.centre = (float *)(b.inverse + b.channels), b.factor = b.centre + b.channels, b.shift = b.factor + b.channels;
    b.of_dy = o->scratch, b.of_x = b.of_dy + b.channels, b.constant = b.of_x + b.channels;
    b.parts_of_sums = (char *)o->scratch + pieces_of(3 * b.channels * (int64_t)sizeof(float), ALIGNMENT) * ALIGNMENT;
    return b;
}

#endif
