/* executor.c - the loop of one rank: start what may start, test what is in flight, until the program is through.
 *
 * A kernel hands the thread back between its tiles; messages then move on as they do between operations. Whatever waits
 * looks for the failure of another rank, of the backend, and for the stall limit.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/ranges.h"
#include "hw/run/executor_parts.h"
#include "models/base/memory.h"

struct executor *executor_create(const struct schedule *schedule, const struct program *program,
                                 const struct compute_ops *compute_ops, struct compute *compute,
                                 const struct transport_ops *transport_ops, struct transport *end)
{
    struct executor *x = memory_zeroed(1, sizeof *x);
    *x = (struct executor){
        .schedule = schedule,
        .program = program,
        .compute_ops = compute_ops,
        .compute = compute,
        .transport_ops = transport_ops,
        .end = end,
        .rank = program->rank,
        .place = {.rank = program->rank},
    };
    stream_order_init(&x->order, program);
    rank_memory_init(&x->memory, &x->order, compute_ops, compute);
    x->record.moments = memory_zeroed(program->n_ops, sizeof *x->record.moments);
    x->unfilled = memory_zeroed(program->n_buffers, sizeof *x->unfilled);
    return x;
}

void executor_destroy(struct executor *x)
{
    if (!x)
        return;
    queued_destroy(x->queued);
    packings_fini(&x->packings, x->compute_ops, x->compute);
    rank_memory_fini(&x->memory);
    stream_order_fini(&x->order);
    free(x->record.moments);
    free(x->unfilled);
    free(x->in_flight);
    free(x);
}

void executor_set_place(struct executor *x, uint32_t rank, struct layers_place place)
{
    x->rank = rank;
    x->place = place;
}

void executor_use_calls(struct executor *x, const struct rank_calls *calls)
{
    x->calls = calls;
}

void executor_take_turns(struct executor *x, struct turns *turns)
{
    x->turns = turns;
}

void executor_use_graphs(struct executor *x, struct recording *recording, uint32_t index)
{
    x->recording = recording;
    x->index = index;
}

const struct stream_order *executor_order(const struct executor *x)
{
    return &x->order;
}

const struct rank_record *executor_record(const struct executor *x)
{
    return &x->record;
}

void executor_fail(struct executor *x, const char *format, ...)
{
    char what[512], reason[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(reason, sizeof reason, "rank %" PRIu32 ": %s", x->rank, what);
    x->failed = true;
    x->transport_ops->fail(x->end, reason);
}

bool executor_stopped(struct executor *x)
{
    const char *reason = x->failed ? NULL : compute_failure(x->compute_ops, x->compute);
    if (reason)
        executor_fail(x, "%s", reason);
    return x->failed || x->transport_ops->failed(x->end);
}

/* ---- operations ---- */

const struct op *executor_next_op(const struct executor *x, enum stream stream)
{
    const uint32_t *ops;
    if (x->progress.streams[stream].pending || !streams_head(&x->order, &x->progress, stream, &ops) ||
        *ops >= x->program->phase_end[x->phase])
        return NULL;
    return &x->program->ops[*ops];
}

void executor_note_ready(struct executor *x)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (!stream_computes((enum stream)s) || x->ready_since[s])
            continue;
        const struct op *op = executor_next_op(x, (enum stream)s);
        if (op && streams_held_up_by(&x->order, &x->progress, (uint32_t)(op - x->program->ops)) == STREAM_COUNT)
            x->ready_since[s] = ++x->ready_count;
    }
}

void executor_finish_op(struct executor *x, uint32_t op)
{
    x->moved_at = seconds_now();
    if (!x->queued)
        x->record.moments[op].end = x->moved_at;
    x->left--;
    bool freed = streams_finish(&x->order, &x->progress, op);
    if (freed && x->queued)
        queued_finish(x->queued, op);
    executor_note_ready(x);
    if (freed && x->program->ops[op].stream == STREAM_COMPUTE)
        executor_go_to_point(x, x->memory.lifetimes.starts[op] + 1);
}

void executor_begin_op(struct executor *x, uint32_t op)
{
    if (x->queued) {
        queued_wait(x->queued, op);
        executor_fill_before(x, op);
        return;
    }
    x->record.moments[op].begin = x->record.moments[op].move = seconds_now();
}

static void between_tiles(void *context)
{
    executor_progress_messages(context);
}

static void run_op(void *context, uint32_t op)
{
    struct executor *x = context;
    const struct between_tiles between = {between_tiles, x};
    range_push(op_kind_name(x->program->ops[op].kind));
    x->compute_ops->run(x->compute, x->program, op, x->memory.memory, &between);
    range_pop();
}

/* The streams in the order in which local operations are started: kernels of the compute streams take turns as they
 * become ready, those that become ready together in the order of their numbers. */
