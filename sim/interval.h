/* interval.h - how far a prediction may be off because the constants it stands on vary.
 *
 * Measured constants carry a relative spread: rates of kernels and steps, times of messages. The analytic engine runs
 * the programs with all of them in the middle, at their fast ends and at their slow ends, and the prediction is scaled
 * by what that makes of the step: low = seconds x fast / middle, high = seconds x slow / middle. All constants leave
 * the middle together, so this is wider than independent ones would make it; and contention scales as the rest does.
 */
#ifndef CPSIM_SIM_INTERVAL_H
#define CPSIM_SIM_INTERVAL_H

#include "sim/engine.h"

struct interval_seconds {
    double low, high; /* both 0: no constant has a spread */
};

/* The interval of a step that `simulation` predicted to take `seconds`. Its execution is not touched. False with
 * messages. */
bool interval_of(const struct simulation *simulation, double seconds, struct interval_seconds *interval,
                 struct diagnostics *diag);

#endif
