/* trace.c - the timeline in the Trace Event Format (JSON) that Perfetto and chrome://tracing read.
 *
 * A process per rank, a thread per stream, a complete event ("ph":"X") per operation. Slices of one thread must nest,
 * and messages posted together overlap: a stream whose operations overlap gets further threads of its own, and an
 * operation goes to the first that is free. Written event by event, so that nothing grows with the size of the run.
 *
 * Format: "Trace Event Format", Google, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/writers.h"
#include "models/base/memory.h"

/* Threads of one stream: when each is free again. */
struct lanes {
    double *free_at;
    size_t count, capacity;
};

#define LANES_MAX 10000 /* thread ids of one stream */

static size_t take_lane(struct lanes *lanes, struct moment moment)
{
    size_t lane = 0;
    while (lane < lanes->count && lanes->free_at[lane] > moment.begin)
        lane++;
    if (lane == lanes->count) {
        memory_grow(lanes->free_at, lanes->count, lanes->capacity);
        lanes->count++;
    }
    lanes->free_at[lane] = moment.end;
    return lane;
}

struct trace {
    FILE *stream;
    bool first;
};

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

/* What an operation is called: its kind and the one thing that tells it from its like: "attend k3", "send KV to 1". */
static void short_name(const struct program *program, const struct op *op, char *text, size_t size)
{
    const char *kind = op_kind_name((enum op_kind)op->kind);
    if (op_is_message(op)) {
        snprintf(text, size, "%s %s %s %" PRIu32, kind, carried(program, op), op->kind == OP_SEND ? "to" : "from",
                 op->peer);
    } else if (op_is_attention(op) && op->k.owner != BLOCK_ALL) {
        snprintf(text, size, "%s k%" PRIu32, kind, op->k.owner);
    } else {
        snprintf(text, size, "%s", kind);
    }
}

static void write_op(struct trace *trace, uint32_t process, size_t thread, const struct program *program,
                     uint32_t index, struct moment moment)
{
    const struct op *op = &program->ops[index];
    char name[64];
    short_name(program, op, name, sizeof name);
    begin_event(trace);
    fprintf(trace->stream,
            "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%" PRIu32
            ",\"tid\":%zu,\"ts\":%.17g,\"dur\":%.17g,\"args\":{\"op\":%" PRIu32,
            name, phase_name(program_phase(program, index)), process, thread, moment.begin * 1e6,
            (moment.end - moment.begin) * 1e6, index);
    write_block(trace->stream, "q", op->q);
    write_block(trace->stream, "k", op->k);
    if (op_is_message(op))
        fprintf(trace->stream, ",\"peer\":%" PRIu32 ",\"bytes\":%" PRIu64 ",\"traffic\":\"%s\",\"moves_at\":%.17g",
                op->peer, op->bytes, traffic_name((enum traffic)op->traffic), moment.move * 1e6);
    else if (op_is_attention(op))
        fprintf(trace->stream, ",\"pairs\":%" PRIu64, op->pairs);
    fputs("}}", trace->stream);
}

static void write_instance(struct trace *trace, uint32_t instance, uint32_t cp, uint32_t groups,
                           const struct program *program, const struct moment *moments)
{
    char name[64];
    if (groups > 1)
        snprintf(name, sizeof name, "rank %" PRIu32 " of group %" PRIu32, instance % cp, instance / cp);
    else
        snprintf(name, sizeof name, "rank %" PRIu32, instance % cp);
    write_name(trace, "process_name", instance, 0, name);
    struct lanes lanes[STREAM_COUNT] = {0};
    for (uint32_t i = 0; i < program->n_ops; i++) {
        uint8_t stream = program->ops[i].stream;
        size_t lane = take_lane(&lanes[stream], moments[i]);
        write_op(trace, instance, (size_t)stream * LANES_MAX + lane, program, i, moments[i]);
    }
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        for (size_t lane = 0; lane < lanes[stream].count; lane++) {
            if (lane)
                snprintf(name, sizeof name, "%s (%zu)", stream_name((enum stream)stream), lane + 1);
            else
                snprintf(name, sizeof name, "%s", stream_name((enum stream)stream));
            write_name(trace, "thread_name", instance, (size_t)stream * LANES_MAX + lane, name);
        }
        free(lanes[stream].free_at);
    }
}

bool trace_write(const struct prediction *prediction, FILE *stream)
{
    uint32_t cp = prediction->placement.cp;
    struct trace trace = {stream, true};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", stream);
    for (uint32_t i = 0; i < prediction->timeline.n_instances; i++)
        write_instance(&trace, i, cp, prediction->placement.groups, &prediction->programs[i % cp],
                       prediction->timeline.moments[i]);
    fputs("\n]}\n", stream);
    return fflush(stream) == 0 && !ferror(stream);
}
