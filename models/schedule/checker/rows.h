/* rows.h - contents of a joined shard as contents of its ranks' shards, and the reverse.
 *
 * A rank's rows of a joined run are a run of its own rows. The reverse is no such thing: the rows of the ranks of a
 * group alternate under a striped sharding. Where all ranks hold the same sum, as they do after one of them has
 * computed it for all, a run of pieces stays a few pieces; only rows whose sums really alternate become a piece each.
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_ROWS_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_ROWS_H

#include "models/schedule/checker/contents.h"
#include "models/schedule/sharding.h"

/* Replaces `run` by those rows of `joined` (pieces of one group) that `rank` owns, one of the group. */
void rows_split(const struct sharding *sharding, const struct contents *joined, uint32_t rank, struct contents *run);

/* Replaces `run` by the pieces of the block `joined`; `parts` has a piece for every row of it, each in terms of the
 * rank that owns it. */
void rows_join(const struct sharding *sharding, struct block joined, const struct contents *parts,
               struct contents *run);

#endif
