/* critical_path.c - the end of an operation from the ends of those that it waits for. */
#include "sim/critical_path.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

bool critical_path_applies(const struct plan *plan)
{
    const struct simulation *simulation = plan->simulation;
    const struct ensemble *ensemble = simulation->ensemble;
    const struct cost *cost = simulation->cost;
    bool slows = cost->device->transfer_slowdown > 0 && mechanism_counts(cost->without, MECHANISM_SLOWDOWN);
    if (slows || cost_waits(cost) || cost->topology->ranks_per_device > 1)
        return false;
    for (size_t p = 0; p < plan->first_path[ensemble->n_instances]; p++)
        if (plan->paths[p].sms > 0)
            return false;
    for (uint32_t s = 0; s < ensemble->n_shapes; s++)
        if (ensemble->shapes[s].order.length[STREAM_COMPUTE_2] > 0)
            return false;
    return true;
}

/* The messages that a stream has posted together last: a stream is at one group at a time. */
struct posting {
    uint32_t group; /* 0: none yet */
    double posted;
};

/* One run. */
struct run {
    const struct plan *plan;
    struct timeline *timeline;
    struct posting *postings; /* [instance * STREAM_COUNT + stream] */
    double *group_ended;      /* [first_group of the instance + group]: who waits for one message waits for all */
    size_t *first_group;
};

static void run_init(struct run *run, const struct plan *plan, struct timeline *timeline)
{
    const struct ensemble *ensemble = plan->simulation->ensemble;
    size_t n = 0;
    *run = (struct run){.plan = plan, .timeline = timeline};
    run->first_group = memory_zeroed(ensemble->n_instances, sizeof *run->first_group);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        run->first_group[i] = n;
        n += (size_t)ensemble_program(ensemble, i)->n_groups + 1;
    }
    run->group_ended = memory_zeroed(n, sizeof *run->group_ended);
    run->postings = memory_zeroed((size_t)ensemble->n_instances * STREAM_COUNT, sizeof *run->postings);
}

static void run_fini(struct run *run)
{
    free(run->group_ended);
    free(run->postings);
    free(run->first_group);
}

static void raise(double *value, double to)
{
    if (*value < to)
        *value = to;
}

static double *group_ended(const struct run *run, uint32_t instance, const struct op *op)
{
    return &run->group_ended[run->first_group[instance] + op->group];
}

/* When all has ended that one operation waits for within its program. */
static double after_hazards(const struct run *run, uint32_t instance, const struct shape *shape, uint32_t op)
{
    const struct stream_order *order = &shape->order;
    const struct moment *moments = run->timeline->moments[instance];
    const uint32_t *waits = order->waits + (size_t)op * order->n_streams;
    double ready = 0;
    for (uint32_t column = 0; column < order->n_streams; column++) {
        if (!waits[column])
            continue;
        const struct op *before = &shape->program->ops[waits[column] - 1];
        raise(&ready, before->group ? *group_ended(run, instance, before) : moments[waits[column] - 1].end);
    }
    return ready;
}

/* When a group is posted: when all has ended that any of its messages waits for. */
static double group_posted(const struct run *run, uint32_t instance, const struct shape *shape, uint32_t op)
{
    const struct program *program = shape->program;
    const struct op *first = &program->ops[op];
    struct posting *posting = &run->postings[(size_t)instance * STREAM_COUNT + first->stream];
    if (posting->group == first->group)
        return posting->posted;
    *posting = (struct posting){.group = first->group};
    for (uint32_t i = stream_order_waits(&shape->order, op, (enum stream)first->stream); i < program->n_ops; i++) {
        if (program->ops[i].stream != first->stream)
            continue;
        if (program->ops[i].group != first->group)
            break;
        raise(&posting->posted, after_hazards(run, instance, shape, i));
    }
    return posting->posted;
}

/* When an operation, or the end of a message, may begin for its own program's sake. */
static double posted(const struct run *run, struct activity end)
{
    const struct shape *shape = ensemble_shape(run->plan->simulation->ensemble, end.instance);
    return shape->program->ops[end.op].group ? group_posted(run, end.instance, shape, end.op)
                                             : after_hazards(run, end.instance, shape, end.op);
}

