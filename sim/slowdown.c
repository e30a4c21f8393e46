/* slowdown.c - per instance, the time in which messages moved and the SMs they held, and what the running operation
 * still owes. */
#include "sim/slowdown.h"

#include <stdlib.h>

#include "models/base/memory.h"

/* What is owed shrinks by the factor s each time; below this it is rounding. */
#define OWED_SECONDS_MIN 1e-12

void slowdown_init(struct slowdown *slowdown, const struct cost *cost, uint32_t instances)
{
    bool counts = mechanism_counts(cost->without, MECHANISM_SLOWDOWN);
    slowdown->cost = cost;
    slowdown->share = counts ? cost->device->transfer_slowdown : 0;
    slowdown->apart = cost_has_pair_communicators(cost);
    slowdown->meters = memory_zeroed(instances, sizeof *slowdown->meters);
}

void slowdown_fini(struct slowdown *slowdown)
{
    free(slowdown->meters);
    slowdown->meters = NULL;
}

bool slowdown_counts(const struct slowdown *slowdown, uint32_t sms)
{
    return slowdown->share > 0 || sms > 0;
}

static uint32_t held(const struct transfer_meter *meter)
{
    uint32_t sms = 0;
    for (int stream = 0; stream < STREAM_COUNT; stream++)
        sms += meter->kernels[stream][0].sms + meter->kernels[stream][1].sms;
    return sms;
}

/* The meter as it stands at `now`. */
static struct transfer_meter read_meter(const struct transfer_meter *meter, double now)
{
    struct transfer_meter read = *meter;
    if (meter->moving > 0) {
        read.total += now - meter->since;
        read.sms_seconds += held(meter) * (now - meter->since);
    }
    read.since = now;
    return read;
}

static void begin_at(struct transfer_meter *meter, struct transfer_kernel *kernel, uint32_t sms, double now)
{
    *meter = read_meter(meter, now);
    meter->moving++;
    kernel->moving++;
    kernel->sms = sms > kernel->sms ? sms : kernel->sms;
}

static void end_at(struct transfer_meter *meter, struct transfer_kernel *kernel, double now)
{
    *meter = read_meter(meter, now);
    meter->moving--;
    if (--kernel->moving == 0)
        kernel->sms = 0;
}

void slowdown_move(struct slowdown *slowdown, uint32_t sender, uint32_t receiver, enum stream stream, uint32_t sms,
                   double now)
{
    struct transfer_meter *from = &slowdown->meters[sender], *to = &slowdown->meters[receiver];
    begin_at(from, &from->kernels[stream][0], sms, now);
    begin_at(to, &to->kernels[stream][slowdown->apart], sms, now);
}

void slowdown_stop(struct slowdown *slowdown, uint32_t sender, uint32_t receiver, enum stream stream, double now)
{
    struct transfer_meter *from = &slowdown->meters[sender], *to = &slowdown->meters[receiver];
    end_at(from, &from->kernels[stream][0], now);
    end_at(to, &to->kernels[stream][slowdown->apart], now);
}

struct slowed slowdown_begin(const struct slowdown *slowdown, uint32_t instance, const struct op *op, double now)
{
    struct transfer_meter meter = read_meter(&slowdown->meters[instance], now);
    return (struct slowed){.op = op, .moved_before = meter.total, .sms_before = meter.sms_seconds};
}

double slowdown_owed(const struct slowdown *slowdown, uint32_t instance, struct slowed *slowed, double now)
{
    struct transfer_meter meter = read_meter(&slowdown->meters[instance], now);
    double during = meter.total - slowed->moved_before;
    if (during <= 0)
        return 0;
    double sms = (meter.sms_seconds - slowed->sms_before) / during;
    double left = (1 - slowdown->share) * (1 - cost_sms_share(slowdown->cost, slowed->op, sms));
    double owed = (1 - left) * during - slowed->stood;
    if (owed < OWED_SECONDS_MIN)
        return 0;
    slowed->stood += owed;
    return owed;
}
