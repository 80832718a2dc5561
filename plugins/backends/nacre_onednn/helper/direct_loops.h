/* The loops of direct sums, see direct.c, for the instructions of registers.h, which is included before. */

#include "direct.h"
#include "lanes.h"

/* A tile is so many filters and pixels; of gradients, so many filters and numbers of each. */
#if BITS == 256
enum { HIGH = 6, PIXELS = 2, SIDE = 3, NUMBERS = 4 };
#else
enum { HIGH = 8, PIXELS = 2, SIDE = 5, NUMBERS = 5 };
#endif

/* Copies a row of a block of images into registers, channels last, or back. */
ON static void copy_row(const struct images *i, float *images, int64_t block, int64_t row, float *lanes, int back) {
    int64_t image = i->height * i->width * i->channels, length = i->width * i->part, count = i->count - block * WIDTH;
    int64_t run = i->part == i->channels ? length : i->part; /* numbers that lie side by side on both sides */
    images += block * WIDTH * image + row * length;
    for (int64_t part = 0; part < i->channels; part += i->part, images += i->height * length)
        for (int64_t at = 0; at < length; at += run) {
            float *there = lanes + (at / i->part * i->channels + part) * WIDTH;
            if (back)
                scatter(there, images + at, image, count, run);
            else
                gather(images + at, 4 * image, count, run, there);
        }
}

/* Reads rows of a block of images, with columns of zeros beside. */
ON static void read_rows(const struct convolution *c, const float *x, int64_t block, int64_t row, int64_t end, float *lanes) {
    int64_t pixels = c->in.width * c->channels, before = c->beside * c->channels;
    for (lanes += row * c->pitch * WIDTH; row < end; row++, lanes += c->pitch * WIDTH) {
        for (int64_t one = 0; one < before * WIDTH; one++) lanes[one] = lanes[(before + pixels) * WIDTH + one] = 0;
        copy_row(&c->in, (float *)x, block, row, lanes + before * WIDTH, 0);
    }
}

/* Some filters at some pixels beside each other. `x` and `w` are the first row of the windows and of the filters that
 * counts, of which there are `rows`; of each the numbers from `start` to `stop` count. */
INLINE_ON void tile(const struct convolution *c, const float *x, const float *w, const float *bias, float *y, int64_t rows,
                    int64_t start, int64_t stop, int relu, const int filters, const int pixels) {
    WIDE sums[HIGH][PIXELS];
    int64_t apart = c->right * c->channels * WIDTH;
    for (int f = 0; f < filters; f++)
        for (int p = 0; p < pixels; p++) sums[f][p] = bias ? EACH(bias + f) : ZERO();
    for (int64_t row = 0; row < rows; row++, x += c->pitch * WIDTH, w += c->run)
        for (int64_t at = start; at < stop; at++) {
            WIDE part[PIXELS];
            for (int p = 0; p < pixels; p++) part[p] = LOAD(x + p * apart + at * WIDTH);
            for (int f = 0; f < filters; f++) {
                WIDE weight = EACH(w + f * c->window + at);
                for (int p = 0; p < pixels; p++) sums[f][p] = FMA(weight, part[p], sums[f][p]);
            }
        }
    for (int p = 0; p < pixels; p++)
        for (int f = 0; f < filters; f++) /* a NaN stays */
            STORE(y + (p * c->filters + f) * WIDTH, relu ? MAX(ZERO(), sums[f][p]) : sums[f][p]);
}

ON static void any_tile(const struct convolution *c, const float *x, const float *w, const float *bias, float *y,
                               int64_t rows, int64_t start, int64_t stop, int relu, int64_t filters, int64_t pixels) {
#define TILE(f, p) case f * 4 + p: tile(c, x, w, bias, y, rows, start, stop, relu, f, p); break;
#define FEW(p) TILE(1, p) TILE(2, p) TILE(3, p) TILE(4, p) TILE(5, p) TILE(6, p)
#if BITS == 256
#define TILES(p) FEW(p)
#else
#define TILES(p) FEW(p) TILE(7, p) TILE(8, p)
#endif
    switch (filters * 4 + pixels) { TILES(1) TILES(2) }
}

/* y = x * w + b, and ReLU behind it. Scratch for each worker: a block of images and a row of results. Pieces are blocks of
 * images. Padding is left out where a whole row or a whole tile falls on it. */
ON static void convolve(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct direct *d = &op->direct;
    struct convolution c = convolution(d);
    const float *w = d->w, *bias = d->bias;
    int64_t line = c.out.width * c.filters, relu = d->relu;
    float *x = d->scratch + worker * (c.x + line) * WIDTH, *y = x + c.x * WIDTH;
    for (int64_t block = start; block < stop; block++)
        for (int64_t i = 0, there = 0; i < c.out.height; i++) {
            int64_t above = i * c.down - c.above, skip = larger(0, -above);
            int64_t rows = smaller(c.rows, c.in.height - above) - skip;
            int64_t end = larger(there, above + skip + rows); /* read when they are needed: they are in the cache then */
            read_rows(&c, d->x, block, there, end, x);
            there = end;
            for (int64_t f = 0, tiles = pieces_of(c.filters, HIGH); f < c.filters; tiles--) {
                int64_t filters = pieces_of(c.filters - f, tiles);
                for (int64_t j = 0; j < c.out.width; j += PIXELS) {
                    int64_t pixels = smaller(PIXELS, c.out.width - j), left = j * c.right - c.beside;
                    int64_t from = larger(0, -left - (pixels - 1) * c.right), to = smaller(c.columns, c.in.width - left);
                    any_tile(&c, x + ((above + skip) * c.pitch + j * c.right * c.channels) * WIDTH,
                             w + f * c.window + skip * c.run, bias ? bias + f : bias, y + (j * c.filters + f) * WIDTH,
                             rows, from * c.channels, to * c.channels, (int)relu, filters, pixels);
                }
                f += filters;
            }
            copy_row(&c.out, d->y, block, i, y, 1);
        }
}

