/* queued_calls.h - for tests: a transport's collectives of a device's memory, for cases that have theirs on the host
 * (tests/hw/collective_cases.h).
 *
 * A call's memory is copied to the device, in runs as it is on the host, and back when the queue is through. A thread
 * has one call at a time.
 */
#ifndef CPSIM_TESTS_GPU_QUEUED_CALLS_H
#define CPSIM_TESTS_GPU_QUEUED_CALLS_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "hw/compute.h"
#include "hw/transport.h"

#define RUNS_MAX 64
#define TEAMS_MAX 64

struct queued_calls {
    const struct transport_ops *transport;
    const struct compute_ops *ops;
    struct compute *compute;
    enum stream team_streams[TEAMS_MAX];
    uint32_t team_sizes[TEAMS_MAX];
    struct queued_run {
        char *host, *device;
        uint64_t bytes;
    } runs[RUNS_MAX];
    uint32_t n_runs;
    enum stream stream;
};

static _Thread_local struct queued_calls queued_calls;

static inline int bridge_open_team(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n)
{
    int team = queued_calls.transport->queue_team(end, stream, members, n);
    queued_calls.team_streams[team] = stream;
    queued_calls.team_sizes[team] = n;
    return team;
}

static inline void note_run(const struct piece_of_memory *piece)
{
    struct queued_calls *q = &queued_calls;
    if (q->n_runs == RUNS_MAX)
        abort();
    q->runs[q->n_runs++] = (struct queued_run){piece->memory, NULL, piece->bytes};
}

static inline int compare_runs(const void *a, const void *b)
{
    const struct queued_run *first = a, *second = b;
    return first->host < second->host ? -1 : first->host > second->host;
}

/* Runs that touch, or are the same, become one. */
static inline void join_runs(void)
{
    struct queued_calls *q = &queued_calls;
    uint32_t n = 0;
    qsort(q->runs, q->n_runs, sizeof *q->runs, compare_runs);
    for (uint32_t i = 0; i < q->n_runs; i++) {
        struct queued_run *last = n ? &q->runs[n - 1] : NULL;
        if (last && q->runs[i].host <= last->host + last->bytes) {
            uint64_t bytes = (uint64_t)(q->runs[i].host - last->host) + q->runs[i].bytes;
            last->bytes = bytes > last->bytes ? bytes : last->bytes;
        } else {
            q->runs[n++] = q->runs[i];
        }
    }
    q->n_runs = n;
}

static inline struct share_of_memory on_device(const struct share_of_memory *share)
{
    struct share_of_memory moved = *share;
    for (uint32_t p = 0; p < share->n_pieces; p++)
        for (uint32_t i = 0; i < queued_calls.n_runs; i++) {
            const struct queued_run *run = &queued_calls.runs[i];
            const char *host = share->pieces[p].memory;
            if (host >= run->host && host < run->host + run->bytes)
                moved.pieces[p].memory = run->device + (host - run->host);
        }
    return moved;
}

static inline int bridge_post(struct transport *end, int team, const struct collective_part *part)
{
    struct queued_calls *q = &queued_calls;
    const uint32_t n = q->team_sizes[team];
    struct share_of_memory *shares = calloc(2 * (size_t)n, sizeof *shares);
    struct collective_part moved = *part;
    q->n_runs = 0;
    q->stream = q->team_streams[team];
    for (uint32_t i = 0; i < 2 * n; i++) {
        const struct share_of_memory *share = i < n ? &part->sources[i] : &part->targets[i - n];
        for (uint32_t p = 0; p < share->n_pieces; p++)
            note_run(&share->pieces[p]);
    }
    join_runs();
    for (uint32_t i = 0; i < q->n_runs; i++) {
        q->runs[i].device = q->ops->allocate(q->compute, q->runs[i].bytes);
        q->ops->write(q->compute, q->runs[i].device, q->runs[i].host, q->runs[i].bytes);
    }
    for (uint32_t i = 0; i < 2 * n; i++)
        shares[i] = on_device(i < n ? &part->sources[i] : &part->targets[i - n]);
    moved.sources = shares;
    moved.targets = shares + n;
    int request = q->transport->queue_collective(end, team, &moved);
    free(shares);
    return request;
}

/* Also true when a rank has failed: what came is then wrong. */
static inline bool bridge_test(struct transport *end, int request)
{
    struct queued_calls *q = &queued_calls;
    if (q->transport->failed(end))
        return true;
    if (!q->transport->test(end, request))
        return false;
    struct mark *end_mark = q->ops->queues->mark_create(q->compute, false);
    q->ops->queues->mark(q->compute, q->stream, end_mark);
    while (!q->ops->queues->passed(q->compute, end_mark) && !q->transport->failed(end))
        sched_yield();
    q->ops->queues->mark_destroy(q->compute, end_mark);
    for (uint32_t i = 0; i < q->n_runs; i++) {
        q->ops->read(q->compute, q->runs[i].host, q->runs[i].device, q->runs[i].bytes);
        q->ops->release(q->compute, q->runs[i].device);
    }
    return true;
}

#endif
