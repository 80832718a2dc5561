/* The operations of the helper: their kinds, and the operands of each by name.
 *
 * A kind has the operands of the struct of the same name in small letters; where there is none, of the struct named like the
 * kind without its last word, so that LRN and LRN_GRADIENT share `lrn`. Pointers that a pass does not use, and those of
 * what is not there or not wanted, are NULL.
 *
 * native.py reads this file, so every name stands here alone. It understands enums, and structs whose fields are pointers,
 * int64_t and double: all of 8 bytes, so that Python and C agree where each lies.
 */

#ifndef NACRE_OPERATIONS_H
#define NACRE_OPERATIONS_H

#include <stdint.h>

/* To be raised whenever this file changes, or what a kind does: a helper that was compiled before is not used then. */
enum { HELPER_VERSION = 48 };

enum kind {
    PRIMITIVE, UPDATE, ADAM, DECAY, LOSS, LOSS_GRADIENT, PAIR_LOSS, PAIR_LOSS_GRADIENT, DROPOUT, DROPOUT_GRADIENT,
    RECTIFY, GATE, ADD, TURN, CHAIN, CHAIN_GRADIENT, LOOK_UP, SOFTMAX, SOFTMAX_GRADIENT,
    POOLING, POOLING_GRADIENT, MEAN, LRN, LRN_GRADIENT, BATCH_NORM, BATCH_NORM_GRADIENT, BATCH_NORM_SUM, FOLD, COLUMNS, COLUMNS_SUM,
    NORM, NORM_GRADIENT, EMBEDDING, EMBEDDING_GRADIENT, PACK, DIRECT, DIRECT_WEIGHTS, DIRECT_FILTERS, WINOGRAD, WINOGRAD_WEIGHTS, WINOGRAD_FILTERS,
    SMALL_BATCH, SMALL_BATCH_DATA, SMALL_BATCH_WEIGHTS,
    PRODUCT, PRODUCT_PANELS, PRODUCT_GRADIENT, PAIRS_GRADIENT, DEPTHWISE,
    SHARED, RECURRENT_MARKS, RECURRENT_CLEAR, RECURRENT_BIAS, RECURRENT_WEIGHTS, RECURRENT, RECURRENT_GRADIENT
};

/* Instructions that may be used: those of oneDNN, so that one variable of the environment sets both. */
enum { ANY, AVX2, AVX512, AMX };

enum { LANES = 16 };     /* numbers of float32 in a register of AVX-512 */
enum { ALIGNMENT = 64 }; /* bytes of a line of the caches, and of such a register: buffers begin at multiples of it */

/* The functions of oneDNN and of its OpenMP that the helper calls. */
typedef int execute_t(const void *primitive, void *stream, int count, const void *arguments);
typedef void parallel_t(void (*work)(void *), void *data, unsigned threads, unsigned flags);
typedef int count_t(void);
typedef void set_t(int count);

struct machine {
    execute_t *execute;    /* dnnl_primitive_execute */
    void *stream;
    parallel_t *parallel;  /* GOMP_parallel, or NULL */
    count_t *thread;       /* omp_get_thread_num */
    count_t *team;         /* omp_get_num_threads */
    count_t *most;         /* omp_get_max_threads, or NULL */
    set_t *set_most;       /* omp_set_num_threads */
    void *together;        /* while several operations run together: see threads.c */
    int64_t threads;
    int64_t of_primitives; /* threads of oneDNN's own */
};

/* A primitive of oneDNN. */
struct primitive {
    const void *primitive, *arguments;
    int64_t count; /* of the arguments */
};

/* A function of another package, whose pieces are shared out over the threads. */
typedef void function_t(const void *arguments, int64_t start, int64_t stop, int64_t worker);
struct shared {
    function_t *function;
    const void *arguments;
    int64_t size, unit;
};

/* w, and its gradient g and velocity v. `scalars` are the net's: `rate` and `momentum` are indices into them. */
struct update {
    float *w;
    const float *g;
    float *v;
    const double *scalars;
    double *products;           /* for each worker, the sum of its w g */
    const struct copied *copied; /* in the order of the parameters */
    int64_t size, rate, momentum, n_copied;
    double factor; /* of the rate */
};

/* w, and its gradient g and the means m and v. `rate`, `correction` and `epsilon` are indices into the scalars. */
struct adam {
    float *w;
    const float *g;
    float *m, *v;
    const double *scalars;
    double *products; /* for each worker, the sum of its w g */
    int64_t size, rate, correction, epsilon, inside; /* inside: epsilon is added below the root */
    double factor, beta1, beta2; /* factor: of the rate */
};

