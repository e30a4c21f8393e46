/* execution.c - the state machine of all ranks: each one's streams (streams.h), message pairs, rendezvous, phases. */
#include "models/schedule/execution.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/streams.h"

struct instance {
    struct stream_progress progress;
    uint64_t *posted; /* a bit per operation */
};

struct execution {
    const struct program *programs;
    uint32_t n_programs, n_instances;
    struct stream_order *orders; /* of each program */
    uint32_t **partners;         /* [program][op]: a message's other end, an index in the peer's program */
    struct instance *instances;
    enum phase phase;
    uint64_t left_in_phase; /* operations of all instances */
    uint64_t in_flight;
    struct activity *ready; /* a ring buffer: first in, first out */
    size_t ready_first, ready_count, ready_capacity;
};

/* ---- message pairs ---- */

struct end {
    uint32_t source, op;
};

static void report_unmatched(const struct program *program, uint32_t op, struct diagnostics *diag)
{
    char text[256];
    program_describe_op(program, op, text, sizeof text);
    diagnostics_add(diag, "rank %" PRIu32 ": no rank posts the other end of '%s' (operation %" PRIu32 ", %s stream)",
                    program->rank, text, op, stream_name((enum stream)program->ops[op].stream));
}

/* Pairs the sends of rank `source` to rank `destination` (in op order) with the receives there, stream by stream. */
static void pair_ends(struct execution *e, uint32_t source, uint32_t destination, const struct end *sends,
                      size_t n_sends, const struct end *receives, size_t n_receives, struct diagnostics *diag)
{
    const struct program *from = &e->programs[source], *to = &e->programs[destination];
    for (int s = 0; s < STREAM_COUNT; s++) {
        size_t r = 0;
        for (size_t i = 0; i < n_sends; i++) {
            if (from->ops[sends[i].op].stream != s)
                continue;
            while (r < n_receives && to->ops[receives[r].op].stream != s)
                r++;
            if (r == n_receives) {
                report_unmatched(from, sends[i].op, diag);
                continue;
            }
            e->partners[source][sends[i].op] = receives[r].op;
            e->partners[destination][receives[r].op] = sends[i].op;
            r++;
        }
        for (; r < n_receives; r++)
            if (to->ops[receives[r].op].stream == s)
                report_unmatched(to, receives[r].op, diag);
    }
}

/* Counting sort of all messages of one kind by the rank that receives (`by_peer`: the peer of a send) or, within one
 * program, by the peer. Stable, so that op order is kept. */
static struct end *ends_by_peer(const struct program *programs, uint32_t first, uint32_t count, uint32_t n_ranks,
                                enum op_kind kind, size_t *starts)
{
    memset(starts, 0, ((size_t)n_ranks + 1) * sizeof *starts);
    for (uint32_t p = first; p < first + count; p++)
        for (uint32_t i = 0; i < programs[p].n_ops; i++)
            if (programs[p].ops[i].kind == kind)
                starts[programs[p].ops[i].peer + 1]++;
    for (uint32_t r = 0; r < n_ranks; r++)
        starts[r + 1] += starts[r];
    struct end *ends = memory_zeroed(starts[n_ranks], sizeof *ends);
    size_t *next = memory_zeroed(n_ranks, sizeof *next);
    memcpy(next, starts, n_ranks * sizeof *next);
    for (uint32_t p = first; p < first + count; p++)
        for (uint32_t i = 0; i < programs[p].n_ops; i++)
            if (programs[p].ops[i].kind == kind)
                ends[next[programs[p].ops[i].peer]++] = (struct end){.source = p, .op = i};
    free(next);
    return ends;
}

static bool peers_exist(const struct execution *e, struct diagnostics *diag)
{
    size_t before = diag->count;
    for (uint32_t p = 0; p < e->n_programs; p++) {
        const struct program *program = &e->programs[p];
        for (uint32_t i = 0; i < program->n_ops; i++)
            if (op_is_message(&program->ops[i]) && program->ops[i].peer >= e->n_programs)
                diagnostics_add(
                    diag, "rank %" PRIu32 ": operation %" PRIu32 " names rank %" PRIu32 ", but there are %" PRIu32, p,
                    i, program->ops[i].peer, e->n_programs);
    }
    return diag->count == before;
}

