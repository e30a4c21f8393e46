/* rank_devices.c - which combinations there are, and what is said of those that there are not. */
#include "hw/rank_devices.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hw/run/rank_threads.h"
#include "models/base/memory.h"

/* What only an asynchronous backend can do. */
static bool check_host(const struct hardware_settings *settings, const struct compute_ops *compute,
                       const struct transport_ops *transport, struct diagnostics *diag)
{
    const char *what = settings->serial                                  ? "one rank at a time"
                       : settings->graph                                 ? "graphs"
                       : transport_settings_are_set(&settings->carrying) ? "settings of how a device's memory is moved"
                                                                         : NULL;
    if (what)
        return diagnostics_add(diag, "backend '%s' has no use for %s: it computes on the host", compute->name, what);
    if (!transport->post)
        return diagnostics_add(diag, "transport '%s' moves memory of GPUs only, and backend '%s' has the host's",
                               transport->name, compute->name);
    return true;
}

bool rank_devices_check(const struct hardware_settings *settings, const struct compute_ops *compute,
                        const struct transport_ops *transport, struct diagnostics *diag)
{
    if (!compute->queues)
        return check_host(settings, compute, transport, diag);
    if (!transport->attach)
        return diagnostics_add(diag, "transport '%s' moves host memory only, and backend '%s' has that of a device",
                               transport->name, compute->name);
    if (settings->carrying.registered && !transport->allocate)
        return diagnostics_add(diag, "transport '%s' has no memory of its own to register", transport->name);
    if (settings->serial && (transport->one_rank_a_process || transport->one_rank_a_device))
        return diagnostics_add(diag,
                               "with transport '%s' each rank has a device or a process of its own: to run one rank at "
                               "a time, all must be in one process and share one (--transport local)",
                               transport->name);
    if (settings->graph && settings->serial)
        return diagnostics_add(diag, "with one rank at a time there is no step that could be one graph");
    if (settings->graph && !transport->in_graphs)
        return diagnostics_add(
            diag, "messages of transport '%s' cannot be part of a graph: the host has a hand in them", transport->name);
    if (settings->graph && !compute->queues->record_begin)
        return diagnostics_add(diag, "backend '%s' has no graphs", compute->name);
    return true;
}

bool rank_device(const struct hardware_settings *settings, const struct compute_ops *compute,
                 const struct transport_ops *transport, struct transport *end, int *device, struct diagnostics *diag)
{
    const uint32_t devices = compute->devices ? compute->devices() : 0;
    const uint32_t place = transport->place_on_host ? transport->place_on_host(end) : 0;
    const int asked = settings->kernels.device;
    *device = asked > 0 ? asked : 0;
    if (devices == 0)
        return true;
    if (asked >= 0 && (uint32_t)asked >= devices)
        return diagnostics_add(diag, "there is no GPU %d on this host: it has %" PRIu32 ", counted from 0", asked,
                               devices);
    if (asked < 0 && transport->one_rank_a_device && place >= devices)
        return diagnostics_add(diag,
                               "%" PRIu32 " ranks or more on this host but %" PRIu32
                               " GPU%s, expected one each; --transport local runs all ranks on one GPU",
                               place + 1, devices, devices == 1 ? "" : "s");
    if (asked < 0)
        *device = (int)(place % devices);
    return true;
}

uint32_t rank_devices_streams(const struct program *programs, uint32_t n_programs)
{
    uint32_t streams = 0;
    for (uint32_t r = 0; r < n_programs; r++)
        for (uint32_t i = 0; i < programs[r].n_ops; i++)
            if (op_is_message(&programs[r].ops[i]))
                streams |= UINT32_C(1) << programs[r].ops[i].stream;
    return streams;
}

/* ---- memory ---- */

static void *allocate(void *context, uint64_t bytes)
{
    const struct rank_source *source = context;
    return source->end ? source->transport->allocate(source->end, bytes) : NULL;
}

static void release(void *context, void *memory)
{
    const struct rank_source *source = context;
    if (source->end)
        source->transport->release(source->end, memory);
}

void rank_source_init(struct rank_source *source, const struct transport_ops *transport, struct transport *end)
{
    *source = (struct rank_source){{allocate, release, source}, transport, end};
}

/* ---- attaching ---- */

struct attaching {
    const struct hardware_settings *settings;
    const struct compute_ops *ops;
    struct compute **backends;
    const struct transport_ops *transport;
    struct transport **ends;
    uint32_t streams;
    struct diagnostics *diags; /* [end] */
};

static bool attach(void *context, uint32_t end)
{
    const struct attaching *a = context;
    return a->transport->attach(a->ends[end], a->ops, a->backends[end], a->streams, &a->settings->carrying,
                                &a->diags[end]);
}

static bool has_line(const struct diagnostics *diag, const char *line)
{
    for (size_t i = 0; i < diag->count; i++)
        if (strcmp(diag->lines[i], line) == 0)
            return true;
    return false;
}

bool rank_devices_attach(const struct hardware_settings *settings, const struct compute_ops *ops,
                         struct compute **backends, const struct transport_ops *transport, struct transport **ends,
                         uint32_t n_ends, uint32_t streams, struct diagnostics *diag)
{
    struct diagnostics *diags = memory_zeroed(n_ends, sizeof *diags);
    for (uint32_t e = 0; e < n_ends; e++)
        diagnostics_init(&diags[e]);
    struct attaching attaching = {settings, ops, backends, transport, ends, streams, diags};
    bool good = rank_threads_run(transport, ends, n_ends, attach, &attaching);
    for (uint32_t e = 0; e < n_ends; e++) {
        for (size_t i = 0; i < diags[e].count; i++)
            if (!has_line(diag, diags[e].lines[i])) /* what is wrong with one is mostly so with all */
                diagnostics_add(diag, "%s", diags[e].lines[i]);
        diagnostics_fini(&diags[e]);
    }
    free(diags);
    if (!good && diag->count == 0)
        transport_complain(transport, ends[0], diag);
    return good;
}
