/* recorder.h - what every engine does when an activity has run: note its moments, tell the execution, show progress. */
#ifndef CPSIM_SIM_RECORDER_H
#define CPSIM_SIM_RECORDER_H

#include "sim/engine.h"

struct recorder {
    const struct simulation *simulation;
    struct execution *execution; /* of its ensemble */
    struct timeline *timeline;
    uint64_t operations, finished, report_at;
};

/* Nothing has run yet. */
void recorder_init(struct recorder *recorder, const struct simulation *simulation, struct timeline *timeline);
void recorder_fini(struct recorder *recorder);

/* `activity` ran during `moment`: a message's moment is noted for both of its ends. */
void recorder_finish(struct recorder *recorder, struct activity activity, struct moment moment);

/* Whether there is progress to show; shows it if so. */
static inline bool recorder_has_progress(const struct recorder *recorder)
{
    return recorder->simulation->progress && recorder->finished >= recorder->report_at;
}
void recorder_show_progress(struct recorder *recorder);

/* Nothing runs any more. False, with messages, when that is a deadlock. */
bool recorder_end(struct recorder *recorder, struct diagnostics *diag);

#endif