/* Parameters from `start` to `stop` have a copy in bf16 at `to`, where there must be room for whole registers. */
struct copied {
    int64_t start, stop;
    uint16_t *to;
};

struct decay {
    const float *w;
    float *g;
    int64_t size;
    double coefficient;
};

enum { LABEL_FLOAT32, LABEL_FLOAT64, LABEL_INT32, LABEL_INT64, LABEL_UINT8, LABEL_BF16 };

/* x is (images, steps, classes). `rows` is an index into the scalars: so many images count, and of their labels those that are
 * not `ignored`, if there is such a number (`ignores`). A label is a distribution: `smoothing` is shared out over all classes,
 * and the rest is its own class's. Row number i of x has row i % weight_rows of `weights` for its classes. */
enum { DIVIDE_BY_VALID, DIVIDE_BY_FULL, DIVIDE_BY_BATCH, DIVIDE_BY_NONE };
struct loss {
    const void *x;
    void *dx;
    float *probabilities;
    const void *labels;
    int64_t *chosen; /* the labels as whole numbers, which LOSS writes and LOSS_GRADIENT reads */
    const double *scalars;
    double *logs; /* of each label's probability */
    double *loss; /* and behind it the weight of a label */
    const float *weights, *of_images; /* or NULL for weights of 1 */
    void *dlabels, *dof_images;       /* get zeros; the first has so many `bytes` */
    int64_t images, steps, classes, label_type, rows, ignores, ignored, divisor, weight_rows, bytes, narrow;
    double weight, smoothing;
};

enum { SQUARED, HUBER, CROSS_ENTROPY };
enum { PAIR_PIECE = 1024 }; /* numbers that are added up together */

/* A sum over a and b, (images, numbers), in the images that count, as for `loss`: that of SquareLoss, HuberLoss or
 * SigmoidCrossEntropyLoss. `delta` is that of HuberLoss. */
struct pair_loss {
    const float *a, *b, *of_images; /* of_images: or NULL for weights of 1 */
    float *da, *db, *dof_images;    /* the last gets zeros */
    const double *scalars;
    double *sums; /* of each PAIR_PIECE numbers */
    double *loss; /* and behind it the factor of gradients */
    int64_t function, images, numbers, rows, divisor;
    double weight, delta;
};

/* y is (images, steps, size), the rows of w (count, size) whose numbers are x; as for `loss`, not all images may count. */
struct embedding {
    const void *x;
    const float *w, *bias;
    const void *dy;
    void *y;
    float *dw, *dbias;
    void *dx;         /* gets zeros, so many `bytes` */
    int64_t *numbers; /* which EMBEDDING writes and EMBEDDING_GRADIENT reads */
    const double *scalars;
    int64_t images, steps, count, size, number_type, rows, bytes, narrow;
};

/* `step` is an index into the scalars, `first` the number of the first element among those of all ranks. */
struct dropout {
    const float *x, *dy;
    float *y, *dx;
    uint8_t *kept; /* a byte for each element, which DROPOUT writes and DROPOUT_GRADIENT reads */
    const double *scalars;
    const uint64_t *key;
    int64_t size, first, step;
    double ratio, scale;
};

/* In these, `narrow` says whether blobs are of bf16 instead of float32. */

struct rectify {
    const void *x;
    void *y; /* may be x */
    int64_t size, narrow;
};

struct gate {
    const void *y, *dy; /* y: NULL where all of dy passes */
    void *dx;   /* may be dy */
    void *also; /* gets the same numbers */
    int64_t size, narrow;
};

struct add {
    const void *one, *other;
    void *y; /* may be one */
    int64_t size, relu, narrow;
};

/* Matrices x (matrices, rows, columns) turned: y (matrices, columns, rows). */
struct turn {
    const void *x;
    void *y;
    int64_t matrices, rows, columns, narrow;
};

/* What a link of a chain makes of x: neurons whose slopes are functions of y, then those whose slopes are functions of x; and of
 * x and another array: first x; first x + second other; x other; x / other; other / x; the larger one, where of equal ones x gets
 * the gradient; and the same, but other gets it. */
enum {
    ELU, EXPONENTIAL, LRELU, RELU, SELU, SIGMOID, SOFTPLUS, STANH, TANH,
    GELU, GELU_TANH, HARDSWISH, MISH, SILU,
    SCALED, WEIGHED, TIMES, OVER, UNDER, LARGER, LARGER_SECOND
};
enum { MOST_LINKS = 8 };
struct link {
    int64_t function;
    double first, second; /* the fields of a neuron */
    const void *other;
    void *dother;
};