static bool pair_messages(struct execution *e, struct diagnostics *diag)
{
    if (!peers_exist(e, diag))
        return false;
    size_t before = diag->count;
    uint32_t n = e->n_programs;
    size_t *send_starts = memory_zeroed((size_t)n + 1, sizeof *send_starts);
    size_t *receive_starts = memory_zeroed((size_t)n + 1, sizeof *receive_starts);
    struct end *sends = ends_by_peer(e->programs, 0, n, n, OP_SEND, send_starts);
    for (uint32_t destination = 0; destination < n; destination++) {
        struct end *receives = ends_by_peer(e->programs, destination, 1, n, OP_RECEIVE, receive_starts);
        size_t s = send_starts[destination];
        for (uint32_t source = 0; source < n; source++) {
            size_t s_end = s;
            while (s_end < send_starts[destination + 1] && sends[s_end].source == source)
                s_end++;
            size_t n_receives = receive_starts[source + 1] - receive_starts[source];
            if (s_end > s || n_receives)
                pair_ends(e, source, destination, sends + s, s_end - s, receives + receive_starts[source], n_receives,
                          diag);
            s = s_end;
        }
        free(receives);
    }
    free(sends);
    free(send_starts);
    free(receive_starts);
    return diag->count == before;
}

/* ---- running ---- */

static void push_ready(struct execution *e, struct activity activity)
{
    if (e->ready_count == e->ready_capacity) {
        size_t capacity = e->ready_capacity ? 2 * e->ready_capacity : 64;
        struct activity *ready = memory_zeroed(capacity, sizeof *ready);
        for (size_t i = 0; i < e->ready_count; i++)
            ready[i] = e->ready[(e->ready_first + i) % e->ready_capacity];
        free(e->ready);
        e->ready = ready;
        e->ready_first = 0;
        e->ready_capacity = capacity;
    }
    e->ready[(e->ready_first + e->ready_count++) % e->ready_capacity] = activity;
}

static struct activity other_end(const struct execution *e, struct activity end)
{
    uint32_t rank = end.instance % e->n_programs, peer = e->programs[rank].ops[end.op].peer;
    return (struct activity){.instance = end.instance - rank + peer, .op = e->partners[rank][end.op]};
}

static bool is_posted(const struct execution *e, struct activity end)
{
    return e->instances[end.instance].posted[end.op / 64] >> (end.op % 64) & 1;
}

static void post(struct execution *e, struct activity end, enum op_kind kind)
{
    e->instances[end.instance].posted[end.op / 64] |= UINT64_C(1) << (end.op % 64);
    struct activity other = other_end(e, end);
    if (is_posted(e, other))
        push_ready(e, kind == OP_SEND ? end : other);
}

static void start_stream(struct execution *e, uint32_t instance, enum stream stream)
{
    uint32_t rank = instance % e->n_programs;
    const uint32_t *ops;
    uint32_t count = streams_start(&e->orders[rank], &e->instances[instance].progress, stream, e->phase, &ops);
    for (uint32_t i = 0; i < count; i++) {
        const struct op *op = &e->programs[rank].ops[ops[i]];
        struct activity activity = {.instance = instance, .op = ops[i]};
        if (op_is_message(op))
            post(e, activity, (enum op_kind)op->kind);
        else
            push_ready(e, activity);
    }
}

static void start_phase(struct execution *e)
{
    for (uint32_t i = 0; i < e->n_instances; i++) {
        const struct stream_order *order = &e->orders[i % e->n_programs];
        for (uint32_t s = 0; s < order->n_streams; s++)
            start_stream(e, i, (enum stream)order->streams[s]);
    }
}

/* Enters the first phase from `phase` on that has operations, if there is one. */
static void enter_phase(struct execution *e, int phase)
{
    for (; phase < PHASE_COUNT && e->left_in_phase == 0; phase++) {
        e->phase = (enum phase)phase;
        for (uint32_t i = 0; i < e->n_instances; i++) {
            const struct program *program = &e->programs[i % e->n_programs];
            e->left_in_phase += program->phase_end[phase] - (phase ? program->phase_end[phase - 1] : 0);
        }
        start_phase(e);
    }
}

static void finish_op(struct execution *e, struct activity end)
{
    uint32_t rank = end.instance % e->n_programs;
    const struct stream_order *order = &e->orders[rank];
    enum stream stream = (enum stream)e->programs[rank].ops[end.op].stream;
    e->left_in_phase--;
    if (!streams_finish(order, &e->instances[end.instance].progress, end.op))
        return;
    /* Its own stream first, so that a stream's next operation is ready before others': a fixed order. */
    start_stream(e, end.instance, stream);
    for (uint32_t s = 0; s < order->n_streams; s++)
        if (order->streams[s] != stream)
            start_stream(e, end.instance, (enum stream)order->streams[s]);
}

struct execution *execution_create(const struct program *programs, uint32_t n_programs, uint32_t n_groups,
                                   struct diagnostics *diag)
{
    struct execution *e = memory_zeroed(1, sizeof *e);
    e->programs = programs;
    e->n_programs = n_programs;
    e->n_instances = n_programs * n_groups;
    e->orders = memory_zeroed(n_programs, sizeof *e->orders);
    e->instances = memory_zeroed(e->n_instances, sizeof *e->instances);
    e->partners = memory_zeroed(n_programs, sizeof *e->partners);
    for (uint32_t p = 0; p < n_programs; p++) {
        stream_order_init(&e->orders[p], &programs[p]);
        e->partners[p] = memory_zeroed(programs[p].n_ops, sizeof *e->partners[p]);
    }
    if (!pair_messages(e, diag)) {
        execution_destroy(e);
        return NULL;
    }
    for (uint32_t i = 0; i < e->n_instances; i++)
        e->instances[i].posted =
            memory_zeroed((size_t)programs[i % n_programs].n_ops / 64 + 1, sizeof *e->instances[i].posted);
    enter_phase(e, 0);
    return e;
}

