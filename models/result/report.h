/* report.h - the result of one run, ready to be written: the numbers of `cpsim.run/1`.
 *
 * Computed once, from programs and timeline; the writers only print. Seconds are doubles; bytes are 64-bit.
 *
 * Per rank, for every instant of the step exactly one of: computing (it runs an operation, be it a sum beside the
 * compute stream), exposed (it has nothing to run but a compute stream waits for the rank's transfers, and one of
 * those is under way), idle (all the rest: waiting for a slower peer, for the other ranks at the end of a phase). So
 * compute + exposed + idle = the step. The critical rank is the one with the least idle time (lowest number on a tie):
 * the step's compute, communication and exposed seconds are its own, so that they add up to the step.
 *
 * Of whole layers (workload.scope) a rank's visible pairs are those of one layer.
 *
 * A measured run has no cost and no placement; its timeline is that of one iteration, the one that took the median
 * time. What differs: links are unknown; the step's phases are medians over the iterations; its exposed seconds and its
 * overlap efficiency come from three kinds of runs (both, compute only, messages only) instead of from the timeline:
 * exposed = T_both - T_compute, so that kernels that messages slow down count as exposed too.
 */
#ifndef CPSIM_MODELS_RESULT_REPORT_H
#define CPSIM_MODELS_RESULT_REPORT_H

#include <stdint.h>

#include "models/cost/cost.h"
#include "models/input/placement.h"
#include "models/result/folding.h"
#include "models/result/kinds.h"
#include "models/result/memory.h"
#include "models/result/timeline.h"
#include "models/schedule/ensemble.h"

struct rank_report {
    uint32_t rank; /* CP rank */
    uint32_t group;
    uint64_t gpu;
    double seconds; /* when it finished its last operation, counted from the start of the step */
    double compute_seconds, communication_seconds, exposed_seconds, idle_seconds;
    double overlapped_seconds;             /* computing and communicating at once */
    double exposed_by_kind[WAIT_KINDS];    /* they add up to exposed_seconds */
    double compute_by_part[COMPUTE_PARTS]; /* of whole layers: they add up to compute_seconds */
    double recomputed_seconds;             /* of these, for what was not kept */
    uint64_t bytes_sent, bytes_received, messages_sent, messages_received;
    uint64_t sent_bytes_by_kind[TRAFFIC_COUNT], received_bytes_by_kind[TRAFFIC_COUNT];
    uint64_t sent_elements_by_kind[TRAFFIC_COUNT], received_elements_by_kind[TRAFFIC_COUNT];
    uint64_t visible_pairs;      /* of one head of one batch item, forward: the mean over all of them, rounded down */
    uint64_t visible_pairs_rest; /* what was rounded off, times their number */
    double flops;
    uint64_t peak_bytes;               /* the high-water mark */
    uint64_t peak_by_role[ROLE_COUNT]; /* what it was made of when it was reached */
    double peak_at_seconds;            /* when */
    struct water_moment peak_moment;   /* at which operation of its program */
    uint64_t resident_bytes;           /* Q, K, V, O, LSE: what the rank holds anyway */
    /* for the accounting table: elements of the resident Q, of K and V, of one received block, of the state m, l, a */
    uint64_t q_elements, kv_elements, block_elements, state_elements;
    uint64_t q_bytes, kv_bytes, block_bytes, state_bytes;
};

#define HOT_LINKS_MAX 5
#define LINK_USERS_MAX 4

struct link_class_report {
    char name[40];
    uint64_t links_used, bytes;
    double busy_seconds; /* of the busiest link: time in which at least one message moved over it */
    double utilization;  /* of the link with most bytes: bytes / (bandwidth * step seconds) */
    double bytes_per_s;
};

