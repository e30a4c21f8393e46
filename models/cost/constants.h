/* constants.h - the constants that a prediction stands on, each by name, to be scaled: rates, times and shares.
 *
 * They are read off the key tables, so a new key of a level, of a device or of an implementation is among them as soon
 * as it is there: every rate and every time above 0. A key that holds several numbers is one constant if they are of a
 * kind (the rates of a size curve, the rates of an attention table through its rate_scale), and one for each kind if
 * not (starts and rates of collectives). A graph's links count by their classes. Of the device's attention tables those
 * count that the run's kernels were fitted to. What a file leaves to another key goes with that one: a dragonfly's
 * latency between groups where it says none. A bandwidth that an oversubscription made is a constant like any. Routes
 * stay as they are, also those of a graph that its latencies decided.
 *
 * An override's bandwidth and latency are constants of their own; links at a factor go with the others of their level,
 * and the factor is a share, as is a GPU's speed.
 *
 * A prediction T obeys T(rates x, times / x) = T / x, and so the sum of d ln T / d ln rate less that of
 * d ln T / d ln time is -1 (Euler). Shares (memory_efficiency, transfer_slowdown, those of overrides), which have no
 * unit of time, have no part in that. Whole numbers (processors, tile rows, channels) and bytes are no constants to
 * scale.
 *
 * Scaling writes into the device, topology and implementation that are given, which are then not as they were read; the
 * costs have to be made anew from them (cost_init).
 */
#ifndef CPSIM_MODELS_COST_CONSTANTS_H
#define CPSIM_MODELS_COST_CONSTANTS_H

#include <stddef.h>
#include <stdint.h>

#include "models/cost/cost.h"
#include "models/input/units.h"

enum constant_kind { CONSTANT_RATE, CONSTANT_TIME, CONSTANT_SHARE };

#define CONSTANT_OF_NO_LEVEL UINT32_MAX

struct constant {
    char *name; /* section.key, as it is written: "level node.bandwidth", "device.launch" */
    enum constant_kind kind;
    uint32_t level; /* of the topology; CONSTANT_OF_NO_LEVEL: of the device or the implementation */
    enum dimension dimension;
    double value;    /* of several numbers the largest */
    double **places; /* where its numbers are */
    size_t n_places, capacity;
};

struct constants {
    struct constant *items;
    size_t count, capacity;
};

/* What `cost` was made of. */
struct constant_holders {
    struct device *device;
    struct topology *topology;
    struct implementation *implementation;
};

/* Lists the constants, but no share that multiplied with `growth` would be more than it can; the caller calls
 * constants_fini. */
void constants_init(struct constants *constants, const struct constant_holders *holders, const struct cost *cost,
                    double growth);
void constants_fini(struct constants *constants);

/* Multiplies a constant. */
void constant_scale(const struct constant *constant, double factor);

#endif
