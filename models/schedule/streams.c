/* streams.c - hazards are found once per program, in one pass: per buffer and stream, the last operation
 * that wrote it and the last that touched it. */
#include "models/schedule/streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

#define NO_COLUMN UINT8_MAX

static void raise(uint32_t *value, uint32_t to)
{
    if (*value < to)
        *value = to;
}

void stream_order_init(struct stream_order *order, const struct program *program)
{
    *order = (struct stream_order){.program = program};
    order->sequence_memory = memory_zeroed(program->n_ops, sizeof *order->sequence_memory);

    for (uint32_t i = 0; i < program->n_ops; i++)
        order->length[program->ops[i].stream]++;
    uint32_t offset = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        order->column[s] = NO_COLUMN;
        order->sequence[s] = order->sequence_memory + offset;
        offset += order->length[s];
        if (order->length[s] == 0)
            continue;
        order->column[s] = order->n_streams;
        order->streams[order->n_streams++] = (uint8_t)s;
        order->length[s] = 0;
    }
    uint32_t columns = order->n_streams;
    order->waits = memory_zeroed((size_t)program->n_ops * columns, sizeof *order->waits);

    /* Per buffer and column, 1 + the last operation so far that wrote it, and that touched it at all. */
    uint32_t(*wrote)[STREAM_COUNT] = memory_zeroed(program->n_buffers, sizeof *wrote);
    uint32_t(*touched)[STREAM_COUNT] = memory_zeroed(program->n_buffers, sizeof *touched);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        uint32_t *waits = order->waits + (size_t)i * columns, own = order->column[op->stream];
        const uint32_t *reads = program_reads(program, op), *writes = program_writes(program, op);
        for (uint32_t c = 0; c < columns; c++) {
            for (int r = 0; r < op->n_reads; r++)
                raise(&waits[c], wrote[reads[r]][c]);
            for (int w = 0; w < op->n_writes; w++)
                raise(&waits[c], touched[writes[w]][c]);
        }
        /* Its own stream runs in order; members of one group do not wait for each other. */
        uint32_t *sequence = order->sequence[op->stream], length = order->length[op->stream];
        while (length && op->group && program->ops[sequence[length - 1]].group == op->group)
            length--;
        waits[own] = length ? sequence[length - 1] + 1 : 0;
        sequence[order->length[op->stream]++] = i;
        for (int r = 0; r < op->n_reads; r++)
            touched[reads[r]][own] = i + 1;
        for (int w = 0; w < op->n_writes; w++)
            touched[writes[w]][own] = wrote[writes[w]][own] = i + 1;
    }
    free(wrote);
    free(touched);
}

void stream_order_fini(struct stream_order *order)
{
    free(order->waits);
    free(order->sequence_memory);
    memset(order, 0, sizeof *order);
}

uint32_t stream_order_waits(const struct stream_order *order, uint32_t op, enum stream stream)
{
    uint8_t column = order->column[stream];
    return column == NO_COLUMN ? 0 : order->waits[(size_t)op * order->n_streams + column];
}

static uint32_t *group_ends(const struct program *program)
{
    uint32_t *ends = memory_zeroed((size_t)program->n_groups + 1, sizeof *ends);
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].group && program->ops[i].group <= program->n_groups)
            ends[program->ops[i].group] = i + 1;
    return ends;
}

static void raise_all(uint32_t values[STREAM_COUNT], const uint32_t to[STREAM_COUNT])
{
    for (int stream = 0; stream < STREAM_COUNT; stream++)
        raise(&values[stream], to[stream]);
}

/* Operations wait for earlier ones only, so one pass in program order closes the relation. Messages of a group are
 * posted together, so the last of them has waited for what any of them waited for. */
void stream_reach_init(struct stream_reach *reach, const struct stream_order *order)
{
    const struct program *program = order->program;
    *reach = (struct stream_reach){memory_zeroed(program->n_ops, sizeof *reach->last), group_ends(program)};
    uint32_t before[STREAM_COUNT] = {0}; /* 1 + the operation before in the same stream */
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        for (int stream = 0; stream < STREAM_COUNT; stream++) {
            uint32_t waits = stream_order_waits(order, i, (enum stream)stream);
            if (waits == 0)
                continue;
            uint32_t group = program->ops[waits - 1].group;
            uint32_t last = group && reach->group_ends[group] > waits ? reach->group_ends[group] : waits;
            raise_all(reach->last[i], reach->last[(last <= i ? last : waits) - 1]);
            raise(&reach->last[i][stream], last);
        }
        uint32_t mate = before[op->stream];
        if (mate && op->group && program->ops[mate - 1].group == op->group)
            raise_all(reach->last[i], reach->last[mate - 1]);
        before[op->stream] = i + 1;
    }
}

void stream_reach_fini(struct stream_reach *reach)
{
    free(reach->last);
    free(reach->group_ends);
    memset(reach, 0, sizeof *reach);
}

uint32_t streams_head(const struct stream_order *order, const struct stream_progress *progress, enum stream stream,
                      const uint32_t **ops)
{
    uint32_t position = progress->streams[stream].position, left = order->length[stream] - position, length = 1;
    *ops = order->sequence[stream] + position;
    if (left == 0)
        return 0;
    uint32_t group = order->program->ops[**ops].group;
    while (group && length < left && order->program->ops[(*ops)[length]].group == group)
        length++;
    return length;
}

enum stream streams_held_up_by(const struct stream_order *order, const struct stream_progress *progress, uint32_t op)
{
    const uint32_t *waits = order->waits + (size_t)op * order->n_streams;
    for (uint32_t column = 0; column < order->n_streams; column++) {
        enum stream stream = (enum stream)order->streams[column];
        if (waits[column] > progress->streams[stream].done && stream != (enum stream)order->program->ops[op].stream)
            return stream;
    }
    return STREAM_COUNT;
}

uint32_t streams_start(const struct stream_order *order, struct stream_progress *progress, enum stream stream,
                       enum phase phase, const uint32_t **ops)
{
    /* Asked for all streams whenever one gets free: most are busy, or wait for another one still. */
    if (progress->streams[stream].pending ||
        progress->streams[stream].until > progress->streams[progress->streams[stream].held_by].done)
        return 0;
    uint32_t count = streams_head(order, progress, stream, ops);
    if (count == 0 || **ops >= order->program->phase_end[phase])
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        enum stream held_by = streams_held_up_by(order, progress, (*ops)[i]);
        if (held_by == STREAM_COUNT)
            continue;
        progress->streams[stream].held_by = held_by;
        progress->streams[stream].until = stream_order_waits(order, (*ops)[i], held_by);
        return 0;
    }
    progress->streams[stream].running = progress->streams[stream].pending = count;
    return count;
}

bool streams_finish(const struct stream_order *order, struct stream_progress *progress, uint32_t op)
{
    uint8_t stream = order->program->ops[op].stream;
    assert(progress->streams[stream].pending > 0);
    if (--progress->streams[stream].pending > 0)
        return false;
    progress->streams[stream].position += progress->streams[stream].running;
    progress->streams[stream].done = order->sequence[stream][progress->streams[stream].position - 1] + 1;
    return true;
}
