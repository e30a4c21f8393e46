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

/* The order to run in, if one is known or worth keeping. */
static const struct run_order *known_order(const struct plan *plan, const struct order_times **times)
{
    struct plan_memo *memo = plan->simulation->memo;
    if (!memo || !critical_path_goes_by_order(plan) || !critical_path_applies(plan))
        return NULL;
    return plan_memo_order(memo, plan, times);
}

static bool run(const struct simulation *simulation, struct timeline *timeline, struct diagnostics *diag)
{
    struct plan plan;
    const struct order_times *times;
    if (!plan_init(&plan, simulation, diag))
        return false;
    bool good = true;
    const struct run_order *order = known_order(&plan, &times);
    if (order) {
        critical_path_run_in(order, times, &plan, timeline);
        plan_fini(&plan);
    } else {
        struct event_loop loop;
        event_loop_init_planned(&loop, &plan, timeline);
        good = run_execution(&loop, diag);
        event_loop_fini(&loop);
    }
    timeline->unshared = true;
    return good;
}

const struct engine_ops engine_analytic = {
    .name = "analytic",
    .summary = "no contention: the critical path when every transfer has its links to itself; a lower bound",
    .run = run,
};