/* One of the links with the largest share of their bandwidth in use, and what uses it. */
struct hot_link {
    uint64_t link;       /* topology_link_name says which */
    uint64_t stands_for; /* links that carry just as much, this one among them; known when folded, else 1 */
    uint64_t bytes, messages;
    double busy_seconds; /* in which at least one message moved over it */
    double utilization;
    uint64_t ways; /* from a rank to a rank, that cross it; folded: not those of links that it stands for */
    struct link_user {
        uint32_t group, from;  /* CP rank `from` of group `group` */
        uint32_t to_group, to; /* sends to this one */
        uint64_t bytes;
    } users[LINK_USERS_MAX]; /* the heaviest of these ways; folded: ways of their class */
    uint32_t n_users;
};

struct report {
    double seconds, forward_seconds, backward_seconds;
    /* measured: 10th and 90th percentile of the iterations; predicted from constants that carry a spread: the interval
     * (set by who made it); else both `seconds` */
    double seconds_low, seconds_high;
    uint32_t critical_rank; /* index into ranks */
    double compute_seconds, communication_seconds, exposed_seconds, idle_seconds;
    double exposed_by_kind[WAIT_KINDS], compute_by_part[COMPUTE_PARTS], recomputed_seconds; /* as of a rank */
    /* (T_compute + T_communication - T_both) / min(T_compute, T_communication) of the critical rank, T_both being the
     * time in which it does either: 1 when the shorter hides behind the longer, 0 when they never meet (or one is 0);
     * measured: of the step's times, NaN when they do not resolve it */
    double overlap_efficiency;
    double tflops_per_rank;             /* mean over ranks: flops / ranks / step seconds / 1e12 */
    double imbalance;                   /* most computing rank's compute seconds / mean */
    uint64_t visible_pairs;             /* of one head of one batch item, over one CP group, forward */
    uint64_t bytes_sent, messages_sent; /* over all instances */
    double flops;                       /* over all instances */
    uint64_t peak_bytes;                /* of the worst rank */
    uint32_t peak_rank;                 /* index into ranks */
    double device_bytes;                /* the device's memory */
    double reserve_bytes;               /* of it, what is no tensor's: step.reserve */
    bool fits;                          /* peak and reserve */
    double compute_bound_seconds;       /* most computing rank's kernels back to back */
    double wire_bound_seconds;          /* busiest link's bytes / bandwidth */
    struct rank_report *ranks;          /* of all groups: [group * cp + rank] */
    uint32_t n_ranks;
    struct link_class_report *links; /* by level, inside out; only those used */
    uint32_t n_links;
    struct hot_link hot_links[HOT_LINKS_MAX]; /* the busiest first */
    uint32_t n_hot_links;
};

struct shape_facts;

/* What a measurement knows from more than its timeline. */
struct measured_times {
    double seconds; /* above 0; the timeline may be of a run that clocks made slower */
    double seconds_low, seconds_high, forward_seconds, backward_seconds, exposed_seconds, overlap_efficiency;
};

struct report_input {
    const struct schedule *schedule;
    const struct ensemble *ensemble;
    const struct folding *folding; /* that the ensemble is of; NULL: the ensemble is all ranks */
    const struct cost *cost;       /* NULL for a measured run, as is the placement */
    const struct placement *placement;
    const struct timeline *timeline;
    const struct measured_times *measured; /* NULL for a prediction */
    double device_bytes;                   /* of a measured run */
    /* The step's figures and what links carried are wanted. Only the critical rank and the one with the highest peak
     * then have all times; of others the seconds that they compute, and NaN. Busy seconds of links are NaN too, and
     * are not held against their bandwidth, nor messages against their ways. */
    bool figures_only;
    struct shape_facts *facts; /* of the ensemble's shapes, as far as known (shape_facts.h); NULL: all is found anew */
};

/* Computes everything. False, with messages, when the timeline contradicts itself: a link that carried more than its
 * bandwidth, bytes that do not add up, rates above the device's peak. */
bool report_init(struct report *report, const struct report_input *input, struct diagnostics *diag);
void report_fini(struct report *report);

/* Says anew of all ranks what follows from each of them and from the step's seconds: the critical rank and its times,
 * sums, the peak, whether it fits. A part of report_init; for who changes ranks afterwards. */
void report_sum_up(struct report *report);

#endif
