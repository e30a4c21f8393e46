/* device_clock.h - when marks of a device were passed, on the host's clock.
 *
 * A mark is set in an idle queue and asked for until it is passed: it was passed between the last look at the host's
 * clock before it was set and the first after. The tightest of a few tries is the anchor; other marks are so many
 * seconds away from it as the device says.
 */
#ifndef CPSIM_HW_RUN_DEVICE_CLOCK_H
#define CPSIM_HW_RUN_DEVICE_CLOCK_H

#include "hw/compute.h"

struct device_clock {
    const struct queue_ops *queues;
    struct compute *compute;
    struct mark *anchor, *next;
    double anchor_seconds; /* CLOCK_MONOTONIC */
    double error_seconds;  /* the anchor may be off by so much */
};

void device_clock_init(struct device_clock *clock, const struct queue_ops *queues, struct compute *compute);
void device_clock_fini(struct device_clock *clock);

/* Takes a new anchor, while the compute stream is idle. `waiting` is called again and again meanwhile: false ends it,
 * and then there is no anchor. */
bool device_clock_set(struct device_clock *clock, bool (*waiting)(void *context), void *context);

/* When `mark`, a timed one, was passed. */
double device_clock_seconds(const struct device_clock *clock, const struct mark *mark);

#endif
