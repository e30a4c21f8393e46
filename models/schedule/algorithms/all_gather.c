/* all_gather.c - K and V are gathered whole on every rank; the gradients of all of them are reduce-scattered.
 *
 * Forward: every rank receives the other ranks' K/V ((P-1) KV) beside a copy of its own, then attends them in one
 * kernel: no merge. Backward: gathers again, one kernel gives the gradient of all keys, and a reduce-scatter ((P-1)
 * dKV) leaves each owner the sum of its own. The gathered buffers are P KV: memory does not fall with P.
 *
 * With kv_block, shards are gathered in rounds (block j of every shard in round j), and the gather of the next round
 * runs behind the attention on the present one, through `buffers` sets of gathered blocks.
 *
 * Collectives are lowered here: ring, P-1 steps to the neighbour; or direct, every rank to every other in one group.
 */
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/builder.h"

/* One set of buffers that hold a block of every owner. */
struct gathered {
    uint32_t *by_owner; /* [rank], NO_BUFFER where the owner has no such block in any round */
};

struct gather_state {
    struct builder *b;
    uint32_t rounds, n_sets;
    struct gathered *kv, *dkv; /* [n_sets] */
    uint32_t *incoming;        /* reduce-scatter: partial sums that arrive; ring: 2, direct: one per rank */
};

static void gathered_init(struct gathered *set, struct builder *b, const char *name, uint32_t index, enum tensor tensor,
                          enum dtype dtype, enum buffer_role role)
{
    set->by_owner = memory_zeroed(b->ranks, sizeof *set->by_owner);
    for (uint32_t owner = 0; owner < b->ranks; owner++) {
        uint64_t rows = builder_block(b->schedule, owner, 0).count;
        char numbered[40];
        snprintf(numbered, sizeof numbered, "%s %u.%u", name, index, owner);
        set->by_owner[owner] = rows ? builder_buffer(b, numbered, tensor, dtype, role, rows) : NO_BUFFER;
    }
}

/* The block of `owner` in `round`; count 0 if its shard is shorter. */
static struct block block_of(const struct gather_state *g, uint32_t owner, uint32_t round)
{
    return builder_block(g->b->schedule, owner, round);
}

static uint32_t owner_back(const struct builder *b, uint32_t steps)
{
    return (b->rank + b->ranks - steps % b->ranks) % b->ranks;
}

static uint32_t rank_ahead(const struct builder *b, uint32_t steps)
{
    return (b->rank + steps) % b->ranks;
}

/* The own block is sent from where it lives, so that its copy into the gathered set delays nobody. */
static uint32_t held_in(const struct gather_state *g, const struct gathered *set, uint32_t owner)
{
    return owner == g->b->rank ? g->b->kv : set->by_owner[owner];
}

static void gather_ring(struct gather_state *g, const struct gathered *set, uint32_t round, enum traffic traffic)
{
    struct builder *b = g->b;
    for (uint32_t step = 1; step < b->ranks; step++) {
        uint32_t group = program_new_group(b->program);
        struct block leaves = block_of(g, owner_back(b, step - 1), round);
        struct block arrives = block_of(g, owner_back(b, step), round);
        if (leaves.count)
            builder_send(b, b->exchange, group, traffic, held_in(g, set, leaves.owner), rank_ahead(b, 1), leaves);
        if (arrives.count)
            builder_receive(b, b->exchange, group, traffic, set->by_owner[arrives.owner], owner_back(b, 1), arrives);
    }
}

static void gather_direct(struct gather_state *g, const struct gathered *set, uint32_t round, enum traffic traffic)
{
    struct builder *b = g->b;
    uint32_t group = program_new_group(b->program);
    struct block own = block_of(g, b->rank, round);
    for (uint32_t step = 1; step < b->ranks; step++) {
        struct block arrives = block_of(g, owner_back(b, step), round);
        if (own.count)
            builder_send(b, b->exchange, group, traffic, b->kv, rank_ahead(b, step), own);
        if (arrives.count)
            builder_receive(b, b->exchange, group, traffic, set->by_owner[arrives.owner], arrives.owner, arrives);
    }
}

static void gather(struct gather_state *g, uint32_t round, enum traffic traffic)
{
    struct builder *b = g->b;
    const struct gathered *set = &g->kv[round % g->n_sets];
    if (b->schedule->experiment->collective == COLLECTIVE_RING)
        gather_ring(g, set, round, traffic);
    else
        gather_direct(g, set, round, traffic);
    struct block own = block_of(g, b->rank, round);
    if (own.count && b->ranks > 1)
        builder_cast(b, STREAM_COMPUTE, set->by_owner[b->rank], b->kv, own);
}

