/* micro_batches.c - sums, rank by rank; then what the report says of all ranks anew. */
#include "models/result/micro_batches.h"

#include <string.h>

#include "models/base/memory.h"

static void add_rank(struct rank_report *rank, const struct rank_report *pass, double pass_seconds, uint32_t times)
{
    rank->seconds += times * pass_seconds;
    rank->compute_seconds += times * pass->compute_seconds;
    rank->communication_seconds += times * pass->communication_seconds;
    rank->exposed_seconds += times * pass->exposed_seconds;
    rank->idle_seconds += times * pass->idle_seconds;
    rank->overlapped_seconds += times * pass->overlapped_seconds;
    for (int kind = 0; kind < WAIT_KINDS; kind++)
        rank->exposed_by_kind[kind] += times * pass->exposed_by_kind[kind];
    for (int part = 0; part < COMPUTE_PARTS; part++)
        rank->compute_by_part[part] += times * pass->compute_by_part[part];
    rank->recomputed_seconds += times * pass->recomputed_seconds;
    rank->bytes_sent += times * pass->bytes_sent;
    rank->bytes_received += times * pass->bytes_received;
    rank->messages_sent += times * pass->messages_sent;
    rank->messages_received += times * pass->messages_received;
    for (int kind = 0; kind < TRAFFIC_COUNT; kind++) {
        rank->sent_bytes_by_kind[kind] += times * pass->sent_bytes_by_kind[kind];
        rank->received_bytes_by_kind[kind] += times * pass->received_bytes_by_kind[kind];
        rank->sent_elements_by_kind[kind] += times * pass->sent_elements_by_kind[kind];
        rank->received_elements_by_kind[kind] += times * pass->received_elements_by_kind[kind];
    }
    rank->flops += times * pass->flops;
    rank->peak_at_seconds += times * pass_seconds;
}

/* A class of the passes that the last one does not use has no place of its own. */
static struct link_class_report *class_of(struct report *report, const struct link_class_report *link)
{
    for (uint32_t i = 0; i < report->n_links; i++)
        if (strcmp(report->links[i].name, link->name) == 0)
            return &report->links[i];
    return NULL;
}

static void add_links(struct report *report, const struct report *pass, uint32_t times, double last_seconds)
{
    for (uint32_t i = 0; i < report->n_links; i++)
        report->links[i].utilization *= last_seconds / report->seconds;
    for (uint32_t i = 0; i < pass->n_links; i++) {
        const struct link_class_report *link = &pass->links[i];
        struct link_class_report *sum = class_of(report, link);
        if (!sum)
            continue;
        sum->links_used = link->links_used > sum->links_used ? link->links_used : sum->links_used;
        sum->bytes += times * link->bytes;
        sum->busy_seconds += times * link->busy_seconds;
        sum->utilization += times * link->utilization * pass->seconds / report->seconds;
    }
    report->wire_bound_seconds += times * pass->wire_bound_seconds;
}

void report_add_passes(struct report *report, const struct report *pass, uint32_t times)
{
    double last_seconds = report->seconds;
    report->seconds += times * pass->seconds;
    report->forward_seconds += times * pass->forward_seconds;
    report->backward_seconds += times * pass->backward_seconds;
    report->seconds_low += times * pass->seconds_low;
    report->seconds_high += times * pass->seconds_high;
    for (uint32_t i = 0; i < report->n_ranks; i++)
        add_rank(&report->ranks[i], &pass->ranks[i], pass->seconds, times);
    report_sum_up(report);
    if (report->seconds > 0)
        add_links(report, pass, times, last_seconds);
}
