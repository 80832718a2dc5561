/* Softmax of scores, and its gradient, in float32 or in bf16. Runs on every processor. A NaN stays one, as in NumPy; some of
 * oneDNN's code loses it.
 */

#include "softmax.h"

enum { SOME = 256 }; /* classes at a time in bf16, which has no room for exponentials */

/* Probabilities of a row. */
INLINE void softmax_row(const struct softmax *s, int64_t start, const int narrow) {
    const float most = largest_of(s->x, start, s->classes, narrow);
    float some[SOME], *y = narrow ? some : (float *)s->y + start;
    const int64_t size = narrow ? SOME : s->classes;
    double sum = 0;
    for (int64_t at = 0; at < s->classes; at += size)
        sum += exponentials(s->x, start + at, smaller(size, s->classes - at), most, y, narrow);
    for (int64_t at = 0; at < s->classes; at += size) {
        const int64_t count = smaller(size, s->classes - at);
        if (size < s->classes) exponentials(s->x, start + at, count, most, y, narrow);
        for (int64_t c = 0; c < count; c++) put(s->y, start + at + c, (float)(y[c] / sum), narrow);
    }
}

/* Pieces are images. */
INLINE void softmax_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct softmax *s = &op->softmax;
    (void)worker;
    for (int64_t row = start; row < stop; row++)
        if (s->narrow)
            softmax_row(s, row * s->classes, 1);
        else
            softmax_row(s, row * s->classes, 0);
}

/* dx = y (dy - the sum of dy y). Pieces are images. */
INLINE void softmax_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    int64_t classes = op->softmax.classes, narrow = op->softmax.narrow;
    const void *y = op->softmax.y, *dy = op->softmax.dy;
    (void)worker;
    for (int64_t at = start * classes; at < stop * classes; at += classes) {
        float sum = 0;
        for (int64_t c = at; c < at + classes; c++) sum += get(dy, c, narrow) * get(y, c, narrow);
        for (int64_t c = at; c < at + classes; c++)
            put(op->softmax.dx, c, get(y, c, narrow) * (get(dy, c, narrow) - sum), narrow);
    }
}

VERSIONS(softmax_some)
VERSIONS(softmax_back)

void run_softmax(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, best_softmax_some(), op->softmax.images, EXPENSIVE * op->softmax.images * op->softmax.classes);
}

void run_softmax_gradient(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, best_softmax_back(), op->softmax.images, op->softmax.images * op->softmax.classes);
}
