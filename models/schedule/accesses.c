/* accesses.c - whose turn it is, buffer by buffer. */
#include "models/schedule/accesses.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* What two runs of lanes have in common: first and count. */
static void common_run(uint32_t a, uint32_t n_a, uint32_t b, uint32_t n_b, uint32_t *first, uint32_t *count)
{
    uint32_t end = smaller(a + n_a, b + n_b);
    *first = larger(a, b);
    *count = end > *first ? end - *first : 0;
}

struct lanes lanes_common(struct lanes a, struct lanes b)
{
    struct lanes common = a;
    if (lanes_equal(a, b)) /* as nearly always */
        return common;
    common_run(a.head, a.heads, b.head, b.heads, &common.head, &common.heads);
    common_run(a.item, a.items, b.item, b.items, &common.item, &common.items);
    return common;
}

/* Whether this side of the operation has a buffer per rank of the group. */
static bool is_parted(const struct op *op, bool write)
{
    return write ? op->kind == OP_SPLIT_ROWS : op->kind == OP_JOIN_ROWS;
}

/* The next rank, from *turn on, that has rows of a block of BLOCK_ALL, and these. */
static struct block next_of_all(const struct sharding *sharding, struct block block, uint32_t *turn)
{
    while (*turn < sharding->ranks) {
        uint32_t rank = (*turn)++;
        uint64_t rows = sharding_rows(sharding, rank);
        if (rows > block.first)
            return (struct block){rank, block.first, smaller(block.count, (uint32_t)(rows - block.first))};
    }
    return (struct block){0, 0, 0};
}

/* The same for the members of the group of a joined block. */
static struct block next_part(const struct sharding *sharding, struct block block, uint32_t *turn)
{
    uint32_t group = block.owner & ~BLOCK_JOINED;
    while (block_is_joined(block.owner) && group < sharding_groups(sharding) && *turn < sharding->joined) {
        struct block part = sharding_part(sharding, block, sharding_group_rank(sharding, group, (*turn)++));
        if (part.count)
            return part;
    }
    return (struct block){0, 0, 0};
}

void accesses_begin(struct access_walk *walk, const struct schedule *schedule, const struct program *program,
                    const struct op *op)
{
    bool spread = is_parted(op, false) || is_parted(op, true) || op->q.owner == BLOCK_ALL || op->k.owner == BLOCK_ALL;
    *walk = (struct access_walk){.schedule = schedule, .program = program, .op = op, .spread = spread};
}

/* The rows of the next buffer, of this side and kind of tensor, of an operation whose buffers are spread. */
static struct block next_rows(struct access_walk *walk, bool write, enum tensor tensor)
{
    struct block block = op_block_for(walk->op, tensor);
    uint32_t *turn = &walk->turn[write][tensor_goes_by_keys(tensor)];
    if (is_parted(walk->op, write))
        return next_part(&walk->schedule->sharding, block, turn);
    return block.owner == BLOCK_ALL ? next_of_all(&walk->schedule->sharding, block, turn) : block;
}

bool accesses_next(struct access_walk *walk, struct access *access)
{
    const struct op *op = walk->op;
    if (walk->next == (uint32_t)op->n_reads + op->n_writes)
        return false;
    bool write = walk->next >= op->n_reads;
    uint32_t index = program_reads(walk->program, op)[walk->next++];
    const struct buffer *buffer = &walk->program->buffers[index];
    enum tensor tensor = (enum tensor)buffer->tensor;
    access->buffer = index;
    access->write = write;
    access->block = walk->spread ? next_rows(walk, write, tensor) : op_block_for(op, tensor);
    access->lanes = lanes_common(op->lanes, buffer->lanes);
    return true;
}

struct access access_of(const struct schedule *schedule, const struct program *program, const struct op *op, bool write,
                        uint32_t i)
{
    struct access_walk walk;
    struct access access;
    accesses_begin(&walk, schedule, program, op);
    for (uint32_t n = (write ? op->n_reads : 0) + i + 1; n > 0; n--)
        accesses_next(&walk, &access);
    return access;
}

uint32_t access_count(const struct schedule *schedule, const struct op *op, bool write, enum tensor tensor)
{
    struct block block = op_block_for(op, tensor);
    uint32_t turn = 0, count = 0;
    if (write ? op->kind == OP_SPLIT_LANES : op->kind == OP_JOIN_LANES)
        return 0;
    if (!is_parted(op, write) && block.owner != BLOCK_ALL)
        return 1;
    while ((is_parted(op, write) ? next_part(&schedule->sharding, block, &turn)
                                 : next_of_all(&schedule->sharding, block, &turn))
               .count)
        count++;
    return count;
}
