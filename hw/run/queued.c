/* queued.c - gates, the waits for them, and the marks that are read as moments. */
#include "hw/run/queued.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

struct op_marks {
    struct mark *gate;         /* NULL: nobody waits for it */
    struct mark *begin, *done; /* timed; NULL until a step is traced. Of a call: its first begins, its last is done */
    struct mark *moves;        /* likewise, of a message's receiver */
    bool moved;                /* `moves` has been given away in this step */
};

struct queued {
    const struct stream_order *order;
    const struct program *program;
    const struct queue_ops *queues;
    struct compute *compute;
    bool calls;
    uint32_t *last; /* [op]: the last one that finishes with it */
    struct op_marks *marks;
    struct device_clock clock;
    struct mark *begin, *ends[STREAM_COUNT]; /* timed, of a phase */
    struct mark *joins[STREAM_COUNT];        /* of a recording: the recorder's compute stream begins it, all others
                                                end it. NULL until there is one */
    bool can_trace;                          /* timed marks have been made */
    /* the step under way */
    bool traced;
    struct turns *turns;
    bool in_graph;                             /* gates and ends are the graph's: they cannot be asked for */
    uint32_t first, end;                       /* operations of the phase */
    uint32_t seen[STREAM_COUNT][STREAM_COUNT]; /* [of][in]: 1 + what a queue has waited for last */
    uint32_t reached[STREAM_COUNT];            /* 1 + the last operation that is queued with its gate */
    uint32_t position[STREAM_COUNT];           /* in a stream's sequence: what is not yet known to be through */
};

static const struct op *op_at(const struct queued *q, uint32_t op)
{
    return &q->program->ops[op];
}

static enum stream stream_of(const struct queued *q, uint32_t op)
{
    return (enum stream)q->program->ops[op].stream;
}

static bool is_call(const struct queued *q, uint32_t op)
{
    return q->calls && op_at(q, op)->collective;
}

static const struct collective *call_of(const struct queued *q, uint32_t op)
{
    return &q->program->collectives[op_at(q, op)->collective - 1];
}

/* ---- beginning and end ---- */

static void find_last(struct queued *q)
{
    uint32_t *groups = memory_zeroed((size_t)q->program->n_groups + 1, sizeof *groups); /* 1 + the last of a group */
    for (uint32_t i = q->program->n_ops; i-- > 0;) {
        uint32_t group = op_at(q, i)->group;
        if (group && groups[group] == 0)
            groups[group] = i + 1;
        q->last[i] = is_call(q, i) ? call_of(q, i)->end_op - 1 : group ? groups[group] - 1 : i;
    }
    free(groups);
}

static void make_gates(struct queued *q)
{
    for (uint32_t i = 0; i < q->program->n_ops; i++) {
        for (uint32_t c = 0; c < q->order->n_streams; c++) {
            enum stream stream = (enum stream)q->order->streams[c];
            uint32_t waits = stream_order_waits(q->order, i, stream);
            struct op_marks *marks = waits ? &q->marks[q->last[waits - 1]] : NULL;
            if (marks && !marks->gate && stream != stream_of(q, i) &&
                program_phase(q->program, waits - 1) == program_phase(q->program, i))
                marks->gate = q->queues->mark_create(q->compute, false);
        }
    }
}

struct queued *queued_create(const struct stream_order *order, bool calls, const struct compute_ops *ops,
                             struct compute *compute)
{
    struct queued *q = memory_zeroed(1, sizeof *q);
    uint32_t n = order->program->n_ops;
    *q = (struct queued){.order = order,
                         .program = order->program,
                         .queues = ops->queues,
                         .compute = compute,
                         .calls = calls,
                         .last = memory_zeroed(n, sizeof *q->last),
                         .marks = memory_zeroed(n, sizeof *q->marks)};
    find_last(q);
    make_gates(q);
    device_clock_init(&q->clock, q->queues, compute);
    q->begin = q->queues->mark_create(compute, true);
    q->ends[STREAM_COMPUTE] = q->queues->mark_create(compute, true);
    for (uint32_t c = 0; c < order->n_streams; c++)
        if (order->streams[c] != STREAM_COMPUTE)
            q->ends[order->streams[c]] = q->queues->mark_create(compute, true);
    return q;
}

static void destroy_mark(struct queued *q, struct mark *mark)
{
    if (mark)
        q->queues->mark_destroy(q->compute, mark);
}