static void note_end(const struct run *run, struct activity end, struct moment moment)
{
    const struct op *op = &ensemble_program(run->plan->simulation->ensemble, end.instance)->ops[end.op];
    run->timeline->moments[end.instance][end.op] = moment;
    if (op->group)
        raise(group_ended(run, end.instance, op), moment.end);
}

/* When the phase before that of an operation ended for its replica. */
static double phase_begun(const struct run *run, struct activity end)
{
    const struct ensemble *ensemble = run->plan->simulation->ensemble;
    enum phase phase = program_phase(ensemble_program(ensemble, end.instance), end.op);
    double phase_end[PHASE_COUNT];
    timeline_phases(run->timeline, ensemble->instances[end.instance].replica, phase_end);
    return phase ? phase_end[phase - 1] : 0;
}

/* The moment of an activity, all that it waits for having been noted. */
static struct moment moment_of(const struct run *run, struct activity activity, const struct activity *receive)
{
    const struct plan *plan = run->plan;
    const struct program *program = ensemble_program(plan->simulation->ensemble, activity.instance);
    double begin = phase_begun(run, activity);
    raise(&begin, posted(run, activity));
    raise(&begin, plan_issued_at(plan, activity));
    if (!receive) {
        double end = begin + plan_seconds(plan, activity);
        return (struct moment){begin, begin, end};
    }
    raise(&begin, phase_begun(run, *receive));
    raise(&begin, posted(run, *receive));
    raise(&begin, plan_issued_at(plan, *receive));
    const struct path *path = plan_path(plan, activity);
    double move = begin + path->factor * path->cost.delay_seconds;
    return (struct moment){begin, move,
                           move + path->factor * (double)program->ops[activity.op].bytes / path->cost.bytes_per_s};
}

void critical_path_run(const struct plan *plan, struct recorder *recorder)
{
    struct execution *execution = recorder->execution;
    struct run run;
    struct activity activity;
    run_init(&run, plan, recorder->timeline);
    while (execution_next(execution, &activity)) {
        bool is_message = op_is_message(plan_op(plan, activity));
        struct activity receive = is_message ? execution_receive_of(execution, activity) : activity;
        struct moment moment = moment_of(&run, activity, is_message ? &receive : NULL);
        note_end(&run, activity, moment);
        if (is_message)
            note_end(&run, receive, moment);
        recorder_finish(recorder, activity, moment);
        recorder_show_progress(recorder);
    }
    run_fini(&run);
}

/* ---- in an order that is known ---- */

bool critical_path_goes_by_order(const struct plan *plan)
{
    return plan->simulation->ensemble->n_replicas == 1 && !plan->locals->issues;
}

static void note_moments(const struct run_order *order, const struct order_times *times, const struct interval *spans,
                         struct timeline *timeline)
{
    for (uint32_t at = 0; at < order->n_steps; at++) {
        const struct ordered_step *step = &order->steps[at];
        if (!step->counts)
            continue;
        double move = spans[at].begin + times->times[times->time_of[at]].delay;
        struct moment moment = {spans[at].begin, move, spans[at].end};
        timeline->moments[step->activity.instance][step->activity.op] = moment;
        if (step->sends)
            timeline->moments[step->receive.instance][step->receive.op] = moment;
    }
}

void critical_path_run_in(const struct run_order *order, const struct order_times *times, const struct plan *plan,
                          struct timeline *timeline)
{
    const struct simulation *simulation = plan->simulation;
    bool spares = simulation->spares_moments && !timeline->moments;
    struct interval *spans = memory_resized(NULL, order->n_steps, sizeof *spans);
    if (!spares && !timeline->moments)
        timeline_of(timeline, simulation->ensemble);
    run_order_run(order, times->times, times->time_of, spans, timeline->phase_end);
    if (spares) {
        timeline->n_instances = simulation->ensemble->n_instances;
        timeline->steps = (struct step_timeline){spans, order->step_of, order->first_op};
    } else {
        note_moments(order, times, spans, timeline);
        free(spans);
    }
}
