/* calibrate_ring.h - messages in a ring, by size, whatever memory they move.
 *
 * The pattern is that of a ring step: every rank sends to the next and receives from the one before, at once. One rank
 * alone sends to itself. On several hosts the ring is first closed within each host, then over the first ranks of the
 * hosts: a level of the topology each.
 */
#ifndef CPSIM_HW_CALIBRATE_CALIBRATE_RING_H
#define CPSIM_HW_CALIBRATE_CALIBRATE_RING_H

#include "hw/calibrate/calibrate.h"

/* A ring that this rank is in; made by embedding. */
struct ring {
    const struct crew *crew;
    bool member; /* else this rank only waits */
    uint32_t next, previous;
    /* Seconds of an exchange with both neighbours, and whether (1, else 0) something came between that makes them
     * worthless. False when a rank has failed. */
    bool (*exchange)(struct ring *ring, uint64_t bytes, double *seconds, double *interrupted);
};

/* Closes the ring over all ranks. */
void ring_of_all(struct ring *ring);

/* Measures a level for the hosts and one for the ranks of a host, where there are several, at `sizes` bytes
 * (ascending). Every rank calls it with like arguments. */
bool calibrate_levels(struct calibration_part *part, struct ring *ring, const uint64_t *sizes, size_t n_sizes);

/* What repeats of something say that every rank did at once. Where `interrupted`, on any rank, they do not count. */
bool exchanges_settle(const struct crew *crew, double *seconds, double *interrupted, size_t repeats,
                      struct measured *result);

#endif
