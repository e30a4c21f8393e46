/* executor_phases.c - a phase of one rank: from a barrier of all until its last operation, and, of an asynchronous
 * backend, the device are through. Whoever waits looks for failures and for the stall limit. */
#include <inttypes.h>
#include <sched.h>
#include <time.h>

#include "hw/run/executor_parts.h"

#define PAUSE_NANOSECONDS 20000 /* between looks at a device */
#define DRAIN_SECONDS 2.0       /* for what a device still does after a failure */

static uint32_t waited_for(struct executor *x)
{
    uint32_t waited = x->n_in_flight ? x->in_flight[0].op : x->program->n_ops;
    for (int s = 0; s < STREAM_COUNT && waited == x->program->n_ops; s++) {
        const struct op *op = executor_next_op(x, (enum stream)s);
        waited = op ? (uint32_t)(op - x->program->ops) : waited;
    }
    return waited == x->program->n_ops && x->queued ? queued_waits_for(x->queued) : waited;
}

void executor_watch(struct executor *x)
{
    double limit = x->step->stall_seconds;
    if (limit <= 0 || seconds_now() - x->moved_at <= limit)
        return;
    if (x->queued && queued_has_moved(x->queued)) {
        x->moved_at = seconds_now();
        return;
    }
    uint32_t waited = waited_for(x);
    char text[256] = "the device";
    if (waited < x->program->n_ops)
        program_describe_op(x->program, waited, text, sizeof text);
    executor_fail(x, "waited %.3g s for '%s' in the %s phase and gave up", limit, text, phase_name(x->phase));
}

bool executor_may_wait(void *context)
{
    executor_watch(context);
    return !executor_stopped(context);
}

bool executor_settled(struct executor *x)
{
    return !x->transport_ops->settled || x->transport_ops->settled(x->end);
}

/* After a failure: what is queued may still be using memory that is soon given back. */
static void drain(struct executor *x)
{
    const double until = seconds_now() + DRAIN_SECONDS;
    queued_end_phase(x->queued);
    while (!queued_is_over(x->queued) && seconds_now() < until)
        sched_yield();
}

bool executor_wait_for_device(struct executor *x)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NANOSECONDS};
    x->moved_at = seconds_now();
    while (executor_may_wait(x)) {
        if (!executor_settled(x))
            sched_yield();
        else if (!queued_is_over(x->queued))
            nanosleep(&pause, NULL);
        else
            break;
    }
    if (!executor_stopped(x))
        return true;
    drain(x);
    return false;
}

void executor_note_times(struct executor *x, struct queued_times times)
{
    x->record.phase_begin[x->phase] = times.begin;
    x->record.phase_end[x->phase] = times.end;
    if (times.clock_error_seconds > x->record.clock_error_seconds)
        x->record.clock_error_seconds = times.clock_error_seconds;
}

/* Queues a phase, and waits until the device has run it. */
static bool queue_phase(struct executor *x)
{
    queued_begin_phase(x->queued, x->phase);
    executor_run_operations(x);
    queued_end_phase(x->queued);
    if (!executor_wait_for_device(x))
        return false;
    executor_note_times(x, queued_read(x->queued, x->record.moments));
    return !executor_stopped(x);
}

bool executor_run_phase(struct executor *x, enum phase phase)
{
    uint32_t first = phase ? x->program->phase_end[phase - 1] : 0;
    x->phase = phase;
    x->left = x->program->phase_end[phase] - first;
    x->moved_at = seconds_now();
    executor_go_to_point(x, x->memory.lifetimes.phase_begin[phase]);
    if (x->queued && x->recording && x->step->bare)
        return executor_run_graph(x);
    if (x->queued && !queued_set_clock(x->queued, executor_may_wait, x))
        return false;
    if (!x->transport_ops->barrier(x->end))
        return false;
    x->record.phase_begin[phase] = x->record.phase_end[phase] = x->moved_at = seconds_now();
    if (x->queued)
        return queue_phase(x);
    executor_run_operations(x);
    x->record.phase_end[phase] = x->moved_at;
    return !executor_stopped(x);
}
