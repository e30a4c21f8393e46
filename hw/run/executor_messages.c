/* executor_messages.c - messages and collectives' calls of one rank: posted when they may be, tested, finished. */
#include <inttypes.h>

#include "hw/run/executor_parts.h"
#include "hw/transport/message_chunks.h"
#include "models/base/memory.h"

static void *memory_of_message(const struct executor *x, const struct op *op)
{
    bool sends = op->kind == OP_SEND;
    return x->memory.memory[sends ? *program_reads(x->program, op) : *program_writes(x->program, op)];
}

static void count_message(struct executor *x, const struct op *op, uint64_t bytes)
{
    struct wire_count *wire = &x->record.wire;
    bool sends = op->kind == OP_SEND;
    (sends ? wire->sent_bytes : wire->received_bytes)[op->traffic] += bytes;
    (sends ? wire->sent_messages : wire->received_messages)[op->traffic]++;
}

static void add_in_flight(struct executor *x, struct in_flight flight)
{
    memory_grow(x->in_flight, x->n_in_flight, x->in_flight_capacity);
    x->in_flight[x->n_in_flight++] = flight;
}

static int post_pieces(struct executor *x, uint32_t index, const struct piece_of_memory *pieces, uint32_t n)
{
    const struct op *op = &x->program->ops[index];
    if (!x->queued)
        return x->transport_ops->post(x->end, op->kind == OP_SEND, op->peer, (enum stream)op->stream, pieces, n);
    uint64_t arrays[LAYOUT_ARRAYS_MAX];
    const uint32_t n_arrays = message_arrays(x->schedule, x->program, op, arrays);
    const struct queued_message message = {.send = op->kind == OP_SEND,
                                           .peer = op->peer,
                                           .stream = (enum stream)op->stream,
                                           .pieces = pieces,
                                           .n_pieces = n,
                                           .moves = queued_moves(x->queued, index),
                                           .arrays = arrays,
                                           .n_arrays = n_arrays};
    return x->transport_ops->queue_message(x->end, &message);
}

static void post_message(struct executor *x, uint32_t index)
{
    const struct op *op = &x->program->ops[index];
    struct piece_of_memory pieces[PIECES_MAX];
    size_t packing;
    uint32_t n = packing_begin(&x->packings, x->compute_ops, x->compute, x->schedule, x->program, op,
                               memory_of_message(x, op), pieces, &packing);
    if (n == 0 && op->bytes) {
        executor_fail(x, "no memory to pack a message of %" PRIu64 " bytes", op->bytes);
        return;
    }
    count_message(x, op, message_bytes(pieces, n));
    add_in_flight(x, (struct in_flight){index, post_pieces(x, index, pieces, n), packing});
}

/* ---- collectives as calls ---- */

bool executor_is_call(const struct executor *x, const struct op *op)
{
    return x->calls && op->collective;
}

/* All operations of a collective finish at once. */
static void finish_call(struct executor *x, const struct collective *collective)
{
    enum stream stream = (enum stream)collective->stream;
    double now = x->moved_at = seconds_now();
    if (x->queued)
        queued_receive(x->queued, collective->end_op - 1);
    for (uint32_t i = collective->first_op; i < collective->end_op; i++) {
        struct moment *moment = &x->record.moments[i];
        const uint32_t *ops;
        if (!x->progress.streams[stream].pending)
            streams_start(&x->order, &x->progress, stream, x->phase, &ops); /* nothing holds it up any more */
        streams_finish(&x->order, &x->progress, i);
        if (x->queued)
            continue;
        moment->end = now;
        if (!op_is_message(&x->program->ops[i]))
            moment->begin = moment->move = now;
    }
    if (x->queued)
        queued_finish(x->queued, collective->end_op - 1);
    x->left -= collective->end_op - collective->first_op;
    executor_note_ready(x);
    if (stream == STREAM_COMPUTE)
        executor_go_to_point(x, x->memory.lifetimes.starts[collective->end_op - 1] + 1);
}

static void begin_call(struct executor *x, const struct collective *collective)
{
    for (uint32_t i = collective->first_op; i < collective->end_op; i++) {
        const struct op *member = &x->program->ops[i];
        executor_begin_op(x, i);
        if (op_is_message(member) && x->step->mode != RUN_COMPUTE)
            count_message(x, member, member->bytes);
    }
    if (x->queued)
        queued_post(x->queued, collective->first_op);
}

