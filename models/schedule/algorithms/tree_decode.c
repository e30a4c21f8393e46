/* tree_decode.c - every rank attends all queries with its own keys; three small all-reduces make one output of them.
 *
 * All ranks hold the queries of all new tokens and end with all outputs. With O_r, LSE_r what the keys of rank r give:
 *   top = max_r LSE_r,  N = sum_r O_r e^(LSE_r - top),  D = sum_r e^(LSE_r - top),  O = N / D,  LSE = top + ln D
 * The all-reduces carry B T Hq, B T Hq d and B T Hq numbers for T new tokens, whatever the length of the sequence, so
 * they cost latency and little else; a rank's compute is to read its share of the cache. Made for decoding; with many
 * new tokens every rank does what others do too.
 *
 * Every rank must have a partial result, be it the neutral one: a rank whose keys nobody sees attends a single one of
 * them, in vain. So every rank must have a key.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/collective.h"
#include "models/schedule/mask.h"

/* The own keys that are attended: those that are seen, or one. */
static struct block attended_keys(const struct builder *b)
{
    const struct experiment *experiment = b->schedule->experiment;
    struct block queries = b->queries, keys = circle_keys(&b->circle, b->rank);
    if (experiment->skip != SKIP_NONE && mask_trim(&experiment->mask, &b->schedule->sharding, &queries, &keys) == 0)
        keys.count = 1;
    return keys;
}

static void all_reduce(struct builder *b, const struct team *team, const char *staging_name, uint32_t buffer)
{
    const struct buffer held = b->program->buffers[buffer];
    uint32_t *staging = collective_staging(b, staging_name, CALL_ALL_REDUCE, team, (enum tensor)held.tensor,
                                           (enum dtype)held.dtype, b->queries, b->lanes);
    collective_all_reduce(b, b->exchange, TRAFFIC_OTHER, team, (struct slot){buffer, b->queries}, staging);
    free(staging);
}

/* Adds a buffer of one value, or row, per query: the terms of the formula, as wide as sums are. */
static uint32_t add_term(struct builder *b, const char *name, enum tensor tensor)
{
    return builder_buffer_block(b, name, tensor, b->accumulator, ROLE_ACCUMULATOR, b->queries, b->lanes);
}

static void combine(struct builder *b, uint32_t partial)
{
    uint32_t top = add_term(b, "top", TENSOR_TOP), numerator = add_term(b, "numerator", TENSOR_NUMERATOR),
             denominator = add_term(b, "denominator", TENSOR_DENOMINATOR);
    struct team team = team_of_all(b);
    builder_on_queries(b, OP_TOP, STREAM_COMPUTE, b->queries, b->lanes, &partial, 1, &top, 1);
    all_reduce(b, &team, "top in", top);
    builder_on_queries(b, OP_WEIGH, STREAM_COMPUTE, b->queries, b->lanes, (uint32_t[]){partial, top}, 2,
                       (uint32_t[]){numerator, denominator}, 2);
    all_reduce(b, &team, "numerator in", numerator);
    all_reduce(b, &team, "denominator in", denominator);
    builder_on_queries(b, OP_NORMALIZE, STREAM_COMPUTE, b->queries, b->lanes, (uint32_t[]){numerator, denominator, top},
                       3, (uint32_t[]){b->o, b->lse}, 2);
    team_fini(&team);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct attention a = {.q = b.queries,
                          .k = attended_keys(&b),
                          .lanes = b.lanes,
                          .stream = STREAM_COMPUTE,
                          .q_buffer = b.q,
                          .kv = &b.kv,
                          .n_kv = 1};
    if (b.ranks == 1) {
        builder_add_attend(&b, &a, (uint32_t[]){b.o, b.lse}, 2);
    } else {
        uint32_t partial =
            builder_buffer_block(&b, "partial", TENSOR_PARTIAL, b.output, ROLE_WORKSPACE, b.queries, b.lanes);
        builder_add_attend(&b, &a, &partial, 1);
        combine(&b, partial);
    }
    program_end_phase(program, PHASE_FORWARD);
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    uint32_t rank = 0;
    while (rank < schedule->ranks && sharding_rows(&schedule->sharding, rank) > 0)
        rank++;
    if (rank == schedule->ranks)
        return true;
    if (experiment->sharding == SHARDING_EXPLICIT)
        return experiment_complain(experiment, "schedule", "sharding", diag,
                                   "algorithm '%s': rank %" PRIu32 " has no keys, expected every rank to have some",
                                   schedule->algorithm->name, rank);
    return experiment_complain(experiment, "workload", "seq_len", diag,
                               "algorithm '%s': rank %" PRIu32 " of cp = %" PRIu32 " has no keys of seq_len = %" PRIu64
                               ", expected at least %" PRIu64,
                               schedule->algorithm->name, rank, schedule->ranks, experiment->seq_len,
                               experiment->new_tokens + schedule->ranks);
}

const struct algorithm_ops algorithm_tree_decode = {
    .name = "tree-decode",
    .summary = "every rank attends all new tokens with its keys; all-reduces combine the results",
    .constraint = "pass = forward; keys on every rank",
    .uses = USES_COLLECTIVE,
    .can = CAN_PREFILL | CAN_DECODE,
    .moves_queries = true,
    .replicates_queries = true,
    .check = check,
    .build = build,
};
