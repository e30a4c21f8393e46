/* schedule.c - joins an experiment and its algorithm; judges what only both together show: keys without
 * effect, blocks so small that programs would not fit. */
#include "models/schedule/schedule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/divisors.h"
#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/layers/layers.h"

/* Keys of [schedule] that only some algorithms look at. */
static const struct {
    const char *key;
    enum algorithm_key use;
    bool training_only;
} optional_keys[] = {
    {"buffers", USES_BUFFERS, false},
    {"kv_block", USES_KV_BLOCK, false},
    {"kv_messages", USES_SPLIT_KV, false},
    {"collective", USES_COLLECTIVE, false},
    {"gradients", USES_GRADIENTS, true},
    {"overlap", USES_OVERLAP, false},
    {"ulysses_degree", USES_ULYSSES_DEGREE, false},
    {"ring_window", USES_RING_WINDOW, false},
    {"gather_heads", USES_GATHER_HEADS, false},
    {"inner", USES_INNER, false},
};

/* A key that was written but changes nothing is a misunderstanding: said, not ignored. */
static void check_effects(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    for (size_t i = 0; i < sizeof optional_keys / sizeof *optional_keys; i++) {
        const char *key = optional_keys[i].key;
        if (experiment_key_line(experiment, "schedule", key) == 0)
            continue;
        const char *ignored = algorithm_ignores(schedule, optional_keys[i].use);
        if (ignored) {
            experiment_complain(experiment, "schedule", key, diag, "'%s' has no effect with algorithm = %s%s%s", key,
                                schedule->algorithm->name, *ignored ? " " : "", ignored);
        } else if (optional_keys[i].training_only && !experiment->train) {
            experiment_complain(experiment, "schedule", key, diag, "'%s' has no effect with pass = forward", key);
        }
    }
    if (schedule->algorithm->skips_always && experiment->skip != SKIP_TRANSFER &&
        experiment_key_line(experiment, "schedule", "skip") != 0)
        experiment_complain(experiment, "schedule", "skip", diag,
                            "'skip' has no effect with algorithm = %s, which moves and computes only what is seen, "
                            "expected transfer or no such key",
                            schedule->algorithm->name);
}

uint32_t schedule_period(const struct schedule *schedule)
{
    const struct sharding *sharding = &schedule->sharding;
    bool even = sharding->kind != SHARDING_EXPLICIT && sharding->kind != SHARDING_PER_DOCUMENT &&
                sharding->seq_len % schedule->ranks == 0 && sharding->cached % schedule->ranks == 0;
    bool alike = even && schedule->experiment->mask.kind == MASK_FULL && schedule->queries == QUERIES_BY_ROW &&
                 sharding->joined == 1;
    const struct experiment *experiment = schedule->experiment;
    if (experiment->step.scope != SCOPE_ATTENTION) /* rings of dp x cp ranks begin and end somewhere */
        return schedule->ranks;
    enum algorithm_turns turns = schedule->algorithm->turns;
    if (turns == TURNS_FORWARD && (experiment->train || experiment->collective == COLLECTIVE_HIERARCHICAL))
        turns = TURNS_NEVER;
    return alike && turns != TURNS_NEVER ? 1 : schedule->ranks;
}

/* Programs grow with ranks^2 * rounds, or with ranks * rounds where one stands for all: a tiny kv_block on a long
 * sequence would fill the memory with them. */
#define OPERATIONS_MAX 1e8
#define OPERATIONS_OF_LAYERS_MAX 3e7 /* with works, and more streams to wait for, each */

/* Blocks that a shard travels in, by rows or by heads. */
static double rounds_of(const struct schedule *schedule)
{
    const struct experiment *experiment = schedule->experiment;
    unsigned uses = schedule->algorithm->uses;
    if ((uses & USES_KV_BLOCK) && experiment->kv_block)
        return (double)sharding_rows_max(&schedule->sharding) / (double)experiment->kv_block + 1;
    if (uses & USES_GATHER_HEADS)
        return (double)schedule->kv_heads / (experiment->gather_heads ? experiment->gather_heads : 1);
    return 1;
}