/* Each link reads what the one before it gives: CHAIN reads x and writes y. CHAIN_GRADIENT reads dy, and x, from which it
 * computes again what gradients need; or y, if they need nothing else; or neither. It writes dx and those of the other
 * arrays, if they are wanted. In bf16 `slopes` may be those of the only link, as a function of x, at all its numbers. Of a
 * neuron alone whose slopes are functions of x, CHAIN writes these to `kept`, if it is not NULL, in float32. */
struct chain {
    const void *x, *dy;
    void *y, *dx; /* may be x and dy, if there are no other arrays */
    const struct link *links;
    const float *slopes;
    float *kept;
    int64_t count, size, narrow;
};

/* A function of bf16 has no more than 65,536 results: y is that of x in `results`, which are in the order of the bits of x. */
struct look_up {
    const uint16_t *x, *results;
    uint16_t *y; /* may be x */
    int64_t size;
};

/* SOFTMAX reads x and writes y; SOFTMAX_GRADIENT reads y and dy, and writes dx. */
struct softmax {
    const void *x, *dy;
    void *y, *dx;
    int64_t images, classes, narrow;
};

/* Images lie as (planes, rows, columns, side): `side` numbers side by side. */
struct pooling {
    const void *x, *dy;
    void *y, *dx;
    void *winners;  /* the number of the cell that each window's maximum comes from; NULL: not wanted */
    float *scratch; /* POOLING_GRADIENT in bf16: a row of x for each worker */
    int64_t planes, rows, columns, side, out_rows, out_columns;
    int64_t down, right, step_down, step_right, above, beside; /* windows, their stride, their padding */
    int64_t relu, bytes, narrow; /* bytes: winners are uint8_t instead of int32_t */
};

/* x lies as (planes, pixels, side), and y, the means of the pixels, as (planes, side). */
struct mean {
    const void *x;
    void *y;
    int64_t planes, pixels, side, narrow;
};

/* Images lie as (images, channels / side, rows, columns, side). Windows reach from -down to up. */
struct lrn {
    const void *x, *dy;
    void *y, *dx;
    float *scratch;
    int64_t images, channels, rows, columns, side, down, up;
    int64_t within, narrow; /* within: windows lie within a channel, instead of across channels */
    double scale, shift, power;
};

enum { BATCH_NORM_MOMENTS = 52, BATCH_NORM_SUMS = 16 }; /* bytes for each lane while it adds up */

/* A blob is (images, parts, pixels, width), with parts x width channels; `groups` of pixels are tasks of their own. Where
 * BATCH_NORM gets no y, BATCH_NORM_SUM writes it, with `other` added before ReLU. */
struct batch_norm {
    const void *x, *dy, *other;
    void *y, *dx;
    const float *scale, *bias;
    float *dscale, *dbias, *running_mean, *running_variance;
    double *kept; /* from forward to backward: for each channel 2 numbers of float64; behind them, 3 of float32 */
    float *scratch;
    int64_t images, parts, pixels, width, groups;
    int64_t relu, follows, narrow; /* follows: mean and variance are those of the batch */
    double epsilon, decay;
};

/* The weights (outer, channels, inner) and the bias of a layer whose channels are then normalised by their running mean and
 * variance: both of these in one. */
struct fold {
    const float *w, *bias, *mean, *variance, *scale, *shift;
    float *folded, *folded_bias;
    int64_t outer, channels, inner;
    double epsilon;
};

/* COLUMNS reads images x and writes the matrix, both of float32 or bf16; COLUMNS_SUM reads the matrix and writes images y, of
 * float32. See columns.c. */
struct columns {
    const void *x;
    const float *bias;
    void *matrix;
    float *y;
    int64_t images, channels, height, width, rows, columns, out_height, out_width;
    int64_t down, right, above, beside, row_step, column_step; /* stride, padding and dilation */
    int64_t narrow;
};

enum { NORM_TOGETHER = 4, NORM_SHORT = 1024 }; /* rows of up to so many numbers are worked on so many at a time */

/* Rows of numbers; `centred`: the mean is subtracted. For each worker `scratch` has 3 rows for each that is worked on at a time, and
 * `sums` has 2. */
