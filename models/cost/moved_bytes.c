/* moved_bytes.c - rows of blocks, and the bytes that an operation passes through memory when it touches each of its
 * buffers once.
 */
#include "models/cost/cost_parts.h"

#include "models/schedule/accesses.h"
#include "models/schedule/mask.h"

/* `block` cut to the rows that the shard of `owner` has. */
static struct block block_of_owner(const struct sharding *sharding, struct block block, uint32_t owner)
{
    uint64_t rows = sharding_rows(sharding, owner);
    uint64_t left = rows > block.first ? rows - block.first : 0;
    return (struct block){
        .owner = owner, .first = block.first, .count = left < block.count ? (uint32_t)left : block.count};
}

double cost_block_rows(const struct sharding *sharding, struct block block)
{
    if (block.owner != BLOCK_ALL)
        return block.count;
    double rows = 0.0;
    for (uint32_t owner = 0; owner < sharding->ranks; owner++)
        rows += block_of_owner(sharding, block, owner).count;
    return rows;
}

/* Key rows that a kernel goes through: of gathered keys, those that the queries see anything of. */
double cost_key_rows(const struct schedule *schedule, const struct op *op)
{
    if (op->k.owner != BLOCK_ALL || op->pairs == 0)
        return cost_block_rows(&schedule->sharding, op->k);
    double rows = 0.0;
    for (uint32_t owner = 0; owner < schedule->sharding.ranks; owner++) {
        struct block queries = op->q, keys = block_of_owner(&schedule->sharding, op->k, owner);
        if (keys.count && mask_trim(&schedule->experiment->mask, &schedule->sharding, &queries, &keys))
            rows += keys.count;
    }
    return rows;
}

double cost_lanes(struct lanes lanes)
{
    return (double)lanes.heads * lanes.items;
}

/* Bytes of the buffer that an access touches. Of a partial result, some operations look at the LSE alone. */
static double accessed_bytes(const struct cost *cost, const struct program *program, const struct op *op,
                             const struct access *access)
{
    const struct buffer *buffer = &program->buffers[access->buffer];
    enum tensor tensor = (enum tensor)buffer->tensor;
    if (tensor == TENSOR_PARTIAL && (op->kind == OP_SUM_LSE || op->kind == OP_TOP))
        return (double)schedule_tensor_bytes(cost->schedule, TENSOR_LSE, dtype_accumulator((enum dtype)buffer->dtype),
                                             access->block.count, access->lanes);
    double all = (double)schedule_tensor_elements(cost->schedule, tensor, buffer->rows, buffer->lanes);
    double some = (double)schedule_tensor_elements(cost->schedule, tensor, access->block.count, access->lanes);
    return some < all ? (double)buffer->bytes * (some / all) : (double)buffer->bytes;
}

/* Bytes that `op` reads and writes once; of key-side buffers only the share `keys`. */
double cost_moved_bytes(const struct cost *cost, const struct program *program, const struct op *op, double keys)
{
    struct access_walk walk;
    struct access access;
    double bytes = 0.0;
    accesses_begin(&walk, cost->schedule, program, op);
    while (accesses_next(&walk, &access)) {
        bool by_keys = tensor_goes_by_keys((enum tensor)program->buffers[access.buffer].tensor);
        bytes += (by_keys ? keys : 1.0) * accessed_bytes(cost, program, op, &access);
    }
    return bytes;
}

double cost_memory_bytes_per_s(const struct device *device)
{
    return device->memory_bytes_per_s * device->memory_efficiency;
}
