/* calibrate_steps.c - rates of what is bound by memory, and what it costs to dispatch an operation at all.
 *
 * A step's bytes are counted as models/cost counts them: every operand once per read and once per write. Two sizes, one
 * that a core's cache nearly holds and one beyond it, and both dtypes: what a rate varies by over these is its spread.
 */
#include <stdlib.h>
#include <string.h>

#include "hw/calibrate/calibrate.h"
#include "hw/run/executor.h"
#include "hw/verify/inputs.h"
#include "kernels/attention.h"
#include "models/base/memory.h"
#include "models/input/ini_document.h"

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
    case STEP_COUNT:
        break;
    }
}

/* Read and written. */
static double step_bytes(enum device_step step, enum dtype dtype, size_t rows)
{
    double size = (double)dtype_bytes(dtype), number = 4;
    double tensor = DIM * size, partial = tensor + number, state = (DIM + 2) * number, sum = DIM * number;
    const double bytes[STEP_COUNT] = {
        [STEP_MERGE] = partial + 2 * state,   [STEP_FINISH] = state + partial, [STEP_DELTA] = 2 * tensor + number,
        [STEP_ACCUMULATE] = tensor + 2 * sum, [STEP_CAST] = sum + tensor,
    };
    return bytes[step] * (double)rows;
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
                rates[step].values[rates[step].count++] =
                    step_bytes((enum device_step)step, dtype, rows) / (seconds > 0 ? seconds : 1e-9);
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

/* ---- dispatch ---- */

/* A step so small that only its operations' fixed costs remain. */
static struct experiment tiny_experiment(struct ini_document *nothing_written)
{
    return (struct experiment){
        .path = (char *)"calibration",
        .model = {.name = "custom", .q_heads = 1, .kv_heads = 1, .head_dim = 16},
        .dtype = DTYPE_FP32,
        .seq_len = 4,
        .batch = 1,
        .mask = {.kind = MASK_CAUSAL, .seq_len = 4},
        .train = true,
        .degree = {1, 1, 1},
        .order = {PARALLEL_TP, PARALLEL_CP, PARALLEL_DP},
        .algorithm = "ring",
        .overlap = true,
        .buffers = 2,
        .skip = SKIP_COMPUTE,
        .gradient_accumulator = true,
        .document = nothing_written,
    };
}

static bool run_tiny(struct executor *executor, const struct program *program, int repeats, struct measured *launch)
{
    const struct executor_step step = {.mode = RUN_ALL, .seed = 1};
    double *seconds = memory_zeroed((size_t)repeats, sizeof *seconds);
    bool good = executor_run(executor, &step);
    for (int i = 0; i < repeats && good; i++) {
        good = executor_run(executor, &step);
        const struct rank_record *record = executor_record(executor);
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            seconds[i] += (record->phase_end[phase] - record->phase_begin[phase]) / program->n_ops;
    }
    *launch = measured_of(seconds, (size_t)repeats);
    free(seconds);
    return good;
}

/* Each rank by itself, through the executor. */
static bool measure_launch(int repeats, struct measured *launch, struct diagnostics *diag)
{
    struct ini_document nothing_written = {0};
    struct experiment experiment = tiny_experiment(&nothing_written);
    struct schedule schedule;
    struct transport *end;
    uint32_t n_ends, first_rank;
    if (!schedule_init(&schedule, &experiment, NULL, diag))
        return false;
    struct program *programs = schedule_build_all(&schedule);
    struct compute *compute = compute_cpu.open(&schedule, 0, diag);
    bool good = compute && transport_local.open(1, NULL, &end, &n_ends, &first_rank, diag);
    if (good) {
        struct executor *executor = executor_create(&schedule, programs, &compute_cpu, compute, &transport_local, end);
        good = run_tiny(executor, programs, repeats, launch);
        executor_destroy(executor);
        transport_local.close(&end, n_ends);
    }
    compute_cpu.close(compute);
    schedule_free_programs(&schedule, programs);
    schedule_fini(&schedule);
    return good;
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
    if (good && !measure_launch(part->quick ? 100 : 1000, &calibration->launch, &diag)) {
        part->crew->transport->fail(part->crew->end, diag.count ? diag.lines[0] : "dispatch could not be measured");
        good = false;
    }
    diagnostics_fini(&diag);
    for (int step = 0; step < STEP_COUNT && good; step++) {
        struct measured *result = &calibration->steps[step];
        *result = measured_of(rates[step].values, rates[step].count);
        double values[2] = {result->value, result->spread};
        good = crew_mean(part->crew, values, 2);
        *result = (struct measured){values[0], values[1]};
    }
    double values[4] = {calibration->copy.value, calibration->copy.spread, calibration->launch.value,
                        calibration->launch.spread};
    good = good && crew_mean(part->crew, values, 4);
    calibration->copy = (struct measured){values[0], values[1]};
    calibration->launch = (struct measured){values[2], values[3]};
    free(rates);
    return good;
}
