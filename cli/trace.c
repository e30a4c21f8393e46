/* trace.c - the timeline in the Trace Event Format (JSON) that Perfetto and chrome://tracing read.
 *
 * A process per rank, a thread per stream, a complete event ("ph":"X") per operation. Slices of one thread must nest,
 * and messages posted together overlap: a stream whose operations overlap gets further threads of its own, and an
 * operation goes to the first that is free. A kernel that waits for one of the other compute stream is shown from when
 * it has its turn. Written event by event, so that nothing grows with the size of the run.
 *
 * Format: "Trace Event Format", Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/writers.h"
#include "models/base/memory.h"
#include "models/schedule/layer_names.h"

/* Threads of one stream: when each is free again. */
struct threads {
    double *free_at;
    size_t count, capacity;
};

/* The first thread id of each stream: viewers list them in this order. */
static const size_t first_thread[STREAM_COUNT] = {
    [STREAM_COMPUTE] = 0,   [STREAM_COMPUTE_2] = 5000, [STREAM_EXCHANGE] = 10000, [STREAM_GRADIENT] = 20000,
    [STREAM_OUTER] = 30000, [STREAM_TENSOR] = 40000,   [STREAM_WEIGHTS] = 50000,  [STREAM_REDUCTION] = 60000};

static size_t take_thread(struct threads *threads, double begin, double end)
{
    size_t thread = 0;
    while (thread < threads->count && threads->free_at[thread] > begin)
        thread++;
    if (thread == threads->count) {
        memory_grow(threads->free_at, threads->count, threads->capacity);
        threads->count++;
    }
    threads->free_at[thread] = end;
    return thread;
}

struct trace {
    FILE *stream;
    const struct schedule *schedule;
    const struct ensemble *whole;
    bool first;
    uint32_t layer, n_layers; /* of the operations that are being written; LAYER_NONE: of none */
};

/* When an operation is shown to begin. */
static double shown_begin(const struct op *op, struct moment moment)
{
    return op_is_message(op) ? moment.begin : moment.move;
}

static void begin_event(struct trace *trace)
{
    fputs(trace->first ? "\n" : ",\n", trace->stream);
    trace->first = false;
}

static void write_name(struct trace *trace, const char *what, uint32_t process, size_t thread, const char *name)
{
    begin_event(trace);
    fprintf(trace->stream, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32 ",\"tid\":%zu,\"args\":{\"name\":\"%s\"}}",
            what, process, thread, name);
}

static void write_block(FILE *stream, const char *name, struct block block)
{
    char text[64];
    block_describe(block, text, sizeof text);
    if (block.count)
        fprintf(stream, ",\"%s\":\"%s\"", name, text);
}

/* What a message carries: "KV", or "K" or "V" where they travel apart. */
static const char *carried(const struct program *program, const struct op *op)
{
    uint32_t buffer = op->kind == OP_SEND ? program_reads(program, op)[0] : program_writes(program, op)[0];
    enum tensor tensor = (enum tensor)program->buffers[buffer].tensor;
    if (op->part == PART_K)
        return tensor == TENSOR_DKV ? "dK" : "K";
    if (op->part == PART_V)
        return tensor == TENSOR_DKV ? "dV" : "V";
    return tensor_name(tensor);
}

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

/* " k3", or " kg1" where the block is of joined ranks; nothing for that of all. */
static void append_owner(char *text, size_t size, char side, uint32_t owner)
{
    if (owner != BLOCK_ALL)
        append(text, size, " %c%s%" PRIu32, side, block_is_joined(owner) ? "g" : "", owner & ~BLOCK_JOINED);
}

/* Whether queries are the rank's own, or of the group that it is joined to. */
static bool are_own(const struct schedule *schedule, uint32_t rank, uint32_t owner)
{
    return owner == rank ||
           (block_is_joined(owner) && owner == block_joined(sharding_group_of(&schedule->sharding, rank)));
}

/* "h8-15" and "b2" for heads and batch items, each only where these are not all. */
static void append_lanes(char *text, size_t size, const struct schedule *schedule, struct lanes lanes)
{
    struct lanes all = schedule->lanes;
    if (lanes.heads == 0 || lanes.items == 0)
        return;
    if (lanes.heads < all.heads)
        append(text, size, lanes.heads > 1 ? " h%" PRIu32 "-%" PRIu32 : " h%" PRIu32, lanes.head,
               lanes.head + lanes.heads - 1);
    if (lanes.items < all.items)
        append(text, size, lanes.items > 1 ? " b%" PRIu32 "-%" PRIu32 : " b%" PRIu32, lanes.item,
               lanes.item + lanes.items - 1);
}

/* What an operation is called: its kind and what tells it from its like: "attend k3", "attend q2 k0 h8-15",
 * "send KV to 1", "split-rows Q". */
