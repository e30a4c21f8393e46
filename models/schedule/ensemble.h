/* ensemble.h - who runs what: the instances of a simulation, the program of each, and who its peers are.
 *
 * A layout has groups * ranks ranks. Every group runs the same programs; and under a full mask rank r of a ring does
 * what rank 0 does, with every rank number turned by r. So a program is held once, as a *shape*, for all ranks that run
 * it, possibly turned: rank numbers in it (peers, owners of blocks) mean (number + turn) mod ranks. Peers in other
 * groups are named by how far ahead these are (peers.h), which turning leaves as it is. An instance is a shape with its
 * turn and its peers.
 *
 * Groups that compute the same layer together (tp) are one *replica*: their ranks meet between the forward and the
 * backward phase, for the layers around attention join them. Replicas (dp) begin a phase each by itself; messages
 * between them are all that they know of each other.
 *
 * Instances are all ranks of all groups, instance = group * ranks + rank; or, in a folded ensemble (sim/fold.h), one
 * for each class of ranks that behave alike, which stands for all of these: peers are then classes too, and a class may
 * be its own peer. Those who execute an ensemble know no difference.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ENSEMBLE_H
#define CPSIM_MODELS_SCHEDULE_ENSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/schedule/messages.h"
#include "models/schedule/peers.h"
#include "models/schedule/program.h"
#include "models/schedule/streams.h"

struct shape {
    const struct program *program;
    struct stream_order order;
    struct messages messages;
};

struct peer {
    uint32_t instance;
    uint32_t back; /* which of that instance's peers this one is */
};

struct instance {
    uint32_t shape;
    uint32_t group, rank; /* in the layout; folded: of the one rank that the others are like */
    uint32_t turn;
    uint32_t replica;
    uint32_t stands_for; /* ranks; 1 unless folded */
    uint32_t first_peer; /* its peers in ensemble.peers, in the order of its shape's */
};

/* An operation of an instance. Of a message: one of its ends; where it is run as a whole, its send. */
struct activity {
    uint32_t instance;
    uint32_t op;
};

/* A rank of the layout. */
struct rank_place {
    uint32_t group, rank;
};

struct ensemble {
    struct layout layout;   /* folded or not */
    uint32_t ranks, groups; /* of the layout: cp; tp * dp */
    struct shape *shapes;   /* of a folded ensemble: those of the one it was made from */
    uint32_t n_shapes;
    struct instance *instances;
    uint32_t n_instances;
    struct peer *peers;
    uint32_t n_replicas; /* 1 where there is one phase only, so that nobody waits for anybody between two */
    bool borrows_shapes;
};

/* All ranks of a layout: CP rank r of any group runs programs[r % n_programs], turned by r - r % n_programs; n_programs
 * divides layout.cp (equal: every CP rank has its own). The programs outlive the ensemble. False, with a message for
 * each, when a send has no receive (or the reverse); the ensemble is then empty. */
bool ensemble_init(struct ensemble *ensemble, const struct program *programs, uint32_t n_programs, struct layout layout,
                   struct diagnostics *diag);
void ensemble_fini(struct ensemble *ensemble);

/* Every layout.tp consecutive groups are a replica. Until this is said, all of them are one. */
void ensemble_set_replicas(struct ensemble *ensemble);

static inline const struct shape *ensemble_shape(const struct ensemble *ensemble, uint32_t instance)
{
    return &ensemble->shapes[ensemble->instances[instance].shape];
}

static inline const struct program *ensemble_program(const struct ensemble *ensemble, uint32_t instance)
{
    return ensemble_shape(ensemble, instance)->program;
}

static inline const struct peer *ensemble_peers(const struct ensemble *ensemble, uint32_t instance)
{
    return &ensemble->peers[ensemble->instances[instance].first_peer];
}

/* The rank that a peer's number in the program of `instance` means. Folded: as seen from the rank that the others are
 * like. */
struct rank_place ensemble_peer_place(const struct ensemble *ensemble, uint32_t instance, uint32_t number);

/* The CP rank that the owner of a block means. (Programs that name joined groups are never turned.) */
uint32_t ensemble_owner(const struct ensemble *ensemble, uint32_t instance, uint32_t owner);

/* The other end of a message. */
struct activity ensemble_other_end(const struct ensemble *ensemble, struct activity end);

/* Operation `op` of the program of `instance` with the rank numbers that it means; a peer's is still one of peers.h. */
struct op ensemble_op(const struct ensemble *ensemble, uint32_t instance, uint32_t op);

/* "rank 3", or "rank 3 of group 5" if that is another group than the instance's own: whom a peer's number means. */
void ensemble_describe_peer(const struct ensemble *ensemble, uint32_t instance, uint32_t number, char *text,
                            size_t size);

#endif