void queued_destroy(struct queued *q)
{
    if (!q)
        return;
    for (uint32_t i = 0; i < q->program->n_ops; i++) {
        destroy_mark(q, q->marks[i].gate);
        destroy_mark(q, q->marks[i].begin);
        destroy_mark(q, q->marks[i].done);
        destroy_mark(q, q->marks[i].moves);
    }
    destroy_mark(q, q->begin);
    for (int s = 0; s < STREAM_COUNT; s++) {
        destroy_mark(q, q->ends[s]);
        destroy_mark(q, q->joins[s]);
    }
    device_clock_fini(&q->clock);
    free(q->last);
    free(q->marks);
    free(q);
}

static void make_timed(struct queued *q)
{
    for (uint32_t i = 0; i < q->program->n_ops; i++) {
        struct op_marks *marks = &q->marks[i];
        marks->begin = q->queues->mark_create(q->compute, true);
        marks->done = q->queues->mark_create(q->compute, true);
        if (op_at(q, i)->kind == OP_RECEIVE && !is_call(q, i))
            marks->moves = q->queues->mark_create(q->compute, true);
    }
    q->can_trace = true;
}

void queued_begin_step(struct queued *q, bool traced, struct turns *turns)
{
    q->traced = traced || turns;
    q->turns = turns;
    if (q->traced && !q->can_trace)
        make_timed(q);
    for (uint32_t i = 0; i < q->program->n_ops; i++)
        q->marks[i].moved = false;
    memset(q->reached, 0, sizeof q->reached);
    memset(q->position, 0, sizeof q->position);
}

/* ---- phases ---- */

bool queued_set_clock(struct queued *q, bool (*waiting)(void *context), void *context)
{
    return device_clock_set(&q->clock, waiting, context);
}

static void enter_phase(struct queued *q, enum phase phase, bool in_graph)
{
    q->first = phase ? q->program->phase_end[phase - 1] : 0;
    q->end = q->program->phase_end[phase];
    q->in_graph = in_graph;
    memset(q->seen, 0, sizeof q->seen);
}

void queued_begin_phase(struct queued *q, enum phase phase)
{
    enter_phase(q, phase, false);
    q->queues->mark(q->compute, STREAM_COMPUTE, q->begin);
    for (uint32_t c = 0; c < q->order->n_streams; c++)
        if (q->order->streams[c] != STREAM_COMPUTE)
            q->queues->wait(q->compute, (enum stream)q->order->streams[c], q->begin);
}

void queued_end_phase(struct queued *q)
{
    for (uint32_t c = 0; c < q->order->n_streams; c++)
        q->queues->mark(q->compute, (enum stream)q->order->streams[c], q->ends[q->order->streams[c]]);
}

bool queued_is_over(struct queued *q)
{
    if (!q->queues->passed(q->compute, q->begin))
        return false;
    if (q->in_graph)
        return q->queues->passed(q->compute, q->ends[STREAM_COMPUTE]);
    for (uint32_t c = 0; c < q->order->n_streams; c++)
        if (!q->queues->passed(q->compute, q->ends[q->order->streams[c]]))
            return false;
    return true;
}

/* Where a stream is in its sequence, as far as its gates tell. */
static bool advance(struct queued *q, enum stream stream)
{
    const uint32_t *ops = q->order->sequence[stream];
    uint32_t *position = &q->position[stream], passed = *position;
    for (uint32_t i = *position; i < q->order->length[stream] && ops[i] < q->reached[stream]; i++) {
        const struct mark *gate = q->marks[ops[i]].gate;
        if (gate && !q->queues->passed(q->compute, gate))
            break;
        passed = gate ? i + 1 : passed;
    }
    bool moved = passed > *position;
    *position = passed;
    return moved;
}

bool queued_has_moved(struct queued *q)
{
    bool moved = false;
    for (uint32_t c = 0; c < q->order->n_streams && !q->in_graph; c++)
        moved = advance(q, (enum stream)q->order->streams[c]) || moved;
    return moved;
}

uint32_t queued_waits_for(const struct queued *q)
{
    for (uint32_t c = 0; c < q->order->n_streams && !q->in_graph; c++) {
        enum stream stream = (enum stream)q->order->streams[c];
        if (q->position[stream] < q->order->length[stream] &&
            q->order->sequence[stream][q->position[stream]] < q->end && !q->queues->passed(q->compute, q->ends[stream]))
            return q->order->sequence[stream][q->position[stream]];
    }
    return q->program->n_ops;
}

static struct moment read_moment(const struct queued *q, uint32_t op)
{
    uint32_t first = is_call(q, op) ? call_of(q, op)->first_op : op, last = is_call(q, op) ? q->last[op] : op;
    struct moment moment = {.begin = device_clock_seconds(&q->clock, q->marks[first].begin),
                            .end = device_clock_seconds(&q->clock, q->marks[last].done)};
    if (is_call(q, op) && !op_is_message(op_at(q, op)))
        moment.begin = moment.end;
    moment.move = q->marks[op].moved ? device_clock_seconds(&q->clock, q->marks[op].moves) : moment.begin;
    return moment;
}

