/* executor.c - the loop of one rank: start what may start, test what is in flight, until the program is through.
 *
 * A kernel hands the thread back between its tiles; messages then move on as they do between operations. Whatever waits
 * looks for the failure of another rank and for the stall limit.
 */
#include "hw/executor.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "hw/inputs.h"
#include "hw/layout.h"
#include "models/base/memory.h"

#define POISON 0xff   /* NaN in fp32 and in bf16 */
#define STAND_IN 0x3c /* a small number in both, for what no message brings */

struct in_flight {
    uint32_t op;
    int request;
};

struct executor {
    const struct schedule *schedule;
    const struct program *program;
    const struct compute_ops *compute_ops;
    struct compute *compute;
    const struct transport_ops *transport_ops;
    struct transport *end;
    struct stream_order order;
    struct rank_memory memory;
    struct rank_record record;
    uint64_t inputs_seed;
    bool has_inputs;
    /* the run under way */
    const struct executor_step *step;
    struct stream_progress progress;
    enum phase phase;
    uint32_t left; /* operations of the phase */
    struct in_flight *in_flight;
    size_t n_in_flight, in_flight_capacity;
    double moved_at; /* when anything last finished */
    bool failed;
};

const char *output_name(enum output output)
{
    static const char *const names[OUTPUT_COUNT] = {"O", "LSE", "dQ", "dK", "dV"};
    return names[output];
}

void outputs_fini(struct outputs *outputs)
{
    for (int i = 0; i < OUTPUT_COUNT; i++)
        free(outputs->tensors[i]);
    *outputs = (struct outputs){0};
}

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
    free(x);
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

static void write_input(struct executor *x, const struct buffer *buffer, void *memory, uint32_t array, enum input input)
{
    struct layout layout = layout_of(x->schedule, buffer);
    uint64_t bytes = layout.arrays[array].row_bytes;
    struct block shard = {x->program->rank, 0, (uint32_t)buffer->rows};
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(&x->schedule->sharding, shard, spans);
    char *target = layout_rows(&layout, buffer, memory, array, shard), *row = memory_zeroed(1, bytes);
    for (uint32_t s = 0; s < n_spans; s++) {
        for (uint64_t i = 0; i < spans[s].count; i++, target += bytes) {
            input_row(x->step->seed, input, spans[s].first + i * spans[s].stride, 0,
                      bytes / dtype_bytes((enum dtype)buffer->dtype), (enum dtype)buffer->dtype, row);
            x->compute_ops->write(x->compute, target, row, bytes);
        }
    }
    free(row);
}

