/* local_costs.c - names, and what cost.c and step_cost.c ask of a topology for what is local. */
#include "models/cost/local_costs.h"

#include <string.h>

void local_costs_of(struct local_costs *locals, const struct cost *cost)
{
    const uint32_t local = (1U << CONSTANT_LEVELS) - 1; /* constants; the others are of messages */
    uint32_t moved = cost->end == COST_MIDDLE ? 0 : cost->moved & local;
    *locals = (struct local_costs){.in_library = cost->topology->levels[0].n_protocols > 0,
                                   .end = moved ? cost->end : COST_MIDDLE,
                                   .moved = moved,
                                   .without = cost->without};
    memcpy(locals->device, cost->topology->device, sizeof locals->device);
    memcpy(locals->kernel, cost->topology->kernel, sizeof locals->kernel);
}

bool local_costs_equal(const struct local_costs *a, const struct local_costs *b)
{
    return strcmp(a->device, b->device) == 0 && strcmp(a->kernel, b->kernel) == 0 && a->in_library == b->in_library &&
           a->end == b->end && a->moved == b->moved && a->without == b->without;
}
