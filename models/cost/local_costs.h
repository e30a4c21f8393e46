/* local_costs.h - what the seconds of local operations follow from, beside their programs and schedule. */
#ifndef CPSIM_MODELS_COST_LOCAL_COSTS_H
#define CPSIM_MODELS_COST_LOCAL_COSTS_H

#include "models/cost/cost.h"

/* Of costs of one schedule. A profile is told by its name: where profiles of one name differ, this must not be asked.
 */
struct local_costs {
    char device[sizeof((struct topology *)0)->device];
    char kernel[sizeof((struct topology *)0)->kernel];
    bool in_library;   /* sums and copies of collectives are part of what the library's take */
    enum cost_end end; /* of what is moved */
    uint32_t moved;    /* of the constants that local times go by */
    mechanism_set without;
};

void local_costs_of(struct local_costs *locals, const struct cost *cost);

/* Whether local operations take as long, and the host as long to issue any. */
bool local_costs_equal(const struct local_costs *a, const struct local_costs *b);

#endif
