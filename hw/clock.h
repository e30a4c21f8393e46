/* clock.h - the clock that everything is timed by, and how far those of the ranks' hosts are apart. */
#ifndef CPSIM_HW_CLOCK_H
#define CPSIM_HW_CLOCK_H

#include "hw/transport.h"

double seconds_now(void); /* CLOCK_MONOTONIC of this host */

struct clock_offset {
    double seconds;       /* to be added to the rank's CLOCK_MONOTONIC to get rank 0's */
    double error_seconds; /* the true offset is at most so far off: half a round trip; 0 on rank 0's host */
};

/* Every rank calls it; all get `offsets` [ranks]. Ranks on one host (same boot) share a clock; others exchange a few
 * hundred messages with rank 0, and the fastest round trip decides. `always`: measure on one host too (tests). False
 * when a rank has failed. */
bool clock_offsets(const struct transport_ops *transport, struct transport *end, uint32_t rank, uint32_t ranks,
                   bool always, struct clock_offset *offsets);

#endif
