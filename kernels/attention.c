/* attention.c - chooses the instruction set's kernels and checks what they are given.
 *
 * The choice is the best that the CPU has; attention_use overrides it. That override is the one thing here that lives
 * from call to call; it changes which code computes, not what.
 */
#include "kernels/attention.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/isa.h"

static bool cpu_has(const struct isa_kernels *isa)
{
#ifdef __x86_64__
    if (isa == &isa_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (isa == &isa_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return isa == &isa_baseline;
}

/* Best first. */
static const struct isa_kernels *const isas[] = {
#ifdef __x86_64__
    &isa_avx512,
    &isa_avx2,
#endif
    &isa_baseline,
};

#define N_ISAS (sizeof isas / sizeof *isas)

static const struct isa_kernels *_Atomic chosen;

static const struct isa_kernels *best(void)
{
    size_t i = 0;
    while (i + 1 < N_ISAS && !cpu_has(isas[i])) /* the last is any CPU's */
        i++;
    return isas[i];
}

const struct isa_kernels *isa_in_use(void)
{
    const struct isa_kernels *isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    return isa ? isa : best();
}

const char *attention_isa(void)
{
    return isa_in_use()->name;
}

int attention_use(const char *isa)
{
    if (!isa) {
        atomic_store(&chosen, NULL);
        return 1;
    }
    for (size_t i = 0; i < N_ISAS; i++)
        if (strcmp(isas[i]->name, isa) == 0 && cpu_has(isas[i])) {
            atomic_store(&chosen, isas[i]);
            return 1;
        }
    return 0;
}

static void assert_dtype(enum dtype dtype)
{
    assert(dtype == DTYPE_FP32 || dtype == DTYPE_BF16);
    (void)dtype;
}

static void assert_call(const struct attention_call *call)
{
    assert(call->mask && call->batch > 0 && call->head_dim > 0);
    assert(call->kv_heads > 0 && (call->group || call->q_heads % call->kv_heads == 0));
    assert(call->group ? call->group_offset < call->group &&
                             (call->group_offset + call->q_heads - 1) / call->group < call->kv_heads
                       : call->group_offset == 0);
    assert_dtype(call->dtype);
    (void)call;
}

void attention_forward(const struct attention_call *call, void *o, float *lse)
{
    assert_call(call);
    isa_in_use()->forward(call, o, lse);
}

void attention_backward(const struct attention_call *call, const void *d_o, const float *lse, const float *delta,
                        void *dq)
{
    assert_call(call);
    assert_dtype(call->dkv_dtype);
    assert(call->dkv_dtype == call->dtype || call->dkv_dtype == DTYPE_FP32);
    isa_in_use()->backward(call, d_o, lse, delta, dq);
}

void attention_merge(size_t rows, size_t heads, size_t head_dim, enum dtype dtype, const void *o, const float *lse,
                     float *a, float *m, float *l, int first)
{
    assert_dtype(dtype);
    isa_in_use()->merge(rows * heads, head_dim, dtype, o, lse, a, m, l, first != 0);
}

void attention_finish(size_t rows, size_t heads, size_t head_dim, enum dtype dtype, const float *a, const float *m,
                      const float *l, void *o, float *lse)
{
    assert_dtype(dtype);
    isa_in_use()->finish(rows * heads, head_dim, dtype, a, m, l, o, lse);
}

void attention_delta(size_t rows, size_t heads, size_t head_dim, enum dtype dtype, const void *o, const void *d_o,
                     float *delta)
{
    assert_dtype(dtype);
    isa_in_use()->delta(rows * heads, head_dim, dtype, o, d_o, delta);
}

void attention_accumulate(size_t count, enum dtype target_dtype, void *target, enum dtype source_dtype,
                          const void *source, int first)
{
    assert_dtype(target_dtype);
    assert_dtype(source_dtype);
    isa_in_use()->accumulate(count, target_dtype, target, source_dtype, source, first != 0);
}

void attention_sum_lse(size_t count, const float *part, float *lse, int first)
{
    for (size_t i = 0; i < count; i++) {
        if (first || lse[i] == -INFINITY) {
            lse[i] = part[i];
        } else if (part[i] != -INFINITY) {
            float distance = part[i] - lse[i], larger = distance > 0 ? part[i] : lse[i];
            lse[i] = larger + log1pf(expf(-fabsf(distance)));
        }
    }
}

void attention_correct(size_t rows, size_t heads, size_t head_dim, enum dtype part_dtype, const void *part,
                       const float *part_lse, const float *lse, enum dtype o_dtype, void *o, int first)
{
    assert_dtype(part_dtype);
    assert_dtype(o_dtype);
    isa_in_use()->correct(rows * heads, head_dim, part_dtype, part, part_lse, lse, o_dtype, o, first != 0);
}

/* What is not a number is never hidden. */
void attention_raise(size_t count, const float *other, float *top)
{
    for (size_t i = 0; i < count; i++)
        top[i] = other[i] <= top[i] || isnan(top[i]) ? top[i] : other[i];
}

void attention_weigh(size_t rows, size_t heads, size_t head_dim, enum dtype part_dtype, const void *part,
                     const float *part_lse, const float *top, enum dtype numerator_dtype, void *numerator,
                     float *denominator)
{
    assert_dtype(part_dtype);
    assert_dtype(numerator_dtype);
    isa_in_use()->weigh(rows * heads, head_dim, part_dtype, part, part_lse, top, numerator_dtype, numerator,
                        denominator);
}

void attention_normalize(size_t rows, size_t heads, size_t head_dim, enum dtype numerator_dtype, const void *numerator,
                         const float *denominator, const float *top, enum dtype o_dtype, void *o, float *lse)
{
    assert_dtype(numerator_dtype);
    assert_dtype(o_dtype);
    isa_in_use()->normalize(rows * heads, head_dim, numerator_dtype, numerator, denominator, top, o_dtype, o, lse);
}
