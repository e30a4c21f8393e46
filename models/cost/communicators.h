/* communicators.h - which ranks share the communicator that carries a message.
 *
 * A collective's is its members'. Other messages are sent in the process group that the implementation made for them: a
 * ring of some of the ranks has one of its own. A schedule names no process groups, but shows them: the ranks that
 * messages of a stream join, directly or through others, are one group. So a ring over all ranks is one communicator,
 * those beside each other (usp) are one each, and the rings inside windows and between them (double-ring), which have
 * streams of their own, are too.
 */
#ifndef CPSIM_MODELS_COST_COMMUNICATORS_H
#define CPSIM_MODELS_COST_COMMUNICATORS_H

#include "models/schedule/ensemble.h"

struct members {
    const uint32_t *ranks; /* CP ranks, as a program that is turned by `turn` of `n` ranks names them */
    uint32_t count, turn, n;
};

static inline uint32_t members_rank(struct members members, uint32_t i)
{
    return (uint32_t)(((uint64_t)members.ranks[i] + members.turn) % members.n);
}

struct communicators {
    const struct ensemble *ensemble;
    uint32_t *ranks;         /* of every stream, group by group: [stream * n + ...] */
    struct members *members; /* [stream * n + rank] */
};

/* `ensemble`: of all ranks; it outlives the communicators. Groups of the layout have the same ones. */
void communicators_init(struct communicators *communicators, const struct ensemble *ensemble);
void communicators_fini(struct communicators *communicators);

/* Those of the communicator that carries messages of `stream` to or from CP rank `rank`, collectives' apart. */
struct members communicator_of_stream(const struct communicators *communicators, uint32_t rank, enum stream stream);

/* Those of a collective of the program of CP rank `rank`. */
struct members communicator_of_collective(const struct communicators *communicators, uint32_t rank,
                                          const struct collective *collective);

#endif
