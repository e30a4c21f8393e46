/* interval.c - the same simulation with one constant after the other at the fast, and at the slow end of its spread. */
#include "sim/interval.h"

#include <math.h>

/* The step's seconds with the constants `moved` at `end`. */
static bool run_at(const struct simulation *simulation, enum cost_end end, uint32_t moved, double *seconds,
                   struct diagnostics *diag)
{
    struct cost cost = *simulation->cost;
    cost.end = end;
    cost.moved = moved;
    struct execution *execution = execution_of(simulation->ensemble);
    struct timeline timeline;
    timeline_of(&timeline, simulation->ensemble);
    struct simulation at = *simulation;
    at.execution = execution;
    at.cost = &cost;
    at.progress = NULL;
    bool good = engine_analytic.run(&at, &timeline, diag);
    *seconds = timeline.phase_end[PHASE_COUNT - 1];
    timeline_fini(&timeline);
    execution_destroy(execution);
    return good;
}

static bool has_spread(const struct cost *cost)
{
    for (uint32_t constant = 0; constant < cost_constants(cost); constant++)
        if (cost_spread(cost, constant) > 0)
            return true;
    return false;
}

bool interval_of(const struct simulation *simulation, double seconds, struct interval_seconds *interval,
                 struct diagnostics *diag)
{
    const struct cost *cost = simulation->cost;
    *interval = (struct interval_seconds){0, 0};
    if (!has_spread(cost))
        return true;
    double middle, below = 0, above = 0; /* squares */
    if (!run_at(simulation, COST_MIDDLE, 0, &middle, diag))
        return false;
    for (uint32_t constant = 0; constant < cost_constants(cost) && middle > 0; constant++) {
        double fast = middle, slow;
        if (!(cost_spread(cost, constant) > 0))
            continue;
        if (!run_at(simulation, COST_SLOW, 1U << constant, &slow, diag) ||
            (slow != middle && !run_at(simulation, COST_FAST, 1U << constant, &fast, diag)))
            return false;
        below += pow(fast / middle - 1, 2);
        above += pow(slow / middle - 1, 2);
    }
    if (middle > 0)
        *interval = (struct interval_seconds){seconds * fmax(0, 1 - sqrt(below)), seconds * (1 + sqrt(above))};
    return true;
}
