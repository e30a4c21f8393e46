/* collective.h - what a communication library has one call for, written out as messages and sums.
 *
 * How, schedule.collective says:
 *   ring            P-1 steps, each to the next member and from the one before; all-to-all, which has nothing to relay,
 *                   as pairwise exchange: step i to the i-th member ahead, from the i-th behind
 *   direct          every member to every other at once, in one group
 *   hierarchical:W  by nodes of W consecutive ranks (of the layout: schedule.inner). What comes in (all-gather) crosses
 * between nodes first, each rank with its like in every other node, and is then handed on inside the node; what goes
 * out (reduce-scatter, all-to-all) is brought together inside the node first; a sum for all (all-reduce) does both.
 * Each block or sum crosses between two nodes once.
 *
 * Blocks that a member sends, of P members in nodes of W (all of the data is P blocks in a reduce-scatter,
 * all-to-all and all-reduce):
 *                   ring, direct        hierarchical
 *   all-gather      P-1                 P/W - 1 between nodes, (W-1) P/W inside
 *   reduce-scatter  P-1                 the same
 *   all-to-all      P-1                 P - W between nodes, (W-1) P/W inside
 *   all-reduce      ring 2 (P-1)        P/W (P/W - 1) between nodes, 2 (W-1) P/W inside
 *                   direct P (P-1)
 * Members need not fill their nodes: those with the same place / W share one. Where nodes have different numbers of
 * members, the smaller one's members deal with several of the larger one's, in turn.
 *
 * Everything of one collective is in one stream, its sums too. Members are CP ranks, this rank one of them; every
 * member calls the same function with like arguments. The program's table of collectives says what it was, so that
 * hardware can call the library.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_COLLECTIVE_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_COLLECTIVE_H

#include "models/schedule/algorithms/builder.h"

/* The ranks that take part, in the order of their numbers in the collective. */
struct team {
    uint32_t *members;
    uint32_t count, me; /* members[me] is this rank */
};

/* All ranks, in their order. The caller calls team_fini. */
struct team team_of_all(const struct builder *builder);
void team_fini(struct team *team);

/* Rows of a buffer; buffer NO_BUFFER (or count 0) where there are none. */
struct slot {
    uint32_t buffer;
    struct block block;
};

/* Every member's `own` to every member: into[i] gets member i's, into[me] a copy of the own (or is the same buffer). */
void collective_all_gather(struct builder *builder, enum stream stream, enum traffic traffic, const struct team *team,
                           struct slot own, const struct slot *into);

/* shares[i] is this rank's share of member i's sum. Afterwards shares[me] is the sum of all shares of its own; the
 * others are spoilt, for sums under way are kept there. Not every member has a share of everything, but each knows who
 * has: has[from * count + to]; NULL: all have all. A member without a share of its own sum gets that of the others.
 * `staging` from collective_staging. */
void collective_reduce_scatter(struct builder *builder, enum stream stream, enum traffic traffic,
                               const struct team *team, const struct slot *shares, const bool *has,
                               const uint32_t *staging);

/* What members give to each other in an all-to-all: whoever passes a piece on must know it too. */
struct piece {
    struct block block; /* count 0: nothing */
    struct lanes lanes;
};
struct pieces {
    struct piece (*of)(const void *context, uint32_t from, uint32_t to); /* numbers of members, not the same */
    const void *context;
    enum tensor tensor;
    enum dtype dtype;
};

/* out[i] goes to member i, in[i] comes from it: pieces.of(me, i) and pieces.of(i, me), each in a buffer of its lanes.
 * [me] is not touched: what stays is where it is. Adds buffers of its own for what it passes on. */
void collective_all_to_all(struct builder *builder, enum stream stream, enum traffic traffic, const struct team *team,
                           const struct slot *out, const struct slot *in, const struct pieces *pieces);

/* `slot`, in all lanes of its buffer, becomes, on every member, the sum of all (of TENSOR_TOP the largest): the same
 * bits everywhere. `staging` from collective_staging, for the same rows and lanes. */
void collective_all_reduce(struct builder *builder, enum stream stream, enum traffic traffic, const struct team *team,
                           struct slot slot, const uint32_t *staging);

/* The buffers in which shares of a sum arrive before they are added, as many as the lowering needs for this team; each
 * has room for `rows` (of a reduce-scatter: the largest block, counted from row 0; of an all-reduce: the slot's), or
 * for the parts that these are cut into. The caller frees the list and may use it for one collective after the other.
 */
uint32_t *collective_staging(struct builder *builder, const char *name, enum collective_call call,
                             const struct team *team, enum tensor tensor, enum dtype dtype, struct block rows,
                             struct lanes lanes);

#endif
