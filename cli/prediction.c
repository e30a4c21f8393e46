/* prediction.c - from a schedule to its report: costs, a plan of all ranks, who is like whom, the engine.
 *
 * A later stage runs only when the earlier ones succeeded. The bits in `made` say what has to be freed, so that fini is
 * right after any failure.
 */
#include "cli/prediction.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/input_cache.h"
#include "cli/passes.h"
#include "cli/prediction_parts.h"
#include "models/base/memory.h"
#include "models/result/micro_batches.h"
#include "sim/fold.h"
#include "sim/interval.h"
#include "sim/plan.h"

bool prediction_is_large(const struct prediction *prediction)
{
    const struct placement *placement = &prediction->placement;
    return (double)placement->cp * placement->groups >= PREDICTION_MANY_RANKS;
}

void prediction_tell_phase(const struct prediction *prediction, const struct question *question, const char *what)
{
    if (question->phase && prediction_is_large(prediction))
        question->phase(question->progress_context, what);
}

/* Of each a moment is kept. */
#define OPERATIONS_RUN_MAX 3e8

const struct ensemble *prediction_ensemble(const struct prediction *prediction)
{
    return prediction->made & MADE_FOLDING ? &prediction->folding.ensemble : &prediction->whole;
}

static bool check_operations(const struct prediction *prediction, struct diagnostics *diag)
{
    const struct ensemble *ensemble = prediction_ensemble(prediction);
    double operations = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        operations += ensemble_program(ensemble, i)->n_ops;
    if (operations <= OPERATIONS_RUN_MAX)
        return true;
    return diagnostics_add(diag,
                           "the %" PRIu32
                           " ranks to simulate have %.2g operations, expected at most %.0g: fewer ranks%s, or "
                           "larger blocks",
                           ensemble->n_instances, operations, OPERATIONS_RUN_MAX,
                           prediction->made & MADE_FOLDING ? " that are not alike" : "");
}

bool prediction_make_costs(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    if (!question->cache && !prediction->kernels)
        prediction->kernels = memory_zeroed(1, sizeof *prediction->kernels);
    struct kernel_memo *kernels = question->cache ? input_cache_kernels(question->cache) : prediction->kernels;
    bool fine = cost_init_kept(&prediction->cost, &prediction->device, &prediction->topology, &prediction->schedule,
                               kernels, diag);
    prediction->cost.without = question->without;
    return fine;
}

static void forget_plan(struct prediction *prediction)
{
    if (prediction->made & MADE_PLAN)
        plan_fini(&prediction->plan);
    prediction->made &= ~(unsigned)MADE_PLAN;
}

/* With more of them the plan of all ranks does not stay while the engine has its own. */
#define WAYS_KEPT_MAX 65536

enum prediction_status prediction_plan_run(struct prediction *prediction, const struct question *question,
                                           struct diagnostics *diag)
{
    const struct placement *placement = &prediction->placement;
    prediction_tell_phase(prediction, question, "planning");
    if (!prediction_make_ensemble(prediction, question, diag))
        return PREDICTION_FAILED;
    /* A plan of all ranks shows that every message has a way, and which ranks are alike. */
    const struct simulation all = {
        .ensemble = &prediction->whole, .cost = &prediction->cost, .placement = placement, .memo = prediction->memo};
    if (!plan_init(&prediction->plan, &all, diag))
        return PREDICTION_BAD_INPUT;
    prediction->made |= MADE_PLAN;
    if (!question->no_fold && prediction->topology.ranks_per_device == 1) {
        prediction_tell_phase(prediction, question, "folding");
        fold_init(&prediction->folding, &prediction->whole, &prediction->plan);
        prediction->made |= MADE_FOLDING;
    }
    prediction->plan.simulation = NULL; /* it is no more */
    if (prediction->plan.n_ways > WAYS_KEPT_MAX)
        forget_plan(prediction);
    return check_operations(prediction, diag) ? PREDICTION_DONE : PREDICTION_BAD_INPUT;
}

enum prediction_status prediction_prepare(struct prediction *prediction, const struct question *question,
                                          struct diagnostics *diag)
{
    enum prediction_status status = prediction_prepare_schedule(prediction, question, diag);
    if (status != PREDICTION_DONE)
        return status;
    if (!prediction_make_costs(prediction, question, diag))
        return PREDICTION_BAD_INPUT;
    return prediction_plan_run(prediction, question, diag);
}

