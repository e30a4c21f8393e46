/* walk_copies.c - what buffers hold, and the operations that move numbers without changing them: messages, and layout
 * copies, whose two sides differ in lanes or in whose rows they count. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hw/verify/walk.h"
#include "models/base/memory.h"

/* ---- what a buffer holds ---- */

static bool is_read(const struct program *program, const struct op *op, uint32_t buffer)
{
    const uint32_t *reads = program_reads(program, op);
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (reads[i] == buffer)
            return true;
    return false;
}

static bool complain(const struct walk *walk, uint32_t rank, const struct op *op, const char *verb, const char *what,
                     uint32_t buffer, struct diagnostics *diag)
{
    const struct program *program = &walk->programs[rank];
    char text[256];
    program_describe_op(program, (uint32_t)(op - program->ops), text, sizeof text);
    return diagnostics_add(diag, "rank %" PRIu32 ": '%s' %s %s that buffer '%s' does not hold", rank, text, verb, what,
                           program->buffers[buffer].name);
}

static bool holds(const struct walk *walk, const struct view *view)
{
    for (size_t i = 0; i < view->count; i++)
        for (uint32_t lane = 0; lane < lanes_count(view->lanes); lane++)
            if (*walk_held(walk, view, i, lane) != (int64_t)view->positions[i])
                return false;
    return true;
}

/* Other rows than were there are NaN until they are written. */
static void make_room(const struct walk *walk, const struct view *view)
{
    size_t numbers = walk->holdings[view->rank][view->buffer].numbers;
    for (size_t i = 0; i < view->count; i++) {
        for (uint32_t lane = 0; lane < lanes_count(view->lanes); lane++) {
            double *at = walk_lane(walk, view, i, lane);
            int64_t *held = walk_held(walk, view, i, lane);
            for (size_t n = 0; *held != (int64_t)view->positions[i] && n < numbers; n++)
                at[n] = NAN;
            *held = (int64_t)view->positions[i];
        }
    }
}

bool walk_claim(struct walk *walk, uint32_t rank, const struct op *op, struct diagnostics *diag)
{
    const struct program *program = &walk->programs[rank];
    bool slices = op->kind == OP_SPLIT_LANES || op->kind == OP_JOIN_LANES;
    struct access_walk accesses;
    struct access access;
    accesses_begin(&accesses, walk->schedule, program, op);
    while (accesses_next(&accesses, &access)) {
        const char *verb = access.write ? "writes" : "reads";
        if (!slices && !lanes_equal(access.lanes, op->lanes))
            return complain(walk, rank, op, verb, "lanes", access.buffer, diag);
        if (access.block.count > program->buffers[access.buffer].rows)
            return complain(walk, rank, op, verb, "rows", access.buffer, diag);
        const struct view view = walk_view(walk, rank, &access);
        bool needed = !access.write || is_read(program, op, access.buffer);
        if (needed && !holds(walk, &view))
            return complain(walk, rank, op, verb, "rows", access.buffer, diag);
    }
    accesses_begin(&accesses, walk->schedule, program, op);
    while (accesses_next(&accesses, &access)) {
        const struct view view = walk_view(walk, rank, &access);
        if (access.write)
            make_room(walk, &view);
    }
    return true;
}

/* ---- layout copies ---- */

/* Copies what `part` has in common with `whole`, row for row by position, one way or the other. `added_to`: per row and
 * lane of `whole`, whether a slice is there already, to which the next is added; NULL: the next takes its place. */
static void copy_part(const struct walk *walk, const struct view *whole, const struct view *part, bool into_part,
                      bool *added_to)
{
    size_t numbers = walk->holdings[part->rank][part->buffer].numbers, n_lanes = lanes_count(whole->lanes);
    for (size_t i = 0, row = 0; i < part->count; i++) {
        while (row < whole->count && whole->positions[row] != part->positions[i])
            row++;
        assert(row < whole->count); /* both sides are in order of position */
        for (uint32_t lane = 0; lane < n_lanes; lane++) {
            uint32_t item = whole->lanes.item + lane / whole->lanes.heads;
            uint32_t head = whole->lanes.head + lane % whole->lanes.heads;
            if (!lanes_within((struct lanes){head, 1, item, 1}, part->lanes))
                continue;
            double *outer = walk_lane(walk, whole, row, lane), *inner = walk_at(walk, part, i, item, head);
            bool *there = added_to ? &added_to[row * n_lanes + lane] : NULL;
            for (size_t n = 0; n < numbers; n++) {
                if (into_part)
                    inner[n] = outer[n];
                else
                    outer[n] = there && *there ? outer[n] + inner[n] : inner[n];
            }
            if (there)
                *there = true;
        }
    }
}

void walk_layout(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct program *program = &walk->programs[rank];
    bool splits = op->kind == OP_SPLIT_LANES || op->kind == OP_SPLIT_ROWS;
    const struct access one = access_of(walk->schedule, program, op, !splits, 0);
    const struct view whole = walk_view(walk, rank, &one);
    struct holding *holdings = walk->holdings[rank];
    bool adds = op->kind == OP_JOIN_LANES && program->buffers[one.buffer].tensor == TENSOR_DKV;
    bool *added_to = adds ? memory_zeroed(whole.count * lanes_count(whole.lanes), sizeof *added_to) : NULL;
    struct access_walk accesses;
    struct access access;
    accesses_begin(&accesses, walk->schedule, program, op);
    while (accesses_next(&accesses, &access)) {
        if (access.write != splits)
            continue;
        const struct view part = walk_view(walk, rank, &access);
        copy_part(walk, &whole, &part, splits, added_to);
        if (splits)
            holdings[part.buffer].attended = holdings[one.buffer].attended;
        else
            holdings[one.buffer].attended = holdings[part.buffer].attended;
    }
    free(added_to);
}

/* ---- messages ---- */

bool walk_message(struct walk *walk, uint32_t rank, const struct op *send, uint32_t receive_index,
                  struct diagnostics *diag)
{
    const struct program *from = &walk->programs[rank], *to = &walk->programs[send->peer];
    const struct op *receive = &to->ops[receive_index];
    if (!walk_claim(walk, send->peer, receive, diag))
        return false;
    const struct access source = access_of(walk->schedule, from, send, false, 0);
    const struct access target = access_of(walk->schedule, to, receive, true, 0);
    if (memcmp(&source.block, &target.block, sizeof source.block) != 0 || !lanes_equal(source.lanes, target.lanes) ||
        send->part != receive->part || from->buffers[source.buffer].tensor != to->buffers[target.buffer].tensor)
        return diagnostics_add(diag, "rank %" PRIu32 " sends other rows than rank %" PRIu32 " expects in buffer '%s'",
                               rank, send->peer, to->buffers[target.buffer].name);
    const struct view out = walk_view(walk, rank, &source), in = walk_view(walk, send->peer, &target);
    size_t numbers = walk->holdings[rank][source.buffer].numbers, first = 0, count = numbers;
    if (tensor_goes_by_keys((enum tensor)from->buffers[source.buffer].tensor) && send->part != PART_ALL) {
        first = send->part == PART_V ? numbers / 2 : 0;
        count = numbers / 2;
    }
    for (size_t i = 0; i < out.count; i++)
        for (uint32_t lane = 0; lane < lanes_count(out.lanes); lane++)
            memcpy(walk_lane(walk, &in, i, lane) + first, walk_lane(walk, &out, i, lane) + first,
                   count * sizeof(double));
    walk->holdings[send->peer][target.buffer].attended = walk->holdings[rank][source.buffer].attended;
    return true;
}
