/* agreement.h - before anything runs, the processes of a run make sure that they are asked the same and are all able.
 */
#ifndef CPSIM_HW_AGREEMENT_H
#define CPSIM_HW_AGREEMENT_H

#include "hw/transport.h"
#include "models/input/experiment.h"

/* What one process brings. */
struct agreement_side {
    const struct transport_ops *transport;
    struct transport *end;
    uint32_t ranks;
    const struct experiment *experiment; /* NULL: it could not even be read */
    const char *options;                 /* all else that must be the same: only compared */
    const struct diagnostics *own;       /* why this process cannot run; empty: it can */
};

/* Every process calls it; all return the same. False with messages that say, to all, which rank cannot and why, or
 * which was given another question; what all have in common is said once and is nobody's. */
bool agreement_reach(const struct agreement_side *side, struct diagnostics *diag);

#endif
