/* cuda_copies.c - layout copies: slices of lanes, and rows in their order in a joined shard or rank by rank.
 *
 * Either is a copy by strides, by the kernel that sums: one call for each array, and for each run of rows that are
 * evenly apart.
 */
#include "hw/cuda/compute_cuda.h"
#include "hw/stretches.h"
#include "models/schedule/accesses.h"

static void copy_all(const struct cuda_action *action, const struct operand *target, const struct operand *source)
{
    CUDA_CHECK(action->cuda, cuda_sum(target, source, true, action->stream), "queueing a layout copy");
}

/* ---- lanes ---- */

/* The side with one buffer, of the lanes (of query heads) that a slice has. */
static struct operand part_of_whole(const struct cuda_action *action, bool write, const struct buffer *slice)
{
    return operand_part(action->cuda->schedule, action->program, action->op, action->memory,
                        write ? action->writes : action->reads, write, slice);
}

static void split_lanes(const struct cuda_action *action)
{
    for (uint32_t i = 0; i < action->op->n_writes; i++) {
        struct operand source = part_of_whole(action, false, action->writes[i].buffer);
        copy_all(action, &action->writes[i], &source);
    }
}

/* ---- sums of slices ---- */

/* Whether every lane of the target is one slice's and no other's: then there is nothing to sum. */
static bool slices_tile(const struct cuda_action *action)
{
    const struct operand *target = &action->writes[0];
    uint64_t lanes = 0;
    for (uint32_t i = 0; i < action->op->n_reads; i++) {
        const struct lanes slice = action->reads[i].lanes;
        lanes += (uint64_t)slice.heads * slice.items;
        for (uint32_t j = 0; j < i; j++) {
            const struct lanes both = lanes_common(slice, action->reads[j].lanes);
            if (both.heads && both.items)
                return false;
        }
    }
    return lanes == (uint64_t)target->lanes.heads * target->lanes.items;
}

/* An array in fp32 with the target's rows, items and heads and nothing else: where a slice's lanes are in it. */
static struct operand_array sums_of_slice(const struct operand *target, const struct operand *slice, uint32_t width,
                                          float *sums)
{
    size_t item = slice->lanes.item - target->lanes.item, head = slice->lanes.head - target->lanes.head;
    return (struct operand_array){.first = (char *)(sums + (item * target->lanes.heads + head) * width),
                                  .row = (size_t)target->lanes.items * target->lanes.heads * width,
                                  .item = (size_t)target->lanes.heads * width,
                                  .width = width,
                                  .dtype = DTYPE_FP32};
}

static int sum_slices(const struct cuda_action *action, uint32_t array, float *sums, uint64_t bytes)
{
    const struct operand *target = &action->writes[0];
    const uint32_t width = target->arrays[array].width;
    int error = cuda_fill(sums, 0, bytes, action->stream);
    for (uint32_t s = 0; s < action->op->n_reads && !error; s++) {
        const struct operand *slice = &action->reads[s];
        const struct operand_array to = sums_of_slice(target, slice, width, sums);
        error = cuda_accumulate(cuda_extent_of(slice, width), cuda_array_of(&to), cuda_array_of(&slice->arrays[array]),
                                false, action->stream);
    }
    const struct operand_array all = sums_of_slice(target, target, width, sums);
    return error ? error
                 : cuda_accumulate(cuda_extent_of(target, width), cuda_array_of(&target->arrays[array]),
                                   cuda_array_of(&all), true, action->stream);
}

/* Slices of a gradient may be of the same KV head: their sum, in fp32, rounded once. */
static void join_gradients(const struct cuda_action *action)
{
    const struct operand *target = &action->writes[0];
    const uint64_t bytes = (uint64_t)target->block.count * target->lanes.items * target->lanes.heads *
                           target->arrays[0].width * sizeof(float);
    float *sums = bytes ? cuda_scratch_take(action, bytes) : NULL;
    for (uint32_t a = 0; sums && a < target->n_arrays; a++)
        CUDA_CHECK(action->cuda, sum_slices(action, a, sums, bytes), "queueing a sum of slices");
}

static void join_lanes(const struct cuda_action *action)
{
    if (action->writes[0].buffer->tensor == TENSOR_DKV && !slices_tile(action)) {
        join_gradients(action);
        return;
    }
    for (uint32_t i = 0; i < action->op->n_reads; i++) {
        struct operand part = part_of_whole(action, true, action->reads[i].buffer);
        copy_all(action, &part, &action->reads[i]);
    }
}

/* ---- rows ---- */

static void copy_stretch(const struct cuda_action *action, const struct operand *joined, const struct operand *part,
                         const struct stretch *stretch, bool join)
{
    for (uint32_t a = 0; a < part->n_arrays; a++) {
        struct operand_array its = part->arrays[a], whole = joined->arrays[a];
        struct cuda_extent extent = cuda_extent_of(part, its.width);
        extent.rows = stretch->count;
        its.first += stretch->part_row * its.row * dtype_bytes(its.dtype);
        whole.first += stretch->joined_row * whole.row * dtype_bytes(whole.dtype);
        whole.row *= stretch->step;
        const struct cuda_array target = cuda_array_of(join ? &whole : &its);
        const struct cuda_array source = cuda_array_of(join ? &its : &whole);
        CUDA_CHECK(action->cuda, cuda_accumulate(extent, target, source, true, action->stream),
                   "queueing a layout copy");
    }
}

static void copy_rows(const struct cuda_action *action, bool join)
{
    const struct sharding *sharding = &action->cuda->schedule->sharding;
    const struct operand *joined = join ? action->writes : action->reads;
    const struct operand *parts = join ? action->reads : action->writes;
    for (uint32_t i = 0; i < (join ? action->op->n_reads : action->op->n_writes); i++) {
        struct stretch stretches[SHARD_SPANS_MAX];
        const uint32_t n = stretches_of(sharding, joined->block, parts[i].block, stretches);
        for (uint32_t s = 0; s < n; s++)
            copy_stretch(action, joined, &parts[i], &stretches[s], join);
    }
}

void cuda_layout_copy(const struct cuda_action *action)
{
    switch ((enum op_kind)action->op->kind) {
    case OP_SPLIT_LANES:
        split_lanes(action);
        break;
    case OP_JOIN_LANES:
        join_lanes(action);
        break;
    default:
        copy_rows(action, action->op->kind == OP_JOIN_ROWS);
        break;
    }
}
