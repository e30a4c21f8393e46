/* report.c - puts the numbers of one run together: ranks, links, and what they add up to.
 *
 * What a rank did with its time is rank_time.c's, what its program alone decides shape_facts.c's, what the links
 * carried links.c's. Here they are joined and held against each other: time parts that sum to the step, bytes received
 * equal to bytes sent, no rate above the device's peak. A report that contradicts itself is refused, because a wrong
 * simulation looks like a good prediction.
 */
#include "models/result/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/result/links.h"
#include "models/result/rank_time.h"
#include "models/result/shape_facts.h"

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

static bool measure_instance(struct rank_report *rank, uint32_t instance, const struct report_input *input,
                             const struct shape_facts *facts, struct diagnostics *diag)
{
    const struct instance *self = &execution_ensemble(input->execution)->instances[instance];
    const struct moment *moments = input->timeline->moments[instance];
    double phase_end[PHASE_COUNT];
    timeline_phases(input->timeline, self->replica, phase_end);
    struct rank_time time;
    rank_time_init(&time, &facts->ops, moments, phase_end);
    *rank = facts->counts;
    rank->rank = self->rank;
    rank->group = self->group;
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
    rank->peak_at_seconds = high_water_seconds(&facts->water, moments, phase_end);

    bool good = check_rate(rank, input, diag);
    if (rank->idle_seconds < 0 || rank->seconds > phase_end[PHASE_COUNT - 1])
        good = diagnostics_add(diag,
                               "rank %" PRIu32 " of group %" PRIu32
                               " is busy for %.17g s and ends at %.17g s, beyond the step's %.17g s",
                               rank->rank, rank->group, rank->compute_seconds + rank->exposed_seconds, rank->seconds,
                               phase_end[PHASE_COUNT - 1]);
    return good;
}

/* Every instance is measured, and every rank that it stands for is said to have done the same. */
static bool measure_ranks(struct report *report, const struct report_input *input, struct diagnostics *diag)
{
    const struct ensemble *ensemble = execution_ensemble(input->execution);
    struct shape_facts *own = input->facts ? NULL : shape_facts_create(ensemble->n_shapes);
    struct shape_facts *facts = own ? own : input->facts;
    struct rank_report *measured = memory_zeroed(ensemble->n_instances, sizeof *measured);
    bool good = true;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct shape *shape = ensemble_shape(ensemble, i);
        const struct shape_facts *its = shape_facts_of(&facts[ensemble->instances[i].shape], shape, input->schedule);
        good = measure_instance(&measured[i], i, input, its, diag) && good;
    }
    shape_facts_destroy(own, ensemble->n_shapes);
    for (uint32_t place = 0; place < report->n_ranks; place++) {
        struct rank_report *rank = &report->ranks[place];
        *rank = measured[folding_instance(input->folding, place)];
        rank->rank = place % ensemble->ranks;
        rank->group = place / ensemble->ranks;
        rank->gpu = input->placement ? placement_gpu(input->placement, rank->group, rank->rank) : place;
    }
    free(measured);
    return good;
}

/* The rank with the least idle time. Equal ranks differ by rounding: the first of them is taken. */
static uint32_t find_critical(const struct report *report)
{
    double least = report->ranks[0].idle_seconds;
    for (uint32_t i = 1; i < report->n_ranks; i++)
        if (report->ranks[i].idle_seconds < least)
            least = report->ranks[i].idle_seconds;
    uint32_t critical = 0;
    while (report->ranks[critical].idle_seconds > least + 1e-9 * report->seconds)
        critical++;
    return critical;
}

static void take_critical(struct report *report)
{
    report->critical_rank = find_critical(report);
    const struct rank_report *critical = &report->ranks[report->critical_rank];
    report->compute_seconds = critical->compute_seconds;
    report->communication_seconds = critical->communication_seconds;
    report->exposed_seconds = critical->exposed_seconds;
    report->idle_seconds = critical->idle_seconds;
    memcpy(report->exposed_by_kind, critical->exposed_by_kind, sizeof report->exposed_by_kind);
    memcpy(report->compute_by_part, critical->compute_by_part, sizeof report->compute_by_part);
    report->recomputed_seconds = critical->recomputed_seconds;
    double both = critical->compute_seconds + critical->communication_seconds - critical->overlapped_seconds;
    double least = critical->compute_seconds < critical->communication_seconds ? critical->compute_seconds
                                                                               : critical->communication_seconds;
    if (least > 0)
        report->overlap_efficiency = (critical->compute_seconds + critical->communication_seconds - both) / least;
}

