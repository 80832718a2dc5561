/* Windows of images as rows of a matrix, and back: with them a convolution is a product of matrices. Runs on every processor.
 *
 * Images lie with their channels last, (images, height, width, channels). The matrix is (images * out_height * out_width,
 * cells of a window * channels), where the cells of a window lie as (rows, columns).
 */

#include <string.h>

#include "helper.h"

/* Pieces are rows of windows; sizes are in bytes. */
static void lay(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct columns *c = &op->columns;
    const int64_t pixel = c->channels * (c->narrow ? 2 : 4), line = c->columns * pixel;
    (void)worker;
    for (int64_t row = start; row < stop; row++) {
        const char *image = (const char *)c->x + row / c->out_height * c->height * c->width * pixel;
        char *to = (char *)c->matrix + row * c->out_width * c->rows * line;
        for (int64_t j = 0; j < c->out_width; j++)
            for (int64_t i = 0; i < c->rows; i++, to += line) {
                int64_t y = row % c->out_height * c->down - c->above + i * c->row_step, left = j * c->right - c->beside;
                const char *from = image + (y * c->width + left) * pixel;
                if (y < 0 || y >= c->height)
                    memset(to, 0, (size_t)line);
                else if (left >= 0 && left + c->columns <= c->width && c->column_step == 1)
                    memcpy(to, from, (size_t)line);
                else
                    for (int64_t k = 0; k < c->columns; k++) {
                        int64_t x = left + k * c->column_step;
                        if (x < 0 || x >= c->width)
                            memset(to + k * pixel, 0, (size_t)pixel);
                        else
                            memcpy(to + k * pixel, from + k * c->column_step * pixel, (size_t)pixel);
                    }
            }
    }
}

/* Adds the cells of a row of windows that see a row of pixels: their cell number j sees pixel left + window * right. */
INLINE void add_row(const struct columns *c, const float *from, float *to, const int64_t channels) {
    const int64_t apart = c->rows * c->columns * c->channels;
    for (int64_t j = 0; j < c->columns; j++, from += channels) {
        int64_t left = j * c->column_step - c->beside, first = steps_to(left, c->right);
        int64_t stop = smaller(c->out_width, steps_to(left - c->width, c->right));
        for (int64_t window = first; window < stop; window++) {
            float *pixel = to + (left + window * c->right) * channels;
            for (int64_t one = 0; one < channels; one++) pixel[one] += from[window * apart + one];
        }
    }
}

/* Each pixel is the sum of the cells that saw it, and a bias. Pieces are rows of pixels. */
INLINE void sum(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct columns *c = &op->columns;
    const int64_t channels = c->channels, line = c->columns * channels;
    (void)worker;
    for (int64_t row = start; row < stop; row++) {
        int64_t image = row / c->height, y = row % c->height + c->above;
        float *to = c->y + row * c->width * channels;
        for (int64_t x = 0; x < c->width; x++)
            for (int64_t one = 0; one < channels; one++) to[x * channels + one] = c->bias ? c->bias[one] : 0;
        for (int64_t i = 0; i < c->rows; i++) {
            int64_t above = y - i * c->row_step, window = above / c->down;
            if (above < 0 || above % c->down || window >= c->out_height) continue;
            const float *from = (const float *)c->matrix + ((image * c->out_height + window) * c->out_width * c->rows + i) * line;
            if (channels == 3)
                add_row(c, from, to, 3);
            else if (channels == 1)
                add_row(c, from, to, 1);
            else
                add_row(c, from, to, channels);
        }
    }
}

VERSIONS(sum)

/* Numbers of the matrix. */
static int64_t numbers(const struct operation *op) {
    const struct columns *c = &op->columns;
    return c->images * c->out_height * c->out_width * c->rows * c->columns * c->channels;
}

void run_columns(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, lay, op->columns.images * op->columns.out_height, numbers(op));
}

void run_columns_sum(const struct machine *machine, const struct operation *op) {
    share_rows(machine, op, best_sum(), op->columns.images * op->columns.height, numbers(op));
}
