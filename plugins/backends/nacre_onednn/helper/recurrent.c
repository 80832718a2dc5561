/* RNN, GRU and LSTM: all steps of a layer in one direction, forward and backward, in one parallel region. The products with
 * x are there before, and those for the gradients of weights come after, each one product for all steps.
 *
 * A thread has some of the sequences and all units of the state, and never waits; or all sequences and some of the units, and
 * waits for the others at each step, but reads only its part of the weights. Needs AVX2 or AVX-512, for bf16 also
 * avx512_bf16; with AVX2 alone bf16 is computed slowly, for tests.
 */

#include "recurrent.h"

#if defined(__x86_64__)

struct work {
    const struct machine *machine;
    const struct operation *op;
    steps_t *steps;
    int64_t panels;
    struct team team;
};

static void part_of(struct work *work, int64_t worker, int64_t count) {
    const struct recurrent *o = &work->op->recurrent;
    struct share share = {worker, count, 1, 0, o->images, 0, work->panels};
    if (o->by_images)
        share.top = o->images * worker / count, share.bottom = o->images * (worker + 1) / count;
    else
        share.count = count, share.first = work->panels * worker / count, share.last = work->panels * (worker + 1) / count;
    work->steps(work->op, share, &work->team);
}

static void piece(void *data) {
    struct work *work = data;
    part_of(work, work->machine->thread(), work->machine->team());
}

static const struct recurrent_loops *loops(void) { return instructions >= AVX512 ? &recurrent_on_avx512 : &recurrent_on_avx2; }

static int64_t panels_of(int64_t hidden) { return pieces_of(hidden, loops()->panel); }

static void run_steps(const struct machine *machine, const struct operation *op, steps_t *steps) {
    struct work work = {machine, op, steps, panels_of(op->recurrent.hidden), {0}};
    int64_t threads = smaller(op->workers, machine->threads);
    if (machine->parallel && threads > 1)
        machine->parallel(piece, &work, (unsigned)threads, 0);
    else
        part_of(&work, 0, 1);
}

void run_recurrent(const struct machine *machine, const struct operation *op) {
    run_steps(machine, op, loops()->forward[op->recurrent.narrow]);
}

void run_recurrent_gradient(const struct machine *machine, const struct operation *op) {
    run_steps(machine, op, loops()->backward[op->recurrent.narrow]);
}

void run_recurrent_weights(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, loops()->lay[op->recurrent_weights.narrow], panels_of(op->recurrent_weights.hidden), 1);
}

#endif
