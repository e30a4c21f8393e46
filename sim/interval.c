/* interval.c - the same simulation with one constant after the other at the fast, and at the slow end of its spread.
 *
 * Where the programs' order is all that the engine goes by (critical_path.h), that order and the plan are made once,
 * and only the seconds that a constant multiplies are made anew.
 */
#include "sim/interval.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "sim/critical_path.h"
#include "sim/fold.h"
#include "sim/plan_memo.h"

/* Runs of one simulation. */
struct runs {
    struct simulation simulation;
    struct cost cost;
    struct plan plan;              /* in the middle */
    const struct run_order *order; /* NULL: not by order */
    struct run_order own;          /* where no memo has one */
    struct step_times *times;      /* by order: each step its own, with room for what they were and for moved seconds */
    uint32_t *time_of;
    struct interval *spans;
    double **seconds;
};

/* When the host has issued what follows from all seconds: too seldom a case to spare. */
static const struct run_order *find_order(struct runs *runs)
{
    struct plan_memo *memo = runs->simulation.memo;
    if (!critical_path_goes_by_order(&runs->plan) || !critical_path_applies(&runs->plan))
        return NULL;
    const struct order_times *times; /* in the middle */
    if (memo)
        return plan_memo_order(memo, &runs->plan, &times);
    struct execution *execution = execution_of(runs->simulation.ensemble);
    bool found = run_order_init(&runs->own, execution);
    execution_destroy(execution);
    return found ? &runs->own : NULL;
}

static bool runs_init(struct runs *runs, const struct simulation *simulation, struct diagnostics *diag)
{
    const struct ensemble *ensemble = simulation->ensemble;
    *runs = (struct runs){.simulation = *simulation, .cost = *simulation->cost};
    runs->cost.end = COST_MIDDLE;
    runs->simulation.cost = &runs->cost;
    runs->simulation.progress = NULL;
    runs->simulation.spares_moments = false;
    if (!plan_init(&runs->plan, &runs->simulation, diag))
        return false;
    runs->order = find_order(runs);
    if (!runs->order)
        return true;
    runs->times = memory_zeroed(runs->order->n_steps, sizeof *runs->times);
    runs->time_of = memory_zeroed(runs->order->n_steps, sizeof *runs->time_of);
    for (uint32_t i = 0; i < runs->order->n_steps; i++)
        runs->time_of[i] = i;
    runs->spans = memory_zeroed(runs->order->n_steps, sizeof *runs->spans);
    runs->seconds = memory_zeroed(ensemble->n_shapes, sizeof *runs->seconds);
    for (uint32_t s = 0; s < ensemble->n_shapes; s++)
        runs->seconds[s] = memory_zeroed(ensemble->shapes[s].program->n_ops, sizeof *runs->seconds[s]);
    return true;
}

static void runs_fini(struct runs *runs)
{
    for (uint32_t s = 0; runs->order && s < runs->simulation.ensemble->n_shapes; s++)
        free(runs->seconds[s]);
    free(runs->seconds);
    free(runs->times);
    free(runs->time_of);
    free(runs->spans);
    run_order_fini(&runs->own);
    plan_fini(&runs->plan);
}

/* The times of all steps with the costs as they are now. */
static void fill_in(struct runs *runs)
{
    const struct ensemble *ensemble = runs->simulation.ensemble;
    for (uint32_t s = 0; s < ensemble->n_shapes; s++) {
        const struct program *program = ensemble->shapes[s].program;
        for (uint32_t i = 0; i < program->n_ops; i++)
            if (!op_is_message(&program->ops[i]))
                runs->seconds[s][i] =
                    cost_op_moved_seconds(&runs->cost, program, &program->ops[i], runs->plan.locals->seconds[s][i]);
    }
    for (uint32_t i = 0; i < runs->order->n_steps; i++) {
        const struct ordered_step *step = &runs->order->steps[i];
        struct step_times *times = &runs->times[i];
        if (!step->counts)
            continue;
        if (step->sends) {
            const struct path *path = plan_path(&runs->plan, step->activity);
            *times = path_times(path, cost_message_factor(&runs->cost, &path->cost),
                                plan_op(&runs->plan, step->activity)->bytes);
        } else {
            uint32_t instance = step->activity.instance;
            times->seconds = runs->seconds[ensemble->instances[instance].shape][step->activity.op] /
                             plan_speed(&runs->plan, instance);
        }
    }
}

