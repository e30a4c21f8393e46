/* crew.h - the ranks of a measurement, each on its own core, and what they agree on.
 *
 * A constant of one rank alone is not what a run meets, in which all ranks compute at once and share caches, memory and
 * power. So all ranks measure at once, in step.
 */
#ifndef CPSIM_HW_CALIBRATE_CREW_H
#define CPSIM_HW_CALIBRATE_CREW_H

#include "hw/transport.h"

/* One rank's place among them. */
struct crew {
    const struct transport_ops *transport;
    struct transport *end;
    uint32_t rank, ranks;
};

/* Runs `work` on each rank: with transport 'local' on a thread for each of `ranks`, under MPI on this process's rank
 * (`ranks` 0: as many as were started, or one for each core). `context` is shared by the ranks of this process. False
 * with messages; `work` returns false when a rank has failed. *speaks: whether this process is the one to print. */
bool crew_run(const char *transport, uint32_t ranks, bool (*work)(const struct crew *crew, void *context),
              void *context, bool *speaks, struct diagnostics *diag);

bool crew_meet(const struct crew *crew);
/* `values` become the means (or the largest) over all ranks. */
bool crew_mean(const struct crew *crew, double *values, uint32_t count);
bool crew_largest(const struct crew *crew, double *values, uint32_t count);

/* Which host each rank is on: [ranks], numbered in the order of their first ranks; *n_hosts of them. Ranks share a host
 * when they share a kernel and its network. */
bool crew_hosts(const struct crew *crew, uint32_t *host_of_rank, uint32_t *n_hosts);

#endif
