/* Softmax of scores, and its gradient, in float32 or in bf16. Runs on every processor. A NaN stays one, as in NumPy; some of
 * oneDNN's code loses it.
 */

#include <math.h>

#include "narrow.h"

/* Probabilities of scores. Pieces are images. */
INLINE void softmax_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const void *x = op->softmax.x;
    int64_t classes = op->softmax.classes, narrow = op->softmax.narrow;
    (void)worker;
    for (int64_t at = start * classes; at < stop * classes; at += classes) {
        float largest = get(x, at, narrow), sum = 0;
        for (int64_t c = at + 1; c < at + classes; c++) {
            float score = get(x, c, narrow);
            largest = score > largest || score != score ? score : largest;
        }
        for (int64_t c = at; c < at + classes; c++) sum += expf(get(x, c, narrow) - largest);
        for (int64_t c = at; c < at + classes; c++)
            put(op->softmax.y, c, expf(get(x, c, narrow) - largest) / sum, narrow);
    }
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
