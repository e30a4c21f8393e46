/* interval.h - how far a prediction may be off because the constants it stands on vary.
 *
 * Constants carry a relative spread: rates of kernels and steps, times of messages. A spread is taken as the half width
 * within which nine of ten values lie. The analytic engine runs the programs with all constants in the middle, then
 * with each of them alone at its fast and at its slow end; the constants vary independently, so that the squares of
 * what each makes of the step add up: high = seconds (1 + sqrt(sum ((slow_i - middle) / middle)^2)), low likewise from
 * the fast ends. That is exact where the step is a sum of independent normal terms, and then the interval holds nine of
 * ten values as its constants' do. It is cheaper than sampling and has no seed: two runs a constant, of which there are
 * few, and one where the step does not feel the slow end, for then it feels neither. Where two constants hide each
 * other (a transfer behind a kernel) each counts as far as it shows alone.
 * Contention scales as the rest does.
 */
#ifndef CPSIM_SIM_INTERVAL_H
#define CPSIM_SIM_INTERVAL_H

#include "sim/engine.h"

struct interval_seconds {
    double low, high; /* both 0: no constant has a spread */
};

/* The interval of a step that `simulation` predicted to take `seconds`. False with messages. */
bool interval_of(const struct simulation *simulation, double seconds, struct interval_seconds *interval,
                 struct diagnostics *diag);

#endif
