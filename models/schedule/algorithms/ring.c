/* ring.c - K/V blocks travel around a ring; every rank attends each as it passes.
 *
 * Step i: rank r holds the block of owner r - i (mod P), attends it, and meanwhile passes it on to r + 1. Forward: P -
 * 1 exchanges. Backward: the blocks go round again (replay), and behind each the gradient of it, to which every rank
 * adds its share; from the last rank it goes home to its owner: P messages. Bytes sent per rank, KV being a shard's K
 * and V: (P-1) KV forward, (P-1) KV + P dKV backward (algorithms of zhuzilin/ring-flash-attention: contiguous, zigzag
 * and striped differ in the sharding only).
 *
 * A shard cut into blocks sends its first block all the way round, then its second, and so on: two block buffers
 * suffice whatever the shard's length. With skip = transfer a block travels as far as the last rank that sees any of
 * it, and its gradient goes home straight from there.
 *
 * Exchanges are synchronous rounds: all messages of round i are posted in one group on every rank, so nothing can
 * deadlock. Received blocks rotate through `buffers` buffers; the write-after-read hazard on them throttles the ring.
 */
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"
#include "models/schedule/algorithms/builder.h"

/* How far each block travels: [owner * blocks_max + j], steps from its owner to the last rank that needs it. */
static void *prepare(const struct schedule *schedule)
{
    uint32_t ranks = schedule->ranks, blocks = builder_blocks_max(schedule);
    uint32_t *reach = memory_zeroed((size_t)ranks * blocks, sizeof *reach);
    for (uint32_t owner = 0; owner < ranks; owner++) {
        for (uint32_t j = 0; j < builder_blocks(schedule, owner); j++) {
            uint32_t i = ranks - 1;
            while (i > 0 && !builder_needs(schedule, (owner + i) % ranks, builder_block(schedule, owner, j)))
                i--;
            reach[(size_t)owner * blocks + j] = i;
        }
    }
    return reach;
}

/* One circulation: block j of every owner, and which buffers hold what on this rank. */
struct circulation {
    struct builder *b;
    const uint32_t *reach;
    uint32_t j, blocks_max;
    uint32_t *slots, n_slots, next_slot; /* received KV blocks, in rotation */
    uint32_t travelling[2], part, home;  /* dKV: step i's is travelling[i % 2]; this block's; the own block's return */
};

static uint32_t owner_at(const struct circulation *c, uint32_t step)
{
    return (c->b->rank + c->b->ranks - step % c->b->ranks) % c->b->ranks;
}

/* The block that this rank holds at `step`; count 0 when there is none or it does not come this far. */
static struct block block_at(const struct circulation *c, uint32_t step)
{
    uint32_t owner = owner_at(c, step);
    struct block block = builder_block(c->b->schedule, owner, c->j);
    if (block.count && step > c->reach[(size_t)owner * c->blocks_max + c->j])
        block.count = 0;
    return block;
}

static uint32_t reach_of(const struct circulation *c, uint32_t owner)
{
    return c->reach[(size_t)owner * c->blocks_max + c->j];
}

static uint32_t neighbour(const struct builder *b, uint32_t steps)
{
    return (b->rank + steps) % b->ranks;
}

/* Round `step` of the KV exchange: passes on the block of the step before (in buffer `held`) and receives this step's.
 * Returns the buffer that then holds it. */
static uint32_t exchange(struct circulation *c, uint32_t step, uint32_t held, enum traffic traffic)
{
    struct builder *b = c->b;
    struct block leaves = block_at(c, step - 1), arrives = block_at(c, step);
    uint32_t slot = NO_BUFFER, group = program_new_group(b->program);
    if (leaves.count && step <= reach_of(c, leaves.owner))
        builder_send(b, b->exchange, group, traffic, held, neighbour(b, 1), leaves);
    if (arrives.count) {
        slot = c->slots[c->next_slot++ % c->n_slots];
        builder_receive(b, b->exchange, group, traffic, slot, neighbour(b, b->ranks - 1), arrives);
    }
    return slot;
}

static void forward(struct circulation *c)
{
    uint32_t held = c->b->kv;
    for (uint32_t step = 0; step < c->b->ranks; step++) {
        uint32_t next = step + 1 < c->b->ranks ? exchange(c, step + 1, held, TRAFFIC_FORWARD_KV) : NO_BUFFER;
        builder_attend(c->b, block_at(c, step), &held, 1);
        held = next;
    }
}

/* Round `step` of the gradient exchange: passes on the dKV of the step before, or sends it home if its journey is over;
 * receives this step's; and receives the own block's, if that comes home in this round. */
static void return_gradients(struct circulation *c, uint32_t step)
{
    struct builder *b = c->b;
    uint32_t group = program_new_group(b->program);
    struct block leaves = block_at(c, step - 1);
    if (leaves.count && reach_of(c, leaves.owner) > 0) {
        bool goes_home = step - 1 == reach_of(c, leaves.owner);
        builder_send(b, b->returns, group, TRAFFIC_GRADIENT, c->travelling[(step - 1) % 2],
                     goes_home ? leaves.owner : neighbour(b, 1), leaves);
    }
    struct block arrives = block_at(c, step);
    if (step < b->ranks && arrives.count)
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, c->travelling[step % 2], neighbour(b, b->ranks - 1),
                        arrives);
    struct block own = block_at(c, 0);
    if (own.count && reach_of(c, b->rank) > 0 && step == reach_of(c, b->rank) + 1) {
        uint32_t home = c->home == NO_BUFFER ? c->travelling[step % 2] : c->home;
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, home, neighbour(b, reach_of(c, b->rank)), own);
        builder_cast(b, STREAM_COMPUTE, b->dkv, home, own);
    }
}