void report_sum_up(struct report *report)
{
    double compute = 0;
    take_critical(report);
    report->flops = report->compute_bound_seconds = 0;
    report->bytes_sent = report->messages_sent = 0;
    report->peak_rank = 0;
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        const struct rank_report *rank = &report->ranks[i];
        report->flops += rank->flops;
        report->bytes_sent += rank->bytes_sent;
        report->messages_sent += rank->messages_sent;
        compute += rank->compute_seconds;
        if (rank->peak_bytes > report->ranks[report->peak_rank].peak_bytes)
            report->peak_rank = i;
        if (rank->compute_seconds > report->compute_bound_seconds)
            report->compute_bound_seconds = rank->compute_seconds;
    }
    report->peak_bytes = report->ranks[report->peak_rank].peak_bytes;
    report->fits =
        report->device_bytes <= 0 || (double)report->peak_bytes + report->reserve_bytes <= report->device_bytes;
    report->imbalance = compute > 0 ? report->compute_bound_seconds / (compute / report->n_ranks) : 1;
    if (report->seconds > 0)
        report->tflops_per_rank = report->flops / report->n_ranks / report->seconds / 1e12;
}

static void sum_pairs(struct report *report, const struct schedule *schedule)
{
    uint64_t pairs_rest = 0;
    for (uint32_t i = 0; i < report->n_ranks && report->ranks[i].group == 0; i++) {
        report->visible_pairs += report->ranks[i].visible_pairs;
        pairs_rest += report->ranks[i].visible_pairs_rest;
    }
    report->visible_pairs += pairs_rest / ((uint64_t)schedule->lanes.heads * schedule->lanes.items);
}

static bool check_received(const struct report *report, struct diagnostics *diag)
{
    uint64_t received = 0;
    for (uint32_t i = 0; i < report->n_ranks; i++)
        received += report->ranks[i].bytes_received;
    if (received == report->bytes_sent)
        return true;
    return diagnostics_add(diag, "the ranks send %" PRIu64 " bytes but receive %" PRIu64, report->bytes_sent, received);
}

static void take_measured(struct report *report, const struct measured_times *measured)
{
    report->tflops_per_rank *= report->seconds / measured->seconds;
    report->seconds = measured->seconds;
    report->seconds_low = measured->seconds_low;
    report->seconds_high = measured->seconds_high;
    report->forward_seconds = measured->forward_seconds;
    report->backward_seconds = measured->backward_seconds;
    report->exposed_seconds = measured->exposed_seconds;
    report->overlap_efficiency = measured->overlap_efficiency;
}

static bool take_links(struct report *report, const struct report_input *input, struct diagnostics *diag)
{
    struct link_use use;
    bool good = link_use_measure(input, &use, diag);
    report->wire_bound_seconds = use.wire_bound_seconds;
    report->n_hot_links = use.n_hot;
    memcpy(report->hot_links, use.hot, sizeof use.hot);
    report->n_links = use.n_classes;
    report->links = memory_zeroed(use.n_classes, sizeof *report->links);
    memcpy(report->links, use.classes, use.n_classes * sizeof *report->links);
    return good;
}

bool report_init(struct report *report, const struct report_input *input, struct diagnostics *diag)
{
    const struct timeline *timeline = input->timeline;
    const struct ensemble *ensemble = execution_ensemble(input->execution);
    *report = (struct report){
        .seconds = timeline->phase_end[PHASE_COUNT - 1],
        .forward_seconds = timeline->phase_end[PHASE_FORWARD],
        .backward_seconds = timeline->phase_end[PHASE_BACKWARD] - timeline->phase_end[PHASE_FORWARD],
        .seconds_low = timeline->phase_end[PHASE_COUNT - 1],
        .seconds_high = timeline->phase_end[PHASE_COUNT - 1],
        .device_bytes = input->cost ? input->cost->device->memory_bytes / input->cost->topology->ranks_per_device
                                    : input->device_bytes,
        .reserve_bytes = input->schedule->experiment->step.reserve_bytes,
        .n_ranks = ensemble->ranks * ensemble->groups,
    };
    report->ranks = memory_zeroed(report->n_ranks, sizeof *report->ranks);
    bool good = measure_ranks(report, input, diag);
    report_sum_up(report);
    sum_pairs(report, input->schedule);
    good = check_received(report, diag) && good;

    if (input->placement)
        good = take_links(report, input, diag) && good;
    if (input->measured)
        take_measured(report, input->measured);
    if (!good)
        report_fini(report);
    return good;
}

void report_fini(struct report *report)
{
    free(report->ranks);
    free(report->links);
    memset(report, 0, sizeof *report);
}
