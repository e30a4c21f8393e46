/* report.c - puts the numbers of one run together: ranks, links, and what they add up to.
 *
 * What a rank did is rank_reports.c's, what the links carried links.c's. Here they are joined and held against each
 * other: bytes received equal to bytes sent. A report that contradicts itself is refused, because a wrong simulation
 * looks like a good prediction.
 */
#include "models/result/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/result/links.h"
#include "models/result/rank_reports.h"

static void take_critical(struct report *report)
{
    report->critical_rank = rank_reports_critical(report);
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
    const struct ensemble *ensemble = input->ensemble;
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
    bool good = rank_reports_fill(report, input, diag);
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
