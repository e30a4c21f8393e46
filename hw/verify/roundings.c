/* roundings.c - lists the additions to narrow buffers, as rows of ranks and lanes, and counts the most that meet in one
 * place. Where a sum goes through several ranks as a tree, that counts all of its additions: rather too many. */
#include "hw/verify/roundings.h"

#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/accesses.h"

/* To rows [first, first + count), counted over all ranks' shards one after the other. */
struct addition {
    uint64_t first, count;
    struct lanes lanes;
};

struct additions {
    const struct schedule *schedule;
    uint64_t *starts; /* [rank]: its first row */
    struct addition *items;
    size_t count, capacity;
};

static bool is_of(enum tensor tensor, enum output output)
{
    switch (output) {
    case OUTPUT_O:
        return tensor == TENSOR_O || tensor == TENSOR_NUMERATOR;
    case OUTPUT_DQ:
        return tensor == TENSOR_DQ;
    case OUTPUT_DK:
    case OUTPUT_DV:
        return tensor == TENSOR_DKV;
    default:
        return false;
    }
}

static bool adds(const struct program *program, const struct op *op, uint32_t buffer)
{
    if (op->kind == OP_JOIN_LANES)
        return program->buffers[buffer].tensor == TENSOR_DKV;
    if (op->kind != OP_ACCUMULATE && op->kind != OP_CORRECT)
        return false;
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (program_reads(program, op)[i] == buffer)
            return true;
    return false;
}

static void add_rows(struct additions *additions, uint32_t rank, struct block block, struct lanes lanes)
{
    if (block.count == 0)
        return;
    memory_grow(additions->items, additions->count, additions->capacity);
    additions->items[additions->count++] = (struct addition){additions->starts[rank] + block.first, block.count, lanes};
}

static void add_block(struct additions *additions, struct block block, struct lanes lanes)
{
    const struct sharding *sharding = &additions->schedule->sharding;
    if (!block_is_joined(block.owner)) {
        add_rows(additions, block.owner, block, lanes);
        return;
    }
    for (uint32_t member = 0; member < sharding->joined; member++) {
        uint32_t rank = sharding_group_rank(sharding, block.owner & ~BLOCK_JOINED, member);
        add_rows(additions, rank, sharding_part(sharding, block, rank), lanes);
    }
}

static void list_additions(struct additions *additions, const struct program *program, enum output output)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        struct access_walk walk;
        struct access access;
        if (op->kind != OP_ACCUMULATE && op->kind != OP_CORRECT && op->kind != OP_JOIN_LANES)
            continue;
        accesses_begin(&walk, additions->schedule, program, op);
        while (accesses_next(&walk, &access)) {
            const struct buffer *buffer = &program->buffers[access.buffer];
            if (access.write && dtype_bytes((enum dtype)buffer->dtype) < sizeof(float) &&
                is_of((enum tensor)buffer->tensor, output) && adds(program, op, access.buffer))
                add_block(additions, access.block, access.lanes);
        }
    }
}

/* The most additions to any row of one lane. `changes` has room for a number of each row and one more. */
static uint32_t most_in_lane(const struct additions *additions, uint32_t head, uint32_t item, int64_t *changes,
                             uint64_t rows)
{
    const struct lanes lane = {head, 1, item, 1};
    int64_t now = 0, most = 0;
    for (uint64_t row = 0; row <= rows; row++)
        changes[row] = 0;
    for (size_t i = 0; i < additions->count; i++) {
        const struct addition *addition = &additions->items[i];
        if (!lanes_within(lane, addition->lanes))
            continue;
        changes[addition->first]++;
        changes[addition->first + addition->count]--;
    }
    for (uint64_t row = 0; row < rows; row++) {
        now += changes[row];
        most = now > most ? now : most;
    }
    return (uint32_t)most;
}

/* Lanes differ only where an operation's begin: the first of any operation's stand for all. */
static uint32_t most_in_all_lanes(const struct additions *additions, uint64_t rows)
{
    struct lanes all = additions->schedule->lanes;
    bool *begins = memory_zeroed((size_t)all.heads * all.items, sizeof *begins);
    int64_t *changes = memory_zeroed(rows + 1, sizeof *changes);
    uint32_t most = 0;
    for (size_t i = 0; i < additions->count; i++)
        begins[(size_t)additions->items[i].lanes.item * all.heads + additions->items[i].lanes.head] = true;
    for (uint32_t item = 0; item < all.items; item++) {
        for (uint32_t head = 0; head < all.heads; head++) {
            if (!begins[(size_t)item * all.heads + head])
                continue;
            uint32_t here = most_in_lane(additions, head, item, changes, rows);
            most = here > most ? here : most;
        }
    }
    free(begins);
    free(changes);
    return most;
}

uint32_t roundings_of_sums(const struct schedule *schedule, const struct program *programs, enum output output)
{
    struct additions additions = {.schedule = schedule, .starts = memory_zeroed(schedule->ranks, sizeof(uint64_t))};
    uint64_t rows = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        additions.starts[rank] = rows;
        rows += sharding_rows(&schedule->sharding, rank);
    }
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        list_additions(&additions, &programs[rank], output);
    uint32_t most = most_in_all_lanes(&additions, rows);
    free(additions.starts);
    free(additions.items);
    return most;
}
