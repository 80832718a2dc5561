/* Shares out the work of an operation over OpenMP's threads. Needs no other file of the helper. */

#include "helper.h"

struct share {
    const struct machine *machine;
    const struct operation *op;
    work_t work;
    int64_t size, unit;
};

static void piece(void *data) {
    const struct share *share = data;
    int64_t worker = share->machine->thread(), team = share->machine->team(), unit = share->unit;
    int64_t units = (share->size + unit - 1) / unit;
    int64_t start = units * worker / team * unit, stop = units * (worker + 1) / team * unit;
    share->work(share->op, start, stop < share->size ? stop : share->size, worker);
}

int64_t threads_of(const struct machine *machine, const struct operation *op) {
    return op->workers && op->workers < machine->threads ? op->workers : machine->threads;
}

int more_alike(const struct machine *machine, const struct operation *op, int64_t pieces, int64_t others) {
    const int64_t threads = threads_of(machine, op);
    return pieces_of(pieces, threads) * others < pieces_of(others, threads) * pieces;
}

void share_out(const struct machine *machine, const struct operation *op, work_t work, int64_t size, int64_t unit) {
    struct share share = {machine, op, work, size, unit};
    int64_t threads = threads_of(machine, op);
    if (machine->parallel && threads > 1 && size > unit)
        machine->parallel(piece, &share, (unsigned)threads, 0);
    else
        work(op, 0, size, 0);
}

void share_rows(const struct machine *machine, const struct operation *op, work_t work, int64_t rows, int64_t numbers) {
    share_out(machine, op, work, rows, numbers > ALONE ? 1 : rows);
}

void share_elements(const struct machine *machine, const struct operation *op, work_t work, int64_t size) {
    share_out(machine, op, work, size, size > ALONE ? LANES : size);
}

static void call_shared(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    op->shared.function(op->shared.arguments, start, stop, worker);
}

void run_shared(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, call_shared, op->shared.size, op->shared.unit);
}
