/* Convolutions of 2 x 2, of 3 x 3 and of 5 x 5 by Winograd's minimal filtering, after Lavin and Gray, "Fast algorithms for
 * convolutional neural networks", 2016. F(2x2, 3x3), which makes 2 x 2 results of a filter of 3 x 3, takes 16 products
 * instead of 36, F(4x2, 3x3) 24 instead of 72, F(4x4, 3x3) 36 instead of 144, F(2x2, 2x2) 9 instead of 16, F(4x4, 2x2) 25
 * instead of 64, and F(2x2, 5x5) 36 instead of 100. A register holds channels.
 *
 * An edge of a tile has as many numbers as its results and the `side` of the filter together, less one; its transform is as
 * large. It has the values of polynomials at points: at infinity, at 0 where the edge is not odd, and at one or two pairs of
 * a number and its opposite, where rounding does least harm of all that was tried. An edge of 3 has 0 and 1.
 *
 * With a stride of 2, filters of 4 x 4 and of 6 x 6 are four filters of half the size, each over every second pixel of every
 * second row: four phases, which stand for channels here. So do the planes that a filter with three axes sees along the first
 * of them. All are read from where they lie.
 *
 * Images are of float32 or of bf16, all sums of float32. What tiles and filters of bf16 become may be rounded to bf16, too:
 * a product is of two pairs then, and takes half the time. Needs AVX2, for bf16 avx512_bf16, and channels and filters of a
 * group that fill registers: multiples of 8, or of 16.
 */

#include "winograd.h"

#if defined(__x86_64__)

static const struct winograd_loops *loops(int64_t narrow, int64_t paired) {
    if (narrow) return paired ? &winograd_in_pairs : &winograd_in_bf16;
    return instructions >= AVX512 ? &winograd_on_avx512 : &winograd_on_avx2;
}

static int64_t kind_of(int64_t tall, int64_t broad, int64_t side) {
    int64_t kind = 0;
    while (TILINGS[kind].tall != tall || TILINGS[kind].broad != broad || TILINGS[kind].side != side) kind++;
    return kind;
}

/* Where the numbers of a group begin, `apart` from those of the group before; NULL stays NULL. */
static float *later(const float *numbers, int64_t group, int64_t apart) {
    return numbers ? (float *)numbers + group * apart : 0;
}

static void *images_later(const void *images, int64_t group, int64_t apart, int64_t narrow) {
    return images ? (char *)images + group * apart * (narrow ? 2 : 4) : 0;
}

void run_winograd_filters(const struct machine *machine, const struct operation *op) {
    const struct winograd_filters *f = &op->winograd_filters;
    const struct winograd_loops *all = loops(f->narrow, f->paired);
    const int64_t phases = f->depth * f->step * f->step, numbers = f->filters * f->channels, words = numbers / (1 + f->paired);
    for (int64_t group = 0; group < f->groups; group++) {
        struct operation part = *op;
        part.winograd_filters.w = later(f->w, group, numbers * phases * f->side * f->side);
        part.winograd_filters.tiled = later(f->tiled, group, apart(words * phases) * f->tall * f->broad);
        share_out(machine, &part, all->filters[kind_of(f->tall, f->broad, f->side)],
                  (f->back ? f->channels : f->filters) / all->lanes, 1);
    }
}

/* The images of a group, of x and of y or dy. */
static struct operation of_group(const struct operation *op, const struct convolution *w, int64_t group) {
    const struct winograd *o = &op->winograd;
    const int64_t lanes = loops(o->narrow, o->paired)->lanes;
    const int64_t of_x = o->channels / lanes * w->in.part, of_y = o->filters / lanes * w->out.part;
    struct operation part = *op;
    part.winograd.x = images_later(o->x, group, of_x, o->narrow);
    part.winograd.y = images_later(o->y, group, of_y, o->narrow);
    part.winograd.other = images_later(o->other, group, of_y, o->narrow);
    part.winograd.dy = images_later(o->dy, group, of_y, o->narrow);
    return part;
}

void run_winograd(const struct machine *machine, const struct operation *op) {
    const struct winograd *o = &op->winograd;
    const struct winograd_loops *all = loops(o->narrow, o->paired);
    struct convolution w = convolution(o, all->lanes);
    const work_t strips = all->strips[kind_of(o->tall, o->broad, o->side)];
    for (int64_t group = 0; group < o->groups; group++) {
        struct operation part = of_group(op, &w, group);
        part.winograd.w = later(o->w, group, apart(w.phases * w.filters * w.channels / w.numbers) * o->tall * o->broad);
        part.winograd.bias = later(o->bias, group, w.filters);
        share_out(machine, &part, strips, w.phases * pieces(&w), 1);
    }
}

void run_winograd_weights(const struct machine *machine, const struct operation *op) {
    const struct winograd *o = &op->winograd;
    const struct winograd_loops *all = loops(o->narrow, o->paired);
    struct convolution w = convolution(o, all->lanes);
    const int64_t kind = kind_of(o->tall, o->broad, o->side), eights = w.filters / (all->lanes / 2);
    for (int64_t group = 0; group < o->groups; group++) {
        struct operation part = of_group(op, &w, group);
        struct winograd *p = &part.winograd;
        p->dw = later(o->dw, group, w.filters * w.channels * o->side * o->side), p->db = later(o->db, group, w.filters);
        if (op->workers) share_out(machine, &part, all->alone[kind], op->workers, 1);
        for (int64_t begin = 0; !op->workers && begin < w.tiles; begin += w.room) {
            p->first = begin, p->end = smaller(begin + w.room, w.tiles), p->fresh = begin == 0;
            share_out(machine, &part, all->both[kind], pieces_of(p->end - begin, w.numbers), 1);
            share_out(machine, &part, all->add_products[kind], o->tall * o->broad * eights, 1);
        }
        share_out(machine, &part, all->filters_back[kind], w.filters, 1);
    }
}

#endif
