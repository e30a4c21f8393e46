/* run_order.c - walks an execution, and notes for each activity the steps that it waits for. */
#include "sim/run_order.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

#define NO_STEP UINT32_MAX

/* Steps found so far. */
struct listing {
    struct run_order *out;
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

static void listing_init(struct listing *listing, struct run_order *out, const struct ensemble *ensemble)
{
    uint32_t n = ensemble->n_instances;
    *listing = (struct listing){out, ensemble, memory_zeroed(n, sizeof(uint32_t *)),
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
static uint32_t add_step(struct run_order *order, struct activity activity, bool counts)
{
    memory_grow(order->steps, order->n_steps, order->capacity);
    order->steps[order->n_steps] =
        (struct ordered_step){.activity = activity, .receive = activity, .first = order->n_after, .counts = counts};
    return order->n_steps++;
}

static void come_after(struct run_order *order, uint32_t step)
{
    memory_grow(order->after, order->n_after, order->after_capacity);
    order->after[order->n_after++] = step;
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
        *step = add_step(listing->out, (struct activity){.instance = instance, .op = op}, false);
        uint32_t i = stream_order_waits(&shape->order, op, (enum stream)self->stream);
        for (; next_member(shape->program, self, &i); i++)
            come_after(listing->out, listing->step_of[instance][i]);
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
            come_after(listing->out, ended(listing, instance, waits[column] - 1));
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
    *step = add_step(listing->out, end, false);
    for (uint32_t i = first; next_member(shape->program, op, &i); i++)
        come_after_hazards(listing, end.instance, i);
}

static void come_after_posted(struct listing *listing, struct activity end)
{
    const struct op *op = &ensemble_program(listing->ensemble, end.instance)->ops[end.op];
    if (op->group)
        come_after(listing->out, listing->group_posted[end.instance][op->group]);
    else
        come_after_hazards(listing, end.instance, end.op);
}

/* Adds the step of an activity that is ready. */
static void add_activity(struct listing *listing, struct activity activity, const struct activity *receive)
{
    find_posted(listing, activity);
    if (receive)
        find_posted(listing, *receive);
    uint32_t step = add_step(listing->out, activity, true);
    come_after_posted(listing, activity);
    listing->step_of[activity.instance][activity.op] = step;
    if (!receive)
        return;
    come_after_posted(listing, *receive);
    listing->step_of[receive->instance][receive->op] = step;
    listing->out->steps[step].receive = *receive;
    listing->out->steps[step].sends = true;
}

bool run_order_init(struct run_order *order, struct execution *execution)
{
    struct listing listing;
    struct activity activity;
    int phase = 0;
    *order = (struct run_order){0};
    listing_init(&listing, order, execution_ensemble(execution));
    while (execution_next(execution, &activity)) {
        const struct program *program = execution_program(execution, activity.instance);
        while (phase < (int)program_phase(program, activity.op))
            order->phase_begin[++phase] = order->n_steps;
        if (op_is_message(&program->ops[activity.op])) {
            struct activity receive = execution_receive_of(execution, activity);
            add_activity(&listing, activity, &receive);
        } else {
            add_activity(&listing, activity, NULL);
        }
        execution_finish(execution, activity);
    }
    while (++phase < PHASE_COUNT)
        order->phase_begin[phase] = order->n_steps;
    add_step(order, (struct activity){0}, false);
    order->n_steps--;
    memory_trim(order->after, order->n_after, order->after_capacity);
    listing_fini(&listing);
    if (execution_done(execution))
        return true;
    run_order_fini(order);
    return false;
}

void run_order_fini(struct run_order *order)
{
    free(order->steps);
    free(order->after);
    *order = (struct run_order){0};
}

double run_order_seconds(const struct run_order *order, const struct step_times *times, double *ends)
{
    double last = 0;
    uint32_t at = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        double barrier = last;
        for (; at < run_order_phase_end(order, phase); at++) {
            ends[at] = run_order_begin(order, at, barrier, ends) + times[at].delay + times[at].seconds;
            last = ends[at] > last ? ends[at] : last;
        }
    }
    return last;
}
