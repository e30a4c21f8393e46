/* combine.c - what attention needs beyond blocks being there: backward, the final O and LSE; partial results that are
 * scaled before they are summed, a scale that is the same for all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/checker/rows.h"
#include "models/schedule/checker/walk.h"

/* ---- the final O and LSE ---- */

/* Replaces `w->final` by what their owners ended with for `rows`: a rank's, or the ranks' of a group. */
static void read_final(struct walk *w, const struct contents *finals, struct block rows)
{
    const struct schedule *schedule = w->check->schedule;
    const struct sharding *sharding = &schedule->sharding;
    uint32_t cells = w->check->cells.count;
    if (schedule->queries != QUERIES_BY_ROW || !block_is_joined(rows.owner)) {
        uint32_t rank = schedule->queries == QUERIES_BY_ROW ? rows.owner : w->rank;
        contents_read(&finals[(size_t)rank * cells + w->cell], rows, &w->final);
        return;
    }
    w->parts.count = 0;
    for (uint32_t member = 0; member < sharding->joined; member++) {
        uint32_t rank = sharding_group_rank(sharding, rows.owner & ~BLOCK_JOINED, member);
        struct block part = sharding_part(sharding, rows, rank);
        if (!part.count)
            continue;
        contents_read(&finals[(size_t)rank * cells + w->cell], part, &w->final);
        contents_extend(&w->parts, &w->final);
    }
    rows_join(sharding, rows, &w->parts, &w->final);
}

/* Complains unless `run`, of the rows `rows`, is derived from the final O or LSE of their owner. */
static void require_final(struct walk *w, uint32_t buffer, struct block rows, const struct contents *finals,
                          const struct contents *run)
{
    read_final(w, finals, rows);
    for (uint32_t i = 0, j = 0; i < run->count && j < w->final.count;) {
        const struct piece *a = &run->pieces[i], *b = &w->final.pieces[j];
        if (a->sum != b->sum) {
            char owner[32];
            findings_describe_owner(rows.owner, owner, sizeof owner);
            walk_complain(w, "reads '%s' with less or other keys in it than the final one of %s",
                          walk_buffer(w, buffer)->name, owner);
            return;
        }
        uint32_t a_end = a->first + a->count, b_end = b->first + b->count;
        i += a_end <= b_end;
        j += b_end <= a_end;
    }
}

void walk_read_operands(struct walk *w)
{
    struct access_walk accesses;
    struct access access;
    accesses_begin(&accesses, w->check->schedule, walk_program(w), walk_op(w));
    while (accesses_next(&accesses, &access) && !access.write) {
        enum tensor tensor = tensor_of(walk_program(w), access.buffer);
        unsigned parts = walk_parts(w, access.buffer);
        for (unsigned part = 0; part < 2; part++) {
            if (!(parts >> part & 1) || !walk_read(w, access.buffer, part, access.block, &w->source))
                continue;
            if (tensor == TENSOR_LSE)
                require_final(w, access.buffer, access.block, w->check->final_lse, &w->source);
            else if (tensor == TENSOR_DELTA || tensor == TENSOR_O)
                require_final(w, access.buffer, access.block, w->check->final_o, &w->source);
        }
    }
}

void walk_delta(struct walk *w)
{
    walk_read_operands(w);
    struct block rows = walk_op(w)->q;
    uint32_t o = walk_find_read(w, TENSOR_O), target = *program_writes(walk_program(w), walk_op(w));
    contents_read(check_contents(w->check, w->rank, o, 0, w->cell), rows, &w->source);
    walk_write(w, target, 0, rows, &w->source);
}

/* ---- scales ---- */

/* Room to remember something of node `node`. */
static struct block *complete_rows(struct walk *w, uint32_t node)
{
    if (node >= w->n_complete) {
        uint32_t count = w->check->sums.n_nodes;
        w->complete = memory_resized(w->complete, count, sizeof *w->complete);
        memset(w->complete + w->n_complete, 0, (count - w->n_complete) * sizeof *w->complete);
        w->n_complete = count;
    }
    return &w->complete[node];
}

/* Whether a piece of queries has every pair that its rows see; with `once`, none of them twice. */
static bool is_complete(struct walk *w, const struct piece *piece, bool once)
{
    struct block rows = {piece->owner, piece->first, piece->count};
    struct block *known = complete_rows(w, piece->sum);
    if (known->count && known->owner == rows.owner && known->first <= rows.first &&
        rows.first + rows.count <= known->first + known->count)
        return true;
    sums_flatten(&w->check->sums, piece->sum, &w->once, &w->twice);
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < w->once.count; i++)
        pairs += check_leaf_pairs(w->check, &w->check->sums.leaves[w->once.leaves[i]], TENSOR_Q, piece);
    for (uint32_t i = 0; once && i < w->twice.count; i++)
        if (w->check->sums.leaves[w->twice.leaves[i]].pairs)
            return false;
    if (pairs != check_all_pairs(w->check, rows))
        return false;
    if (once || !w->twice.count)
        *known = rows;
    return true;
}

void walk_require_all_keys(struct walk *w, uint32_t buffer)
{
    const struct buffer *scale = walk_buffer(w, buffer);
    if (!walk_read(w, buffer, 0, walk_op(w)->q, &w->other))
        return;
    for (uint32_t i = 0; i < w->other.count; i++)
        if (!is_complete(w, &w->other.pieces[i], scale->tensor != TENSOR_TOP)) {
            walk_complain(w, "is scaled by '%s', which is not of all keys that its queries see%s", scale->name,
                          scale->tensor == TENSOR_TOP ? "" : ", each once");
            return;
        }
}

static int compare_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

/* The leaves of a sum in order, those that it has twice at the end. */
static void list_leaves(struct walk *w, uint32_t sum, struct leaf_list *leaves)
{
    sums_flatten(&w->check->sums, sum, leaves, &w->twice);
    if (leaves->count)
        qsort(leaves->leaves, leaves->count, sizeof *leaves->leaves, compare_numbers);
    for (uint32_t i = 0; i < w->twice.count; i++) {
        memory_grow(leaves->leaves, leaves->count, leaves->capacity);
        leaves->leaves[leaves->count++] = w->twice.leaves[i];
    }
}

static bool same_leaves(struct walk *w, uint32_t a, uint32_t b)
{
    if (a == b)
        return true;
    list_leaves(w, a, &w->once);
    list_leaves(w, b, &w->leaves);
    return w->once.count == w->leaves.count &&
           (w->once.count == 0 ||
            memcmp(w->once.leaves, w->leaves.leaves, w->once.count * sizeof *w->once.leaves) == 0);
}

void walk_require_same_keys(struct walk *w, uint32_t numerator, uint32_t denominator)
{
    struct block rows = walk_op(w)->q;
    if (!walk_read(w, numerator, 0, rows, &w->source) || !walk_read(w, denominator, 0, rows, &w->other))
        return;
    for (uint32_t i = 0, j = 0; i < w->source.count && j < w->other.count;) {
        const struct piece *a = &w->source.pieces[i], *b = &w->other.pieces[j];
        if (!same_leaves(w, a->sum, b->sum)) {
            walk_complain(w, "divides by '%s', which is of other keys than its numerator",
                          walk_buffer(w, denominator)->name);
            return;
        }
        uint32_t a_end = a->first + a->count, b_end = b->first + b->count;
        i += a_end <= b_end;
        j += b_end <= a_end;
    }
}
