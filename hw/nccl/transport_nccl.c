/* transport_nccl.c - the transports 'nccl' (one rank a process) and 'nccl-threads' (all ranks in this process, a thread
 * each): memory of GPUs, one for each rank, moved by NCCL.
 *
 * Each wraps a transport of the host's memory, by which ranks find each other. A stream in which any rank has messages
 * has a communicator of its own, for all work of one communicator is in one order, the same on all ranks, and two
 * streams have none. What is queued and how, nccl_end.h and the files that it names tell.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hw/nccl/nccl_end.h"
#include "models/base/memory.h"

/* ---- open and close ---- */

static bool open_on(const struct transport_ops *base, uint32_t ranks, const uint32_t *place_of_rank,
                    struct transport **ends, uint32_t *n_ends, uint32_t *first_rank, struct diagnostics *diag)
{
    struct transport **bases = memory_zeroed(ranks, sizeof *bases);
    bool good = base->open(ranks, place_of_rank, bases, n_ends, first_rank, diag);
    for (uint32_t e = 0; e < *n_ends; e++) {
        ends[e] = memory_zeroed(1, sizeof *ends[e]);
        *ends[e] = (struct transport){.base_ops = base,
                                      .base = bases[e],
                                      .rank = *first_rank + e,
                                      .ranks = ranks,
                                      .seconds_to_come = NCCL_SECONDS_TO_COME};
    }
    free(bases);
    return good;
}

static void end_free(struct transport *end)
{
    nccl_batches_close(end);
    for (size_t t = 0; t < end->n_teams; t++)
        free(end->teams[t].peers);
    while (end->n_registrations)
        nccl_release(end, end->registrations[0].memory);
    free(end->teams);
    free(end->registrations);
    free(end->comms);
    free(end);
}

static void close_on(const struct transport_ops *base, struct transport **ends, uint32_t n_ends)
{
    struct transport **bases = memory_zeroed(n_ends, sizeof *bases);
    bool good = true;
    for (uint32_t e = 0; e < n_ends; e++) {
        bases[e] = ends[e]->base;
        good = !nccl_failed(ends[e]) && good;
    }
    if (good)
        nccl_comms_close(ends, n_ends);
    for (uint32_t e = 0; e < n_ends; e++) {
        nccl_give_up(ends[e]);
        end_free(ends[e]);
    }
    base->close(bases, n_ends);
    free(bases);
}

/* ---- attach ---- */

/* What rank 0 tells the others, and all tell of themselves. */
struct introduction {
    int version;
    struct nccl_id ids[STREAM_COUNT];
};

static bool check_settings(const struct transport *end, struct diagnostics *diag)
{
    if (end->settings.through_library)
        return diagnostics_add(diag, "all messages are sent through NCCL here; to oneself is for transport 'local'");
    return nccl_settings_check(&end->library, &end->settings, diag);
}

static bool introduce(struct transport *end, uint32_t streams, struct introduction *first)
{
    struct introduction mine = {.version = end->library.version};
    for (int s = 0; s < STREAM_COUNT; s++)
        if (end->rank == 0 && streams >> s & 1 &&
            !NCCL_CHECK(end, NULL, end->library.get_id(&mine.ids[s]), "making an id for a communicator"))
            return false;
    struct introduction *all = memory_zeroed(end->ranks, sizeof *all);
    bool good = end->base_ops->all_gather(end->base, &mine, sizeof mine, all);
    *first = all[0];
    if (good && first->version != mine.version)
        good = nccl_fail(end, "this rank has NCCL %s, but rank 0 has version %d.%d.%d", end->library.version_text,
                         first->version / 10000, first->version / 100 % 100, first->version % 100);
    free(all);
    return good;
}

static bool make_communicators(struct transport *end, uint32_t streams)
{
    struct introduction first;
    if (!introduce(end, streams, &first))
        return false;
    for (int s = 0; s < STREAM_COUNT; s++) {
        char name[64];
        if (!(streams >> s & 1))
            continue;
        snprintf(name, sizeof name, "stream '%s'", stream_name((enum stream)s));
        end->streams[s].comm = nccl_comm_create(end, first.ids[s], end->ranks, end->rank, name);
        if (!end->streams[s].comm)
            return false;
    }
    return true;
}

