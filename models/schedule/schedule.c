/* schedule.c - joins an experiment and its algorithm; judges what only both together show: keys without
 * effect, blocks so small that programs would not fit. */
#include "models/schedule/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"

/* Keys of [schedule] that only some algorithms look at. */
static const struct {
    const char *key;
    unsigned uses;
    bool training_only;
} optional_keys[] = {
    {"buffers", USES_BUFFERS, false},       {"kv_block", USES_KV_BLOCK, false},  {"kv_messages", USES_SPLIT_KV, false},
    {"collective", USES_COLLECTIVE, false}, {"gradients", USES_GRADIENTS, true}, {"overlap", USES_OVERLAP, false},
};

/* A key that was written but changes nothing is a misunderstanding: said, not ignored. */
static void check_effects(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    char why[96];
    for (size_t i = 0; i < sizeof optional_keys / sizeof *optional_keys; i++) {
        const char *key = optional_keys[i].key;
        if (experiment_key_line(experiment, "schedule", key) == 0)
            continue;
        if (!(algorithm_uses(schedule) & optional_keys[i].uses)) {
            snprintf(why, sizeof why, "with algorithm = %s%s", schedule->algorithm->name,
                     schedule->algorithm->uses & optional_keys[i].uses ? " and kv_block = 0" : "");
            experiment_complain(experiment, "schedule", key, diag, "'%s' has no effect %s", key, why);
        } else if (optional_keys[i].training_only && !experiment->train) {
            experiment_complain(experiment, "schedule", key, diag, "'%s' has no effect with pass = forward", key);
        }
    }
}

/* Programs grow with ranks^2 * blocks: a tiny kv_block on a long sequence would fill the memory with them. */
#define OPERATIONS_MAX 1e8

static bool check_size(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    double ranks = schedule->ranks, rows = (double)sharding_rows_max(&schedule->sharding);
    double blocks = experiment->kv_block ? rows / (double)experiment->kv_block + 1 : 1;
    double operations = ranks * ranks * blocks * (experiment->train ? 12 : 5) * (experiment->split_kv ? 1.5 : 1);
    if (operations <= OPERATIONS_MAX)
        return true;
    if (blocks > 1)
        return experiment_complain(experiment, "schedule", "kv_block", diag,
                                   "'kv_block' = %" PRIu64 " with cp = %" PRIu32
                                   " makes about %.2g operations, expected at most %.0g: larger blocks",
                                   experiment->kv_block, schedule->ranks, operations, OPERATIONS_MAX);
    return experiment_complain(experiment, "parallel", "cp", diag,
                               "'cp' = %" PRIu32 " makes about %.2g operations, expected at most %.0g: fewer ranks",
                               schedule->ranks, operations, OPERATIONS_MAX);
}

bool schedule_init(struct schedule *schedule, const struct experiment *experiment, struct diagnostics *lenient,
                   struct diagnostics *diag)
{
    memset(schedule, 0, sizeof *schedule);
    schedule->experiment = experiment;
    schedule->ranks = experiment->degree[PARALLEL_CP];
    schedule->q_heads = experiment_q_heads(experiment);
    schedule->kv_heads = experiment_kv_heads(experiment);
    schedule->algorithm = algorithm_find(experiment->algorithm);
    if (!schedule->algorithm)
        return algorithm_report_unknown(experiment, diag);

    size_t before = diag->count;
    if (experiment->skip == SKIP_TRANSFER && !(schedule->algorithm->uses & USES_SKIP_TRANSFER))
        experiment_complain(
            experiment, "schedule", "skip", diag,
            "algorithm '%s' sends every block to every rank and cannot do skip = transfer, expected none or compute",
            schedule->algorithm->name);
    check_effects(schedule, lenient ? lenient : diag);
    sharding_init(&schedule->sharding, experiment);
    check_size(schedule, diag);
    if (schedule->algorithm->check)
        schedule->algorithm->check(schedule, diag);
    if (diag->count == before) {
        if (schedule->algorithm->prepare)
            schedule->algorithm_data = schedule->algorithm->prepare(schedule);
        return true;
    }
    schedule_fini(schedule);
    return false;
}

void schedule_fini(struct schedule *schedule)
{
    free(schedule->algorithm_data);
    sharding_fini(&schedule->sharding);
    memset(schedule, 0, sizeof *schedule);
}

void schedule_build(const struct schedule *schedule, uint32_t rank, struct program *program)
{
    program_init(program, rank);
    schedule->algorithm->build(schedule, program);
}

struct program *schedule_build_all(const struct schedule *schedule)
{
    struct program *programs = memory_zeroed(schedule->ranks, sizeof *programs);
    for (uint32_t r = 0; r < schedule->ranks; r++)
        schedule_build(schedule, r, &programs[r]);
    return programs;
}

void schedule_free_programs(const struct schedule *schedule, struct program *programs)
{
    if (!programs)
        return;
    for (uint32_t r = 0; r < schedule->ranks; r++)
        program_fini(&programs[r]);
    free(programs);
}

/* Elements of one sequence row of one batch item. */
static uint64_t row_elements(const struct schedule *schedule, enum tensor tensor)
{
    uint64_t q_heads = schedule->q_heads, kv_heads = schedule->kv_heads, dim = schedule->experiment->model.head_dim;
    switch (tensor) {
    case TENSOR_Q:
    case TENSOR_O:
    case TENSOR_DO:
    case TENSOR_DQ:
        return q_heads * dim;
    case TENSOR_KV:
    case TENSOR_DKV:
        return 2 * kv_heads * dim;
    case TENSOR_LSE:
    case TENSOR_DELTA:
        return q_heads;
    case TENSOR_PARTIAL: /* O and LSE */
        return q_heads * (dim + 1);
    case TENSOR_STATE: /* a, m and l */
        return q_heads * (dim + 2);
    case TENSOR_COUNT:
        break;
    }
    return 0;
}

uint64_t schedule_tensor_elements(const struct schedule *schedule, enum tensor tensor, uint64_t rows)
{
    return rows * schedule->experiment->batch * row_elements(schedule, tensor);
}

uint64_t schedule_tensor_bytes(const struct schedule *schedule, enum tensor tensor, enum dtype dtype, uint64_t rows)
{
    uint64_t bytes = schedule_tensor_elements(schedule, tensor, rows) * dtype_bytes(dtype);
    if (tensor == TENSOR_PARTIAL) /* its LSE is as wide as a sum, whatever O is */
        bytes += schedule_tensor_elements(schedule, TENSOR_LSE, rows) *
                 (dtype_bytes(dtype_accumulator(dtype)) - dtype_bytes(dtype));
    return bytes;
}
