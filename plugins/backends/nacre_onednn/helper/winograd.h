/* What the files of Winograd's filtering share: see winograd.c. */

#ifndef NACRE_WINOGRAD_H
#define NACRE_WINOGRAD_H

#include "helper.h"

/* How far apart cells of so many numbers lie: a line is between them, so that they do not all want the same places of a
 * cache. */
static inline int64_t apart(int64_t numbers) { return numbers + LANES; }

/* The same of tiles in a cell: short ones want different places anyway. */
static inline int64_t row_of(int64_t numbers) { return numbers < WINOGRAD_LONG ? numbers : apart(numbers); }

/* A plane and a phase of a stride: what a channel is among those of all of them, of which each has `channels`. */
struct phase {
    int64_t channel, plane, down, right;
};

static inline struct phase phase(int64_t channel, int64_t channels, int64_t step) {
    int64_t number = channel / channels;
    return (struct phase){channel % channels, number / (step * step), number / step % step, number % step};
}

/* Images as they lie: steps between images, `lanes` channels, planes, rows and pixels; and what is of interest here: the stride of
 * the tiles' pixels, how far before the image the first of them is, and the channels of a plane of a phase. */
struct images {
    int64_t image, part, plane, row, pixel, deep, height, width, step, before, above, beside, channels;
};

struct convolution {
    int64_t channels, filters, phases; /* channels of all planes and phases of x; filters of one of the phases of y */
    struct images in, out;
    int64_t down, across, tiles; /* tiles in a column and in a row of an image, and in all */
    int64_t numbers;             /* in a word of a product */
    int64_t room;                /* tiles at a time: of a worker, or of all for the gradient of the filters */
    int64_t side, rows, columns; /* of the filters of a phase, and of the results of a tile */
};

static inline struct images images(int64_t channels, int64_t groups, int64_t deep, int64_t height, int64_t width, int64_t blocked,
                            int64_t lanes) {
    int64_t all = groups * channels, pixel = blocked ? lanes : all, plane = height * width * pixel;
    return (struct images){.image = all * deep * height * width, .part = blocked ? deep * plane : lanes, .plane = plane,
                           .row = width * pixel, .pixel = pixel, .deep = deep, .height = height, .width = width, .step = 1,
                           .channels = channels};
}

/* Where the results of a tile are: the image, the plane, and the first row and column. */
struct origin {
    int64_t image, plane, row, column;
};

static inline struct origin origin(const struct convolution *w, int64_t tile) {
    int64_t line = tile / w->across, plane = line / w->down;
    int64_t row = w->rows * (line % w->down), column = w->columns * (tile % w->across);
    return (struct origin){plane / w->out.deep, plane % w->out.deep, row, column};
}

static inline struct convolution convolution(const struct winograd *o, int64_t lanes) {
    struct convolution w = {
        .channels = o->channels * o->x_step * o->x_step * o->depth, .filters = o->filters, .phases = o->y_step * o->y_step,
        .numbers = 1 + o->paired, .room = o->tiles, .side = o->side, .rows = o->tall + 1 - o->side, .columns = o->broad + 1 - o->side,
        .in = images(o->channels, o->groups, o->deep, o->height, o->width, o->x_blocked, lanes),
        .out = images(o->filters, o->groups, o->out_deep, o->out_height, o->out_width, o->y_blocked, lanes),
    };
    w.in.before = o->before, w.in.above = o->above, w.in.beside = o->beside, w.in.step = o->x_step, w.out.step = o->y_step;
    int64_t rows = pieces_of(o->out_height, o->y_step), columns = pieces_of(o->out_width, o->y_step);
    w.down = pieces_of(rows, w.rows), w.across = pieces_of(columns, w.columns);
    w.tiles = o->images * o->out_deep * w.down * w.across;
    return w;
}

/* The first row or column of y that belongs to a phase, and in *above how far before x its first tile is. */
static inline int64_t first_of(int64_t number, int64_t pad, int64_t step, int64_t side, int64_t *above) {
    int64_t outside = pad > number ? pieces_of(pad - number, step) : 0; /* rows of the phase before y */
    *above = side - 1 - outside;
    return step * outside + number - pad;
}

static inline void turn_to(struct convolution *w, const struct winograd *o, int64_t number) {
    w->out.above = -first_of(number / o->y_step, o->above, o->y_step, o->side, &w->in.above);
    w->out.beside = -first_of(number % o->y_step, o->beside, o->y_step, o->side, &w->in.beside);
}

/* How many pieces the tiles of a phase are. */
static inline int64_t pieces(const struct convolution *w) { return pieces_of(w->tiles, w->room); }

/* What the gradient of the filters needs: what `room` tiles of x and of dy become, (cells, tiles or pairs of them, channels
 * or filters), of dy with a cell more, the sums of their products, (cells, filters, channels), and of dy. */
struct sums {
    float *u, *e, *products, *tops;
    int64_t plane_of_u, plane_of_e, plane, size;
};

static inline struct sums sums_of(const struct convolution *w, float *memory, int64_t part, int64_t cells) {
    const int64_t tiles = w->room / w->numbers;
    struct sums s = {.plane_of_u = apart(tiles * row_of(w->channels)), .plane_of_e = apart(tiles * row_of(w->filters)),
                     .plane = apart(w->filters * w->channels)};
    s.size = cells * (s.plane_of_u + s.plane_of_e + s.plane) + s.plane_of_e + w->filters;
    s.u = memory + part * s.size, s.e = s.u + cells * s.plane_of_u, s.products = s.e + (cells + 1) * s.plane_of_e;
    s.tops = s.products + cells * s.plane;
    return s;
}

/* The tiles that there are. */
enum { KINDS = 6 };

static const struct tile {
    int64_t tall, broad, side;
} TILINGS[KINDS] = {{3, 3, 2}, {4, 4, 3}, {5, 5, 2}, {6, 4, 3}, {6, 6, 3}, {6, 6, 5}};

/* The loops for one kind of instructions, images and products: for each tile. */
struct winograd_loops {
    int64_t lanes; /* channels in a register */
    work_t filters[KINDS], strips[KINDS], both[KINDS], add_products[KINDS], filters_back[KINDS], alone[KINDS];
};

extern const struct winograd_loops winograd_on_avx2, winograd_on_avx512, winograd_in_bf16;
extern const struct winograd_loops winograd_in_pairs; /* of bf16; the first two tiles */

#endif