struct report_input prediction_report_input(const struct prediction *prediction)
{
    return (struct report_input){
        .schedule = &prediction->schedule,
        .ensemble = prediction_ensemble(prediction),
        .folding = prediction->made & MADE_FOLDING ? &prediction->folding : NULL,
        .cost = prediction->measured ? NULL : &prediction->cost,
        .placement = prediction->measured ? NULL : &prediction->placement,
        .timeline = &prediction->timeline,
        .facts = prediction->facts,
    };
}

uint32_t prediction_simulated_ranks(const struct prediction *prediction)
{
    return prediction->timeline.n_instances;
}

uint32_t prediction_instance(const struct prediction *prediction, uint32_t place)
{
    return folding_instance(prediction->made & MADE_FOLDING ? &prediction->folding : NULL, place);
}

enum prediction_status prediction_run_engine(struct prediction *prediction, const struct question *question,
                                             struct diagnostics *diag)
{
    /* Passes are added up rank by rank. */
    bool figures_only = question->figures_only && prediction->experiment.step.micro_batches == 1;
    prediction->made |= MADE_TIMELINE;
    prediction_tell_phase(prediction, question, "simulating");
    const struct simulation simulation = {
        .ensemble = prediction_ensemble(prediction),
        .cost = &prediction->cost,
        .placement = &prediction->placement,
        .folding = prediction->made & MADE_FOLDING ? &prediction->folding : NULL,
        .whole = prediction->made & MADE_PLAN ? &prediction->plan : NULL,
        .memo = prediction->memo,
        .spares_moments = figures_only,
        .progress = question->progress,
        .progress_context = question->progress_context,
    };
    if (!question->engine->run(&simulation, &prediction->timeline, diag))
        return PREDICTION_FAILED;
    struct report_input input = prediction_report_input(prediction);
    input.figures_only = figures_only;
    prediction_tell_phase(prediction, question, "adding up");
    if (!report_init(&prediction->report, &input, diag))
        return PREDICTION_FAILED;
    prediction->made |= MADE_REPORT;
    struct interval_seconds interval = {0, 0};
    prediction_tell_phase(prediction, question, "finding the interval");
    if (!question->spares_interval && !interval_of(&simulation, prediction->report.seconds, &interval, diag))
        return PREDICTION_FAILED;
    if (interval.high > 0) {
        prediction->report.seconds_low = interval.low;
        prediction->report.seconds_high = interval.high;
    }
    return PREDICTION_DONE;
}

enum prediction_status prediction_run(struct prediction *prediction, const struct question *question,
                                      struct diagnostics *diag)
{
    uint32_t others = prediction->experiment.step.micro_batches - 1;
    prediction->pass_seconds = 0;
    if (others == 0)
        return prediction_run_engine(prediction, question, diag);
    struct report pass; /* first: it is made in a copy of this process, in which no engine may have run */
    enum prediction_status status = passes_report(prediction, question, &pass, diag);
    if (status != PREDICTION_DONE)
        return status;
    status = prediction_run_engine(prediction, question, diag);
    if (status == PREDICTION_DONE) {
        prediction->pass_seconds = pass.seconds;
        report_add_passes(&prediction->report, &pass, others);
    }
    report_fini(&pass);
    return status;
}

double prediction_drawn_seconds(const struct prediction *prediction)
{
    return prediction->pass_seconds > 0 ? prediction->timeline.phase_end[PHASE_COUNT - 1] : prediction->report.seconds;
}

void prediction_fini(struct prediction *prediction)
{
    forget_plan(prediction);
    if (prediction->made & MADE_REPORT)
        report_fini(&prediction->report);
    if (prediction->made & MADE_TIMELINE)
        timeline_fini(&prediction->timeline);
    if (prediction->made & MADE_FOLDING)
        folding_fini(&prediction->folding);
    if (prediction->made & MADE_ENSEMBLE)
        ensemble_fini(&prediction->whole);
    if (prediction->made & MADE_PROGRAMS)
        schedule_free_first(prediction->programs, prediction->n_programs);
    free(prediction->kernels);
    placement_fini(&prediction->placement);
    if (prediction->made & MADE_SCHEDULE)
        schedule_fini(&prediction->schedule);
    if (prediction->made & MADE_DEVICE)
        device_fini(&prediction->device);
    if (prediction->made & MADE_TOPOLOGY)
        topology_fini(&prediction->topology);
    if (prediction->made & MADE_EXPERIMENT)
        experiment_fini(&prediction->experiment);
    free(prediction->topology_name);
    free(prediction->experiment_name);
    free(prediction->command);
    memset(prediction, 0, sizeof *prediction);
}
