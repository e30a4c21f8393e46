/* calibrate_executor.c - what it costs to dispatch an operation at all, on any backend: the executor runs programs
 * whose operations do next to nothing.
 */
#include <stdlib.h>

#include "hw/calibrate/calibrate.h"
#include "hw/run/executor.h"
#include "models/base/memory.h"
#include "models/input/ini_document.h"

struct experiment calibration_experiment(struct ini_document *nothing_written, enum dtype dtype, uint32_t head_dim)
{
    return (struct experiment){
        .path = (char *)"calibration",
        .model = {.name = "custom", .q_heads = 1, .kv_heads = 1, .head_dim = head_dim},
        .dtype = dtype,
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
    const struct executor_step step = {.mode = RUN_ALL, .seed = 1, .bare = true};
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

/* A rank alone has nobody to send to, but an asynchronous backend's executor wants a transport that carries it. */
static bool carry(const struct compute_ops *ops, struct compute *compute, struct transport *end,
                  struct diagnostics *diag)
{
    return !ops->queues || transport_local.attach(end, ops, compute, 0, &(struct transport_settings){0}, diag);
}

bool calibration_measure_executor(const struct compute_ops *ops, const struct compute_settings *settings,
                                  enum dtype dtype, uint32_t head_dim, int repeats, struct measured *seconds,
                                  struct diagnostics *diag)
{
    struct ini_document nothing_written = {0};
    struct experiment experiment = calibration_experiment(&nothing_written, dtype, head_dim);
    struct schedule schedule;
    struct transport *end;
    uint32_t n_ends, first_rank;
    if (!schedule_init(&schedule, &experiment, NULL, diag))
        return false;
    struct program *programs = schedule_build_all(&schedule);
    struct compute *compute = ops->open(&schedule, 0, settings, diag);
    bool good = compute && transport_local.open(1, NULL, &end, &n_ends, &first_rank, diag);
    if (good) {
        good = carry(ops, compute, end, diag);
        struct executor *executor =
            good ? executor_create(&schedule, programs, ops, compute, &transport_local, end) : NULL;
        good = good && run_tiny(executor, programs, repeats, seconds);
        executor_destroy(executor);
        transport_local.close(&end, n_ends);
    }
    if (compute)
        ops->close(compute);
    schedule_free_programs(&schedule, programs);
    schedule_fini(&schedule);
    return good;
}
