/* cost.h - seconds of everything a program does, from a device profile and a topology.
 *
 * Attention: t = max(a, launch) + max(heads (b rows + c pairs head_dim), longest tile), with a, b and c fitted to the
 * profile's table of published or measured rates (kernel_fit.h); but never less than its bytes take through memory.
 * Merge, finish, delta, accumulate, cast: bytes read and written at the step's rate, or at the achievable memory
 * bandwidth, plus a launch. Messages: alpha of the route, plus what a size curve says a message of this size loses
 * against the link's full bandwidth, then bytes at the (shared) bandwidth of the links.
 */
#ifndef CPSIM_MODELS_COST_COST_H
#define CPSIM_MODELS_COST_COST_H

#include "models/base/diagnostics.h"
#include "models/cost/kernel_fit.h"
#include "models/input/device.h"
#include "models/input/topology.h"
#include "models/schedule/schedule.h"

/* Which end of their spread the constants are taken at: measured ones vary. */
enum cost_end { COST_MIDDLE, COST_FAST, COST_SLOW };

struct cost {
    const struct device *device;
    const struct topology *topology;
    const struct schedule *schedule;
    struct kernel_fit fit[PASS_COUNT];
    enum cost_end end;
};

/* False, with a message that names what the profile has, when it lacks the kernel, dtype, head dim or pass. */
bool cost_init(struct cost *cost, const struct device *device, const struct topology *topology,
               const struct schedule *schedule, struct diagnostics *diag);

/* Seconds of a local operation of `program`; 0 for a message. */
double cost_op_seconds(const struct cost *cost, const struct program *program, const struct op *op);

/* Seconds of those that its launch takes, whatever its size: what another kernel of the device may hide. */
double cost_op_fixed_seconds(const struct cost *cost, const struct op *op);

/* FLOPs of a local operation: 4 * computed pairs * query heads * head_dim * batch for attention, 2.5 times that
 * backward; 0 otherwise. */
double cost_op_flops(const struct cost *cost, const struct op *op);

/* Seconds before a message of `bytes` moves at full bandwidth along `route`: alpha, or, where the size curve of the
 * route's level says that the message takes longer than alpha and its bytes at the level's bandwidth, that much more.
 * Uncontended, the message takes this plus bytes / route->bytes_per_s, which never falls when bytes rise. */
double cost_message_delay(const struct cost *cost, const struct route *route, uint64_t bytes);

/* What a message's time is to be multiplied with at the costs' end of the spread of its link class. */
double cost_message_factor(const struct cost *cost, const struct route *route);

/* Whether any constant that the costs stand on carries a spread. */
bool cost_has_spread(const struct cost *cost);

#endif
