/* prediction_parts.h - what the files of a prediction share: its stages, each of which either adds to the result or
 * says why it cannot, and the bits in `made` that say what has to be freed.
 *
 *   prediction_files.c     reads what is asked about
 *   prediction_schedule.c  programs, proved, and who runs which
 *   prediction.c           costs, plan, run, report
 *   prediction_pass.c      a micro-batch before the last
 *   prediction_measured.c  a run on this machine in place of a predicted one
 */
#ifndef CPSIM_CLI_PREDICTION_PARTS_H
#define CPSIM_CLI_PREDICTION_PARTS_H

#include "cli/prediction.h"

enum made {
    MADE_EXPERIMENT = 1 << 0,
    MADE_TOPOLOGY = 1 << 1,
    MADE_DEVICE = 1 << 2,
    MADE_SCHEDULE = 1 << 3,
    MADE_PROGRAMS = 1 << 4,
    MADE_TIMELINE = 1 << 5,
    MADE_REPORT = 1 << 6,
    MADE_ENSEMBLE = 1 << 7,
    MADE_FOLDING = 1 << 8,
    MADE_PLAN = 1 << 9,
};

/* Experiment, topology and device: what is wrong with any of them is reported in one go. */
bool prediction_read_files(struct prediction *prediction, const struct question *question, struct diagnostics *diag);

/* Where the rings of layers' collectives find their nodes. */
void prediction_find_nodes(struct prediction *prediction);

/* Who runs which program; kept for others with a cache, which then owns it. */
bool prediction_make_ensemble(struct prediction *prediction, const struct question *question, struct diagnostics *diag);

/* Who runs what, and who is like whom: from programs and costs to what an engine is given. */
enum prediction_status prediction_plan_run(struct prediction *prediction, const struct question *question,
                                           struct diagnostics *diag);
/* Runs the engine, and fills in timeline and report. */
enum prediction_status prediction_run_engine(struct prediction *prediction, const struct question *question,
                                             struct diagnostics *diag);

/* Says what begins, where there are so many ranks that it takes a while. */
void prediction_tell_phase(const struct prediction *prediction, const struct question *question, const char *what);

#endif
