/* Convolutions of float32 as direct sums. A register holds the same number of 8 or 16 images, so that it is full
 * whatever the number of channels; oneDNN needs multiples of 8 or 16 for that. Needs AVX2.
 *
 * A block of 16 images lies as (rows, columns, channels, 16) while it is worked on, on AVX2 one of 8 alike. The filters are (filters, rows,
 * columns, channels), so that a row of a window and a row of a filter are both contiguous: a convolution is a sum of
 * products over them.
 */

#include "direct.h"

#if defined(__x86_64__)

static const struct direct_loops *loops(void) { return instructions >= AVX512 ? &direct_on_avx512 : &direct_on_avx2; }

/* Filters (filters, channels, rows, columns) as (filters, rows, columns, channels); or, for the gradient of images,
 * turned by half a turn as (channels, rows, columns, filters). */
static void turn(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct direct_filters *f = &op->direct_filters;
    const int64_t cells = f->rows * f->columns, channels = f->channels, others = f->back ? f->filters : channels;
    const float *w = f->w;
    float *to = f->turned + start * cells * others;
    (void)worker;
    for (int64_t one = start; one < stop; one++)
        for (int64_t cell = 0; cell < cells; cell++)
            for (int64_t other = 0; other < others; other++)
                *to++ = f->back ? w[(other * channels + one) * cells + cells - 1 - cell]
                                : w[(one * channels + other) * cells + cell];
}

void run_direct_filters(const struct machine *machine, const struct operation *op) {
    const struct direct_filters *f = &op->direct_filters;
    share_out(machine, op, turn, f->back ? f->channels : f->filters, 1);
}

void run_direct(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, loops()->convolve, pieces_of(op->direct.images, loops()->lanes), 1);
}

void run_direct_weights(const struct machine *machine, const struct operation *op) {
    const struct direct *d = &op->direct;
    share_out(machine, op, loops()->read_both, pieces_of(d->images, loops()->lanes), 1);
    share_out(machine, op, loops()->convolve_weights, pieces_of(d->filters, loops()->side) * d->rows, 1);
}

#endif
