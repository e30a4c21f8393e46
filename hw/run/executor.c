/* executor.c - the loop of one rank: start what may start, test what is in flight, until the program is through.
 *
 * A kernel hands the thread back between its tiles; messages then move on as they do between operations. Whatever waits
 * looks for the failure of another rank and for the stall limit.
 */
#include "hw/run/executor.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "hw/run/packing.h"
#include "hw/transport/message_chunks.h"
#include "models/base/memory.h"

#define POISON 0xff   /* NaN in fp32 and in bf16 */
#define STAND_IN 0x3c /* a small number in both, for what no message brings */

struct in_flight {
    uint32_t op; /* of a call: the first of its collective */
    int request;
    size_t packing;
};

struct executor {
    const struct schedule *schedule;
    const struct program *program;
    const struct compute_ops *compute_ops;
    struct compute *compute;
    const struct transport_ops *transport_ops;
    struct transport *end;
    const struct rank_calls *calls; /* NULL: collectives are messages and sums like others */
    struct stream_order order;
    struct rank_memory memory;
    struct rank_record record;
    uint64_t inputs_seed;
    bool has_inputs;
    /* the run under way */
    const struct executor_step *step;
    struct stream_progress progress;
    /* When the next operation of a compute stream became ready, on a clock of ready_count; 0: it is not. */
    uint64_t ready_since[STREAM_COUNT];
    uint64_t ready_count;
    enum phase phase;
    uint32_t left; /* operations of the phase */
    struct in_flight *in_flight;
    size_t n_in_flight, in_flight_capacity;
    struct packings packings;
    double moved_at; /* when anything last finished */
    bool failed;
};

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
    };
    stream_order_init(&x->order, program);
    rank_memory_init(&x->memory, &x->order, compute_ops, compute);
    x->record.moments = memory_zeroed(program->n_ops, sizeof *x->record.moments);
    return x;
}

void executor_destroy(struct executor *x)
{
    if (!x)
        return;
    rank_memory_fini(&x->memory);
    stream_order_fini(&x->order);
    free(x->record.moments);
    free(x->in_flight);
    packings_fini(&x->packings);
    free(x);
}

void executor_use_calls(struct executor *x, const struct rank_calls *calls)
{
    x->calls = calls;
}

const struct stream_order *executor_order(const struct executor *x)
{
    return &x->order;
}

const struct rank_record *executor_record(const struct executor *x)
{
    return &x->record;
}

static void fail(struct executor *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct executor *x, const char *format, ...)
{
    char what[512], reason[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(reason, sizeof reason, "rank %" PRIu32 ": %s", x->program->rank, what);
    x->failed = true;
    x->transport_ops->fail(x->end, reason);
}

static bool stopped(struct executor *x)
{
    return x->failed || x->transport_ops->failed(x->end);
}

/* ---- memory ---- */

static struct rank_tensors tensors_of(const struct executor *x)
{
    return (struct rank_tensors){x->schedule, x->program, x->compute_ops, x->compute, x->memory.memory};
}

static void fill_new(void *context, uint32_t index)
{
    struct executor *x = context;
    const struct buffer *buffer = &x->program->buffers[index];
    void *memory = x->memory.memory[index];
    if (rank_memory_is_input(buffer)) {
        const struct rank_tensors tensors = tensors_of(x);
        rank_tensors_write_input(&tensors, x->step->seed, index);
    } else if (x->step->mode != RUN_ALL) {
        x->compute_ops->fill(x->compute, memory, STAND_IN, buffer->bytes);
    } else if (x->step->poison) {
        x->compute_ops->fill(x->compute, memory, POISON, buffer->bytes);
    }
}

static void go_to_point(struct executor *x, uint32_t point)
{
    int64_t missing = x->failed ? -1 : rank_memory_at(&x->memory, point, fill_new, x);
    if (missing >= 0)
        fail(x, "no memory for buffer '%s' of %" PRIu64 " bytes, beside %" PRIu64 " in use",
             x->program->buffers[missing].name, x->program->buffers[missing].bytes, x->memory.bytes);
}

/* ---- operations ---- */

/* The operation that `stream` would start next in this phase, or NULL. */
static const struct op *next_op(const struct executor *x, enum stream stream)
{
    const uint32_t *ops;
    if (x->progress.streams[stream].pending || !streams_head(&x->order, &x->progress, stream, &ops) ||
        *ops >= x->program->phase_end[x->phase])
        return NULL;
    return &x->program->ops[*ops];
}

/* Notes which compute streams have become ready since the last time. */
static void note_ready(struct executor *x)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        if (!stream_computes((enum stream)s) || x->ready_since[s])
            continue;
        const struct op *op = next_op(x, (enum stream)s);
        if (op && streams_held_up_by(&x->order, &x->progress, (uint32_t)(op - x->program->ops)) == STREAM_COUNT)
            x->ready_since[s] = ++x->ready_count;
    }
}

