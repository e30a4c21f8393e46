/* timeline.h - when every operation of every instance ran: what an engine (or the hardware mode) puts out. */
#ifndef CPSIM_MODELS_RESULT_TIMELINE_H
#define CPSIM_MODELS_RESULT_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "models/result/intervals.h"
#include "models/schedule/ensemble.h"

/* Seconds from the start of the step. A message's two operations carry the same moments: begin is when both ends were
 * posted, move when its first byte moved (begin + delay), end when its last byte arrived. A local operation begins when
 * it is ready; it takes its time from move on, which is later where its kernel waited for one of the other compute
 * stream; measured, move = begin. */
struct moment {
    double begin, move, end;
};

/* Operations by the steps that they were, a message's two ends one (sim/run_order.h). Far smaller than moments. */
struct step_timeline {
    struct interval *spans;  /* [step] */
    const uint32_t *step_of; /* [first_op of the instance + operation]; who made the steps has these two */
    const size_t *first_op;  /* [instance] */
};

struct timeline {
    uint32_t n_instances;
    bool unshared;           /* transfers were taken to have their links to themselves: a link may have carried more
                                than it can */
    struct moment **moments; /* [instance][op]; NULL: there are steps alone, whose bytes move nobody knows when */
    struct step_timeline steps;
    /* When the phase ended; an empty one ends with that before. Of several replicas: of that which ends last. */
    double phase_end[PHASE_COUNT];
    double (*replica_end)[PHASE_COUNT]; /* [replica]; NULL: there is one */
    uint32_t last_replica;              /* to end; the lowest of several */
};

/* Room for the operations of `programs`, shared by `groups` groups; all moments zero. */
void timeline_init(struct timeline *timeline, const struct program *programs, uint32_t n_programs, uint32_t groups);
/* The same for the instances of an ensemble. */
void timeline_of(struct timeline *timeline, const struct ensemble *ensemble);
/* The ends of the phases of a replica: its own, but for the last, which ends with the step. */
void timeline_phases(const struct timeline *timeline, uint32_t replica, double phase_end[PHASE_COUNT]);
void timeline_fini(struct timeline *timeline);

/* When the operations of one instance ran: by its moments, or by steps where these are NULL. */
struct instance_times {
    const struct moment *moments;
    const struct interval *spans;
    const uint32_t *step_of; /* [operation] */
};

struct instance_times timeline_instance(const struct timeline *timeline, uint32_t instance);

/* When an operation began and ended. */
static inline struct interval instance_span(const struct instance_times *times, uint32_t op)
{
    if (!times->moments)
        return times->spans[times->step_of[op]];
    return (struct interval){times->moments[op].begin, times->moments[op].end};
}

#endif
