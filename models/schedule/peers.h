/* peers.h - the numbers by which a program names ranks, of its own CP group and of others.
 *
 * Every CP group of a tp x cp x dp layout runs the same programs, so a program cannot name other groups; it names them
 * by how far ahead of its own they are. A number below cp is the rank of that number in the own group. Beyond, number
 *     (dp_ahead * tp + tp_ahead) * cp + rank
 * is CP rank `rank` of the group whose tp index is tp_ahead further (mod tp) and whose dp index is dp_ahead further
 * (mod dp). Where the indices of a dimension are in blocks, ahead counts blocks and indices inside of one, each for
 * itself, so that a ring may stay in a block. So that of rank r of the own group is r, and each rank has one number, as
 * seen from each group.
 */
#ifndef CPSIM_MODELS_SCHEDULE_PEERS_H
#define CPSIM_MODELS_SCHEDULE_PEERS_H

#include <stdint.h>

/* Degrees of a layout; group g has tp index g % tp and dp index g / tp. */
struct layout {
    uint32_t cp, tp, dp;
    uint32_t block;    /* dp indices of a block: divides dp; 0: all */
    uint32_t tp_block; /* likewise of tp */
};

/* The index `ahead` of `index` among `degree` of them, in blocks. */
static inline uint32_t layout_ahead(uint32_t degree, uint32_t block, uint32_t index, uint32_t ahead)
{
    uint32_t size = block ? block : degree, blocks = degree / size;
    return (index / size + ahead / size) % blocks * size + (index % size + ahead % size) % size;
}

/* How far ahead the own index is as seen from the one `ahead`. */
static inline uint32_t layout_back(uint32_t degree, uint32_t block, uint32_t ahead)
{
    uint32_t size = block ? block : degree, blocks = degree / size;
    return (blocks - ahead / size) % blocks * size + (size - ahead % size) % size;
}

struct peer_place {
    uint32_t rank; /* CP rank */
    uint32_t tp_ahead, dp_ahead;
};

static inline uint32_t peer_number(const struct layout *layout, struct peer_place place)
{
    return (place.dp_ahead * layout->tp + place.tp_ahead) * layout->cp + place.rank;
}

static inline struct peer_place peer_place_of(const struct layout *layout, uint32_t number)
{
    uint32_t ahead = number / layout->cp;
    return (struct peer_place){number % layout->cp, ahead % layout->tp, ahead / layout->tp};
}

/* The group that `number` is in, as seen from `group`. */
static inline uint32_t peer_group(const struct layout *layout, uint32_t group, uint32_t number)
{
    struct peer_place place = peer_place_of(layout, number);
    uint32_t tp = layout_ahead(layout->tp, layout->tp_block, group % layout->tp, place.tp_ahead);
    uint32_t dp = layout_ahead(layout->dp, layout->block, group / layout->tp, place.dp_ahead);
    return dp * layout->tp + tp;
}

/* How CP rank `rank` of a group is called by the rank that it calls `number`. */
static inline uint32_t peer_back(const struct layout *layout, uint32_t rank, uint32_t number)
{
    struct peer_place place = peer_place_of(layout, number);
    return peer_number(layout, (struct peer_place){rank, layout_back(layout->tp, layout->tp_block, place.tp_ahead),
                                                   layout_back(layout->dp, layout->block, place.dp_ahead)});
}

#endif
