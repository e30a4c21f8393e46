/* device_turns.h - two compute streams on one device: whose kernel runs.
 *
 * A rank has one device. A kernel that becomes ready while one of the other stream is under way launches at once,
 * beside it, but its work waits until that one has ended: of the pair, only what a launch takes is hidden. Kernels have
 * their turns in the order in which they became ready. A stream runs its operations one by one, so at most two are
 * under way: the one that came first, which nothing holds up, and one behind it.
 *
 * An engine calls enter for a kernel that becomes ready. If it is first, all of it runs at once. Else its fixed part
 * runs, then the engine asks whether its work may begin; if not, it waits until the end of the other kernel, where
 * leave says so. Streams that do not compute have nothing to do with this: what they add up, they add up beside.
 */
#ifndef CPSIM_SIM_DEVICE_TURNS_H
#define CPSIM_SIM_DEVICE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "models/schedule/program.h"

struct device_turns {
    struct device_turn {
        uint8_t under_way;  /* kernels that have entered and not left */
        uint8_t streams[2]; /* theirs, in the order of their turns */
        bool waits;         /* the second is launched and waits for the first */
    } * devices;            /* [instance] */
};

void device_turns_init(struct device_turns *turns, uint32_t instances);
void device_turns_fini(struct device_turns *turns);

/* A kernel of `instance` becomes ready. Whether it is the first on its device: then it runs whole, from now. */
bool device_turns_enter(struct device_turns *turns, uint32_t instance, enum stream stream);

/* A kernel that was not first has been launched. Whether its work may begin now; else it waits. */
bool device_turns_launched(struct device_turns *turns, uint32_t instance, enum stream stream);

/* The first kernel of `instance` has ended. Whether the other one waited for that: its work begins now. */
bool device_turns_leave(struct device_turns *turns, uint32_t instance);

#endif
