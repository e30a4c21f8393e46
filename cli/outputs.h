/* outputs.h - puts results where the options say: files first, then the table, plots last.
 *
 * A file is there whole or not at all (cli/result_file.h); what could not be written to its end is reported.
 */
#ifndef CPSIM_CLI_OUTPUTS_H
#define CPSIM_CLI_OUTPUTS_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/advice.h"
#include "cli/check.h"
#include "cli/compare.h"
#include "cli/explain.h"
#include "cli/longest.h"
#include "cli/options.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "cli/sensitivity.h"
#include "cli/validation.h"

/* `progress` tells what is being written until standard output begins; NULL: not.
 *
 * False, with a message each, when any of them could not be written; the others are written all the same. */
bool outputs_write_run(const struct options *options, const struct prediction *prediction, struct progress *progress,
                       struct diagnostics *diag);
/* Its table and plots; the files of a sweep are written while it runs. */
bool outputs_write_sweep(const struct options *options, const json_t *sweep, struct diagnostics *diag);
bool outputs_write_comparison(const struct options *options, const struct comparison *comparison,
                              struct diagnostics *diag);
bool outputs_write_sensitivity(const struct options *options, const struct sensitivity *sensitivity,
                               struct diagnostics *diag);
bool outputs_write_explanation(const struct options *options, const struct explanation *explanation,
                               struct diagnostics *diag);
bool outputs_write_longest(const struct options *options, const struct longest *longest, struct diagnostics *diag);
bool outputs_write_advice(const struct options *options, const struct advice *advice, struct diagnostics *diag);
bool outputs_write_validation(const struct options *options, const struct validation *validation,
                              struct diagnostics *diag);
/* JSON and plots are of the first topology. */
bool outputs_write_check(const struct options *options, const struct check_result *check, struct diagnostics *diag);

#endif
