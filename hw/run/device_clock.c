/* device_clock.c - brackets marks by looks at the host's clock. */
#include "hw/run/device_clock.h"

#include <math.h>
#include <string.h>

#include "hw/clock.h"

#define TRIES 20

void device_clock_init(struct device_clock *clock, const struct queue_ops *queues, struct compute *compute)
{
    *clock = (struct device_clock){.queues = queues,
                                   .compute = compute,
                                   .anchor = queues->mark_create(compute, true),
                                   .next = queues->mark_create(compute, true)};
}

void device_clock_fini(struct device_clock *clock)
{
    clock->queues->mark_destroy(clock->compute, clock->anchor);
    clock->queues->mark_destroy(clock->compute, clock->next);
    memset(clock, 0, sizeof *clock);
}

bool device_clock_set(struct device_clock *clock, bool (*waiting)(void *context), void *context)
{
    double tightest = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        double before = seconds_now();
        clock->queues->mark(clock->compute, STREAM_COMPUTE, clock->next);
        while (!clock->queues->passed(clock->compute, clock->next))
            if (!waiting(context))
                return false;
        double after = seconds_now();
        if (after - before >= tightest)
            continue;
        tightest = after - before;
        struct mark *mark = clock->anchor;
        clock->anchor = clock->next;
        clock->next = mark;
        clock->anchor_seconds = (before + after) / 2;
        clock->error_seconds = tightest / 2;
    }
    return waiting(context);
}

double device_clock_seconds(const struct device_clock *clock, const struct mark *mark)
{
    return clock->anchor_seconds + clock->queues->seconds(clock->compute, clock->anchor, mark);
}