void execution_destroy(struct execution *e)
{
    if (!e)
        return;
    for (uint32_t p = 0; p < e->n_programs; p++) {
        stream_order_fini(&e->orders[p]);
        free(e->partners[p]);
    }
    for (uint32_t i = 0; i < e->n_instances; i++)
        free(e->instances[i].posted);
    free(e->orders);
    free(e->partners);
    free(e->instances);
    free(e->ready);
    free(e);
}

bool execution_next(struct execution *e, struct activity *activity)
{
    if (e->ready_count == 0)
        return false;
    *activity = e->ready[e->ready_first];
    e->ready_first = (e->ready_first + 1) % e->ready_capacity;
    e->ready_count--;
    e->in_flight++;
    return true;
}

void execution_finish(struct execution *e, struct activity activity)
{
    assert(e->in_flight > 0);
    e->in_flight--;
    const struct op *op = &e->programs[activity.instance % e->n_programs].ops[activity.op];
    finish_op(e, activity);
    if (op->kind == OP_SEND)
        finish_op(e, other_end(e, activity));
    if (e->left_in_phase == 0)
        enter_phase(e, (int)e->phase + 1);
}

uint64_t execution_in_flight(const struct execution *e)
{
    return e->in_flight;
}

bool execution_done(const struct execution *e)
{
    return e->left_in_phase == 0;
}

#define EXPLAINED_MAX 8

static void explain_stream(const struct execution *e, uint32_t instance, enum stream stream, struct diagnostics *diag)
{
    uint32_t rank = instance % e->n_programs, group = instance / e->n_programs;
    const struct program *program = &e->programs[rank];
    const struct stream_progress *progress = &e->instances[instance].progress;
    bool started = progress->streams[stream].pending > 0;
    /* Of a group: the message whose peer has not posted, or the operation whose buffer is not free. */
    const uint32_t *ops;
    uint32_t count = streams_head(&e->orders[rank], progress, stream, &ops), stuck = ops[0];
    for (uint32_t i = 0; i < count; i++) {
        struct activity end = {.instance = instance, .op = ops[i]};
        bool blocked = started ? op_is_message(&program->ops[end.op]) && !is_posted(e, other_end(e, end))
                               : streams_held_up_by(&e->orders[rank], progress, end.op) != STREAM_COUNT;
        if (blocked) {
            stuck = end.op;
            break;
        }
    }
    char text[256], where[32] = "", reason[128];
    program_describe_op(program, stuck, text, sizeof text);
    if (e->n_instances > e->n_programs)
        snprintf(where, sizeof where, " of group %" PRIu32, group);
    if (started)
        snprintf(reason, sizeof reason, "waits for rank %" PRIu32 " to post the other end", program->ops[stuck].peer);
    else
        snprintf(reason, sizeof reason, "waits for a buffer that the %s stream has not released",
                 stream_name(streams_held_up_by(&e->orders[rank], progress, stuck)));
    diagnostics_add(diag, "rank %" PRIu32 "%s, %s stream: '%s' (operation %" PRIu32 ") %s", rank, where,
                    stream_name(stream), text, stuck, reason);
}

void execution_explain(const struct execution *e, struct diagnostics *diag)
{
    uint64_t stuck = 0;
    for (uint32_t i = 0; i < e->n_instances; i++) {
        uint32_t rank = i % e->n_programs;
        for (int s = 0; s < STREAM_COUNT; s++) {
            const uint32_t *ops;
            if (!streams_head(&e->orders[rank], &e->instances[i].progress, (enum stream)s, &ops) ||
                *ops >= e->programs[rank].phase_end[e->phase])
                continue;
            if (stuck++ < EXPLAINED_MAX)
                explain_stream(e, i, (enum stream)s, diag);
        }
    }
    diagnostics_add(diag,
                    "deadlock in the %s phase: %" PRIu64 " streams wait for each other, %" PRIu64 " operations undone",
                    phase_name(e->phase), stuck, e->left_in_phase);
}

struct activity execution_receive_of(const struct execution *e, struct activity send)
{
    return other_end(e, send);
}

const struct stream_order *execution_order(const struct execution *e, uint32_t rank)
{
    return &e->orders[rank];
}

uint32_t execution_instances(const struct execution *e)
{
    return e->n_instances;
}

const struct program *execution_program(const struct execution *e, uint32_t instance)
{
    return &e->programs[instance % e->n_programs];
}
