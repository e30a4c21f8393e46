/* communicators.c - joined by messages: a forest of ranks per stream, flattened into lists. */
#include "models/cost/communicators.h"

#include <stdlib.h>

#include "models/base/memory.h"

static uint32_t root_of(uint32_t *parent, uint32_t rank)
{
    while (parent[rank] != rank)
        rank = parent[rank] = parent[parent[rank]];
    return rank;
}

/* The lower root stays one, so that groups come in the order of their first ranks. */
static void join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = root_of(parent, a);
    b = root_of(parent, b);
    if (a < b)
        parent[b] = a;
    else
        parent[a] = b;
}

/* Lists the ranks of each tree, ascending. */
static void list_members(uint32_t *parent, uint32_t n, uint32_t *ranks, struct members *members)
{
    uint32_t *place = memory_zeroed(n, sizeof *place), next = 0;
    for (uint32_t r = 0; r < n; r++)
        members[root_of(parent, r)].count++;
    for (uint32_t r = 0; r < n; r++) {
        if (parent[r] != r)
            continue;
        members[r].ranks = ranks + next;
        place[r] = next;
        next += members[r].count;
    }
    for (uint32_t r = 0; r < n; r++) {
        uint32_t root = root_of(parent, r);
        ranks[place[root]++] = r;
        members[r] = members[root];
    }
    free(place);
}

/* Whether `rank` sends anything to its peer `peer` in `stream` that is no part of a collective. */
static bool sends(const struct shape *shape, uint32_t peer, enum stream stream)
{
    const struct messages *messages = &shape->messages;
    size_t list = messages_list(messages, OP_SEND, peer, stream);
    for (uint32_t i = messages->first[list]; i < messages->first[list + 1]; i++)
        if (!shape->program->ops[messages->ends[i]].collective)
            return true;
    return false;
}

void communicators_init(struct communicators *communicators, const struct ensemble *ensemble)
{
    uint32_t n = ensemble->ranks;
    size_t size = (size_t)STREAM_COUNT * n;
    *communicators = (struct communicators){.ensemble = ensemble,
                                            .ranks = memory_zeroed(size, sizeof *communicators->ranks),
                                            .members = memory_zeroed(size, sizeof *communicators->members)};
    uint32_t *parent = memory_zeroed(size, sizeof *parent);
    for (size_t i = 0; i < size; i++)
        parent[i] = (uint32_t)(i % n);
    for (uint32_t r = 0; r < n; r++) {
        const struct shape *shape = ensemble_shape(ensemble, r);
        for (uint32_t p = 0; p < shape->messages.n_peers; p++)
            for (uint32_t s = 0; s < STREAM_COUNT; s++)
                if (sends(shape, p, (enum stream)s))
                    join(parent + (size_t)s * n, r, ensemble_peers(ensemble, r)[p].instance);
    }
    for (size_t s = 0; s < STREAM_COUNT; s++)
        list_members(parent + s * n, n, communicators->ranks + s * n, communicators->members + s * n);
    for (size_t i = 0; i < size; i++)
        communicators->members[i].n = n;
    free(parent);
}

void communicators_fini(struct communicators *communicators)
{
    free(communicators->ranks);
    free(communicators->members);
    *communicators = (struct communicators){0};
}

struct members communicator_of_stream(const struct communicators *communicators, uint32_t rank, enum stream stream)
{
    return communicators->members[(size_t)stream * communicators->ensemble->ranks + rank];
}

struct members communicator_of_collective(const struct communicators *communicators, uint32_t rank,
                                          const struct collective *collective)
{
    const struct ensemble *ensemble = communicators->ensemble;
    return (struct members){ensemble_program(ensemble, rank)->lists + collective->members, collective->n_members,
                            ensemble->instances[rank].turn, ensemble->ranks};
}