/* Whether so many programs of it are not too much. */
static bool check_size(const struct schedule *schedule, double programs, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    double ranks = schedule->ranks, rounds = rounds_of(schedule);
    double attention = ranks * rounds * (experiment->train ? 12 : 5) * (experiment->split_kv ? 1.5 : 1);
    bool attention_alone = experiment->step.scope == SCOPE_ATTENTION;
    double most = attention_alone ? OPERATIONS_MAX : OPERATIONS_OF_LAYERS_MAX;
    double operations = programs * (attention_alone ? attention : layers_operations(experiment, attention));
    if (operations <= most)
        return true;
    if (experiment->step.scope == SCOPE_MODEL && rounds <= 1)
        return experiment_complain(experiment, "workload", "scope", diag,
                                   "'scope' = model of %" PRIu32 " layers with cp = %" PRIu32
                                   " makes about %.2g operations, expected at most %.0g: fewer ranks, or scope = layer",
                                   experiment->model.layers, schedule->ranks, operations, most);
    if (rounds > 1 && (schedule->algorithm->uses & USES_GATHER_HEADS))
        return experiment_complain(experiment, "schedule", "gather_heads", diag,
                                   "'gather_heads' = %" PRIu32 " with cp = %" PRIu32
                                   " makes about %.2g operations, expected at most %.0g: more heads at once",
                                   experiment->gather_heads, schedule->ranks, operations, most);
    if (rounds > 1)
        return experiment_complain(experiment, "schedule", "kv_block", diag,
                                   "'kv_block' = %" PRIu64 " with cp = %" PRIu32
                                   " makes about %.2g operations, expected at most %.0g: larger blocks",
                                   experiment->kv_block, schedule->ranks, operations, most);
    return experiment_complain(experiment, "parallel", "cp", diag,
                               "'cp' = %" PRIu32 " makes about %.2g operations, expected at most %.0g: fewer ranks",
                               schedule->ranks, operations, most);
}

/* The counts of bytes that experiment.c could not judge, knowing no algorithm: Q, dO, dQ and a few numbers a row, at
 * most as wide, that cp ranks get of all others; in a sum on every rank, each of them from each. */
static bool check_overflow(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    const struct transformer *model = &experiment->model;
    uint64_t tokens = experiment->new_tokens ? experiment->new_tokens : experiment->seq_len;
    double bytes = (double)tokens * experiment->batch * model->head_dim * 8 * model->q_heads * 6 * schedule->ranks *
                   experiment->degree[PARALLEL_DP];
    if (schedule->algorithm->replicates_queries)
        bytes *= schedule->ranks;
    if (bytes < 0x1p62 || !schedule->algorithm->moves_queries)
        return true;
    return experiment_complain(experiment, "workload", experiment->new_tokens ? "new_tokens" : "seq_len", diag,
                               "algorithm '%s': queries of %" PRIu64 " tokens with batch = %" PRIu32
                               ", q_heads = %" PRIu32 ", head_dim = %" PRIu32 ", cp = %" PRIu32 " and dp = %" PRIu32
                               " move more bytes than 63 bits can count, expected a smaller product",
                               schedule->algorithm->name, tokens, experiment->batch, model->q_heads, model->head_dim,
                               schedule->ranks, experiment->degree[PARALLEL_DP]);
}

/* What kinds of work the algorithm does at all. */
static void check_workload(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    const char *name = schedule->algorithm->name;
    if (experiment->train && !(schedule->algorithm->can & CAN_TRAIN))
        experiment_complain(experiment, "workload", "pass", diag,
                            "algorithm '%s' has no backward pass, expected pass = forward", name);
    if (!experiment->new_tokens)
        return;
    if (!(schedule->algorithm->can & CAN_PREFILL))
        experiment_complain(experiment, "workload", "new_tokens", diag,
                            "algorithm '%s' cannot work on a cached prefix, expected new_tokens = 0", name);
    else if (schedule->queries == QUERIES_BY_ITEM && !(schedule->algorithm->can & CAN_DECODE))
        experiment_complain(experiment, "workload", "new_tokens", diag,
                            "algorithm '%s' deals out new tokens, but there are fewer (%" PRIu64
                            ") than ranks: expected at least cp = %" PRIu32
                            ", or an algorithm that decodes, such as tree-decode",
                            name, experiment->new_tokens, schedule->ranks);
}

static bool check_collective(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    if (experiment->collective != COLLECTIVE_HIERARCHICAL || !(schedule->algorithm->uses & USES_COLLECTIVE) ||
        schedule->ranks % experiment->collective_node == 0)
        return true;
    char nearest[NEAREST_SIZE];
    divisors_nearest(schedule->ranks, experiment->collective_node, nearest, sizeof nearest);
    return experiment_complain(experiment, "schedule", "collective", diag,
                               "'collective' by nodes of %" PRIu32 " ranks, which do not divide cp = %" PRIu32
                               ", nearest: %s",
                               experiment->collective_node, schedule->ranks, nearest);
}

