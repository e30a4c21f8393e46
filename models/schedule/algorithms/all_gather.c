/* all_gather.c - K and V are gathered whole on every rank; the gradients of all of them are reduce-scattered.
 *
 * Forward: every rank receives the other ranks' K/V ((P-1) KV) beside a copy of its own, then attends them: no merge.
 * Backward: gathers again, computes the gradient of all keys, and a reduce-scatter ((P-1) dKV) leaves each owner the
 * sum of its own. The gathered buffers are P KV: memory does not fall with P.
 *
 * A rank whose queries are one run of positions, or every P-th, attends them in one kernel that reads what was gathered
 * as it came. Zigzag, they are two runs far apart, and one kernel would take in all keys up to the second run's for
 * both. So this is then the form of Megatron (cp_comm_type all_gather; NVIDIA/TransformerEngine,
 * AttnFuncWithCPAndKVAllGather): what was gathered is copied into the order of the sequence (P KV more), and each run
 * has a kernel that reads the keys which it can see, a prefix under the causal mask. The kernels come one after the
 * other, as they do there with FlashAttention 3. Backward, the first gives a gradient to every key (0 for those that it
 * does not see) and the second's is added; the sum is copied back into the order of the ranks and reduce-scattered.
 *
 * With kv_block, shards are gathered in rounds (block j of every shard in round j, one kernel each, merged), and the
 * gather of the next round runs behind the attention on the present one, through `buffers` sets of gathered blocks.
 */
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/gathered.h"
#include "models/schedule/mask.h"

struct gather_state {
    struct builder *b;
    struct gathering gathering;
    uint32_t rounds, n_sets;   /* no sets on a single rank, which gathers nothing */
    struct gathered *kv, *dkv; /* [n_sets] */
    uint32_t *staging;         /* shares of gradients that arrive */
};

/* All owners' rows of `round`. */
static struct block keys_of(const struct circle *circle, uint32_t round)
{
    uint64_t per_block = circle_block_rows_max(circle);
    return (struct block){.owner = BLOCK_ALL, .first = (uint32_t)(round * per_block), .count = (uint32_t)per_block};
}

/* Which ranks compute anything in which round: [rank * rounds + round]. */
static void *prepare(const struct schedule *schedule)
{
    struct circle circle = circle_of_ranks(schedule);
    uint32_t rounds = circle_blocks_max(&circle);
    bool *computes = memory_zeroed((size_t)schedule->ranks * rounds, sizeof *computes);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        for (uint32_t round = 0; round < rounds; round++)
            computes[(size_t)rank * rounds + round] = circle_computes(&circle, rank, keys_of(&circle, round));
    return computes;
}

static uint32_t count_attends(const struct gather_state *g)
{
    const bool *computes = g->b->schedule->algorithm_data;
    uint32_t attends = 0;
    for (uint32_t round = 0; round < g->rounds; round++)
        attends += computes[(size_t)g->b->rank * g->rounds + round];
    return attends;
}

static void gather(struct gather_state *g, uint32_t round, enum traffic traffic)
{
    if (g->n_sets)
        gathered_fill(&g->gathering, &g->kv[round % g->n_sets], g->b->kv, round, traffic);
}

/* Adds up everybody's gradients of `round`; this rank's own become its dKV. */
static void scatter(struct gather_state *g, const struct gathered *set, uint32_t round)
{
    struct builder *b = g->b;
    const bool *computes = b->schedule->algorithm_data;
    struct block own = circle_block(&b->circle, b->rank, round);
    gathered_scatter(&g->gathering, set, round, computes + round, g->rounds, g->staging);
    if (own.count)
        builder_cast(b, STREAM_COMPUTE, b->dkv, set->by_owner[b->rank], own);
}

static void add_gradient_buffers(struct gather_state *g)
{
    struct builder *b = g->b;
    for (uint32_t i = 0; i < g->n_sets; i++)
        g->dkv[i] =
            gathered_init(&g->gathering, "dkv", i, TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, b->schedule->lanes);
    g->staging = gathered_staging(&g->gathering, b->schedule->lanes);
}

/* ---- as gathered, round by round ---- */

static void forward_rounds(struct gather_state *g)
{
    for (uint32_t round = 0; round < g->rounds; round++) {
        size_t n = 1;
        bool more = round + 1 < g->rounds;
        if (more && g->n_sets > 1)
            gather(g, round + 1, TRAFFIC_FORWARD_KV);
        const uint32_t *kv = g->n_sets ? gathered_list(&g->gathering, &g->kv[round % g->n_sets], round, &n) : &g->b->kv;
        builder_attend(g->b, keys_of(&g->b->circle, round), kv, n);
        if (more && g->n_sets == 1)
            gather(g, round + 1, TRAFFIC_FORWARD_KV);
    }
}

