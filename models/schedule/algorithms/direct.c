/* direct.c - every rank reads each K/V block from its owner, and returns its gradient contribution to that owner.
 *
 * Step i: rank r reads from rank r - i while rank r + i reads from it, so each rank serves one reader at a time.
 * Backward, the blocks are read once more (replay); the contribution to a block's dK, dV, summed over the rank's
 * queries, goes back to the owner in one message and is added there. Bytes sent per rank with all blocks visible: (P-1)
 * KV forward, (P-1) KV replayed and (P-1) dKV returned; the same bytes as a ring's, but every link between two ranks
 * carries only their own. A contribution that comes back is added behind the attention of the step after, so that its
 * way is hidden like that of the blocks. With skip = transfer, blocks that a rank does not see are not sent to it. A
 * block for which nothing was computed has no contribution to return.
 *
 * Rounds (i, j) are synchronous, as in ring.c: block j of each owner's shard, all messages of a rank in one group.
 */
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/builder.h"
#include "models/schedule/algorithms/rotation.h"

struct exchange_state {
    struct builder *b;
    uint32_t blocks_max;
    struct rotation received;          /* KV blocks */
    struct rotation leaving, arriving; /* gradient contributions, of others' blocks and of this rank's own */
    uint32_t part, sum;                /* gradient of the own blocks: one block's, and the whole shard's */
    struct {
        uint32_t buffer;
        struct block keys;
    } pending; /* a contribution on its way here, not yet added to the sum; NO_BUFFER: none */
};

/* Buffers for blocks of keys, at most `uses` of them. */
static void rotate_blocks(struct rotation *rotation, struct builder *b, const char *name, enum tensor tensor,
                          enum dtype dtype, enum buffer_role role, uint32_t uses)
{
    struct block room = {0, 0, (uint32_t)circle_block_rows_max(&b->circle)};
    rotation_init(rotation, b, name, tensor, dtype, role, room, rotation_count(b, uses));
}

static uint32_t source(const struct builder *b, uint32_t step)
{
    return builder_back(b, step);
}

static uint32_t reader(const struct builder *b, uint32_t step)
{
    return builder_ahead(b, step);
}

/* Round (step, j) of reading: serves this rank's block to its reader and reads one itself; its buffer, or NO_BUFFER. */
static uint32_t read_block(struct exchange_state *x, uint32_t step, uint32_t j, enum traffic traffic)
{
    struct builder *b = x->b;
    uint32_t slot = NO_BUFFER, group = program_new_group(b->program);
    struct block served = circle_block(&b->circle, b->rank, j);
    if (circle_needs(&b->circle, reader(b, step), served))
        builder_send(b, b->exchange, group, traffic, b->kv, reader(b, step), served);
    struct block read = circle_block(&b->circle, source(b, step), j);
    if (circle_needs(&b->circle, b->rank, read)) {
        slot = rotation_take(&x->received);
        builder_receive(b, b->exchange, group, traffic, slot, source(b, step), read);
    }
    return slot;
}

/* Calls `visit` for the own blocks, then for each block read, each read one ahead of its use. */
static void walk(struct exchange_state *x, enum traffic traffic,
                 void (*visit)(struct exchange_state *x, uint32_t step, uint32_t j, struct block keys, uint32_t held))
{
    struct builder *b = x->b;
    uint32_t rounds = (b->ranks - 1) * x->blocks_max;
    uint32_t next = rounds ? read_block(x, 1, 0, traffic) : NO_BUFFER;
    for (uint32_t j = 0; j < x->blocks_max; j++)
        visit(x, 0, j, circle_block(&b->circle, b->rank, j), b->kv);
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t held = next, step = 1 + round / x->blocks_max, j = round % x->blocks_max;
        bool ahead = b->schedule->experiment->buffers > 1; /* else a block is used before the next takes its place */
        if (round + 1 < rounds && ahead)
            next = read_block(x, 1 + (round + 1) / x->blocks_max, (round + 1) % x->blocks_max, traffic);
        visit(x, step, j, circle_block(&b->circle, source(b, step), j), held);
        if (round + 1 < rounds && !ahead)
            next = read_block(x, 1 + (round + 1) / x->blocks_max, (round + 1) % x->blocks_max, traffic);
    }
}

static void forward_block(struct exchange_state *x, uint32_t step, uint32_t j, struct block keys, uint32_t held)
{
    (void)step;
    (void)j;
    if (held != NO_BUFFER)
        builder_attend(x->b, keys, &held, 1);
}

static void own_gradient(struct exchange_state *x, struct block keys)
{
    struct builder *b = x->b;
    uint32_t target = b->ranks == 1 ? b->dkv : x->sum;
    if (circle_blocks(&b->circle, b->rank) == 1) {
        builder_attend_backward(b, keys, &b->kv, 1, &target, false);
        return;
    }
    struct block seen = builder_attend_backward(b, keys, &b->kv, 1, &x->part, false);
    if (seen.count)
        builder_accumulate(b, STREAM_COMPUTE, target, x->part, seen, true);
}

