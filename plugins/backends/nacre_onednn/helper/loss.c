/* The loss of scores and labels, log softmax, and its gradient. Runs on every processor, with the same bits: threads share
 * out the rows, whose logarithms are added up in their order.
 */

#include <string.h>

#include "functions.h"

enum { IGNORED = -1, WRONG = -2 };

/* A label as a whole number, or IGNORED, or WRONG. */
static int64_t label_of(const struct loss *l, int64_t row) {
    double label = 0;
    switch (l->label_type) {
    case LABEL_FLOAT32: label = ((const float *)l->labels)[row]; break;
    case LABEL_FLOAT64: label = ((const double *)l->labels)[row]; break;
    case LABEL_INT32: label = ((const int32_t *)l->labels)[row]; break;
    case LABEL_INT64: label = (double)((const int64_t *)l->labels)[row]; break;
    default: label = ((const uint8_t *)l->labels)[row];
    }
    if (l->ignores && label == (double)l->ignored) return IGNORED;
    return label >= 0 && label < (double)l->classes && label == floor(label) ? (int64_t)label : WRONG;
}

/* How many of the images count. */
static int64_t images_of(const struct loss *l) {
    double images = l->scalars[l->rows];
    return images < (double)l->images ? (int64_t)images : l->images;
}

INLINE float largest_of(const float *x, int64_t count) {
    float most = x[0];
    for (int64_t c = 1; c < count; c++) most = x[c] > most || x[c] != x[c] ? x[c] : most;
    return most;
}

/* What a row's label asks of its classes: a number of its own class, and one of every class, times the class's weight. */
struct wanted {
    const float *weights;
    double own, every, sum;
};

INLINE struct wanted wanted_of(const struct loss *l, int64_t row) {
    int64_t classes = l->classes, chosen = l->chosen[row];
    struct wanted w = {l->weights ? l->weights + row % l->weight_rows * classes : 0, 0, 0, 0};
    if (chosen < 0) return w;
    double share = l->of_images ? l->of_images[row / l->steps] : 1, all = (double)classes;
    w.own = share * (1 - l->smoothing) * (w.weights ? w.weights[chosen] : 1);
    w.sum = w.own;
    if (l->smoothing == 0) return w;
    for (int64_t c = 0; w.weights && c < classes; c++) all += w.weights[c] - 1;
    w.every = share * l->smoothing / (double)classes;
    w.sum += w.every * all;
    return w;
}

/* The sum of the classes' logarithms times their weights; those of the weight 0 do not matter, whatever they are. */
INLINE double of_every(const struct wanted *w, const float *x, int64_t classes, float most, double log_sum) {
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        double weight = w->weights ? w->weights[c] : 1;
        if (weight != 0) sum += weight * ((double)x[c] - most - log_sum);
    }
    return sum;
}

/* Probabilities of the rows, and the logarithms of those of the labels. */
INLINE void loss_rows(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct loss *l = &op->loss;
    int64_t classes = l->classes;
    (void)worker;
    for (int64_t row = start; row < stop; row++) {
        const float *x = l->x + row * classes;
        float *p = l->probabilities + row * classes, most = largest_of(x, classes);
        double sums[LANES] = {0}, sum = 0;
        int64_t c = 0;
        for (int64_t at = 0; at < classes; at++) p[at] = exponential(x[at] - most);
        for (; c + LANES <= classes; c += LANES)
            for (int lane = 0; lane < LANES; lane++) sums[lane] += p[c + lane];
        for (; c < classes; c++) sum += p[c];
        for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
        for (int64_t at = 0; at < classes; at++) p[at] = (float)(p[at] / sum);
        struct wanted w = wanted_of(l, row);
        double log_sum = log(sum);
        l->logs[row] = w.own != 0 ? w.own * ((double)x[l->chosen[row]] - most - log_sum) : 0; /* p itself may be 0 */
        if (w.every != 0) l->logs[row] += w.every * of_every(&w, x, classes, most, log_sum);
    }
}

VERSIONS(loss_rows)

/* The mean over what counts of -log softmax(x)[label], with the weights there are. Returns 1 where a label is none, and writes no
 * probabilities then. */
int run_loss(const struct machine *machine, const struct operation *op) {
    const struct loss *l = &op->loss;
    int64_t rows = l->images * l->steps, images = images_of(l), counted = images * l->steps, valid = 0;
    double total = 0;
    for (int64_t row = 0; row < rows; row++) {
        l->chosen[row] = row < counted ? label_of(l, row) : IGNORED;
        if (l->chosen[row] == WRONG) return 1;
        valid += l->chosen[row] >= 0;
    }
    share_out(machine, op, best_loss_rows(), rows, 1);
    for (int64_t row = 0; row < counted; row++) total += l->logs[row];
    int64_t divisors[] = {larger(valid, 1), counted, images, 1};
    l->loss[1] = l->weight / (double)divisors[l->divisor];
    l->loss[0] = -l->loss[1] * total;
    return 0;
}

/* dx = softmax(x) times the sum of what is wanted, less what is wanted, times the factor of the loss; rows that do not count
 * get 0. */
INLINE void loss_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct loss *l = &op->loss;
    int64_t classes = l->classes;
    (void)worker;
    for (int64_t row = start; row < stop; row++) {
        float *dx = l->dx + row * classes;
        const float *p = l->probabilities + row * classes;
        struct wanted w = wanted_of(l, row);
        float scale = (float)(l->loss[1] * w.sum), every = (float)(l->loss[1] * w.every);
        for (int64_t c = 0; c < classes; c++) dx[c] = w.sum == 0 ? 0 : p[c] * scale;
        if (w.sum == 0) continue;
        if (w.every == 0) {
            dx[l->chosen[row]] = (p[l->chosen[row]] - 1) * scale;
            continue;
        }
        for (int64_t c = 0; c < classes; c++) dx[c] -= w.weights ? w.weights[c] * every : every;
        dx[l->chosen[row]] -= (float)(l->loss[1] * w.own);
    }
}

VERSIONS(loss_back)

void run_loss_gradient(const struct machine *machine, const struct operation *op) {
    const struct loss *l = &op->loss;
    if (l->dlabels) memset(l->dlabels, 0, (size_t)l->bytes);
    if (l->dof_images) memset(l->dof_images, 0, (size_t)l->images * sizeof(float));
    if (l->dx) share_out(machine, op, best_loss_back(), l->images * l->steps, 1);
}
