/* mask.h - how many (query, key) pairs are visible between two sets of positions, in closed form.
 *
 * The work of attention is the number of visible pairs. Counting them costs O(1) per pair of spans (O(documents that
 * the spans meet) for packed documents), never a loop over positions: ten million tokens are as quick as ten.
 *
 * For the causal mask over q = a + i s and k = b + j t the count is sum_i clamp(floor((a + i s - b) / t) + 1, 0, n_k),
 * a floor sum; a window is the difference of two causal counts, and a document restricts both spans to its range.
 */
#ifndef CPSIM_MODELS_SCHEDULE_MASK_H
#define CPSIM_MODELS_SCHEDULE_MASK_H

#include <stdbool.h>
#include <stdint.h>

#include "models/input/experiment.h"
#include "models/schedule/sharding.h"

bool mask_visible(const struct mask *mask, uint64_t query, uint64_t key);

/* Visible pairs of one head between the positions of two spans. */
uint64_t mask_pairs(const struct mask *mask, struct span queries, struct span keys);

/* The same for blocks; `keys.owner` may be BLOCK_ALL. */
uint64_t mask_block_pairs(const struct mask *mask, const struct sharding *sharding, struct block queries,
                          struct block keys);

/* Narrows both blocks (owners not BLOCK_ALL) to the runs of rows that can see something: the first key position that
 * the first query sees, the last query that the last key is seen by, and so on (both bounds grow with position for
 * every mask, so the runs are exact up to holes). Zigzag's half blocks and a window's edges come out by themselves.
 * Returns the pairs visible between the narrowed blocks: the same as between the given ones. With 0, the blocks are
 * left alone. */
uint64_t mask_trim(const struct mask *mask, const struct sharding *sharding, struct block *queries, struct block *keys);

/* Positions of the first and last key that `query` may see: [*first, *last]; every mask lets a query see itself. */
void mask_key_range(const struct mask *mask, uint64_t query, uint64_t *first, uint64_t *last);
/* Positions of the first and last query that may see `key`. */
void mask_query_range(const struct mask *mask, uint64_t key, uint64_t *first, uint64_t *last);

#endif
