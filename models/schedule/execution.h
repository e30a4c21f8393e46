/* execution.h - what the program form means: which operations may run now.
 *
 * The one state machine behind the checker and every engine. It knows streams, hazards, message pairs (rendezvous),
 * groups and phases, but no time: a driver takes activities that are ready, lets them take whatever time it models, and
 * reports them finished; that may make others ready. A driver that finishes everything at once walks the programs in
 * one legal order; that is the checker.
 *
 * Activities: a local operation of one rank, or a message, named by its send. A message is ready when both its ends are
 * posted, that is when each side's stream has come to it (or to its group) and its buffers are free of hazards.
 *
 * Programs are shared, the state is per instance (ensemble.h). Ready activities come out first in, first out:
 * deterministic.
 */
#ifndef CPSIM_MODELS_SCHEDULE_EXECUTION_H
#define CPSIM_MODELS_SCHEDULE_EXECUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/schedule/ensemble.h"

struct execution;

/* The ensemble outlives the execution. */
struct execution *execution_of(const struct ensemble *ensemble);

/* Of `programs`, one a CP rank, which outlive the execution, in n_groups groups: instance g * n_programs + r is CP rank
 * r of group g. (Of the layout n_programs x tp 1 x dp n_groups; for another one see ensemble_init.) NULL, with
 * messages, where ensemble_init refuses them. */
struct execution *execution_create(const struct program *programs, uint32_t n_programs, uint32_t n_groups,
                                   struct diagnostics *diag);
void execution_destroy(struct execution *execution);

/* Takes the next ready activity; false when none is ready now. */
bool execution_next(struct execution *execution, struct activity *activity);

/* Reports an activity taken earlier as finished. */
void execution_finish(struct execution *execution, struct activity activity);

/* All operations of all instances have finished. If not, and no activity is ready or taken, the programs are in
 * deadlock. */
bool execution_done(const struct execution *execution);

/* Says which ranks are stuck on which operations, and why: a line for each of the first few, and a count. */
void execution_explain(const struct execution *execution, struct diagnostics *diag);

/* The receiving end of a send. */
struct activity execution_receive_of(const struct execution *execution, struct activity send);

const struct program *execution_program(const struct execution *execution, uint32_t instance);
const struct ensemble *execution_ensemble(const struct execution *execution);

#endif
