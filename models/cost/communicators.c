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

void communicators_init(struct communicators *communicators, const struct program *programs, uint32_t n)
{
    size_t size = (size_t)STREAM_COUNT * n;
    *communicators = (struct communicators){.n = n,
                                            .ranks = memory_zeroed(size, sizeof *communicators->ranks),
                                            .members = memory_zeroed(size, sizeof *communicators->members)};
    uint32_t *parent = memory_zeroed(size, sizeof *parent);
    for (size_t i = 0; i < size; i++)
        parent[i] = (uint32_t)(i % n);
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t i = 0; i < programs[r].n_ops; i++) {
            const struct op *op = &programs[r].ops[i];
            if (op->kind == OP_SEND && !op->collective)
                join(parent + (size_t)op->stream * n, r, op->peer);
        }
    }
    for (size_t s = 0; s < STREAM_COUNT; s++)
        list_members(parent + s * n, n, communicators->ranks + s * n, communicators->members + s * n);
    free(parent);
}

void communicators_fini(struct communicators *communicators)
{
    free(communicators->ranks);
    free(communicators->members);
    *communicators = (struct communicators){0};
}

struct members communicator_of(const struct communicators *communicators, const struct program *program,
                               const struct op *op)
{
    if (op->collective) {
        const struct collective *collective = &program->collectives[op->collective - 1];
        return (struct members){program->lists + collective->members, collective->n_members};
    }
    return communicators->members[(size_t)op->stream * communicators->n + program->rank];
}
