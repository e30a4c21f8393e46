/* wiring.h - what the levels of a cluster come to: sets of cables, where ports hang, and the numbers of links.
 *
 * A level is a set of cables repeated: once per instance of the level and once per lane in it. A set of a switch has a
 * port per member, of other kinds the cables of cables.h. A port or cable is `parallel` ways of two links, one each
 * way, or one link when half duplex. So
 *
 *     link = first of the level + (((set * cables of a set) + cable) * parallel + way) * directions + direction
 *
 * with set = instance * lanes + lane. Direction 0 is up at a switch, and from the lower end as cables.h has it.
 *
 * GPUs are counted by place here: as if all nodes were of full size (places.h).
 */
#ifndef CPSIM_MODELS_INPUT_WIRING_H
#define CPSIM_MODELS_INPUT_WIRING_H

#include <stdbool.h>
#include <stdint.h>

#define LEVELS_MAX 8

struct level;
struct topology;

struct wiring {
    uint64_t size;        /* the level's */
    uint64_t member;      /* GPUs in one member: the product of the sizes inside */
    uint64_t lanes;       /* sets in one instance */
    uint64_t lane_member; /* a GPU's lane is its index among so many, * lanes / so many */
    uint64_t cables;      /* of one set */
    uint32_t parallel;    /* links of a port that a route chooses from */
    uint32_t directions;
    uint64_t first, links; /* link numbers [first, first + links) */
    int below; /* the level whose switch the ports hang on; -1: they sit on the GPUs, or nothing is crossed */
    int nic;   /* the level whose NICs the way up goes out by; -1: by none */
};

enum direction { FORWARD, BACKWARD }; /* up and down at a switch */

/* Everything but first and links, of level k; those inside it are done, and their product is no overflow. */
void wiring_shape(const struct topology *topology, uint32_t k, struct wiring *wiring);

static inline uint64_t wiring_member(const struct wiring *w, uint64_t place)
{
    return place / w->member % w->size;
}

static inline uint64_t wiring_lane(const struct wiring *w, uint64_t place)
{
    return w->lanes == 1 ? 0 : place % w->lane_member * w->lanes / w->lane_member;
}

static inline uint64_t wiring_set(const struct wiring *w, uint64_t place)
{
    return place / (w->member * w->size) * w->lanes + wiring_lane(w, place);
}

static inline uint64_t wiring_link(const struct wiring *w, uint64_t set, uint64_t cable, uint32_t way,
                                   enum direction direction)
{
    uint64_t end = w->directions == 2 ? (uint64_t)direction : 0;
    return w->first + ((set * w->cables + cable) * w->parallel + way) * w->directions + end;
}

/* A link's number taken apart. */
struct link_place {
    uint32_t level;
    uint64_t set, cable;
    uint32_t way;
    enum direction direction;
};

struct link_place wiring_locate(const struct topology *topology, uint64_t link);

/* What the link is without overrides. */
double wiring_bytes_per_s(const struct level *level, uint64_t cable);
double wiring_latency_seconds(const struct level *level, uint64_t cable);

/* Whether links of level k are called by the GPUs at their ends: there is one port or cable end to each GPU. */
bool wiring_ends_are_gpus(const struct topology *topology, uint32_t k);

/* Whether level k is a switch that GPUs reach by NICs of their own: of rail attachment, its ports on the GPUs. */
bool wiring_has_nics(const struct topology *topology, uint32_t k);

/* The first GPU that is there of those of `lane` in the member of level k that `place` is in. False if none is. */
bool wiring_gpu_of_lane(const struct topology *topology, uint32_t k, uint64_t place, uint64_t lane, uint64_t *found);

#endif
