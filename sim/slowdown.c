/* slowdown.c - per instance, the time in which messages moved, and what the running operation still owes. */
#include "sim/slowdown.h"

#include <stdlib.h>

#include "models/base/memory.h"

/* What is owed shrinks by the factor s each time; below this it is rounding. */
#define OWED_SECONDS_MIN 1e-12

void slowdown_init(struct slowdown *slowdown, double share, uint32_t instances)
{
    slowdown->share = share;
    slowdown->meters = memory_zeroed(instances, sizeof *slowdown->meters);
}

void slowdown_fini(struct slowdown *slowdown)
{
    free(slowdown->meters);
    slowdown->meters = NULL;
}

static double moved(const struct transfer_meter *meter, double now)
{
    return meter->total + (meter->moving ? now - meter->since : 0);
}

void slowdown_move(struct slowdown *slowdown, uint32_t instance, double now)
{
    struct transfer_meter *meter = &slowdown->meters[instance];
    if (meter->moving++ == 0)
        meter->since = now;
}

void slowdown_stop(struct slowdown *slowdown, uint32_t instance, double now)
{
    struct transfer_meter *meter = &slowdown->meters[instance];
    if (--meter->moving == 0)
        meter->total += now - meter->since;
}

struct slowed slowdown_begin(const struct slowdown *slowdown, uint32_t instance, double now)
{
    return (struct slowed){.moved_before = moved(&slowdown->meters[instance], now)};
}

double slowdown_owed(const struct slowdown *slowdown, uint32_t instance, struct slowed *slowed, double now)
{
    if (slowdown->share <= 0)
        return 0;
    double during = moved(&slowdown->meters[instance], now) - slowed->moved_before;
    double owed = slowdown->share * during - slowed->stood;
    if (owed < OWED_SECONDS_MIN)
        return 0;
    slowed->stood += owed;
    return owed;
}
