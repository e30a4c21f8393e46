/* member_sets.h - how the ranks that collectives are among lie in the cluster.
 *
 * There are few different *sets* of ranks (member_patterns.h), and each is looked at once, whoever asks: work and
 * memory go with the ranks, not with their pairs.
 */
#ifndef CPSIM_SIM_MEMBER_SETS_H
#define CPSIM_SIM_MEMBER_SETS_H

#include "models/cost/channels.h"
#include "models/input/topology.h"
#include "sim/member_patterns.h"

/* Who sits where: places are instances of the ensemble of all ranks. */
struct seating {
    const struct topology *topology;
    const struct ensemble *whole;
    uint64_t *gpus; /* [place] */
    /* [level][place]: the same for places within the same instance of the level, and ascending with GPUs. NULL in a
     * graph, where levels do not nest, and where nobody asks often enough. */
    uint32_t *within[LEVELS_MAX];
};

/* The level between two places. */
uint32_t seating_level(const struct seating *seating, uint32_t a, uint32_t b);

struct member_set;

struct member_sets {
    const struct seating *seating;
    const struct member_patterns *patterns;
    struct member_set *sets;
    uint32_t n_sets;
    size_t set_capacity;
    struct numbering keys; /* by pattern and where that is */
};

/* None yet. The seating and the patterns outlive the sets; the seating may be filled in later. */
void member_sets_init(struct member_sets *sets, const struct seating *seating, const struct member_patterns *patterns);
void member_sets_fini(struct member_sets *sets);

/* How many of the members that a pattern means to a rank are in its own instance of each level, itself among them:
 * joined[level]. Returns their number, and the outermost level between any two. `self` may be of a folded ensemble. */
struct communicator_size member_sets_look(struct member_sets *sets, uint32_t pattern, const struct instance *self,
                                          uint32_t joined[LEVELS_MAX]);

/* Goes over the places that numbers mean to a rank of `group` in a program turned by `turn`. */
struct place_walk {
    const struct layout *layout;
    uint32_t group, turn;
    uint32_t ahead, first; /* of the last one: number / cp, and the first place of its group */
};

static inline struct place_walk place_walk_of(const struct layout *layout, uint32_t group, uint32_t turn)
{
    return (struct place_walk){layout, group, turn, 0, group * layout->cp};
}

static inline uint32_t place_walk_to(struct place_walk *walk, uint32_t number)
{
    uint32_t ranks = walk->layout->cp, ahead = number / ranks, rank = number % ranks;
    if (ahead != walk->ahead) { /* most are in the group of the one before */
        walk->ahead = ahead;
        walk->first = peer_group(walk->layout, walk->group, number) * ranks;
    }
    return walk->first + (rank < ranks - walk->turn ? rank + walk->turn : rank + walk->turn - ranks);
}

#endif
