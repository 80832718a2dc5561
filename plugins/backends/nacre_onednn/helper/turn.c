/* Matrices turned: their rows become columns. Runs on every processor. */

#include "helper.h"

/* Of the blocks that are turned at a time: in float32 their rows are lines of the caches. Those that the next blocks read and
 * write are fetched: processors see no order in them. */
enum { SIDE = 16 };

enum { MOST_FEW = 4, LENGTH = 1024 };

#if defined(__clang__)
#define MIX(index, one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define MIX(index, one, other, ...) __builtin_shuffle(one, other, (index){__VA_ARGS__})
#endif

/* Blocks of numbers of a type, from rows that are `columns` apart to rows that are `rows` apart; those at the edges are smaller. */
#define TURNING(type)                                                                                                  \
    typedef type fours_of_##type __attribute__((vector_size(4 * sizeof(type)), aligned(sizeof(type)), may_alias));     \
    typedef type index_of_##type __attribute__((vector_size(4 * sizeof(type))));                                       \
                                                                                                                       \
    INLINE void turn_fours_of_##type(const type *from, int64_t columns, type *to, int64_t rows) {                      \
        typedef index_of_##type four;                                                                                  \
        four row[4];                                                                                                   \
        for (int i = 0; i < 4; i++) row[i] = *(const fours_of_##type *)(from + i * columns);                           \
        four left = MIX(four, row[0], row[1], 0, 4, 1, 5), right = MIX(four, row[0], row[1], 2, 6, 3, 7);              \
        four below = MIX(four, row[2], row[3], 0, 4, 1, 5), beside = MIX(four, row[2], row[3], 2, 6, 3, 7);            \
        row[0] = MIX(four, left, below, 0, 1, 4, 5), row[1] = MIX(four, left, below, 2, 3, 6, 7);                      \
        row[2] = MIX(four, right, beside, 0, 1, 4, 5), row[3] = MIX(four, right, beside, 2, 3, 6, 7);                  \
        for (int i = 0; i < 4; i++) *(fours_of_##type *)(to + i * rows) = row[i];                                      \
    }                                                                                                                  \
                                                                                                                       \
    static void turn_blocks_of_##type(const type *from, type *to, int64_t rows, int64_t columns, int64_t count) {      \
        for (int64_t column = 0; column < columns; column += SIDE) {                                                   \
            const int64_t wide = smaller(SIDE, columns - column);                                                      \
            for (int64_t i = 0; i < SIDE; i++) {                                                                       \
                __builtin_prefetch(from + (SIDE + i) * columns + column);                                              \
                __builtin_prefetch(to + (column + SIDE + i) * rows, 1);                                                \
            }                                                                                                          \
            if (count == SIDE && wide == SIDE)                                                                         \
                for (int i = 0; i < SIDE; i += 4)                                                                      \
                    for (int j = 0; j < SIDE; j += 4)                                                                  \
                        turn_fours_of_##type(from + j * columns + column + i, columns, to + (column + i) * rows + j, rows); \
            else                                                                                                       \
                for (int64_t i = column; i < column + wide; i++)                                                       \
                    for (int64_t j = 0; j < count; j++) to[i * rows + j] = from[j * columns + i];                      \
        }                                                                                                              \
    }
TURNING(uint32_t)
TURNING(uint16_t)

/* Pieces are blocks of rows of all matrices. */
static void turn_some(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct turn *t = &op->turn;
    const int64_t blocks = pieces_of(t->rows, SIDE);
    (void)worker;
    for (int64_t piece = start; piece < stop; piece++) {
        const int64_t row = piece % blocks * SIDE, matrix = piece / blocks * t->rows * t->columns;
        const int64_t from = matrix + row * t->columns, to = matrix + row, count = smaller(SIDE, t->rows - row);
        if (t->narrow)
            turn_blocks_of_uint16_t((const uint16_t *)t->x + from, (uint16_t *)t->y + to, t->rows, t->columns, count);
        else
            turn_blocks_of_uint32_t((const uint32_t *)t->x + from, (uint32_t *)t->y + to, t->rows, t->columns, count);
    }
}

/* Of matrices with few rows, or few columns, `count` of the others: they are mixed, or parted. */
#define FEW(type)                                                                                                      \
    INLINE void mix_##type(const type *x, type *y, int64_t columns, int64_t count, const int few) {                    \
        for (int64_t i = 0; i < count; i++)                                                                            \
            for (int j = 0; j < few; j++) y[i * few + j] = x[j * columns + i];                                         \
    }                                                                                                                  \
    INLINE void part_##type(const type *x, type *y, int64_t rows, int64_t count, const int few) {                      \
        for (int64_t i = 0; i < count; i++)                                                                            \
            for (int j = 0; j < few; j++) y[j * rows + i] = x[i * few + j];                                            \
    }                                                                                                                  \
    INLINE void few_of_##type(const type *restrict x, type *restrict y, int64_t rows, int64_t columns, int64_t at, int64_t count) { \
        if (rows <= MOST_FEW) x += at, y += at * rows; else x += at * columns, y += at;                                \
        switch (rows <= MOST_FEW ? rows : MOST_FEW + columns) {                                                        \
        case 1: mix_##type(x, y, columns, count, 1); break;                                                            \
        case 2: mix_##type(x, y, columns, count, 2); break;                                                            \
        case 3: mix_##type(x, y, columns, count, 3); break;                                                            \
        case 4: mix_##type(x, y, columns, count, 4); break;                                                            \
        case MOST_FEW + 1: part_##type(x, y, rows, count, 1); break;                                                   \
        case MOST_FEW + 2: part_##type(x, y, rows, count, 2); break;                                                   \
        case MOST_FEW + 3: part_##type(x, y, rows, count, 3); break;                                                   \
        case MOST_FEW + 4: part_##type(x, y, rows, count, 4); break;                                                   \
        }                                                                                                              \
    }
FEW(uint32_t)
FEW(uint16_t)

static int64_t length_of(const struct turn *t) { return t->rows <= MOST_FEW ? t->columns : t->rows; }

/* Pieces are LENGTH columns, or rows, of all matrices. */
INLINE void turn_few(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct turn *t = &op->turn;
    const int64_t blocks = pieces_of(length_of(t), LENGTH);
    (void)worker;
    for (int64_t piece = start; piece < stop; piece++) {
        const int64_t at = piece % blocks * LENGTH, count = smaller(LENGTH, length_of(t) - at);
        const int64_t matrix = piece / blocks * t->rows * t->columns;
        if (t->narrow)
            few_of_uint16_t((const uint16_t *)t->x + matrix, (uint16_t *)t->y + matrix, t->rows, t->columns, at, count);
        else
            few_of_uint32_t((const uint32_t *)t->x + matrix, (uint32_t *)t->y + matrix, t->rows, t->columns, at, count);
    }
}
VERSIONS(turn_few)

void run_turn(const struct machine *machine, const struct operation *op) {
    const struct turn *t = &op->turn;
    const int64_t size = t->matrices * t->rows * t->columns;
    if (t->rows <= MOST_FEW || t->columns <= MOST_FEW)
        share_rows(machine, op, best_turn_few(), t->matrices * pieces_of(length_of(t), LENGTH), size);
    else
        share_rows(machine, op, turn_some, t->matrices * pieces_of(t->rows, SIDE), size);
}
