/* ring.c - the ring of all ranks: every rank's K/V block goes round, attended as it passes (ring_pass.h).
 *
 * Bytes sent per rank, KV being a shard's K and V: (P-1) KV forward, (P-1) KV + P dKV backward. This is the form of
 * zhuzilin/ring-flash-attention: each step is merged in fp32, dKV goes round in a ring of its own, in fp32; contiguous,
 * zigzag and striped differ in the sharding only. (It sends K and V apart: kv_messages = 2.)
 */
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/ring_pass.h"

static void *prepare(const struct schedule *schedule)
{
    struct circle circle = circle_of_ranks(schedule);
    return ring_reach(&circle);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    struct ring_pass pass;
    builder_init(&b, schedule, program);
    ring_pass_init(&pass, &b, schedule->algorithm_data);
    ring_pass_forward(&pass);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train) {
        ring_pass_backward(&pass);
        program_end_phase(program, PHASE_BACKWARD);
    }
    ring_pass_fini(&pass);
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    return ring_pass_check(schedule, schedule->ranks, diag);
}

const struct algorithm_ops algorithm_ring = {
    .name = "ring",
    .summary = "K/V blocks go round a ring of neighbours, attended as they pass; dKV follows them home",
    .constraint = "buffers >= 2 on more than two ranks",
    .uses = USES_BUFFERS | USES_KV_BLOCK | USES_SKIP_TRANSFER | USES_SPLIT_KV | USES_GRADIENTS | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL | CAN_DECODE,
    .turns = TURNS,
    .check = check,
    .prepare = prepare,
    .build = build,
};