/* A single rank has nothing to gather or to add up; rounds leave the gradient of their keys only. */
static void backward_alone(struct gather_state *g)
{
    for (uint32_t round = 0; round < g->rounds; round++)
        builder_attend_backward(g->b, keys_of(&g->b->circle, round), &g->b->kv, 1, &g->b->dkv, true);
}

static void backward_round(struct gather_state *g, uint32_t round)
{
    const struct gathered *set = &g->dkv[round % g->n_sets];
    size_t n;
    const uint32_t *list = gathered_list(&g->gathering, &g->kv[round % g->n_sets], round, &n);
    uint32_t *kv = memory_zeroed(n, sizeof *kv);
    for (size_t i = 0; i < n; i++)
        kv[i] = list[i];
    const uint32_t *dkv = gathered_list(&g->gathering, set, round, &n);
    builder_attend_backward(g->b, keys_of(&g->b->circle, round), kv, n, dkv, true);
    scatter(g, set, round);
    free(kv);
}

static void backward_rounds(struct gather_state *g)
{
    for (uint32_t round = 0; round < g->rounds; round++) {
        bool more = round + 1 < g->rounds;
        if (more && g->n_sets > 1)
            gather(g, round + 1, TRAFFIC_REPLAY_KV);
        backward_round(g, round);
        if (more && g->n_sets == 1)
            gather(g, round + 1, TRAFFIC_REPLAY_KV);
    }
}

/* ---- in the order of the sequence, run by run ---- */

static bool is_zigzag_at_once(const struct schedule *schedule, const struct sharding *sharding)
{
    uint64_t kv_block = schedule->experiment->kv_block;
    return sharding->kind == SHARDING_ZIGZAG && schedule->ranks > 1 &&
           (kv_block == 0 || kv_block >= sharding_rows_max(sharding));
}

static uint32_t joined(const struct schedule *schedule)
{
    struct sharding sharding;
    sharding_init(&sharding, schedule->experiment, 1);
    bool in_order = is_zigzag_at_once(schedule, &sharding);
    sharding_fini(&sharding);
    return in_order ? schedule->ranks : 1;
}

static bool is_in_order(const struct schedule *schedule)
{
    return schedule->queries == QUERIES_BY_ROW && schedule->sharding.joined == schedule->ranks &&
           is_zigzag_at_once(schedule, &schedule->sharding);
}

static struct block all_keys(const struct builder *b)
{
    return sharding_keys(&b->schedule->sharding, block_joined(0));
}

/* The attention of one run of this rank's queries on the keys that it sees, or on all. */
static struct attention attention_of(const struct builder *b, struct block run, const uint32_t *kv, bool whole)
{
    struct attention attention = {
        .q = run, .k = all_keys(b), .lanes = b->lanes, .stream = STREAM_COMPUTE, .q_buffer = b->q, .kv = kv, .n_kv = 1};
    if (!whole) /* every query sees its own key, so all of the run stay */
        mask_trim(&b->schedule->experiment->mask, &b->schedule->sharding, &attention.q, &attention.k);
    return attention;
}

/* The runs of positions that this rank's queries are; their number. */
static uint32_t runs_of(const struct builder *b, struct block runs[SHARD_SPANS_MAX])
{
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n = sharding_block_spans(&b->schedule->sharding, b->queries, spans), first = b->queries.first;
    for (uint32_t i = 0; i < n; i++) {
        runs[i] = (struct block){b->rank, first, (uint32_t)spans[i].count};
        first += runs[i].count;
    }
    return n;
}

/* All keys in the order of the sequence. */
static uint32_t join(struct gather_state *g, uint32_t joined_kv)
{
    struct builder *b = g->b;
    size_t n;
    const uint32_t *kv = gathered_list(&g->gathering, &g->kv[0], 0, &n);
    builder_on_keys(b, OP_JOIN_ROWS, STREAM_COMPUTE, all_keys(b), b->schedule->lanes, kv, n, &joined_kv, 1);
    return joined_kv;
}

static uint32_t add_joined(struct builder *b, const char *name, enum tensor tensor, enum dtype dtype,
                           enum buffer_role role, struct block rows)
{
    return builder_buffer_block(b, name, tensor, dtype, role, rows, b->schedule->lanes);
}

