/* kernels.c - how much of this machine's arithmetic the attention kernels use, on one core.
 *
 *   kernels [SECONDS_PER_CASE]
 *
 * The yardstick is a loop of independent multiply-adds in registers, of the widest instruction set that this CPU has,
 * timed again before each run of a kernel: the machine may be shared, and both see the same of it. Each case is
 * repeated; printed are the median time, the rate of the median, and the median of (rate / yardstick just before).
 * Then the memory-bound steps, in bytes per second. FLOPs are 4 x visible pairs x head dim x heads, and 2.5 times that
 * backward. Time is the thread's CPU time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/attention.h"
#include "models/base/memory.h"
#include "models/schedule/mask.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- the yardstick */

#define PEAK_CHAINS 12
#define PEAK_LOOPS 300000

/* Defines peak_NAME: FLOP/s of PEAK_CHAINS independent multiply-adds on vectors of BYTES. */
#define PEAK(NAME, BYTES, ATTRIBUTE)                                                                                   \
    ATTRIBUTE static double peak_##NAME(void)                                                                          \
    {                                                                                                                  \
        typedef float vec __attribute__((vector_size(BYTES)));                                                         \
        volatile float one = 1, tiny = 1e-9f;                                                                          \
        const vec factor = one - (vec){0}, summand = tiny - (vec){0};                                                  \
        vec sum[PEAK_CHAINS];                                                                                          \
        for (int c = 0; c < PEAK_CHAINS; c++)                                                                          \
            sum[c] = summand * (float)c;                                                                               \
        double start = now();                                                                                          \
        for (long i = 0; i < PEAK_LOOPS; i++) {                                                                        \
            for (int c = 0; c < PEAK_CHAINS; c++)                                                                      \
                sum[c] = sum[c] * factor + summand;                                                                    \
        }                                                                                                              \
        double seconds = now() - start;                                                                                \
        for (int c = 1; c < PEAK_CHAINS; c++)                                                                          \
            sum[0] += sum[c];                                                                                          \
        volatile float sink = sum[0][0];                                                                               \
        (void)sink;                                                                                                    \
        return 2.0 * (BYTES / 4) * PEAK_CHAINS * PEAK_LOOPS / seconds;                                                 \
    }

PEAK(baseline, 16, )
#ifdef __x86_64__
PEAK(avx2, 32, __attribute__((target("avx2,fma"))))
PEAK(avx512, 64, __attribute__((target("avx512f"))))
#endif

static double peak(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return peak_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return peak_avx2();
#endif
    return peak_baseline();
}

/* --- the cases */

struct shape {
    enum dtype dtype;
    uint32_t heads, kv_heads, head_dim;
    size_t queries, keys;
    enum mask_kind mask;
};

static const struct shape shapes[] = {
    {DTYPE_FP32, 2, 2, 64, 512, 512, MASK_FULL},    {DTYPE_FP32, 1, 1, 128, 512, 512, MASK_FULL},
    {DTYPE_FP32, 2, 1, 128, 512, 512, MASK_FULL},   {DTYPE_FP32, 1, 1, 128, 512, 512, MASK_CAUSAL},
    {DTYPE_FP32, 1, 1, 128, 1024, 1024, MASK_FULL}, {DTYPE_FP32, 1, 1, 128, 2048, 2048, MASK_CAUSAL},
    {DTYPE_FP32, 1, 1, 256, 512, 512, MASK_FULL},   {DTYPE_BF16, 1, 1, 128, 512, 512, MASK_FULL},
    {DTYPE_BF16, 4, 1, 128, 1024, 1024, MASK_FULL},
};

struct tensors {
    void *q, *k, *v, *o, *d_o, *dq, *dk, *dv;
    float *lse, *delta;
};