static void finish_op(struct executor *x, uint32_t op)
{
    x->record.moments[op].end = x->moved_at = seconds_now();
    x->left--;
    bool freed = streams_finish(&x->order, &x->progress, op);
    note_ready(x);
    if (freed && x->program->ops[op].stream == STREAM_COMPUTE)
        go_to_point(x, x->memory.lifetimes.starts[op] + 1);
}

static void begin_op(struct executor *x, uint32_t op)
{
    x->record.moments[op].begin = x->record.moments[op].move = seconds_now();
}

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

static void post_message(struct executor *x, uint32_t index)
{
    const struct op *op = &x->program->ops[index];
    bool sends = op->kind == OP_SEND;
    struct piece_of_memory pieces[PIECES_MAX];
    size_t packing;
    uint32_t n = packing_begin(&x->packings, x->compute_ops, x->compute, x->schedule, x->program, op,
                               memory_of_message(x, op), pieces, &packing);
    count_message(x, op, message_bytes(pieces, n));
    int request = x->transport_ops->post(x->end, sends, op->peer, (enum stream)op->stream, pieces, n);
    add_in_flight(x, (struct in_flight){index, request, packing});
}

/* ---- collectives as calls ---- */

static bool is_call(const struct executor *x, const struct op *op)
{
    return x->calls && op->collective;
}

/* All operations of a collective finish at once. */
static void finish_call(struct executor *x, const struct collective *collective)
{
    enum stream stream = (enum stream)collective->stream;
    double now = x->moved_at = seconds_now();
    for (uint32_t i = collective->first_op; i < collective->end_op; i++) {
        struct moment *moment = &x->record.moments[i];
        const uint32_t *ops;
        if (!x->progress.streams[stream].pending)
            streams_start(&x->order, &x->progress, stream, x->phase, &ops); /* nothing holds it up any more */
        streams_finish(&x->order, &x->progress, i);
        moment->end = now;
        if (!op_is_message(&x->program->ops[i]))
            moment->begin = moment->move = now;
    }
    x->left -= collective->end_op - collective->first_op;
    note_ready(x);
    if (stream == STREAM_COMPUTE)
        go_to_point(x, x->memory.lifetimes.starts[collective->end_op - 1] + 1);
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
            go_to_point(x, point);
    if (x->failed)
        return true;
    for (uint32_t i = first; i <= last; i++) {
        const struct op *member = &x->program->ops[i];
        begin_op(x, i);
        if (op_is_message(member) && x->step->mode != RUN_COMPUTE)
            count_message(x, member, member->bytes);
    }
    if (x->step->mode == RUN_COMPUTE)
        finish_call(x, collective);
    else
        add_in_flight(
            x, (struct in_flight){first, rank_calls_post(x->calls, op->collective - 1, x->memory.memory), NOT_PACKED});
    return true;
}

static void finish_message(struct executor *x, const struct in_flight *flight)
{
    const struct op *op = &x->program->ops[flight->op];
    if (is_call(x, op)) {
        finish_call(x, &x->program->collectives[op->collective - 1]);
        return;
    }
    packing_end(&x->packings, x->compute_ops, x->compute, x->schedule, x->program, op, memory_of_message(x, op),
                flight->packing);
    finish_op(x, flight->op);
}

static bool start_group(struct executor *x, enum stream stream)
{
    const struct op *op = next_op(x, stream);
    const uint32_t *ops;
    uint32_t count = 0;
    if (op && is_call(x, op))
        return start_call(x, stream, op);
    if (op && op_is_message(op))
        count = streams_start(&x->order, &x->progress, stream, x->phase, &ops);
    if (count)
        x->ready_since[stream] = 0;
    if (count && stream == STREAM_COMPUTE)
        go_to_point(x, x->memory.lifetimes.starts[*ops]);
    for (uint32_t i = 0; i < count && !x->failed; i++) {
        begin_op(x, ops[i]);
        if (x->step->mode != RUN_COMPUTE)
            post_message(x, ops[i]);
        else
            finish_op(x, ops[i]);
    }
    return count > 0;
}

