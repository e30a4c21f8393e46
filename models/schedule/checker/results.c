/* results.c - what has come out of a phase.
 *
 * Two independent questions. Coverage: the blocks that were attended are rectangles, queries by keys; those of one
 * query owner may not share a visible pair, and their visible pairs must add up to all that its queries have, counted
 * in closed form from the mask alone. Delivery: each of these blocks must be in its owner's final O and LSE, or dQ, dK
 * and dV, exactly once for every visible pair it has.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/checker/internal.h"
#include "models/schedule/mask.h"

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

static uint64_t visible_pairs(const struct check *check, struct block q, struct block k)
{
    if (q.count == 0 || k.count == 0)
        return 0;
    return mask_block_pairs(&check->schedule->experiment->mask, &check->schedule->sharding, q, k);
}

/* ---- delivery ---- */

/* The pairs of `leaf` that belong to the rows of `piece`, a run of the leaf's rows. */
static uint64_t pairs_in_piece(const struct check *check, const struct leaf *leaf, enum tensor tensor,
                               const struct piece *piece)
{
    const struct op *op = leaf_op(check, leaf);
    struct block rows = op_block_for(op, tensor), part = {piece->owner, piece->first, piece->count};
    if (rows.owner == part.owner && rows.first == part.first && rows.count == part.count)
        return leaf->pairs;
    return tensor_goes_by_keys(tensor) ? visible_pairs(check, op->q, part) : visible_pairs(check, part, op->k);
}

static void report_twice(struct check *check, const struct leaf *leaf, const char *result, uint32_t owner)
{
    findings_add_op(&check->findings, &check->programs[leaf->rank], leaf->op,
                    "is more than once in the final %s of rank %" PRIu32, result, owner);
}

/* Counts what has reached one final result of one owner. */
static void deliver(struct check *check, const struct phase_results *phase, uint32_t which, uint32_t owner,
                    struct leaf_list *once, struct leaf_list *twice)
{
    const struct result *result = &phase->results[which];
    const struct program *program = &check->programs[owner];
    uint32_t buffer = check_resident(program, result->tensor);
    if (buffer == program->n_buffers) {
        if (check->rows[owner])
            findings_add(&check->findings, "rank %" PRIu32 " has no resident %s", owner, result->name);
        return;
    }
    const struct contents *contents = &check->contents[owner][2 * (size_t)buffer + result->part];
    for (uint32_t i = 0; i < contents->count; i++) {
        const struct piece *piece = &contents->pieces[i];
        sums_flatten(&check->sums, piece->sum, once, twice);
        for (uint32_t l = 0; l < once->count; l++) {
            struct leaf *leaf = &check->sums.leaves[once->leaves[l]];
            leaf->delivered[which] += pairs_in_piece(check, leaf, result->tensor, piece);
        }
        for (uint32_t l = 0; l < twice->count; l++)
            if (check->sums.leaves[twice->leaves[l]].pairs)
                report_twice(check, &check->sums.leaves[twice->leaves[l]], result->name, owner);
    }
}

/* Says what of a leaf never arrived: "gives O, LSE that never reach their owner, rank 1". */
static void report_undelivered(struct check *check, const struct phase_results *phase, const struct leaf *leaf)
{
    char names[32] = "", reached[64] = "";
    uint64_t most = 0;
    size_t length = 0;
    uint32_t missing = 0;
    enum tensor tensor = TENSOR_COUNT;
    for (uint32_t r = 0; r < phase->n_results; r++) {
        if (leaf->delivered[r] >= leaf->pairs)
            continue;
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", missing++ ? ", " : "",
                                   phase->results[r].name);
        tensor = phase->results[r].tensor;
        most = leaf->delivered[r] > most ? leaf->delivered[r] : most;
    }
    struct block rows = op_block_for(leaf_op(check, leaf), tensor);
    char owner[32];
    if (rows.owner == BLOCK_ALL)
        snprintf(owner, sizeof owner, "all their owners");
    else
        snprintf(owner, sizeof owner, "their owner, rank %" PRIu32, rows.owner);
    if (most)
        snprintf(reached, sizeof reached, " (%" PRIu64 " of %" PRIu64 " pairs do)", most, leaf->pairs);
    findings_add_op(&check->findings, &check->programs[leaf->rank], leaf->op, "gives %s that never reach %s%s", names,
                    owner, reached);
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
        uint64_t least = leaf->pairs;
        for (uint32_t r = 0; r < phase->n_results; r++)
            least = leaf->delivered[r] < least ? leaf->delivered[r] : least;
        if (least < leaf->pairs)
            report_undelivered(check, phase, leaf);
    }
}