static void add_pending(struct exchange_state *x)
{
    if (x->pending.buffer != NO_BUFFER)
        builder_accumulate(x->b, STREAM_COMPUTE, x->sum, x->pending.buffer, x->pending.keys, false);
    x->pending.buffer = NO_BUFFER;
}

/* Computes the contribution to the block read in this round and returns it; adds the one that came back in the round
 * before, and awaits this round's. */
static void backward_block(struct exchange_state *x, uint32_t step, uint32_t j, struct block keys, uint32_t held)
{
    struct builder *b = x->b;
    if (step == 0) {
        own_gradient(x, keys);
        return;
    }
    struct block own = circle_block(&b->circle, b->rank, j);
    bool contributes = held != NO_BUFFER && circle_computes(&b->circle, b->place, keys);
    bool returned = circle_computes(&b->circle, reader(b, step), own);
    uint32_t leaving = NO_BUFFER, group = program_new_group(b->program);
    if (contributes) {
        leaving = rotation_take(&x->leaving);
        builder_attend_backward(b, keys, &held, 1, &leaving, true);
    }
    add_pending(x);
    if (contributes)
        builder_send(b, b->returns, group, TRAFFIC_GRADIENT, leaving, source(b, step), keys);
    if (returned) {
        x->pending.buffer = rotation_take(&x->arriving);
        x->pending.keys = own;
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, x->pending.buffer, reader(b, step), own);
    }
}

struct counts {
    uint32_t attends, received, contributed, returned;
};

static struct counts count(const struct builder *b, uint32_t blocks_max)
{
    struct counts counts = {0};
    for (uint32_t step = 0; step < b->ranks; step++) {
        for (uint32_t j = 0; j < blocks_max; j++) {
            struct block keys = circle_block(&b->circle, source(b, step), j);
            bool computes = circle_computes(&b->circle, b->rank, keys);
            counts.attends += computes;
            if (step == 0)
                continue;
            counts.contributed += computes;
            counts.received += circle_needs(&b->circle, b->rank, keys);
            counts.returned += circle_computes(&b->circle, reader(b, step), circle_block(&b->circle, b->rank, j));
        }
    }
    return counts;
}

static void backward(struct exchange_state *x, struct counts counts)
{
    struct builder *b = x->b;
    builder_begin(b, PHASE_BACKWARD, counts.attends);
    if (circle_blocks(&b->circle, b->rank) > 1)
        x->part =
            builder_buffer(b, "dkv part", TENSOR_DKV, b->gradient, ROLE_WORKSPACE, circle_block_rows_max(&b->circle));
    if (b->ranks > 1)
        x->sum = builder_buffer(b, "dkv sum", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, b->queries.count);
    rotate_blocks(&x->leaving, b, "dkv out", TENSOR_DKV, b->gradient, ROLE_WORKSPACE, counts.contributed);
    rotate_blocks(&x->arriving, b, "dkv in", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, counts.returned);
    x->received.next = 0;
    x->pending.buffer = NO_BUFFER;
    walk(x, TRAFFIC_REPLAY_KV, backward_block);
    add_pending(x);
    if (b->ranks > 1 && b->queries.count)
        builder_cast(b, STREAM_COMPUTE, b->dkv, x->sum, b->queries); /* training: every key has its query */
    builder_end(b, PHASE_BACKWARD);
    program_end_phase(b->program, PHASE_BACKWARD);
    rotation_fini(&x->leaving);
    rotation_fini(&x->arriving);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct exchange_state x = {.b = &b, .blocks_max = circle_blocks_max(&b.circle)};
    struct counts counts = count(&b, x.blocks_max);
    rotate_blocks(&x.received, &b, "kv", TENSOR_KV, b.model, ROLE_RECEIVED, counts.received);

    builder_begin(&b, PHASE_FORWARD, counts.attends);
    walk(&x, TRAFFIC_FORWARD_KV, forward_block);
    builder_end(&b, PHASE_FORWARD);
    program_end_phase(program, PHASE_FORWARD);
    if (schedule->experiment->train)
        backward(&x, counts);
    rotation_fini(&x.received);
}

const struct algorithm_ops algorithm_direct = {
    .name = "direct",
    .summary = "every rank reads each K/V block from its owner and returns its dKV contribution to it",
    .uses = USES_BUFFERS | USES_KV_BLOCK | USES_SKIP_TRANSFER | USES_SPLIT_KV | USES_GRADIENTS | USES_OVERLAP,
    .can = CAN_TRAIN | CAN_PREFILL | CAN_DECODE,
    .turns = TURNS,
    .build = build,
};
