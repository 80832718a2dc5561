/* BatchNorm by its running mean and variance, folded into the weights and the bias of the layer below. Runs on every
 * processor.
 */

#include "helper.h"

static double root(double number) { return __builtin_sqrt(number); }

/* Pieces are channels. */
static void fold(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct fold *f = &op->fold;
    (void)worker;
    for (int64_t channel = start; channel < stop; channel++) {
        double slope = (f->scale ? f->scale[channel] : 1) / root(f->variance[channel] + f->epsilon);
        double bias = (f->bias ? f->bias[channel] : 0) - (double)f->mean[channel];
        f->folded_bias[channel] = (float)(bias * slope + (f->shift ? f->shift[channel] : 0));
        for (int64_t one = 0; one < f->outer; one++) {
            const float *w = f->w + (one * f->channels + channel) * f->inner;
            float *folded = f->folded + (one * f->channels + channel) * f->inner;
            for (int64_t at = 0; at < f->inner; at++) folded[at] = (float)(w[at] * slope);
        }
    }
}

void run_fold(const struct machine *machine, const struct operation *op) {
    share_out(machine, op, fold, op->fold.channels, 1);
}
