/* results.c - what has come out of a phase.
 *
 * Two independent questions, in every cell alone. Coverage: the blocks that were attended are rectangles, queries by
 * keys; those of one query owner may not share a visible pair, and their visible pairs must add up to all that its
 * queries have, counted in closed form from the mask alone. Rows of ranks and joined rows of groups are not compared
 * with each other: a phase uses the one or the other, for its queries and for its keys. Delivery: each of these blocks
 * must be in its owner's final O and LSE, or dQ, dK and dV, exactly once for every visible pair it has; where all ranks
 * own all queries, in each rank's.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/checker/internal.h"

/* What must be delivered, per phase. */
struct result {
    enum tensor tensor;
    unsigned part;
    const char *name;
};

static const struct result forward_results[] = {{TENSOR_O, 0, "O"}, {TENSOR_LSE, 0, "LSE"}};
static const struct result backward_results[] = {{TENSOR_DQ, 0, "dQ"}, {TENSOR_DKV, 0, "dK"}, {TENSOR_DKV, 1, "dV"}};

struct phase_results {
    const struct result *results;
    uint32_t n_results;
    uint32_t first_leaf, end_leaf;
    enum phase phase;
};

static struct phase_results results_of(const struct check *check, enum phase phase)
{
    if (phase == PHASE_FORWARD)
        return (struct phase_results){forward_results, 2, 0, check->forward_leaves, phase};
    return (struct phase_results){backward_results, 3, check->forward_leaves, check->sums.n_leaves, phase};
}

static const struct op *leaf_op(const struct check *check, const struct leaf *leaf)
{
    return &check->programs[leaf->rank].ops[leaf->op];
}

/* How many ranks must end with a result. */
static uint32_t copies_of(const struct check *check, enum tensor tensor)
{
    return !tensor_goes_by_keys(tensor) && check->schedule->queries == QUERIES_REPLICATED ? check->ranks : 1;
}

/* ---- delivery ---- */

static void report_twice(struct check *check, const struct leaf *leaf, const char *result, uint32_t owner)
{
    char cell[112];
    check_describe_cell(check, leaf->cell, cell, sizeof cell);
    findings_add_op(&check->findings, &check->programs[leaf->rank], leaf->op,
                    "is more than once in the final %s of rank %" PRIu32 "%s", result, owner, cell);
}

/* Counts what has reached one cell of one final result of one owner. */
static void deliver_cell(struct check *check, const struct result *result, uint32_t which, uint32_t owner,
                         const struct contents *contents, struct leaf_list *once, struct leaf_list *twice)
{
    for (uint32_t i = 0; i < contents->count; i++) {
        const struct piece *piece = &contents->pieces[i];
        sums_flatten(&check->sums, piece->sum, once, twice);
        for (uint32_t l = 0; l < once->count; l++) {
            struct leaf *leaf = &check->sums.leaves[once->leaves[l]];
            leaf->delivered[which] += check_leaf_pairs(check, leaf, result->tensor, piece);
        }
        for (uint32_t l = 0; l < twice->count; l++)
            if (check->sums.leaves[twice->leaves[l]].pairs)
                report_twice(check, &check->sums.leaves[twice->leaves[l]], result->name, owner);
    }
}

static void deliver(struct check *check, const struct phase_results *phase, uint32_t which, uint32_t owner,
                    struct leaf_list *once, struct leaf_list *twice)
{
    const struct result *result = &phase->results[which];
    const struct program *program = &check->programs[owner];
    uint32_t buffer = check_resident(program, result->tensor);
    if (buffer == program->n_buffers) {
        if (check_resident_rows(check, owner, result->tensor).count &&
            check_resident_lanes(check, owner, result->tensor).items)
            findings_add(&check->findings, "rank %" PRIu32 " has no resident %s", owner, result->name);
        return;
    }
    const struct holding *holding = &check->holdings[owner][buffer];
    for (uint32_t n = 0; n < cell_range_count(holding->cells); n++)
        deliver_cell(check, result, which, owner, &holding->contents[2 * (size_t)n + result->part], once, twice);
}

/* Says what of a leaf never arrived: "gives O, LSE that never reach their owner, rank 1". */
static void report_undelivered(struct check *check, const struct phase_results *phase, const struct leaf *leaf)
{
    char names[32] = "", reached[64] = "", owner[48], cell[112];
    uint64_t most = 0, all = leaf->pairs;
    size_t length = 0;
    uint32_t missing = 0, copies = 1;
    enum tensor tensor = TENSOR_COUNT;
    for (uint32_t r = 0; r < phase->n_results; r++) {
        copies = copies_of(check, phase->results[r].tensor);
        if (leaf->delivered[r] >= leaf->pairs * copies)
            continue;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", missing++ ? ", " : "",
                                   phase->results[r].name);
        tensor = phase->results[r].tensor;
        all = leaf->pairs * copies;
        most = leaf->delivered[r] > most ? leaf->delivered[r] : most;
    }
    struct block rows = op_block_for(leaf_op(check, leaf), tensor);
    if (rows.owner == BLOCK_ALL || block_is_joined(rows.owner))
        snprintf(owner, sizeof owner, "all their owners");
    else
        snprintf(owner, sizeof owner, "their owner, rank %" PRIu32, rows.owner);
    if (most)
        snprintf(reached, sizeof reached, " (%" PRIu64 " of %" PRIu64 " pairs do)", most, all);
    check_describe_cell(check, leaf->cell, cell, sizeof cell);
    findings_add_op(&check->findings, &check->programs[leaf->rank], leaf->op, "gives %s that never reach %s%s%s", names,
                    owner, reached, cell);
}

