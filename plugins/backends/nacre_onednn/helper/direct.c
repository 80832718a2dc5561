/* Convolutions of float32 as direct sums. A register holds the same number of 16 images, so that it is full whatever the
 * number of channels; oneDNN needs multiples of 16 for that. Needs AVX-512.
 *
 * A block of 16 images lies as (rows, columns, channels, 16) while it is worked on. The filters are (filters, rows,
 * columns, channels), so that a row of a window and a row of a filter are both contiguous: a convolution is a sum of
 * products over them.
 */

#include "avx512.h"

#if defined(__x86_64__)

enum { HIGH = 8, PIXELS = 2, SIDE = DIRECT_SIDE };

/* Images in memory: their channels come last, or in parts of so many, (images, channels / part, height, width, part). */
struct images {
    int64_t count, channels, height, width, part;
};

struct convolution {
    struct images in, out;
    int64_t channels, filters, rows, columns;
    int64_t down, right;   /* stride */
    int64_t above, beside; /* padding */
    int64_t run, window;   /* numbers in a row of a filter, and in a filter */
    int64_t pitch, x, y;   /* in registers: a row of padded images, a block of them, a block of results */
};

static struct convolution convolution(const struct direct *d) {
    struct convolution c = {
        .in = {d->images, d->channels, d->height, d->width, d->x_side},
        .out = {d->images, d->filters, d->out_height, d->out_width, d->y_side},
        .channels = d->channels, .filters = d->filters, .rows = d->rows, .columns = d->columns,
        .down = d->down, .right = d->right, .above = d->above, .beside = d->beside,
    };
    c.run = c.columns * c.channels, c.window = c.rows * c.run;
    c.pitch = (c.in.width + 2 * c.beside) * c.channels;
    c.x = c.in.height * c.pitch, c.y = c.out.height * c.out.width * c.filters;
    return c;
}

/* Copies a row of a block of images into registers, channels last, or back. */
ON_AVX512 static void copy_row(const struct images *i, float *images, int64_t block, int64_t row, float *lanes, int back) {
    int64_t image = i->height * i->width * i->channels, length = i->width * i->part, count = i->count - block * LANES;
    int64_t run = i->part == i->channels ? length : i->part; /* numbers that lie side by side on both sides */
    images += block * LANES * image + row * length;
    for (int64_t part = 0; part < i->channels; part += i->part, images += i->height * length)
        for (int64_t at = 0; at < length; at += run) {
            float *there = lanes + (at / i->part * i->channels + part) * LANES;
            if (back)
                scatter(there, images + at, image, count, run);
            else
                gather(images + at, image, count, run, there);
        }
}

/* Reads rows of a block of images, with columns of zeros beside. */
ON_AVX512 static void read_rows(const struct convolution *c, const float *x, int64_t block, int64_t row, int64_t end,
                                float *lanes) {
    int64_t pixels = c->in.width * c->channels, before = c->beside * c->channels;
    for (lanes += row * c->pitch * LANES; row < end; row++, lanes += c->pitch * LANES) {
        for (int64_t one = 0; one < before * LANES; one++) lanes[one] = lanes[(before + pixels) * LANES + one] = 0;
        copy_row(&c->in, (float *)x, block, row, lanes + before * LANES, 0);
    }
}

/* Some filters at some pixels beside each other. `x` and `w` are the first row of the windows and of the filters that
 * counts, of which there are `rows`; of each the numbers from `start` to `stop` count. */
INLINE_AVX512 void tile(const struct convolution *c, const float *x, const float *w, const float *bias, float *y, int64_t rows,
                        int64_t start, int64_t stop, int relu, const int filters, const int pixels) {
    __m512 sums[HIGH][PIXELS];
    int64_t apart = c->right * c->channels * LANES;
    for (int f = 0; f < filters; f++)
        for (int p = 0; p < pixels; p++) sums[f][p] = bias ? _mm512_set1_ps(bias[f]) : _mm512_setzero_ps();
    for (int64_t row = 0; row < rows; row++, x += c->pitch * LANES, w += c->run)
        for (int64_t at = start; at < stop; at++) {
            __m512 part[PIXELS];
            for (int p = 0; p < pixels; p++) part[p] = _mm512_load_ps(x + p * apart + at * LANES);
            for (int f = 0; f < filters; f++) {
                __m512 weight = _mm512_set1_ps(w[f * c->window + at]);
                for (int p = 0; p < pixels; p++) sums[f][p] = _mm512_fmadd_ps(weight, part[p], sums[f][p]);
            }
        }
    for (int p = 0; p < pixels; p++)
        for (int f = 0; f < filters; f++) /* a NaN stays */
            _mm512_store_ps(y + (p * c->filters + f) * LANES,
                            relu ? _mm512_max_ps(_mm512_setzero_ps(), sums[f][p]) : sums[f][p]);
}

