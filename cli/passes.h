/* passes.h - the micro-batches of a step before its last, predicted in a process of their own: an engine that can run
 * once in a process has the last one to run in this.
 */
#ifndef CPSIM_CLI_PASSES_H
#define CPSIM_CLI_PASSES_H

#include "cli/prediction.h"

/* Fills `report` with that of one such micro-batch (prediction_run_pass); the caller calls report_fini. A signal that
 * ends it ends this process too. */
enum prediction_status passes_report(const struct prediction *prediction, const struct question *question,
                                     struct report *report, struct diagnostics *diag);

#endif
