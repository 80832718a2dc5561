/* The mean of all pixels of images in any layout, (planes, pixels, numbers side by side), in float32 or in bf16. Some pixels at a
 * time are added up apart, so that large sums are rounded less often. Runs on every processor.
 */

#include "narrow.h"

enum { SIDE = 2 * LANES, PIXELS = 32 }; /* numbers of a piece, and pixels that are added up apart */

INLINE void mean_in(const struct mean *m, int64_t start, int64_t stop, const int narrow) {
    const int64_t parts = pieces_of(m->side, SIDE);
    for (int64_t piece = start; piece < stop; piece++) {
        const int64_t plane = piece / parts, first = piece % parts * SIDE, count = smaller(SIDE, m->side - first);
        float all[SIDE] = {0};
        for (int64_t begin = 0; begin < m->pixels; begin += PIXELS) {
            float some[SIDE] = {0};
            for (int64_t pixel = begin; pixel < smaller(begin + PIXELS, m->pixels); pixel++)
                for (int64_t i = 0; i < count; i++)
                    some[i] += get(m->x, (plane * m->pixels + pixel) * m->side + first + i, narrow);
            for (int64_t i = 0; i < count; i++) all[i] += some[i];
        }
        for (int64_t i = 0; i < count; i++) put(m->y, plane * m->side + first + i, all[i] / (float)m->pixels, narrow);
    }
}

INLINE void mean(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    if (op->mean.narrow)
        mean_in(&op->mean, start, stop, 1);
    else
        mean_in(&op->mean, start, stop, 0);
}

VERSIONS(mean)

void run_mean(const struct machine *machine, const struct operation *op) {
    const struct mean *m = &op->mean;
    share_rows(machine, op, best_mean(), m->planes * pieces_of(m->side, SIDE), m->planes * m->pixels * m->side);
}
