/* topology_cables.h - the cables of a drawn cluster: links by what they join, both directions as one. */
#ifndef CPSIM_CLI_TOPOLOGY_CABLES_H
#define CPSIM_CLI_TOPOLOGY_CABLES_H

#include "models/input/link_ends.h"

struct topology_cable {
    uint32_t level;
    struct link_end ends[2];
    uint64_t links[2];  /* one each way; the same twice where there is but one */
    double bytes_per_s; /* of the slower direction */
    double latency_seconds;
    bool degraded;       /* an override slows it */
    uint32_t nth, among; /* of how many between the same ends */
    uint32_t count;      /* cables side by side that this one stands for: many alike are one */
};

/* All cables that are there, ordered by level and ends; the caller frees them. */
struct topology_cable *topology_cables(const struct topology *topology, size_t *count);

#endif
