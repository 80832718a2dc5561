/* The helper of nacre's onednn backend: a run of a net in one foreign call, and the operations that oneDNN lacks.
 *
 * C11 with GCC's or Clang's builtins. It is linked with neither oneDNN nor OpenMP: it gets their functions from Python, so
 * that a process has one OpenMP runtime. This file calls all others; these need only threads.c and processor.c. Runs on
 * every processor.
 */

#include "helper.h"

static int run(const struct machine *machine, const struct operation *op) {
    switch (op->kind) {
    case PRIMITIVE: {
        const struct primitive *p = &op->primitive;
        return machine->execute(p->primitive, machine->stream, (int)p->count, p->arguments);
    }
    case SHARED: run_shared(machine, op); return 0;
    case LOSS: return run_loss(machine, op);
    case LOSS_GRADIENT: run_loss_gradient(machine, op); return 0;
    case PAIR_LOSS: run_pair_loss(machine, op); return 0;
    case PAIR_LOSS_GRADIENT: run_pair_loss_gradient(machine, op); return 0;
    case EMBEDDING: return run_embedding(machine, op);
    case EMBEDDING_GRADIENT: run_embedding_gradient(machine, op); return 0;
    case ADAM: run_adam(machine, op); return 0;
    case UPDATE: run_update(machine, op); return 0;
    case DECAY: run_decay(machine, op); return 0;
    case DROPOUT: run_dropout(machine, op); return 0;
    case DROPOUT_GRADIENT: run_dropout_gradient(machine, op); return 0;
    case RECTIFY: run_rectify(machine, op); return 0;
    case GATE: run_gate(machine, op); return 0;
    case ADD: run_add(machine, op); return 0;
    case TURN: run_turn(machine, op); return 0;
    case SOFTMAX: run_softmax(machine, op); return 0;
    case SOFTMAX_GRADIENT: run_softmax_gradient(machine, op); return 0;
    case POOLING: run_pooling(machine, op); return 0;
    case POOLING_GRADIENT: run_pooling_gradient(machine, op); return 0;
    case MEAN: run_mean(machine, op); return 0;
    case LRN: run_lrn(machine, op); return 0;
    case LRN_GRADIENT: run_lrn_gradient(machine, op); return 0;
    case CHAIN: run_chain(machine, op); return 0;
    case CHAIN_GRADIENT: run_chain_gradient(machine, op); return 0;
    case LOOK_UP: run_look_up(machine, op); return 0;
    case BATCH_NORM:
    case BATCH_NORM_SUM:
    case BATCH_NORM_GRADIENT: run_batch_norm(machine, op); return 0;
    case COLUMNS: run_columns(machine, op); return 0;
    case COLUMNS_SUM: run_columns_sum(machine, op); return 0;
    case FOLD: run_fold(machine, op); return 0;
    case RECURRENT_MARKS: return run_recurrent_marks(op);
    case RECURRENT_CLEAR: run_recurrent_clear(op); return 0;
    case RECURRENT_BIAS: run_recurrent_bias(op); return 0;
    case NORM: run_norm(machine, op); return 0;
    case NORM_GRADIENT: run_norm_gradient(machine, op); return 0;
#if defined(__x86_64__)
    case RECURRENT_WEIGHTS: run_recurrent_weights(machine, op); return 0;
    case RECURRENT: run_recurrent(machine, op); return 0;
    case RECURRENT_GRADIENT: run_recurrent_gradient(machine, op); return 0;
    case PACK: run_pack(machine, op); return 0;
    case DIRECT: run_direct(machine, op); return 0;
    case DIRECT_WEIGHTS: run_direct_weights(machine, op); return 0;
    case DIRECT_FILTERS: run_direct_filters(machine, op); return 0;
    case PRODUCT: run_product(machine, op); return 0;
    case DEPTHWISE: run_depthwise(machine, op); return 0;
    case PRODUCT_PANELS: run_product_panels(machine, op); return 0;
    case PRODUCT_GRADIENT: run_product_gradient(machine, op); return 0;
    case PAIRS_GRADIENT: run_pairs_gradient(machine, op); return 0;
    case WINOGRAD: run_winograd(machine, op); return 0;
    case WINOGRAD_WEIGHTS: run_winograd_weights(machine, op); return 0;
    case WINOGRAD_FILTERS: run_winograd_filters(machine, op); return 0;
    case SMALL_BATCH: run_small_batch(machine, op); return 0;
    case SMALL_BATCH_DATA: run_small_batch_data(machine, op); return 0;
    case SMALL_BATCH_WEIGHTS: run_small_batch_weights(machine, op); return 0;
#endif
    default: return 1;
    }
}

/* Whether an operation does nothing but share out work, and cannot fail. */
static int only_shares(const struct operation *op) {
    switch (op->kind) {
    case DROPOUT:
    case DROPOUT_GRADIENT:
    case RECTIFY:
    case GATE:
    case ADD:
    case TURN:
    case SOFTMAX:
    case SOFTMAX_GRADIENT:
    case POOLING:
    case POOLING_GRADIENT:
    case MEAN:
    case LRN:
    case LRN_GRADIENT:
    case CHAIN:
    case CHAIN_GRADIENT:
    case LOOK_UP:
    case COLUMNS:
    case COLUMNS_SUM:
    case NORM: return 1;
#if defined(__x86_64__)
    case PACK:
    case DIRECT:
    case DIRECT_WEIGHTS:
    case DIRECT_FILTERS:
    case PRODUCT:
    case DEPTHWISE:
    case PRODUCT_PANELS:
    case PRODUCT_GRADIENT:
    case PAIRS_GRADIENT:
    case WINOGRAD:
    case WINOGRAD_WEIGHTS:
    case WINOGRAD_FILTERS:
    case SMALL_BATCH:
    case SMALL_BATCH_DATA:
    case SMALL_BATCH_WEIGHTS: return 1;
#endif
    default: return 0;
    }
}

/* Notes which operations run together: those in a row that only share out work, from the first that does so to the last. */
EXPORT void nacre_prepare(const struct machine *machine, struct operation *ops, int64_t count) {
    for (int64_t begin = 0, next; begin < count; begin = next) {
        int64_t first = -1, last = -1, shares = 0;
        ops[begin].together = 0;
        for (next = begin; next < count && only_shares(ops + next); next++) {
            int64_t more = count_shares(machine, ops + next, run);
            ops[next].together = 0, shares += more;
            if (more) first = first < 0 ? next : first, last = next;
        }
        if (shares > 1) ops[first].together = last + 1 - first;
        next += next == begin;
    }
}

static int64_t run_in_order(const struct machine *machine, const struct operation *ops, int64_t count) {
    for (int64_t number = 0; number < count;) {
        int64_t together = ops[number].together;
        if (together)
            run_together(machine, ops + number, together, run);
        else if (run(machine, ops + number))
            return number + 1;
        number += larger(together, 1);
    }
    return 0;
}

/* Runs operations in order; returns the number of the first that fails, counted from 1, or 0. The calling thread's parallel
 * regions have as many threads as before when it returns: PyTorch, if the process has it, takes its threads from the same OpenMP. */
EXPORT int64_t nacre_run(const struct machine *machine, const struct operation *ops, int64_t count) {
    const int wanted = (int)machine->of_primitives, before = machine->most ? machine->most() : wanted;
    if (before != wanted) machine->set_most(wanted);
    const int64_t failed = run_in_order(machine, ops, count);
    if (before != wanted) machine->set_most(before);
    return failed;
}

EXPORT int64_t nacre_helper_version(void) { return HELPER_VERSION; }
