/* path_costs.h - what the critical path (models/result/step_path.h) wants to know of a simulation: what activities
 * take alone, when the host has issued them, who shares a device.
 */
#ifndef CPSIM_SIM_PATH_COSTS_H
#define CPSIM_SIM_PATH_COSTS_H

#include "models/result/step_path.h"
#include "sim/plan.h"

/* The path through what `plan`'s simulation has put out; `whole` is the ensemble of all ranks. The caller calls
 * step_path_fini. */
void path_of_simulation(struct step_path *path, const struct plan *plan, const struct ensemble *whole,
                        const struct timeline *timeline);

#endif
