/* critical_path.c - the end of an operation from the ends of those that it waits for. */
#include "sim/critical_path.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

static bool uses_second_stream(const struct program *program)
{
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].stream == STREAM_COMPUTE_2)
            return true;
    return false;
}

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
        if (uses_second_stream(ensemble->shapes[s].program))
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
    struct execution *execution = plan->simulation->execution;
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

/* ---- as a list of steps ---- */

#define NO_STEP UINT32_MAX

/* Steps found so far. */
struct listing {
    struct critical_path *path;
    const struct ensemble *ensemble;
    uint32_t **step_of;      /* [instance][op] */
    uint32_t **group_posted; /* [instance][group]; NO_STEP: not yet */
    uint32_t **group_ended;
};

static uint32_t *unknown_steps(size_t count)
{
    uint32_t *steps = memory_zeroed(count, sizeof *steps);
    memset(steps, 0xff, count * sizeof *steps);
    return steps;
}

static void listing_init(struct listing *listing, struct critical_path *path, const struct ensemble *ensemble)
{
    uint32_t n = ensemble->n_instances;
    *listing = (struct listing){path, ensemble, memory_zeroed(n, sizeof(uint32_t *)),
                                memory_zeroed(n, sizeof(uint32_t *)), memory_zeroed(n, sizeof(uint32_t *))};
    for (uint32_t i = 0; i < n; i++) {
        const struct program *program = ensemble_program(ensemble, i);
        listing->step_of[i] = unknown_steps(program->n_ops);
        listing->group_posted[i] = unknown_steps((size_t)program->n_groups + 1);
        listing->group_ended[i] = unknown_steps((size_t)program->n_groups + 1);
    }
}

static void listing_fini(struct listing *listing)
{
    for (uint32_t i = 0; i < listing->ensemble->n_instances; i++) {
        free(listing->step_of[i]);
        free(listing->group_posted[i]);
        free(listing->group_ended[i]);
    }
    free(listing->step_of);
    free(listing->group_posted);
    free(listing->group_ended);
}

/* Begins a step, which comes after what is added until the next one. */
static uint32_t add_step(struct critical_path *path, struct activity activity, bool counts)
{
    memory_grow(path->steps, path->n_steps, path->capacity);
    path->steps[path->n_steps] = (struct critical_step){activity, counts, path->n_after, 0, 0};
    return path->n_steps++;
}

static void come_after(struct critical_path *path, uint32_t step)
{
    memory_grow(path->after, path->n_after, path->after_capacity);
    path->after[path->n_after++] = step;
}

/* The members of the group of `op`, which are the operations of its stream from `first` on. */
static bool next_member(const struct program *program, const struct op *op, uint32_t *at)
{
    while (*at < program->n_ops && program->ops[*at].stream != op->stream)
        ++*at;
    return *at < program->n_ops && program->ops[*at].group == op->group;
}

/* The step at whose end nobody waits any more for operation `op`. */
static uint32_t ended(struct listing *listing, uint32_t instance, uint32_t op)
{
    const struct shape *shape = ensemble_shape(listing->ensemble, instance);
    const struct op *self = &shape->program->ops[op];
    if (!self->group)
        return listing->step_of[instance][op];
    uint32_t *step = &listing->group_ended[instance][self->group];
    if (*step == NO_STEP) {
        *step = add_step(listing->path, (struct activity){.instance = instance, .op = op}, false);
        uint32_t i = stream_order_waits(&shape->order, op, (enum stream)self->stream);
        for (; next_member(shape->program, self, &i); i++)
            come_after(listing->path, listing->step_of[instance][i]);
    }
    return *step;
}

/* Makes sure that there are the steps that `op` waits for: none may begin while another one is being added to. */
static void find_hazards(struct listing *listing, uint32_t instance, uint32_t op)
{
    const struct stream_order *order = &ensemble_shape(listing->ensemble, instance)->order;
    const uint32_t *waits = order->waits + (size_t)op * order->n_streams;
    for (uint32_t column = 0; column < order->n_streams; column++)
        if (waits[column])
            ended(listing, instance, waits[column] - 1);
}

static void come_after_hazards(struct listing *listing, uint32_t instance, uint32_t op)
{
    const struct stream_order *order = &ensemble_shape(listing->ensemble, instance)->order;
    const uint32_t *waits = order->waits + (size_t)op * order->n_streams;
    for (uint32_t column = 0; column < order->n_streams; column++)
        if (waits[column])
            come_after(listing->path, ended(listing, instance, waits[column] - 1));
}

static void find_posted(struct listing *listing, struct activity end)
{
    const struct shape *shape = ensemble_shape(listing->ensemble, end.instance);
    const struct op *op = &shape->program->ops[end.op];
    if (!op->group) {
        find_hazards(listing, end.instance, end.op);
        return;
    }
    uint32_t *step = &listing->group_posted[end.instance][op->group];
    uint32_t first = stream_order_waits(&shape->order, end.op, (enum stream)op->stream);
    if (*step != NO_STEP)
        return;
    for (uint32_t i = first; next_member(shape->program, op, &i); i++)
        find_hazards(listing, end.instance, i);
    *step = add_step(listing->path, end, false);
    for (uint32_t i = first; next_member(shape->program, op, &i); i++)
        come_after_hazards(listing, end.instance, i);
}

static void come_after_posted(struct listing *listing, struct activity end)
{
    const struct op *op = &ensemble_program(listing->ensemble, end.instance)->ops[end.op];
    if (op->group)
        come_after(listing->path, listing->group_posted[end.instance][op->group]);
    else
        come_after_hazards(listing, end.instance, end.op);
}

void critical_path_init(struct critical_path *path, struct execution *execution)
{
    struct listing listing;
    struct activity activity;
    int phase = 0;
    *path = (struct critical_path){0};
    listing_init(&listing, path, execution_ensemble(execution));
    while (execution_next(execution, &activity)) {
        const struct program *program = execution_program(execution, activity.instance);
        bool is_message = op_is_message(&program->ops[activity.op]);
        struct activity receive = is_message ? execution_receive_of(execution, activity) : activity;
        while (phase < (int)program_phase(program, activity.op))
            path->phase_begin[++phase] = path->n_steps;
        find_posted(&listing, activity);
        if (is_message)
            find_posted(&listing, receive);
        uint32_t step = add_step(path, activity, true);
        come_after_posted(&listing, activity);
        if (is_message)
            come_after_posted(&listing, receive);
        listing.step_of[activity.instance][activity.op] = listing.step_of[receive.instance][receive.op] = step;
        execution_finish(execution, activity);
    }
    while (++phase < PHASE_COUNT)
        path->phase_begin[phase] = path->n_steps;
    add_step(path, (struct activity){0}, false);
    path->n_steps--;
    listing_fini(&listing);
}

void critical_path_fini(struct critical_path *path)
{
    free(path->steps);
    free(path->after);
    *path = (struct critical_path){0};
}

double critical_path_seconds(const struct critical_path *path, double *ends)
{
    double last = 0;
    uint32_t at = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        uint32_t end = phase + 1 < PHASE_COUNT ? path->phase_begin[phase + 1] : path->n_steps;
        double barrier = last;
        for (; at < end; at++) {
            const struct critical_step *step = &path->steps[at];
            double begin = barrier;
            for (uint32_t i = step->first; i < step[1].first; i++)
                begin = ends[path->after[i]] > begin ? ends[path->after[i]] : begin;
            ends[at] = begin + step->delay + step->seconds;
            last = ends[at] > last ? ends[at] : last;
        }
    }
    return last;
}
