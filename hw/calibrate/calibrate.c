/* calibrate.c - the order of a calibration: attention, steps, links, then the files that say so. */
#include "hw/calibrate/calibrate.h"

#include <stdio.h>
#include <stdlib.h>

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
    *calibration = (struct calibration){.ranks = crew->ranks};
    if (good) {
        calibration->cores = machine_cores(machines, crew->ranks);
        calibration->oversubscribed = machine_is_oversubscribed(machines, crew->ranks);
        calibration->memory_bytes = (double)machine.memory_bytes / together;
    }
    snprintf(calibration->host, sizeof calibration->host, "%s", machine.host);
    snprintf(calibration->processor, sizeof calibration->processor, "%s", machine.cpu);
    snprintf(calibration->isa, sizeof calibration->isa, "%s", attention_isa());
    snprintf(calibration->transport, sizeof calibration->transport, "%s", crew->transport->name);
    free(machines);
    return good;
}

static bool measure(const struct crew *crew, void *context)
{
    static const struct {
        bool (*run)(struct calibration_part *part);
        double share; /* of the time */
    } parts[] = {
        {calibrate_steps, 0.08}, {calibrate_attention, 0.7}, {calibrate_links, 0.18}, {calibrate_slowdown, 0.04}};
    const struct shared *shared = context;
    struct calibration *calibration = memory_zeroed(1, sizeof *calibration);
    struct calibration_part part = {.crew = crew,
                                    .calibration = calibration,
                                    .quick = shared->settings->quick,
                                    .progress = show_progress,
                                    .settings = shared->settings};
    double begin = seconds_now();
    bool good = describe(crew, calibration);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && good; i++) {
        part.from = part.to;
        part.to += parts[i].share;
        part.seconds = parts[i].share * shared->seconds;
        good = parts[i].run(&part);
    }
    double disturbed = part.samples ? (double)part.disturbed / (double)part.samples : 0;
    good = good && crew_mean(crew, &disturbed, 1);
    calibration->disturbed = disturbed;
    calibration->seconds = seconds_now() - begin;
    if (good && (crew->rank == 0 || crew->transport->one_rank_a_process))
        *shared->result = *calibration;
    free(calibration);
    return good;
}

bool calibrate(struct calibration *calibration, const struct calibration_settings *settings, bool *speaks,
               struct diagnostics *diag)
{
    struct shared shared = {.result = calibration, .settings = settings, .seconds = settings->seconds};
    if (shared.seconds <= 0)
        shared.seconds = settings->quick ? QUICK_SECONDS : SECONDS;
    return crew_run(settings->transport, settings->ranks, measure, &shared, speaks, diag);
}
