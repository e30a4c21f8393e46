/* calibrate_steps.c - rates of what is bound by memory, on CPUs.
 *
 * A step's bytes are counted as models/cost counts them: every operand once per read and once per write. Two sizes, one
 * that a core's cache nearly holds and one beyond it, and both dtypes: what a rate varies by over these is its spread.
 */
#include <stdlib.h>
#include <string.h>

#include "hw/calibrate/calibrate.h"
#include "hw/verify/inputs.h"
#include "kernels/attention.h"
#include "models/base/memory.h"

#define DIM 128
#define LARGE_ROWS (1 << 15) /* 16 MiB of fp32 */
#define SMALL_ROWS (1 << 12)
#define REPEATS 9
#define QUICK_REPEATS 3

struct tensors {
    void *o, *d_o;
    float *a, *m, *l, *lse;
};

static void run_step(struct tensors *t, enum device_step step, enum dtype dtype, size_t rows)
{
    switch (step) {
    case STEP_MERGE:
        attention_merge(rows, 1, DIM, dtype, t->o, t->lse, t->a, t->m, t->l, 0);
        break;
    case STEP_FINISH:
        attention_finish(rows, 1, DIM, dtype, t->a, t->m, t->l, t->o, t->lse);
        break;
    case STEP_DELTA:
        attention_delta(rows, 1, DIM, dtype, t->o, t->d_o, t->lse);
        break;
    case STEP_ACCUMULATE:
        attention_accumulate(rows * DIM, DTYPE_FP32, t->a, dtype, t->o, 0);
        break;
    case STEP_CAST:
        attention_accumulate(rows * DIM, dtype, t->d_o, DTYPE_FP32, t->a, 1);
        break;
    case STEP_ELEMENTWISE: /* a residual's sum stands for all of them */
        attention_accumulate(rows * DIM, dtype, t->d_o, dtype, t->o, 0);
        break;
    case STEP_COUNT:
        break;
    }
}

double calibration_step_bytes(enum device_step step, enum dtype dtype, uint32_t dim)
{
    double size = (double)dtype_bytes(dtype), number = 4;
    double tensor = dim * size, partial = tensor + number, state = (dim + 2) * number, sum = dim * number;
    const double bytes[STEP_COUNT] = {
        [STEP_MERGE] = partial + 2 * state,   [STEP_FINISH] = state + partial, [STEP_DELTA] = 2 * tensor + number,
        [STEP_ACCUMULATE] = tensor + 2 * sum, [STEP_CAST] = sum + tensor,      [STEP_ELEMENTWISE] = 3 * tensor,
    };
    return bytes[step];
}

static void *numbers(enum dtype dtype, size_t count)
{
    void *tensor = memory_zeroed(count, dtype_bytes(dtype));
    input_row(2, INPUT_K, 0, 0, count, dtype, tensor);
    return tensor;
}

static void tensors_init(struct tensors *t, enum dtype dtype)
{
    *t = (struct tensors){.o = numbers(dtype, (size_t)LARGE_ROWS * DIM),
                          .d_o = numbers(dtype, (size_t)LARGE_ROWS * DIM),
                          .a = numbers(DTYPE_FP32, (size_t)LARGE_ROWS * DIM),
                          .m = numbers(DTYPE_FP32, LARGE_ROWS),
                          .l = numbers(DTYPE_FP32, LARGE_ROWS),
                          .lse = numbers(DTYPE_FP32, LARGE_ROWS)};
    for (size_t i = 0; i < LARGE_ROWS; i++)
        t->l[i] = t->l[i] * t->l[i] + 1;
}

static void tensors_fini(struct tensors *t)
{
    void *const all[] = {t->o, t->d_o, t->a, t->m, t->l, t->lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Rates of one step over dtypes and sizes. */
struct rates {
    double values[2 * 2 * REPEATS];
    size_t count;
};

static void measure_steps(struct calibration_part *part, enum dtype dtype, size_t rows, struct rates rates[STEP_COUNT])
{
    struct tensors t;
    tensors_init(&t, dtype);
    int repeats = part->quick ? QUICK_REPEATS : REPEATS;
    for (int i = -1; i < repeats; i++) {
        for (int step = 0; step < STEP_COUNT; step++) {
            double start = cpu_seconds_now();
            run_step(&t, (enum device_step)step, dtype, rows);
            double seconds = cpu_seconds_now() - start;
            if (i >= 0)
                rates[step].values[rates[step].count++] = (double)rows *
                                                          calibration_step_bytes((enum device_step)step, dtype, DIM) /
                                                          (seconds > 0 ? seconds : 1e-9);
        }
    }
    tensors_fini(&t);
}

static struct measured measure_copy(int repeats)
{
    const size_t bytes = 64U << 20;
    double rates[REPEATS];
    char *from = memory_zeroed(1, bytes), *to = memory_zeroed(1, bytes);
    memset(from, 1, bytes);
    memset(to, 1, bytes);
    for (int i = 0; i < repeats; i++) {
        double start = cpu_seconds_now();
        memcpy(to, from, bytes);
        rates[i] = 2.0 * (double)bytes / (cpu_seconds_now() - start);
        from[i] = to[bytes - 1 - (size_t)i]; /* the copy must be made */
    }
    free(from);
    free(to);
    return measured_of(rates, (size_t)repeats);
}

bool calibrate_steps(struct calibration_part *part)
{
    struct calibration *calibration = part->calibration;
    struct rates *rates = memory_zeroed(STEP_COUNT, sizeof *rates);
    bool good = crew_meet(part->crew);
    static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};
    for (size_t i = 0; i < 2; i++) {
        measure_steps(part, dtypes[i], SMALL_ROWS, rates);
        measure_steps(part, dtypes[i], LARGE_ROWS, rates);
        part->progress(part, 0.3 * (double)(i + 1));
    }
    calibration->copy = measure_copy(part->quick ? QUICK_REPEATS : REPEATS);
    struct diagnostics diag;
    diagnostics_init(&diag);
    if (good && !calibration_measure_executor(&compute_cpu, &(struct compute_settings){0}, DTYPE_FP32, 16,
                                              part->quick ? 100 : 1000, &calibration->launch, &diag)) {
        part->crew->transport->fail(part->crew->end, diag.count ? diag.lines[0] : "dispatch could not be measured");
        good = false;
    }
    diagnostics_fini(&diag);
    for (int step = 0; step < STEP_COUNT && good; step++) {
        struct measured *result = &calibration->steps[step];
        *result = measured_of(rates[step].values, rates[step].count);
        good = calibration_agree(part->crew, result);
    }
    good = good && calibration_agree(part->crew, &calibration->copy) &&
           calibration_agree(part->crew, &calibration->launch);
    free(rates);
    return good;
}