static void short_name(const struct trace *trace, uint32_t rank, const struct program *program, const struct op *op,
                       const struct rank_place *other_group, char *text, size_t size)
{
    if (op_is_of_layer(op))
        layer_op_name(program, op, text, size);
    else
        snprintf(text, size, "%s", op_kind_name((enum op_kind)op->kind));
    if (op_is_message(op)) {
        append(text, size, " %s %s %" PRIu32, carried(program, op), op->kind == OP_SEND ? "to" : "from",
               other_group ? other_group->rank : op->peer);
        if (other_group)
            append(text, size, " of group %" PRIu32, other_group->group);
    } else if (op_is_attention(op)) {
        if (!are_own(trace->schedule, rank, op->q.owner))
            append_owner(text, size, 'q', op->q.owner);
        append_owner(text, size, 'k', op->k.owner);
    } else if (op_is_layout(op)) {
        append(text, size, " %s", tensor_name((enum tensor)program->buffers[*program_writes(program, op)].tensor));
    }
    if (!op_is_of_layer(op))
        append_lanes(text, size, trace->schedule, op->lanes);
    if (trace->layer != LAYER_NONE)
        append(text, size, " L%" PRIu32, trace->layer);
}

/* The shape of a product. */
static void write_work(FILE *stream, const struct layer_work *work)
{
    fprintf(stream, ",\"rows\":%" PRIu64 ",\"columns\":%" PRIu64 ",\"depth\":%" PRIu64 ",\"dtype\":\"%s\"", work->rows,
            work->columns, work->depth, dtype_name((enum dtype)work->dtype));
}

static void write_op(struct trace *trace, uint32_t place, size_t thread, uint32_t index, struct moment moment)
{
    const struct program *program = ensemble_program(trace->whole, place);
    const struct op turned = ensemble_op(trace->whole, place, index), *op = &turned;
    char name[96];
    double begin = shown_begin(op, moment);
    struct rank_place peer = {0};
    if (op_is_message(op))
        peer = ensemble_peer_place(trace->whole, place, program->ops[index].peer);
    bool leaves = op_is_message(op) && peer.group != trace->whole->instances[place].group;
    short_name(trace, trace->whole->instances[place].rank, program, op, leaves ? &peer : NULL, name, sizeof name);
    begin_event(trace);
    fprintf(trace->stream,
            "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%" PRIu32
            ",\"tid\":%zu,\"ts\":%.17g,\"dur\":%.17g,\"args\":{\"op\":%" PRIu32,
            name, phase_name(program_phase(program, index)), place, thread, begin * 1e6, (moment.end - begin) * 1e6,
            index);
    write_block(trace->stream, "q", op->q);
    write_block(trace->stream, "k", op->k);
    if (leaves)
        fprintf(trace->stream, ",\"peer_group\":%" PRIu32, peer.group);
    if (op_is_message(op))
        fprintf(trace->stream, ",\"peer\":%" PRIu32 ",\"bytes\":%" PRIu64 ",\"traffic\":\"%s\",\"moves_at\":%.17g",
                peer.rank, op->bytes, traffic_name((enum traffic)op->traffic), moment.move * 1e6);
    else if (op_is_attention(op))
        fprintf(trace->stream, ",\"pairs\":%" PRIu64, op->pairs);
    else if (op->kind == OP_PRODUCT)
        write_work(trace->stream, program_work(program, op));
    if (op->collective)
        fprintf(trace->stream, ",\"collective\":\"%s\"",
                collective_call_name((enum collective_call)program->collectives[op->collective - 1].call));
    if (begin > moment.begin)
        fprintf(trace->stream, ",\"ready_at\":%.17g", moment.begin * 1e6);
    fputs("}}", trace->stream);
}

static void write_rank(struct trace *trace, uint32_t place, const struct moment *moments)
{
    const struct instance *self = &trace->whole->instances[place];
    const struct program *program = ensemble_program(trace->whole, place);
    char name[64];
    if (trace->whole->groups > 1)
        snprintf(name, sizeof name, "rank %" PRIu32 " of group %" PRIu32, self->rank, self->group);
    else
        snprintf(name, sizeof name, "rank %" PRIu32, self->rank);
    write_name(trace, "process_name", place, 0, name);
    struct threads threads[STREAM_COUNT] = {0};
    trace->layer = LAYER_NONE;
    trace->n_layers = layers_of_program(program);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        uint8_t stream = program->ops[i].stream;
        if (op_is_of_layer(&program->ops[i]))
            trace->layer = layer_of_op(program, i, trace->n_layers);
        size_t thread = take_thread(&threads[stream], shown_begin(&program->ops[i], moments[i]), moments[i].end);
        write_op(trace, place, first_thread[stream] + thread, i, moments[i]);
    }
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        for (size_t thread = 0; thread < threads[stream].count; thread++) {
            if (thread)
                snprintf(name, sizeof name, "%s (%zu)", stream_name((enum stream)stream), thread + 1);
            else
                snprintf(name, sizeof name, "%s", stream_name((enum stream)stream));
            write_name(trace, "thread_name", place, first_thread[stream] + thread, name);
        }
        free(threads[stream].free_at);
    }
}

bool trace_write(const struct prediction *prediction, FILE *stream)
{
    struct trace trace = {
        .stream = stream, .schedule = &prediction->schedule, .whole = &prediction->whole, .first = true};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", stream);
    for (uint32_t place = 0; place < prediction->report.n_ranks; place++)
        write_rank(&trace, place, prediction->timeline.moments[prediction_instance(prediction, place)]);
    fputs("\n]}\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}