struct norm {
    const void *x, *dy;
    void *y, *dx;
    const float *scale, *bias;
    float *dscale, *dbias;
    float *kept; /* from forward to backward: of each row the mean, the mean of what is left, and the slope */
    float *scratch, *sums;
    int64_t rows, size, centred, narrow;
    double epsilon;
};

enum { MARK_NONE, MARK_FRESH, MARK_PAST }; /* of a step of a sequence: it is the first of one; behind the last one */

/* Of sequences in rows of steps: row = image * image_rows + step * step_rows. `given` are lengths of sequences, or for each
 * row 0 where a sequence begins and else 1; `rows` is an index into the scalars, and behind so many images all are 0, unless
 * it is below 0. */
struct recurrent_marks {
    const void *given;
    const double *scalars;
    uint8_t *marks;
    int64_t given_type, lengths, rows, steps, images, image_rows, step_rows;
};

/* y is x, but 0 in the rows that are past; a row has so many bytes. */
struct recurrent_clear {
    const uint8_t *x, *marks;
    uint8_t *y;
    int64_t rows, bytes;
};

/* The bias of the first product: that of x, and in the first `both` columns the sum of both. */
struct recurrent_bias {
    const float *x, *h;
    float *sum;
    int64_t size, both;
};

/* The others need AVX2, ... */

enum { RECURRENT_UNITS = 32, RECURRENT_PRODUCTS = 16384 }; /* of which rows of states are multiples; numbers at a time */

/* The weights of the state, (blocks, hidden, hidden), as RECURRENT reads them, or with `back` RECURRENT_GRADIENT. */
struct recurrent_weights {
    const float *w;
    void *packed;
    int64_t hidden, blocks, back, narrow;
};

enum { CELL_TANH, CELL_RELU, CELL_GRU, CELL_LSTM };

/* One direction of a layer. `inputs` has the products with x; in float32 the gates may lie there, too. States and their
 * gradients have `state_width` numbers for an image, of which those from `state_at` on are meant; rows of y `y_width`, from
 * `y_at`. All that is void is of bf16 if it is narrow. */
struct recurrent {
    const float *inputs;
    void *gates, *reset, *curves; /* for the gradient: rows of blocks * hidden, or of hidden numbers */
    float *cells;
    void *before;                 /* the states that steps read, in rows */
    const void *w;                         /* as RECURRENT_WEIGHTS gives it */
    const float *bias;                     /* GRU: of the products with the state, of which the last block is added */
    const uint8_t *marks;
    void *y, *begin, *end, *cell_begin, *cell_end;
    const void *dy, *dend, *cell_dend;
    void *dgates, *dproducts, *dbegin, *cell_dbegin; /* dproducts: GRU, of the products with the state */
    float *dbias, *dbias_state;
    void *scratch;
    float *tiles; /* of states or gradients, and products with them: `room` numbers for each worker */
    int64_t room;
    int64_t cell, blocks, steps, images, hidden, image_rows, step_rows;
    int64_t y_width, y_at, state_width, state_at;
    int64_t backward, by_images, keep, narrow; /* by_images: threads share out sequences; keep: for the gradient */
};

enum { DIRECT_SIDE = 5 }; /* filters whose gradients are added up together, at most */

/* Images x (images, channels, height, width), y (images, filters, out_height, out_width); `x_side` and `y_side` of their
 * channels lie side by side. w is (filters, rows, columns, channels), dw (filters, channels, rows, columns). */
struct direct {
    const float *x, *w, *bias, *dy;
    float *y, *dw, *db;
    float *scratch;
    int64_t images, channels, height, width, filters, rows, columns, out_height, out_width;
    int64_t down, right, above, beside; /* stride and padding */
    int64_t x_side, y_side, relu;
};

/* Filters (filters, channels, rows, columns) in the order that DIRECT reads; `back`: for the gradient of the images. */
struct direct_filters {
    const float *w;
    float *turned;
    int64_t filters, channels, rows, columns, back;
};

enum { WINOGRAD_TILES = 12, WINOGRAD_WINDOW = 125 }; /* that a product has; cells of a filter, at most */
enum { WINOGRAD_LONG = 256 }; /* numbers of a tile in a cell from which on a line lies behind them */

/* As for `direct`, but filters and channels are those of one of the `groups`. `tall` and `broad` are the
 * edges of a tile. */
