/* The loss of scores and labels, log softmax, and its gradient. Runs on every processor, with the same bits: threads share
 * out the rows, whose logarithms are added up in their order.
 */

#include "softmax.h"

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
INLINE double of_every(const struct wanted *w, const void *x, int64_t start, int64_t classes, double less, const int narrow) {
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        double weight = w->weights ? w->weights[c] : 1;
        if (weight != 0) sum += weight * (get(x, start + c, narrow) - less);
    }
    return sum;
}

/* Probabilities of a row, and the logarithm of that of the label. */
INLINE void loss_row(const struct loss *l, int64_t row, const int narrow) {
    int64_t classes = l->classes, start = row * classes;
    float *p = l->probabilities + start, most = largest_of(l->x, start, classes, narrow);
    double sum = exponentials(l->x, start, classes, most, p, narrow);
    for (int64_t at = 0; at < classes; at++) p[at] = (float)(p[at] / sum);
    struct wanted w = wanted_of(l, row);
    double log_sum = log(sum);
    l->logs[row] = 0;
    if (w.own != 0) l->logs[row] = w.own * ((double)get(l->x, start + l->chosen[row], narrow) - most - log_sum); /* p may be 0 */
    if (w.every != 0) l->logs[row] += w.every * of_every(&w, l->x, start, classes, most + log_sum, narrow);
}

INLINE void loss_rows(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    for (int64_t row = start; row < stop; row++)
        if (op->loss.narrow)
            loss_row(&op->loss, row, 1);
        else
            loss_row(&op->loss, row, 0);
}

VERSIONS(loss_rows)

/* The mean over what counts of -log softmax(x)[label], with the weights there are. Returns 1 where a label is none, and writes no
 * probabilities then. */
int run_loss(const struct machine *machine, const struct operation *op) {
    const struct loss *l = &op->loss;
    int64_t images = images_that_count(l->scalars, l->rows, l->images), counted = images * l->steps;
    int64_t rows = l->images * l->steps, valid = 0;
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
INLINE void back_row(const struct loss *l, int64_t row, const int narrow) {
    int64_t classes = l->classes, start = row * classes, chosen = l->chosen[row];
    const float *p = l->probabilities + start;
    struct wanted w = wanted_of(l, row);
    float scale = (float)(l->loss[1] * w.sum), every = (float)(l->loss[1] * w.every);
    if (w.sum == 0)
        for (int64_t c = 0; c < classes; c++) put(l->dx, start + c, 0, narrow);
    else if (w.every == 0) {
        for (int64_t c = 0; c < classes; c++) put(l->dx, start + c, p[c] * scale, narrow);
        put(l->dx, start + chosen, (p[chosen] - 1) * scale, narrow);
    } else {
        for (int64_t c = 0; c < classes; c++) put(l->dx, start + c, p[c] * scale - (w.weights ? w.weights[c] : 1) * every, narrow);
        float less = (w.weights ? w.weights[chosen] : 1) * every + (float)(l->loss[1] * w.own);
        put(l->dx, start + chosen, p[chosen] * scale - less, narrow);
    }
}

INLINE void loss_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    for (int64_t row = start; row < stop; row++)
        if (op->loss.narrow)
            back_row(&op->loss, row, 1);
        else
            back_row(&op->loss, row, 0);
}

VERSIONS(loss_back)

void run_loss_gradient(const struct machine *machine, const struct operation *op) {
    const struct loss *l = &op->loss;
    if (l->dlabels) memset(l->dlabels, 0, (size_t)l->bytes);
    if (l->dof_images) memset(l->dof_images, 0, (size_t)l->images * sizeof(float));
    if (l->dx) share_out(machine, op, best_loss_back(), l->images * l->steps, 1);
}
