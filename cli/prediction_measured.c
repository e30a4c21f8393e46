/* prediction_measured.c - the report of a run on this machine, in place of a predicted one. */
#include <stdlib.h>

#include "cli/prediction_parts.h"
#include "hw/rank_programs.h"
#include "models/base/memory.h"

/* Those of a layer are not the predicted ones: collectives are written out, for all ranks of the layout. */
static void take_run_programs(struct prediction *prediction)
{
    const struct schedule *schedule = &prediction->schedule;
    if (schedule->experiment->step.scope == SCOPE_ATTENTION)
        return;
    schedule_free_first(prediction->programs, prediction->n_programs);
    prediction->programs = rank_programs_build(schedule);
    prediction->n_programs = rank_programs_count(schedule);
}

/* Ranks are counted through; a group's are `ranks` of them. Pairs are told of one group. */
static void name_groups(struct report *report, uint32_t ranks)
{
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        report->ranks[i].rank = i % ranks;
        report->ranks[i].group = i / ranks;
    }
    report->visible_pairs /= report->n_ranks / ranks;
}

enum prediction_status prediction_take_run(struct prediction *prediction, struct timeline *timeline,
                                           const struct measured_times *times, double device_bytes,
                                           struct diagnostics *diag)
{
    take_run_programs(prediction);
    const uint32_t ranks = prediction->n_programs;
    prediction->placement = (struct placement){.cp = ranks, .groups = 1, .stride = {0, 1, 0}, .tp = 1};
    prediction->timeline = *timeline;
    prediction->made |= MADE_TIMELINE;
    *timeline = (struct timeline){0};
    free(prediction->topology_name);
    prediction->topology_name = memory_text("(this machine)");
    if (!ensemble_init(&prediction->whole, prediction->programs, ranks, (struct layout){.cp = ranks, .tp = 1, .dp = 1},
                       diag))
        return PREDICTION_FAILED;
    prediction->made |= MADE_ENSEMBLE;
    const struct report_input input = {
        .schedule = &prediction->schedule,
        .ensemble = &prediction->whole,
        .timeline = &prediction->timeline,
        .measured = times,
        .device_bytes = device_bytes,
    };
    if (!report_init(&prediction->report, &input, diag))
        return PREDICTION_FAILED;
    prediction->made |= MADE_REPORT;
    name_groups(&prediction->report, prediction->schedule.ranks);
    return PREDICTION_DONE;
}
