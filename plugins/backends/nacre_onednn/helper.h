/* What the files of the helper share: operations, the machine that runs them, and how work is spread over threads. */

#ifndef NACRE_HELPER_H
#define NACRE_HELPER_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { PRIMITIVE, UPDATE, DECAY, LOSS, LOSS_GRADIENT, DROPOUT, DROPOUT_GRADIENT, PACK, TURN, CONVOLVE, CONVOLVE_WEIGHTS,
       FILTERS, WINOGRAD, WINOGRAD_WEIGHTS, SKINNY, SKINNY_DATA, SKINNY_WEIGHTS };
enum { LANES = 16 };

struct operation {
    int64_t kind;
    void *pointers[8];
    int64_t numbers[16];
    double values[4];
    int64_t workers; /* threads that there is scratch memory for, or 0 if it needs none of its own for each */
};

struct machine {
    int (*execute)(const void *primitive, void *stream, int count, const void *arguments);
    void *stream;
    void (*parallel)(void (*work)(void *), void *data, unsigned threads, unsigned flags); /* GOMP_parallel, or NULL */
    int (*thread)(void);                                                                  /* omp_get_thread_num */
    int (*team)(void);                                                                    /* omp_get_num_threads */
    int64_t threads;
};

/* Does the pieces from `start` to `stop` of an operation. */
typedef void (*work_t)(const struct operation *op, int64_t start, int64_t stop, int64_t worker);

/* Divides `size` pieces among the threads; a thread's share begins at a multiple of `unit`. */
void share_out(const struct machine *machine, const struct operation *op, work_t work, int64_t size, int64_t unit);

/* Values from `start` to `stop` have a copy in bf16 at `to`. */
struct copied {
    int64_t start, stop;
    uint16_t *to;
};

/* lanes.c: moves values as `update` does, and writes the copy; at its address must be room for whole registers. */
double move_copied(float *w, const float *g, float *v, uint16_t *to, int64_t size, float rate, float momentum);

/* lanes.c: 0, or 1 where this processor cannot do it. */
int run_on_lanes(const struct machine *machine, const struct operation *op);

#endif
