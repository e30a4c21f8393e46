/* composed_timeline.h - what a step would take if every rank had a device of its own, from a run in which all ranks
 * shared one and took turns.
 *
 * Each operation takes the time that it was measured with: a local one from its begin to its end, which no other kernel
 * disturbed; a message, at its receiver, from its first byte to its end. When they run follows from the programs anew
 * (models/schedule/execution.h): kernels of a rank's two compute streams take turns as they become ready, messages
 * have all links to themselves. What two devices and the wires between them would do to each other is not in it.
 */
#ifndef CPSIM_HW_RUN_COMPOSED_TIMELINE_H
#define CPSIM_HW_RUN_COMPOSED_TIMELINE_H

#include "hw/run/executor.h"
#include "models/schedule/execution.h"

/* As measured_timeline; `pairs`: an execution of the same programs. The caller calls timeline_fini. */
void composed_timeline(struct timeline *timeline, const struct program *programs, uint32_t n_programs,
                       const struct execution *pairs, const struct rank_record *records, enum run_mode mode);

#endif
