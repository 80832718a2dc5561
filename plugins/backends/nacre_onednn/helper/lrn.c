/* LRN of images in any layout, (images, parts of channels, rows, columns, channels side by side), in float32 or in bf16:
 *
 *     y = x n^-power,  n = shift + scale (the sum of x^2 over a window)
 *     dx = dy n^-power - 2 power scale x (the sum of dy x n^(-power - 1) over the windows with x)
 *
 * A window reaches from -`down` to `up`, over channels or, within a channel, over rows and columns. Runs on every processor;
 * oneDNN has code for some processors, windows and layouts only.
 */

#include <math.h>

#include "narrow.h"

/* The sizes, and the numbers of the formula in float32, of an operation. */
struct window {
    int64_t images, channels, rows, columns, side, down, up;
    float scale, shift, power;
};

static struct window window(const struct lrn *l) {
    return (struct window){
        l->images, l->channels, l->rows, l->columns, l->side, l->down, l->up, (float)l->scale, (float)l->shift, (float)l->power,
    };
}

INLINE float norm_of(const struct window *l, float sum) { return l->shift + l->scale * sum; }

/* number n^-power, where n is the norm of a sum; the power of AlexNet, 0.75, by two roots, which take less time. */
INLINE void divide(const struct window *l, const float *number, const float *sums, float *to, int64_t count) {
    if (l->power == 0.75f)
#pragma GCC ivdep /* `to` may be `number` */
        for (int64_t i = 0; i < count; i++) {
            float n = norm_of(l, sums[i]), root = sqrtf(n);
            to[i] = number[i] / (root * sqrtf(root));
        }
    else
        for (int64_t i = 0; i < count; i++) to[i] = number[i] / powf(norm_of(l, sums[i]), l->power);
}

/* The channels of a pixel beside one another, or back. */
INLINE void read_pixel(const struct window *l, const void *images, int64_t pixel, float *to, const int narrow) {
    int64_t pixels = l->rows * l->columns, at = (pixel / pixels * pixels * l->channels) + pixel % pixels * l->side;
    for (int64_t part = 0; part < l->channels; part += l->side, at += pixels * l->side)
        for (int64_t one = 0; one < l->side; one++) to[part + one] = get(images, at + one, narrow);
}

INLINE void write_pixel(const struct window *l, void *images, int64_t pixel, const float *from, const int narrow) {
    int64_t pixels = l->rows * l->columns, at = (pixel / pixels * pixels * l->channels) + pixel % pixels * l->side;
    for (int64_t part = 0; part < l->channels; part += l->side, at += pixels * l->side)
        for (int64_t one = 0; one < l->side; one++) put(images, at + one, from[part + one], narrow);
}

/* Sums of windows of `count` numbers, before which lie zeros for what is `down` of the first, and behind for `up`. */
INLINE void windows(const float *from, float *sums, int64_t count, int64_t reach) {
    if (reach == 5) { /* AlexNet's, in one pass; the bits are the same */
        for (int64_t i = 0; i < count; i++) sums[i] = from[i] + from[i + 1] + from[i + 2] + from[i + 3] + from[i + 4];
        return;
    }
    for (int64_t i = 0; i < count; i++) sums[i] = from[i];
    for (int64_t step = 1; step < reach; step++)
        for (int64_t i = 0; i < count; i++) sums[i] += from[i + step];
}

/* Numbers of scratch memory that a worker has: four rows of the channels of a pixel, two of them with zeros beside. */
static int64_t room(const struct window *l) { return 4 * l->channels + 2 * (l->down + l->up); }

/* Forward, across channels. Pieces are pixels. */
INLINE void across_in(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct window l = window(&op->lrn);
    int64_t count = l.channels, reach = l.down + 1 + l.up;
    float *x = op->lrn.scratch + worker * room(&l), *sums = x + count, *squares = sums + count;
    for (int64_t one = 0; one < count + reach - 1; one++) squares[one] = 0;
    for (int64_t pixel = start; pixel < stop; pixel++) {
        read_pixel(&l, op->lrn.x, pixel, x, narrow);
        for (int64_t c = 0; c < count; c++) squares[l.down + c] = x[c] * x[c];
        windows(squares, sums, count, reach);
        divide(&l, x, sums, x, count);
        write_pixel(&l, op->lrn.y, pixel, x, narrow);
    }
}

/* Backward, across channels. Pieces are pixels. */
INLINE void across_back_in(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct window l = window(&op->lrn);
    int64_t count = l.channels, reach = l.down + 1 + l.up;
    float *x = op->lrn.scratch + worker * room(&l), *sums = x + count, *squares = sums + count;
    float *parts = squares + count + reach - 1, factor = 2 * l.power * l.scale;
    float *direct = squares + l.down, *dy = parts + l.up;
    for (int64_t one = 0; one < count + reach - 1; one++) squares[one] = parts[one] = 0;
    for (int64_t pixel = start; pixel < stop; pixel++) {
        read_pixel(&l, op->lrn.x, pixel, x, narrow);
        for (int64_t c = 0; c < count; c++) squares[l.down + c] = x[c] * x[c];
        windows(squares, sums, count, reach);
        read_pixel(&l, op->lrn.dy, pixel, dy, narrow);
        divide(&l, dy, sums, direct, count); /* where the squares were */
#pragma GCC ivdep
        for (int64_t c = 0; c < count; c++) dy[c] = direct[c] * x[c] / norm_of(&l, sums[c]);
        windows(parts, sums, count, reach);
#pragma GCC ivdep
        for (int64_t c = 0; c < count; c++) x[c] = direct[c] - factor * x[c] * sums[c];
        write_pixel(&l, op->lrn.dx, pixel, x, narrow);
    }
}