/* The gradient of some filters' numbers beside each other, over a block of images. */
INLINE_ON void side(const struct convolution *c, const float *x, const float *dy, int64_t lines, float *sums, const int filters,
                    const int numbers) {
    WIDE kept[SIDE][NUMBERS];
    for (int f = 0; f < filters; f++)
        for (int n = 0; n < numbers; n++) kept[f][n] = LOAD(sums + (f * c->run + n) * WIDTH);
    for (int64_t i = 0; i < lines; i++, x += c->down * c->pitch * WIDTH) {
        const float *row = x;
        for (int64_t j = 0; j < c->out.width; j++, row += c->right * c->channels * WIDTH, dy += c->filters * WIDTH) {
            WIDE part[NUMBERS];
            for (int n = 0; n < numbers; n++) part[n] = LOAD(row + n * WIDTH);
            for (int f = 0; f < filters; f++) {
                WIDE top = LOAD(dy + f * WIDTH);
                for (int n = 0; n < numbers; n++) kept[f][n] = FMA(top, part[n], kept[f][n]);
            }
        }
    }
    for (int f = 0; f < filters; f++)
        for (int n = 0; n < numbers; n++) STORE(sums + (f * c->run + n) * WIDTH, kept[f][n]);
}

ON static void any_side(const struct convolution *c, const float *x, const float *dy, int64_t lines, float *sums, int64_t filters,
                        int64_t numbers) {
#define ONE_SIDE(f, n) case f * 8 + n: side(c, x, dy, lines, sums, f, n); break;
#if BITS == 256
#define SIDES(n) ONE_SIDE(1, n) ONE_SIDE(2, n) ONE_SIDE(3, n)
    switch (filters * 8 + numbers) { SIDES(1) SIDES(2) SIDES(3) SIDES(4) }
#else
#define SIDES(n) ONE_SIDE(1, n) ONE_SIDE(2, n) ONE_SIDE(3, n) ONE_SIDE(4, n) ONE_SIDE(5, n)
    switch (filters * 8 + numbers) { SIDES(1) SIDES(2) SIDES(3) SIDES(4) SIDES(5) }
#endif
}

/* The gradients of filters and bias. Scratch: the blocks of images, those of dy, and a row of some filters for each worker.
 * Pieces are blocks of images here, ... */
ON static void read_both(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct convolution c = convolution(&op->direct);
    float *x = op->direct.scratch, *dy = x + pieces_of(c.in.count, WIDTH) * c.x * WIDTH;
    (void)worker;
    for (int64_t block = start; block < stop; block++) {
        read_rows(&c, op->direct.x, block, 0, c.in.height, x + block * c.x * WIDTH);
        for (int64_t i = 0; i < c.out.height; i++)
            copy_row(&c.out, (float *)op->direct.dy, block, i, dy + (block * c.y + i * c.out.width * c.filters) * WIDTH, 0);
    }
}

/* ... and rows of as many filters here. */
ON static void convolve_weights(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct convolution c = convolution(&op->direct);
    int64_t blocks = pieces_of(c.in.count, WIDTH);
    const float *x = op->direct.scratch, *dy = x + blocks * c.x * WIDTH;
    float *sums = op->direct.scratch + (blocks * (c.x + c.y) + worker * SIDE * c.run) * WIDTH;
    float *dw = op->direct.dw, *db = op->direct.db;
    for (int64_t task = start; task < stop; task++) {
        int64_t filter = task / c.rows * SIDE, row = task % c.rows, filters = smaller(SIDE, c.filters - filter);
        /* the rows of the result that this row of a filter meets inside the images */
        int64_t top = larger(0, (c.above - row + c.down - 1) / c.down);
        int64_t end = smaller(c.out.height, (c.in.height - 1 - row + c.above + c.down) / c.down);
        for (int64_t one = 0; one < filters * c.run * WIDTH; one++) sums[one] = 0;
        for (int64_t block = 0; block < blocks && top < end; block++)
            for (int64_t at = 0; at < c.run; at += NUMBERS)
                any_side(&c, x + (block * c.x + (top * c.down + row - c.above) * c.pitch + at) * WIDTH,
                         dy + (block * c.y + top * c.out.width * c.filters + filter) * WIDTH, end - top,
                         sums + at * WIDTH, filters, smaller(NUMBERS, c.run - at));
        const float *sum = sums;
        for (int64_t f = filter; f < filter + filters; f++)
            for (int64_t column = 0; column < c.columns; column++)
                for (int64_t channel = 0; channel < c.channels; channel++, sum += WIDTH)
                    dw[((f * c.channels + channel) * c.rows + row) * c.columns + column] =
                        sum_of(LOAD(sum));
        for (int64_t f = filter; db && row == 0 && f < filter + filters; f++) {
            WIDE total = ZERO();
            for (int64_t pixel = 0; pixel < blocks * c.out.height * c.out.width; pixel++)
                total = ADD(total, LOAD(dy + (pixel * c.filters + f) * WIDTH));
            db[f] = sum_of(total);
        }
    }
}

#define LOOPS {WIDTH, SIDE, convolve, read_both, convolve_weights}
