/* experiment_keys.h - the key tables of an experiment; the target of each is a struct experiment. */
#ifndef CPSIM_MODELS_INPUT_EXPERIMENT_KEYS_H
#define CPSIM_MODELS_INPUT_EXPERIMENT_KEYS_H

#include "models/input/key_table.h"

extern const struct section_spec experiment_model, experiment_workload, experiment_parallel, experiment_schedule,
    experiment_step;
extern const struct section_spec experiment_published; /* of a struct published (published.h) */

#endif