static void check_delivery(struct check *check, const struct phase_results *phase)
{
    struct leaf_list once = {0}, twice = {0};
    for (uint32_t which = 0; which < phase->n_results; which++)
        for (uint32_t owner = 0; owner < check->ranks; owner++)
            deliver(check, phase, which, owner, &once, &twice);
    free(once.leaves);
    free(twice.leaves);
    for (uint32_t i = phase->first_leaf; i < phase->end_leaf; i++) {
        const struct leaf *leaf = &check->sums.leaves[i];
        bool all = true;
        for (uint32_t r = 0; r < phase->n_results; r++)
            all = all && leaf->delivered[r] >= leaf->pairs * copies_of(check, phase->results[r].tensor);
        if (!all)
            report_undelivered(check, phase, leaf);
    }
}

/* ---- coverage ---- */

struct rectangle {
    struct block q, k;
    uint32_t leaf;
};

/* Whose rows the blocks of a phase are: ranks' or groups'. */
struct frame {
    bool joined_queries, joined_keys;
};

static uint32_t owners_of(const struct check *check, bool joined)
{
    return joined ? sharding_groups(&check->schedule->sharding) : check->ranks;
}

static uint32_t owner_at(bool joined, uint32_t index)
{
    return joined ? block_joined(index) : index;
}

static int compare_rectangles(const void *left, const void *right)
{
    const struct rectangle *a = left, *b = right;
    if (a->k.owner != b->k.owner)
        return a->k.owner > b->k.owner ? -1 : 1; /* BLOCK_ALL first */
    if (a->k.first != b->k.first)
        return a->k.first < b->k.first ? -1 : 1;
    return a->leaf < b->leaf ? -1 : a->leaf > b->leaf;
}

static struct block common_rows(struct block a, struct block b)
{
    uint32_t first = a.first > b.first ? a.first : b.first;
    uint32_t a_end = a.first + a.count, b_end = b.first + b.count, end = a_end < b_end ? a_end : b_end;
    uint32_t owner = a.owner == BLOCK_ALL ? b.owner : a.owner;
    return (struct block){owner, first, end > first ? end - first : 0};
}

static void check_pair(struct check *check, const struct rectangle *a, const struct rectangle *b)
{
    struct block q = common_rows(a->q, b->q), k = common_rows(a->k, b->k);
    if (check_pairs(check, q, k) == 0)
        return;
    const struct leaf *first = &check->sums.leaves[a->leaf], *second = &check->sums.leaves[b->leaf];
    char queries[96], keys[96], cell[112];
    findings_describe_block(TENSOR_Q, q, queries, sizeof queries);
    findings_describe_block(TENSOR_KV, k, keys, sizeof keys);
    check_describe_cell(check, first->cell, cell, sizeof cell);
    findings_add(&check->findings,
                 "%s, attend %s twice: rank %" PRIu32 ", operation %" PRIu32 ", and rank %" PRIu32
                 ", operation %" PRIu32 "%s",
                 queries, keys, first->rank, first->op, second->rank, second->op, cell);
}

/* `rectangles` are one query owner's in one cell, sorted: those whose keys may meet are near each other. */
static void check_overlaps(struct check *check, const struct rectangle *rectangles, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct rectangle *a = &rectangles[i];
        for (uint32_t j = i + 1; j < count; j++) {
            const struct rectangle *b = &rectangles[j];
            bool same_owner = a->k.owner == b->k.owner;
            if ((!same_owner && a->k.owner != BLOCK_ALL) ||
                (same_owner && a->k.owner != BLOCK_ALL && b->k.first >= a->k.first + a->k.count))
                break;
            check_pair(check, a, b);
        }
    }
}

/* What one owner's queries have attended in one cell. */
struct attended {
    uint32_t owner, cell;
    struct rectangle *rectangles;
    uint32_t count;
};

