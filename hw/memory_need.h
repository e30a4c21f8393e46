/* memory_need.h - whether a run's memory is there before it is taken: no host is driven into its limit. */
#ifndef CPSIM_HW_MEMORY_NEED_H
#define CPSIM_HW_MEMORY_NEED_H

#include "hw/machine.h"
#include "models/base/diagnostics.h"
#include "models/schedule/schedule.h"

/* Bytes of the high-water marks of the ranks' buffers, of what the ranks end with, and of its verification. */
struct memory_need {
    double buffers, outputs, verification;
};

/* What rank `rank` needs. */
struct memory_need memory_need_of(const struct schedule *schedule, const struct program *program);

/* `machines` has an element for each rank; `one_process`: all ranks are in one, which verifies once. False with a
 * message for each host, and each GPU, that has less than its ranks need. */
bool memory_need_check(const struct schedule *schedule, const struct program *programs, const struct machine *machines,
                       bool one_process, struct diagnostics *diag);

#endif
