/* rank_reports.c - what a program alone decides (shape_facts.h), joined with what its instance did with its time
 * (rank_time.h): time parts that sum to the step, no rate above the device's peak.
 */
#include "models/result/rank_reports.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/result/rank_time.h"
#include "models/result/shape_facts.h"

#define SAME 1e-9 /* of the step: idle seconds this close are equal */

/* The ranks of a report being measured, once for each instance. */
struct measuring {
    const struct report_input *input;
    const struct shape_facts **facts; /* [instance] */
    struct rank_report *ranks;        /* [instance] */
    struct diagnostics *diag;
};

/* No kernel beats the device: a rate above the datasheet's says that work was dropped or counted twice. The stated peak
 * is that of 16-bit types; tensor cores do twice as much in 8-bit ones. A GPU that an override makes faster or slower
 * has as much more or less of it. */
static bool check_rate(const struct rank_report *rank, const struct report_input *input, struct diagnostics *diag)
{
    const struct cost *cost = input->cost;
    if (!cost)
        return true;
    const struct experiment *experiment = cost->schedule->experiment;
    bool in_fp8 = experiment->dtype == DTYPE_FP8 || experiment->step.linear == LINEAR_FP8;
    double peak = cost->device->peak_flops_per_s * (in_fp8 ? 2 : 1);
    if (input->placement)
        peak *= topology_gpu_speed(cost->topology, placement_gpu(input->placement, rank->group, rank->rank));
    if (peak <= 0 || rank->flops <= peak * rank->compute_seconds * (1 + 1e-9))
        return true;
    return diagnostics_add(diag,
                           "rank %" PRIu32 " computes %.6g FLOPs in %.6g s, more than the device's peak of %.6g FLOP/s",
                           rank->rank, rank->flops, rank->compute_seconds, peak);
}

/* What the rank did with its time. */
static bool measure_times(struct measuring *measuring, uint32_t instance)
{
    const struct report_input *input = measuring->input;
    const struct shape_facts *facts = measuring->facts[instance];
    struct rank_report *rank = &measuring->ranks[instance];
    const struct instance_times times = timeline_instance(input->timeline, instance);
    double phase_end[PHASE_COUNT];
    timeline_phases(input->timeline, input->ensemble->instances[instance].replica, phase_end);
    struct rank_time time;
    rank_time_init(&time, &facts->ops, times, phase_end);
    rank->seconds = time.seconds;
    rank->compute_seconds = time.compute_seconds;
    rank->communication_seconds = time.communication_seconds;
    rank->overlapped_seconds = time.overlapped_seconds;
    rank->exposed_seconds = time.exposed_seconds;
    rank->idle_seconds = time.idle_seconds;
    memcpy(rank->exposed_by_kind, time.exposed_by_kind, sizeof rank->exposed_by_kind);
    memcpy(rank->compute_by_part, time.compute_by_part, sizeof rank->compute_by_part);
    rank->recomputed_seconds = time.recomputed_seconds;
    rank_time_fini(&time);
    rank->peak_at_seconds = high_water_seconds(&facts->water, &times, phase_end);
    if (rank->idle_seconds >= 0 && rank->seconds <= phase_end[PHASE_COUNT - 1])
        return true;
    return diagnostics_add(measuring->diag,
                           "rank %" PRIu32 " of group %" PRIu32
                           " is busy for %.17g s and ends at %.17g s, beyond the step's %.17g s",
                           rank->rank, rank->group, rank->compute_seconds + rank->exposed_seconds, rank->seconds,
                           phase_end[PHASE_COUNT - 1]);
}

static bool measure_all(struct measuring *measuring)
{
    bool good = true;
    for (uint32_t i = 0; i < measuring->input->ensemble->n_instances; i++)
        good = measure_times(measuring, i) && good;
    return good;
}

/* ---- as few as the step's figures need ---- */

/* How long the rank computed, and no other time. Returns how long it was idle at least. */
static double measure_compute(struct measuring *measuring, uint32_t instance)
{
    const struct report_input *input = measuring->input;
    const struct rank_ops *ops = &measuring->facts[instance]->ops;
    const struct instance_times times = timeline_instance(input->timeline, instance);
    struct rank_report *rank = &measuring->ranks[instance];
    double phase_end[PHASE_COUNT];
    timeline_phases(input->timeline, input->ensemble->instances[instance].replica, phase_end);
    rank->compute_seconds = rank_compute_seconds(ops, times);
    rank->seconds = rank->communication_seconds = rank->overlapped_seconds = NAN;
    rank->exposed_seconds = rank->idle_seconds = rank->peak_at_seconds = NAN;
    return rank_idle_seconds_least(ops, times, phase_end);
}

