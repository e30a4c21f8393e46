/* memory_need.c - adds up per host, and per GPU, what models/result/memory.h and verify.h say. Chiefly that: messages
 * in transit, packed tiles and the programs themselves are small beside it. Buffers of ranks that compute on GPUs are
 * in the GPU's memory, their results and the verification in the host's. */
#include "hw/memory_need.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "hw/rank_programs.h"
#include "hw/run/layer_tensors.h"
#include "hw/verify/verify_layer.h"
#include "models/base/memory.h"
#include "models/result/memory.h"

/* What a rank of a layer ends with, as fp32. */
static double layer_outputs(const struct program *program)
{
    struct layer_buffers buffers;
    layer_buffers_find(program, &buffers);
    double numbers = 0;
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        bool is_output = b == buffers.y || b == buffers.dx;
        for (int w = 0; w < REFERENCE_WEIGHTS; w++)
            is_output = is_output || b == buffers.gradients[w];
        if (is_output)
            numbers += (double)program->buffers[b].rows * (double)program->buffers[b].columns;
    }
    return sizeof(float) * numbers;
}

struct memory_need memory_need_of(const struct schedule *schedule, const struct program *program)
{
    struct stream_order order;
    stream_order_init(&order, program);
    struct moment *moments = memory_zeroed(program->n_ops, sizeof *moments);
    const double phase_end[PHASE_COUNT] = {0};
    struct memory_need need = {.buffers = (double)memory_peak(&order, moments, phase_end).bytes,
                               .verification = verify_bytes(schedule)};
    free(moments);
    stream_order_fini(&order);
    const struct experiment *experiment = schedule->experiment;
    if (experiment->step.scope != SCOPE_ATTENTION) {
        need.verification = verify_layer_bytes(schedule);
        need.outputs = layer_outputs(program);
        return need;
    }
    const struct lanes lanes = schedule_query_lanes(schedule, program->rank);
    double queries = (double)schedule_queries(schedule, program->rank).count * lanes.items * lanes.heads;
    double keys = (double)sharding_rows(&schedule->sharding, program->rank) * experiment->batch * schedule->kv_heads;
    double dim = experiment->model.head_dim, numbers = queries * (dim + 1); /* O, LSE; dQ, dK, dV */
    if (experiment->train)
        numbers += queries * dim + 2 * keys * dim;
    need.outputs = sizeof(float) * numbers;
    return need;
}

static bool check_host(const struct schedule *schedule, const struct program *programs, const struct machine *machines,
                       uint32_t first, bool one_process, struct diagnostics *diag)
{
    const double gib = 1 << 30;
    struct memory_need sum = {0};
    uint32_t ranks = 0;
    for (uint32_t rank = first; rank < rank_programs_count(schedule); rank++) {
        if (!machine_same(&machines[rank], &machines[first]))
            continue;
        struct memory_need need = memory_need_of(schedule, &programs[rank]);
        sum.buffers += *machines[rank].gpu.bus ? 0 : need.buffers;
        sum.outputs += need.outputs;
        sum.verification = (one_process ? 0 : sum.verification) + need.verification;
        ranks++;
    }
    double all = sum.buffers + sum.outputs + sum.verification, available = (double)machines[first].available_bytes;
    if (available <= 0 || all <= available) /* 0: not known */
        return true;
    return diagnostics_add(diag,
                           "the experiment needs %.4g GiB on host '%s' for %" PRIu32
                           " rank%s (%.4g GiB of buffers, %.4g GiB of results, %.4g GiB for their verification), but "
                           "only %.4g GiB are available",
                           all / gib, machines[first].host, ranks, ranks == 1 ? "" : "s", sum.buffers / gib,
                           sum.outputs / gib, sum.verification / gib, available / gib);
}

/* Ranks that share the GPU of `first` need their buffers all at once. */
static bool check_gpu(const struct schedule *schedule, const struct program *programs, const struct machine *machines,
                      uint32_t first, struct diagnostics *diag)
{
    const double gib = 1 << 30;
    const struct machine_gpu *gpu = &machines[first].gpu;
    double buffers = 0, available = (double)gpu->free_bytes;
    uint32_t ranks = 0;
    for (uint32_t rank = first; rank < rank_programs_count(schedule); rank++) {
        if (!machine_same_gpu(&machines[rank], &machines[first]))
            continue;
        buffers += memory_need_of(schedule, &programs[rank]).buffers;
        available = fmin(available, (double)machines[rank].gpu.free_bytes);
        ranks++;
    }
    if (buffers <= available)
        return true;
    return diagnostics_add(diag,
                           "the experiment needs %.4g GiB on the GPU %s (%s) of host '%s' for the buffers of %" PRIu32
                           " rank%s, but only %.4g GiB are available",
                           buffers / gib, gpu->bus, gpu->name, machines[first].host, ranks, ranks == 1 ? "" : "s",
                           available / gib);
}

bool memory_need_check(const struct schedule *schedule, const struct program *programs, const struct machine *machines,
                       bool one_process, struct diagnostics *diag)
{
    bool enough = true;
    for (uint32_t rank = 0; rank < rank_programs_count(schedule); rank++) {
        bool seen = false, gpu_seen = !*machines[rank].gpu.bus;
        for (uint32_t r = 0; r < rank; r++) {
            seen = seen || machine_same(&machines[r], &machines[rank]);
            gpu_seen = gpu_seen || machine_same_gpu(&machines[r], &machines[rank]);
        }
        if (!seen)
            enough &= check_host(schedule, programs, machines, rank, one_process, diag);
        if (!gpu_seen)
            enough &= check_gpu(schedule, programs, machines, rank, diag);
    }
    return enough;
}
