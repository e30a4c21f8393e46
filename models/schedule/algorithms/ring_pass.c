/* ring_pass.c - K/V blocks travel around a ring; every rank attends each as it passes. See ring_pass.h.
 *
 * Exchanges are synchronous rounds: all messages of round i are posted in one group on every rank, so nothing can
 * deadlock. Received blocks rotate through `buffers` buffers; the write-after-read hazard on them throttles the ring.
 */
#include "models/schedule/algorithms/ring_pass.h"

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"

uint32_t *ring_reach(const struct circle *circle)
{
    uint32_t places = circle->places, blocks = circle_blocks_max(circle);
    uint32_t *reach = memory_zeroed((size_t)places * blocks, sizeof *reach);
    for (uint32_t place = 0; place < places; place++) {
        for (uint32_t j = 0; j < circle_blocks(circle, place); j++) {
            uint32_t i = places - 1;
            while (i > 0 && !circle_needs(circle, circle_ahead(circle, place, i), circle_block(circle, place, j)))
                i--;
            reach[(size_t)place * blocks + j] = i;
        }
    }
    return reach;
}

static uint32_t reach_of(const struct ring_pass *c, uint32_t place)
{
    return c->reach[(size_t)place * c->blocks_max + c->j];
}

/* How far the block travels that this rank holds at `step`. */
static uint32_t reach_at(const struct ring_pass *c, uint32_t step)
{
    return reach_of(c, builder_back(c->b, step));
}

/* The block that this rank holds at `step`; count 0 when there is none or it does not come this far. */
static struct block block_at(const struct ring_pass *c, uint32_t step)
{
    uint32_t place = builder_back(c->b, step);
    struct block block = circle_block(&c->b->circle, place, c->j);
    if (block.count && step > reach_of(c, place))
        block.count = 0;
    return block;
}

static uint32_t rank_ahead(const struct builder *b, uint32_t steps)
{
    return circle_rank(&b->circle, builder_ahead(b, steps));
}

static uint32_t rank_back(const struct builder *b, uint32_t steps)
{
    return circle_rank(&b->circle, builder_back(b, steps));
}

/* Round `step` of the KV exchange: passes on the block of the step before (in buffer `held`) and receives this step's.
 * Returns the buffer that then holds it. */
static uint32_t exchange(struct ring_pass *c, uint32_t step, uint32_t held, enum traffic traffic)
{
    struct builder *b = c->b;
    struct block leaves = block_at(c, step - 1), arrives = block_at(c, step);
    uint32_t slot = NO_BUFFER, group = program_new_group(b->program);
    if (leaves.count && step <= reach_at(c, step - 1))
        builder_send(b, b->exchange, group, traffic, held, rank_ahead(b, 1), leaves);
    if (arrives.count) {
        slot = rotation_take(&c->received);
        builder_receive(b, b->exchange, group, traffic, slot, rank_back(b, 1), arrives);
    }
    return slot;
}

static void forward(struct ring_pass *c)
{
    uint32_t held = c->b->kv;
    for (uint32_t step = 0; step < c->b->circle.places; step++) {
        uint32_t next = step + 1 < c->b->circle.places ? exchange(c, step + 1, held, TRAFFIC_FORWARD_KV) : NO_BUFFER;
        builder_attend(c->b, block_at(c, step), &held, 1);
        held = next;
    }
}

/* Round `step` of the gradient exchange: passes on the dKV of the step before, or sends it home if its journey is over;
 * receives this step's; and receives the own block's, if that comes home in this round. */
static void return_gradients(struct ring_pass *c, uint32_t step)
{
    struct builder *b = c->b;
    uint32_t group = program_new_group(b->program);
    struct block leaves = block_at(c, step - 1);
    if (leaves.count && reach_at(c, step - 1) > 0) {
        bool goes_home = step - 1 == reach_at(c, step - 1);
        builder_send(b, b->returns, group, TRAFFIC_GRADIENT, c->travelling[(step - 1) % 2],
                     goes_home ? rank_back(b, step - 1) : rank_ahead(b, 1), leaves);
    }
    struct block arrives = block_at(c, step);
    if (step < b->circle.places && arrives.count)
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, c->travelling[step % 2], rank_back(b, 1), arrives);
    struct block own = block_at(c, 0);
    if (own.count && reach_at(c, 0) > 0 && step == reach_at(c, 0) + 1) {
        uint32_t home = c->home == NO_BUFFER ? c->travelling[step % 2] : c->home;
        builder_receive(b, b->returns, group, TRAFFIC_GRADIENT, home, rank_ahead(b, reach_at(c, 0)), own);
        builder_cast(b, STREAM_COMPUTE, b->dkv, home, own);
    }
}

