/* progress.h - one line that says how far long work has come, and how long the rest will take; on a terminal only,
 * never in a file or a log.
 */
#ifndef CPSIM_CLI_PROGRESS_H
#define CPSIM_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct progress {
    FILE *stream; /* NULL: not a terminal, nothing is shown */
    const char *what;
    const char *items; /* NULL: the share is shown, else so many of `n_items` of them */
    size_t n_items;
    bool shown, begun;
    double shown_at; /* seconds of the monotonic clock */
    double begun_at, share_at_begin;
};

/* Shows progress on `stream` if that is a terminal. */
void progress_init(struct progress *progress, FILE *stream, const char *what);
/* Counts items in place of percents. */
void progress_count(struct progress *progress, const char *items, size_t n_items);

/* Shows `share` (0 to 1), at most a few times a second; `context` is a struct progress. The first call says what is
 * there already: the time left is told from what comes after it. */
void progress_show(void *context, double share);

/* Begins a part of the work, whose share is told from then on, or cannot be: shows its name at once. `what` must last.
 */
void progress_phase(void *context, const char *what);

/* What is shown: "sweeping: 120 of 5000 points, 3:05 left". `seconds_left` below 0: not known yet. */
void progress_write(const struct progress *progress, double share, double seconds_left, FILE *stream);

/* Removes the line, before anything else is printed. */
void progress_clear(struct progress *progress);

#endif
