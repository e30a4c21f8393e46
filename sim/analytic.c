/* analytic.c - the engine without contention: every message has its links to itself.
 *
 * A message takes its delay and its bytes over the narrowest link, or at the lower rate that it reaches alone. The
 * event loop is the whole engine; what it finds is the critical path through the programs, a lower bound of any engine
 * that shares links. Where the programs' own order is all there is, no clock is needed (critical_path.h).
 */
#include "sim/critical_path.h"
#include "sim/event_loop.h"
#include "sim/plan_memo.h"

/* The order to run in, if one is known or worth keeping. */
static const struct run_order *known_order(const struct plan *plan)
{
    struct plan_memo *memo = plan->simulation->memo;
    if (!memo || !critical_path_goes_by_order(plan) || !critical_path_applies(plan))
        return NULL;
    return plan_memo_order(memo, plan->simulation->ensemble);
}

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

static bool run(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag)
{
    struct event_loop loop;
    if (!event_loop_init(&loop, simulation, timeline, diag))
        return false;
    timeline->unshared = true;
    bool good = true;
    const struct run_order *order = known_order(&loop.plan);
    if (order)
        critical_path_run_in(&loop.plan, order, timeline);
    else
        good = run_execution(&loop, diag);
    event_loop_fini(&loop);
    return good;
}

const struct engine_ops engine_analytic = {
    .name = "analytic",
    .summary = "no contention: the critical path when every transfer has its links to itself; a lower bound",
    .run = run,
};
