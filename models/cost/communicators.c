/* communicators.c - joined by messages: a forest of ranks per stream, flattened into lists.
 *
 * Where no message of a stream leaves its group, as nearly always, the forest is of one group's ranks. Otherwise it is
 * of all ranks; since groups are alike, the trees that the first group's ranks are in are all that is kept. Rank r of
 * group g is number g * ranks + r to the first group.
 */
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

/* Lists the ranks of each tree, ascending; `members` is of the first `n_kept`. */
static void list_members(uint32_t *parent, uint32_t n, uint32_t *numbers, struct members *members, uint32_t n_kept)
{
    uint32_t *place = memory_zeroed(n, sizeof *place), *count = memory_zeroed(n, sizeof *count), next = 0;
    for (uint32_t r = 0; r < n; r++)
        count[root_of(parent, r)]++;
    for (uint32_t r = 0; r < n; r++) {
        if (parent[r] != r)
            continue;
        place[r] = next;
        next += count[r];
    }
    for (uint32_t r = 0; r < n_kept; r++) {
        uint32_t root = root_of(parent, r);
        members[r] = (struct members){numbers + place[root], count[root]};
    }
    for (uint32_t r = 0; r < n; r++)
        numbers[place[root_of(parent, r)]++] = r;
    free(place);
    free(count);
}

/* Whether programs of `shape` send anything to their peer `peer` in `stream` that is no part of a collective. */
static bool sends(const struct shape *shape, uint32_t peer, enum stream stream)
{
    const struct messages *messages = &shape->messages;
    size_t list = messages_list(messages, OP_SEND, peer, stream);
    for (uint32_t i = messages->first[list]; i < messages->first[list + 1]; i++)
        if (!shape->program->ops[messages->ends[i]].collective)
            return true;
    return false;
}

static bool leaves_group(const struct ensemble *ensemble, enum stream stream)
{
    for (uint32_t s = 0; s < ensemble->n_shapes; s++) {
        const struct shape *shape = &ensemble->shapes[s];
        for (uint32_t p = shape->messages.n_peers; p-- > 0 && shape->messages.peers[p] >= ensemble->ranks;)
            if (sends(shape, p, stream))
                return true;
    }
    return false;
}

static void join_members(struct communicators *communicators, const struct ensemble *ensemble, enum stream stream)
{
    uint32_t n = leaves_group(ensemble, stream) ? ensemble->n_instances : ensemble->ranks;
    uint32_t *parent = memory_zeroed(n, sizeof *parent);
    for (uint32_t i = 0; i < n; i++)
        parent[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        const struct shape *shape = ensemble_shape(ensemble, i);
        for (uint32_t p = 0; p < shape->messages.n_peers; p++)
            if (sends(shape, p, stream))
                join(parent, i, ensemble_peers(ensemble, i)[p].instance);
    }
    communicators->numbers[stream] = memory_zeroed(n, sizeof *communicators->numbers[stream]);
    list_members(parent, n, communicators->numbers[stream], communicators->members + (size_t)stream * ensemble->ranks,
                 ensemble->ranks);
    free(parent);
}

void communicators_init(struct communicators *communicators, const struct ensemble *ensemble)
{
    *communicators = (struct communicators){
        .ranks = ensemble->ranks,
        .members = memory_zeroed((size_t)STREAM_COUNT * ensemble->ranks, sizeof *communicators->members)};
    for (int s = 0; s < STREAM_COUNT; s++)
        join_members(communicators, ensemble, (enum stream)s);
}

void communicators_fini(struct communicators *communicators)
{
    for (int s = 0; s < STREAM_COUNT; s++)
        free(communicators->numbers[s]);
    free(communicators->members);
    *communicators = (struct communicators){0};
}

struct members communicator_of_stream(const struct communicators *communicators, uint32_t rank, enum stream stream)
{
    return communicators->members[(size_t)stream * communicators->ranks + rank];
}

struct members communicator_of_collective(const struct program *program, const struct collective *collective)
{
    return (struct members){program->lists + collective->members, collective->n_members};
}
