/* device_turns.h - several compute streams on one device: whose kernel runs.
 *
 * A rank has one device, which it may share with others (topology.h, ranks_per_device). A kernel that becomes ready
 * while one of another stream is under way launches at once, beside it, but its work waits until those before it have
 * ended: only what a launch takes is hidden. Kernels have their turns in the order in which they became ready. A stream
 * runs its operations one by one, so each has at most one under way on its device: the one that came first, which
 * nothing holds up, and others behind it.
 *
 * An engine calls enter for a kernel that becomes ready. If it is first, all of it runs at once. Else its fixed part
 * runs, then the engine asks whether its work may begin; if not, it waits until the end of the kernel before it, where
 * leave says so. Streams that do not compute have nothing to do with this: what they add up, they add up beside.
 */
#ifndef CPSIM_SIM_DEVICE_TURNS_H
#define CPSIM_SIM_DEVICE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/placement.h"
#include "models/schedule/ensemble.h"

struct device_turns {
    struct device_turn {
        uint32_t under_way; /* kernels that have entered and not left */
        struct turn {
            uint32_t instance;
            uint8_t stream;
            bool waits; /* it is launched and waits for those before it */
        } * turns;      /* in their order */
    } * devices;
    uint32_t *device_of; /* [instance] */
    struct turn *memory;
};

/* `placement` says which instances share a device, so many to each. */
void device_turns_init(struct device_turns *turns, const struct ensemble *ensemble, const struct placement *placement,
                       uint32_t ranks_per_device);
void device_turns_fini(struct device_turns *turns);

/* A kernel of `instance` becomes ready. Whether it is the first on its device: then it runs whole, from now. */
bool device_turns_enter(struct device_turns *turns, uint32_t instance, enum stream stream);

/* A kernel that was not first has been launched. Whether its work may begin now; else it waits. */
bool device_turns_launched(struct device_turns *turns, uint32_t instance, enum stream stream);

/* The first kernel of the device of `instance` has ended. Whether the one behind it waited for that: its work begins
 * now; *next is whose it is. */
bool device_turns_leave(struct device_turns *turns, uint32_t instance, struct turn *next);

/* One of the compute streams of all instances, as an index. */
static inline size_t compute_stream_index(uint32_t instance, enum stream stream)
{
    return 2 * (size_t)instance + (stream == STREAM_COMPUTE_2);
}

#endif
