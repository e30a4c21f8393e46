/* mechanisms.c - their names and what they are. */
#include "models/cost/mechanisms.h"

#include <string.h>

static const struct {
    const char *name, *summary;
} mechanisms[MECHANISM_COUNT] = {
    [MECHANISM_LAUNCH] = {"launch", "what a kernel costs to start"},
    [MECHANISM_STEPS] = {"steps", "merges, sums, casts and copies pass through memory"},
    [MECHANISM_IMPLEMENTATION] = {"implementation", "an implementation's own passes over memory and choices"},
    [MECHANISM_EDGES] = {"edges", "tiles at a mask's border are computed in part for nothing"},
    [MECHANISM_WAVES] = {"waves", "a tile is one processor's, so few or uneven tiles leave others idle"},
    [MECHANISM_CHANNELS] = {"channels", "NCCL gives a message few channels until it is large"},
    [MECHANISM_CURVES] = {"curves", "message sizes at which a link was measured to be slower"},
    [MECHANISM_COLLECTIVES] = {"collectives", "collectives have a rate of their own"},
    [MECHANISM_FANS] = {"fans", "GPUs that each send to several at once share a root complex's lesser rate"},
    [MECHANISM_SMS] = {"sms", "a transfer takes SMs from the attention beside it"},
    [MECHANISM_WAITING] = {"waiting", "a transfer waits until the attention kernel before it has handed out its tiles"},
    [MECHANISM_SLOWDOWN] = {"slowdown", "transfers slow down what computes meanwhile"},
};

const char *mechanism_name(enum mechanism mechanism)
{
    return mechanisms[mechanism].name;
}

const char *mechanism_summary(enum mechanism mechanism)
{
    return mechanisms[mechanism].summary;
}

bool mechanism_find(const char *name, enum mechanism *mechanism)
{
    for (int m = 0; m < MECHANISM_COUNT; m++) {
        if (strcmp(name, mechanisms[m].name) != 0)
            continue;
        *mechanism = (enum mechanism)m;
        return true;
    }
    return false;
}
