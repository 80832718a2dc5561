/* The loss of scores and labels, log softmax, and its gradient. Runs on every processor, on one thread. */

#include <math.h>

#include "helper.h"

/* A label as a whole number, or -1. */
static int64_t label_of(const void *labels, int64_t type, int64_t place, int64_t classes) {
    double label = 0;
    switch (type) {
    case 0: label = ((const float *)labels)[place]; break;
    case 1: label = ((const double *)labels)[place]; break;
    case 2: label = ((const int32_t *)labels)[place]; break;
    case 3: label = (double)((const int64_t *)labels)[place]; break;
    default: label = ((const uint8_t *)labels)[place];
    }
    return label >= 0 && label < (double)classes && label == floor(label) ? (int64_t)label : -1;
}

/* How many of the images count. */
static int64_t rows_of(const struct operation *op) {
    double rows = ((const double *)op->pointers[3])[op->numbers[3]];
    return rows < (double)op->numbers[0] ? (int64_t)rows : op->numbers[0];
}

/* The mean over the rows of -log softmax(x)[label], times the weight.
 * pointers: x, labels, probabilities, scalars, loss, labels as whole numbers; numbers: images, classes, type of the
 * labels, place of the rows; values: the weight. Gives 1 where a label is none; the probabilities are as before then. */
int run_loss(const struct operation *op) {
    int64_t images = op->numbers[0], classes = op->numbers[1], rows = rows_of(op);
    int64_t *chosen = op->pointers[5];
    double total = 0;
    for (int64_t i = 0; i < rows; i++)
        if ((chosen[i] = label_of(op->pointers[1], op->numbers[2], i, classes)) < 0) return 1;
    for (int64_t i = 0; i < images; i++) {
        const float *x = (const float *)op->pointers[0] + i * classes;
        float *p = (float *)op->pointers[2] + i * classes;
        float most = x[0];
        double sum = 0;
        for (int64_t c = 1; c < classes; c++) most = x[c] > most || x[c] != x[c] ? x[c] : most;
        for (int64_t c = 0; c < classes; c++) sum += p[c] = expf(x[c] - most);
        for (int64_t c = 0; c < classes; c++) p[c] = (float)(p[c] / sum);
        if (i < rows) total += (double)x[chosen[i]] - most - log(sum); /* p itself may be 0 */
    }
    *(double *)op->pointers[4] = -op->values[0] / (double)rows * total;
    return 0;
}

/* dx = (softmax(x) - 1 at the label) weight / rows; rows that do not count get 0.
 * As for LOSS, with dx in the place of x. */
void run_loss_gradient(const struct operation *op) {
    int64_t images = op->numbers[0], classes = op->numbers[1], rows = rows_of(op);
    const int64_t *chosen = op->pointers[5];
    float scale = (float)(op->values[0] / (double)rows);
    for (int64_t i = 0; i < images; i++) {
        float *dx = (float *)op->pointers[0] + i * classes;
        const float *p = (const float *)op->pointers[2] + i * classes;
        for (int64_t c = 0; c < classes; c++) dx[c] = i < rows ? p[c] * scale : 0;
        if (i < rows) dx[chosen[i]] = (p[chosen[i]] - 1) * scale;
    }
}
