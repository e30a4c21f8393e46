/* command.h - what cpsim does in each mode, and what the modes have in common: the question, the terminal, the status.
 *
 * A command does what was typed from reading files to writing results, and returns the exit status. Commands print
 * notes to standard error and results through outputs.h; errors are the caller's to print. A process of several
 * (mpirun) says what it has to say before it ends, because its end may end the others: then `diag` is empty.
 */
#ifndef CPSIM_CLI_COMMAND_H
#define CPSIM_CLI_COMMAND_H

#include "cli/options.h"
#include "cli/prediction.h"
#include "cli/progress.h"
#include "hw/processes.h"

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_SIGNAL = 128 };

/* Of options that were judged to make sense, in the mode of the name. */
int command_predict(const struct options *options, struct diagnostics *diag);
int command_sensitivity(const struct options *options, struct diagnostics *diag);
int command_explain(const struct options *options, struct diagnostics *diag);
int command_longest(const struct options *options, struct diagnostics *diag);
int command_events(const struct options *options, struct diagnostics *diag);
int command_sweep(const struct options *options, struct diagnostics *diag);
int command_algorithms(const struct options *options, struct diagnostics *diag); /* a sweep over all of them */
int command_advise(const struct options *options, struct diagnostics *diag);
int command_hardware(const struct options *options, struct diagnostics *diag);
int command_calibrate(const struct options *options, struct diagnostics *diag);
int command_check(const struct options *options, struct diagnostics *diag);
int command_list(const struct options *options, struct diagnostics *diag);
int command_compare(const struct options *options, struct diagnostics *diag);
int command_validate(const struct options *options, struct diagnostics *diag);

/* What was typed makes no sense; under a launcher every process was given it. */
int command_refuse(const struct options *options, struct diagnostics *diag);

/* ---- what they have in common ---- */

enum exit_status exit_status_of(enum prediction_status status);

/* The question that the files and the options ask; it points into `options`. */
struct question question_of(const struct options *options);

/* Progress and phases of the question go to a line on the terminal, if there is one. */
void question_follow(struct question *question, struct progress *progress);

/* Says which overrides changed nothing. */
void print_idle_overrides(const struct prediction *prediction, const struct question *question);

/* Workers of this process: a process of several has its share of the cores, or those that its launcher bound it to. */
uint32_t workers_of(const struct options *options, const struct processes *processes);

/* One process says what there is to say, before any of them ends the others by its status, or is ended. */
void speak_once(struct processes *processes, bool complete, struct diagnostics *diag);

#endif
