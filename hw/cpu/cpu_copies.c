/* cpu_copies.c - layout copies: slices of lanes, and rows in their order in a joined shard or rank by rank. */
#include <stdlib.h>

#include "hw/cpu/cpu_action.h"
#include "hw/stretches.h"
#include "models/base/memory.h"

static void copy_all(const struct operand *target, const struct operand *source)
{
    for (uint32_t a = 0; a < target->n_arrays; a++)
        lanes_sum(operand_extent(target), &target->arrays[a], &source->arrays[a], false);
}

/* ---- lanes ---- */

/* The side with one buffer, of the lanes (of query heads) that a slice has. */
static struct operand part_of_whole(const struct action *action, bool write, const struct buffer *slice)
{
    return operand_part(action->schedule, action->program, action->op, action->memory,
                        write ? action->writes : action->reads, write, slice);
}

static void split_lanes(const struct action *action)
{
    for (uint32_t i = 0; i < action->op->n_writes; i++) {
        struct operand source = part_of_whole(action, false, action->writes[i].buffer);
        copy_all(&action->writes[i], &source);
    }
}

/* One row of an array in fp32, with the target's items and heads: `slice` is where a slice's lanes are in it. */
static struct operand_array row_slice(const struct operand *target, const struct operand *slice, uint32_t width,
                                      float *row)
{
    size_t item = slice->lanes.item - target->lanes.item, head = slice->lanes.head - target->lanes.head;
    return (struct operand_array){.first = (char *)(row + (item * target->lanes.heads + head) * width),
                                  .row = (size_t)target->lanes.items * target->lanes.heads * width,
                                  .item = (size_t)target->lanes.heads * width,
                                  .width = width,
                                  .dtype = DTYPE_FP32};
}

/* Slices of a gradient may be of the same KV head: their sum, in fp32, rounded once. */
static void join_gradient(const struct action *action, uint32_t array, float *row)
{
    const struct operand *target = &action->writes[0];
    const uint32_t width = target->arrays[array].width;
    const size_t numbers = (size_t)target->lanes.items * target->lanes.heads * width;
    for (size_t i = 0; i < target->block.count; i++) {
        struct operand_array to = target->arrays[array], sum = row_slice(target, target, width, row);
        for (size_t n = 0; n < numbers; n++)
            row[n] = 0;
        for (uint32_t s = 0; s < action->op->n_reads; s++) {
            const struct operand *slice = &action->reads[s];
            struct operand_array from = slice->arrays[array], part = row_slice(target, slice, width, row);
            from.first += i * from.row * dtype_bytes(from.dtype);
            lanes_sum((struct extent){1, slice->lanes.items, slice->lanes.heads}, &part, &from, true);
        }
        to.first += i * to.row * dtype_bytes(to.dtype);
        lanes_sum((struct extent){1, target->lanes.items, target->lanes.heads}, &to, &sum, false);
    }
}

static void join_lanes(const struct action *action)
{
    const struct operand *target = &action->writes[0];
    if (target->buffer->tensor != TENSOR_DKV) {
        for (uint32_t i = 0; i < action->op->n_reads; i++) {
            struct operand part = part_of_whole(action, true, action->reads[i].buffer);
            copy_all(&part, &action->reads[i]);
        }
        return;
    }
    float *row =
        memory_zeroed((size_t)target->lanes.items * target->lanes.heads * target->arrays[0].width, sizeof *row);
    for (uint32_t a = 0; a < target->n_arrays; a++)
        join_gradient(action, a, row);
    free(row);
}

/* ---- rows ---- */

static void copy_stretch(const struct operand *joined, const struct operand *part, const struct stretch *stretch,
                         bool join)
{
    struct extent extent = operand_extent(part);
    extent.rows = stretch->count;
    for (uint32_t a = 0; a < part->n_arrays; a++) {
        struct operand_array its = part->arrays[a], whole = joined->arrays[a];
        its.first += stretch->part_row * its.row * dtype_bytes(its.dtype);
        whole.first += stretch->joined_row * whole.row * dtype_bytes(whole.dtype);
        whole.row *= stretch->step;
        lanes_sum(extent, join ? &whole : &its, join ? &its : &whole, false);
    }
}

static void copy_rows(const struct action *action, bool join)
{
    const struct sharding *sharding = &action->schedule->sharding;
    const struct operand *joined = join ? action->writes : action->reads;
    const struct operand *parts = join ? action->reads : action->writes;
    for (uint32_t i = 0; i < (join ? action->op->n_reads : action->op->n_writes); i++) {
        struct stretch stretches[SHARD_SPANS_MAX];
        const uint32_t n = stretches_of(sharding, joined->block, parts[i].block, stretches);
        for (uint32_t s = 0; s < n; s++)
            copy_stretch(joined, &parts[i], &stretches[s], join);
    }
}

void cpu_copy(const struct action *action)
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
