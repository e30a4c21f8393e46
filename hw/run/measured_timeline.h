/* measured_timeline.h - joins what each rank has recorded into one timeline, as an engine would have put it out.
 *
 * Each phase starts for all when the first rank left the barrier before it, and follows the phase before it at once:
 * the pause between them belongs to nobody. A message begins when the later of its two ends was posted, and ends when
 * its receiver saw it complete; its first byte moved when the receiver's device says so, else as it began.
 */
#ifndef CPSIM_HW_RUN_MEASURED_TIMELINE_H
#define CPSIM_HW_RUN_MEASURED_TIMELINE_H

#include "hw/run/executor.h"
#include "models/schedule/execution.h"

/* `records` and `offsets` (seconds to be added to a rank's clock) have an element for each program. The caller calls
 * timeline_fini. */
void measured_timeline(struct timeline *timeline, const struct program *programs, uint32_t n_programs,
                       const struct execution *execution, const struct rank_record *records, const double *offsets,
                       enum run_mode mode);

#endif