/* ---- coverage ---- */

struct rectangle {
    struct block q, k;
    uint32_t leaf;
};

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
    if (visible_pairs(check, q, k) == 0)
        return;
    const struct leaf *first = &check->sums.leaves[a->leaf], *second = &check->sums.leaves[b->leaf];
    char queries[96], keys[96];
    findings_describe_block(TENSOR_Q, q, queries, sizeof queries);
    findings_describe_block(TENSOR_KV, k, keys, sizeof keys);
    findings_add(&check->findings,
                 "%s, attend %s twice: rank %" PRIu32 ", operation %" PRIu32 ", and rank %" PRIu32
                 ", operation %" PRIu32,
                 queries, keys, first->rank, first->op, second->rank, second->op);
}

/* `rectangles` are one query owner's, sorted: those whose keys may meet are near each other. */
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

/* Says which owners' keys were not attended by all that see them. */
static void report_missing(struct check *check, const struct phase_results *phase, uint32_t owner,
                           const struct rectangle *rectangles, uint32_t count)
{
    struct block queries = {owner, 0, (uint32_t)check->rows[owner]};
    for (uint32_t k = 0; k < check->ranks; k++) {
        struct block keys = {k, 0, (uint32_t)check->rows[k]};
        uint64_t all = visible_pairs(check, queries, keys), attended = 0;
        for (uint32_t i = 0; i < count; i++)
            if (rectangles[i].k.owner == k || rectangles[i].k.owner == BLOCK_ALL)
                attended += visible_pairs(check, rectangles[i].q, common_rows(rectangles[i].k, keys));
        if (attended < all)
            findings_add(&check->findings,
                         "queries of rank %" PRIu32 " and keys of rank %" PRIu32 ": %" PRIu64 " of %" PRIu64
                         " visible pairs are not attended in the %s phase",
                         owner, k, all - attended, all, phase_name(phase->phase));
    }
}

static void check_owner(struct check *check, const struct phase_results *phase, uint32_t owner,
                        struct rectangle *rectangles, uint32_t count)
{
    uint64_t attended = 0;
    for (uint32_t i = 0; i < count; i++)
        attended += check->sums.leaves[rectangles[i].leaf].pairs;
    if (count)
        qsort(rectangles, count, sizeof *rectangles, compare_rectangles);
    uint64_t before = check->findings.count;
    check_overlaps(check, rectangles, count);
    struct block queries = {owner, 0, (uint32_t)check->rows[owner]};
    struct block keys = {BLOCK_ALL, 0, (uint32_t)check->rows_max};
    if (attended != visible_pairs(check, queries, keys) || check->findings.count > before)
        report_missing(check, phase, owner, rectangles, count);
}

static void check_coverage(struct check *check, const struct phase_results *phase)
{
    /* Counting sort of the leaves by the owner of their queries. */
    uint32_t *starts = memory_zeroed((size_t)check->ranks + 2, sizeof *starts);
    for (uint32_t i = phase->first_leaf; i < phase->end_leaf; i++)
        if (check->sums.leaves[i].pairs)
            starts[leaf_op(check, &check->sums.leaves[i])->q.owner + 2]++;
    for (uint32_t owner = 0; owner < check->ranks; owner++)
        starts[owner + 2] += starts[owner + 1];
    struct rectangle *rectangles = memory_zeroed(starts[check->ranks + 1], sizeof *rectangles);
    for (uint32_t i = phase->first_leaf; i < phase->end_leaf; i++) {
        const struct op *op = leaf_op(check, &check->sums.leaves[i]);
        if (check->sums.leaves[i].pairs)
            rectangles[starts[op->q.owner + 1]++] = (struct rectangle){op->q, op->k, i};
    }
    for (uint32_t owner = 0; owner < check->ranks; owner++)
        check_owner(check, phase, owner, rectangles + starts[owner], starts[owner + 1] - starts[owner]);
    free(rectangles);
    free(starts);
}

void results_check(struct check *check, enum phase phase)
{
    struct phase_results results = results_of(check, phase);
    check_coverage(check, &results);
    check_delivery(check, &results);
}
