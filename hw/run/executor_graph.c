/* executor_graph.c - a phase as one graph: all ranks of the process record it together, then one of them launches it.
 *
 * Barriers of all ranks keep the stages apart: nobody queues before recording has begun, or when it has ended; all are
 * there when the launched phase begins, and learn its times when it is over.
 */
#include "hw/run/executor_parts.h"

static bool is_recorder(const struct executor *x)
{
    return x->recording->queued[0] == x->queued;
}

static bool meet(struct executor *x)
{
    return !executor_stopped(x) && x->transport_ops->barrier(x->end);
}

static void begin_recording(struct executor *x)
{
    if (!is_recorder(x))
        return;
    x->compute_ops->queues->record_begin(x->compute);
    queued_open_recording(x->queued);
}

static void end_recording(struct executor *x)
{
    if (!is_recorder(x))
        return;
    for (uint32_t i = 0; i < x->recording->n_ranks; i++)
        queued_join_recording(x->queued, x->recording->queued[i]);
    x->compute_ops->queues->record_end(x->compute);
}

static bool is_recorded(const struct executor *x)
{
    return x->recording && x->step->bare;
}

void executor_begin_queueing(struct executor *x)
{
    if (is_recorded(x))
        pthread_mutex_lock(&x->recording->mutex);
}

void executor_end_queueing(struct executor *x)
{
    if (is_recorded(x))
        pthread_mutex_unlock(&x->recording->mutex);
}

static void queue_operations(struct executor *x)
{
    struct queued *recorder = x->recording->queued[0];
    executor_begin_queueing(x);
    queued_begin_recording(x->queued, x->phase, recorder);
    executor_end_queueing(x);
    executor_run_operations(x);
    executor_begin_queueing(x);
    queued_end_recording(x->queued, recorder);
    executor_end_queueing(x);
}

static bool record(struct executor *x)
{
    if (!meet(x))
        return false;
    begin_recording(x);
    if (!meet(x))
        return false;
    queue_operations(x);
    if (!meet(x))
        return false;
    end_recording(x);
    return meet(x);
}

static bool launch(struct executor *x)
{
    if (!is_recorder(x))
        return true;
    queued_begin_launch(x->queued);
    x->compute_ops->queues->launch(x->compute);
    queued_end_launch(x->queued);
    if (!executor_wait_for_device(x))
        return false;
    x->recording->times = queued_read(x->queued, x->record.moments);
    return true;
}

bool executor_run_graph(struct executor *x)
{
    if (!record(x))
        return false;
    if (is_recorder(x) && !queued_set_clock(x->queued, executor_may_wait, x))
        return false;
    if (!meet(x) || !launch(x) || !meet(x))
        return false;
    executor_note_times(x, x->recording->times);
    return !executor_stopped(x);
}