struct queued_times queued_read(const struct queued *q, struct moment *moments)
{
    struct queued_times times = {.begin = device_clock_seconds(&q->clock, q->begin),
                                 .clock_error_seconds = q->clock.error_seconds};
    times.end = q->in_graph ? device_clock_seconds(&q->clock, q->ends[STREAM_COMPUTE]) : times.begin;
    for (uint32_t c = 0; c < q->order->n_streams && !q->in_graph; c++)
        times.end = fmax(times.end, device_clock_seconds(&q->clock, q->ends[q->order->streams[c]]));
    for (uint32_t i = q->first; i < q->end && q->traced; i++)
        moments[i] = read_moment(q, i);
    return times;
}

/* ---- phases that become one graph ---- */

static void set_join(struct queued *q, enum stream stream)
{
    if (!q->joins[stream])
        q->joins[stream] = q->queues->mark_create(q->compute, false);
    q->queues->mark(q->compute, stream, q->joins[stream]);
}

void queued_open_recording(struct queued *recorder)
{
    set_join(recorder, STREAM_COMPUTE);
}

void queued_begin_recording(struct queued *q, enum phase phase, const struct queued *recorder)
{
    enter_phase(q, phase, true);
    for (uint32_t c = 0; c < q->order->n_streams; c++)
        if (q != recorder || q->order->streams[c] != STREAM_COMPUTE)
            q->queues->wait(q->compute, (enum stream)q->order->streams[c], recorder->joins[STREAM_COMPUTE]);
}

void queued_end_recording(struct queued *q, const struct queued *recorder)
{
    for (uint32_t c = 0; c < q->order->n_streams; c++)
        if (q != recorder || q->order->streams[c] != STREAM_COMPUTE)
            set_join(q, (enum stream)q->order->streams[c]);
}

void queued_join_recording(struct queued *recorder, const struct queued *q)
{
    for (uint32_t c = 0; c < q->order->n_streams; c++)
        if (q != recorder || q->order->streams[c] != STREAM_COMPUTE)
            recorder->queues->wait(recorder->compute, STREAM_COMPUTE, q->joins[q->order->streams[c]]);
}

void queued_begin_launch(struct queued *recorder)
{
    recorder->queues->mark(recorder->compute, STREAM_COMPUTE, recorder->begin);
}

void queued_end_launch(struct queued *recorder)
{
    recorder->queues->mark(recorder->compute, STREAM_COMPUTE, recorder->ends[STREAM_COMPUTE]);
}

/* ---- operations ---- */

void queued_wait(struct queued *q, uint32_t op)
{
    enum stream own = stream_of(q, op);
    for (uint32_t c = 0; c < q->order->n_streams; c++) {
        enum stream stream = (enum stream)q->order->streams[c];
        uint32_t waits = stream_order_waits(q->order, op, stream);
        if (stream == own || waits <= q->first)
            continue;
        uint32_t last = q->last[waits - 1];
        if (last + 1 <= q->seen[own][stream])
            continue;
        q->queues->wait(q->compute, own, q->marks[last].gate);
        q->seen[own][stream] = last + 1;
    }
}

static void mark_if_traced(struct queued *q, uint32_t op, struct mark *mark)
{
    if (q->traced)
        q->queues->mark(q->compute, stream_of(q, op), mark);
}

void queued_run(struct queued *q, uint32_t op, void (*run)(void *context, uint32_t op), void *context)
{
    if (q->turns) {
        pthread_mutex_lock(&q->turns->mutex);
        if (q->turns->last)
            q->queues->wait(q->compute, stream_of(q, op), q->turns->last);
    }
    mark_if_traced(q, op, q->marks[op].begin);
    if (run)
        run(context, op);
    mark_if_traced(q, op, q->marks[op].done);
    if (q->turns) {
        q->turns->last = q->marks[op].done;
        pthread_mutex_unlock(&q->turns->mutex);
    }
}

void queued_post(struct queued *q, uint32_t op)
{
    mark_if_traced(q, op, q->marks[op].begin);
}

struct mark *queued_moves(struct queued *q, uint32_t op)
{
    q->marks[op].moved = q->traced && q->marks[op].moves;
    return q->marks[op].moved ? q->marks[op].moves : NULL;
}

void queued_receive(struct queued *q, uint32_t op)
{
    mark_if_traced(q, op, q->marks[op].done);
}

void queued_finish(struct queued *q, uint32_t op)
{
    enum stream stream = stream_of(q, op);
    uint32_t last = q->last[op];
    if (q->marks[last].gate)
        q->queues->mark(q->compute, stream, q->marks[last].gate);
    q->reached[stream] = last + 1;
}
