/* experiment_checks.h - what must hold between the keys of an experiment, but for those of [step] (step_checks.h).
 *
 * Every judgement is made as far as its keys are known (a refused count is still zero; of words, experiment_knows says
 * it), so that one run shows all that is wrong, and each mistake once. A message stands where the key that can be
 * changed was written.
 */
#ifndef CPSIM_MODELS_INPUT_EXPERIMENT_CHECKS_H
#define CPSIM_MODELS_INPUT_EXPERIMENT_CHECKS_H

#include "models/input/experiment.h"

/* False with a message for each rule that is broken. */
bool experiment_check(const struct experiment *experiment, struct diagnostics *diag);

#endif