static void backward_step(struct ring_pass *c, uint32_t step, uint32_t held)
{
    struct builder *b = c->b;
    struct block keys = block_at(c, step);
    if (b->once && b->circle.places == 1) { /* nothing to sum and nowhere to go */
        builder_attend_backward(b, keys, &held, 1, &b->dkv, false);
        return;
    }
    struct block seen = builder_attend_backward(b, keys, &held, 1, &c->part, false);
    if (seen.count)
        builder_accumulate(b, STREAM_COMPUTE, c->travelling[step % 2], c->part, seen, step == 0);
    if (step == 0 && keys.count && reach_at(c, 0) == 0)
        builder_cast(b, STREAM_COMPUTE, b->dkv, c->travelling[0], keys);
}

static void backward(struct ring_pass *c)
{
    struct builder *b = c->b;
    uint32_t held = b->kv;
    for (uint32_t step = 0; step < b->circle.places; step++) {
        uint32_t next = step + 1 < b->circle.places ? exchange(c, step + 1, held, TRAFFIC_REPLAY_KV) : NO_BUFFER;
        if (step > 0)
            return_gradients(c, step);
        backward_step(c, step, held);
        held = next;
    }
    if (b->circle.places > 1)
        return_gradients(c, b->circle.places);
}

/* Attention operations of this rank in a phase, and blocks that it receives. */
static void count(const struct ring_pass *c, uint32_t *attends, uint32_t *received)
{
    struct ring_pass scan = *c;
    *attends = *received = 0;
    for (scan.j = 0; scan.j < scan.blocks_max; scan.j++) {
        for (uint32_t step = 0; step < c->b->circle.places; step++) {
            struct block block = block_at(&scan, step);
            *received += step > 0 && block.count;
            if (*attends < 2 && block.count && circle_attends(&c->b->circle, c->b->queries, block))
                ++*attends;
        }
    }
}

static void add_gradient_buffers(struct ring_pass *c)
{
    struct builder *b = c->b;
    uint64_t rows = circle_block_rows_max(&b->circle);
    if (b->once && b->circle.places == 1)
        return;
    c->part = builder_buffer(b, "dkv part", TENSOR_DKV, b->output, ROLE_WORKSPACE, rows);
    c->travelling[0] = builder_buffer(b, "dkv sum 0", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
    c->travelling[1] = builder_buffer(b, "dkv sum 1", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
    if (b->schedule->experiment->skip == SKIP_TRANSFER) /* may come home in the same round as another block arrives */
        c->home = builder_buffer(b, "dkv home", TENSOR_DKV, b->gradient, ROLE_ACCUMULATOR, rows);
}

void ring_pass_init(struct ring_pass *c, struct builder *b, const uint32_t *reach)
{
    *c = (struct ring_pass){.b = b, .reach = reach, .blocks_max = circle_blocks_max(&b->circle), .home = NO_BUFFER};
    struct block room = {0, 0, (uint32_t)circle_block_rows_max(&b->circle)};
    uint32_t received;
    count(c, &c->attends, &received);
    rotation_init(&c->received, b, "kv", TENSOR_KV, b->model, ROLE_RECEIVED, room, rotation_count(b, received));
}

void ring_pass_fini(struct ring_pass *c)
{
    rotation_fini(&c->received);
}

void ring_pass_forward(struct ring_pass *c)
{
    builder_begin(c->b, PHASE_FORWARD, c->attends);
    for (c->j = 0; c->j < c->blocks_max; c->j++)
        forward(c);
    builder_end(c->b, PHASE_FORWARD);
}

void ring_pass_backward(struct ring_pass *c)
{
    builder_begin(c->b, PHASE_BACKWARD, c->attends);
    add_gradient_buffers(c);
    for (c->j = 0; c->j < c->blocks_max; c->j++)
        backward(c);
    builder_end(c->b, PHASE_BACKWARD);
}

bool ring_pass_check(const struct schedule *schedule, uint32_t places, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    if (places <= 2 || experiment->buffers >= 2)
        return true;
    return experiment_complain(
        experiment, "schedule", "buffers", diag,
        "algorithm '%s': in a ring of %u a rank passes one block on while it receives the next, so buffers = %u "
        "is too few, expected at least 2",
        schedule->algorithm->name, places, experiment->buffers);
}
