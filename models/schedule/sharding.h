/* sharding.h - which positions each rank owns, and blocks of them.
 *
 * A shard is at most two spans (arithmetic progressions of positions, ascending); its rows are numbered in ascending
 * order of position, so the row order is the causal order. A block is a run of one owner's rows. Nothing here loops
 * over positions.
 */
#ifndef CPSIM_MODELS_SCHEDULE_SHARDING_H
#define CPSIM_MODELS_SCHEDULE_SHARDING_H

#include <stddef.h>
#include <stdint.h>

#include "models/input/experiment.h"

/* Positions first, first + stride, ..., `count` of them. */
struct span {
    uint64_t first, stride, count;
};

#define SHARD_SPANS_MAX 2

struct shard {
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans;
    uint64_t rows; /* sum of the spans' counts; may be 0 */
};

/* Rows [first, first + count) of the shard of rank `owner`; owner BLOCK_ALL means those rows of every shard (of each as
 * many as it has), as an all-gather delivers them. */
struct block {
    uint32_t owner;
    uint32_t first, count;
};

#define BLOCK_ALL UINT32_MAX

/* "rank 3, rows 0-511" or "all ranks, rows 0-511"; "rank 3, no rows". */
void block_describe(struct block block, char *text, size_t size);

struct sharding {
    enum sharding_kind kind;
    uint64_t seq_len;
    uint32_t ranks;
    uint64_t *starts; /* SHARDING_EXPLICIT: ranks + 1 prefix sums; else NULL */
};

void sharding_init(struct sharding *sharding, const struct experiment *experiment);
void sharding_fini(struct sharding *sharding);

/* The positions of `rank`. Uneven lengths: contiguous and striped shards differ by at most one row (the first
 * seq_len % ranks have one more); zigzag requires 2 * ranks to divide seq_len. */
void sharding_shard(const struct sharding *sharding, uint32_t rank, struct shard *shard);
uint64_t sharding_rows(const struct sharding *sharding, uint32_t rank);
uint64_t sharding_rows_max(const struct sharding *sharding);

/* The positions of a block (owner not BLOCK_ALL): writes at most two spans, returns how many. */
uint32_t sharding_block_spans(const struct sharding *sharding, struct block block, struct span *spans);

#endif
