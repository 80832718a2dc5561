/* Neurons, functions of several arrays, and chains of both in one pass over memory: a chunk of numbers, which the cache next to
 * the core holds, goes through all links before the next one. Runs on every processor, with the same bits.
 */

#include "narrow.h"
#include "neurons.h"

enum { CHUNK = 128 };

/* The last numbers, less than a chunk; not inlined, so that the masks of its vectors are not made for each chunk. */
__attribute__((noinline)) static const float *read_rest(const void *from, int64_t index, int64_t count, int narrow, float *room) {
    for (int i = 0; i < CHUNK; i++) room[i] = i < count ? get(from, index + i, narrow) : 0;
    return room;
}

__attribute__((noinline)) static void write_rest(const float *from, void *to, int64_t index, int64_t count, int narrow) {
    for (int i = 0; i < count; i++) put(to, index + i, from[i], narrow);
}

/* `count` numbers of `from`, beginning at an index, as a whole chunk of float32: where they are, or in `room`. */
INLINE const float *read_chunk(const void *from, int64_t index, int64_t count, int narrow, float *room) {
    if (count < CHUNK) return read_rest(from, index, count, narrow, room);
    if (!narrow) return (const float *)from + index;
    for (int i = 0; i < CHUNK; i++) room[i] = get(from, index + i, 1);
    return room;
}

INLINE void write_chunk(const float *from, void *to, int64_t index, int64_t count, int narrow) {
    if (count < CHUNK)
        write_rest(from, to, index, count, narrow);
    else if (narrow)
        for (int i = 0; i < CHUNK; i++) put(to, index + i, from[i], 1);
    else
        memcpy((float *)to + index, from, CHUNK * sizeof *from);
}

#define EACH(number, expression)                                                                                       \
    case number:                                                                                                       \
        _Pragma("GCC ivdep") for (int i = 0; i < CHUNK; i++) out[i] = expression;                                      \
        break;

INLINE float larger_of(float one, float other) { return one >= other || one != one ? one : other; } /* NaN is */

/* What a link makes of x, and of the other array's numbers o. */
INLINE void go_up(const struct link *link, const float *x, const float *o, float *out) {
    float first = (float)link->first, second = (float)link->second;
    switch (link->function) {
        EACH(ELU, elu(x[i], first))
        EACH(EXPONENTIAL, exponential_of_any(x[i]))
        EACH(LRELU, lrelu(x[i], first))
        EACH(RELU, x[i] < 0 ? 0 : x[i])
        EACH(SELU, selu(x[i]))
        EACH(SIGMOID, logistic(x[i]))
        EACH(SOFTPLUS, softplus(x[i], first))
        EACH(STANH, scaled_hyperbolic(x[i], first, second))
        EACH(TANH, hyperbolic_tangent(x[i]))
        EACH(GELU, gelu(x[i], 0))
        EACH(GELU_TANH, gelu_tanh(x[i], 0))
        EACH(HARDSWISH, hardswish(x[i]))
        EACH(MISH, mish(x[i]))
        EACH(SILU, silu(x[i], first))
        EACH(SCALED, x[i] * first)
        EACH(WEIGHED, x[i] * first + o[i] * second)
        EACH(TIMES, x[i] * o[i])
        EACH(OVER, x[i] / o[i])
        EACH(UNDER, o[i] / x[i])
        EACH(LARGER, larger_of(x[i], o[i]))
        EACH(LARGER_SECOND, larger_of(o[i], x[i]))
    }
}

#define BOTH(number, result, slope)                                                                                    \
    case number:                                                                                                       \
        _Pragma("GCC ivdep") for (int i = 0; i < CHUNK; i++) {                                                         \
            float at = x[i];                                                                                           \
            out[i] = result, slopes[i] = slope;                                                                        \
        }                                                                                                              \
        break;

/* What a neuron makes of x, and its slopes: what both need is computed once. */
INLINE void go_up_with_slopes(const struct link *link, const float *x, float *out, float *slopes) {
    float first = (float)link->first;
    switch (link->function) {
        BOTH(GELU, gelu(at, 0), gelu_slope(at, 0))
        BOTH(GELU_TANH, gelu_tanh(at, 0), gelu_tanh_slope(at, 0))
        BOTH(HARDSWISH, hardswish(at), hardswish_slope(at))
        BOTH(MISH, mish(at), mish_slope(at))
        BOTH(SILU, silu(at, first), silu_slope(at, first))
    }
}

/* The gradient of x, where that of y = go_up(x) is d. */
INLINE void go_down(const struct link *link, const float *x, const float *o, const float *y, const float *d, float *out) {
    float first = (float)link->first, second = (float)link->second;
    switch (link->function) {
        EACH(ELU, d[i] * elu_slope(y[i], first))
        EACH(EXPONENTIAL, d[i] * y[i])
        EACH(LRELU, d[i] * lrelu_slope(y[i], first))
        EACH(RELU, y[i] > 0 ? d[i] : 0)
        EACH(SELU, d[i] * selu_slope(y[i]))
        EACH(SIGMOID, d[i] * sigmoid_slope(y[i]))
        EACH(SOFTPLUS, d[i] * softplus_slope(y[i], first))
        EACH(STANH, d[i] * scaled_hyperbolic_slope(y[i], first, second))
        EACH(TANH, d[i] * hyperbolic_slope(y[i]))
        EACH(GELU, d[i] * gelu_slope(x[i], 0))
        EACH(GELU_TANH, d[i] * gelu_tanh_slope(x[i], 0))
        EACH(HARDSWISH, d[i] * hardswish_slope(x[i]))
        EACH(MISH, d[i] * mish_slope(x[i]))
        EACH(SILU, d[i] * silu_slope(x[i], first))
        EACH(SCALED, d[i] * first)
        EACH(WEIGHED, d[i] * first)
        EACH(TIMES, d[i] * o[i])
        EACH(OVER, d[i] / o[i])
        EACH(UNDER, -(d[i] * y[i] / x[i]))
        EACH(LARGER, d[i] * (x[i] == y[i] ? 1.0f : 0.0f))
        EACH(LARGER_SECOND, d[i] * (x[i] == y[i] && o[i] != y[i] ? 1.0f : 0.0f))
    }
}

