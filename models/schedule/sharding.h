/* sharding.h - which positions each rank owns, and blocks of them.
 *
 * A shard is a few spans (arithmetic progressions of positions, ascending); its rows are numbered in ascending order of
 * position, so the row order is the causal order. A block is a run of one owner's rows. Nothing here loops
 * over positions.
 *
 * With a cached prefix, positions [0, cached) have keys only: each rank holds an even share of them, and its share of
 * the new positions, sharded as the kind says, behind it. So a rank's queries are the last rows of its shard.
 *
 * Ranks that exchange heads for rows (all-to-all) look at the sequence in larger pieces: the shards of `joined` ranks
 * become one joined shard, with the same order of rows. Which ranks these are is chosen so that the joined shards are
 * those that a sharding of the same kind over ranks / joined ranks would have: neighbours; striped, every
 * (ranks / joined)-th.
 */
#ifndef CPSIM_MODELS_SCHEDULE_SHARDING_H
#define CPSIM_MODELS_SCHEDULE_SHARDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/input/experiment.h"

/* Positions first, first + stride, ..., `count` of them. */
struct span {
    uint64_t first, stride, count;
};

#define SHARD_SPANS_MAX (2 * SHARDING_DOCUMENTS_MAX)

struct shard {
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans;
    uint64_t rows; /* sum of the spans' counts; may be 0 */
};

/* Rows [first, first + count) of the shard of `owner`: a rank, or block_joined(group) for the joined shard of a group
 * of ranks. Owner BLOCK_ALL means those rows of every rank's shard (of each as many as it has), as an all-gather
 * delivers them. */
struct block {
    uint32_t owner;
    uint32_t first, count;
};

#define BLOCK_ALL UINT32_MAX
#define BLOCK_JOINED UINT32_C(0x80000000)

static inline uint32_t block_joined(uint32_t group)
{
    return BLOCK_JOINED | group;
}

static inline bool block_is_joined(uint32_t owner)
{
    return owner != BLOCK_ALL && (owner & BLOCK_JOINED);
}

/* The run of rows from the first to the last that either block has; an empty one adds nothing. The owner is that of
 * `a`, unless that is empty. */
struct block block_cover(struct block a, struct block b);

/* "rank 3, rows 0-511", "group 1, rows 0-511" or "all ranks, rows 0-511"; "rank 3, no rows". */
void block_describe(struct block block, char *text, size_t size);

struct sharding {
    enum sharding_kind kind;
    uint64_t seq_len;
    uint64_t cached; /* positions before the first that has a query */
    uint32_t ranks;
    uint32_t joined;         /* ranks of a group; 1: nobody's shards are joined */
    uint64_t *starts;        /* SHARDING_EXPLICIT: ranks + 1 prefix sums; else NULL */
    const struct mask *mask; /* SHARDING_PER_DOCUMENT: the experiment's */
};

/* `joined` divides the experiment's cp. */
void sharding_init(struct sharding *sharding, const struct experiment *experiment, uint32_t joined);
void sharding_fini(struct sharding *sharding);

/* The positions of `owner` (a rank or a joined group). Uneven lengths: contiguous and striped shards differ by at most
 * one row (the first ranks have one more), those per document by two rows a document; zigzag requires 2 * ranks to
 * divide the new positions. */
void sharding_shard(const struct sharding *sharding, uint32_t owner, struct shard *shard);
uint64_t sharding_rows(const struct sharding *sharding, uint32_t owner);
uint64_t sharding_rows_max(const struct sharding *sharding); /* of any rank */

/* All rows of `owner`, and the last of them, those that have queries. */
struct block sharding_keys(const struct sharding *sharding, uint32_t owner);
struct block sharding_queries(const struct sharding *sharding, uint32_t owner);

/* The positions of a block (owner not BLOCK_ALL): writes at most SHARD_SPANS_MAX spans, returns how many. */
uint32_t sharding_block_spans(const struct sharding *sharding, struct block block, struct span *spans);

/* How many of `owner`'s positions lie before `position`: for one of its own, the number of its row. */
uint64_t sharding_rows_below(const struct sharding *sharding, uint32_t owner, uint64_t position);

/* ---- groups of joined ranks ---- */

uint32_t sharding_groups(const struct sharding *sharding);
/* The group of `rank`, and its number in it; the i-th rank of a group. */
uint32_t sharding_group_of(const struct sharding *sharding, uint32_t rank);
uint32_t sharding_member_of(const struct sharding *sharding, uint32_t rank);
uint32_t sharding_group_rank(const struct sharding *sharding, uint32_t group, uint32_t member);

/* The rows of a joined block that `rank` owns, one of the group: a run of its rows, for row order is position order
 * here and there. */
struct block sharding_part(const struct sharding *sharding, struct block joined, uint32_t rank);

#endif
