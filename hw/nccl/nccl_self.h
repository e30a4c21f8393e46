/* nccl_self.h - one GPU's messages through NCCL: a communicator of one rank, which sends to itself.
 *
 * For machines with one GPU: the library is found, its groups are queued between everything else, its errors are seen.
 * How long they take says nothing of links.
 */
#ifndef CPSIM_HW_NCCL_NCCL_SELF_H
#define CPSIM_HW_NCCL_NCCL_SELF_H

#include "hw/transport/local_queue.h"

/* The mover of one rank's messages, made on its thread. False with messages. */
bool nccl_self_open(struct local_mover *mover, const struct compute_ops *ops, struct compute *compute,
                    const struct transport_settings *settings, struct diagnostics *diag);

#endif
