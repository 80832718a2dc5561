/* What the files of direct sums share: see direct.c. */

#ifndef NACRE_DIRECT_H
#define NACRE_DIRECT_H

#include "helper.h"

/* Images in memory: their channels come last, or in parts of so many, (images, channels / part, height, width, part). */
struct images {
    int64_t count, channels, height, width, part;
};

struct convolution {
    struct images in, out;
    int64_t channels, filters, rows, columns;
    int64_t down, right;   /* stride */
    int64_t above, beside; /* padding */
    int64_t run, window;   /* numbers in a row of a filter, and in a filter */
    int64_t pitch, x, y;   /* in registers: a row of padded images, a block of them, a block of results */
};

static inline struct convolution convolution(const struct direct *d) {
    struct convolution c = {
        .in = {d->images, d->channels, d->height, d->width, d->x_side},
        .out = {d->images, d->filters, d->out_height, d->out_width, d->y_side},
        .channels = d->channels, .filters = d->filters, .rows = d->rows, .columns = d->columns,
        .down = d->down, .right = d->right, .above = d->above, .beside = d->beside,
    };
    c.run = c.columns * c.channels, c.window = c.rows * c.run;
    c.pitch = (c.in.width + 2 * c.beside) * c.channels;
    c.x = c.in.height * c.pitch, c.y = c.out.height * c.out.width * c.filters;
    return c;
}

/* The loops for one kind of instructions. */
struct direct_loops {
    int64_t lanes; /* images in a register */
    int64_t side;  /* filters whose gradients are added up together */
    work_t convolve, read_both, convolve_weights;
};

extern const struct direct_loops direct_on_avx2, direct_on_avx512;

#endif
