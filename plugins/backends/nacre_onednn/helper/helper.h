/* What the files of the helper share: an operation, how its work is spread over threads, and for which instructions. */

#ifndef NACRE_HELPER_H
#define NACRE_HELPER_H

#include "operations.h"

#define EXPORT __attribute__((visibility("default")))

enum { EXPENSIVE = 8 };   /* simple operations that take as long as a function such as exp */
enum { ALONE = 1 << 15 }; /* numbers up to which one thread does the work: waking another takes longer */

struct operation {
    int64_t kind;
    int64_t workers;  /* threads that there is scratch memory for, or 0 if it needs none of its own for each */
    int64_t together; /* how many operations run together from here on, or 0: see threads.c */
    union {           /* the operands of the kind, which native.py puts here */
        struct primitive primitive;
        struct shared shared;
        struct update update;
        struct adam adam;
        struct decay decay;
        struct loss loss;
        struct pair_loss pair_loss;
        struct embedding embedding;
        struct dropout dropout;
        struct rectify rectify;
        struct gate gate;
        struct add add;
        struct turn turn;
        struct chain chain;
        struct look_up look_up;
        struct softmax softmax;
        struct pooling pooling;
        struct mean mean;
        struct lrn lrn;
        struct batch_norm batch_norm;
        struct fold fold;
        struct columns columns;
        struct norm norm;
        struct pack pack;
        struct direct direct;
        struct direct_filters direct_filters;
        struct winograd winograd;
        struct winograd_filters winograd_filters;
        struct small_batch small_batch;
        struct product product;
        struct product_panels product_panels;
        struct product_gradient product_gradient;
        struct pairs_gradient pairs_gradient;
        struct depthwise depthwise;
        struct recurrent_marks recurrent_marks;
        struct recurrent_clear recurrent_clear;
        struct recurrent_bias recurrent_bias;
        struct recurrent_weights recurrent_weights;
        struct recurrent recurrent;
    };
};

extern int64_t instructions; /* those that may be used; see processor.c */
extern int amd;              /* whether the processor is one of AMD's */

/* Does the pieces from `start` to `stop` of an operation. */
typedef void (*work_t)(const struct operation *op, int64_t start, int64_t stop, int64_t worker);

/* The threads that share out an operation. */
int64_t threads_of(const struct machine *machine, const struct operation *op);

/* Divides `size` pieces among the threads; a thread's share begins at a multiple of `unit`. */
void share_out(const struct machine *machine, const struct operation *op, work_t work, int64_t size, int64_t unit);

/* The same for rows, which have so many `numbers` together: few are done at once. */
void share_rows(const struct machine *machine, const struct operation *op, work_t work, int64_t rows, int64_t numbers);

/* The same for elements: few are done at once, and pieces begin at whole blocks of random numbers. */
void share_elements(const struct machine *machine, const struct operation *op, work_t work, int64_t size);

/* Runs an operation; returns 0, or another number if it fails or there is no code for it. */
typedef int run_any_t(const struct machine *machine, const struct operation *op);

/* Runs operations that only share out their work, one after the other, on threads that are woken once. */
void run_together(const struct machine *machine, const struct operation *ops, int64_t count, run_any_t *run);

/* How often such an operation shares out work, without doing it. */
int64_t count_shares(const struct machine *machine, const struct operation *op, run_any_t *run);

/* Whether the largest share of so many pieces is a smaller part of them than it would be of `others`. */
int more_alike(const struct machine *machine, const struct operation *op, int64_t pieces, int64_t others);

/* Calls the function of a `shared`. */
void run_shared(const struct machine *machine, const struct operation *op);

/* AMX, which Linux lends to those who ask: see processor.c. */
#if defined(__x86_64__) && defined(__linux__) && (__GNUC__ >= 11 || __clang_major__ >= 11)
#define HAS_AMX
#endif

#define INLINE static inline __attribute__((always_inline))

