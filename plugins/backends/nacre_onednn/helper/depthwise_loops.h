/* The loops of depthwise.c, for the instructions of registers.h, which is included before. */

#include <math.h>

#include "depthwise.h"
#include "lanes.h"

enum { TOGETHER = 4 }; /* windows side by side */

/* Where windows stand: what their first cell inside sees of x, its weight, how many cells are inside, and their result. */
struct windows {
    const float *x, *w;
    float *y;
    int64_t rows, columns;
    int64_t first, end; /* of the channels */
};

/* The pixels side by side that several windows see. */
INLINE_ON int64_t reach(const struct depthwise *d) {
    return (TOGETHER - 1) * d->right + (d->columns - 1) * d->column_step + 1;
}

/* Sums of windows side by side: variables, since GCC would keep an array of them in memory. */
struct sums {
    WIDE one, two, three, four;
};

/* Adds cells side by side to the sums of TOGETHER windows, or of one. */
INLINE_ON void add_cells(const struct depthwise *d, const float *x, const float *w, int64_t cells, int64_t count,
                         const int several, struct sums *to) {
    const int64_t next = d->right * d->channels, step = d->column_step * d->channels;
    for (int64_t cell = 0; cell < cells; cell++, x += step, w += d->channels) {
        const WIDE weight = load_first(w, count);
        to->one = FMA(weight, load_first(x, count), to->one);
        if (!several) continue;
        to->two = FMA(weight, load_first(x + next, count), to->two);
        to->three = FMA(weight, load_first(x + 2 * next, count), to->three);
        to->four = FMA(weight, load_first(x + 3 * next, count), to->four);
    }
}

/* The same for three cells and several windows that are `right` pixels apart, 1 or 2: they share what they see. */
INLINE_ON void add_three(const struct depthwise *d, const float *x, const float *w, int64_t count, const int right,
                         struct sums *to) {
    const int64_t pixel = d->channels;
    const WIDE left = load_first(w, count), middle = load_first(w + pixel, count), last = load_first(w + 2 * pixel, count);
    WIDE first = load_first(x, count), second = load_first(x + pixel, count);
#define ADD_WINDOW(sum)                                                                                                \
    {                                                                                                                  \
        WIDE third = load_first(x + 2 * pixel, count);                                                                 \
        sum = FMA(left, first, sum), sum = FMA(middle, second, sum), sum = FMA(last, third, sum);                      \
        x += right * pixel;                                                                                            \
        first = right == 1 ? second : third, second = right == 1 ? third : load_first(x + pixel, count);               \
    }
    ADD_WINDOW(to->one) ADD_WINDOW(to->two) ADD_WINDOW(to->three) ADD_WINDOW(to->four)
#undef ADD_WINDOW
}

/* Adds up some windows, TOGETHER or one, for `count` channels from `channel` on. */
INLINE_ON void add_up(const struct depthwise *d, const struct windows *at, int64_t channel, int64_t count, const int several,
                      const int right) {
    const WIDE bias = d->bias ? load_first(d->bias + channel, count) : ZERO();
    struct sums sums = {bias, bias, bias, bias};
    for (int64_t row = 0; row < at->rows; row++) {
        const float *x = at->x + row * d->row_step * d->width * d->channels + channel;
        const float *w = at->w + row * d->columns * d->channels + channel;
        if (several && row + d->down >= at->rows && channel % IN_LINE == 0) /* what the windows above have not seen */
            for (int64_t pixel = reach(d); pixel < reach(d) + TOGETHER * d->right; pixel++)
                __builtin_prefetch(x + pixel * d->channels);
        if (several && right)
            add_three(d, x, w, count, right, &sums);
        else
            add_cells(d, x, w, at->columns, count, several, &sums);
    }
    const WIDE least = ALL(d->relu ? 0 : -INFINITY); /* a NaN stays one: it is the second number */
    float *y = at->y + channel;
    store_first(y, count, MAX(least, sums.one));
    if (!several) return;
    store_first(y + d->channels, count, MAX(least, sums.two));
    store_first(y + 2 * d->channels, count, MAX(least, sums.three));
    store_first(y + 3 * d->channels, count, MAX(least, sums.four));
}

/* `right`: the stride if there are three cells side by side and it is 1 or 2, else 0. */
INLINE_ON void some_channels(const struct depthwise *d, const struct windows *at, const int several, const int right) {
    int64_t channel = at->first;
    for (; channel + WIDTH <= at->end; channel += WIDTH) add_up(d, at, channel, WIDTH, several, right);
    if (channel < at->end) add_up(d, at, channel, at->end - channel, several, right);
}

/* Pieces are rows of y, or blocks of channels of all rows. */
ON static void convolve(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct depthwise d = op->depthwise; /* a copy, which no store to y can change */
    const int of_three = d.columns == 3 && d.column_step == 1;
    int64_t first = 0, end = d.channels;
    (void)worker;
    if (d.by_channels) {
        first = start * LANES, end = smaller(stop * LANES, d.channels);
        start = 0, stop = d.images * d.out_height;
    }
    for (int64_t line = start; line < stop; line++) {
        int64_t image = line / d.out_height, top = line % d.out_height * d.down - d.above, skip = steps_to(top, d.row_step);
        int64_t inside = larger(smaller(d.rows, steps_to(top - d.height, d.row_step)) - skip, 0);
        const float *x = d.x + (image * d.height + top + skip * d.row_step) * d.width * d.channels;
        const float *w = d.w + skip * d.columns * d.channels;
        for (int64_t column = 0; column < d.out_width;) {
            int64_t left = column * d.right - d.beside;
            int several = column + TOGETHER <= d.out_width && left >= 0 && left + reach(&d) <= d.width;
            int64_t over = steps_to(left, d.column_step), seen = smaller(d.columns, steps_to(left - d.width, d.column_step));
            struct windows at = {x + (left + over * d.column_step) * d.channels, w + over * d.channels,
                                 d.y + (line * d.out_width + column) * d.channels, inside, larger(seen - over, 0), first, end};
            if (!several)
                some_channels(&d, &at, 0, 0);
            else if (of_three && d.right == 1)
                some_channels(&d, &at, 1, 1);
            else if (of_three && d.right == 2)
                some_channels(&d, &at, 1, 2);
            else
                some_channels(&d, &at, 1, 0);
            column += several ? TOGETHER : 1;
        }
    }
}
