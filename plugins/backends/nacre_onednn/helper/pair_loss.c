/* Losses of two blobs, number by number: SquareLoss, HuberLoss and SigmoidCrossEntropyLoss. Runs on every processor, with the
 * same bits: threads share out pieces, whose sums are added up in their order.
 */

#include "neurons.h"

/* How many numbers of a and b count. */
static int64_t counted_of(const struct pair_loss *l) {
    return images_that_count(l->scalars, l->rows, l->images) * l->numbers;
}

INLINE float cut(float d, float delta) { return not_above(not_below(d, -delta), delta); }

/* f(a, b) */
INLINE float term(float a, float b, float delta, const int function) {
    if (function == CROSS_ENTROPY) /* (max(a, 0) - a b) apart, since it may be 0 */
        return logarithm(exponential(-fabsf(a))) + ((a > 0 ? a : 0) - a * b);
    float d = a - b, inside = cut(d, delta);
    return function == SQUARED ? d * d * 0.5f : (d - inside * 0.5f) * inside;
}

/* df/da, or df/db */
INLINE float slope(float a, float b, float delta, const int function, const int second) {
    if (function == CROSS_ENTROPY) return second ? -a : logistic(a) - b;
    float d = second ? b - a : a - b;
    return function == SQUARED ? d : cut(d, delta);
}

/* Multiplies what belongs to the numbers from `start` on by the weights of their images. */
INLINE void weigh(const struct pair_loss *l, float *out, int64_t start, int64_t count) {
    if (!l->of_images) return;
    for (int64_t i = 0, image = start / l->numbers; i < count; image++) {
        int64_t end = smaller(count, (image + 1) * l->numbers - start);
        float weight = l->of_images[image];
        for (; i < end; i++) out[i] *= weight;
    }
}

INLINE double sum_of(const struct pair_loss *l, int64_t start, int64_t count, const int function) {
    const float *a = l->a + start, *b = l->b + start;
    float terms[PAIR_PIECE], delta = (float)l->delta;
    for (int64_t at = 0; at < count; at++) terms[at] = term(a[at], b[at], delta, function);
    weigh(l, terms, start, count);
    return sum_in_float64(terms, count);
}

INLINE void pair_terms(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct pair_loss *l = &op->pair_loss;
    int64_t counted = counted_of(l);
    (void)worker;
    for (int64_t piece = start; piece < stop; piece++) {
        int64_t from = piece * PAIR_PIECE, count = smaller(counted - from, PAIR_PIECE);
        switch (l->function) {
        case SQUARED: l->sums[piece] = sum_of(l, from, count, SQUARED); break;
        case HUBER: l->sums[piece] = sum_of(l, from, count, HUBER); break;
        default: l->sums[piece] = sum_of(l, from, count, CROSS_ENTROPY);
        }
    }
}

/* Slopes times the factor of the loss, and times the weights of images. */
INLINE void slopes_in(const struct pair_loss *l, float *restrict out, int64_t start, int64_t count, const int function,
                      const int second) {
    const float *restrict a = l->a + start, *restrict b = l->b + start;
    float delta = (float)l->delta, factor = (float)l->loss[1];
    for (int64_t i = 0; i < count; i++) out[i] = slope(a[i], b[i], delta, function, second) * factor;
    weigh(l, out, start, count);
}

INLINE void slopes_of(const struct pair_loss *l, float *out, int64_t start, int64_t count, const int second) {
    switch (l->function) {
    case SQUARED: slopes_in(l, out, start, count, SQUARED, second); break;
    case HUBER: slopes_in(l, out, start, count, HUBER, second); break;
    default: slopes_in(l, out, start, count, CROSS_ENTROPY, second);
    }
}

/* Rows that do not count get 0. */
INLINE void pair_slopes(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct pair_loss *l = &op->pair_loss;
    int64_t counted = counted_of(l), size = l->images * l->numbers;
    (void)worker;
    for (int64_t piece = start; piece < stop; piece++) {
        int64_t from = piece * PAIR_PIECE, end = smaller(size, from + PAIR_PIECE);
        int64_t count = larger(smaller(counted, end) - from, 0), rest = end - from - count;
        if (l->da) {
            slopes_of(l, l->da + from, from, count, 0);
            memset(l->da + from + count, 0, (size_t)rest * sizeof(float));
        }
        if (l->db) {
            slopes_of(l, l->db + from, from, count, 1);
            memset(l->db + from + count, 0, (size_t)rest * sizeof(float));
        }
    }
}

VERSIONS(pair_terms)
VERSIONS(pair_slopes)

/* Shares out pieces of so many numbers; returns how many there are. */
static int64_t share_pieces(const struct machine *machine, const struct operation *op, work_t work, int64_t size) {
    int64_t pieces = pieces_of(size, PAIR_PIECE);
    share_rows(machine, op, work, pieces, op->pair_loss.function == CROSS_ENTROPY ? EXPENSIVE * size : size);
    return pieces;
}

void run_pair_loss(const struct machine *machine, const struct operation *op) {
    const struct pair_loss *l = &op->pair_loss;
    int64_t counted = counted_of(l), pieces = share_pieces(machine, op, best_pair_terms(), counted);
    double total = 0;
    for (int64_t piece = 0; piece < pieces; piece++) total += l->sums[piece];
    int64_t divisors[] = {larger(counted, 1), counted, counted / l->numbers, 1};
    l->loss[1] = l->weight / (double)divisors[l->divisor];
    l->loss[0] = l->loss[1] * total;
}

void run_pair_loss_gradient(const struct machine *machine, const struct operation *op) {
    const struct pair_loss *l = &op->pair_loss;
    if (l->dof_images) memset(l->dof_images, 0, (size_t)l->images * sizeof(float));
    if (l->da || l->db) share_pieces(machine, op, best_pair_slopes(), l->images * l->numbers);
}
