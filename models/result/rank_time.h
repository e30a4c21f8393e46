/* rank_time.h - where one rank's time goes: computing, exposed communication, idle. */
#ifndef CPSIM_MODELS_RESULT_RANK_TIME_H
#define CPSIM_MODELS_RESULT_RANK_TIME_H

#include <stdbool.h>

#include "models/result/rank_gaps.h"

struct rank_time {
    double seconds;                        /* end of its last operation */
    double compute_seconds;                /* it ran an operation that is no message, in any stream */
    double communication_seconds;          /* one of its messages was under way */
    double overlapped_seconds;             /* both at once */
    double exposed_seconds;                /* of all kinds */
    double exposed_by_kind[WAIT_KINDS];    /* each gap by the message whose end was waited for last */
    double compute_by_part[COMPUTE_PARTS]; /* of programs of layers; they add up to compute_seconds */
    double recomputed_seconds;             /* of these, for what was not kept */
    double idle_seconds;                   /* compute + exposed + idle = the step */
    /* The local operations of the compute streams, in order of their begin, phase by phase. */
    uint32_t *kernels;
    uint32_t n_kernels[PHASE_COUNT];
    struct gap_seconds *before;           /* [operation]: what the rank waited just before it */
    struct gap_seconds tail[PHASE_COUNT]; /* behind the last kernel of each phase, until the phase ended */
    struct intervals exposed;             /* when it was exposed, in order: exposed_seconds of it */
};

/* Measures one instance of a program. `phase_end` is the timeline's. */
void rank_time_init(struct rank_time *time, const struct rank_ops *ops, struct instance_times times,
                    const double phase_end[PHASE_COUNT]);
void rank_time_fini(struct rank_time *time);

/* Parts of it that take far less time to find: its compute_seconds; its idle_seconds, given those; and idle seconds
 * that it cannot have less of, when all that it does in a phase has ended. */
double rank_compute_seconds(const struct rank_ops *ops, struct instance_times times);
double rank_idle_seconds(const struct rank_ops *ops, struct instance_times times, const double phase_end[PHASE_COUNT],
                         double compute_seconds);
double rank_idle_seconds_least(const struct rank_ops *ops, struct instance_times times,
                               const double phase_end[PHASE_COUNT]);

#endif
