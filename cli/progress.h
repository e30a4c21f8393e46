/* progress.h - one line that says how far long work has come, on a terminal only; never in a file or a log. */
#ifndef CPSIM_CLI_PROGRESS_H
#define CPSIM_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

struct progress {
    FILE *stream; /* NULL: not a terminal, nothing is shown */
    const char *what;
    bool shown;
    double shown_at; /* seconds of the monotonic clock */
};

/* Shows progress on `stream` if that is a terminal. */
void progress_init(struct progress *progress, FILE *stream, const char *what);

/* Shows `share` (0 to 1), at most a few times a second; `context` is a struct progress. */
void progress_show(void *context, double share);

/* Removes the line, before anything else is printed. */
void progress_clear(struct progress *progress);

#endif
