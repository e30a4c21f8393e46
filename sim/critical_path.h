/* critical_path.h - the engine without contention where nothing is but the programs' own order.
 *
 * Where no transfer slows compute down or waits for SMs, and kernels share no device, an operation begins when the last
 * one that it waits for ends (or later, when the host issues it). So no clock is needed: operations are taken in any
 * order in which each comes after those that it waits for, and their moments are those of the event loop, to the last
 * bit. Such an order is the programs' and not the costs', so that other runs with other costs can go by it again
 * (run_order.h).
 */
#ifndef CPSIM_SIM_CRITICAL_PATH_H
#define CPSIM_SIM_CRITICAL_PATH_H

#include "sim/order_times.h"
#include "sim/recorder.h"
#include "sim/run_order.h"

/* Whether the planned simulation is such a one. */
bool critical_path_applies(const struct plan *plan);

/* Runs it to its end, or to a deadlock, and notes all moments. */
void critical_path_run(const struct plan *plan, struct recorder *recorder);

/* The same in an order of its ensemble's, with its times; a plan of one replica whose host takes no time. There is no
 * deadlock. Of a timeline that is zero only the steps are made where the simulation spares moments; they live as long
 * as the order. */
bool critical_path_goes_by_order(const struct plan *plan);
void critical_path_run_in(const struct run_order *order, const struct order_times *times, const struct plan *plan,
                          struct timeline *timeline);

#endif
