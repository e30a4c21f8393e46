/* sweep_resume.h - reading the file of a sweep that was stopped, to go on with it.
 *
 * The file is read as cpsim lays it out, line by line: a point begins and ends with a brace of its own line. So a file
 * of any size is read in the memory of a point, and one that was cut anywhere still gives the points before the cut.
 */
#ifndef CPSIM_CLI_SWEEP_RESUME_H
#define CPSIM_CLI_SWEEP_RESUME_H

#include <jansson.h>

#include "cli/sweep.h"

/* A point that is whole; `text` is as in the file, `end` the file's length up to its end. */
typedef void sweep_visit(void *context, size_t point, const json_t *json, const char *text, long end);

/* Visits the points of the file, in order; there may be gaps. `head` is how the file of this very question begins
 * (sweep_head_text). `*cut` says whether the file ends within a point. False, with a message, when there is no file or
 * it is another question's. */
bool sweep_resume_read(const char *path, const struct sweep *sweep, const char *head, sweep_visit *visit, void *context,
                       bool *cut, struct diagnostics *diag);

#endif