ON_AVX512 static void any_tile(const struct convolution *c, const float *x, const float *w, const float *bias, float *y,
                               int64_t rows, int64_t start, int64_t stop, int relu, int64_t filters, int64_t pixels) {
#define TILE(f, p) case f * 4 + p: tile(c, x, w, bias, y, rows, start, stop, relu, f, p); break;
#define TILES(p) TILE(1, p) TILE(2, p) TILE(3, p) TILE(4, p) TILE(5, p) TILE(6, p) TILE(7, p) TILE(8, p)
    switch (filters * 4 + pixels) { TILES(1) TILES(2) }
}

/* y = x * w + b, and ReLU behind it. Scratch for each worker: a block of images and a row of results. Pieces are blocks of
 * images. Padding is left out where a whole row or a whole tile falls on it. */
ON_AVX512 static void convolve(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct direct *d = &op->direct;
    struct convolution c = convolution(d);
    const float *w = d->w, *bias = d->bias;
    int64_t line = c.out.width * c.filters, relu = d->relu;
    float *x = d->scratch + worker * (c.x + line) * LANES, *y = x + c.x * LANES;
    for (int64_t block = start; block < stop; block++)
        for (int64_t i = 0, there = 0; i < c.out.height; i++) {
            int64_t above = i * c.down - c.above, skip = larger(0, -above);
            int64_t rows = smaller(c.rows, c.in.height - above) - skip;
            int64_t end = larger(there, above + skip + rows); /* read when they are needed: they are in the cache then */
            read_rows(&c, d->x, block, there, end, x);
            there = end;
            for (int64_t f = 0, tiles = (c.filters + HIGH - 1) / HIGH; f < c.filters; tiles--) {
                int64_t filters = (c.filters - f + tiles - 1) / tiles;
                for (int64_t j = 0; j < c.out.width; j += PIXELS) {
                    int64_t pixels = smaller(PIXELS, c.out.width - j), left = j * c.right - c.beside;
                    int64_t from = larger(0, -left - (pixels - 1) * c.right), to = smaller(c.columns, c.in.width - left);
                    any_tile(&c, x + ((above + skip) * c.pitch + j * c.right * c.channels) * LANES,
                             w + f * c.window + skip * c.run, bias ? bias + f : bias, y + (j * c.filters + f) * LANES,
                             rows, from * c.channels, to * c.channels, (int)relu, filters, pixels);
                }
                f += filters;
            }
            copy_row(&c.out, d->y, block, i, y, 1);
        }
}

/* The gradient of some filters' numbers beside each other, over a block of images. */
INLINE_AVX512 void side(const struct convolution *c, const float *x, const float *dy, int64_t lines, float *sums,
                        const int filters, const int numbers) {
    __m512 kept[SIDE][SIDE];
    for (int f = 0; f < filters; f++)
        for (int n = 0; n < numbers; n++) kept[f][n] = _mm512_load_ps(sums + (f * c->run + n) * LANES);
    for (int64_t i = 0; i < lines; i++, x += c->down * c->pitch * LANES) {
        const float *row = x;
        for (int64_t j = 0; j < c->out.width; j++, row += c->right * c->channels * LANES, dy += c->filters * LANES) {
            __m512 part[SIDE];
            for (int n = 0; n < numbers; n++) part[n] = _mm512_load_ps(row + n * LANES);
            for (int f = 0; f < filters; f++) {
                __m512 top = _mm512_load_ps(dy + f * LANES);
                for (int n = 0; n < numbers; n++) kept[f][n] = _mm512_fmadd_ps(top, part[n], kept[f][n]);
            }
        }
    }
    for (int f = 0; f < filters; f++)
        for (int n = 0; n < numbers; n++) _mm512_store_ps(sums + (f * c->run + n) * LANES, kept[f][n]);
}

ON_AVX512 static void any_side(const struct convolution *c, const float *x, const float *dy, int64_t lines, float *sums,
                               int64_t filters, int64_t numbers) {
#define ONE_SIDE(f, n) case f * 8 + n: side(c, x, dy, lines, sums, f, n); break;
#define SIDES(n) ONE_SIDE(1, n) ONE_SIDE(2, n) ONE_SIDE(3, n) ONE_SIDE(4, n) ONE_SIDE(5, n)
    switch (filters * 8 + numbers) { SIDES(1) SIDES(2) SIDES(3) SIDES(4) SIDES(5) }
}

