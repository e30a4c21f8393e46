/* sweep_files.h - the files of a sweep, written point by point: cpsim.sweep/1 and CSV.
 *
 * Points come in order and go out at once, so that a sweep that is stopped leaves what it has done. A file that was
 * ended before all points were in is valid JSON too and has "complete": false at its end; one that was never ended (the
 * power failed) is what sweep_resume.h can read.
 */
#ifndef CPSIM_CLI_SWEEP_FILES_H
#define CPSIM_CLI_SWEEP_FILES_H

#include "cli/sweep_point.h"

struct sweep_files {
    const char *json_path, *csv_path; /* NULL: not wanted; "-": standard output */
    FILE *json, *csv;                 /* NULL: not open */
    bool any;                         /* the JSON has a point already */
};

/* The beginning of the JSON, up to the bracket before the points; the caller frees it. */
char *sweep_head_text(const struct sweep *sweep, const struct question *base, bool summary);
/* The same as an object without points. */
json_t *sweep_head_json(const struct sweep *sweep, const struct question *base, bool summary);

/* Opens what has a path and writes the beginnings. With `kept_bytes` above 0 the JSON is there: so many bytes of it
 * stay, the last of which ends a point. False with a message. */
bool sweep_files_open(struct sweep_files *files, const struct sweep *sweep, const char *head, long kept_bytes,
                      struct diagnostics *diag);
bool sweep_files_are_open(const struct sweep_files *files);

/* Appends a point; with `row_only` not to the JSON, which has it. False with a message: nothing more can be written. */
bool sweep_files_add(struct sweep_files *files, const struct sweep_answer *answer, bool row_only,
                     struct diagnostics *diag);
/* What was added is in the files. */
bool sweep_files_flush(struct sweep_files *files, struct diagnostics *diag);
/* Ends and closes the files. */
bool sweep_files_end(struct sweep_files *files, bool complete, struct diagnostics *diag);
/* Removes them once they are closed: they would answer nothing. */
void sweep_files_remove(const struct sweep_files *files);

#endif
