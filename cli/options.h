/* options.h - what the user typed: mode, files, overrides and where results go; judged as a whole.
 *
 * An option that would have no effect in its mode is an error, as is an option given twice where one would win, and two
 * results for one place: nothing that was typed is silently ignored.
 */
#ifndef CPSIM_CLI_OPTIONS_H
#define CPSIM_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/check_path.h"
#include "cli/plots.h"
#include "hw/compute.h"
#include "hw/hardware.h"
#include "models/base/diagnostics.h"
#include "sim/engine.h"

enum command_mode {
    COMMAND_PREDICT,
    COMMAND_SWEEP,
    COMMAND_ALGORITHMS, /* a sweep over all algorithms */
    COMMAND_SENSITIVITY,
    COMMAND_EXPLAIN,
    COMMAND_ADVISE,
    COMMAND_LONGEST,
    COMMAND_HARDWARE,
    COMMAND_CALIBRATE,
    COMMAND_COMPARE,
    COMMAND_VALIDATE,
    COMMAND_EVENTS,
    COMMAND_CHECK,
    COMMAND_LIST
};

/* Strings point into argv. */
struct words {
    const char **items;
    size_t count, capacity;
};

struct options {
    enum command_mode mode;
    const char *list;       /* COMMAND_LIST: of what */
    struct words files;     /* the positional arguments */
    struct words overrides; /* --set */
    struct words sweeps;    /* --sweep */
    struct words vary, fix; /* COMMAND_ADVISE: --vary, --fix */
    uint64_t gpus;          /* COMMAND_ADVISE: 0: all */
    uint32_t best;          /* COMMAND_ADVISE */
    bool exhaustive;        /* COMMAND_ADVISE */
    uint32_t jobs;
    bool jobs_given;
    bool resume;         /* of sweeps: goes on with `json` */
    bool summary_points; /* of sweeps: runs in the JSON are summaries */
    const struct engine_ops *engine;
    mechanism_set without;
    bool no_fold;
    /* COMMAND_HARDWARE, COMMAND_CALIBRATE */
    struct hardware_settings hardware; /* without the schedule; what is 0, or a device below 0: not given */
    const char *profile;               /* COMMAND_CALIBRATE: the file to write */
    uint32_t ranks;                    /* COMMAND_CALIBRATE: 0: not given */
    bool quick;                        /* COMMAND_CALIBRATE */
    const char *kernel_times;          /* COMMAND_CALIBRATE: tables of other kernels; NULL: not given */
    uint32_t iterations, warmup;
    bool seed_given;
    uint64_t seed;
    const char *json, *csv, *trace, *script; /* NULL: not asked for; "-": standard output */
    struct plot_target *plots;               /* their kind is always set */
    size_t n_plots, plot_capacity;
    struct gpu_pair *paths; /* COMMAND_CHECK: --path */
    size_t n_paths, path_capacity;
    bool operations; /* also in the JSON */
    bool details, quiet;
    bool table; /* the table goes to standard output */
};

/* Fills `options` (also on failure; the caller calls options_fini). False with every problem in `diag`. Does what argp
 * does for --help, --version (standard output, exit status 0) and for options that do not exist (standard error, 2). */
bool options_parse(struct options *options, int argc, char **argv, struct diagnostics *diag);
void options_fini(struct options *options);

#endif