struct winograd {
    const void *x, *dy;
    const float *w, *bias; /* w: as WINOGRAD_FILTERS gives it */
    const void *other;     /* is added to y, if there is one */
    void *y;
    float *dw, *db;
    float *scratch;
    int64_t images, channels, height, width, filters, out_height, out_width, above, beside;
    int64_t x_blocked, y_blocked; /* whether they lie in blocks of channels, instead of with the channels last */
    int64_t relu, groups, narrow, paired; /* paired: products too are of bf16 */
    int64_t tiles, panels; /* up to 64 tiles are worked on at a time, and so many times 32 filters, on AVX2 16 */
    int64_t tall, broad, side; /* edges of a tile; that of filters of a phase */
    int64_t x_step, y_step; /* the stride, of x; or of y where images have their gradients */
    int64_t deep, out_deep, depth, before; /* planes of x and of y, and those that a filter sees, from so far before on */
    int64_t first, end, fresh; /* used inside the helper: tiles that are looked at now, and whether they are the first */
};

struct winograd_filters {
    const float *w;
    float *tiled;
    int64_t filters, channels, groups, tall, broad, side, step, depth, narrow, paired;
    int64_t back; /* for the gradient of the images */
};

enum { PRODUCT_DEPTH = 512, PRODUCT_TOGETHER = 16 }; /* products of a sum, and tiles of rows, at a time */
enum { PRODUCT_SHALLOW = 192 };                      /* products of a sum of which two panels stay in the first cache */

/* The same where numbers are split, see product_amx.c: rows and columns of a block, products of a sum, and bands of rows or of dw,
 * at a time; and the numbers of bf16 that a worker needs for them. */
enum { SPLIT_SIDE = 32, SPLIT_DEPTH = 512, SPLIT_TOGETHER = 4, SPLIT_SHALLOW = 256, SPLIT_MANY = 16, SPLIT_ROOM = 444416 };

/* c (rows, columns) = a (rows, inner) b (inner, columns) + bias + other, and ReLU behind it. The rows of b are panels, as
 * PRODUCT_PANELS gives them. */
struct product {
    const float *a, *panels, *bias, *other;
    float *c, *scratch;
    int64_t rows, inner, columns, relu, split; /* split: whether numbers are multiplied as three of bf16 each */
    int64_t tiles, by_columns; /* set as it runs: tiles of rows, and whether threads share blocks of columns instead */
};

/* dw (outputs, features) = the transpose of dy (rows, outputs) times x (rows, features); db (outputs), if it is wanted, is the
 * sum of the rows of dy. */
struct product_gradient {
    const float *x, *dy;
    float *dw, *db, *scratch;
    float *sums; /* dw of `parts` of the rows, and then db of each; or NULL where dw and db can have them */
    int64_t rows, outputs, features, parts, split;
    int64_t tiles, by_columns; /* set as it runs */
};

/* Pairs of rows, and columns of x and of dy, at a time; and the bytes that a worker needs for them. */
enum { PAIRS_DEEP = 128, PAIRS_MANY = 512, PAIRS_ROOM = 528384 };

/* The same sums where x and dy are of bf16: see pairs.c. */
struct pairs_gradient {
    const void *x, *dy;
    float *dw, *db;
    void *scratch;
    int64_t rows, outputs, features;
    int64_t by_features; /* set as it runs: whether threads share the columns of dw, not its rows */
};

/* b (inner, columns) in panels; its rows are so far `apart`, or if it is `turned`, its columns. */
struct product_panels {
    const float *b;
    float *panels;
    int64_t inner, columns, apart, turned, split;
};

/* Images with their channels last, each of which has a filter of its own: w is (rows, columns, channels). See depthwise.c. */
struct depthwise {
    const float *x, *w, *bias;
    float *y;
    int64_t images, channels, height, width, rows, columns, out_height, out_width;
    int64_t down, right, above, beside, row_step, column_step, relu; /* stride, padding and dilation */
    int64_t by_channels; /* set as it runs: whether threads share blocks of channels, not rows */
};

/* ... and these AVX-512. */

/* A matrix of float32 (rows, columns) in tiles of `block` rows. */
struct pack {
    const float *matrix;
    void *packed;
    int64_t rows, columns, block, narrow;
};

enum { SMALL_BATCH_IMAGES = 8, SMALL_BATCH_FEATURES = 32 }; /* that go together */

/* x (images, features), y (images, outputs), w (outputs, features), of float32 or of bf16; bias, dw and db of float32. */
struct small_batch {
    const void *x, *w, *dy;
    const float *bias;
    void *y, *dx;
    float *dw, *db;
    void *scratch;
    int64_t images, outputs, features, narrow, relu;
};

#endif
