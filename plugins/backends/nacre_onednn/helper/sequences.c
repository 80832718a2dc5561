/* Which steps of sequences count, and biases of recurrent layers. Runs on every processor, on one thread. */

#include <math.h>
#include <string.h>

#include "narrow.h"

static double number_at(const void *numbers, int64_t type, int64_t index) {
    switch (type) {
    case LABEL_FLOAT32: return ((const float *)numbers)[index];
    case LABEL_FLOAT64: return ((const double *)numbers)[index];
    case LABEL_INT32: return ((const int32_t *)numbers)[index];
    case LABEL_INT64: return (double)((const int64_t *)numbers)[index];
    case LABEL_BF16: return get(numbers, index, 1);
    default: return ((const uint8_t *)numbers)[index];
    }
}

/* Returns 1 if one of the numbers is not a whole one that a sequence can have. */
int run_recurrent_marks(const struct operation *op) {
    const struct recurrent_marks *m = &op->recurrent_marks;
    double real = m->rows < 0 ? (double)m->images : m->scalars[m->rows];
    for (int64_t n = 0; n < m->images; n++)
        for (int64_t step = 0; step < m->steps; step++) {
            int64_t row = n * m->image_rows + step * m->step_rows;
            double number = (double)n < real ? number_at(m->given, m->given_type, m->lengths ? n : row) : 0;
            if (!(number >= 0 && number <= (m->lengths ? (double)m->steps : 1) && number == floor(number))) return 1;
            if (m->lengths)
                m->marks[row] = (double)step < number ? MARK_NONE : MARK_PAST;
            else
                m->marks[row] = number == 0 ? MARK_FRESH : MARK_NONE;
        }
    return 0;
}

void run_recurrent_clear(const struct operation *op) {
    const struct recurrent_clear *c = &op->recurrent_clear;
    for (int64_t row = 0; row < c->rows; row++)
        if (c->marks[row] == MARK_PAST)
            memset(c->y + row * c->bytes, 0, (size_t)c->bytes);
        else
            memcpy(c->y + row * c->bytes, c->x + row * c->bytes, (size_t)c->bytes);
}

void run_recurrent_bias(const struct operation *op) {
    const struct recurrent_bias *b = &op->recurrent_bias;
    for (int64_t i = 0; i < b->size; i++) b->sum[i] = b->x[i] + (i < b->both ? b->h[i] : 0);
}
