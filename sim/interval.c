/* interval.c - the same simulation with all constants at the fast, and all at the slow end of their spread. */
#include "sim/interval.h"

/* The step's seconds with the constants at `end`. */
static bool run_at(const struct simulation *simulation, enum cost_end end, double *seconds, struct diagnostics *diag)
{
    const struct placement *placement = simulation->placement;
    struct cost cost = *simulation->cost;
    cost.end = end;
    struct execution *execution = execution_create(simulation->programs, placement->cp, placement->groups, diag);
    if (!execution)
        return false;
    struct timeline timeline;
    timeline_init(&timeline, simulation->programs, placement->cp, placement->groups);
    const struct simulation moved = {
        .programs = simulation->programs, .execution = execution, .cost = &cost, .placement = placement};
    bool good = engine_analytic.run(&moved, &timeline, diag);
    *seconds = timeline.phase_end[PHASE_COUNT - 1];
    timeline_fini(&timeline);
    execution_destroy(execution);
    return good;
}

bool interval_of(const struct simulation *simulation, double seconds, struct interval_seconds *interval,
                 struct diagnostics *diag)
{
    *interval = (struct interval_seconds){0, 0};
    if (!cost_has_spread(simulation->cost))
        return true;
    double middle, fast, slow;
    if (!run_at(simulation, COST_MIDDLE, &middle, diag) || !run_at(simulation, COST_FAST, &fast, diag) ||
        !run_at(simulation, COST_SLOW, &slow, diag))
        return false;
    if (middle > 0)
        *interval = (struct interval_seconds){seconds * fast / middle, seconds * slow / middle};
    return true;
}