/* A work_t once more for each kind of instructions: `best_work()` is the one that may be used. */
#if defined(__x86_64__)
#define VERSIONS(work)                                                                                                 \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static void work##_on_avx512(                        \
        const struct operation *op, int64_t start, int64_t stop, int64_t worker) {                                     \
        work(op, start, stop, worker);                                                                                 \
    }                                                                                                                  \
    __attribute__((target("avx2"))) static void work##_on_avx2(const struct operation *op, int64_t start, int64_t stop, \
                                                               int64_t worker) {                                       \
        work(op, start, stop, worker);                                                                                 \
    }                                                                                                                  \
    static void work##_on_any(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {               \
        work(op, start, stop, worker);                                                                                 \
    }                                                                                                                  \
    static work_t best_##work(void) {                                                                                  \
        return instructions >= AVX512 ? work##_on_avx512 : instructions == AVX2 ? work##_on_avx2 : work##_on_any;      \
    }
#else
#define VERSIONS(work)                                                                                                 \
    static void work##_on_any(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {               \
        work(op, start, stop, worker);                                                                                 \
    }                                                                                                                  \
    static work_t best_##work(void) { return work##_on_any; }
#endif

static inline int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }
static inline int64_t larger(int64_t one, int64_t other) { return one > other ? one : other; }

/* How many pieces of a size there are, of which the last may be smaller. */
static inline int64_t pieces_of(int64_t all, int64_t size) { return (all + size - 1) / size; }

/* The number of steps of `stride` from `from` that reach 0. */
static inline int64_t steps_to(int64_t from, int64_t stride) { return from >= 0 ? 0 : (-from + stride - 1) / stride; }

/* How many of the images count: a scalar by this index says it. */
static inline int64_t images_that_count(const double *scalars, int64_t index, int64_t images) {
    double count = scalars[index];
    return count < (double)images ? (int64_t)count : images;
}

/* What run.c calls, by the name of the kind. */
typedef void run_t(const struct machine *machine, const struct operation *op);

run_t run_update, run_decay;                                      /* update.c */
run_t run_adam;                                                   /* adam.c */
int run_loss(const struct machine *machine, const struct operation *op); /* loss.c: 1 where a label is none, else 0 */
run_t run_loss_gradient;                                          /* loss.c */
run_t run_pair_loss, run_pair_loss_gradient;                      /* pair_loss.c */
int run_embedding(const struct machine *machine, const struct operation *op); /* embedding.c: 1 where a number is wrong */
run_t run_embedding_gradient;                                     /* embedding.c */
run_t run_dropout, run_dropout_gradient;                          /* dropout.c */
run_t run_rectify, run_gate, run_add;                             /* elementwise.c */
run_t run_turn;                                                   /* turn.c */
run_t run_softmax, run_softmax_gradient;                          /* softmax.c */
run_t run_pooling, run_pooling_gradient;                          /* pooling.c */
run_t run_mean;                                                   /* mean.c */
run_t run_lrn, run_lrn_gradient;                                  /* lrn.c */
run_t run_chain, run_chain_gradient;                              /* chain.c */
run_t run_look_up, run_slopes;                                    /* tables.c */
run_t run_batch_norm;                                             /* batch_norm.c: both passes */
run_t run_columns, run_columns_sum;                                /* columns.c */
run_t run_fold;                                                   /* fold.c */
run_t run_norm, run_norm_gradient;                                /* norm.c */
int run_recurrent_marks(const struct operation *op);              /* sequences.c: 1 where a number is wrong, else 0 */
void run_recurrent_clear(const struct operation *op), run_recurrent_bias(const struct operation *op); /* sequences.c */

/* With AVX2 or AVX-512: */
run_t run_recurrent_weights, run_recurrent, run_recurrent_gradient; /* recurrent.c */
run_t run_direct, run_direct_weights, run_direct_filters;         /* direct.c */
run_t run_winograd, run_winograd_weights, run_winograd_filters;   /* winograd.c */
run_t run_product, run_product_panels, run_product_gradient;      /* product.c */
run_t run_pairs_gradient;                                         /* pairs.c */
run_t run_depthwise;                                              /* depthwise.c */

/* With AVX-512 only: */
run_t run_pack;                                                   /* pack.c */
run_t run_small_batch, run_small_batch_data, run_small_batch_weights; /* small_batch.c */

#endif
