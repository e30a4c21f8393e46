/* plan_memo.h - what simulations of one schedule have in common, kept from one to the next.
 *
 * Points of a sweep that differ in the cluster alone plan and run the same programs. Some things need not be made anew,
 * each found by all that it follows from, beside the schedule: who is in communicators and collectives; local times by
 * the costs of what is local; outlooks by their surroundings; a partition by its graph; an order of steps by the
 * instances of an ensemble and who their peers are. What differs from point to point, how fast the links are, is none
 * of these.
 */
#ifndef CPSIM_SIM_PLAN_MEMO_H
#define CPSIM_SIM_PLAN_MEMO_H

#include "sim/order_times.h"
#include "sim/partition.h"
#include "sim/surroundings.h"

struct plan_memo;

/* Of simulations whose ensembles have the same shapes, of one schedule, by profiles that differ where their names do.
 */
struct plan_memo *plan_memo_create(void);
void plan_memo_destroy(struct plan_memo *memo); /* NULL: nothing */

/* Those of `whole`, of all ranks. */
const struct communicators *plan_memo_communicators(struct plan_memo *memo, const struct ensemble *whole);
const struct member_patterns *plan_memo_patterns(struct plan_memo *memo, const struct ensemble *whole);

/* Local times by `cost`; the caller releases them. */
struct local_times *plan_memo_locals(struct plan_memo *memo, const struct ensemble *ensemble, const struct cost *cost);

/* Fills in an outlook that borrows what the memo has; false when it has none. */
bool plan_memo_find_outlook(const struct plan_memo *memo, const struct surroundings *surroundings,
                            struct outlook *outlook);
/* Takes over what the outlook has, which borrows it from now on, unless the memo has enough. */
void plan_memo_keep_outlook(struct plan_memo *memo, const struct surroundings *surroundings,
                            const struct ensemble *ensemble, struct outlook *outlook);

/* The partition of a graph, until another one's is asked for. */
const struct partition *plan_memo_partition(struct plan_memo *memo, const struct crossing_graph *graph);

/* An order for the plan's ensemble, of one replica, and its times by the plan, until others are asked for. NULL on a
 * deadlock. */
const struct run_order *plan_memo_order(struct plan_memo *memo, const struct plan *plan,
                                        const struct order_times **times);

#endif