/* Where each rank sits when the members of a group, or the places of a ring, are to be neighbours; NULL when that is
 * the order of their numbers. */
static uint32_t *places(const struct schedule *schedule)
{
    const struct sharding *sharding = &schedule->sharding;
    uint32_t groups = sharding_groups(sharding), joined = sharding->joined;
    bool rings_inside = schedule->experiment->inner == INNER_RING, moved = false;
    if (algorithm_ignores(schedule, USES_INNER))
        return NULL;
    uint32_t *place_of_rank = memory_zeroed(schedule->ranks, sizeof *place_of_rank);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        uint32_t group = sharding_group_of(sharding, rank), member = sharding_member_of(sharding, rank);
        place_of_rank[rank] = rings_inside ? member * groups + group : group * joined + member;
        moved |= place_of_rank[rank] != rank;
    }
    if (moved)
        return place_of_rank;
    free(place_of_rank);
    return NULL;
}

/* The ranks whose shards are joined; 1 where the algorithm will refuse what was asked for. */
static uint32_t joined_ranks(const struct schedule *schedule)
{
    if (schedule->queries != QUERIES_BY_ROW)
        return schedule->ranks;
    uint32_t joined = schedule->algorithm->joined ? schedule->algorithm->joined(schedule) : 1;
    return joined > 0 && schedule->ranks % joined == 0 ? joined : 1;
}

static enum query_layout query_layout(const struct schedule *schedule)
{
    if (schedule->algorithm->replicates_queries)
        return QUERIES_REPLICATED;
    uint64_t new_tokens = schedule->experiment->new_tokens;
    return new_tokens && new_tokens < schedule->ranks ? QUERIES_BY_ITEM : QUERIES_BY_ROW;
}

bool schedule_init(struct schedule *schedule, const struct experiment *experiment, struct diagnostics *lenient,
                   struct diagnostics *diag)
{
    memset(schedule, 0, sizeof *schedule);
    schedule->experiment = experiment;
    schedule->ranks = experiment->degree[PARALLEL_CP];
    schedule->q_heads = experiment_q_heads(experiment);
    schedule->kv_heads = experiment_kv_heads(experiment);
    schedule->lanes = (struct lanes){0, schedule->q_heads, 0, experiment->batch};
    schedule->algorithm = algorithm_find(experiment->algorithm);
    if (!schedule->algorithm)
        return algorithm_report_unknown(experiment, diag);
    schedule->queries = query_layout(schedule);

    size_t before = diag->count;
    if (experiment->skip == SKIP_TRANSFER && !(schedule->algorithm->uses & USES_SKIP_TRANSFER))
        experiment_complain(experiment, "schedule", "skip", diag,
                            "algorithm '%s' does not choose what it sends to whom and cannot do skip = transfer, "
                            "expected none or compute",
                            schedule->algorithm->name);
    check_effects(schedule, lenient ? lenient : diag);
    sharding_init(&schedule->sharding, experiment, joined_ranks(schedule));
    check_workload(schedule, diag);
    check_collective(schedule, diag);
    check_size(schedule, schedule_period(schedule), diag);
    check_overflow(schedule, diag);
    if (schedule->algorithm->check)
        schedule->algorithm->check(schedule, diag);
    if (experiment->step.scope != SCOPE_ATTENTION && diag->count == before)
        layers_check(schedule, diag);
    if (diag->count == before) {
        if (schedule->algorithm->prepare)
            schedule->algorithm_data = schedule->algorithm->prepare(schedule);
        schedule->place_of_rank = places(schedule);
        return true;
    }
    schedule_fini(schedule);
    return false;
}

void schedule_fini(struct schedule *schedule)
{
    free(schedule->algorithm_data);
    free(schedule->place_of_rank);
    free(schedule->index_of_rank);
    sharding_fini(&schedule->sharding);
    memset(schedule, 0, sizeof *schedule);
}

void schedule_build(const struct schedule *schedule, uint32_t rank, struct program *program)
{
    program_init(program, rank);
    if (schedule->experiment->step.scope == SCOPE_ATTENTION)
        schedule->algorithm->build(schedule, program);
    else
        layers_build(schedule, rank, program);
    program_trim(program);
}