/* The buffers that hold a block in `round`, in the order of their owners. Returns their number. */
static size_t buffers_of(const struct gather_state *g, const struct gathered *set, uint32_t round, uint32_t *list)
{
    size_t n = 0;
    for (uint32_t owner = 0; owner < g->b->ranks; owner++)
        if (block_of(g, owner, round).count)
            list[n++] = set->by_owner ? set->by_owner[owner] : g->b->kv; /* a single rank gathers nothing */
    return n;
}

/* All owners' rows of `round`. */
static struct block keys_of(const struct schedule *schedule, uint32_t round)
{
    uint64_t per_block = builder_block_rows_max(schedule);
    return (struct block){.owner = BLOCK_ALL, .first = (uint32_t)(round * per_block), .count = (uint32_t)per_block};
}

/* Which ranks compute anything in which round: [rank * rounds + round]. */
static void *prepare(const struct schedule *schedule)
{
    uint32_t rounds = builder_blocks_max(schedule);
    bool *computes = memory_zeroed((size_t)schedule->ranks * rounds, sizeof *computes);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        for (uint32_t round = 0; round < rounds; round++)
            computes[(size_t)rank * rounds + round] = builder_computes(schedule, rank, keys_of(schedule, round));
    return computes;
}

static bool computes(const struct gather_state *g, uint32_t rank, uint32_t round)
{
    const bool *table = g->b->schedule->algorithm_data;
    return table[(size_t)rank * g->rounds + round];
}

static uint32_t count_attends(const struct gather_state *g)
{
    uint32_t attends = 0;
    for (uint32_t round = 0; round < g->rounds; round++)
        attends += computes(g, g->b->rank, round);
    return attends;
}

static void forward(struct gather_state *g)
{
    struct builder *b = g->b;
    uint32_t *list = memory_zeroed(b->ranks, sizeof *list);
    builder_begin(b, PHASE_FORWARD, count_attends(g));
    gather(g, 0, TRAFFIC_FORWARD_KV);
    for (uint32_t round = 0; round < g->rounds; round++) {
        if (round + 1 < g->rounds && g->n_sets > 1)
            gather(g, round + 1, TRAFFIC_FORWARD_KV);
        size_t n = buffers_of(g, &g->kv[round % g->n_sets], round, list);
        builder_attend(b, keys_of(b->schedule, round), list, n);
        if (round + 1 < g->rounds && g->n_sets == 1)
            gather(g, round + 1, TRAFFIC_FORWARD_KV);
    }
    builder_end(b, PHASE_FORWARD);
    free(list);
}

/* Whether the partial sum of `owner`'s gradient holds anything when it leaves the rank `steps` behind its owner: one of
 * the ranks that it passed computed. */
static bool carries(const struct gather_state *g, uint32_t owner, uint32_t steps, uint32_t round)
{
    for (uint32_t i = 1; i <= steps; i++)
        if (computes(g, (owner + i) % g->b->ranks, round))
            return true;
    return false;
}

/* Partial sums of each owner's gradient travel the ring and end at their owner: rank r starts with owner r - 1's. A
 * rank that computed nothing in this round passes on what arrives. */
static void scatter_ring(struct gather_state *g, const struct gathered *set, uint32_t round)
{
    struct builder *b = g->b;
    for (uint32_t step = 1; step < b->ranks; step++) {
        uint32_t group = program_new_group(b->program), slot = g->incoming[step % 2];
        struct block leaves = block_of(g, owner_back(b, step), round);
        struct block arrives = block_of(g, owner_back(b, step + 1), round);
        if (leaves.count && carries(g, leaves.owner, step, round))
            builder_send(b, b->returns, group, TRAFFIC_GRADIENT, set->by_owner[leaves.owner], rank_ahead(b, 1), leaves);
        if (arrives.count && carries(g, arrives.owner, step, round)) {
            builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, slot, owner_back(b, 1), arrives);
            builder_accumulate(b, b->returns, set->by_owner[arrives.owner], slot, arrives,
                               !computes(g, b->rank, round));
        }
    }
}

static void scatter_direct(struct gather_state *g, const struct gathered *set, uint32_t round)
{
    struct builder *b = g->b;
    uint32_t group = program_new_group(b->program);
    struct block own = block_of(g, b->rank, round);
    for (uint32_t step = 1; step < b->ranks; step++) {
        struct block leaves = block_of(g, owner_back(b, step), round);
        if (leaves.count && computes(g, b->rank, round))
            builder_send(b, b->returns, group, TRAFFIC_GRADIENT, set->by_owner[leaves.owner], leaves.owner, leaves);
        if (own.count && computes(g, rank_ahead(b, step), round))
            builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, g->incoming[step], rank_ahead(b, step), own);
    }
    for (uint32_t step = 1; step < b->ranks; step++)
        if (own.count && computes(g, rank_ahead(b, step), round))
            builder_accumulate(b, b->returns, set->by_owner[b->rank], g->incoming[step], own, false);
}

