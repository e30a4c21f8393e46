/* execution.c - the state machine of all ranks: each one's streams (streams.h), message pairs, rendezvous, phases.
 *
 * The ends of a message may be in different replicas, and there in different phases: one that is posted waits for the
 * other as any does.
 */
#include "models/schedule/execution.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

struct state {
    struct stream_progress progress;
    uint64_t *posted; /* a bit per operation */
};

/* Ranks that begin each phase together. */
struct replica {
    uint32_t first, count; /* its instances: members[first], ... */
    enum phase phase;
    uint64_t left_in_phase; /* operations of all of them */
};

struct execution {
    const struct ensemble *ensemble;
    struct ensemble *owned; /* of programs alone; NULL: somebody else's */
    struct state *states;   /* [instance] */
    struct replica *replicas;
    uint32_t *members;      /* instances, replica by replica */
    uint64_t left;          /* operations of all instances */
    struct activity *ready; /* a ring buffer: first in, first out */
    size_t ready_first, ready_count, ready_capacity;
};

static struct replica *replica_of(const struct execution *e, uint32_t instance)
{
    return &e->replicas[e->ensemble->instances[instance].replica];
}

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

static bool is_posted(const struct execution *e, struct activity end)
{
    return e->states[end.instance].posted[end.op / 64] >> (end.op % 64) & 1;
}

static void post(struct execution *e, struct activity end, enum op_kind kind)
{
    e->states[end.instance].posted[end.op / 64] |= UINT64_C(1) << (end.op % 64);
    struct activity other = ensemble_other_end(e->ensemble, end);
    if (is_posted(e, other))
        push_ready(e, kind == OP_SEND ? end : other);
}

static void start_stream(struct execution *e, uint32_t instance, enum stream stream)
{
    const struct shape *shape = ensemble_shape(e->ensemble, instance);
    const uint32_t *ops;
    uint32_t count =
        streams_start(&shape->order, &e->states[instance].progress, stream, replica_of(e, instance)->phase, &ops);
    for (uint32_t i = 0; i < count; i++) {
        const struct op *op = &shape->program->ops[ops[i]];
        struct activity activity = {.instance = instance, .op = ops[i]};
        if (op_is_message(op))
            post(e, activity, (enum op_kind)op->kind);
        else
            push_ready(e, activity);
    }
}

static void start_phase(struct execution *e, const struct replica *replica)
{
    for (uint32_t m = 0; m < replica->count; m++) {
        uint32_t i = e->members[replica->first + m];
        const struct stream_order *order = &ensemble_shape(e->ensemble, i)->order;
        for (uint32_t s = 0; s < order->n_streams; s++)
            start_stream(e, i, (enum stream)order->streams[s]);
    }
}

/* Lets a replica enter the first phase from `phase` on in which it has operations, if there is one. */
static void enter_phase(struct execution *e, struct replica *replica, int phase)
{
    for (; phase < PHASE_COUNT && replica->left_in_phase == 0; phase++) {
        replica->phase = (enum phase)phase;
        for (uint32_t m = 0; m < replica->count; m++) {
            const struct program *program = ensemble_program(e->ensemble, e->members[replica->first + m]);
            replica->left_in_phase += program->phase_end[phase] - (phase ? program->phase_end[phase - 1] : 0);
        }
        start_phase(e, replica);
    }
}

/* Sorts the instances by their replicas; each keeps its place among its own. */
static void find_replicas(struct execution *e)
{
    const struct ensemble *ensemble = e->ensemble;
    e->replicas = memory_zeroed(ensemble->n_replicas, sizeof *e->replicas);
    e->members = memory_zeroed(ensemble->n_instances, sizeof *e->members);
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        replica_of(e, i)->count++;
    for (uint32_t r = 1; r < ensemble->n_replicas; r++)
        e->replicas[r].first = e->replicas[r - 1].first + e->replicas[r - 1].count;
    for (uint32_t r = 0; r < ensemble->n_replicas; r++)
        e->replicas[r].count = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        struct replica *replica = replica_of(e, i);
        e->members[replica->first + replica->count++] = i;
    }
}

static void finish_op(struct execution *e, struct activity end)
{
    const struct stream_order *order = &ensemble_shape(e->ensemble, end.instance)->order;
    enum stream stream = (enum stream)order->program->ops[end.op].stream;
    e->left--;
    replica_of(e, end.instance)->left_in_phase--;
    if (!streams_finish(order, &e->states[end.instance].progress, end.op))
        return;
    /* Its own stream first, so that a stream's next operation is ready before others': a fixed order. */
    start_stream(e, end.instance, stream);
    for (uint32_t s = 0; s < order->n_streams; s++)
        if (order->streams[s] != stream)
            start_stream(e, end.instance, (enum stream)order->streams[s]);
}

struct execution *execution_of(const struct ensemble *ensemble)
{
    struct execution *e = memory_zeroed(1, sizeof *e);
    e->ensemble = ensemble;
    e->states = memory_zeroed(ensemble->n_instances, sizeof *e->states);
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        e->states[i].posted =
            memory_zeroed((size_t)ensemble_program(ensemble, i)->n_ops / 64 + 1, sizeof *e->states[i].posted);
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        e->left += ensemble_program(ensemble, i)->n_ops;
    find_replicas(e);
    for (uint32_t r = 0; r < ensemble->n_replicas; r++)
        enter_phase(e, &e->replicas[r], 0);
    return e;
}

