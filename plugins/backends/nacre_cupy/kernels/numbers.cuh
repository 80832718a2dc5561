// Number `index` of an array of any type, such as labels and weights; types are counted as in launch.py.

__device__ inline double number_at(const void *array, i64 type, i64 index) {
    switch (type) {
    case 0: return (double)((const float *)array)[index];
    case 1: return ((const double *)array)[index];
    case 2: return (double)widen(((const bf16 *)array)[index]);
    case 3: return (double)((const signed char *)array)[index];
    case 4: return (double)((const short *)array)[index];
    case 5: return (double)((const int *)array)[index];
    case 6: return (double)((const i64 *)array)[index];
    case 7: return (double)((const u8 *)array)[index];
    case 8: return (double)((const unsigned short *)array)[index];
    case 9: return (double)((const u32 *)array)[index];
    default: return (double)((const u64 *)array)[index];
    }
}
