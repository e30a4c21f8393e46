/* checker.c - form, walk, results: the order of the proof; its parts are in checker/. */
#include "models/schedule/checker.h"

#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/checker/internal.h"

uint32_t check_resident(const struct program *program, enum tensor tensor)
{
    uint32_t i = 0;
    while (i < program->n_buffers &&
           !(program->buffers[i].tensor == tensor && program->buffers[i].role == ROLE_RESIDENT))
        i++;
    return i;
}

static void check_init(struct check *check, const struct schedule *schedule, const struct program *programs,
                       struct diagnostics *diag)
{
    *check =
        (struct check){.schedule = schedule, .programs = programs, .ranks = schedule->ranks, .findings.diag = diag};
    check->rows = memory_zeroed(check->ranks, sizeof *check->rows);
    check->contents = memory_zeroed(check->ranks, sizeof *check->contents);
    check->final_o = memory_zeroed(check->ranks, sizeof *check->final_o);
    check->final_lse = memory_zeroed(check->ranks, sizeof *check->final_lse);
    check->rows_max = sharding_rows_max(&schedule->sharding);
    for (uint32_t rank = 0; rank < check->ranks; rank++) {
        check->rows[rank] = sharding_rows(&schedule->sharding, rank);
        check->contents[rank] = memory_zeroed(2 * (size_t)programs[rank].n_buffers, sizeof **check->contents);
    }
    sums_init(&check->sums);
}

static void check_fini(struct check *check)
{
    for (uint32_t rank = 0; rank < check->ranks; rank++) {
        for (uint32_t i = 0; i < 2 * check->programs[rank].n_buffers; i++)
            contents_fini(&check->contents[rank][i]);
        free(check->contents[rank]);
        contents_fini(&check->final_o[rank]);
        contents_fini(&check->final_lse[rank]);
    }
    free(check->rows);
    free(check->contents);
    free(check->final_o);
    free(check->final_lse);
    sums_fini(&check->sums);
}

bool checker_check(const struct schedule *schedule, const struct program *programs, struct diagnostics *diag)
{
    struct check check;
    check_init(&check, schedule, programs, diag);
    if (form_check(&check))
        walk_programs(&check);
    findings_end(&check.findings);
    bool sound = check.findings.count == 0;
    check_fini(&check);
    return sound;
}
