/* transport_local.c - the transport 'local': all ranks in this process, a thread each.
 *
 * A message is one object that both ends share. Whoever posts first queues it under (source, destination, stream);
 * whoever posts second takes the first in the queue, so messages match in posting order. Nothing moves until both ends
 * are posted (rendezvous); then the first end that asks copies, straight from one buffer to the other: an idle rank
 * moves the bytes while its peer computes.
 *
 * Collectives: local_calls.h.
 *
 * Threads: queues, barriers and the failure are under one mutex. A message's pieces are written before its state is
 * MATCHED and read after; its bytes are copied before its state is DONE (release, acquire).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport.h"
#include "hw/transport/local_calls.h"
#include "models/base/memory.h"

enum message_state { POSTED_ONCE, MATCHED, COPYING, DONE };

struct side {
    struct piece_of_memory pieces[PIECES_MAX];
    uint32_t n_pieces;
};

struct message {
    struct message *next; /* in its queue */
    struct side source, target;
    bool from_sender;          /* which end was posted first */
    atomic_int state, holders; /* holders: ends that have not seen it done */
};

struct queue {
    struct message *first, *last;
};

struct world {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t ranks;
    struct queue *queues; /* [(source * ranks + destination) * STREAM_COUNT + stream] */
    uint32_t arrived;     /* at the barrier */
    uint64_t barriers;    /* passed */
    struct local_team **teams;
    size_t n_teams, team_capacity;
    char *gathered;
    char *failure; /* written once, under the mutex */
    atomic_bool has_failed;
};

struct request { /* free without either */
    struct message *message;
    struct local_call *call;
};

struct transport {
    struct world *world;
    uint32_t rank;
    struct request *requests;
    size_t n_requests, capacity;
};

static bool open_local(uint32_t ranks, const uint32_t *place_of_rank, struct transport **ends, uint32_t *n_ends,
                       uint32_t *first_rank, struct diagnostics *diag)
{
    (void)place_of_rank;
    (void)diag;
    struct world *world = memory_zeroed(1, sizeof *world);
    world->ranks = ranks;
    world->queues = memory_zeroed((size_t)ranks * ranks * STREAM_COUNT, sizeof *world->queues);
    pthread_mutex_init(&world->mutex, NULL);
    pthread_cond_init(&world->changed, NULL);
    for (uint32_t r = 0; r < ranks; r++) {
        ends[r] = memory_zeroed(1, sizeof *ends[r]);
        *ends[r] = (struct transport){.world = world, .rank = r};
    }
    *n_ends = ranks;
    *first_rank = 0;
    return true;
}

static void drop(struct message *message)
{
    if (atomic_fetch_sub(&message->holders, 1) == 1)
        free(message);
}

/* After a failure messages are left half-way: those in queues have one holder that exists. */
static void close_local(struct transport **ends, uint32_t n_ends)
{
    if (n_ends == 0)
        return;
    struct world *world = ends[0]->world;
    for (size_t q = 0; q < (size_t)world->ranks * world->ranks * STREAM_COUNT; q++)
        for (struct message *m = world->queues[q].first; m; m = m->next)
            atomic_store(&m->holders, 1);
    for (uint32_t e = 0; e < n_ends; e++) {
        for (size_t i = 0; i < ends[e]->n_requests; i++) {
            if (ends[e]->requests[i].message)
                drop(ends[e]->requests[i].message);
            if (ends[e]->requests[i].call)
                local_call_drop(ends[e]->requests[i].call);
        }
        free(ends[e]->requests);
        free(ends[e]);
    }
    for (size_t t = 0; t < world->n_teams; t++)
        local_team_destroy(world->teams[t]);
    free(world->teams);
    pthread_mutex_destroy(&world->mutex);
    pthread_cond_destroy(&world->changed);
    free(world->queues);
    free(world->gathered);
    free(world->failure);
    free(world);
}

/* ---- messages ---- */

static int take_request(struct transport *end, struct request request)
{
    for (size_t i = 0; i < end->n_requests; i++) {
        if (!end->requests[i].message && !end->requests[i].call) {
            end->requests[i] = request;
            return (int)i;
        }
    }
    memory_grow(end->requests, end->n_requests, end->capacity);
    end->requests[end->n_requests] = request;
    return (int)end->n_requests++;
}

static struct message *pop(struct queue *queue)
{
    struct message *message = queue->first;
    queue->first = message->next;
    if (!queue->first)
        queue->last = NULL;
    return message;
}

static void push(struct queue *queue, struct message *message)
{
    if (queue->last)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
}