static bool run_anew(struct runs *runs, double *seconds, struct diagnostics *diag)
{
    struct simulation simulation = runs->simulation;
    struct timeline timeline = {0};
    bool good = engine_analytic.run(&simulation, &timeline, diag);
    *seconds = timeline.phase_end[PHASE_COUNT - 1];
    timeline_fini(&timeline);
    return good;
}

/* The step's seconds with the constant `moved` at `end`. */
static bool run_at(struct runs *runs, enum cost_end end, uint32_t moved, double *seconds, struct diagnostics *diag)
{
    runs->cost.end = end;
    runs->cost.moved = 1U << moved;
    if (!runs->order)
        return run_anew(runs, seconds, diag);
    fill_in(runs);
    double phase_end[PHASE_COUNT];
    run_order_run(runs->order, runs->times, runs->time_of, runs->spans, phase_end);
    *seconds = phase_end[PHASE_COUNT - 1];
    return true;
}

static bool has_spread(const struct cost *cost)
{
    for (uint32_t constant = 0; constant < cost_constants(cost); constant++)
        if (cost_spread(cost, constant) > 0)
            return true;
    return false;
}

static bool measure_runs(struct runs *runs, double seconds, struct interval_seconds *interval, struct diagnostics *diag)
{
    double middle, below = 0, above = 0; /* squares */
    if (!run_at(runs, COST_MIDDLE, 0, &middle, diag))
        return false;
    for (uint32_t constant = 0; constant < cost_constants(&runs->cost) && middle > 0; constant++) {
        double fast = middle, slow;
        if (!(cost_spread(&runs->cost, constant) > 0))
            continue;
        if (!run_at(runs, COST_SLOW, constant, &slow, diag) ||
            (slow != middle && !run_at(runs, COST_FAST, constant, &fast, diag)))
            return false;
        below += pow(fast / middle - 1, 2);
        above += pow(slow / middle - 1, 2);
    }
    if (middle > 0)
        *interval = (struct interval_seconds){seconds * fmax(0, 1 - sqrt(below)), seconds * (1 + sqrt(above))};
    return true;
}

static bool measure(const struct simulation *simulation, double seconds, struct interval_seconds *interval,
                    struct diagnostics *diag)
{
    struct runs runs;
    if (!runs_init(&runs, simulation, diag))
        return false;
    bool good = measure_runs(&runs, seconds, interval, diag);
    runs_fini(&runs);
    return good;
}

/* Ranks that behave alike do so whatever constants are: the many runs need not have all of them. */
static bool measure_folded(const struct simulation *simulation, double seconds, struct interval_seconds *interval,
                           struct diagnostics *diag)
{
    struct plan plan;
    struct folding folding;
    if (!plan_init(&plan, simulation, diag))
        return false;
    fold_init(&folding, simulation->ensemble, &plan);
    plan_fini(&plan);
    struct simulation folded = *simulation;
    folded.ensemble = &folding.ensemble;
    folded.folding = &folding;
    bool good = measure(&folded, seconds, interval, diag);
    folding_fini(&folding);
    return good;
}

bool interval_of(const struct simulation *simulation, double seconds, struct interval_seconds *interval,
                 struct diagnostics *diag)
{
    bool can_fold = !simulation->folding && simulation->cost->topology->ranks_per_device == 1;
    *interval = (struct interval_seconds){0, 0};
    if (!has_spread(simulation->cost))
        return true;
    return (can_fold ? measure_folded : measure)(simulation, seconds, interval, diag);
}
