/* transfers.h - what the cost of each message of a program depends on: its communicator and what is posted with it. */
#ifndef CPSIM_SIM_TRANSFERS_H
#define CPSIM_SIM_TRANSFERS_H

#include "models/cost/communicators.h"
#include "sim/engine.h"

struct transfers {
    const struct simulation *simulation;
    struct communicators communicators;
};

void transfers_init(struct transfers *transfers, const struct simulation *simulation);
void transfers_fini(struct transfers *transfers);

/* Fills in those of the sends of CP rank `rank` in group `group` of the layout: results[op], of which the others are
 * left alone. */
void transfers_of(const struct transfers *transfers, uint32_t group, uint32_t rank, struct transfer *results);

static inline bool transfers_equal(const struct transfer *a, const struct transfer *b)
{
    return a->bytes == b->bytes && a->communicator.ranks == b->communicator.ranks &&
           a->communicator.span == b->communicator.span && a->peer_bytes == b->peer_bytes &&
           a->posted_bytes == b->posted_bytes && a->call == b->call && a->level_bytes == b->level_bytes &&
           a->rounds == b->rounds && a->members == b->members;
}

#endif
