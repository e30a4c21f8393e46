/* prediction_pass.c - a pass of a step before its last: programs of its own, all else the whole prediction's. */
#include "cli/input_cache.h"
#include "cli/prediction_parts.h"
#include "models/schedule/layers/layers_checker.h"

/* Builds the programs of such a pass of `prediction`, whose files and placement it has in common, and whose attention
 * was proved. */
static enum prediction_status prepare_pass(struct prediction *pass, const struct prediction *prediction,
                                           const struct question *question, struct diagnostics *diag)
{
    struct diagnostics said; /* that keys have no effect was */
    diagnostics_init(&said);
    bool fine = schedule_init(&pass->schedule, &prediction->experiment, &said, diag);
    diagnostics_fini(&said);
    if (!fine)
        return PREDICTION_BAD_INPUT;
    pass->made |= MADE_SCHEDULE;
    pass->schedule.accumulates = true;
    placement_permute(&pass->placement, pass->schedule.place_of_rank);
    prediction_find_nodes(pass);
    pass->n_programs = schedule_period(&pass->schedule);
    pass->programs = schedule_build_first(&pass->schedule, pass->n_programs);
    pass->made |= MADE_PROGRAMS;
    if (!layers_prove(&pass->schedule, pass->programs, diag))
        return PREDICTION_FAILED;
    return prediction_make_costs(pass, question, diag) ? prediction_plan_run(pass, question, diag)
                                                       : PREDICTION_BAD_INPUT;
}

enum prediction_status prediction_run_pass(const struct prediction *prediction, const struct question *question,
                                           struct report *report, struct diagnostics *diag)
{
    struct question asked = *question;
    asked.cache = NULL; /* which knows schedules by the experiment alone */
    struct prediction pass = {
        .experiment = prediction->experiment,
        .topology = prediction->topology,
        .device = prediction->device,
        .placement = prediction->placement,
        .engine = prediction->engine,
    };
    enum prediction_status status = prepare_pass(&pass, prediction, &asked, diag);
    if (status == PREDICTION_DONE)
        status = prediction_run_engine(&pass, &asked, diag);
    if (status == PREDICTION_DONE) {
        *report = pass.report;
        pass.made &= ~(unsigned)MADE_REPORT;
    }
    pass.placement = (struct placement){0}; /* the prediction's */
    prediction_fini(&pass);
    return status;
}