static double idle_seconds(const struct measuring *measuring, uint32_t instance)
{
    const struct report_input *input = measuring->input;
    double phase_end[PHASE_COUNT];
    timeline_phases(input->timeline, input->ensemble->instances[instance].replica, phase_end);
    return rank_idle_seconds(&measuring->facts[instance]->ops, timeline_instance(input->timeline, instance), phase_end,
                             measuring->ranks[instance].compute_seconds);
}

/* The critical rank's instance; `least` are the idle seconds that each has at least. Instances are in the order of
 * their first ranks. One that is never idle is critical unless one before it is not either; so only those are looked at
 * that may be idle as little as another one was found to be, and none behind one that is never. */
static uint32_t find_critical(const struct measuring *measuring, const double *least)
{
    const uint32_t n = measuring->input->ensemble->n_instances;
    const double same = SAME * measuring->input->timeline->phase_end[PHASE_COUNT - 1];
    double *idle = memory_zeroed(n, sizeof *idle), lowest = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        idle[i] = INFINITY;
    for (uint32_t i = 0; i < n && !(lowest <= same); i++)
        if (least[i] <= 2 * same)
            lowest = fmin(lowest, idle[i] = idle_seconds(measuring, i));
    for (uint32_t i = 0; i < n && !(lowest <= same); i++)
        if (least[i] > 2 * same && least[i] <= lowest + same)
            lowest = fmin(lowest, idle[i] = idle_seconds(measuring, i));
    uint32_t critical = 0;
    while (idle[critical] > lowest + same)
        critical++;
    free(idle);
    return critical;
}

static bool measure_few(struct measuring *measuring)
{
    uint32_t n = measuring->input->ensemble->n_instances, highest = 0;
    double *least = memory_zeroed(n, sizeof *least);
    for (uint32_t i = 0; i < n; i++) {
        least[i] = measure_compute(measuring, i);
        highest = measuring->ranks[i].peak_bytes > measuring->ranks[highest].peak_bytes ? i : highest;
    }
    uint32_t critical = find_critical(measuring, least);
    bool good = measure_times(measuring, critical);
    free(least);
    return (highest == critical || measure_times(measuring, highest)) && good;
}

/* ---- all of them ---- */

static void measuring_init(struct measuring *measuring, const struct report_input *input, struct shape_facts *facts,
                           struct diagnostics *diag)
{
    const struct ensemble *ensemble = input->ensemble;
    *measuring = (struct measuring){.input = input,
                                    .facts = memory_zeroed(ensemble->n_instances, sizeof *measuring->facts),
                                    .ranks = memory_zeroed(ensemble->n_instances, sizeof *measuring->ranks),
                                    .diag = diag};
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct instance *self = &ensemble->instances[i];
        const struct shape *shape = ensemble_shape(ensemble, i);
        measuring->facts[i] = shape_facts_of(&facts[self->shape], shape, input->schedule);
        measuring->ranks[i] = measuring->facts[i]->counts;
        measuring->ranks[i].rank = self->rank;
        measuring->ranks[i].group = self->group;
    }
}

static void measuring_fini(struct measuring *measuring)
{
    free(measuring->facts);
    free(measuring->ranks);
}

/* Every instance is measured, and every rank that it stands for is said to have done the same. */
bool rank_reports_fill(struct report *report, const struct report_input *input, struct diagnostics *diag)
{
    const struct ensemble *ensemble = input->ensemble;
    struct shape_facts *own = input->facts ? NULL : shape_facts_create(ensemble->n_shapes);
    struct measuring measuring;
    measuring_init(&measuring, input, own ? own : input->facts, diag);
    bool good = input->figures_only ? measure_few(&measuring) : measure_all(&measuring);
    for (uint32_t i = 0; i < ensemble->n_instances; i++)
        good = check_rate(&measuring.ranks[i], input, diag) && good;
    for (uint32_t place = 0; place < report->n_ranks; place++) {
        struct rank_report *rank = &report->ranks[place];
        *rank = measuring.ranks[folding_instance(input->folding, place)];
        rank->rank = place % ensemble->ranks;
        rank->group = place / ensemble->ranks;
        rank->gpu = input->placement ? placement_gpu(input->placement, rank->group, rank->rank) : place;
    }
    measuring_fini(&measuring);
    shape_facts_destroy(own, ensemble->n_shapes);
    return good;
}

uint32_t rank_reports_critical(const struct report *report)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < report->n_ranks; i++)
        least = fmin(least, report->ranks[i].idle_seconds);
    uint32_t critical = 0;
    while (!(report->ranks[critical].idle_seconds <= least + SAME * report->seconds))
        critical++;
    return critical;
}
