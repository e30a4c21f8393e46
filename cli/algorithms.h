/* algorithms.h - which algorithm here? Every one that there is, asked the same question.
 *
 * A comparison is a sweep over schedule.algorithm (and over whatever else is swept beside it): the same points, the
 * same JSON. What differs: an algorithm that refuses the experiment is an answer, not an error, and so are keys that an
 * algorithm has no use for.
 */
#ifndef CPSIM_CLI_ALGORITHMS_H
#define CPSIM_CLI_ALGORITHMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/prediction.h"
#include "models/base/diagnostics.h"

/* "schedule.algorithm=NAME,NAME,...", all of them. The caller frees it. */
char *algorithms_sweep_key(void);

/* What an experiment has to do with each algorithm, for --list algorithms: a table with what each does and needs, and
 * whether it applies or why not. `question` has no topology and needs none. False, with messages, when the experiment
 * cannot be read. */
bool algorithms_list(const struct question *question, FILE *stream, struct diagnostics *diag);

/* Joins notes that differ only in the algorithm: one line a key, with all algorithms that have no use for it. */
void algorithms_join_notes(const struct diagnostics *notes, struct diagnostics *joined);

/* A comparison (cpsim.sweep/1) as a table: best first, those that do not fit behind, and why others do not apply. */
bool algorithms_table_write(const json_t *sweep, FILE *stream);

/* Its points in that order, as indices of the sweep's points; those without a run last. The caller frees them. */
size_t *algorithms_order(const json_t *sweep);

#endif