static void order_streams(struct executor *x, enum stream order[STREAM_COUNT])
{
    executor_note_ready(x);
    uint64_t first = x->ready_since[STREAM_COMPUTE], second = x->ready_since[STREAM_COMPUTE_2];
    bool swapped = second && (!first || second < first);
    int n = 0;
    for (int s = STREAM_COUNT; s-- > 0;)
        if (!stream_computes((enum stream)s))
            order[n++] = (enum stream)s;
    order[n++] = swapped ? STREAM_COMPUTE_2 : STREAM_COMPUTE;
    order[n] = swapped ? STREAM_COMPUTE : STREAM_COMPUTE_2;
}

/* Runs one local operation, if one may start. */
static bool run_local(struct executor *x)
{
    enum stream order[STREAM_COUNT];
    const uint32_t *ops;
    uint32_t count = 0;
    order_streams(x, order);
    for (int i = 0; i < STREAM_COUNT && count == 0; i++) {
        const struct op *op = executor_next_op(x, order[i]);
        if (op && !op_is_message(op) && !executor_is_call(x, op))
            count = streams_start(&x->order, &x->progress, order[i], x->phase, &ops);
        if (count)
            x->ready_since[order[i]] = 0;
    }
    if (count == 0)
        return false;
    uint32_t op = *ops;
    if (x->program->ops[op].stream == STREAM_COMPUTE)
        executor_go_to_point(x, x->memory.lifetimes.starts[op]);
    if (x->failed)
        return false;
    executor_begin_op(x, op);
    if (x->queued)
        queued_run(x->queued, op, x->step->mode != RUN_MESSAGES ? run_op : NULL, x);
    else if (x->step->mode != RUN_MESSAGES)
        run_op(x, op);
    executor_finish_op(x, op);
    executor_start_messages(x);
    return true;
}

void executor_run_operations(struct executor *x)
{
    executor_begin_queueing(x);
    executor_start_messages(x);
    executor_end_queueing(x);
    while (x->left && !executor_stopped(x)) {
        executor_begin_queueing(x);
        bool moved = executor_progress_messages(x);
        moved = run_local(x) || moved;
        executor_end_queueing(x);
        if (!moved) {
            if (x->queued)
                executor_settled(x);
            sched_yield();
            executor_watch(x);
        }
    }
}

/* ---- a step ---- */

static void begin_step(struct executor *x, const struct executor_step *step)
{
    struct moment *moments = x->record.moments;
    x->record = (struct rank_record){.moments = moments};
    x->step = step;
    x->progress = (struct stream_progress){0};
    memset(x->ready_since, 0, sizeof x->ready_since);
    memset(x->unfilled, 0, x->program->n_buffers * sizeof *x->unfilled);
    x->ready_count = 0;
    x->n_in_flight = 0;
    x->failed = false;
    if (x->compute_ops->queues) {
        memset(moments, 0, x->program->n_ops * sizeof *moments);
        if (!x->queued) {
            executor_rehearse_memory(x);
            x->queued = queued_create(&x->order, x->calls != NULL, x->compute_ops, x->compute);
        }
        if (x->recording)
            x->recording->queued[x->index] = x->queued;
        queued_begin_step(x->queued, !step->bare, x->turns);
    }
    rank_memory_reset(&x->memory, x->has_inputs && x->inputs_seed == step->seed);
    x->inputs_seed = step->seed;
    x->has_inputs = true;
}

static bool run_named_phase(struct executor *x, enum phase phase)
{
    range_push(phase_name(phase));
    bool good = executor_run_phase(x, phase);
    range_pop();
    return good;
}

/* Attention's results live until the end of the step; those of a layer are read as they come. */
static void read_outputs(struct executor *x, enum phase phase)
{
    const struct rank_tensors tensors = executor_tensors(x);
    if (!x->step->outputs)
        return;
    if (x->schedule->experiment->step.scope != SCOPE_ATTENTION)
        rank_tensors_read_layer(&tensors, phase, x->step->outputs);
    else if (phase == PHASE_COUNT - 1)
        rank_tensors_read(&tensors, x->step->outputs);
}

static bool run_step(struct executor *x, const struct executor_step *step)
{
    begin_step(x, step);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (phase == PHASE_BACKWARD && !x->schedule->experiment->train) {
            executor_go_to_point(x, x->memory.lifetimes.phase_begin[phase]);
            x->record.phase_begin[phase] = x->record.phase_end[phase] = x->record.phase_end[phase - 1];
        } else if (!run_named_phase(x, (enum phase)phase)) {
            return false;
        }
        read_outputs(x, (enum phase)phase);
    }
    executor_go_to_point(x, x->memory.lifetimes.n_points - 1);
    x->record.peak_bytes = x->memory.peak_bytes;
    return !executor_stopped(x);
}

bool executor_run(struct executor *x, const struct executor_step *step)
{
    static const char *const modes[] = {
        [RUN_ALL] = "step", [RUN_COMPUTE] = "computing only", [RUN_MESSAGES] = "messages only"};
    range_push(modes[step->mode]);
    bool good = run_step(x, step);
    range_pop();
    return good;
}
