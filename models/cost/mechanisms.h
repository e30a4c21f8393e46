/* mechanisms.h - what a prediction takes into account beyond "work over peak, bytes over bandwidth": each can be left
 * out, so that one sees what it is worth.
 */
#ifndef CPSIM_MODELS_COST_MECHANISMS_H
#define CPSIM_MODELS_COST_MECHANISMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mechanism {
    MECHANISM_LAUNCH,         /* what one kernel, and the next, costs to start */
    MECHANISM_STEPS,          /* merges, sums, casts and copies stream their operands through memory */
    MECHANISM_IMPLEMENTATION, /* an implementation's own passes and choices (models/implementations) */
    MECHANISM_EDGES,          /* tiles on the border of what a mask shows are computed in part for nothing */
    MECHANISM_WAVES,          /* a tile is one processor's: few tiles leave others idle */
    MECHANISM_CHANNELS,       /* NCCL gives a message few channels until it is large */
    MECHANISM_CURVES,         /* sizes at which a link was measured to be slower */
    MECHANISM_COLLECTIVES,    /* collectives have a rate of their own */
    MECHANISM_FANS,           /* members that send to several at once share what their root complex passes on */
    MECHANISM_SMS,            /* a transfer takes SMs from the attention beside it */
    MECHANISM_WAITING,        /* a transfer waits until the attention kernel before it has handed out its tiles */
    MECHANISM_SLOWDOWN,       /* transfers slow down what computes meanwhile */
    MECHANISM_COUNT,
};

/* A set of mechanisms that are left out. */
typedef uint32_t mechanism_set;

static inline bool mechanism_counts(mechanism_set without, enum mechanism mechanism)
{
    return !(without >> mechanism & 1U);
}

const char *mechanism_name(enum mechanism mechanism);
const char *mechanism_summary(enum mechanism mechanism); /* one line, for --help */
/* False when there is none of this name. */
bool mechanism_find(const char *name, enum mechanism *mechanism);

#endif
