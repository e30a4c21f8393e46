/* simd.h - vectors of VECTOR_BYTES: loads and stores of fp32 and bf16, maximum, selection, exp.
 *
 * GCC and Clang vector extensions; the few operations that C cannot say well have an intrinsic where x86 has one.
 * bf16 is the upper half of an fp32: widening is a shift, narrowing rounds to nearest, ties to even.
 */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { LANES = VECTOR_BYTES / 4 };

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t uvec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t hvec __attribute__((vector_size(VECTOR_BYTES / 2)));
/* The same in memory, with its element's alignment. */
typedef float vec_unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef uint16_t hvec_unaligned __attribute__((vector_size(VECTOR_BYTES / 2), aligned(2), may_alias));

#define INLINE static inline __attribute__((always_inline, unused))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

INLINE vec vec_load(const float *p)
{
    return *(const vec_unaligned *)p;
}

INLINE void vec_store(float *p, vec v)
{
    *(vec_unaligned *)p = v;
}

INLINE vec vec_all(float x)
{
    return x - (vec){0};
}

/* 0, 1, 2, ... */
INLINE ivec vec_lane_numbers(void)
{
    ivec lanes;
    UNROLL
    for (int i = 0; i < LANES; i++)
        lanes[i] = i;
    return lanes;
}

/* condition ? a : b; the condition's lanes are all ones or all zeros. */
INLINE vec vec_select(ivec condition, vec a, vec b)
{
    return (vec)((condition & (ivec)a) | (~condition & (ivec)b));
}

/* a > b ? a : b, so b where either is not a number. */
INLINE vec vec_max(vec a, vec b)
{
#if defined __x86_64__ && VECTOR_BYTES == 64
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __x86_64__ && VECTOR_BYTES == 32
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __x86_64__
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vec_select(a > b, a, b);
#endif
}

/* a < b ? a : b, so b where either is not a number. */
INLINE vec vec_min(vec a, vec b)
{
#if defined __x86_64__ && VECTOR_BYTES == 64
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined __x86_64__ && VECTOR_BYTES == 32
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined __x86_64__
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vec_select(a < b, a, b);
#endif
}

typedef float quad __attribute__((vector_size(16)));
typedef int32_t iquad __attribute__((vector_size(16)));

INLINE quad quad_max(quad a, quad b)
{
#ifdef __x86_64__
    return (quad)_mm_max_ps((__m128)a, (__m128)b);
#else
    iquad larger = a > b;
    return (quad)((larger & (iquad)a) | (~larger & (iquad)b));
#endif
}

/* The largest lane of a vector without NaN. */
INLINE float vec_largest(vec v)
{
    quad quads[LANES / 4];
    memcpy(quads, &v, sizeof v);
    UNROLL
    for (int i = 1; i < LANES / 4; i++)
        quads[0] = quad_max(quads[0], quads[i]);
    float a = quads[0][0] > quads[0][1] ? quads[0][0] : quads[0][1];
    float b = quads[0][2] > quads[0][3] ? quads[0][2] : quads[0][3];
    return a > b ? a : b;
}

INLINE float vec_sum(vec v)
{
    quad quads[LANES / 4];
    memcpy(quads, &v, sizeof v);
    UNROLL
    for (int i = 1; i < LANES / 4; i++)
        quads[0] += quads[i];
    return (quads[0][0] + quads[0][1]) + (quads[0][2] + quads[0][3]);
}

/* e^x: 2^n e^r, |r| <= ln 2 / 2, with e^r = 1 + r + r^2 (c2 + ... + c6 r^4) of least relative error (3e-9; fitted by
 * Lawson's iteration). About one unit in the last place; 0 below -87.3, where fp32 begins to lose digits; infinity
 * above 88.4; NaN stays NaN. Adding 1.5 * 2^23 leaves the nearest whole number in the low bits of the sum: the compiler
 * must not cancel it, so never -ffast-math. */
INLINE vec vec_exp(vec x)
{
    const float magic = 12582912.0f;
    const vec bounded = vec_min(vec_all(89), x);
    const vec shifted = bounded * 1.44269504088896341f + magic;
    const vec n = shifted - magic;
    vec r = bounded - n * 0.693359375f; /* ln 2 in two parts; the first times n is exact */
    r = r - n * -2.12194440054690583e-4f;
    vec p = vec_all(1.3814581941474855e-3f);
    p = p * r + 8.368724146894484e-3f;
    p = p * r + 4.1668388774064216e-2f;
    p = p * r + 1.6666520571300283e-1f;
    p = p * r + 4.999999344365679e-1f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    const vec power = (vec)(((uvec)shifted << 23) + 0x3f800000);
    const ivec small = x < -87.3f;
    return (vec)(~small & (ivec)(p * power));
}

/* --- elements of fp32 or bf16, calculated with as fp32. `dtype` is a constant where these are inlined. */

INLINE size_t dtype_size(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? 2 : 4;
}

INLINE const void *element_at(enum dtype dtype, const void *base, size_t index)
{
    return (const char *)base + index * dtype_size(dtype);
}

INLINE void *element_to(enum dtype dtype, void *base, size_t index)
{
    return (char *)base + index * dtype_size(dtype);
}

INLINE vec vec_load_elements(enum dtype dtype, const void *p)
{
    if (dtype == DTYPE_FP32)
        return vec_load(p);
    return (vec)(__builtin_convertvector(*(const hvec_unaligned *)p, uvec) << 16);
}

INLINE void vec_store_elements(enum dtype dtype, void *p, vec v)
{
    if (dtype == DTYPE_FP32) {
        vec_store(p, v);
        return;
    }
    const uvec bits = (uvec)v;
    const uvec rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uvec is_nan = (uvec)(v != v); /* NOLINT(misc-redundant-expression) */
    *(hvec_unaligned *)p = __builtin_convertvector((is_nan & 0x7fc0) | (~is_nan & rounded), hvec);
}

/* The first `count` < LANES elements, the rest 0; and their counterpart. */
INLINE vec vec_load_some(enum dtype dtype, const void *p, size_t count)
{
    float lanes[LANES] = {0};
    memcpy(lanes, p, count * dtype_size(dtype));
    return vec_load_elements(dtype, lanes);
}

INLINE void vec_store_some(enum dtype dtype, void *p, vec v, size_t count)
{
    float lanes[LANES];
    vec_store_elements(dtype, lanes, v);
    memcpy(p, lanes, count * dtype_size(dtype));
}
