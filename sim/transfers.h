/* transfers.h - what the cost of each message of a program depends on: its communicator and what is posted with it.
 *
 * A fan is what a rank posts at once to several others. Where a level has a `fan_bandwidth` F, as the root complex of a
 * CPU has for GPUs that write into each other over PCIe, fans pass through it as through one pipe: what members send
 * each other, what they send out and what comes in from elsewhere. Let a rank send I bytes of its fan to other members
 * of the level's instance and O beyond it, and u GPUs of the instance do likewise, all at the same time. Then the pipe
 * passes u (I + 2 O), and a message of b bytes gets F b / (u (I + 2 O)) of it. What stays inside a member does not
 * pass; nor does a message to one peer alone, which is no fan and has its links to itself.
 *
 * A message of a flowing collective (program.h) of N members stands for all that a ring sends to a neighbour in its
 * N - 1 steps, or of an all-reduce in its 2 (N - 1).
 */
#ifndef CPSIM_SIM_TRANSFERS_H
#define CPSIM_SIM_TRANSFERS_H

#include "sim/surroundings.h"

/* Fills in those of the sends of a program in these surroundings: results[op], of which the others are left alone. */
void transfers_of(const struct simulation *simulation, const struct surroundings *surroundings,
                  struct transfer *results);

static inline bool transfers_equal(const struct transfer *a, const struct transfer *b)
{
    return a->bytes == b->bytes && a->communicator.ranks == b->communicator.ranks &&
           a->communicator.span == b->communicator.span && a->peer_bytes == b->peer_bytes &&
           a->posted_bytes == b->posted_bytes && a->call == b->call && a->level_bytes == b->level_bytes &&
           a->rounds == b->rounds && a->members == b->members && a->steps == b->steps &&
           a->span_members == b->span_members && a->fan_level == b->fan_level &&
           a->fan_bytes_per_s >= b->fan_bytes_per_s && a->fan_bytes_per_s <= b->fan_bytes_per_s;
}

#endif