struct program *schedule_build_first(const struct schedule *schedule, uint32_t count)
{
    struct program *programs = memory_zeroed(count, sizeof *programs);
    for (uint32_t r = 0; r < count; r++)
        schedule_build(schedule, r, &programs[r]);
    return programs;
}

void schedule_free_first(struct program *programs, uint32_t count)
{
    for (uint32_t r = 0; programs && r < count; r++)
        program_fini(&programs[r]);
    free(programs);
}

bool schedule_check_all(const struct schedule *schedule, struct diagnostics *diag)
{
    return check_size(schedule, schedule->ranks, diag);
}

struct program *schedule_build_attention(const struct schedule *schedule)
{
    struct program *programs = memory_zeroed(schedule->ranks, sizeof *programs);
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        program_init(&programs[r], r);
        schedule->algorithm->build(schedule, &programs[r]);
    }
    return programs;
}

struct program *schedule_build_all(const struct schedule *schedule)
{
    return schedule_build_first(schedule, schedule->ranks);
}

void schedule_free_programs(const struct schedule *schedule, struct program *programs)
{
    schedule_free_first(programs, programs ? schedule->ranks : 0);
}

struct block schedule_queries(const struct schedule *schedule, uint32_t rank)
{
    return sharding_queries(&schedule->sharding, schedule->queries == QUERIES_BY_ROW ? rank : block_joined(0));
}

struct lanes schedule_query_lanes(const struct schedule *schedule, uint32_t rank)
{
    struct lanes lanes = schedule->lanes;
    if (schedule->queries == QUERIES_BY_ITEM) { /* the first items % ranks ranks have one more */
        uint32_t each = lanes.items / schedule->ranks, longer = lanes.items % schedule->ranks;
        lanes.item = rank * each + (rank < longer ? rank : longer);
        lanes.items = each + (rank < longer);
    }
    return lanes;
}

struct lanes schedule_kv_lanes(const struct schedule *schedule, struct lanes lanes)
{
    uint32_t group = schedule->q_heads / schedule->kv_heads;
    uint32_t end = (lanes.head + lanes.heads + group - 1) / group;
    struct lanes kv = {lanes.head / group, 0, lanes.item, lanes.items};
    kv.heads = lanes.heads ? end - kv.head : 0;
    return kv;
}

/* Elements of one sequence row. */
static uint64_t row_elements(const struct schedule *schedule, enum tensor tensor, struct lanes lanes)
{
    uint64_t dim = schedule->experiment->model.head_dim, q = (uint64_t)lanes.heads * lanes.items;
    switch (tensor) {
    case TENSOR_Q:
    case TENSOR_O:
    case TENSOR_DO:
    case TENSOR_DQ:
    case TENSOR_NUMERATOR:
        return q * dim;
    case TENSOR_KV:
    case TENSOR_DKV:
        return 2 * (uint64_t)schedule_kv_lanes(schedule, lanes).heads * lanes.items * dim;
    case TENSOR_LSE:
    case TENSOR_DELTA:
    case TENSOR_TOP:
    case TENSOR_DENOMINATOR:
        return q;
    case TENSOR_PARTIAL: /* O and LSE */
        return q * (dim + 1);
    case TENSOR_STATE: /* a, m and l */
        return q * (dim + 2);
    case TENSOR_HIDDEN:
    case TENSOR_WIDE:
    case TENSOR_LOGITS:
    case TENSOR_WEIGHT:
    case TENSOR_WEIGHT_GRADIENT:
    case TENSOR_OPTIMIZER: /* of layers: rows of tokens, not of lanes */
    case TENSOR_COUNT:
        break;
    }
    return 0;
}

uint64_t schedule_tensor_elements(const struct schedule *schedule, enum tensor tensor, uint64_t rows,
                                  struct lanes lanes)
{
    return rows * row_elements(schedule, tensor, lanes);
}

uint64_t schedule_tensor_bytes(const struct schedule *schedule, enum tensor tensor, enum dtype dtype, uint64_t rows,
                               struct lanes lanes)
{
    uint64_t bytes = schedule_tensor_elements(schedule, tensor, rows, lanes) * dtype_bytes(dtype);
    if (tensor == TENSOR_PARTIAL) /* its LSE is as wide as a sum, whatever O is */
        bytes += schedule_tensor_elements(schedule, TENSOR_LSE, rows, lanes) *
                 (dtype_bytes(dtype_accumulator(dtype)) - dtype_bytes(dtype));
    return bytes;
}
