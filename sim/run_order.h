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

#include "models/result/intervals.h"
#include "models/schedule/execution.h"

struct ordered_step {
    struct activity activity, receive; /* receive: of a message */
    bool counts;                       /* it is an activity; else it takes no time */
    bool sends;                        /* it is a message */
};

/* What an activity takes: a local one seconds, a message a delay, then seconds. */
struct step_times {
    double delay, seconds;
};

/* What is looked at in every run stands apart from what is not: long orders do not fit into a cache. */
struct run_order {
    uint32_t n_steps;
    uint32_t *first; /* [step]: what it comes after, in `after`; one more for the end of the last */
    uint32_t *after; /* steps, each once */
    uint32_t n_after;
    size_t first_capacity, after_capacity;
    uint32_t phase_begin[PHASE_COUNT]; /* steps from there on come after all before it */
    struct ordered_step *steps;
    size_t capacity;
    uint32_t *step_of; /* [first_op of the instance + operation]: a receive's is its send's */
    size_t *first_op;  /* [instance]; one more for the end of the last */
};

/* Of an execution that is fresh, of one replica; it is run to its end. False on a deadlock: the order is then empty. */
bool run_order_init(struct run_order *order, struct execution *execution);
void run_order_fini(struct run_order *order);

/* The end of a step's phase, as an index of steps. */
static inline uint32_t run_order_phase_end(const struct run_order *order, int phase)
{
    return phase + 1 < PHASE_COUNT ? order->phase_begin[phase + 1] : order->n_steps;
}

/* Runs all steps: step `at` takes times[time_of[at]]. Fills in `spans`, with room for all steps, and when each phase
 * ends: an empty one with the one before. */
void run_order_run(const struct run_order *order, const struct step_times *times, const uint32_t *time_of,
                   struct interval *spans, double phase_end[PHASE_COUNT]);

#endif
