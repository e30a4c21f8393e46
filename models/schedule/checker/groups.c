/* groups.c - messages of a group are in flight together, so none may write what another reads or writes. */
#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/checker/internal.h"

/* One message of a group and the rows that it touches in one part and one cell of its buffer. */
struct touch {
    uint32_t buffer, cell, first, end, op;
    bool writes;
};

static int compare_touches(const void *left, const void *right)
{
    const struct touch *a = left, *b = right;
    if (a->buffer != b->buffer)
        return a->buffer < b->buffer ? -1 : 1;
    if (a->cell != b->cell)
        return a->cell < b->cell ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

struct touch_list {
    struct touch *items;
    uint32_t count, capacity;
};

static void report_clash(struct check *check, const struct program *program, const struct touch *a,
                         const struct touch *b)
{
    const struct touch *writer = b->writes ? b : a, *other = b->writes ? a : b;
    char text[256];
    program_describe_op(program, other->op, text, sizeof text);
    findings_add_op(&check->findings, program, writer->op,
                    "overwrites '%s' while operation %" PRIu32 " of the same group (%s) %s it",
                    program->buffers[writer->buffer].name, other->op, text, other->writes ? "writes" : "reads");
}

/* Looks for a message that writes rows which another of the group touches: a sweep over the touches in row order, with
 * the furthest end of those read and of those written so far. The same two messages are reported once, however many
 * cells they meet in. True when there is none. Empties the list. */
static bool sweep_touches(struct check *check, const struct program *program, struct touch_list *list)
{
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, compare_touches);
    bool clash = false;
    const struct touch *furthest[2] = {NULL, NULL}; /* [reads, writes] */
    uint32_t said[2] = {UINT32_MAX, UINT32_MAX};
    for (uint32_t i = 0; i < list->count; i++) {
        const struct touch *touch = &list->items[i];
        for (int w = 0; w < 2; w++) {
            if (furthest[w] && (furthest[w]->buffer != touch->buffer || furthest[w]->cell != touch->cell))
                furthest[w] = NULL;
            if (!furthest[w] || furthest[w]->end <= touch->first || !(w || touch->writes))
                continue;
            clash = true;
            if (said[0] != furthest[w]->op || said[1] != touch->op)
                report_clash(check, program, furthest[w], touch);
            said[0] = furthest[w]->op;
            said[1] = touch->op;
        }
        if (!furthest[touch->writes] || furthest[touch->writes]->end < touch->end)
            furthest[touch->writes] = touch;
    }
    list->count = 0;
    return !clash;
}

/* The end of a group. What clashes in one part usually does in the other, and is said once. */
static void check_clashes(struct check *check, const struct program *program, struct touch_list parts[2])
{
    if (!sweep_touches(check, program, &parts[0]))
        parts[1].count = 0;
    sweep_touches(check, program, &parts[1]);
}

static void add_touches(const struct check *check, struct touch_list *list, const struct program *program,
                        uint32_t index)
{
    const struct op *op = &program->ops[index];
    uint32_t buffer = *program_reads(program, op);
    struct block block = op_block_for(op, tensor_of(program, buffer));
    bool in_place = block.count && check_has_place_for_all(check, &program->buffers[buffer], block.owner);
    struct cell_range range = cells_range(&check->cells, op->lanes);
    for (uint32_t n = 0; block.count && n < cell_range_count(range); n++) {
        memory_grow(list->items, list->count, list->capacity);
        list->items[list->count++] = (struct touch){.buffer = buffer,
                                                    .cell = cells_at(&check->cells, range, n),
                                                    .first = in_place ? block.first : 0,
                                                    .end = in_place ? block.first + block.count : UINT32_MAX,
                                                    .op = index,
                                                    .writes = op->kind == OP_RECEIVE};
    }
}

/* The groups of one stream: messages only, without a gap, and without clashes. `seen` tells which groups have been met
 * in any stream. */
static void check_groups(struct check *check, const struct program *program, int stream, bool *seen)
{
    struct touch_list parts[2] = {{0}};
    uint32_t group = 0;
    for (uint32_t i = 0; i <= program->n_ops; i++) {
        const struct op *op = i < program->n_ops ? &program->ops[i] : NULL;
        if (op && op->stream != stream)
            continue;
        uint32_t next = op ? op->group : 0;
        if (next != group || !op)
            check_clashes(check, program, parts);
        if (next && next != group) {
            if (seen[next])
                findings_add_op(&check->findings, program, i, "is apart from the rest of its group %" PRIu32, next);
            seen[next] = true;
        }
        group = next;
        if (!group)
            continue;
        if (!op_is_message(op)) {
            findings_add_op(&check->findings, program, i, "is in a group, but no message");
            continue;
        }
        unsigned touched = op_parts_for(op, tensor_of(program, *program_reads(program, op)));
        for (unsigned part = 0; part < 2; part++)
            if (touched >> part & 1)
                add_touches(check, &parts[part], program, i);
    }
    free(parts[0].items);
    free(parts[1].items);
}

void groups_check(struct check *check, const struct program *program)
{
    bool *seen = memory_zeroed((size_t)program->n_groups + 1, sizeof *seen);
    for (int stream = 0; stream < STREAM_COUNT; stream++)
        check_groups(check, program, stream, seen);
    free(seen);
}
