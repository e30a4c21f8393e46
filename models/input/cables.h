/* cables.h - which members of a mesh, ring, torus or dragonfly have a cable between them, and the way over those.
 *
 * Mesh: every two. Ring and torus: neighbours in each dimension (a dimension of length 2 has one cable, not two; of
 * length 1 none). Dragonfly of G groups of R routers, router r of group g being member g * R + r: every two routers of
 * a group, and every two groups. A group counts the others 0, 1, ... in ascending order and has the cable to the n-th
 * at its router n mod R.
 *
 * A cable's FORWARD direction is towards the higher member of a mesh, the next index (cyclically) of a ring or torus,
 * the higher router or group of a dragonfly.
 */
#ifndef CPSIM_MODELS_INPUT_CABLES_H
#define CPSIM_MODELS_INPUT_CABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/topology.h"

uint64_t cables_count(const struct level *level);

/* The two members that `cable` joins; direction FORWARD goes from `a` to `b`. */
void cables_ends(const struct level *level, uint64_t cable, uint64_t *a, uint64_t *b);

/* LEVEL_DRAGONFLY: whether the cable joins groups. */
bool cables_is_global(const struct level *level, uint64_t cable);

/* Calls `step` for each cable of the way from one member to another, in order. */
void cables_walk(const struct level *level, uint64_t from, uint64_t to,
                 void (*step)(void *context, uint64_t cable, enum direction direction), void *context);

#endif