static int64_t blocks_of(const struct convolution *c) { return (c->in.count + LANES - 1) / LANES; }

/* The gradients of filters and bias. Scratch: the blocks of images, those of dy, and a row of five filters for each worker.
 * Pieces are blocks of images here, ... */
ON_AVX512 static void read_both(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct convolution c = convolution(&op->direct);
    float *x = op->direct.scratch, *dy = x + blocks_of(&c) * c.x * LANES;
    (void)worker;
    for (int64_t block = start; block < stop; block++) {
        read_rows(&c, op->direct.x, block, 0, c.in.height, x + block * c.x * LANES);
        for (int64_t i = 0; i < c.out.height; i++)
            copy_row(&c.out, (float *)op->direct.dy, block, i, dy + (block * c.y + i * c.out.width * c.filters) * LANES, 0);
    }
}

/* ... and rows of five filters here. */
ON_AVX512 static void convolve_weights(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    struct convolution c = convolution(&op->direct);
    int64_t blocks = blocks_of(&c);
    const float *x = op->direct.scratch, *dy = x + blocks * c.x * LANES;
    float *sums = op->direct.scratch + (blocks * (c.x + c.y) + worker * SIDE * c.run) * LANES;
    float *dw = op->direct.dw, *db = op->direct.db;
    for (int64_t task = start; task < stop; task++) {
        int64_t filter = task / c.rows * SIDE, row = task % c.rows, filters = smaller(SIDE, c.filters - filter);
        /* the rows of the result that this row of a filter meets inside the images */
        int64_t top = larger(0, (c.above - row + c.down - 1) / c.down);
        int64_t end = smaller(c.out.height, (c.in.height - 1 - row + c.above + c.down) / c.down);
        for (int64_t one = 0; one < filters * c.run * LANES; one++) sums[one] = 0;
        for (int64_t block = 0; block < blocks && top < end; block++)
            for (int64_t at = 0; at < c.run; at += SIDE)
                any_side(&c, x + (block * c.x + (top * c.down + row - c.above) * c.pitch + at) * LANES,
                         dy + (block * c.y + top * c.out.width * c.filters + filter) * LANES, end - top,
                         sums + at * LANES, filters, smaller(SIDE, c.run - at));
        const float *sum = sums;
        for (int64_t f = filter; f < filter + filters; f++)
            for (int64_t column = 0; column < c.columns; column++)
                for (int64_t channel = 0; channel < c.channels; channel++, sum += LANES)
                    dw[((f * c.channels + channel) * c.rows + row) * c.columns + column] =
                        _mm512_reduce_add_ps(_mm512_load_ps(sum));
        for (int64_t f = filter; db && row == 0 && f < filter + filters; f++) {
            __m512 total = _mm512_setzero_ps();
            for (int64_t pixel = 0; pixel < blocks * c.out.height * c.out.width; pixel++)
                total = _mm512_add_ps(total, _mm512_load_ps(dy + (pixel * c.filters + f) * LANES));
            db[f] = _mm512_reduce_add_ps(total);
        }
    }
}

/* Filters (filters, channels, rows, columns) as (filters, rows, columns, channels); or, for the gradient of images,
 * turned by half a turn as (channels, rows, columns, filters). */
static void turn(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct direct_filters *f = &op->direct_filters;
    const int64_t cells = f->rows * f->columns, channels = f->channels, others = f->back ? f->filters : channels;
    const float *w = f->w;
    float *to = f->turned + start * cells * others;
    (void)worker;
    for (int64_t one = start; one < stop; one++)
        for (int64_t cell = 0; cell < cells; cell++)
            for (int64_t other = 0; other < others; other++)
                *to++ = f->back ? w[(other * channels + one) * cells + cells - 1 - cell]
                                : w[(one * channels + other) * cells + cell];
}

void run_direct_filters(const struct machine *machine, const struct operation *op) {
    const struct direct_filters *f = &op->direct_filters;
    share_out(machine, op, turn, f->back ? f->channels : f->filters, 1);
}

void run_direct(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, convolve, (op->direct.images + LANES - 1) / LANES, 1);
}

void run_direct_weights(const struct machine *machine, const struct operation *op) {
    const struct direct *d = &op->direct;
    share_out(machine, op, read_both, (d->images + LANES - 1) / LANES, 1);
    share_out(machine, op, convolve_weights, (d->filters + SIDE - 1) / SIDE * d->rows, 1);
}

#endif
