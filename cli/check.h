/* check.h - cpsim --check: reads files of any kind, and judges a topology and an experiment together. */
#ifndef CPSIM_CLI_CHECK_H
#define CPSIM_CLI_CHECK_H

#include <stddef.h>
#include <stdio.h>

#include "cli/prediction.h"

/* Prints a line for each file that is right: 'FILE: kind, ok: what it says', and one for the combination when there are
 * exactly one topology and one experiment. `overrides` apply to the files they address. Every problem is in `diag`. */
enum prediction_status check_files(const char *const *files, size_t n_files, const char *const *overrides,
                                   size_t n_overrides, FILE *stream, struct diagnostics *diag);

#endif