/* Numbers in [-1, 1). */
static void *random_tensor(enum dtype dtype, size_t count)
{
    float *numbers = memory_zeroed(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)rand() / ((float)RAND_MAX / 2) - 1;
    void *tensor = memory_zeroed(count, dtype_bytes(dtype));
    attention_accumulate(count, dtype, tensor, DTYPE_FP32, numbers, 1);
    free(numbers);
    return tensor;
}

static struct tensors make(const struct shape *s)
{
    size_t q_count = s->queries * s->heads * s->head_dim, kv_count = s->keys * s->kv_heads * s->head_dim;
    return (struct tensors){.q = random_tensor(s->dtype, q_count),
                            .k = random_tensor(s->dtype, kv_count),
                            .v = random_tensor(s->dtype, kv_count),
                            .o = random_tensor(s->dtype, q_count),
                            .d_o = random_tensor(s->dtype, q_count),
                            .dq = random_tensor(s->dtype, q_count),
                            .dk = random_tensor(s->dtype, kv_count),
                            .dv = random_tensor(s->dtype, kv_count),
                            .lse = memory_zeroed(s->queries * s->heads, sizeof(float)),
                            .delta = memory_zeroed(s->queries * s->heads, sizeof(float))};
}

static void release(struct tensors *t)
{
    void *all[] = {t->q, t->k, t->v, t->o, t->d_o, t->dq, t->dk, t->dv, t->lse, t->delta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return values[n / 2];
}

#define REPEATS_MAX 1000

static void run(const struct shape *s, bool backward, double seconds_per_case)
{
    struct mask mask = {.kind = s->mask, .seq_len = s->keys > s->queries ? s->keys : s->queries};
    struct span queries = {0, 1, s->queries}, key_span = {0, 1, s->keys};
    struct tensors t = make(s);
    struct attention_keys keys = {.positions = {{key_span}, 1, s->keys}, .k = t.k, .v = t.v, .dk = t.dk, .dv = t.dv};
    struct attention_call call = {.mask = &mask,
                                  .batch = 1,
                                  .q_heads = s->heads,
                                  .kv_heads = s->kv_heads,
                                  .head_dim = s->head_dim,
                                  .scale = 1 / sqrtf((float)s->head_dim),
                                  .dtype = s->dtype,
                                  .dkv_dtype = s->dtype,
                                  .queries = {{queries}, 1, s->queries},
                                  .q = t.q,
                                  .keys = &keys,
                                  .n_keys = 1};
    double flops = 4.0 * (double)mask_pairs(&mask, queries, key_span) * s->head_dim * s->heads * (backward ? 2.5 : 1);
    attention_forward(&call, t.o, t.lse);
    attention_delta(s->queries, s->heads, s->head_dim, s->dtype, t.o, t.d_o, t.delta);
    static double seconds[REPEATS_MAX], of_peak[REPEATS_MAX];
    size_t n = 0;
    double spent = 0;
    while (n < REPEATS_MAX && (n < 5 || spent < seconds_per_case)) {
        double yardstick = peak(), start = now();
        if (backward)
            attention_backward(&call, t.d_o, t.lse, t.delta, t.dq);
        else
            attention_forward(&call, t.o, t.lse);
        seconds[n] = now() - start;
        of_peak[n] = flops / seconds[n] / yardstick;
        spent += seconds[n++];
    }
    double time = median(seconds, n);
    printf("%-8s  %-8s  %-5s  %4u  %2u/%-2u  %5zu x %-5zu  %-6s  %9.3f  %9.1f  %7.0f %%\n", attention_isa(),
           backward ? "backward" : "forward", dtype_name(s->dtype), s->head_dim, s->heads, s->kv_heads, s->queries,
           s->keys, s->mask == MASK_FULL ? "full" : "causal", 1e3 * time, flops / time / 1e9, 100 * median(of_peak, n));
    fflush(stdout);
    release(&t);
}

/* --- the steps around attention: GB/s read and written, beside memcpy */

enum { STEP_ROWS = 1 << 17, STEP_DIM = 128, STEP_COUNT = STEP_ROWS * STEP_DIM }; /* 64 MiB of fp32: no cache holds it */

struct steps {
    void *o, *d_o;
    float *a, *m, *l, *lse;
};

static void do_copy(struct steps *s, enum dtype dtype)
{
    memcpy(s->o, s->d_o, STEP_COUNT * dtype_bytes(dtype));
}

static void do_merge(struct steps *s, enum dtype dtype)
{
    attention_merge(STEP_ROWS, 1, STEP_DIM, dtype, s->o, s->lse, s->a, s->m, s->l, 0);
}

static void do_finish(struct steps *s, enum dtype dtype)
{
    attention_finish(STEP_ROWS, 1, STEP_DIM, dtype, s->a, s->m, s->l, s->o, s->lse);
}

static void do_delta(struct steps *s, enum dtype dtype)
{
    attention_delta(STEP_ROWS, 1, STEP_DIM, dtype, s->o, s->d_o, s->lse);
}

static void do_accumulate(struct steps *s, enum dtype dtype)
{
    attention_accumulate(STEP_COUNT, DTYPE_FP32, s->a, dtype, s->o, 0);
}

/* Streams of the dtype and of fp32 that each step reads or writes. */
static const struct {
    const char *name;
    void (*run)(struct steps *s, enum dtype dtype);
    unsigned of_dtype, of_fp32;
} steps[] = {
    {"memcpy", do_copy, 2, 0}, {"merge", do_merge, 1, 2},           {"finish", do_finish, 1, 1},
    {"delta", do_delta, 2, 0}, {"accumulate", do_accumulate, 1, 2},
};

static void run_steps(enum dtype dtype)
{
    struct steps s = {.o = random_tensor(dtype, STEP_COUNT),
                      .d_o = random_tensor(dtype, STEP_COUNT),
                      .a = random_tensor(DTYPE_FP32, STEP_COUNT),
                      .m = memory_zeroed(STEP_ROWS, sizeof(float)),
                      .l = memory_zeroed(STEP_ROWS, sizeof(float)),
                      .lse = memory_zeroed(STEP_ROWS, sizeof(float))};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        double seconds[7];
        for (size_t n = 0; n < 7; n++) {
            double start = now();
            steps[i].run(&s, dtype);
            seconds[n] = now() - start;
        }
        double bytes = (double)STEP_COUNT * (double)(steps[i].of_dtype * dtype_bytes(dtype) + 4 * steps[i].of_fp32);
        printf("%-8s  %-10s  %-5s  %6.1f GB/s\n", attention_isa(), steps[i].name, dtype_name(dtype),
               bytes / median(seconds, 7) / 1e9);
    }
    void *all[] = {s.o, s.d_o, s.a, s.m, s.l, s.lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int main(int argc, char **argv)
{
    static const char *const isas[] = {"avx512", "avx2", "baseline"};
    double peaks[9], seconds_per_case = argc > 1 ? strtod(argv[1], NULL) : 0.5;
    for (size_t i = 0; i < 9; i++)
        peaks[i] = peak();
    printf("multiply-add peak of one core: %.1f GFLOP/s (median of 9)\n\n", median(peaks, 9) / 1e9);
    printf("%-8s  %-8s  %-5s  %4s  %-5s  %-13s  %-6s  %9s  %9s  %9s\n", "isa", "pass", "dtype", "dim", "heads",
           "rows x keys", "mask", "ms", "GFLOP/s", "of peak");
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (!attention_use(isas[i])) {
            printf("%-8s  not on this CPU\n", isas[i]);
            continue;
        }
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int backward = 0; backward < 2; backward++)
                run(&shapes[s], backward, seconds_per_case);
    }
    printf("\n");
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (!attention_use(isas[i]))
            continue;
        run_steps(DTYPE_FP32);
        run_steps(DTYPE_BF16);
    }
    return 0;
}