static int post(struct transport *end, bool send, uint32_t peer, enum stream stream,
                const struct piece_of_memory *pieces, uint32_t n_pieces)
{
    struct world *world = end->world;
    uint32_t source = send ? end->rank : peer, destination = send ? peer : end->rank;
    struct queue *queue = &world->queues[((size_t)source * world->ranks + destination) * STREAM_COUNT + stream];
    pthread_mutex_lock(&world->mutex);
    bool matches = queue->first && queue->first->from_sender != send;
    struct message *message = matches ? pop(queue) : memory_zeroed(1, sizeof *message);
    struct side *side = send ? &message->source : &message->target;
    memcpy(side->pieces, pieces, n_pieces * sizeof *pieces);
    side->n_pieces = n_pieces;
    if (matches) {
        atomic_store(&message->state, MATCHED);
    } else {
        message->from_sender = send;
        atomic_init(&message->holders, 2);
        push(queue, message);
    }
    pthread_mutex_unlock(&world->mutex);
    return take_request(end, (struct request){.message = message});
}

/* The two sides may be cut differently. */
static void copy(const struct side *source, const struct side *target)
{
    uint32_t s = 0, t = 0;
    uint64_t s_done = 0, t_done = 0;
    while (s < source->n_pieces && t < target->n_pieces) {
        uint64_t s_left = source->pieces[s].bytes - s_done, t_left = target->pieces[t].bytes - t_done;
        uint64_t bytes = s_left < t_left ? s_left : t_left;
        if (bytes)
            memcpy((char *)target->pieces[t].memory + t_done, (const char *)source->pieces[s].memory + s_done, bytes);
        s_done += bytes;
        t_done += bytes;
        if (s_done == source->pieces[s].bytes) {
            s++;
            s_done = 0;
        }
        if (t_done == target->pieces[t].bytes) {
            t++;
            t_done = 0;
        }
    }
}

static bool test_message(struct message *message)
{
    int expected = MATCHED;
    if (atomic_load(&message->state) == MATCHED &&
        atomic_compare_exchange_strong(&message->state, &expected, COPYING)) {
        copy(&message->source, &message->target);
        atomic_store(&message->state, DONE);
    }
    return atomic_load(&message->state) == DONE;
}

static bool test(struct transport *end, int index)
{
    struct request *request = &end->requests[index];
    if (request->call ? !local_call_test(request->call) : !test_message(request->message))
        return false;
    if (request->call)
        local_call_drop(request->call);
    else
        drop(request->message);
    *request = (struct request){NULL, NULL};
    return true;
}

/* ---- collectives ---- */

/* The ends of one process open a team one after the other, and share it. */
static int open_team(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members)
{
    struct world *world = end->world;
    pthread_mutex_lock(&world->mutex);
    size_t t = 0;
    while (t < world->n_teams && !local_team_is(world->teams[t], stream, members, n_members))
        t++;
    if (t == world->n_teams) {
        memory_grow(world->teams, world->n_teams, world->team_capacity);
        world->teams[world->n_teams++] = local_team_create(stream, members, n_members);
    }
    pthread_mutex_unlock(&world->mutex);
    return (int)t;
}

static int post_collective(struct transport *end, int team, const struct collective_part *part)
{
    struct local_call *call = local_call_post(end->world->teams[team], end->rank, part);
    return take_request(end, (struct request){.call = call});
}

/* ---- all ranks ---- */

static bool barrier(struct transport *end)
{
    struct world *world = end->world;
    pthread_mutex_lock(&world->mutex);
    uint64_t mine = world->barriers;
    if (++world->arrived == world->ranks) {
        world->arrived = 0;
        world->barriers++;
        pthread_cond_broadcast(&world->changed);
    }
    while (world->barriers == mine && !world->failure)
        pthread_cond_wait(&world->changed, &world->mutex);
    bool good = !world->failure;
    pthread_mutex_unlock(&world->mutex);
    return good;
}

static bool all_gather(struct transport *end, const void *mine, uint64_t bytes, void *all)
{
    struct world *world = end->world;
    pthread_mutex_lock(&world->mutex);
    if (!world->gathered)
        world->gathered = memory_zeroed(world->ranks, bytes);
    memcpy(world->gathered + end->rank * bytes, mine, bytes);
    pthread_mutex_unlock(&world->mutex);
    if (!barrier(end))
        return false;
    memcpy(all, world->gathered, world->ranks * bytes);
    if (!barrier(end))
        return false;
    pthread_mutex_lock(&world->mutex);
    free(world->gathered);
    world->gathered = NULL;
    pthread_mutex_unlock(&world->mutex);
    return barrier(end);
}

static void fail(struct transport *end, const char *reason)
{
    struct world *world = end->world;
    pthread_mutex_lock(&world->mutex);
    if (!world->failure)
        world->failure = memory_text(reason);
    atomic_store(&world->has_failed, true);
    pthread_cond_broadcast(&world->changed);
    pthread_mutex_unlock(&world->mutex);
}

static const char *failed(struct transport *end)
{
    return atomic_load(&end->world->has_failed) ? end->world->failure : NULL;
}

const struct transport_ops transport_local = {
    .name = "local",
    .summary = "all ranks in this process, a thread each; messages are copies of memory",
    .open = open_local,
    .close = close_local,
    .post = post,
    .open_team = open_team,
    .post_collective = post_collective,
    .test = test,
    .barrier = barrier,
    .all_gather = all_gather,
    .fail = fail,
    .failed = failed,
};
