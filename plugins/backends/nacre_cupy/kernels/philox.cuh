// The random numbers of nacre.random: Philox 4x64-10 with the key (seed, hash of the name) and the counter (block, draw,
// iteration, 0). The first four numbers come from block 1. Each of 64 bits is two uniform numbers in float32, its lower
// half first, or one in float64.

struct Words {
    u64 at[4];
};

__device__ inline Words philox(u64 block, u64 draw, u64 iteration, u64 key0, u64 key1) {
    u64 a = block, b = draw, c = iteration, d = 0;
    for (int round = 0; round < 10; round++) {
        const u64 high_a = __umul64hi(a, 0xD2E7470EE14C6C93ull), low_a = a * 0xD2E7470EE14C6C93ull;
        const u64 high_c = __umul64hi(c, 0xCA5A826395121157ull), low_c = c * 0xCA5A826395121157ull;
        a = high_c ^ b ^ key0;
        b = low_c;
        c = high_a ^ d ^ key1;
        d = low_a;
        key0 += 0x9E3779B97F4A7C15ull;
        key1 += 0xBB67AE8584CAA73Bull;
    }
    return {{a, b, c, d}};
}

// Word number `index`; chosen, for an array that is indexed would lie in memory.
__device__ inline u64 word_of(const Words &words, int index) {
    return index == 0 ? words.at[0] : index == 1 ? words.at[1] : index == 2 ? words.at[2] : words.at[3];
}

// Number `lane` of the eight in float32, or of the four in float64, that a block has.
template <class T> __device__ inline T uniform_of(const Words &words, int lane);
template <> __device__ inline float uniform_of<float>(const Words &words, int lane) {
    const u32 half = (u32)(word_of(words, lane / 2) >> (lane % 2 * 32));
    return (float)(half >> 8) * 5.9604644775390625e-8f;
}
template <> __device__ inline double uniform_of<double>(const Words &words, int lane) {
    return (double)(word_of(words, lane) >> 11) * 1.1102230246251565e-16;
}

// A bit for each of `count` numbers from `number` on, up to eight: whether the uniform one in float32 is `ratio` or more.
// Further bits may have any value.
__device__ inline u32 kept_bits(i64 number, int count, float ratio, u64 draw, u64 iteration, u64 key0, u64 key1) {
    const int skipped = (int)(number % 8), blocks = skipped + count > 8 ? 2 : 1;
    u32 bits = 0;
#pragma unroll 1
    for (int block = 0; block < blocks; block++) {
        const Words words = philox((u64)(number / 8 + block) + 1, draw, iteration, key0, key1);
        for (int lane = 0; lane < 8; lane++)
            if (uniform_of<float>(words, lane) >= ratio) bits |= 1u << (block * 8 + lane);
    }
    return bits >> skipped;
}
