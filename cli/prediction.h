/* prediction.h - one question answered: read the files, build and check the schedule, run an engine, make the report.
 */
#ifndef CPSIM_CLI_PREDICTION_H
#define CPSIM_CLI_PREDICTION_H

#include "cli/question.h"
#include "models/base/diagnostics.h"
#include "models/cost/cost.h"
#include "models/input/device.h"
#include "models/input/experiment.h"
#include "models/input/placement.h"
#include "models/input/topology.h"
#include "models/result/report.h"
#include "models/result/timeline.h"
#include "models/schedule/execution.h"
#include "models/schedule/schedule.h"
#include "sim/plan.h"

/* As many that planning and folding them is worth a word. */
#define PREDICTION_MANY_RANKS 4096

struct measured_run;

struct prediction {
    struct experiment experiment;
    struct topology topology;
    struct device device;
    struct placement placement;
    struct schedule schedule;
    struct program *programs; /* of the ranks below n_programs: all, unless they turn (schedule_period) */
    uint32_t n_programs;
    struct ensemble whole;     /* all ranks of all groups */
    struct shape_facts *facts; /* of its shapes, and plans of them; a cache's, NULL without one */
    struct plan_memo *memo;
    struct cost cost;
    struct kernel_memo *kernels; /* of `cost`, unless the question has a cache */
    struct plan plan;            /* of all ranks, unless their ways are many; its simulation is gone */
    struct folding folding;
    struct timeline timeline;
    struct report report;                /* of the whole step; all else is of its last micro-batch */
    double pass_seconds;                 /* of one of several micro-batches, but for the last; 0: there is one */
    const struct engine_ops *engine;     /* NULL for a measured run */
    const struct measured_run *measured; /* NULL for a prediction; else topology, device and cost are empty but for the
                                            device's name (cli/measured.h) */
    char *topology_name, *experiment_name; /* as the user wrote them: results do not depend on where files were found */
    char *command; /* the command that gives this very result: topology, experiment, overrides, engine; no output
                      options */
    bool proved;   /* by the checker, before it ran */
    unsigned made; /* which of the above are there to be freed; prediction.c */
};

enum prediction_status {
    PREDICTION_DONE,
    PREDICTION_BAD_INPUT, /* exit status 2: nothing was run */
    PREDICTION_FAILED,    /* exit status 1 */
};

/* Reads and checks what the experiment alone decides: algorithm and programs; and the layout if a topology is given
 * (topology_path may be NULL here). Enough to execute the programs with numbers. */
enum prediction_status prediction_prepare_schedule(struct prediction *prediction, const struct question *question,
                                                   struct diagnostics *diag);
/* Reads and checks everything without running: files, layout, algorithm, routes, kernels, programs. */
enum prediction_status prediction_prepare(struct prediction *prediction, const struct question *question,
                                          struct diagnostics *diag);
/* Makes the costs anew from the device, topology and implementation, which may have been changed since: a part of
 * prediction_prepare. */
bool prediction_make_costs(struct prediction *prediction, const struct question *question, struct diagnostics *diag);
/* Runs a prepared prediction and fills its timeline and report. */
enum prediction_status prediction_run(struct prediction *prediction, const struct question *question,
                                      struct diagnostics *diag);
/* Of a prepared prediction of several micro-batches: runs one of those before the last, which only adds to the
 * gradients, with costs made anew from the prediction's device and topology. Fills `report`. */
enum prediction_status prediction_run_pass(const struct prediction *prediction, const struct question *question,
                                           struct report *report, struct diagnostics *diag);
/* Instead of predicting, for a run of its schedule on this machine: fills placement and report, and takes over the
 * timeline.
 */
enum prediction_status prediction_take_run(struct prediction *prediction, struct timeline *timeline,
                                           const struct measured_times *times, double device_bytes,
                                           struct diagnostics *diag);
/* What a report of the prediction is made from; also for what is no part of it (models/result/steps.h). */
struct report_input prediction_report_input(const struct prediction *prediction);

/* Of the step that its timeline is of: the last micro-batch of several. */
double prediction_drawn_seconds(const struct prediction *prediction);

/* Ranks that were simulated: fewer than there are where some stand for others. */
uint32_t prediction_simulated_ranks(const struct prediction *prediction);

/* Whether it has so many ranks that what is done with them takes a while. */
bool prediction_is_large(const struct prediction *prediction);

/* What ran: all ranks, or a class of them each. */
const struct ensemble *prediction_ensemble(const struct prediction *prediction);

/* The instance of this ensemble and of the timeline that stands for rank `place` (group * cp + rank). */
uint32_t prediction_instance(const struct prediction *prediction, uint32_t place);

/* Frees whatever prepare and run have made, also after they failed. */
void prediction_fini(struct prediction *prediction);

#endif