static void fill_new(void *context, uint32_t index)
{
    struct executor *x = context;
    const struct buffer *buffer = &x->program->buffers[index];
    void *memory = x->memory.memory[index];
    if (rank_memory_is_input(buffer) && buffer->tensor == TENSOR_KV) {
        write_input(x, buffer, memory, 0, INPUT_K);
        write_input(x, buffer, memory, 1, INPUT_V);
    } else if (rank_memory_is_input(buffer)) {
        write_input(x, buffer, memory, 0, buffer->tensor == TENSOR_Q ? INPUT_Q : INPUT_DO);
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

static void finish_op(struct executor *x, uint32_t op)
{
    x->record.moments[op].end = x->moved_at = seconds_now();
    x->left--;
    bool freed = streams_finish(&x->order, &x->progress, op);
    if (freed && x->program->ops[op].stream == STREAM_COMPUTE)
        go_to_point(x, x->memory.lifetimes.starts[op] + 1);
}

static void begin_op(struct executor *x, uint32_t op)
{
    x->record.moments[op].begin = x->record.moments[op].move = seconds_now();
}

static void post_message(struct executor *x, uint32_t index)
{
    const struct op *op = &x->program->ops[index];
    bool sends = op->kind == OP_SEND;
    uint32_t buffer = sends ? *program_reads(x->program, op) : *program_writes(x->program, op);
    struct layout layout = layout_of(x->schedule, &x->program->buffers[buffer]);
    struct block block = layout_block(x->schedule, x->program, op, !sends, 0);
    struct piece_of_memory pieces[PIECES_MAX];
    uint32_t n = layout_pieces(&layout, &x->program->buffers[buffer], x->memory.memory[buffer], block,
                               (enum part)op->part, pieces);
    struct wire_count *wire = &x->record.wire;
    for (uint32_t i = 0; i < n; i++)
        (sends ? wire->sent_bytes : wire->received_bytes)[op->traffic] += pieces[i].bytes;
    (sends ? wire->sent_messages : wire->received_messages)[op->traffic]++;
    memory_grow(x->in_flight, x->n_in_flight, x->in_flight_capacity);
    int request = x->transport_ops->post(x->end, sends, op->peer, (enum stream)op->stream, pieces, n);
    x->in_flight[x->n_in_flight++] = (struct in_flight){index, request};
}

/* The operation that `stream` would start next in this phase, or NULL. */
static const struct op *next_op(const struct executor *x, enum stream stream)
{
    const uint32_t *ops;
    if (x->progress.streams[stream].pending || !streams_head(&x->order, &x->progress, stream, &ops) ||
        *ops >= x->program->phase_end[x->phase])
        return NULL;
    return &x->program->ops[*ops];
}

static bool start_group(struct executor *x, enum stream stream)
{
    const struct op *op = next_op(x, stream);
    const uint32_t *ops;
    uint32_t count = 0;
    if (op && op_is_message(op))
        count = streams_start(&x->order, &x->progress, stream, x->phase, &ops);
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

/* Posts every group of messages that may be posted now. */
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
        finish_op(x, flight.op);
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

/* Runs one local operation, if one may start. */
static bool run_local(struct executor *x)
{
    static const enum stream order[STREAM_COUNT] = {STREAM_GRADIENT, STREAM_EXCHANGE, STREAM_COMPUTE};
    const uint32_t *ops;
    uint32_t count = 0;
    for (int i = 0; i < STREAM_COUNT && count == 0; i++) {
        const struct op *op = next_op(x, order[i]);
        if (op && !op_is_message(op))
            count = streams_start(&x->order, &x->progress, order[i], x->phase, &ops);
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

/* ---- outputs ---- */

static float *read_array(struct executor *x, uint32_t index, uint32_t array)
{
    const struct buffer *buffer = &x->program->buffers[index];
    struct layout layout = layout_of(x->schedule, buffer);
    uint64_t bytes = buffer->rows * layout.arrays[array].row_bytes, size = dtype_bytes((enum dtype)buffer->dtype);
    float *numbers = memory_zeroed(bytes / size, sizeof *numbers);
    if (bytes == 0)
        return numbers;
    char *raw = memory_zeroed(1, bytes);
    x->compute_ops->read(x->compute, raw, (char *)x->memory.memory[index] + layout.arrays[array].offset, bytes);
    for (uint64_t i = 0; i < bytes / size; i++)
        numbers[i] =
            buffer->dtype == DTYPE_BF16 ? bf16_to_float(((uint16_t *)(void *)raw)[i]) : ((float *)(void *)raw)[i];
    free(raw);
    return numbers;
}

static void read_outputs(struct executor *x, struct outputs *outputs)
{
    *outputs = (struct outputs){0};
    for (uint32_t b = 0; b < x->program->n_buffers; b++) {
        if (x->program->buffers[b].role != ROLE_RESIDENT)
            continue;
        switch (x->program->buffers[b].tensor) {
        case TENSOR_O:
            outputs->tensors[OUTPUT_O] = read_array(x, b, 0);
            break;
        case TENSOR_LSE:
            outputs->tensors[OUTPUT_LSE] = read_array(x, b, 0);
            break;
        case TENSOR_DQ:
            outputs->tensors[OUTPUT_DQ] = read_array(x, b, 0);
            break;
        case TENSOR_DKV:
            outputs->tensors[OUTPUT_DK] = read_array(x, b, 0);
            outputs->tensors[OUTPUT_DV] = read_array(x, b, 1);
            break;
        default:
            break;
        }
    }
}

bool executor_run(struct executor *x, const struct executor_step *step)
{
    struct moment *moments = x->record.moments;
    x->record = (struct rank_record){.moments = moments};
    x->step = step;
    x->progress = (struct stream_progress){0};
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
    if (step->outputs)
        read_outputs(x, step->outputs);
    go_to_point(x, x->memory.lifetimes.n_points - 1);
    x->record.peak_bytes = x->memory.peak_bytes;
    return !x->failed;
}
