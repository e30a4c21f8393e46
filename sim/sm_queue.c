/* sm_queue.c - per instance, the messages that wait there; a message goes on when its last end lets it. */
#include "sim/sm_queue.h"

#include <assert.h>
#include <stdlib.h>

#include "models/base/memory.h"

static size_t stream_index(const struct op *op)
{
    return op->stream == STREAM_COMPUTE_2;
}

/* For each message of a program the kernel that it is called behind. */
static uint32_t *kernels_before(const struct program *program)
{
    uint32_t *before = memory_zeroed((size_t)program->n_ops + 1, sizeof *before), last[2] = {0, 0};
    uint8_t *called_in = memory_zeroed((size_t)program->n_ops + 1, sizeof *called_in);
    size_t stream = 0;
    for (uint32_t i = program->n_ops; i-- > 0;) {
        const struct op *op = &program->ops[i];
        if (stream_computes((enum stream)op->stream))
            stream = stream_index(op);
        called_in[i] = (uint8_t)stream;
    }
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (stream_computes((enum stream)op->stream))
            last[stream_index(op)] = i + 1;
        else if (op_is_message(op)) /* a collective is called with its first operation */
            before[i] = op->collective && program->collectives[op->collective - 1].first_op < i
                            ? before[program->collectives[op->collective - 1].first_op]
                            : last[called_in[i]];
    }
    free(called_in);
    return before;
}

void sm_queue_init(struct sm_queue *queue, const struct plan *plan)
{
    const struct simulation *simulation = plan->simulation;
    const struct ensemble *ensemble = simulation->ensemble;
    *queue = (struct sm_queue){.counts = cost_waits(simulation->cost), .plan = plan};
    if (!queue->counts)
        return;
    queue->ends = memory_zeroed(ensemble->n_instances, sizeof *queue->ends);
    queue->kernel_before = memory_zeroed(ensemble->n_shapes, sizeof *queue->kernel_before);
    for (uint32_t s = 0; s < ensemble->n_shapes; s++)
        queue->kernel_before[s] = kernels_before(ensemble->shapes[s].program);
}

void sm_queue_fini(struct sm_queue *queue)
{
    if (!queue->counts)
        return;
    const struct ensemble *ensemble = queue->plan->simulation->ensemble;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        for (size_t w = 0; w < queue->ends[i].count; w++) /* after a deadlock; both its ends may have it */
            if (--queue->ends[i].waiting[w].message->ends == 0)
                free(queue->ends[i].waiting[w].message);
        free(queue->ends[i].waiting);
    }
    for (uint32_t s = 0; s < ensemble->n_shapes; s++)
        free(queue->kernel_before[s]);
    free(queue->kernel_before);
    free(queue->ends);
    free(queue->free);
    *queue = (struct sm_queue){0};
}

static struct activity end_of(const struct sm_queue *queue, struct activity send, int end)
{
    return end == 0 ? send : ensemble_other_end(queue->plan->simulation->ensemble, send);
}

static struct transfer_call *under_way(struct sm_queue *queue, struct activity end)
{
    return &queue->ends[end.instance].under_way[plan_op(queue->plan, end)->stream];
}

/* Whether the kernel that `end` is a part of has SMs there. */
static bool holds(struct sm_queue *queue, struct activity end)
{
    const struct op *op = plan_op(queue->plan, end);
    const struct transfer_call *call = under_way(queue, end);
    return (op->group && op->group == call->group) || (op->collective && op->collective == call->collective);
}

static void take(struct sm_queue *queue, struct activity end)
{
    const struct op *op = plan_op(queue->plan, end);
    *under_way(queue, end) = (struct transfer_call){op->group, op->collective};
}

static bool is_called(const struct sm_queue *queue, struct activity end)
{
    uint32_t shape = queue->plan->simulation->ensemble->instances[end.instance].shape;
    uint32_t before = queue->kernel_before[shape][end.op];
    if (before == 0)
        return true;
    const struct op *kernel = plan_op(queue->plan, (struct activity){.instance = end.instance, .op = before - 1});
    return queue->ends[end.instance].ended[stream_index(kernel)] >= before;
}

static void keep(struct sm_queue *queue, struct waiting_message **message, struct waiting_message what,
                 struct activity its_end)
{
    if (!*message) {
        *message = memory_zeroed(1, sizeof **message);
        **message = what;
    }
    (*message)->ends++;
    struct sm_end *end = &queue->ends[its_end.instance];
    memory_grow(end->waiting, end->count, end->capacity);
    end->waiting[end->count++] = (struct waiting_end){*message, its_end};
}

bool sm_queue_call(struct sm_queue *queue, struct activity send, void *context)
{
    struct waiting_message *message = NULL, what = {.send = send, .context = context};
    for (int e = 0; e < 2; e++) {
        struct activity end = end_of(queue, send, e);
        if (!is_called(queue, end))
            keep(queue, &message, what, end);
    }
    return !message;
}

bool sm_queue_ask(struct sm_queue *queue, struct activity send, double begin, void *context)
{
    struct waiting_message *message = NULL, what = {.send = send, .called = true, .begin = begin, .context = context};
    for (int e = 0; e < 2; e++) {
        struct activity end = end_of(queue, send, e);
        if (queue->ends[end.instance].filling > 0 && !holds(queue, end))
            keep(queue, &message, what, end);
        else
            take(queue, end);
    }
    return !message;
}

/* One end lets the message go. */
static void let_go(struct sm_queue *queue, struct waiting_message *message)
{
    if (--message->ends > 0)
        return;
    memory_grow(queue->free, queue->n_free, queue->free_capacity);
    queue->free[queue->n_free++] = message;
}

/* Lets those go that wait at the end for SMs, or for the kernel that ended. */
static void look_again(struct sm_queue *queue, uint32_t instance, bool for_sms)
{
    struct sm_end *end = &queue->ends[instance];
    size_t left = 0;
    for (size_t w = 0; w < end->count; w++) {
        struct waiting_message *message = end->waiting[w].message;
        struct activity its_end = end->waiting[w].end;
        if (message->called != for_sms || (!for_sms && !is_called(queue, its_end))) {
            end->waiting[left++] = end->waiting[w];
            continue;
        }
        if (for_sms)
            take(queue, its_end);
        let_go(queue, message);
    }
    end->count = left;
}

void sm_queue_fill(struct sm_queue *queue, uint32_t instance)
{
    queue->ends[instance].filling++;
}

void sm_queue_handed_out(struct sm_queue *queue, uint32_t instance)
{
    assert(queue->ends[instance].filling > 0);
    queue->ends[instance].filling--;
    look_again(queue, instance, true);
}

void sm_queue_ended(struct sm_queue *queue, struct activity kernel)
{
    const struct op *op = plan_op(queue->plan, kernel);
    queue->ends[kernel.instance].ended[stream_index(op)] = kernel.op + 1;
    look_again(queue, kernel.instance, false);
}

bool sm_queue_next(struct sm_queue *queue, struct waiting_message *message)
{
    if (queue->taken == queue->n_free) {
        queue->taken = queue->n_free = 0;
        return false;
    }
    struct waiting_message *first = queue->free[queue->taken++];
    *message = *first;
    free(first);
    return true;
}
