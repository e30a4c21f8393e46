/* analytic.c - the engine without contention: every message has its links to itself.
 *
 * A message takes its delay and its bytes over the narrowest link, or at the lower rate that it reaches alone. The
 * event loop is the whole engine; what it finds is the critical path through the programs, a lower bound of any engine
 * that shares links. Where the programs' own order is all there is, no clock is needed (critical_path.h).
 */
#include "sim/critical_path.h"
#include "sim/event_loop.h"
#include "sim/plan_memo.h"

static bool run_execution(struct event_loop *loop, struct diagnostics *diag)
{
    if (critical_path_applies(&loop->plan))
        critical_path_run(&loop->plan, &loop->recorder);
    event_loop_begin_ready(loop);
    for (double at; event_loop_next(loop, &at);) {
        event_loop_step(loop);
        event_loop_begin_ready(loop);
        recorder_show_progress(&loop->recorder);
    }
    return recorder_end(&loop->recorder, diag);
}

static bool run_events(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag)
{
    struct event_loop loop;
    if (!event_loop_init(&loop, simulation, timeline, diag))
        return false;
    bool good = run_execution(&loop, diag);
    event_loop_fini(&loop);
    return good;
}

/* Runs in an order that is known or worth keeping; false if there is none. */
static bool run_by_order(const struct simulation *simulation, struct timeline *timeline)
{
    struct plan plan;
    struct diagnostics said; /* again by the event loop */
    const struct order_times *times;
    const struct run_order *order = NULL;
    if (!simulation->memo)
        return false;
    diagnostics_init(&said);
    bool planned = plan_init(&plan, simulation, &said);
    if (planned && critical_path_goes_by_order(&plan) && critical_path_applies(&plan))
        order = plan_memo_order(simulation->memo, &plan, &times);
    if (order)
        critical_path_run_in(order, times, &plan, timeline);
    if (planned)
        plan_fini(&plan);
    diagnostics_fini(&said);
    return order;
}

static bool run(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag)
{
    bool good = run_by_order(simulation, timeline) || run_events(simulation, timeline, diag);
    timeline->unshared = true;
    return good;
}

const struct engine_ops engine_analytic = {
    .name = "analytic",
    .summary = "no contention: the critical path when every transfer has its links to itself; a lower bound",
    .run = run,
};
