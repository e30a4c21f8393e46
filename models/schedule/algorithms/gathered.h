/* gathered.h - a block of keys of every rank side by side, as an all-gather leaves them and a reduce-scatter takes
 * them.
 *
 * A set is one buffer per owner, all one array, in the order of the owners; owners without rows have none. What the
 * all-gather algorithms share: filling a set of K/V from every rank's own, and adding up sets of dK/dV so that every
 * rank gets its own.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_GATHERED_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_GATHERED_H

#include "models/schedule/algorithms/collective.h"

struct gathered {
    uint32_t *by_owner; /* [rank], NO_BUFFER where the owner has no rows */
    struct lanes lanes;
};

/* What the collectives of a program go through; one at a time. */
struct gathering {
    struct builder *b;
    bool whole;       /* a shard is one block, whatever schedule.kv_block says */
    struct team team; /* all ranks */
    uint32_t *list;
    struct slot *slots;
    bool *has;
};

void gathering_init(struct gathering *gathering, struct builder *builder, bool whole);
void gathering_fini(struct gathering *gathering);

/* Block `round` of `owner`'s shard; count 0 if it has none. */
struct block gathering_block(const struct gathering *gathering, uint32_t owner, uint32_t round);

/* Adds the buffers of a set, each with room for any block of its owner. Named "<name> <index>.<owner>". The caller
 * calls gathered_fini. */
struct gathered gathered_init(const struct gathering *gathering, const char *name, uint32_t index, enum tensor tensor,
                              enum dtype dtype, enum buffer_role role, struct lanes lanes);
void gathered_fini(struct gathered *set);

/* The set's buffers that hold block `round` of their owners, in order: *n of them, in gathering->list until the next
 * call. */
const uint32_t *gathered_list(struct gathering *gathering, const struct gathered *set, uint32_t round, size_t *n);

/* All-gather of block `round` of every rank, from `own` (which may be the set's own buffer of this rank). */
void gathered_fill(struct gathering *gathering, const struct gathered *set, uint32_t own, uint32_t round,
                   enum traffic traffic);

/* Reduce-scatter of block `round` of every owner, from sets of gradients: afterwards the set's buffer of this rank
 * holds the sum. Only the ranks of computed[rank * stride] have filled their sets. `staging` from gathered_staging. */
void gathered_scatter(struct gathering *gathering, const struct gathered *set, uint32_t round, const bool *computed,
                      size_t stride, const uint32_t *staging);

/* Buffers for the shares that arrive. The caller frees the list. */
uint32_t *gathered_staging(struct gathering *gathering, struct lanes lanes);

#endif
