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

#include "models/schedule/program.h"

struct members {
    const uint32_t *ranks; /* CP ranks */
    uint32_t count;
};

struct communicators {
    uint32_t n;              /* ranks */
    uint32_t *ranks;         /* of every stream, group by group: [stream * n + ...] */
    struct members *members; /* [stream * n + rank] */
};

void communicators_init(struct communicators *communicators, const struct program *programs, uint32_t n);
void communicators_fini(struct communicators *communicators);

/* Those of the communicator that carries message `op` of `program`. */
struct members communicator_of(const struct communicators *communicators, const struct program *program,
                               const struct op *op);

#endif
