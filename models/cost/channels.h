/* channels.h - into how many channels NCCL splits a message of ncclSend and ncclRecv.
 *
 * A channel is one thread block, and moves so much a second whatever its message is; how many a message gets depends on
 * its communicator first and on its size second. As NCCL 2.28 has it (src/enqueue.cc scheduleP2pTasksToPlan and
 * addP2pToPlan, src/graph/paths.cc ncclTopoComputeP2pChannels and ncclTopoGetNchannels):
 *
 *   per peer  the least that any two members of the communicator have between them; where it spans nodes that is the
 *             network's figure, halved while ranks * per peer > 4 channels
 *   n0        per peer, halved while n0 * ranks > channels: all ranks' messages at once shall find a channel each
 *   n         min(n0, bytes / least part), doubled while a part is larger than the largest and n <= per peer / 2
 *
 * A part is at least chunk / 8 and at most 32 chunks inside a node, chunk / 2 and one chunk where the communicator
 * spans nodes. A chunk is 512 KiB where all is NVLink, otherwise 128 KiB. Messages of at most 16 KiB * per peer go by
 * the LL protocol, whose chunk is 64 KiB and whose channels are slower but sooner under way.
 */
#ifndef CPSIM_MODELS_COST_CHANNELS_H
#define CPSIM_MODELS_COST_CHANNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/topology.h"

/* What of a communicator counts: its ranks, and the outermost level that any two of them have between them. */
struct communicator_size {
    uint32_t ranks, span;
};

struct channels {
    uint32_t all, per_peer; /* of the communicator */
    uint32_t count;         /* of this message */
    bool small;             /* it goes by the LL protocol */
};

/* Those of a message of `bytes` whose route's outermost level is `level`, which says how many channels there are. */
struct channels channels_of(const struct topology *topology, struct communicator_size communicator, uint32_t level,
                            uint64_t bytes);

#endif
