/* Dropout whose mask has the bits of nacre.random, for any number of threads. Runs on every processor. */

#include "helper.h"

/* Philox 4x64-10 (Salmon and others, 2011): four random numbers of 64 bits from a counter and a key. */
static void philox(uint64_t counter[4], uint64_t first, uint64_t second) {
    for (int round = 0; round < 10; round++) {
        unsigned __int128 one = (unsigned __int128)0xD2E7470EE14C6C93u * counter[0];
        unsigned __int128 other = (unsigned __int128)0xCA5A826395121157u * counter[2];
        uint64_t next[4] = {(uint64_t)(other >> 64) ^ counter[1] ^ first, (uint64_t)other,
                            (uint64_t)(one >> 64) ^ counter[3] ^ second, (uint64_t)one};
        for (int word = 0; word < 4; word++) counter[word] = next[word];
        first += 0x9E3779B97F4A7C15u;
        second += 0xBB67AE8584CAA73Bu;
    }
}

/* y = x scale where the uniform number of the element is ratio or more, else x 0; see nacre.random. */
static void dropout(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const struct dropout *d = &op->dropout;
    const float *x = d->x;
    float *y = d->y;
    uint8_t *kept = d->kept;
    const uint64_t *key = d->key;
    uint64_t step = (uint64_t)d->scalars[d->step];
    float ratio = (float)d->ratio, scale = (float)d->scale;
    (void)worker;
    for (int64_t i = start; i < stop;) {
        uint64_t block = (uint64_t)(i + d->first) / 8; /* eight numbers of 32 bits come from one counter */
        uint64_t words[4] = {block + 1, 0, step, 0};
        philox(words, key[0], key[1]);
        for (int64_t place = (i + d->first) % 8; place < 8 && i < stop; place++, i++) {
            uint32_t half = (uint32_t)(words[place / 2] >> (place % 2 ? 32 : 0));
            kept[i] = (float)(half >> 8) * 0x1p-24f >= ratio;
            y[i] = x[i] * (kept[i] ? scale : 0);
        }
    }
}

/* dx = dy scale for the elements that were kept, else dy 0. */
INLINE void dropout_gradient(const struct operation *op, int64_t start, int64_t stop, int64_t worker) {
    const float *dy = op->dropout.dy;
    float *dx = op->dropout.dx;
    const uint8_t *kept = op->dropout.kept;
    float scale = (float)op->dropout.scale;
    (void)worker;
    for (int64_t i = start; i < stop; i++) dx[i] = dy[i] * (kept[i] ? scale : 0);
}

VERSIONS(dropout_gradient)

void run_dropout(const struct machine *machine, const struct operation *op) {
    share_elements(machine, op, dropout, op->dropout.size);
}

void run_dropout_gradient(const struct machine *machine, const struct operation *op) {
    share_elements(machine, op, best_dropout_gradient(), op->dropout.size);
}
