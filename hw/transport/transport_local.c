/* transport_local.c - the transport 'local': all ranks in this process, a thread each.
 *
 * Ends of messages find each other as local_messages.h says. Memory of the host: nothing moves until both ends are
 * posted (rendezvous); then the first end that asks copies, straight from one buffer to the other: an idle rank moves
 * the bytes while its peer computes. Memory of a device, which all ranks share: local_queue.h.
 *
 * Collectives of the host's memory: local_calls.h.
 *
 * Threads: barriers and the failure are under one mutex. A message's bytes are copied before its state is LOCAL_DONE
 * (release, acquire).
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport/local_calls.h"
#include "hw/transport/local_queue.h"
#ifdef CPSIM_HAVE_CUDA
#include "hw/nccl/nccl_self.h"
#endif
#include "models/base/memory.h"

struct world {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t ranks;
    struct local_board *board;
    uint32_t arrived;  /* at the barrier */
    uint64_t barriers; /* passed */
    struct local_team **teams;
    size_t n_teams, team_capacity;
    char *gathered;
    char *failure; /* written once, under the mutex */
    atomic_bool has_failed;
};

struct request { /* free without either */
    struct local_message *message;
    bool queued, sends; /* of a message: local_queue.h moves it; which end of it this is */
    struct local_call *call;
};

struct transport {
    struct world *world;
    uint32_t rank;
    struct local_queue *queue; /* NULL: not attached */
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
    world->board = local_board_create(ranks);
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

/* After a failure messages are left half-way: those in queues have one holder that exists. */
static void close_local(struct transport **ends, uint32_t n_ends)
{
    if (n_ends == 0)
        return;
    struct world *world = ends[0]->world;
    local_board_forget(world->board);
    for (uint32_t e = 0; e < n_ends; e++) {
        for (size_t i = 0; i < ends[e]->n_requests; i++) {
            if (ends[e]->requests[i].message)
                local_message_drop(ends[e]->requests[i].message);
            if (ends[e]->requests[i].call)
                local_call_drop(ends[e]->requests[i].call);
        }
        if (ends[e]->queue)
            local_queue_destroy(ends[e]->queue);
        free(ends[e]->requests);
        free(ends[e]);
    }
    for (size_t t = 0; t < world->n_teams; t++)
        local_team_destroy(world->teams[t]);
    free(world->teams);
    pthread_mutex_destroy(&world->mutex);
    pthread_cond_destroy(&world->changed);
    local_board_destroy(world->board);
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

static int post(struct transport *end, bool send, uint32_t peer, enum stream stream,
                const struct piece_of_memory *pieces, uint32_t n_pieces)
{
    struct local_side side = {.n_pieces = n_pieces};
    memcpy(side.pieces, pieces, n_pieces * sizeof *pieces);
    struct local_message *message = local_board_post(end->world->board, send ? end->rank : peer,
                                                     send ? peer : end->rank, send, stream, &side, NULL);
    return take_request(end, (struct request){.message = message, .sends = send});
}

static bool test_message(struct local_message *message)
{
    int expected = LOCAL_MATCHED;
    if (atomic_load(&message->state) == LOCAL_MATCHED &&
        atomic_compare_exchange_strong(&message->state, &expected, LOCAL_MOVING)) {
        struct local_run runs[LOCAL_RUNS_MAX];
        const uint32_t n = local_message_runs(message, runs);
        for (uint32_t i = 0; i < n; i++)
            memcpy(runs[i].target, runs[i].source, runs[i].bytes);
        atomic_store(&message->state, LOCAL_DONE);
    }
    if (atomic_load(&message->state) != LOCAL_DONE)
        return false;
    local_message_drop(message);
    return true;
}

static void fail(struct transport *end, const char *reason);

static bool test_queued(struct transport *end, const struct request *request)
{
    const bool done = local_queue_test(end->queue, request->message, request->sends);
    const char *why = local_queue_failure(end->queue);
    if (why && !atomic_load(&end->world->has_failed)) {
        char *reason = memory_format("rank %" PRIu32 ": %s", end->rank, why);
        fail(end, reason);
        free(reason);
    }
    return done;
}

static bool test(struct transport *end, int index)
{
    struct request *request = &end->requests[index];
    const bool done = request->call     ? local_call_test(request->call)
                      : request->queued ? test_queued(end, request)
                                        : test_message(request->message);
    if (!done)
        return false;
    if (request->call)
        local_call_drop(request->call);
    *request = (struct request){.message = NULL};
    return true;
}

/* ---- memory of a device ---- */

static bool attach(struct transport *end, const struct compute_ops *ops, struct compute *compute, uint32_t streams,
                   const struct transport_settings *settings, struct diagnostics *diag)
{
    (void)streams;
    if (!settings->through_library && transport_settings_are_set(settings))
        return diagnostics_add(diag, "transport 'local' copies within one device: what is said of a communication "
                                     "library has no effect");
    if (settings->registered)
        return diagnostics_add(diag, "transport 'local' registers no buffers with a library: within one device it has "
                                     "no effect");
#ifdef CPSIM_HAVE_CUDA
    struct local_mover mover;
    if (settings->through_library && !nccl_self_open(&mover, ops, compute, settings, diag))
        return false;
    end->queue = local_queue_create(end->world->board, end->rank, ops, compute);
    if (settings->through_library)
        local_queue_set_mover(end->queue, &mover);
#else
    if (settings->through_library)
        return diagnostics_add(diag, "transport 'local' has no library to send messages through in this build");
    end->queue = local_queue_create(end->world->board, end->rank, ops, compute);
#endif
    return true;
}

static const char *library(struct transport *end)
{
    return end->queue ? local_queue_library(end->queue) : NULL;
}

static int queue_message(struct transport *end, const struct queued_message *message)
{
    struct local_message *posted = local_queue_post(end->queue, message);
    return take_request(end, (struct request){.message = posted, .queued = true, .sends = message->send});
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
    .in_graphs = true,
    .open = open_local,
    .close = close_local,
    .post = post,
    .open_team = open_team,
    .post_collective = post_collective,
    .test = test,
    .attach = attach,
    .queue_message = queue_message,
    .library = library,
    .barrier = barrier,
    .all_gather = all_gather,
    .fail = fail,
    .failed = failed,
};
