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
    timeline->moments = memory_zeroed(timeline->n_instances, sizeof *timeline->moments);
    struct moment *moments = memory_zeroed(ops, sizeof *moments);
    for (uint32_t i = 0; i < timeline->n_instances; i++) {
        timeline->moments[i] = moments;
        moments += ensemble_program(ensemble, i)->n_ops;
    }
}

void timeline_fini(struct timeline *timeline)
{
    if (timeline->n_instances)
        free(timeline->moments[0]);
    free(timeline->moments);
    memset(timeline, 0, sizeof *timeline);
}
