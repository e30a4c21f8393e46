/* explain.c - the changes first, in processes of their own, then the run whose path is walked: an engine that can run
 * once in a process must not have run in the parent of others.
 */
#include "cli/explain.h"

#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "sim/path_costs.h"

static bool find_path(struct explanation *explanation, struct diagnostics *diag)
{
    struct prediction *prediction = &explanation->prediction;
    const struct report_input input = prediction_report_input(prediction);
    const struct simulation simulation = {
        .ensemble = input.ensemble,
        .cost = &prediction->cost,
        .placement = &prediction->placement,
        .folding = input.folding,
    };
    struct plan plan;
    if (!plan_init(&plan, &simulation, diag))
        return false;
    path_of_simulation(&explanation->path, &plan, &prediction->whole, &prediction->timeline);
    plan_fini(&plan);
    return true;
}

static void add_up(struct explanation *explanation)
{
    const struct prediction *prediction = &explanation->prediction;
    explanation->level_seconds = memory_zeroed(prediction->topology.n_levels, sizeof(double));
    explanation->rank_seconds = memory_zeroed(prediction->whole.n_instances, sizeof(double));
    for (size_t i = 0; i < explanation->path.count; i++) {
        const struct path_piece *piece = &explanation->path.pieces[i];
        const double *seconds = piece->seconds;
        for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
            explanation->seconds[piece->phase][kind] += seconds[kind];
        explanation->rank_seconds[piece->activity.instance] += piece->end - piece->begin;
        if (explanation->ways[i].is_message)
            explanation->level_seconds[explanation->ways[i].level] +=
                seconds[PATH_LATENCY] + seconds[PATH_TRANSFER] + seconds[PATH_SHARED];
    }
}

/* Shortest first, in the order of the list among equals. */
static void sort_changes(struct explanation *explanation)
{
    const struct change *changes = explanation->changes.items;
    explanation->order = memory_zeroed(explanation->changes.count, sizeof *explanation->order);
    for (size_t i = 0; i < explanation->changes.count; i++) {
        if (changes[i].refused)
            continue;
        size_t at = explanation->n_ran++;
        for (; at > 0 && changes[explanation->order[at - 1]].seconds > changes[i].seconds; at--)
            explanation->order[at] = explanation->order[at - 1];
        explanation->order[at] = i;
    }
}

enum prediction_status explanation_run(struct explanation *explanation, const struct question *question, uint32_t jobs,
                                       struct diagnostics *diag)
{
    *explanation = (struct explanation){.n_ran = 0};
    struct prediction *prediction = &explanation->prediction;
    enum prediction_status status = prediction_prepare(prediction, question, diag);
    if (status != PREDICTION_DONE)
        return status;
    if (prediction->experiment.step.micro_batches > 1) {
        experiment_complain(&prediction->experiment, "step", "micro_batches", diag,
                            "'micro_batches' = %" PRIu32 ": --explain explains one forward and backward pass, "
                            "expected micro_batches = 1",
                            prediction->experiment.step.micro_batches);
        return PREDICTION_BAD_INPUT;
    }
    const struct constant_holders holders = {&prediction->device, &prediction->topology,
                                             &prediction->experiment.implementation};
    constants_init(&explanation->constants, &holders, &prediction->cost, 1);
    changes_init(&explanation->changes, prediction, &explanation->constants, question->without);
    const struct change_runs runs = {prediction, question, &explanation->constants, jobs};
    if (!changes_run(&explanation->changes, &runs, &explanation->signal, diag))
        return PREDICTION_FAILED;
    struct question alone = *question;
    alone.progress = NULL;
    alone.spares_interval = true;
    status = prediction_run(prediction, &alone, diag);
    if (status != PREDICTION_DONE)
        return status;
    if (!(prediction->report.seconds > 0)) {
        diagnostics_add(diag, "the step takes no time, so there is nothing to explain");
        return PREDICTION_FAILED;
    }
    if (!find_path(explanation, diag))
        return PREDICTION_FAILED;
    explanation->ways = piece_ways(&explanation->path, prediction);
    chain_init(&explanation->chain, &explanation->path, explanation->ways, prediction);
    add_up(explanation);
    sort_changes(explanation);
    return PREDICTION_DONE;
}

void explanation_fini(struct explanation *explanation)
{
    step_path_fini(&explanation->path);
    chain_fini(&explanation->chain);
    changes_fini(&explanation->changes);
    constants_fini(&explanation->constants);
    free(explanation->ways);
    free(explanation->level_seconds);
    free(explanation->rank_seconds);
    free(explanation->order);
    prediction_fini(&explanation->prediction);
}

double explanation_gain(const struct explanation *explanation, const struct change *change)
{
    return 1 - change->seconds / explanation->prediction.report.seconds;
}
