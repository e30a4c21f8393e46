/* local_calls.c - collectives among threads: whoever comes last does the work for all, in the order of members. */
#include "hw/transport/local_calls.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport/shares.h"
#include "models/base/memory.h"

struct local_call {
    struct local_call *next; /* of the team's that not everybody has posted */
    struct local_team *team;
    uint64_t number;
    uint32_t arrived;
    enum collective_call call;
    enum dtype dtype;
    bool largest;
    struct share_of_memory *sources, *targets; /* [member][member] */
    uint64_t *bytes;                           /* [member] */
    atomic_uint next_part, done_parts;
    atomic_bool is_open;
    atomic_uint holders; /* members that have posted and not dropped it */
};

struct local_team {
    pthread_mutex_t mutex;
    enum stream stream;
    uint32_t n_members, *members;
    uint64_t *posted; /* [member]: calls */
    struct local_call *calls;
};

struct local_team *local_team_create(enum stream stream, const uint32_t *members, uint32_t n)
{
    struct local_team *team = memory_zeroed(1, sizeof *team);
    team->stream = stream;
    team->n_members = n;
    team->members = memory_zeroed(n, sizeof *members);
    memcpy(team->members, members, n * sizeof *members);
    team->posted = memory_zeroed(n, sizeof *team->posted);
    pthread_mutex_init(&team->mutex, NULL);
    return team;
}

void local_team_destroy(struct local_team *team)
{
    pthread_mutex_destroy(&team->mutex);
    free(team->members);
    free(team->posted);
    free(team);
}

bool local_team_is(const struct local_team *team, enum stream stream, const uint32_t *members, uint32_t n)
{
    return team->stream == stream && team->n_members == n && memcmp(team->members, members, n * sizeof *members) == 0;
}

/* ---- posting ---- */

static struct local_call *new_call(struct local_team *team, uint64_t number, const struct collective_part *part)
{
    uint32_t n = team->n_members;
    struct local_call *call = memory_zeroed(1, sizeof *call);
    call->team = team;
    call->number = number;
    call->call = part->call;
    call->dtype = part->dtype;
    call->largest = part->largest;
    call->sources = memory_zeroed(2 * (size_t)n * n, sizeof *call->sources);
    call->targets = call->sources + (size_t)n * n;
    call->bytes = memory_zeroed(n, sizeof *call->bytes);
    if (part->bytes)
        memcpy(call->bytes, part->bytes, n * sizeof *call->bytes);
    call->next = team->calls;
    team->calls = call;
    return call;
}

static void unlink_call(struct local_call *call)
{
    struct local_call **link = &call->team->calls;
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
}

struct local_call *local_call_post(struct local_team *team, uint32_t rank, const struct collective_part *part)
{
    uint32_t n = team->n_members, me = 0;
    while (team->members[me] != rank)
        me++;
    pthread_mutex_lock(&team->mutex);
    uint64_t number = team->posted[me]++;
    struct local_call *call = team->calls;
    while (call && call->number != number)
        call = call->next;
    if (!call)
        call = new_call(team, number, part);
    assert(call->call == part->call);
    memcpy(call->sources + (size_t)me * n, part->sources, n * sizeof *part->sources);
    memcpy(call->targets + (size_t)me * n, part->targets, n * sizeof *part->targets);
    atomic_fetch_add(&call->holders, 1);
    if (++call->arrived == n) {
        unlink_call(call);
        atomic_store(&call->is_open, true);
    }
    pthread_mutex_unlock(&team->mutex);
    return call;
}

/* Before everybody has posted, only the end of the run drops a call; then nobody looks for it in the list any more. */
void local_call_drop(struct local_call *call)
{
    if (atomic_fetch_sub(&call->holders, 1) > 1)
        return;
    free(call->sources);
    free(call->bytes);
    free(call);
}

/* ---- parts ---- */

static const struct share_of_memory *source(const struct local_call *call, uint32_t member, uint32_t i)
{
    return &call->sources[(size_t)member * call->team->n_members + i];
}

static const struct share_of_memory *target(const struct local_call *call, uint32_t member, uint32_t i)
{
    return &call->targets[(size_t)member * call->team->n_members + i];
}

/* What `member` gets in whole blocks. */
static void give_blocks(const struct local_call *call, uint32_t member)
{
    bool gathers = call->call == CALL_ALL_GATHER;
    for (uint32_t i = 0; i < call->team->n_members; i++)
        if ((gathers || i != member) && target(call, member, i)->n_pieces)
            share_copy(target(call, member, i), source(call, i, gathers ? i : member));
}

/* The sum that `member` gets; of a sum for all, one of as many stretches as there are members. */
static void give_sum(const struct local_call *call, uint32_t member)
{
    uint32_t n = call->team->n_members;
    bool scatters = call->call == CALL_REDUCE_SCATTER;
    uint64_t size = dtype_bytes(call->dtype), numbers = call->bytes[member] / size;
    uint64_t first = scatters ? 0 : numbers * member / n, end = scatters ? numbers : numbers * (member + 1) / n;
    const struct share_of_memory **shares = memory_zeroed(2 * (size_t)n, sizeof *shares), **targets = shares + n;
    for (uint32_t i = 0; i < n; i++) {
        shares[i] = source(call, i, scatters ? member : i);
        targets[i] = scatters ? target(call, member, member) : target(call, i, i);
    }
    shares_reduce(shares, n, call->dtype, call->largest, first * size, (end - first) * size, targets, scatters ? 1 : n);
    free(shares);
}

bool local_call_test(struct local_call *call)
{
    if (!atomic_load(&call->is_open))
        return false;
    uint32_t n = call->team->n_members;
    for (uint32_t part; (part = atomic_load(&call->next_part)) < n;) {
        if (!atomic_compare_exchange_strong(&call->next_part, &part, part + 1))
            continue;
        if (call->call == CALL_ALL_GATHER || call->call == CALL_ALL_TO_ALL)
            give_blocks(call, part);
        else
            give_sum(call, part);
        atomic_fetch_add(&call->done_parts, 1);
    }
    return atomic_load(&call->done_parts) == n;
}