struct execution *execution_create(const struct program *programs, uint32_t n_programs, uint32_t n_groups,
                                   struct diagnostics *diag)
{
    struct ensemble *ensemble = memory_zeroed(1, sizeof *ensemble);
    if (!ensemble_init(ensemble, programs, n_programs, (struct layout){.cp = n_programs, .tp = 1, .dp = n_groups},
                       diag)) {
        free(ensemble);
        return NULL;
    }
    struct execution *e = execution_of(ensemble);
    e->owned = ensemble;
    return e;
}

void execution_destroy(struct execution *e)
{
    if (!e)
        return;
    for (uint32_t i = 0; i < e->ensemble->n_instances; i++)
        free(e->states[i].posted);
    if (e->owned)
        ensemble_fini(e->owned);
    free(e->owned);
    free(e->states);
    free(e->replicas);
    free(e->members);
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
    return true;
}

void execution_finish(struct execution *e, struct activity activity)
{
    const struct op *op = &ensemble_program(e->ensemble, activity.instance)->ops[activity.op];
    struct replica *replica = replica_of(e, activity.instance), *other = replica;
    finish_op(e, activity);
    if (op->kind == OP_SEND) {
        struct activity receive = ensemble_other_end(e->ensemble, activity);
        other = replica_of(e, receive.instance);
        finish_op(e, receive);
    }
    if (replica->left_in_phase == 0)
        enter_phase(e, replica, (int)replica->phase + 1);
    if (other != replica && other->left_in_phase == 0)
        enter_phase(e, other, (int)other->phase + 1);
}

bool execution_done(const struct execution *e)
{
    return e->left == 0;
}

#define EXPLAINED_MAX 8

static void explain_stream(const struct execution *e, uint32_t instance, enum stream stream, struct diagnostics *diag)
{
    const struct instance *self = &e->ensemble->instances[instance];
    const struct stream_order *order = &e->ensemble->shapes[self->shape].order;
    const struct program *program = order->program;
    const struct stream_progress *progress = &e->states[instance].progress;
    bool started = progress->streams[stream].pending > 0;
    /* Of a group: the message whose peer has not posted, or the operation whose buffer is not free. */
    const uint32_t *ops;
    uint32_t count = streams_head(order, progress, stream, &ops), stuck = ops[0];
    for (uint32_t i = 0; i < count; i++) {
        struct activity end = {.instance = instance, .op = ops[i]};
        bool blocked = started
                           ? op_is_message(&program->ops[end.op]) && !is_posted(e, ensemble_other_end(e->ensemble, end))
                           : streams_held_up_by(order, progress, end.op) != STREAM_COUNT;
        if (blocked) {
            stuck = end.op;
            break;
        }
    }
    char text[256], where[32] = "", reason[128], peer[64];
    program_describe_op(program, stuck, text, sizeof text);
    if (e->ensemble->groups > 1)
        snprintf(where, sizeof where, " of group %" PRIu32, self->group);
    if (started) {
        ensemble_describe_peer(e->ensemble, instance, program->ops[stuck].peer, peer, sizeof peer);
        snprintf(reason, sizeof reason, "waits for %s to post the other end", peer);
    } else {
        snprintf(reason, sizeof reason, "waits for a buffer that the %s stream has not released",
                 stream_name(streams_held_up_by(order, progress, stuck)));
    }
    diagnostics_add(diag, "rank %" PRIu32 "%s, %s stream: '%s' (operation %" PRIu32 ") %s", self->rank, where,
                    stream_name(stream), text, stuck, reason);
}

void execution_explain(const struct execution *e, struct diagnostics *diag)
{
    uint64_t stuck = 0;
    for (uint32_t i = 0; i < e->ensemble->n_instances; i++) {
        const struct stream_order *order = &ensemble_shape(e->ensemble, i)->order;
        for (int s = 0; s < STREAM_COUNT; s++) {
            const uint32_t *ops;
            if (!streams_head(order, &e->states[i].progress, (enum stream)s, &ops) ||
                *ops >= order->program->phase_end[replica_of(e, i)->phase])
                continue;
            if (stuck++ < EXPLAINED_MAX)
                explain_stream(e, i, (enum stream)s, diag);
        }
    }
    enum phase phase = PHASE_FORWARD;
    uint64_t undone = 0;
    for (uint32_t r = 0; r < e->ensemble->n_replicas; r++) {
        if (e->replicas[r].left_in_phase > 0 && undone == 0)
            phase = e->replicas[r].phase;
        undone += e->replicas[r].left_in_phase;
    }
    diagnostics_add(diag,
                    "deadlock in the %s phase: %" PRIu64 " streams wait for each other, %" PRIu64 " operations undone",
                    phase_name(phase), stuck, undone);
}

struct activity execution_receive_of(const struct execution *e, struct activity send)
{
    return ensemble_other_end(e->ensemble, send);
}

const struct program *execution_program(const struct execution *e, uint32_t instance)
{
    return ensemble_program(e->ensemble, instance);
}

const struct ensemble *execution_ensemble(const struct execution *e)
{
    return e->ensemble;
}