/* Adds up windows within channels into a row of sums: of the squares of `from`, or of its numbers. A window reaches from
 * -`down` to `up`. */
INLINE void add_within(const struct window *l, const void *from, int64_t row, int64_t down, int64_t up, float *sums,
                       const int squares, const int narrow) {
    int64_t width = l->columns * l->side;
    for (int64_t i = 0; i < width; i++) sums[i] = 0;
    for (int64_t there = row - down; there <= row + up; there++) {
        if (there < 0 || there >= l->rows) continue;
        for (int64_t right = -down; right <= up; right++) {
            int64_t step = right * l->side, begin = step < 0 ? -step : 0, end = step > 0 ? width - step : width;
            for (int64_t i = begin; i < end; i++) {
                float number = get(from, there * width + i + step, narrow);
                sums[i] += squares ? number * number : number;
            }
        }
    }
}

/* Forward, within channels; scratch: two rows for each worker. Pieces are rows of a part of the channels of an image. */
INLINE void within_in(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct window l = window(&op->lrn);
    int64_t width = l.columns * l.side, size = narrow ? 2 : 4;
    float *sums = op->lrn.scratch + worker * 2 * width, *x = sums + width;
    for (int64_t line = start; line < stop; line++) {
        const char *plane = (const char *)op->lrn.x + line / l.rows * l.rows * width * size;
        add_within(&l, plane, line % l.rows, l.down, l.up, sums, 1, narrow);
        for (int64_t i = 0; i < width; i++) x[i] = get(op->lrn.x, line * width + i, narrow);
        divide(&l, x, sums, x, width);
        for (int64_t i = 0; i < width; i++) put(op->lrn.y, line * width + i, x[i], narrow);
    }
}

/* Backward, within channels; scratch: two images of a part of the channels and a row for each worker. Pieces are such
 * images. */
INLINE void within_back_in(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int narrow) {
    struct window l = window(&op->lrn);
    int64_t width = l.columns * l.side, image = l.rows * width, size = narrow ? 2 : 4;
    float *parts = op->lrn.scratch + worker * (2 * image + width), *direct = parts + image, *sums = direct + image;
    float factor = 2 * l.power * l.scale;
    for (int64_t plane = start; plane < stop; plane++) {
        int64_t at = plane * image;
        for (int64_t row = 0; row < l.rows; row++) {
            float *dy = direct + row * width, *part = parts + row * width;
            add_within(&l, (const char *)op->lrn.x + at * size, row, l.down, l.up, sums, 1, narrow);
            for (int64_t i = 0; i < width; i++) dy[i] = get(op->lrn.dy, at + row * width + i, narrow);
            divide(&l, dy, sums, dy, width);
            for (int64_t i = 0; i < width; i++)
                part[i] = dy[i] * get(op->lrn.x, at + row * width + i, narrow) / norm_of(&l, sums[i]);
        }
        for (int64_t row = 0; row < l.rows; row++) {
            add_within(&l, parts, row, l.up, l.down, sums, 0, 0);
            for (int64_t i = row * width; i < (row + 1) * width; i++)
                put(op->lrn.dx, at + i, direct[i] - factor * get(op->lrn.x, at + i, narrow) * sums[i - row * width],
                    narrow);
        }
    }
}

#define OF_BOTH(work)                                                                                                  \
    INLINE void work(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {                        \
        if (op->lrn.narrow)                                                                                           \
            work##_in(op, start, stop, worker, 1);                                                                     \
        else                                                                                                           \
            work##_in(op, start, stop, worker, 0);                                                                     \
    }                                                                                                                  \
    VERSIONS(work)

OF_BOTH(across)
OF_BOTH(across_back)
OF_BOTH(within)
OF_BOTH(within_back)

void run_lrn(const struct machine *machine, const struct operation *op) {
    struct window l = window(&op->lrn);
    if (op->lrn.within)
        share_out(machine, op, best_within(), l.images * l.channels / l.side * l.rows, 1);
    else
        share_out(machine, op, best_across(), l.images * l.rows * l.columns, 1);
}

void run_lrn_gradient(const struct machine *machine, const struct operation *op) {
    struct window l = window(&op->lrn);
    if (op->lrn.within)
        share_out(machine, op, best_within_back(), l.images * l.channels / l.side, 1);
    else
        share_out(machine, op, best_across_back(), l.images * l.rows * l.columns, 1);
}