/* Posts the call of the collective that `stream` is at; false if it may not start yet. */
static bool start_call(struct executor *x, enum stream stream, const struct op *op)
{
    const struct collective *collective = &x->program->collectives[op->collective - 1];
    const uint32_t *ops, first = collective->first_op, last = collective->end_op - 1;
    if (!rank_calls_may_post(x->calls, &x->progress, op->collective - 1) ||
        !streams_start(&x->order, &x->progress, stream, x->phase, &ops))
        return false;
    x->ready_since[stream] = 0;
    if (stream == STREAM_COMPUTE)
        for (uint32_t point = x->memory.lifetimes.starts[first]; point <= x->memory.lifetimes.starts[last]; point++)
            executor_go_to_point(x, point);
    if (x->failed)
        return true;
    begin_call(x, collective);
    if (x->step->mode == RUN_COMPUTE)
        finish_call(x, collective);
    else
        add_in_flight(
            x, (struct in_flight){first, rank_calls_post(x->calls, op->collective - 1, x->memory.memory), NOT_PACKED});
    return true;
}

/* ---- messages ---- */

static void finish_message(struct executor *x, const struct in_flight *flight)
{
    const struct op *op = &x->program->ops[flight->op];
    if (executor_is_call(x, op)) {
        finish_call(x, &x->program->collectives[op->collective - 1]);
        return;
    }
    packing_end(&x->packings, x->compute_ops, x->compute, x->schedule, x->program, op, memory_of_message(x, op),
                flight->packing);
    if (x->queued)
        queued_receive(x->queued, flight->op);
    executor_finish_op(x, flight->op);
}

/* Messages that begin together. They have all waited for what any of them waits for before the first is posted. */
static void post_group(struct executor *x, const uint32_t *ops, uint32_t count)
{
    bool grouped = x->queued && x->transport_ops->group_begin && count > 1;
    for (uint32_t i = 0; i < count; i++)
        executor_begin_op(x, ops[i]);
    for (uint32_t i = 0; i < count && x->queued; i++)
        queued_post(x->queued, ops[i]);
    if (grouped)
        x->transport_ops->group_begin(x->end);
    for (uint32_t i = 0; i < count && !x->failed; i++)
        post_message(x, ops[i]);
    if (grouped)
        x->transport_ops->group_end(x->end);
}

/* In place of posting them. */
static void skip_group(struct executor *x, const uint32_t *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        executor_begin_op(x, ops[i]);
        if (x->queued) {
            queued_post(x->queued, ops[i]);
            queued_receive(x->queued, ops[i]);
        }
        executor_finish_op(x, ops[i]);
    }
}

static bool start_group(struct executor *x, enum stream stream)
{
    const struct op *op = executor_next_op(x, stream);
    const uint32_t *ops;
    uint32_t count = 0;
    if (op && executor_is_call(x, op))
        return start_call(x, stream, op);
    if (op && op_is_message(op))
        count = streams_start(&x->order, &x->progress, stream, x->phase, &ops);
    if (count == 0)
        return false;
    x->ready_since[stream] = 0;
    if (stream == STREAM_COMPUTE)
        executor_go_to_point(x, x->memory.lifetimes.starts[*ops]);
    if (x->failed)
        return true;
    if (x->step->mode == RUN_COMPUTE)
        skip_group(x, ops, count);
    else
        post_group(x, ops, count);
    return true;
}

void executor_start_messages(struct executor *x)
{
    bool started = true;
    while (started && !x->failed) {
        started = false;
        for (int s = 0; s < STREAM_COUNT; s++)
            started = start_group(x, (enum stream)s) || started;
    }
}

bool executor_progress_messages(struct executor *x)
{
    bool finished = false;
    for (size_t i = 0; i < x->n_in_flight;) {
        struct in_flight flight = x->in_flight[i];
        if (!x->transport_ops->test(x->end, flight.request)) {
            i++;
            continue;
        }
        x->in_flight[i] = x->in_flight[--x->n_in_flight];
        finish_message(x, &flight);
        finished = true;
    }
    if (finished)
        executor_start_messages(x);
    return finished;
}
