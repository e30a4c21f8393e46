/* usp.c - all-to-all inside groups of u ranks, a ring of the R = P/u groups outside (USP; a2a+p2p in Megatron).
 *
 * A group's ranks trade rows for heads (heads.h); then each goes round the ring with the like members of the other
 * groups, for its slice of the heads (ring_pass.h). The ring's message is as large as in a ring of all ranks, u times
 * the rows of 1/u of the heads, but there are R - 1 of them, each hidden behind u times the work. Bytes sent per rank,
 * KV' being KV with the KV heads that u > kv_heads replicates:
 *   forward   (u-1)/u (2 Q + L + KV') + (R-1) KV'
 *   backward  (u-1)/u (2 Q + KV') + (R-1) KV' + R dKV'
 * The sharding is that of R: zigzag is balanced over 2 R joined chunks, each split u ways.
 */
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/heads.h"
#include "models/schedule/algorithms/ring_pass.h"

static uint32_t degree(const struct schedule *schedule)
{
    uint32_t asked = schedule->experiment->ulysses_degree;
    return asked ? asked : heads_degree(schedule);
}

static uint32_t joined(const struct schedule *schedule)
{
    return heads_joined(schedule, degree(schedule));
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    return heads_check(schedule, degree(schedule), "schedule", "ulysses_degree", diag) &&
           ring_pass_check(schedule, schedule->ranks / degree(schedule), diag);
}

static const char *no_effect(const struct schedule *schedule, enum algorithm_key key)
{
    return heads_no_effect(schedule, joined(schedule), key);
}

static void *prepare(const struct schedule *schedule)
{
    struct circle circle = circle_of_groups(schedule, 0); /* the same for every member */
    return ring_reach(&circle);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    struct heads heads;
    struct ring_pass pass;
    builder_init(&b, schedule, program);
    heads_enter(&heads, &b);
    ring_pass_init(&pass, &b, schedule->algorithm_data);
    ring_pass_forward(&pass);
    heads_leave(&heads);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train) {
        heads_enter_backward(&heads);
        ring_pass_backward(&pass);
        heads_leave_backward(&heads);
        program_end_phase(program, PHASE_BACKWARD);
    }
    ring_pass_fini(&pass);
    heads_fini(&heads);
}

const struct algorithm_ops algorithm_usp = {
    .name = "usp",
    .summary = "all-to-all inside groups, a ring of the groups outside: rows for heads, then K/V blocks go round",
    .constraint = "ulysses_degree divides cp and the query heads, and divides the KV heads or is a multiple of them; "
                  "buffers >= 2 in a ring of more than two groups",
    .uses = USES_BUFFERS | USES_KV_BLOCK | USES_SKIP_TRANSFER | USES_SPLIT_KV | USES_COLLECTIVE | USES_GRADIENTS |
            USES_OVERLAP | USES_ULYSSES_DEGREE | USES_INNER,
    .can = CAN_TRAIN | CAN_PREFILL,
    .no_effect = no_effect,
    .joined = joined,
    .check = check,
    .prepare = prepare,
    .build = build,
};
