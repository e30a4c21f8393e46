/* events.h - a tiny case walked through event by event, with numbers: what `cpsim --events` prints.
 *
 * Executes the very programs that the simulators run, in double precision in this process, on fixed inputs: for each
 * block attended, the keys seen and the running maximum m, exponential sum l and prefix output a / l of each row; in
 * the backward pass each block's dK, dV, and where it went. Then outputs and gradients beside the full reference
 * (kernels/reference.h), with the largest difference.
 */
#ifndef CPSIM_HW_VERIFY_EVENTS_H
#define CPSIM_HW_VERIFY_EVENTS_H

#include <stdio.h>

#include "models/base/diagnostics.h"
#include "models/schedule/schedule.h"

/* Largest sequence (x heads) that is worth printing, and the most of them. */
#define EVENTS_SEQ_LEN_MAX 64
#define EVENTS_BATCH_MAX 8

/* Whether the case is small enough to print; says what is too large. */
bool events_check(const struct schedule *schedule, struct diagnostics *diag);

/* Prints the walk of a case that events_check has passed to `stream`. False, with messages, when a result is off by
 * more than 1e-12 relative (which names the tensor and row). */
bool events_print(const struct schedule *schedule, const struct program *programs, FILE *stream,
                  struct diagnostics *diag);

#endif
