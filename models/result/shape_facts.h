/* shape_facts.h - what a program alone decides of a rank's report, whatever the cluster and the timeline: for all
 * instances that run it, and for all reports of one schedule.
 */
#ifndef CPSIM_MODELS_RESULT_SHAPE_FACTS_H
#define CPSIM_MODELS_RESULT_SHAPE_FACTS_H

#include <stdbool.h>

#include "models/result/memory.h"
#include "models/result/rank_ops.h"
#include "models/result/report.h"

struct shape_facts {
    bool known;                /* else all else is zero */
    struct rank_report counts; /* messages, work, buffers; the rest of it is zero */
    struct rank_ops ops;
    struct high_water water;
};

/* Those of the shapes of an ensemble, none known yet. */
struct shape_facts *shape_facts_create(uint32_t n_shapes);
void shape_facts_destroy(struct shape_facts *facts, uint32_t n_shapes); /* NULL: nothing */

/* Finds out what is not known of `shape`, a program of `schedule`, and returns `facts`, its element of the above. */
const struct shape_facts *shape_facts_of(struct shape_facts *facts, const struct shape *shape,
                                         const struct schedule *schedule);

#endif
