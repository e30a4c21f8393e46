/* rank_calls.c - what a call waits for is found once, from its operations; posting it looks up where its buffers are.
 */
#include "hw/run/rank_calls.h"

#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"

struct rank_calls {
    const struct collective_plan *plan;
    const struct program *program;
    const struct planned_call *calls;
    const struct transport_ops *ops;
    struct transport *end;
    bool queued;
    uint32_t (*waits)[STREAM_COUNT]; /* [collective]: 1 + the last operation of each other stream; 0: none */
    int *teams;                      /* [plan team]: its number on this end */
};

/* What the operations of a collective wait for in other streams. Nothing of it may itself have waited for them. */
static bool find_waits(struct rank_calls *calls, uint32_t index, const struct stream_order *order,
                       const struct stream_reach *reach, struct diagnostics *diag)
{
    const struct collective *collective = &calls->program->collectives[index];
    for (uint32_t i = collective->first_op; i < collective->end_op; i++) {
        for (int s = 0; s < STREAM_COUNT; s++) {
            uint32_t waits = stream_order_waits(order, i, (enum stream)s);
            if (s == collective->stream || waits == 0)
                continue;
            uint32_t *last = &calls->waits[index][s];
            *last = waits > *last ? waits : *last;
            if (reach->last[waits - 1][collective->stream] <= collective->first_op)
                continue;
            char text[256];
            program_describe_op(calls->program, i, text, sizeof text);
            return diagnostics_add(diag,
                                   "rank %" PRIu32 ": the %s that begins at operation %" PRIu32
                                   " cannot be one call: '%s' waits for what needs the beginning of it; expected "
                                   "--collectives messages",
                                   calls->program->rank, collective_call_name((enum collective_call)collective->call),
                                   collective->first_op, text);
        }
    }
    return true;
}

struct rank_calls *rank_calls_create(const struct collective_plan *plan, uint32_t rank,
                                     const struct stream_order *order, struct diagnostics *diag)
{
    struct rank_calls *calls = memory_zeroed(1, sizeof *calls);
    *calls = (struct rank_calls){.plan = plan, .program = &plan->programs[rank], .calls = plan->calls[rank]};
    calls->waits = memory_zeroed(calls->program->n_collectives, sizeof *calls->waits);
    calls->teams = memory_zeroed(plan->n_teams, sizeof *calls->teams);
    struct stream_reach reach;
    stream_reach_init(&reach, order);
    bool good = true;
    for (uint32_t c = 0; c < calls->program->n_collectives && good; c++)
        good = find_waits(calls, c, order, &reach, diag);
    stream_reach_fini(&reach);
    if (good)
        return calls;
    rank_calls_destroy(calls);
    return NULL;
}

void rank_calls_destroy(struct rank_calls *calls)
{
    if (!calls)
        return;
    free(calls->waits);
    free(calls->teams);
    free(calls);
}

void rank_calls_open(struct rank_calls *calls, const struct transport_ops *ops, struct transport *end, bool queued)
{
    int (*const open_team)(struct transport *, enum stream, const uint32_t *, uint32_t) =
        queued ? ops->queue_team : ops->open_team;
    calls->ops = ops;
    calls->end = end;
    calls->queued = queued;
    for (size_t t = 0; t < calls->plan->n_teams; t++) {
        const struct planned_team *team = &calls->plan->teams[t];
        bool member = false;
        for (uint32_t i = 0; i < team->n_members; i++)
            member = member || team->members[i] == calls->program->rank;
        calls->teams[t] = member ? open_team(end, team->stream, team->members, team->n_members) : -1;
    }
}

bool rank_calls_may_post(const struct rank_calls *calls, const struct stream_progress *progress, uint32_t collective)
{
    for (int s = 0; s < STREAM_COUNT; s++)
        if (calls->waits[collective][s] > progress->streams[s].done)
            return false;
    return true;
}

int rank_calls_post(const struct rank_calls *calls, uint32_t collective, void *const *memory)
{
    const struct planned_call *call = &calls->calls[collective];
    uint32_t n = call->n_members;
    struct share_of_memory *shares = memory_zeroed(2 * (size_t)n, sizeof *shares);
    struct collective_part part = {.call = (enum collective_call)calls->program->collectives[collective].call,
                                   .sources = shares,
                                   .targets = shares + n,
                                   .bytes = call->bytes,
                                   .dtype = call->dtype,
                                   .largest = call->largest};
    for (uint32_t i = 0; i < n; i++) {
        const struct planned_share *pair[] = {&call->sources[i], &call->targets[i]};
        for (int side = 0; side < 2; side++) {
            if (pair[side]->block.count == 0)
                continue;
            shares[(uint32_t)side * n + i] =
                planned_share_memory(calls->plan, calls->program, pair[side], memory[pair[side]->buffer]);
        }
    }
    int (*const post)(struct transport *, int, const struct collective_part *) =
        calls->queued ? calls->ops->queue_collective : calls->ops->post_collective;
    int request = post(calls->end, calls->teams[call->team], &part);
    free(shares);
    return request;
}