/* The gradient of o. */
INLINE void go_aside(const struct link *link, const float *x, const float *o, const float *y, const float *d, float *out) {
    float second = (float)link->second;
    switch (link->function) {
        EACH(WEIGHED, d[i] * second)
        EACH(TIMES, d[i] * x[i])
        EACH(OVER, -(d[i] * y[i] / o[i]))
        EACH(UNDER, d[i] / x[i])
        EACH(LARGER, d[i] * (o[i] == y[i] && x[i] != y[i] ? 1.0f : 0.0f))
        EACH(LARGER_SECOND, d[i] * (o[i] == y[i] ? 1.0f : 0.0f))
    }
}

INLINE void chain_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct chain *c = &op->chain;
    int narrow = (int)c->narrow;
    float room[CHUNK], between[MOST_LINKS][CHUNK], others[CHUNK], kept[CHUNK];
    (void)worker;
    for (int64_t at = start; at < stop; at += CHUNK) {
        int64_t count = smaller(CHUNK, stop - at), last = c->count - 1;
        int direct = !narrow && count == CHUNK;
        const float *x = read_chunk(c->x, at, count, narrow, room), *o = others;
        for (int64_t k = 0; k <= last; k++) {
            const struct link *link = c->links + k;
            float *y = k == last && direct ? (float *)c->y + at : between[k];
            if (link->other) o = read_chunk(link->other, at, count, narrow, others);
            if (c->kept)
                go_up_with_slopes(link, x, y, kept);
            else
                go_up(link, x, o, y);
            x = y;
        }
        if (!direct) write_chunk(x, c->y, at, count, narrow);
        if (c->kept) write_chunk(kept, c->kept, at, count, 0);
    }
}

/* Whether a gradient reads what its link reads, and what it gives. */
static int reads_x(int64_t function) { return function >= GELU && function != SCALED && function != WEIGHED; }
static int reads_y(int64_t function) { return function < GELU || function >= OVER; }

/* What lies between the links is computed again, as far up as gradients need it. */
INLINE void chain_gradient_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct chain *c = &op->chain;
    int narrow = (int)c->narrow;
    float between[MOST_LINKS + 1][CHUNK], others[MOST_LINKS][CHUNK], room[CHUNK], sides[CHUNK], downs[CHUNK];
    const float *v[MOST_LINKS + 1], *o[MOST_LINKS]; /* what lies between, and the other arrays */
    int64_t known = 0;                              /* so many links are computed */
    (void)worker;
    for (int64_t k = 0; k < c->count; k++) {
        if (c->x && reads_x(c->links[k].function)) known = k;
        if (c->x && reads_y(c->links[k].function)) known = k + 1;
        v[k] = between[k], o[k] = others[k];
    }
    for (int64_t at = start; at < stop; at += CHUNK) {
        int64_t count = smaller(CHUNK, stop - at);
        int direct = !narrow && count == CHUNK;
        if (c->x) v[0] = read_chunk(c->x, at, count, narrow, between[0]);
        for (int64_t k = 0; k < c->count; k++) {
            const struct link *link = c->links + k;
            if (link->other && (k < known || reads_x(link->function)))
                o[k] = read_chunk(link->other, at, count, narrow, others[k]);
            if (k < known) go_up(link, v[k], o[k], between[k + 1]);
        }
        v[c->count] = between[c->count];
        if (c->y) v[c->count] = read_chunk(c->y, at, count, narrow, between[c->count]);
        const float *d = read_chunk(c->dy, at, count, narrow, room);
        for (int64_t k = c->count - 1; k >= 0; k--) {
            const struct link *link = c->links + k;
            if (link->dother && link->second == 1 && link->function == WEIGHED) {
                write_chunk(d, link->dother, at, count, narrow);
            } else if (link->dother) {
                float *out = direct ? (float *)link->dother + at : sides;
                go_aside(link, v[k], o[k], v[k + 1], d, out);
                if (!direct) write_chunk(out, link->dother, at, count, narrow);
            }
            if ((!k && !c->dx) || (link->first == 1 && link->function == WEIGHED)) continue;
            float *out = k || !direct ? downs : (float *)c->dx + at;
            go_down(link, v[k], o[k], v[k + 1], d, out);
            d = out;
        }
        if (c->dx && d != (float *)c->dx + at) write_chunk(d, c->dx, at, count, narrow);
    }
}

VERSIONS(chain_some)
VERSIONS(chain_gradient_some)

static void share_chunks(const struct machine *machine, const struct operation *op, work_t work) {
    int64_t cost = 0, size = op->chain.size;
    for (int64_t k = 0; k < op->chain.count; k++) cost += op->chain.links[k].function < SCALED ? EXPENSIVE : 1;
    share_out(machine, op, work, size, cost * size > ALONE ? CHUNK : size);
}

void run_chain(const struct machine *machine, const struct operation *op) {
    share_chunks(machine, op, best_chain_some());
}

void run_chain_gradient(const struct machine *machine, const struct operation *op) {
    if (op->chain.slopes)
        run_slopes(machine, op);
    else
        share_chunks(machine, op, best_chain_gradient_some());
}