static bool attach(struct transport *end, const struct compute_ops *ops, struct compute *compute, uint32_t streams,
                   const struct transport_settings *settings, struct diagnostics *diag)
{
    end->ops = ops;
    end->compute = compute;
    end->settings = *settings;
    struct diagnostics own;
    diagnostics_init(&own);
    if (!nccl_library_open(&end->library, settings->library, &own) || !check_settings(end, &own))
        nccl_fail(end, "%s", own.lines[0]); /* others wait for this rank */
    diagnostics_fini(&own);
    if (!end->given_up && make_communicators(end, streams))
        return true;
    (void)nccl_failed(end); /* gives up */
    return transport_complain(end->base_ops, end->base, diag);
}

/* ---- what is passed on ---- */

/* Requests of both kinds as numbers of one: the base's are even. */
static int of_base(int request)
{
    return 2 * request;
}

static int of_queue(int request)
{
    return 2 * request + 1;
}

static int post(struct transport *end, bool send, uint32_t peer, enum stream stream,
                const struct piece_of_memory *pieces, uint32_t n_pieces)
{
    return of_base(end->base_ops->post(end->base, send, peer, stream, pieces, n_pieces));
}

static int open_team(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members)
{
    return end->base_ops->open_team(end->base, stream, members, n_members);
}

static int post_collective(struct transport *end, int team, const struct collective_part *part)
{
    return of_base(end->base_ops->post_collective(end->base, team, part));
}

static int queue_message(struct transport *end, const struct queued_message *message)
{
    return of_queue(nccl_queue_message(end, message));
}

static int queue_collective(struct transport *end, int team, const struct collective_part *part)
{
    return of_queue(nccl_queue_collective(end, team, part));
}

static bool test(struct transport *end, int number)
{
    if (number % 2 == 0)
        return end->base_ops->test(end->base, number / 2);
    struct nccl_request *request = &end->requests[number / 2];
    nccl_progress(end);
    if (!request->done)
        return false;
    *request = (struct nccl_request){.used = false};
    return true;
}

static bool barrier(struct transport *end)
{
    return end->base_ops->barrier(end->base);
}

static bool all_gather(struct transport *end, const void *mine, uint64_t bytes, void *all)
{
    return end->base_ops->all_gather(end->base, mine, bytes, all);
}

static const char *library(struct transport *end)
{
    return end->library.version_text;
}

static void fail(struct transport *end, const char *reason)
{
    end->base_ops->fail(end->base, reason);
    nccl_give_up(end);
}

/* ---- the two ---- */

#define NCCL_OPS                                                                                                       \
    .one_rank_a_device = true, .post = post, .open_team = open_team, .post_collective = post_collective, .test = test, \
    .attach = attach, .allocate = nccl_allocate, .release = nccl_release, .queue_message = queue_message,              \
    .group_begin = nccl_group_begin, .group_end = nccl_group_end, .queue_team = nccl_queue_team,                       \
    .queue_collective = queue_collective, .library = library, .settled = nccl_progress, .barrier = barrier,            \
    .all_gather = all_gather, .fail = fail, .failed = nccl_failed

static bool open_threads(uint32_t ranks, const uint32_t *place_of_rank, struct transport **ends, uint32_t *n_ends,
                         uint32_t *first_rank, struct diagnostics *diag)
{
    return open_on(&transport_local, ranks, place_of_rank, ends, n_ends, first_rank, diag);
}

static void close_threads(struct transport **ends, uint32_t n_ends)
{
    close_on(&transport_local, ends, n_ends);
}

static uint32_t place_of_thread(struct transport *end)
{
    return end->rank;
}

const struct transport_ops transport_nccl_threads = {
    .name = "nccl-threads",
    .summary = "all ranks in this process, a thread and a GPU each; NCCL moves the messages",
    .open = open_threads,
    .close = close_threads,
    .place_on_host = place_of_thread,
    NCCL_OPS,
};

#ifdef CPSIM_HAVE_MPI
static bool open_processes(uint32_t ranks, const uint32_t *place_of_rank, struct transport **ends, uint32_t *n_ends,
                           uint32_t *first_rank, struct diagnostics *diag)
{
    return open_on(&transport_mpi, ranks, place_of_rank, ends, n_ends, first_rank, diag);
}

static void close_processes(struct transport **ends, uint32_t n_ends)
{
    close_on(&transport_mpi, ends, n_ends);
}

static uint32_t place_of_process(struct transport *end)
{
    return end->base_ops->place_on_host ? end->base_ops->place_on_host(end->base) : end->rank;
}

const struct transport_ops transport_nccl = {
    .name = "nccl",
    .summary = "one rank a process, started by mpirun, a GPU each; NCCL moves the messages",
    .one_rank_a_process = true,
    .open = open_processes,
    .close = close_processes,
    .place_on_host = place_of_process,
    NCCL_OPS,
};
#endif
