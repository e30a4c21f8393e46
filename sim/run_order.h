/* run_order.h - an order in which an ensemble's activities can be taken, and what each of them comes after.
 *
 * What an operation waits for is its program's to say, not the costs': the order is found once, by walking an
 * execution, and serves every run whose costs let nothing else decide (critical_path.h). A step is an activity, or is
 * that a group of messages is posted, or has ended. It begins when the last of those ends that it comes after, which
 * are before it in the order.
 */
#ifndef CPSIM_SIM_RUN_ORDER_H
#define CPSIM_SIM_RUN_ORDER_H

#include <stddef.h>

#include "models/schedule/execution.h"

struct ordered_step {
    struct activity activity, receive; /* receive: of a message */
    uint32_t first;                    /* what it comes after, in run_order.after; the next step's is the end of that */
    bool counts;                       /* it is an activity; else it takes no time */
    bool sends;                        /* it is a message */
};

/* What an activity takes: a local one seconds, a message a delay, then seconds. */
struct step_times {
    double delay, seconds;
};

struct run_order {
    struct ordered_step *steps; /* one more for the end */
    uint32_t n_steps;
    size_t capacity;
    uint32_t *after; /* steps */
    uint32_t n_after;
    size_t after_capacity;
    uint32_t phase_begin[PHASE_COUNT]; /* steps from there on come after all before it */
};

/* Of an execution that is fresh, of one replica; it is run to its end. False on a deadlock: the order is then empty. */
bool run_order_init(struct run_order *order, struct execution *execution);
void run_order_fini(struct run_order *order);

/* The end of a step's phase, as an index of steps. */
static inline uint32_t run_order_phase_end(const struct run_order *order, int phase)
{
    return phase + 1 < PHASE_COUNT ? order->phase_begin[phase + 1] : order->n_steps;
}

/* When step `at` begins, in a phase that begins at `barrier`; `ends` are those of the steps before it. */
static inline double run_order_begin(const struct run_order *order, uint32_t at, double barrier, const double *ends)
{
    double begin = barrier;
    for (uint32_t i = order->steps[at].first; i < order->steps[at + 1].first; i++)
        begin = ends[order->after[i]] > begin ? ends[order->after[i]] : begin;
    return begin;
}

/* The seconds of the whole, where each step takes its `times`. `ends` has room for all steps. */
double run_order_seconds(const struct run_order *order, const struct step_times *times, double *ends);

#endif
