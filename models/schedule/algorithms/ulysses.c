/* ulysses.c - all ranks trade rows for heads, then each attends the whole sequence for its slice of the heads.
 *
 * One kernel per phase, no merge, and no overlap of messages with attention (heads.h says what travels): bytes sent per
 * rank, forward and backward alike, (P-1)/P (2 Q + KV'), and LSE, forward, on top. Any mask is balanced, for all heads
 * share it. The form of DeepSpeed-Ulysses and of cp_comm_type = a2a in Megatron.
 */
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/heads.h"

static uint32_t joined(const struct schedule *schedule)
{
    return heads_joined(schedule, schedule->ranks);
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    return heads_check(schedule, schedule->ranks, "parallel", "cp", diag);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    struct heads heads;
    builder_init(&b, schedule, program);
    heads_enter(&heads, &b);
    struct block keys = circle_keys(&b.circle, b.place);
    builder_begin(&b, PHASE_FORWARD, 1);
    builder_attend(&b, keys, &b.kv, 1);
    builder_end(&b, PHASE_FORWARD);
    heads_leave(&heads);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train) {
        heads_enter_backward(&heads);
        builder_begin(&b, PHASE_BACKWARD, 1);
        builder_attend_backward(&b, keys, &b.kv, 1, &b.dkv, true);
        builder_end(&b, PHASE_BACKWARD);
        heads_leave_backward(&heads);
        program_end_phase(program, PHASE_BACKWARD);
    }
    heads_fini(&heads);
}

const struct algorithm_ops algorithm_ulysses = {
    .name = "ulysses",
    .summary = "all-to-all: ranks trade rows for heads, and each attends the whole sequence for its heads",
    .constraint = "cp divides the query heads, and divides the KV heads or is a multiple of them",
    .uses = USES_SPLIT_KV | USES_COLLECTIVE | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL,
    .joined = joined,
    .check = check,
    .build = build,
};
