/* sweep_run.h - a sweep carried out: its points handed out, and what comes back put in order, written and counted.
 *
 * Points go to workers that stay (an engine that can run only once in a process gets a new one for each), and to the
 * processes of a launcher. They come back in any order and wait here until the ones before them are there; only so many
 * bytes may wait, then no more points are handed out. What tables and plots need is kept in memory, the rest is not.
 *
 * A sweep that is stopped writes all that has come back, in order. To resume one, the points that its file has count as
 * done, but for failed ones; two of them are predicted once more and must come out as they did, or the files that were
 * asked about have changed.
 */
#ifndef CPSIM_CLI_SWEEP_RUN_H
#define CPSIM_CLI_SWEEP_RUN_H

#include <jansson.h>

#include "cli/sweep.h"
#include "hw/processes.h"

struct sweep_settings {
    uint32_t jobs;               /* processes at a time, here */
    struct processes *processes; /* NULL: this one alone */
    bool summary;                /* the file's runs are summaries */
    const char *json, *csv;      /* NULL: not wanted; "-": standard output */
    bool resume;                 /* goes on with `json` */
    bool kept;                   /* tables or plots will want the points */
    bool common;                 /* plots will: what they have in common too */
};

struct sweep_result {
    json_t *json;         /* with `kept`: cpsim.sweep/1 of summaries; of those points that are there */
    size_t done, refused; /* points that ran; that bad input kept from running */
    size_t failed;        /* that failed, or whose processes died */
    size_t left;          /* that nobody has done, because it was stopped */
    int signal;           /* SIGINT, SIGTERM or SIGHUP when one of them stopped it */
    bool bad_input; /* nothing was done: there is no such sweep to resume, processes were asked different things */
    bool lost;      /* one of `processes`, which must be closed without it */
    bool unwritten; /* a file could not be written: stopped */
};

/* Runs all points. `errors` gets the lines of points that have no run, `notes` the keys that had no effect at some
 * points; a key without effect at every point is an error, and then `result->done` is 0. */
void sweep_run(const struct sweep *sweep, const struct question *base, const struct sweep_settings *settings,
               struct sweep_result *result, struct diagnostics *notes, struct diagnostics *errors);
void sweep_result_fini(struct sweep_result *result);

/* In any other process than the first of a launcher: does what that one hands out, then closes `processes`. False when
 * it fell silent. */
bool sweep_help(const struct sweep *sweep, const struct question *base, const struct sweep_settings *settings);

#endif
