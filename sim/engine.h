/* engine.h - executes programs on a modelled cluster: one interface, two engines.
 *
 * simgrid: transfers share links max-min fairly (discrete-event simulation). analytic: every transfer has its links to
 * itself; the critical path through the programs, a lower bound and a cross-check. Both drive an execution of the same
 * ensemble (models/schedule/execution.h), so they differ in the time of a transfer and in nothing else.
 */
#ifndef CPSIM_SIM_ENGINE_H
#define CPSIM_SIM_ENGINE_H

#include "models/base/diagnostics.h"
#include "models/cost/cost.h"
#include "models/input/placement.h"
#include "models/result/folding.h"
#include "models/result/timeline.h"
#include "models/schedule/execution.h"

struct plan;
struct plan_memo;

struct simulation {
    const struct ensemble *ensemble;
    const struct cost *cost;
    const struct placement *placement;
    const struct folding *folding; /* that the ensemble is of; NULL: the ensemble is all ranks */
    const struct plan *whole; /* folded: the plan of all ranks, if there still is one; plans of classes take from it
                                 what their first ranks have. NULL: none */
    struct plan_memo *memo;   /* of simulations of the ensemble's shapes (sim/plan_memo.h); NULL: none */
    bool spares_moments;      /* a timeline of steps will do (models/result/timeline.h) */
    /* Called now and then with the share of operations finished (0 to 1); NULL: not called. */
    void (*progress)(void *context, double share);
    void *progress_context;
};

struct engine_ops {
    const char *name;
    const char *summary; /* one line for --list and --help */
    bool once;           /* can run only once in a process */
    /* Runs `simulation`, filling `timeline`, which is zero or has room for moments. False, with messages, on a deadlock
     * (naming ranks and operations) or when the engine itself fails. */
    bool (*run)(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag);
};

extern const struct engine_ops engine_simgrid, engine_analytic;

/* NULL-terminated; the first is the default. */
extern const struct engine_ops *const engines[];
const struct engine_ops *engine_find(const char *name);

#endif
