/* communicators.h - which ranks share the communicator that carries a message.
 *
 * A collective's is its members'. Other messages are sent in the process group that the implementation made for them: a
 * ring of some of the ranks has one of its own. A schedule names no process groups, but shows them: the ranks that
 * messages of a stream join, directly or through others, are one group. So a ring over all ranks is one communicator,
 * those beside each other (usp) are one each, and the rings inside windows and between them (double-ring), which have
 * streams of their own, are too.
 *
 * Groups of the layout are alike, so members are named as programs name peers (peers.h): the same numbers for each
 * group, which mean other ranks for each.
 */
#ifndef CPSIM_MODELS_COST_COMMUNICATORS_H
#define CPSIM_MODELS_COST_COMMUNICATORS_H

#include "models/schedule/ensemble.h"

struct members {
    const uint32_t *numbers; /* of peers */
    uint32_t count;
};

struct communicators {
    uint32_t ranks;                  /* of a group */
    uint32_t *numbers[STREAM_COUNT]; /* of the communicators of each stream, one after the other */
    struct members *members;         /* [stream * ranks + CP rank] */
};

/* `ensemble`: of all ranks. */
void communicators_init(struct communicators *communicators, const struct ensemble *ensemble);
void communicators_fini(struct communicators *communicators);

/* Those of the communicator that carries messages of `stream` to or from CP rank `rank` of any group, collectives'
 * apart: itself alone if there are none. The numbers mean ranks as they are, not turned; the lowest is of the own
 * group. */
struct members communicator_of_stream(const struct communicators *communicators, uint32_t rank, enum stream stream);

/* Those of a collective of a program. The numbers mean ranks as ensemble_peer_place says. */
struct members communicator_of_collective(const struct program *program, const struct collective *collective);

#endif
