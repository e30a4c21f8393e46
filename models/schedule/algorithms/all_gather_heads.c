/* all_gather_heads.c - K and V are gathered some heads at a time: the next heads' gather runs behind the attention on
 * these.
 *
 * The form of zhuzilin/ring-flash-attention's llama3_flash_attn_varlen (and of Llama 3's training, which gathers for
 * its few KV heads and many document masks). Rounds over groups of `gather_heads` KV heads; a round gathers its heads
 * of the whole sequence, and the query heads that read them attend in one kernel straight into O: heads have nothing to
 * merge. Bytes sent per rank: (P-1) KV forward; (P-1) KV + (P-1) dKV backward, as all-gather; but only the first gather
 * is exposed, and of H KV heads gathered h at a time two rounds' take 2 P KV h / H of memory instead of P KV.
 *
 * A head slice of K and V is no contiguous memory, so it is copied before it is sent: into its place among what is
 * gathered. That copy, a kernel, comes behind the attention on the round before last, so no gather runs further ahead
 * than one round. If there is one round only, K and V are sent from where they live.
 *
 * Backward: the same gathers; a round's kernel gives the gradient of its heads for all keys, which is reduce-scattered
 * at once. With overlap that runs behind the next round's kernel (and two rounds' gradients take memory); without,
 * everything waits for it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "models/base/divisors.h"
#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/gathered.h"

struct heads_gather {
    struct builder *b;
    struct gathering gathering;
    uint32_t rounds;
    struct block keys;   /* all of all ranks */
    bool attends, ahead; /* this rank has queries; the next round is gathered before this one is attended */
    struct gathered *kv; /* [rounds] */
};

static uint32_t heads_at_once(const struct schedule *schedule)
{
    uint32_t heads = schedule->experiment->gather_heads;
    return heads ? heads : 1;
}

/* Query heads that read the KV heads of a round; all batch items. A single rank gathers nothing and has one round. */
static struct lanes lanes_of(const struct heads_gather *h, uint32_t round)
{
    struct lanes lanes = h->b->schedule->lanes;
    lanes.heads /= h->rounds;
    lanes.head += round * lanes.heads;
    return lanes;
}

static uint32_t round_count(const struct schedule *schedule)
{
    return schedule->ranks > 1 ? schedule->kv_heads / heads_at_once(schedule) : 1;
}

static struct block all_keys(const struct schedule *schedule)
{
    return (struct block){.owner = BLOCK_ALL, .first = 0, .count = (uint32_t)sharding_rows_max(&schedule->sharding)};
}

/* Whether each rank computes anything: [rank]. */
static void *prepare(const struct schedule *schedule)
{
    struct circle circle = circle_of_ranks(schedule);
    bool *computes = memory_zeroed(schedule->ranks, sizeof *computes);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        computes[rank] = circle_computes(&circle, rank, all_keys(schedule));
    return computes;
}

static void gather(struct heads_gather *h, uint32_t round, enum traffic traffic)
{
    struct builder *b = h->b;
    struct block own = sharding_keys(&b->schedule->sharding, b->rank);
    const struct gathered *set = &h->kv[round];
    uint32_t from = b->kv;
    if (b->ranks == 1)
        return;
    if (h->rounds > 1 && own.count) {
        from = set->by_owner[b->rank];
        builder_on_keys(b, OP_SPLIT_LANES, STREAM_COMPUTE, own, set->lanes, &b->kv, 1, &from, 1);
    }
    gathered_fill(&h->gathering, set, from, 0, traffic);
}

/* A round's attention, before its buffers of keys are filled in. */
static struct attention attention_of(const struct heads_gather *h, uint32_t round)
{
    const struct builder *b = h->b;
    struct lanes lanes = lanes_of(h, round);
    lanes.item = b->lanes.item;
    lanes.items = b->lanes.items;
    return (struct attention){.q = b->queries,
                              .k = h->keys,
                              .lanes = lanes,
                              .stream = STREAM_COMPUTE,
                              .q_buffer = b->q,
                              .kv = &b->kv,
                              .n_kv = 1};
}

static void gather_next(struct heads_gather *h, uint32_t round, enum traffic traffic)
{
    if (h->ahead && round + 1 < h->rounds)
        gather(h, round + 1, traffic);
    else if (!h->ahead && round > 0)
        gather(h, round, traffic);
}

static void forward(struct heads_gather *h)
{
    struct builder *b = h->b;
    builder_begin(b, PHASE_FORWARD, h->attends);
    gather(h, 0, TRAFFIC_FORWARD_KV);
    for (uint32_t round = 0; round < h->rounds; round++) {
        gather_next(h, round, TRAFFIC_FORWARD_KV);
        struct attention attention = attention_of(h, round);
        if (b->ranks > 1)
            attention.kv = gathered_list(&h->gathering, &h->kv[round], 0, &attention.n_kv);
        if (h->attends)
            builder_add_attend(b, &attention, (uint32_t[]){b->o, b->lse}, 2);
    }
    program_end_phase(b->program, PHASE_FORWARD);
}

