/* calibrate.c - the order of a calibration, and what it is of. */
#include "hw/calibrate/calibrate.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "hw/calibrate/profile_writer.h"
#include "hw/machine.h"
#include "hw/run/executor.h"
#include "kernels/attention.h"
#include "models/base/memory.h"

#define SECONDS 60.0
#define QUICK_SECONDS 8.0

/* What the ranks of this process have in common. */
struct shared {
    struct calibration *result; /* rank 0's, or under MPI this process's rank's */
    const struct calibration_settings *settings;
    double seconds;
    atomic_bool begun; /* all that was asked for can be had, as far as a rank of this process knows */
};

static void show_progress(const struct calibration_part *part, double share)
{
    const struct calibration_settings *settings = part->settings;
    if (part->crew->rank == 0 && settings->progress)
        settings->progress(settings->progress_context, part->from + (part->to - part->from) * share);
}

/* What needs no measuring. */
static bool describe(const struct crew *crew, struct calibration *calibration)
{
    struct machine machine, *machines = memory_zeroed(crew->ranks, sizeof *machines);
    machine_read(&machine);
    bool good = crew->transport->all_gather(crew->end, &machine, sizeof machine, machines);
    uint32_t together = 0; /* ranks that share this rank's memory */
    for (uint32_t r = 0; r < crew->ranks; r++)
        together += machine_same(&machines[r], &machine);
    *calibration = (struct calibration){.ranks = crew->ranks, .processors = 1, .tile_rows = 1};
    if (good) {
        calibration->cores = machine_cores(machines, crew->ranks);
        calibration->oversubscribed = machine_is_oversubscribed(machines, crew->ranks);
        calibration->memory_bytes = (double)machine.memory_bytes / together;
    }
    snprintf(calibration->host, sizeof calibration->host, "%s", machine.host);
    snprintf(calibration->processor, sizeof calibration->processor, "%s", machine.cpu);
    snprintf(calibration->isa, sizeof calibration->isa, "%s", attention_isa());
    snprintf(calibration->transport, sizeof calibration->transport, "%s", crew->transport->name);
    snprintf(calibration->kernel, sizeof calibration->kernel, "%s", CALIBRATED_KERNEL);
    free(machines);
    return good;
}

/* ---- of CPUs: nothing has to be opened ---- */

static void choose_nothing(const struct calibration_settings *settings, const char **transport, uint32_t *ranks)
{
    *transport = settings->transport;
    *ranks = settings->ranks;
}

static bool open_nothing(struct calibration_part *part)
{
    (void)part;
    return true;
}

static void close_nothing(struct calibration_part *part)
{
    (void)part;
}

static const struct calibration_way way_cpu = {
    .choose = choose_nothing,
    .open = open_nothing,
    .close = close_nothing,
    .parts = {{calibrate_steps, 0.08},
              {calibrate_attention, 0.62},
              {calibrate_products, 0.08},
              {calibrate_links, 0.18},
              {calibrate_slowdown, 0.04}},
};

const struct compute_ops *calibration_compute(const struct calibration_settings *settings)
{
    const struct compute_ops *found = computes[0];
    for (size_t i = 1; computes[i]; i++)
        if (computes[i]->devices && computes[i]->devices() > 0)
            found = computes[i];
    return settings->compute ? settings->compute : found;
}

static const struct calibration_way *way_of(const struct calibration_settings *settings)
{
    const struct compute_ops *compute = calibration_compute(settings);
#ifdef CPSIM_HAVE_CUDA
    if (compute == &compute_cuda)
        return &calibration_way_cuda;
#endif
    (void)compute;
    return &way_cpu;
}

static bool measure(const struct crew *crew, void *context)
{
    struct shared *shared = context;
    const struct calibration_way *way = way_of(shared->settings);
    struct calibration *calibration = memory_zeroed(1, sizeof *calibration);
    struct calibration_part part = {.crew = crew,
                                    .calibration = calibration,
                                    .quick = shared->settings->quick,
                                    .progress = show_progress,
                                    .settings = shared->settings};
    double begin = seconds_now();
    bool good = describe(crew, calibration) && way->open(&part);
    if (good)
        atomic_store(&shared->begun, true);
    for (size_t i = 0; i < WAY_PARTS_MAX && way->parts[i].run && good; i++) {
        part.from = part.to;
        part.to += way->parts[i].share;
        part.seconds = way->parts[i].share * shared->seconds;
        good = way->parts[i].run(&part);
    }
    way->close(&part);
    double disturbed = part.samples ? (double)part.disturbed / (double)part.samples : 0;
    good = good && crew_mean(crew, &disturbed, 1);
    calibration->disturbed = disturbed;
    calibration->seconds = seconds_now() - begin;
    if (good && (crew->rank == 0 || crew->transport->one_rank_a_process))
        *shared->result = *calibration;
    free(calibration);
    return good;
}

bool calibration_agree(const struct crew *crew, struct measured *measured)
{
    double values[2] = {measured->value, measured->spread};
    if (!crew_mean(crew, values, 2))
        return false;
    *measured = (struct measured){values[0], values[1]};
    return true;
}

bool calibrate(struct calibration *calibration, const struct calibration_settings *settings, bool *speaks,
               struct diagnostics *diag)
{
    struct shared shared = {.result = calibration, .settings = settings, .seconds = settings->seconds};
    if (shared.seconds <= 0)
        shared.seconds = settings->quick ? QUICK_SECONDS : SECONDS;
    const char *transport;
    uint32_t ranks;
    way_of(settings)->choose(settings, &transport, &ranks);
    bool good = crew_run(transport, ranks, measure, &shared, speaks, diag);
    if (settings->refused)
        *settings->refused = !good && !atomic_load(&shared.begun);
    return good;
}
