/* step_checks.h - what must hold between scope, [step] and the rest of an experiment. */
#ifndef CPSIM_MODELS_INPUT_STEP_CHECKS_H
#define CPSIM_MODELS_INPUT_STEP_CHECKS_H

#include "models/input/experiment.h"

/* False, with a message for each: keys that have no effect, a model that is not stated whole, counts that do not
 * divide. Values that were refused before (zero) are not judged. */
bool step_check(const struct experiment *experiment, struct diagnostics *diag);

#endif
