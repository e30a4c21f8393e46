/* plots.h - what is drawn, as gnuplot scripts with their data inline, and the pipe that runs them.
 *
 * A script is written to any FILE, apart from the pipe, so that tests compare it and a user can keep it (--script).
 */
#ifndef CPSIM_CLI_PLOTS_H
#define CPSIM_CLI_PLOTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/prediction.h"
#include "models/base/diagnostics.h"

enum plot_kind {
    PLOT_TIMELINE,   /* per rank: compute, exposed waiting, idle; transfers on their own lane */
    PLOT_MEMORY,     /* stacked memory per rank against the device's */
    PLOT_TIME,       /* where each rank's time goes: compute, exposed, idle */
    PLOT_SCALING,    /* over a sweep: time, efficiency, exposed share */
    PLOT_ALGORITHMS, /* of --compare-algorithms: time, bytes and memory, a line each, best first */
    PLOT_SCATTER,    /* of a comparison: predicted over measured step time */
    PLOT_PHASES,     /* of a comparison: forward, backward, exposed, side by side */
    PLOT_TIMELINES,  /* of one pair: predicted lanes above measured ones */
    PLOT_TORNADO,    /* of --sensitivity: what each constant makes of the step, raised and lowered */
    PLOT_PATH,       /* of --explain: the critical path, a lane a phase */
    PLOT_TOPOLOGY,   /* of --check: the cluster itself */
    PLOT_PARETO,     /* of --advise: time over memory, candidate by candidate */
    PLOT_KINDS,
};

const char *plot_kind_name(enum plot_kind kind);

/* Where a plot goes: "-" draws in the terminal, else a file whose ending (.png .svg .pdf) says the format, optionally
 * preceded by "KIND=". False with a message if the ending or kind is unknown. */
struct plot_target {
    enum plot_kind kind;
    bool kind_given;
    const char *path;
};
bool plot_target_parse(const char *text, struct plot_target *target, struct diagnostics *diag);

/* Writes the gnuplot script. `width` is of a terminal in characters, used for "-" only. */
bool plot_script_run(const struct prediction *prediction, const struct plot_target *target, int width, FILE *stream);
bool plot_script_sweep(const json_t *sweep, const struct plot_target *target, int width, FILE *stream);
struct comparison;
bool plot_script_compare(const struct comparison *comparison, const struct plot_target *target, int width,
                         FILE *stream);

/* Runs a script (of `size` bytes) through gnuplot; for "-" its drawing goes to standard output. False, with a message,
 * when gnuplot is not there, cannot write the file, or fails; never a signal. */
bool gnuplot_run(const char *script, size_t size, const struct plot_target *target, struct diagnostics *diag);

#endif