static void backward_step(struct circulation *c, uint32_t step, uint32_t held)
{
    struct builder *b = c->b;
    struct block keys = block_at(c, step);
    if (b->once && b->ranks == 1) { /* nothing to sum and nowhere to go */
        builder_attend_backward(b, keys, &held, 1, &b->dkv, false);
        return;
    }
    struct block seen = builder_attend_backward(b, keys, &held, 1, &c->part, false);
    if (seen.count)
        builder_accumulate(b, STREAM_COMPUTE, c->travelling[step % 2], c->part, seen, step == 0);
    if (step == 0 && keys.count && reach_of(c, b->rank) == 0)
        builder_cast(b, STREAM_COMPUTE, b->dkv, c->travelling[0], keys);
}

static void backward(struct circulation *c)
{
    struct builder *b = c->b;
    uint32_t held = b->kv;
    for (uint32_t step = 0; step < b->ranks; step++) {
        uint32_t next = step + 1 < b->ranks ? exchange(c, step + 1, held, TRAFFIC_REPLAY_KV) : NO_BUFFER;
        if (step > 0)
            return_gradients(c, step);
        backward_step(c, step, held);
        held = next;
    }
    if (b->ranks > 1)
        return_gradients(c, b->ranks);
}

/* Attention operations of this rank in a phase, and blocks that it receives. */
static void count(const struct circulation *c, uint32_t *attends, uint32_t *received)
{
    struct circulation scan = *c;
    *attends = *received = 0;
    for (scan.j = 0; scan.j < scan.blocks_max; scan.j++) {
        for (uint32_t step = 0; step < c->b->ranks; step++) {
            struct block block = block_at(&scan, step);
            *received += step > 0 && block.count;
            if (*attends < 2 && block.count && builder_computes(c->b->schedule, c->b->rank, block))
                ++*attends;
        }
    }
}

static void add_gradient_buffers(struct circulation *c)
{
    struct builder *b = c->b;
    uint64_t rows = builder_block_rows_max(b->schedule);
    if (b->once && b->ranks == 1)
        return;
    c->part = builder_buffer(b, "dkv part", TENSOR_DKV, b->output, ROLE_WORKSPACE, rows);
    c->travelling[0] = builder_buffer(b, "dkv sum 0", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
    c->travelling[1] = builder_buffer(b, "dkv sum 1", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
    if (b->schedule->experiment->skip == SKIP_TRANSFER) /* may come home in the same round as another block arrives */
        c->home = builder_buffer(b, "dkv home", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
}

static void build(const struct schedule *schedule, struct program *program)
{
    struct builder b;
    builder_init(&b, schedule, program);
    struct circulation c = {
        .b = &b, .reach = schedule->algorithm_data, .blocks_max = builder_blocks_max(schedule), .home = NO_BUFFER};
    uint32_t attends, received;
    count(&c, &attends, &received);
    c.n_slots = received < schedule->experiment->buffers ? received : schedule->experiment->buffers;
    c.slots = memory_zeroed(c.n_slots, sizeof *c.slots);
    for (uint32_t i = 0; i < c.n_slots; i++) {
        char name[24];
        snprintf(name, sizeof name, "kv %u", i);
        c.slots[i] = builder_buffer(&b, name, TENSOR_KV, b.model, ROLE_RECEIVED, builder_block_rows_max(schedule));
    }

    builder_begin(&b, PHASE_FORWARD, attends);
    for (c.j = 0; c.j < c.blocks_max; c.j++)
        forward(&c);
    builder_end(&b, PHASE_FORWARD);
    if (schedule->experiment->train) {
        builder_begin(&b, PHASE_BACKWARD, attends);
        add_gradient_buffers(&c);
        for (c.j = 0; c.j < c.blocks_max; c.j++)
            backward(&c);
        builder_end(&b, PHASE_BACKWARD);
    }
    free(c.slots);
}

static bool check(const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    if (schedule->ranks > 2 && experiment->buffers < 2)
        return experiment_complain(
            experiment, "schedule", "buffers", diag,
            "algorithm 'ring' on %u ranks passes one block on while it receives the next, so buffers = %u "
            "is too few, expected at least 2",
            schedule->ranks, experiment->buffers);
    return true;
}

const struct algorithm_ops algorithm_ring = {
    .name = "ring",
    .summary = "K/V blocks go round a ring of neighbours, attended as they pass; dKV follows them home",
    .constraint = "buffers >= 2 on more than two ranks",
    .uses = USES_BUFFERS | USES_KV_BLOCK | USES_SKIP_TRANSFER | USES_SPLIT_KV | USES_GRADIENTS | USES_OVERLAP,
    .check = check,
    .prepare = prepare,
    .build = build,
};
