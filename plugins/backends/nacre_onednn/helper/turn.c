/* Matrices turned: their rows become columns. Runs on every processor. */

#include "helper.h"

/* Of the blocks that are turned at a time: in float32 their rows are lines of the caches. Those that the next blocks read and
 * write are fetched: processors see no order in them. */
enum { SIDE = 16 };

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

void run_turn(const struct machine *machine, const struct operation *op) {
    const struct turn *t = &op->turn;
    share_rows(machine, op, turn_some, t->matrices * pieces_of(t->rows, SIDE), t->matrices * t->rows * t->columns);
}