/* Posts every group of messages, and every call, that may be posted now. */
static void start_messages(struct executor *x)
{
    bool started = true;
    while (started && !x->failed) {
        started = false;
        for (int s = 0; s < STREAM_COUNT; s++)
            started = start_group(x, (enum stream)s) || started;
    }
}

/* Tests what is in flight; true if anything finished. */
static bool progress_messages(struct executor *x)
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
        start_messages(x);
    return finished;
}

static void between_tiles(void *context)
{
    progress_messages(context);
}

/* The streams in the order in which local operations are started: kernels of the compute streams take turns as they
 * become ready, those that become ready together in the order of their numbers. */
static void order_streams(struct executor *x, enum stream order[STREAM_COUNT])
{
    note_ready(x);
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
        const struct op *op = next_op(x, order[i]);
        if (op && !op_is_message(op) && !is_call(x, op))
            count = streams_start(&x->order, &x->progress, order[i], x->phase, &ops);
        if (count)
            x->ready_since[order[i]] = 0;
    }
    if (count == 0)
        return false;
    uint32_t op = *ops;
    if (x->program->ops[op].stream == STREAM_COMPUTE)
        go_to_point(x, x->memory.lifetimes.starts[op]);
    if (x->failed)
        return false;
    const struct between_tiles between = {between_tiles, x};
    begin_op(x, op);
    if (x->step->mode != RUN_MESSAGES)
        x->compute_ops->run(x->compute, x->program, op, x->memory.memory, &between);
    finish_op(x, op);
    start_messages(x);
    return true;
}

/* ---- phases ---- */

/* Fails, naming what is waited for, when nothing has come for too long. */
static void watch(struct executor *x)
{
    double limit = x->step->stall_seconds;
    if (limit <= 0 || seconds_now() - x->moved_at <= limit)
        return;
    uint32_t waited = x->program->n_ops;
    if (x->n_in_flight)
        waited = x->in_flight[0].op;
    for (int s = 0; s < STREAM_COUNT && waited == x->program->n_ops; s++) {
        const struct op *op = next_op(x, (enum stream)s);
        waited = op ? (uint32_t)(op - x->program->ops) : waited;
    }
    char text[256] = "";
    if (waited < x->program->n_ops)
        program_describe_op(x->program, waited, text, sizeof text);
    fail(x, "waited %.3g s for '%s' in the %s phase and gave up", limit, text, phase_name(x->phase));
}

static bool run_phase(struct executor *x, enum phase phase)
{
    uint32_t first = phase ? x->program->phase_end[phase - 1] : 0;
    x->phase = phase;
    x->left = x->program->phase_end[phase] - first;
    go_to_point(x, x->memory.lifetimes.phase_begin[phase]);
    if (!x->transport_ops->barrier(x->end))
        return false;
    x->record.phase_begin[phase] = x->record.phase_end[phase] = x->moved_at = seconds_now();
    start_messages(x);
    while (x->left && !stopped(x)) {
        bool moved = progress_messages(x);
        moved = run_local(x) || moved;
        if (!moved) {
            sched_yield();
            watch(x);
        }
    }
    x->record.phase_end[phase] = x->moved_at;
    return !stopped(x);
}

bool executor_run(struct executor *x, const struct executor_step *step)
{
    struct moment *moments = x->record.moments;
    x->record = (struct rank_record){.moments = moments};
    x->step = step;
    x->progress = (struct stream_progress){0};
    memset(x->ready_since, 0, sizeof x->ready_since);
    x->ready_count = 0;
    x->n_in_flight = 0;
    x->failed = false;
    rank_memory_reset(&x->memory, x->has_inputs && x->inputs_seed == step->seed);
    x->inputs_seed = step->seed;
    x->has_inputs = true;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (phase == PHASE_BACKWARD && !x->schedule->experiment->train) {
            go_to_point(x, x->memory.lifetimes.phase_begin[phase]);
            x->record.phase_begin[phase] = x->record.phase_end[phase] = x->record.phase_end[phase - 1];
        } else if (!run_phase(x, (enum phase)phase)) {
            return false;
        }
    }
    if (step->outputs) {
        const struct rank_tensors tensors = tensors_of(x);
        rank_tensors_read(&tensors, step->outputs);
    }
    go_to_point(x, x->memory.lifetimes.n_points - 1);
    x->record.peak_bytes = x->memory.peak_bytes;
    return !x->failed;
}
