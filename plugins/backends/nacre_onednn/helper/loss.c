/* The loss of scores and labels, log softmax, and its gradient. Runs on every processor, on one thread. */

#include <math.h>

#include "helper.h"

/* A label as a whole number, or -1. */
static int64_t label_of(const struct loss *l, int64_t image) {
    double label = 0;
    switch (l->label_type) {
    case LABEL_FLOAT32: label = ((const float *)l->labels)[image]; break;
    case LABEL_FLOAT64: label = ((const double *)l->labels)[image]; break;
    case LABEL_INT32: label = ((const int32_t *)l->labels)[image]; break;
    case LABEL_INT64: label = (double)((const int64_t *)l->labels)[image]; break;
    default: label = ((const uint8_t *)l->labels)[image];
    }
    return label >= 0 && label < (double)l->classes && label == floor(label) ? (int64_t)label : -1;
}

/* How many of the images count. */
static int64_t rows_of(const struct loss *l) {
    double rows = l->scalars[l->rows];
    return rows < (double)l->images ? (int64_t)rows : l->images;
}

/* The mean over the rows of -log softmax(x)[label], times the weight. Returns 1 where a label is none, and writes no
 * probabilities then. */
int run_loss(const struct operation *op) {
    const struct loss *l = &op->loss;
    int64_t images = l->images, classes = l->classes, rows = rows_of(l);
    int64_t *chosen = l->chosen;
    double total = 0;
    for (int64_t i = 0; i < rows; i++)
        if ((chosen[i] = label_of(l, i)) < 0) return 1;
    for (int64_t i = 0; i < images; i++) {
        const float *x = l->x + i * classes;
        float *p = l->probabilities + i * classes;
        float most = x[0];
        double sum = 0;
        for (int64_t c = 1; c < classes; c++) most = x[c] > most || x[c] != x[c] ? x[c] : most;
        for (int64_t c = 0; c < classes; c++) sum += p[c] = expf(x[c] - most);
        for (int64_t c = 0; c < classes; c++) p[c] = (float)(p[c] / sum);
        if (i < rows) total += (double)x[chosen[i]] - most - log(sum); /* p itself may be 0 */
    }
    *l->loss = -l->weight / (double)rows * total;
    return 0;
}

/* dx = (softmax(x) - 1 at the label) weight / rows; rows that do not count get 0. */
void run_loss_gradient(const struct operation *op) {
    const struct loss *l = &op->loss;
    int64_t images = l->images, classes = l->classes, rows = rows_of(l);
    const int64_t *chosen = l->chosen;
    float scale = (float)(l->weight / (double)rows);
    for (int64_t i = 0; i < images; i++) {
        float *dx = l->dx + i * classes;
        const float *p = l->probabilities + i * classes;
        for (int64_t c = 0; c < classes; c++) dx[c] = i < rows ? p[c] * scale : 0;
        if (i < rows) dx[chosen[i]] = (p[chosen[i]] - 1) * scale;
    }
}