static uint32_t forward_in_order(struct gather_state *g)
{
    struct builder *b = g->b;
    struct block runs[SHARD_SPANS_MAX];
    uint32_t n = runs_of(b, runs);
    uint32_t kv = join(g, add_joined(b, "kv joined", TENSOR_KV, b->model, ROLE_RECEIVED, all_keys(b)));
    for (uint32_t i = 0; i < n; i++) {
        struct attention attention = attention_of(b, runs[i], &kv, false);
        builder_add_attend(b, &attention, (uint32_t[]){b->o, b->lse}, 2);
    }
    return kv;
}

/* The last run first: it sees the most keys. */
static void backward_in_order(struct gather_state *g, uint32_t kv)
{
    struct builder *b = g->b;
    struct block runs[SHARD_SPANS_MAX];
    size_t n_owners;
    uint32_t n = runs_of(b, runs);
    uint32_t sum = add_joined(b, "dkv joined", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, all_keys(b));
    join(g, kv);
    for (uint32_t i = n; i-- > 0;) {
        bool first = i + 1 == n;
        struct attention attention = attention_of(b, runs[i], &kv, first);
        uint32_t dkv = first ? sum : add_joined(b, "dkv part", TENSOR_DKV, b->output, ROLE_WORKSPACE, attention.k);
        builder_add_attend_backward(b, &attention, b->d_o, b->lse, b->delta, b->dq, &dkv);
        if (!first)
            builder_accumulate(b, STREAM_COMPUTE, sum, dkv, attention.k, false);
    }
    const uint32_t *by_owner = gathered_list(&g->gathering, &g->dkv[0], 0, &n_owners);
    builder_on_keys(b, OP_SPLIT_ROWS, STREAM_COMPUTE, all_keys(b), b->schedule->lanes, &sum, 1, by_owner, n_owners);
    scatter(g, &g->dkv[0], 0);
}

/* ---- both ---- */

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct gather_state g = {.b = &b, .rounds = circle_blocks_max(&b.circle)};
    bool in_order = is_in_order(schedule);
    uint32_t sets = b.ranks == 1 ? 0 : schedule->experiment->buffers, joined_kv = NO_BUFFER;
    g.n_sets = g.rounds < sets ? g.rounds : sets;
    g.kv = memory_zeroed(g.n_sets, sizeof *g.kv);
    g.dkv = memory_zeroed(g.n_sets, sizeof *g.dkv);
    gathering_init(&g.gathering, &b, false);
    for (uint32_t i = 0; i < g.n_sets; i++)
        g.kv[i] = gathered_init(&g.gathering, "kv", i, TENSOR_KV, b.model, ROLE_RECEIVED, schedule->lanes);

    uint32_t attends = in_order ? 1 : count_attends(&g); /* in order: one per query */
    builder_begin(&b, PHASE_FORWARD, attends);
    gather(&g, 0, TRAFFIC_FORWARD_KV);
    if (in_order)
        joined_kv = forward_in_order(&g);
    else
        forward_rounds(&g);
    builder_end(&b, PHASE_FORWARD);
    program_end_phase(program, PHASE_FORWARD);

    if (schedule->experiment->train) {
        builder_begin(&b, PHASE_BACKWARD, attends);
        if (g.n_sets)
            add_gradient_buffers(&g);
        gather(&g, 0, TRAFFIC_REPLAY_KV);
        if (in_order)
            backward_in_order(&g, joined_kv);
        else if (g.n_sets)
            backward_rounds(&g);
        else
            backward_alone(&g);
        builder_end(&b, PHASE_BACKWARD);
        program_end_phase(program, PHASE_BACKWARD);
    }

    for (uint32_t i = 0; i < g.n_sets; i++) {
        gathered_fini(&g.kv[i]);
        gathered_fini(&g.dkv[i]);
    }
    gathering_fini(&g.gathering);
    free(g.kv);
    free(g.dkv);
    free(g.staging);
}

static const char *no_effect(const struct schedule *schedule, enum algorithm_key key)
{
    return key == USES_BUFFERS && schedule->experiment->kv_block == 0 ? "and kv_block = 0" : NULL;
}

const struct algorithm_ops algorithm_all_gather = {
    .name = "all-gather",
    .summary = "K and V gathered whole on every rank before attention; dKV reduce-scattered after it",
    .uses = USES_BUFFERS | USES_KV_BLOCK | USES_SPLIT_KV | USES_COLLECTIVE | USES_GRADIENTS | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL | CAN_DECODE,
    .turns = TURNS_FORWARD,
    .no_effect = no_effect,
    .joined = joined,
    .prepare = prepare,
    .build = build,
};
