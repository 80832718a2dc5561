/* Max pooling of images in any layout, (planes, rows, columns, numbers side by side), in float32 or in bf16. Of equal
 * numbers the first wins, and a NaN wins over all; oneDNN's loses a NaN on some processors. Runs on every processor.
 */

#include "narrow.h"

/* A window: where its first cell inside lies in x and is counted, and where its result goes. */
struct window {
    const void *x;
    void *y, *winners;
    int64_t from, to;
    int32_t cell;
};

/* The largest of the cells of a window, of so many numbers side by side at `at`, as bits of float32. */
#define LARGEST(width)                                                                                                 \
    typedef float floats_##width __attribute__((vector_size(4 * (width))));                                            \
    typedef int32_t words_##width __attribute__((vector_size(4 * (width))));                                           \
    typedef uint16_t halves_##width __attribute__((vector_size(2 * (width))));                                         \
    typedef uint8_t bytes_##width __attribute__((vector_size(width)));                                                 \
    INLINE void read_##width(const void *x, int64_t index, words_##width *to, const int narrow) {                      \
        halves_##width halves;                                                                                         \
        if (narrow) {                                                                                                  \
            memcpy(&halves, (const uint16_t *)x + index, sizeof halves);                                               \
            *to = __builtin_convertvector(halves, words_##width) << 16;                                                \
        } else {                                                                                                       \
            memcpy(to, (const float *)x + index, sizeof *to);                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void largest_##width(const struct pooling *p, const struct window *w, int64_t at, const int64_t rows,       \
                                const int64_t columns, const int relu, const int bytes, const int narrow,              \
                                const int counts) {                                                                    \
        words_##width best, other, wins = (words_##width){0} + w->cell;                                                \
        read_##width(w->x, w->from + at, &best, narrow);                                                               \
        for (int64_t row = 0; row < rows; row++)                                                                       \
            for (int64_t column = 0; column < columns; column++) {                                                     \
                read_##width(w->x, w->from + at + (row * p->columns + column) * p->side, &other, narrow);              \
                words_##width taken = ~((floats_##width)other <= (floats_##width)best) &                               \
                                      ((floats_##width)best == (floats_##width)best);                                  \
                int32_t cell = w->cell + (int32_t)(row * p->right + column);                                           \
                best = (other & taken) | (best & ~taken);                                                              \
                if (counts) wins = (cell & taken) | (wins & ~taken);                                                   \
            }                                                                                                          \
        if (relu) best &= ~((floats_##width)best < 0);                                                                 \
        halves_##width halves = __builtin_convertvector(best >> 16, halves_##width);                                   \
        memcpy((char *)w->y + (w->to + at) * (narrow ? 2 : 4), narrow ? (void *)&halves : (void *)&best,               \
               narrow ? sizeof halves : sizeof best);                                                                  \
        bytes_##width small = __builtin_convertvector(wins, bytes_##width);                                            \
        if (counts)                                                                                                    \
            memcpy((char *)w->winners + (w->to + at) * (bytes ? 1 : 4), bytes ? (void *)&small : (void *)&wins,        \
                   bytes ? sizeof small : sizeof wins);                                                                \
    }

LARGEST(1)
LARGEST(4)
LARGEST(8)

/* Adds dy of a window to those of its cells in a row of x that won, of so many numbers side by side at `at`: to `cells` of
 * them from `dx` on, the first of which is the window's cell `first`. */
#define GIVE_BACK(width)                                                                                               \
    INLINE void give_back_##width(const struct pooling *p, int64_t from, float *dx, int64_t at, int32_t first,         \
                                  int64_t cells, const int bytes, const int narrow) {                                  \
        words_##width dy, wins;                                                                                        \
        bytes_##width small;                                                                                           \
        read_##width(p->dy, from + at, &dy, narrow);                                                                   \
        if (bytes) {                                                                                                   \
            memcpy(&small, (const uint8_t *)p->winners + from + at, sizeof small);                                     \
            wins = __builtin_convertvector(small, words_##width);                                                      \
        } else {                                                                                                       \
            memcpy(&wins, (const int32_t *)p->winners + from + at, sizeof wins);                                       \
        }                                                                                                              \
        for (int64_t cell = 0; cell < cells; cell++) {                                                                 \
            float *to = dx + cell * p->side + at;                                                                      \
            words_##width won = (wins == (words_##width){0} + first + (int32_t)cell) & dy;                             \
            floats_##width sum;                                                                                        \
            memcpy(&sum, to, sizeof sum);                                                                              \
            sum += (floats_##width)won;                                                                                \
            memcpy(to, &sum, sizeof sum);                                                                              \
        }                                                                                                              \
    }

GIVE_BACK(1)
GIVE_BACK(4)
GIVE_BACK(8)

/* The same, where no other window has these cells: they get dy or 0, as lanes of so many bits. */
#define HAND_BACK(width, bits)                                                                                         \
    typedef int##bits##_t lanes_of_##bits##_##width __attribute__((vector_size(bits / 8 * (width))));                  \
    INLINE void hand_back_##bits##_##width(const struct pooling *p, int64_t from, void *dx, int64_t at, int32_t first, \
                                           const int64_t cells, const int bytes) {                                     \
        lanes_of_##bits##_##width dy, won, wins_of_bytes;                                                              \
        words_##width wins;                                                                                            \
        bytes_##width small;                                                                                           \
        memcpy(&dy, (const int##bits##_t *)p->dy + from + at, sizeof dy);                                              \
        if (bytes) {                                                                                                   \
            memcpy(&small, (const uint8_t *)p->winners + from + at, sizeof small);                                     \
            wins_of_bytes = __builtin_convertvector(small, lanes_of_##bits##_##width);                                 \
        } else {                                                                                                       \
            memcpy(&wins, (const int32_t *)p->winners + from + at, sizeof wins);                                       \
        }                                                                                                              \
        for (int64_t cell = 0; cell < cells; cell++) {                                                                 \
            int32_t number = first + (int32_t)cell;                                                                    \
            won = bytes ? wins_of_bytes == (lanes_of_##bits##_##width){0} + (int##bits##_t)number                      \
                        : __builtin_convertvector(wins == (words_##width){0} + number, lanes_of_##bits##_##width);     \
            won &= dy;                                                                                                 \
            memcpy((int##bits##_t *)dx + cell * p->side + at, &won, sizeof won);                                       \
        }                                                                                                              \
    }

typedef int32_t words_16 __attribute__((vector_size(64)));
typedef uint8_t bytes_16 __attribute__((vector_size(16)));
HAND_BACK(1, 16)
HAND_BACK(4, 16)
HAND_BACK(8, 16)
HAND_BACK(16, 16)
HAND_BACK(1, 32)
HAND_BACK(4, 32)
HAND_BACK(8, 32)

/* The results of a window; the loops over the usual sizes, which are constant, are written out. */
INLINE void window_of(const struct pooling *p, const struct window *w, const int64_t rows, const int64_t columns, const int relu,
                      const int bytes, const int narrow, const int counts) {
    int64_t at = 0;
    for (; at + 8 <= p->side; at += 8) largest_8(p, w, at, rows, columns, relu, bytes, narrow, counts);
    for (; at + 4 <= p->side; at += 4) largest_4(p, w, at, rows, columns, relu, bytes, narrow, counts);
    for (; at < p->side; at++) largest_1(p, w, at, rows, columns, relu, bytes, narrow, counts);
}

/* Pieces are rows of y. */
INLINE void rows_in(const struct operation *op, int64_t start, int64_t stop, const int relu, const int bytes, const int narrow,
                    const int counts) {
    struct pooling p = op->pooling; /* a copy, which no store to y can change */
    for (int64_t line = start; line < stop; line++) {
        int64_t plane = line / p.out_rows, top = line % p.out_rows * p.step_down - p.above, skip = larger(0, -top);
        int64_t rows = smaller(p.down, p.rows - top) - skip;
        for (int64_t column = 0; column < p.out_columns; column++) {
            int64_t left = column * p.step_right - p.beside, over = larger(0, -left);
            int64_t columns = smaller(p.right, p.columns - left) - over;
            struct window w = {p.x, p.y, p.winners, ((plane * p.rows + top + skip) * p.columns + left + over) * p.side,
                               (line * p.out_columns + column) * p.side, (int32_t)(skip * p.right + over)};
            if (rows == 2 && columns == 2)
                window_of(&p, &w, 2, 2, relu, bytes, narrow, counts);
            else if (rows == 3 && columns == 3)
                window_of(&p, &w, 3, 3, relu, bytes, narrow, counts);
            else
                window_of(&p, &w, rows, columns, relu, bytes, narrow, counts);
        }
    }
}

INLINE void rows_of(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    int relu = op->pooling.relu != 0, bytes = op->pooling.bytes != 0;
    (void)worker;
    if (op->pooling.narrow)
        rows_in(op, start, stop, relu, bytes, 1, op->pooling.winners != NULL);
    else if (op->pooling.winners)
        rows_in(op, start, stop, relu, bytes, 0, 1);
    else
        rows_in(op, start, stop, relu, bytes, 0, 0);
}

/* dx = the sum of dy of the windows that a cell wins. Pieces are rows of x. */
INLINE void back_in(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int bytes, const int narrow) {
    struct pooling p = op->pooling;
    int64_t width = p.columns * p.side;
    for (int64_t line = start; line < stop; line++) {
        int64_t plane = line / p.rows, row = line % p.rows;
        float *dx = narrow ? p.scratch + worker * width : (float *)p.dx + line * width;
        for (int64_t one = 0; one < width; one++) dx[one] = 0;
        /* the windows that reach this row */
        int64_t first = larger(0, (row + p.above - p.down + p.step_down) / p.step_down);
        int64_t end = smaller(p.out_rows, (row + p.above) / p.step_down + 1);
        for (int64_t out = first; out < end; out++) {
            int64_t down = row - out * p.step_down + p.above, from = (plane * p.out_rows + out) * p.out_columns * p.side;
            for (int64_t column = 0; column < p.out_columns; column++, from += p.side) {
                int64_t left = column * p.step_right - p.beside, over = larger(0, -left);
                int64_t cells = smaller(p.right, p.columns - left) - over, at = 0;
                int32_t cell = (int32_t)(down * p.right + over);
                float *to = dx + (left + over) * p.side;
                for (; at + 8 <= p.side; at += 8) give_back_8(&p, from, to, at, cell, cells, bytes, narrow);
                for (; at + 4 <= p.side; at += 4) give_back_4(&p, from, to, at, cell, cells, bytes, narrow);
                for (; at < p.side; at++) give_back_1(&p, from, to, at, cell, cells, bytes, narrow);
            }
        }
        for (int64_t one = 0; narrow && one < width; one++) put(p.dx, line * width + one, dx[one], 1);
    }
}

/* A row of the cells of a window, of which so many are inside. */
INLINE void hand_back(const struct pooling *p, int64_t from, void *dx, int32_t first, const int64_t cells, const int bytes,
                      const int narrow) {
    int64_t at = 0;
    if (narrow) {
        for (; bytes && at + 16 <= p->side; at += 16) hand_back_16_16(p, from, dx, at, first, cells, bytes);
        for (; at + 8 <= p->side; at += 8) hand_back_16_8(p, from, dx, at, first, cells, bytes);
        for (; at + 4 <= p->side; at += 4) hand_back_16_4(p, from, dx, at, first, cells, bytes);
        for (; at < p->side; at++) hand_back_16_1(p, from, dx, at, first, cells, bytes);
    } else {
        for (; at + 8 <= p->side; at += 8) hand_back_32_8(p, from, dx, at, first, cells, bytes);
        for (; at + 4 <= p->side; at += 4) hand_back_32_4(p, from, dx, at, first, cells, bytes);
        for (; at < p->side; at++) hand_back_32_1(p, from, dx, at, first, cells, bytes);
    }
}

/* dx where windows do not overlap: dy where a cell wins, else 0. Pieces are rows of x. */
INLINE void apart_in(const struct operation *op, int64_t start, int64_t stop, const int bytes, const int narrow) {
    struct pooling p = op->pooling;
    const int64_t size = narrow ? 2 : 4;
    for (int64_t line = start; line < stop; line++) {
        int64_t plane = line / p.rows, out = (line % p.rows + p.above) / p.step_down;
        int64_t down = line % p.rows + p.above - out * p.step_down, behind = 0; /* the first column behind the windows before */
        int64_t from = (plane * p.out_rows + out) * p.out_columns * p.side;
        char *dx = (char *)p.dx + line * p.columns * p.side * size;
        for (int64_t column = 0; out < p.out_rows && down < p.down && column < p.out_columns; column++, from += p.side) {
            int64_t left = column * p.step_right - p.beside, over = larger(0, -left);
            int64_t cells = smaller(p.right, p.columns - left) - over;
            if (cells <= 0) continue;
            int32_t first = (int32_t)(down * p.right + over);
            char *to = dx + (left + over) * p.side * size;
            memset(dx + behind * p.side * size, 0, (size_t)((left + over - behind) * p.side * size));
            if (cells == 2)
                hand_back(&p, from, to, first, 2, bytes, narrow);
            else
                hand_back(&p, from, to, first, cells, bytes, narrow);
            behind = left + over + cells;
        }
        memset(dx + behind * p.side * size, 0, (size_t)((p.columns - behind) * p.side * size));
    }
}

INLINE void back(const struct operation *op, int64_t start, int64_t stop, int64_t worker, const int bytes, const int narrow) {
    const struct pooling *p = &op->pooling;
    if (p->step_down < p->down || p->step_right < p->right)
        back_in(op, start, stop, worker, bytes, narrow);
    else
        apart_in(op, start, stop, bytes, narrow);
}

INLINE void rows_back(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    switch (op->pooling.bytes * 2 + op->pooling.narrow) {
    case 0: back(op, start, stop, worker, 0, 0); break;
    case 1: back(op, start, stop, worker, 0, 1); break;
    case 2: back(op, start, stop, worker, 1, 0); break;
    default: back(op, start, stop, worker, 1, 1);
    }
}

VERSIONS(rows_of)
VERSIONS(rows_back)

/* Cells of all windows. */
static int64_t numbers(const struct operation *op) {
    const struct pooling *p = &op->pooling;
    return p->planes * p->out_rows * p->out_columns * p->side * p->down * p->right;
}

void run_pooling(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, best_rows_of(), op->pooling.planes * op->pooling.out_rows, numbers(op));
}

void run_pooling_gradient(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, best_rows_back(), op->pooling.planes * op->pooling.rows, numbers(op));
}