/* Says which owners' keys were not attended by all that see them. */
static void report_missing(struct check *check, const struct phase_results *phase, struct frame frame,
                           const struct attended *a)
{
    struct block queries = sharding_queries(&check->schedule->sharding, a->owner);
    for (uint32_t i = 0; i < owners_of(check, frame.joined_keys); i++) {
        uint32_t k = owner_at(frame.joined_keys, i);
        struct block keys = {k, 0, (uint32_t)check_rows_of(check, k)};
        uint64_t all = check_pairs(check, queries, keys), attended = 0;
        for (uint32_t r = 0; r < a->count; r++)
            if (a->rectangles[r].k.owner == k || a->rectangles[r].k.owner == BLOCK_ALL)
                attended += check_pairs(check, a->rectangles[r].q, common_rows(a->rectangles[r].k, keys));
        if (attended >= all)
            continue;
        char query_owner[32], key_owner[32], cell[112];
        findings_describe_owner(a->owner, query_owner, sizeof query_owner);
        findings_describe_owner(k, key_owner, sizeof key_owner);
        check_describe_cell(check, a->cell, cell, sizeof cell);
        findings_add(&check->findings,
                     "queries of %s and keys of %s: %" PRIu64 " of %" PRIu64
                     " visible pairs are not attended in the %s phase%s",
                     query_owner, key_owner, all - attended, all, phase_name(phase->phase), cell);
    }
}

static void check_owner(struct check *check, const struct phase_results *phase, struct frame frame,
                        const struct attended *a)
{
    uint64_t attended = 0;
    for (uint32_t i = 0; i < a->count; i++)
        attended += check->sums.leaves[a->rectangles[i].leaf].pairs;
    if (a->count)
        qsort(a->rectangles, a->count, sizeof *a->rectangles, compare_rectangles);
    uint64_t before = check->findings.count;
    check_overlaps(check, a->rectangles, a->count);
    struct block queries = sharding_queries(&check->schedule->sharding, a->owner);
    if (attended != check_all_pairs(check, queries) || check->findings.count > before)
        report_missing(check, phase, frame, a);
}

/* Finds out whose rows the blocks are; false, with a message, when they are not all of one kind. */
static bool find_frame(struct check *check, const struct phase_results *phase, struct frame *frame)
{
    const struct op *first = NULL;
    *frame = (struct frame){.joined_queries = check->schedule->queries != QUERIES_BY_ROW};
    for (uint32_t i = phase->first_leaf; i < phase->end_leaf; i++) {
        const struct leaf *leaf = &check->sums.leaves[i];
        const struct op *op = leaf_op(check, leaf);
        if (!leaf->pairs)
            continue;
        if (!first)
            *frame = (struct frame){block_is_joined(op->q.owner), block_is_joined(op->k.owner)};
        first = first ? first : op;
        bool other_queries = block_is_joined(op->q.owner) != frame->joined_queries;
        if (!other_queries && block_is_joined(op->k.owner) == frame->joined_keys)
            continue;
        findings_add_op(
            &check->findings, &check->programs[leaf->rank], leaf->op,
            "attends %s of a %s, where others of the %s phase attend those of a %s", other_queries ? "queries" : "keys",
            (other_queries ? frame->joined_queries : frame->joined_keys) ? "rank" : "group", phase_name(phase->phase),
            (other_queries ? frame->joined_queries : frame->joined_keys) ? "group" : "rank");
        return false;
    }
    return true;
}

static void check_coverage(struct check *check, const struct phase_results *phase)
{
    struct frame frame;
    if (!find_frame(check, phase, &frame))
        return;
    /* Counting sort of the leaves by the owner of their queries and by cell. */
    uint32_t cells = check->cells.count;
    size_t bins = (size_t)owners_of(check, frame.joined_queries) * cells;
    size_t *starts = memory_zeroed(bins + 2, sizeof *starts);
    for (uint32_t i = phase->first_leaf; i < phase->end_leaf; i++) {
        const struct leaf *leaf = &check->sums.leaves[i];
        if (leaf->pairs)
            starts[(size_t)(leaf_op(check, leaf)->q.owner & ~BLOCK_JOINED) * cells + leaf->cell + 2]++;
    }
    for (size_t bin = 0; bin < bins; bin++)
        starts[bin + 2] += starts[bin + 1];
    struct rectangle *rectangles = memory_zeroed(starts[bins + 1], sizeof *rectangles);
    for (uint32_t i = phase->first_leaf; i < phase->end_leaf; i++) {
        const struct leaf *leaf = &check->sums.leaves[i];
        const struct op *op = leaf_op(check, leaf);
        if (leaf->pairs)
            rectangles[starts[(size_t)(op->q.owner & ~BLOCK_JOINED) * cells + leaf->cell + 1]++] =
                (struct rectangle){op->q, op->k, i};
    }
    for (size_t bin = 0; bin < bins; bin++)
        check_owner(check, phase, frame,
                    &(struct attended){owner_at(frame.joined_queries, (uint32_t)(bin / cells)), (uint32_t)(bin % cells),
                                       rectangles + starts[bin], (uint32_t)(starts[bin + 1] - starts[bin])});
    free(rectangles);
    free(starts);
}

void results_check(struct check *check, enum phase phase)
{
    struct phase_results results = results_of(check, phase);
    check_coverage(check, &results);
    check_delivery(check, &results);
}
