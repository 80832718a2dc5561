/* Embedding: rows of a weight by their numbers, and the sums of gradients with equal numbers. Runs on every processor, with
 * the same bits: rows are added up in their order, and threads share out the columns.
 */

#include <math.h>
#include <string.h>

#include "narrow.h"

/* A number from 0 to `count` - 1, or -1. */
static int64_t number_of(const struct embedding *e, int64_t row) {
    double number = 0;
    switch (e->number_type) {
    case LABEL_FLOAT32: number = ((const float *)e->x)[row]; break;
    case LABEL_FLOAT64: number = ((const double *)e->x)[row]; break;
    case LABEL_INT32: number = ((const int32_t *)e->x)[row]; break;
    case LABEL_INT64: number = (double)((const int64_t *)e->x)[row]; break;
    default: number = ((const uint8_t *)e->x)[row];
    }
    return number >= 0 && number < (double)e->count && number == floor(number) ? (int64_t)number : -1;
}

INLINE void take(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct embedding *e = &op->embedding;
    int64_t size = e->size;
    (void)worker;
    for (int64_t row = start; row < stop; row++) {
        const float *w = e->w + e->numbers[row] * size;
        if (e->narrow)
            for (int64_t i = 0; i < size; i++) put(e->y, row * size + i, w[i] + (e->bias ? e->bias[i] : 0), 1);
        else if (e->bias)
            for (int64_t i = 0; i < size; i++) put(e->y, row * size + i, w[i] + e->bias[i], 0);
        else
            memcpy((float *)e->y + row * size, w, (size_t)size * sizeof *w);
    }
}

/* Columns from `start` to `stop`. */
INLINE void collect_some(const struct embedding *e, int64_t start, int64_t stop, const int narrow) {
    int64_t size = e->size, wide = stop - start;
    for (int64_t number = 0; e->dw && number < e->count; number++)
        memset(e->dw + number * size + start, 0, (size_t)wide * sizeof *e->dw);
    if (e->dbias) memset(e->dbias + start, 0, (size_t)wide * sizeof *e->dbias);
    for (int64_t row = 0; row < e->images * e->steps; row++) {
        const void *restrict dy = (const char *)e->dy + row * size * (narrow ? 2 : 4);
        if (e->dw) {
            float *restrict dw = e->dw + e->numbers[row] * size;
            for (int64_t i = start; i < stop; i++) dw[i] += get(dy, i, narrow);
        }
        if (e->dbias) {
            float *restrict dbias = e->dbias;
            for (int64_t i = start; i < stop; i++) dbias[i] += get(dy, i, narrow);
        }
    }
}

INLINE void collect(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    (void)worker;
    if (op->embedding.narrow)
        collect_some(&op->embedding, start, stop, 1);
    else
        collect_some(&op->embedding, start, stop, 0);
}

VERSIONS(take)
VERSIONS(collect)

/* Returns 1 where a number is wrong; rows of images that do not count get the number 0. */
int run_embedding(const struct machine *machine, const struct operation *op) {
    const struct embedding *e = &op->embedding;
    int64_t rows = e->images * e->steps, counted = images_that_count(e->scalars, e->rows, e->images) * e->steps;
    for (int64_t row = 0; row < rows; row++)
        if ((e->numbers[row] = row < counted ? number_of(e, row) : 0) < 0) return 1;
    share_rows(machine, op, best_take(), rows, rows * e->size);
    return 0;
}

void run_embedding_gradient(const struct machine *machine, const struct operation *op) {
    const struct embedding *e = &op->embedding;
    if (e->dx) memset(e->dx, 0, (size_t)e->bytes);
    if (e->dw || e->dbias) share_out(machine, op, best_collect(), e->size, LANES);
}
