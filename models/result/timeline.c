/* timeline.c - the moments of all instances in one block of memory. */
#include "models/result/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

void timeline_init(struct timeline *timeline, const struct program *programs, uint32_t n_programs, uint32_t groups)
{
    size_t ops = 0;
    for (uint32_t r = 0; r < n_programs; r++)
        ops += programs[r].n_ops;
    *timeline = (struct timeline){.n_instances = n_programs * groups};
    timeline->moments = memory_zeroed(timeline->n_instances, sizeof *timeline->moments);
    struct moment *moments = memory_zeroed(ops * groups, sizeof *moments); /* one block, owned by moments[0] */
    for (uint32_t i = 0; i < timeline->n_instances; i++) {
        timeline->moments[i] = moments;
        moments += programs[i % n_programs].n_ops;
    }
}

void timeline_of(struct timeline *timeline, const struct ensemble *ensemble)
{
    size_t ops = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        ops += ensemble_program(ensemble, i)->n_ops;
    *timeline = (struct timeline){.n_instances = ensemble->n_instances};
    if (ensemble->n_replicas > 1)
        timeline->replica_end = memory_zeroed(ensemble->n_replicas, sizeof *timeline->replica_end);
    timeline->moments = memory_zeroed(timeline->n_instances, sizeof *timeline->moments);
    struct moment *moments = memory_zeroed(ops, sizeof *moments);
    for (uint32_t i = 0; i < timeline->n_instances; i++) {
        timeline->moments[i] = moments;
        moments += ensemble_program(ensemble, i)->n_ops;
    }
}

void timeline_phases(const struct timeline *timeline, uint32_t replica, double phase_end[PHASE_COUNT])
{
    for (int phase = 0; phase < PHASE_COUNT - 1; phase++)
        phase_end[phase] = timeline->replica_end ? timeline->replica_end[replica][phase] : timeline->phase_end[phase];
    phase_end[PHASE_COUNT - 1] = timeline->phase_end[PHASE_COUNT - 1];
}

struct instance_times timeline_instance(const struct timeline *timeline, uint32_t instance)
{
    const struct step_timeline *steps = &timeline->steps;
    if (timeline->moments)
        return (struct instance_times){.moments = timeline->moments[instance]};
    return (struct instance_times){.spans = steps->spans, .step_of = steps->step_of + steps->first_op[instance]};
}

void timeline_fini(struct timeline *timeline)
{
    if (timeline->moments)
        free(timeline->moments[0]);
    free(timeline->steps.spans);
    free(timeline->moments);
    free(timeline->replica_end);
    memset(timeline, 0, sizeof *timeline);
}