static void backward_round(struct gather_state *g, uint32_t round, uint32_t *kv, uint32_t *dkv)
{
    struct builder *b = g->b;
    const struct gathered *set = &g->dkv[round % g->n_sets];
    size_t n = buffers_of(g, &g->kv[round % g->n_sets], round, kv);
    buffers_of(g, set, round, dkv);
    if (b->ranks == 1 && b->once) { /* nothing to sum and nowhere to go */
        builder_attend_backward(b, keys_of(b->schedule, round), kv, n, &b->dkv, true);
        return;
    }
    builder_attend_backward(b, keys_of(b->schedule, round), kv, n, dkv, true);
    if (b->schedule->experiment->collective == COLLECTIVE_RING)
        scatter_ring(g, set, round);
    else
        scatter_direct(g, set, round);
    struct block own = block_of(g, b->rank, round);
    if (own.count)
        builder_cast(b, STREAM_COMPUTE, b->dkv, set->by_owner[b->rank], own);
}

static void add_gradient_buffers(struct gather_state *g)
{
    struct builder *b = g->b;
    if (b->ranks == 1 && b->once)
        return;
    for (uint32_t i = 0; i < g->n_sets; i++)
        gathered_init(&g->dkv[i], b, "dkv", i, TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR);
    bool ring = b->schedule->experiment->collective == COLLECTIVE_RING;
    for (uint32_t i = 0; i < b->ranks; i++) { /* ring: 0 and 1 in turn; direct: one for each other rank */
        bool used = b->ranks > 1 && (ring ? i < 2 : i > 0);
        char name[32];
        snprintf(name, sizeof name, "dkv in %u", i);
        g->incoming[i] = used ? builder_buffer(b, name, TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR,
                                               builder_block_rows_max(b->schedule))
                              : NO_BUFFER;
    }
}

static void backward(struct gather_state *g)
{
    struct builder *b = g->b;
    uint32_t *kv = memory_zeroed(b->ranks, sizeof *kv), *dkv = memory_zeroed(b->ranks, sizeof *dkv);
    builder_begin(b, PHASE_BACKWARD, count_attends(g));
    add_gradient_buffers(g);
    gather(g, 0, TRAFFIC_REPLAY_KV);
    for (uint32_t round = 0; round < g->rounds; round++) {
        if (round + 1 < g->rounds && g->n_sets > 1)
            gather(g, round + 1, TRAFFIC_REPLAY_KV);
        backward_round(g, round, kv, dkv);
        if (round + 1 < g->rounds && g->n_sets == 1)
            gather(g, round + 1, TRAFFIC_REPLAY_KV);
    }
    builder_end(b, PHASE_BACKWARD);
    free(kv);
    free(dkv);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct gather_state g = {.b = &b, .rounds = builder_blocks_max(schedule)};
    g.n_sets = g.rounds < schedule->experiment->buffers ? g.rounds : schedule->experiment->buffers;
    g.kv = memory_zeroed(g.n_sets, sizeof *g.kv);
    g.dkv = memory_zeroed(g.n_sets, sizeof *g.dkv);
    g.incoming = memory_zeroed(b.ranks, sizeof *g.incoming);
    for (uint32_t i = 0; i < g.n_sets && b.ranks > 1; i++)
        gathered_init(&g.kv[i], &b, "kv", i, TENSOR_KV, b.model, ROLE_RECEIVED);

    forward(&g);
    if (schedule->experiment->train)
        backward(&g);

    for (uint32_t i = 0; i < g.n_sets; i++) {
        free(g.kv[i].by_owner);
        free(g.dkv[i].by_owner);
    }
    free(g.kv);
    free(g.dkv);
    free(g.incoming);
}

const struct algorithm_ops algorithm_all_gather = {
    .name = "all-gather",
    .summary = "K and V gathered whole on every rank before attention; dKV reduce-scattered after it",
    .uses = USES_BUFFERS | USES_BUFFERS_IF_BLOCKED | USES_KV_BLOCK | USES_SPLIT_KV | USES_COLLECTIVE | USES_GRADIENTS |
            USES_OVERLAP,
    .prepare = prepare,
    .build = build,
};
