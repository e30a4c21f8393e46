/* run_order.c - walks an execution, and notes for each activity the steps that it waits for. */
#include "sim/run_order.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

#define NO_STEP UINT32_MAX       /* not found yet */
#define NOTHING (UINT32_MAX - 1) /* found: it comes after no step */

/* Steps found so far. */
struct listing {
    struct run_order *out;
    const struct ensemble *ensemble;
    uint32_t **group_posted; /* [instance][group] */
    uint32_t **group_ended;
    uint32_t *gathered; /* each once, for one step to come after */
    size_t n_gathered, capacity;
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
    *listing = (struct listing){.out = out,
                                .ensemble = ensemble,
                                .group_posted = memory_zeroed(n, sizeof *listing->group_posted),
                                .group_ended = memory_zeroed(n, sizeof *listing->group_ended)};
    out->first_op = memory_zeroed((size_t)n + 1, sizeof *out->first_op);
    for (uint32_t i = 0; i < n; i++) {
        const struct program *program = ensemble_program(ensemble, i);
        out->first_op[i + 1] = out->first_op[i] + program->n_ops;
        listing->group_posted[i] = unknown_steps((size_t)program->n_groups + 1);
        listing->group_ended[i] = unknown_steps((size_t)program->n_groups + 1);
    }
    out->step_of = unknown_steps(out->first_op[n]);
}

static void listing_fini(struct listing *listing)
{
    for (uint32_t i = 0; i < listing->ensemble->n_instances; i++) {
        free(listing->group_posted[i]);
        free(listing->group_ended[i]);
    }
    free(listing->group_posted);
    free(listing->group_ended);
    free(listing->gathered);
}

static uint32_t *step_of(const struct listing *listing, uint32_t instance, uint32_t op)
{
    return &listing->out->step_of[listing->out->first_op[instance] + op];
}

/* Begins a step, which comes after what is added until the next one. */
static uint32_t add_step(struct run_order *order, struct activity activity, bool counts)
{
    memory_grow(order->steps, order->n_steps, order->capacity);
    memory_grow(order->first, order->n_steps, order->first_capacity);
    order->steps[order->n_steps] = (struct ordered_step){.activity = activity, .receive = activity, .counts = counts};
    order->first[order->n_steps] = order->n_after;
    return order->n_steps++;
}

static void come_after(struct run_order *order, uint32_t step)
{
    memory_grow(order->after, order->n_after, order->after_capacity);
    order->after[order->n_after++] = step;
}

static void gather(struct listing *listing, uint32_t step)
{
    if (step == NOTHING)
        return;
    for (size_t i = listing->n_gathered; i-- > 0;)
        if (listing->gathered[i] == step)
            return;
    memory_grow(listing->gathered, listing->n_gathered, listing->capacity);
    listing->gathered[listing->n_gathered++] = step;
}

/* Begins a step that comes after all that was gathered. */
static uint32_t add_step_after(struct listing *listing, struct activity activity, bool counts)
{
    uint32_t step = add_step(listing->out, activity, counts);
    for (size_t i = 0; i < listing->n_gathered; i++)
        come_after(listing->out, listing->gathered[i]);
    listing->n_gathered = 0;
    return step;
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
        return *step_of(listing, instance, op);
    uint32_t *step = &listing->group_ended[instance][self->group];
    if (*step != NO_STEP)
        return *step;
    uint32_t first = stream_order_waits(&shape->order, op, (enum stream)self->stream), members = 0;
    for (uint32_t i = first; next_member(shape->program, self, &i); i++)
        members++;
    if (members == 1)
        return *step = *step_of(listing, instance, op);
    *step = add_step(listing->out, (struct activity){.instance = instance, .op = op}, false);
    for (uint32_t i = first; next_member(shape->program, self, &i); i++)
        come_after(listing->out, *step_of(listing, instance, i));
    return *step;
}

/* Gathers what `op` waits for, step by step: none of them may begin while another one is being added to. */
static void gather_hazards(struct listing *listing, uint32_t instance, uint32_t op)
{
    const struct stream_order *order = &ensemble_shape(listing->ensemble, instance)->order;
    const uint32_t *waits = order->waits + (size_t)op * order->n_streams;
    for (uint32_t column = 0; column < order->n_streams; column++)
        if (waits[column])
            gather(listing, ended(listing, instance, waits[column] - 1));
}

/* The step at whose end the group of `end` is posted, with nothing gathered before. */
static uint32_t group_posted(struct listing *listing, struct activity end)
{
    const struct shape *shape = ensemble_shape(listing->ensemble, end.instance);
    const struct op *op = &shape->program->ops[end.op];
    uint32_t *step = &listing->group_posted[end.instance][op->group];
    if (*step != NO_STEP)
        return *step;
    uint32_t i = stream_order_waits(&shape->order, end.op, (enum stream)op->stream);
    for (; next_member(shape->program, op, &i); i++)
        gather_hazards(listing, end.instance, i);
    if (listing->n_gathered > 1)
        return *step = add_step_after(listing, end, false);
    *step = listing->n_gathered ? listing->gathered[0] : NOTHING;
    listing->n_gathered = 0;
    return *step;
}

/* Makes sure that there is the step at whose end `end` is posted, if there is one for all of a group. */
static uint32_t find_posted(struct listing *listing, struct activity end)
{
    bool grouped = ensemble_program(listing->ensemble, end.instance)->ops[end.op].group;
    return grouped ? group_posted(listing, end) : NO_STEP;
}

static void gather_posted(struct listing *listing, struct activity end, uint32_t posted)
{
    if (posted == NO_STEP)
        gather_hazards(listing, end.instance, end.op);
    else
        gather(listing, posted);
}

/* Adds the step of an activity that is ready. */
static void add_activity(struct listing *listing, struct activity activity, const struct activity *receive)
{
    uint32_t posted = find_posted(listing, activity), accepted = receive ? find_posted(listing, *receive) : NO_STEP;
    gather_posted(listing, activity, posted);
    if (receive)
        gather_posted(listing, *receive, accepted);
    uint32_t step = add_step_after(listing, activity, true);
    *step_of(listing, activity.instance, activity.op) = step;
    if (!receive)
        return;
    *step_of(listing, receive->instance, receive->op) = step;
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
    free(order->first);
    free(order->after);
    free(order->steps);
    free(order->step_of);
    free(order->first_op);
    *order = (struct run_order){0};
}

/* What takes no time waits for what takes some: a phase ends when the last of all steps does. */
void run_order_run(const struct run_order *order, const struct step_times *times, const uint32_t *time_of,
                   struct interval *spans, double phase_end[PHASE_COUNT])
{
    const uint32_t *first = order->first, *after = order->after;
    double last = 0;
    uint32_t at = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const double barrier = last;
        for (uint32_t end = run_order_phase_end(order, phase); at < end; at++) {
            double begin = barrier;
            for (uint32_t i = first[at]; i < first[at + 1]; i++)
                begin = spans[after[i]].end > begin ? spans[after[i]].end : begin;
            const struct step_times *takes = &times[time_of[at]];
            spans[at] = (struct interval){begin, begin + takes->delay + takes->seconds};
            last = spans[at].end > last ? spans[at].end : last;
        }
        phase_end[phase] = last;
    }
}
