/* checker.c - form, walk, results: the order of the proof; its parts are in checker/. */
#include "models/schedule/checker.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/checker/internal.h"
#include "models/schedule/mask.h"

uint32_t check_resident(const struct program *program, enum tensor tensor)
{
    uint32_t i = 0;
    while (i < program->n_buffers &&
           !(program->buffers[i].tensor == tensor && program->buffers[i].role == ROLE_RESIDENT))
        i++;
    return i;
}

void check_describe_cell(const struct check *check, uint32_t cell, char *text, size_t size)
{
    char lanes[96];
    snprintf(text, size, "%s", "");
    if (check->cells.count < 2)
        return;
    findings_describe_lanes(cells_lanes(&check->cells, cell), lanes, sizeof lanes);
    snprintf(text, size, " (%s)", lanes);
}

/* ---- pairs ---- */

uint64_t check_pairs(const struct check *check, struct block q, struct block k)
{
    if (q.count == 0 || k.count == 0)
        return 0;
    return mask_block_pairs(&check->schedule->experiment->mask, &check->schedule->sharding, q, k);
}

uint64_t check_all_pairs(const struct check *check, struct block q)
{
    const struct sharding *sharding = &check->schedule->sharding;
    struct span spans[SHARD_SPANS_MAX], keys = {0, 1, sharding->seq_len};
    uint32_t n_spans = q.count ? sharding_block_spans(sharding, q, spans) : 0;
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < n_spans; i++)
        pairs += mask_pairs(&check->schedule->experiment->mask, spans[i], keys);
    return pairs;
}

uint64_t check_leaf_pairs(const struct check *check, const struct leaf *leaf, enum tensor tensor,
                          const struct piece *piece)
{
    const struct op *op = &check->programs[leaf->rank].ops[leaf->op];
    struct block rows = op_block_for(op, tensor), part = {piece->owner, piece->first, piece->count};
    if (rows.owner == part.owner && rows.first == part.first && rows.count == part.count)
        return leaf->pairs;
    return tensor_goes_by_keys(tensor) ? check_pairs(check, op->q, part) : check_pairs(check, part, op->k);
}

/* ---- the whole ---- */

static void check_init(struct check *check, const struct schedule *schedule, const struct program *programs,
                       struct diagnostics *diag)
{
    *check =
        (struct check){.schedule = schedule, .programs = programs, .ranks = schedule->ranks, .findings.diag = diag};
    check->rows = memory_zeroed(check->ranks, sizeof *check->rows);
    check->rows_max = sharding_rows_max(&schedule->sharding);
    for (uint32_t rank = 0; rank < check->ranks; rank++)
        check->rows[rank] = sharding_rows(&schedule->sharding, rank);
    sums_init(&check->sums);
}

/* Of programs whose form is sound. */
static void divide_lanes(struct check *check)
{
    cells_init(&check->cells, check->schedule->lanes);
    for (uint32_t rank = 0; rank < check->ranks; rank++) {
        const struct program *program = &check->programs[rank];
        for (uint32_t i = 0; i < program->n_buffers; i++)
            cells_cut(&check->cells, program->buffers[i].lanes);
        for (uint32_t i = 0; i < program->n_ops; i++)
            cells_cut(&check->cells, program->ops[i].lanes);
    }
    cells_count(&check->cells);
}

/* Contents of one buffer. Where all lanes are one cell, buffers without lanes have them too, so that their place
 * follows from the buffer's index (check_contents). */
static uint32_t contents_count(const struct check *check, struct cell_range range)
{
    return check->cells.count == 1 ? 2 : 2 * cell_range_count(range);
}

/* Empty contents for every buffer. */
static void make_contents(struct check *check)
{
    check->holdings = memory_zeroed(check->ranks, sizeof *check->holdings);
    check->contents = memory_zeroed(check->ranks, sizeof *check->contents);
    check->n_contents = memory_zeroed(check->ranks, sizeof *check->n_contents);
    for (uint32_t rank = 0; rank < check->ranks; rank++) {
        const struct program *program = &check->programs[rank];
        struct holding *holdings = memory_zeroed(program->n_buffers, sizeof *holdings);
        uint32_t count = 0;
        for (uint32_t i = 0; i < program->n_buffers; i++) {
            holdings[i].cells = cells_range(&check->cells, program->buffers[i].lanes);
            count += contents_count(check, holdings[i].cells);
        }
        struct contents *next = memory_zeroed(count, sizeof *next);
        check->holdings[rank] = holdings;
        check->contents[rank] = next;
        check->n_contents[rank] = count;
        for (uint32_t i = 0; i < program->n_buffers; i++) {
            holdings[i].contents = next;
            next += contents_count(check, holdings[i].cells);
        }
    }
    size_t finals = (size_t)check->ranks * check->cells.count;
    check->final_o = memory_zeroed(finals, sizeof *check->final_o);
    check->final_lse = memory_zeroed(finals, sizeof *check->final_lse);
}

static void free_contents(struct check *check)
{
    if (!check->holdings)
        return;
    for (uint32_t rank = 0; rank < check->ranks; rank++) {
        for (uint32_t i = 0; i < check->n_contents[rank]; i++)
            contents_fini(&check->contents[rank][i]);
        free(check->holdings[rank]);
        free(check->contents[rank]);
    }
    for (size_t i = 0; i < (size_t)check->ranks * check->cells.count; i++) {
        contents_fini(&check->final_o[i]);
        contents_fini(&check->final_lse[i]);
    }
    free(check->holdings);
    free(check->contents);
    free(check->n_contents);
    free(check->final_o);
    free(check->final_lse);
}

static void check_fini(struct check *check)
{
    free_contents(check);
    cells_fini(&check->cells);
    free(check->rows);
    sums_fini(&check->sums);
}

static void prove(struct check *check)
{
    if (!form_check(check))
        return;
    divide_lanes(check);
    for (uint32_t rank = 0; rank < check->ranks; rank++)
        groups_check(check, &check->programs[rank]);
    collectives_check(check);
    if (check->findings.count)
        return;
    make_contents(check);
    walk_programs(check);
}

bool checker_check(const struct schedule *schedule, const struct program *programs, struct diagnostics *diag)
{
    struct check check;
    check_init(&check, schedule, programs, diag);
    prove(&check);
    findings_end(&check.findings);
    bool sound = check.findings.count == 0;
    check_fini(&check);
    return sound;
}