/* A rank that is alone has nothing to gather or to add up. */
static void backward_alone(struct heads_gather *h)
{
    struct builder *b = h->b;
    struct attention attention = attention_of(h, 0);
    if (h->attends)
        builder_add_attend_backward(b, &attention, b->d_o, b->lse, b->delta, b->dq, &b->dkv);
}

/* The gradient of a round's keys from all queries of this rank, into a set of its own. */
static struct gathered attend_backward(struct heads_gather *h, uint32_t round)
{
    struct builder *b = h->b;
    struct gathered dkv =
        gathered_init(&h->gathering, "dkv", round, TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, lanes_of(h, round));
    struct attention attention = attention_of(h, round);
    const uint32_t *list = gathered_list(&h->gathering, &h->kv[round], 0, &attention.n_kv);
    uint32_t *kv = memory_zeroed(attention.n_kv, sizeof *kv);
    for (size_t i = 0; i < attention.n_kv; i++)
        kv[i] = list[i];
    attention.kv = kv;
    list = gathered_list(&h->gathering, &dkv, 0, &attention.n_kv);
    if (h->attends)
        builder_add_attend_backward(b, &attention, b->d_o, b->lse, b->delta, b->dq, list);
    free(kv);
    return dkv;
}

static void scatter(struct heads_gather *h, const struct gathered *dkv)
{
    uint32_t *staging = gathered_staging(&h->gathering, dkv->lanes);
    gathered_scatter(&h->gathering, dkv, 0, h->b->schedule->algorithm_data, 1, staging);
    free(staging);
}

/* This rank's gradient of a round's heads into its dKV. */
static void keep(struct heads_gather *h, struct gathered *dkv)
{
    struct builder *b = h->b;
    struct block own = sharding_keys(&b->schedule->sharding, b->rank);
    if (own.count)
        builder_cast(b, STREAM_COMPUTE, b->dkv, dkv->by_owner[b->rank], own);
    gathered_fini(dkv);
}

static void backward(struct heads_gather *h)
{
    struct gathered before = {.by_owner = NULL};
    builder_begin(h->b, PHASE_BACKWARD, h->attends);
    gather(h, 0, TRAFFIC_REPLAY_KV);
    if (h->b->ranks == 1)
        backward_alone(h);
    for (uint32_t round = 0; round < h->rounds && h->b->ranks > 1; round++) {
        gather_next(h, round, TRAFFIC_REPLAY_KV);
        struct gathered dkv = attend_backward(h, round);
        if (h->ahead && round > 0) /* its reduce-scatter has had this kernel to run behind */
            keep(h, &before);
        scatter(h, &dkv);
        if (!h->ahead || round + 1 == h->rounds)
            keep(h, &dkv);
        before = dkv;
    }
    program_end_phase(h->b->program, PHASE_BACKWARD);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    const bool *computes = schedule->algorithm_data;
    struct heads_gather h = {.b = &b,
                             .rounds = round_count(schedule),
                             .keys = all_keys(schedule),
                             .attends = computes[b.rank],
                             .ahead = schedule->experiment->overlap};
    h.kv = memory_zeroed(h.rounds, sizeof *h.kv);
    gathering_init(&h.gathering, &b, true);
    for (uint32_t round = 0; round < h.rounds && b.ranks > 1; round++)
        h.kv[round] = gathered_init(&h.gathering, "kv", round, TENSOR_KV, b.model, ROLE_RECEIVED, lanes_of(&h, round));

    forward(&h);
    if (schedule->experiment->train)
        backward(&h);

    for (uint32_t round = 0; round < h.rounds; round++)
        gathered_fini(&h.kv[round]);
    gathering_fini(&h.gathering);
    free(h.kv);
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    uint32_t heads = heads_at_once(schedule), all = schedule->kv_heads;
    char nearest[NEAREST_SIZE];
    if (all % heads == 0)
        return true;
    divisors_nearest(all, heads, nearest, sizeof nearest);
    return experiment_complain(schedule->experiment, "schedule", "gather_heads", diag,
                               "'gather_heads' = %" PRIu32 " does not divide the %" PRIu32
                               " KV heads of a rank, nearest: %s",
                               heads, all, nearest);
}

const struct algorithm_ops algorithm_all_gather_heads = {
    .name = "all-gather-heads",
    .summary = "K and V gathered some heads at a time, the next behind the attention on these; dKV reduce-scattered",
    .constraint = "gather_heads divides the KV heads of a rank",
    .uses = USES_GATHER_HEADS | USES_SPLIT_KV | USES_COLLECTIVE | USES_GRADIENTS | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL | CAN_DECODE,
    .turns = TURNS_FORWARD,
    .check = check,
    .prepare = prepare,
    .build = build,
};
