/* sensitivity.h - what the step's time hangs on: its elasticity to every rate, time and share of the cost model.
 *
 * The elasticity of the time T to a constant c is d ln T / d ln c: with -0.4, one percent more bandwidth makes the step
 * 0.4 percent shorter. T is predicted anew, by the engine that is asked for, with each constant raised by 2 percent and
 * lowered as much (multiplied with and divided by 1.02), and the slope taken between the two; the slopes on either side
 * are kept beside it. Where they differ by more than 0.02 the constant stands at a kink: another bottleneck takes over,
 * so that raising and lowering do not do the same. (A sum of terms that all grow or shrink with the constant bends by
 * 0.005 at most over such a step.)
 *
 * Times are homogeneous in the constants (models/cost/constants.h): elasticities to rates less those to times sum up to
 * -1, but for what a finite step and kinks make of them. That sum is reported, and beside it the slope found by moving
 * all constants at once, which is -1 whatever the kinks.
 *
 * Every run is a forked process of its own, since SimGrid runs once in a process; the files are read once, before.
 */
#ifndef CPSIM_CLI_SENSITIVITY_H
#define CPSIM_CLI_SENSITIVITY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/prediction.h"
#include "models/cost/constants.h"

/* The relative step, and how far the slopes of the two sides differ at a kink. */
#define SENSITIVITY_STEP 0.02
#define SENSITIVITY_KINK 0.02

struct elasticity {
    double lowered_seconds, raised_seconds;
    double lowered, raised; /* slopes on either side */
    double both;            /* between the two */
};

struct sensitivity_row {
    const struct constant *constant;
    struct elasticity elasticity;
    bool kink;
    bool has_effect; /* either run took another time than the one as given */
    bool left;       /* nobody has got to both runs, because it was stopped; the rest is empty */
};

struct sensitivity {
    struct prediction prediction; /* prepared, not run */
    struct constants constants;
    double seconds;               /* as given */
    struct sensitivity_row *rows; /* one a constant: steepest first, then those without effect, then those left */
    size_t n_rows, n_effects, n_left;
    bool *crosses;        /* [level]: whether a message takes any of its links; if none, no key of it has an effect */
    bool *idle_overrides; /* [override]: no rank and no message uses what it is about (cli/idle_overrides.h) */
    uint32_t n_overrides;
    struct elasticity all; /* rates raised and times lowered together; NaN when it was stopped before */
    double sum;            /* of the rows: rates less times; NaN when some are left */
    int signal;            /* that ended it, or 0 */
};

/* When a signal stopped it, `signal` is set, and PREDICTION_DONE says that there is something to show. */
enum prediction_status sensitivity_run(struct sensitivity *sensitivity, const struct question *question, uint32_t jobs,
                                       struct diagnostics *diag);
/* Also after it failed. */
void sensitivity_fini(struct sensitivity *sensitivity);

/* Whether the constant is of a level that no message crosses. */
bool sensitivity_level_is_idle(const struct sensitivity *sensitivity, const struct constant *constant);

/* Whether it is of an override that changes nothing. */
bool sensitivity_override_is_idle(const struct sensitivity *sensitivity, const struct constant *constant);

/* For people: the constants with an effect, steepest first, with bars; those without; the sum. */
bool sensitivity_table_write(const struct sensitivity *sensitivity, FILE *stream);
/* The same as schema cpsim.sensitivity/1; the caller owns the reference. */
json_t *sensitivity_to_json(const struct sensitivity *sensitivity);
/* A row per constant. */
bool sensitivity_csv_write(const struct sensitivity *sensitivity, FILE *stream);

#endif
