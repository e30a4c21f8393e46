/* folding.h - what the instances of a folded simulation stand for: which rank is of which class, which links.
 *
 * Made by sim/fold.h; read by the engines (who load links by it) and by the report (which says it of every rank).
 */
#ifndef CPSIM_MODELS_RESULT_FOLDING_H
#define CPSIM_MODELS_RESULT_FOLDING_H

#include <stddef.h>
#include <stdint.h>

#include "models/schedule/ensemble.h"

/* A link on the way of a message. */
struct hop {
    uint64_t link; /* that which stands for its class */
    uint32_t
        weight; /* messages of the class, one from each rank that the sender stands for, that cross this one link */
};

/* A class of links. */
struct folded_link {
    uint64_t link; /* the lowest of them, which stands for them */
    uint64_t stands_for;
};

struct folding {
    const struct ensemble *whole; /* of all ranks; outlives the folding */
    struct ensemble ensemble;     /* folded: an instance a class, in the order of their lowest ranks */
    uint32_t *class_of;           /* [group * ranks + rank]: instance of the folded ensemble */
    struct hop *hops;             /* of every way of the folded ensemble */
    size_t *first_hop;            /* [index in ensemble.peers]: its hops; one more for the end of the last */
    struct folded_link *links;    /* ascending; only those that a message crosses */
    size_t n_links;
};

void folding_fini(struct folding *folding);

/* The instance that stands for rank `place` of the layout (group * ranks + rank); without a folding (NULL), itself. */
static inline uint32_t folding_instance(const struct folding *folding, uint32_t place)
{
    return folding ? folding->class_of[place] : place;
}

/* The class that `link` stands for; NULL if nothing crosses it or it stands for none. */
const struct folded_link *folding_link(const struct folding *folding, uint64_t link);

#endif
