/* circle.h - the ranks among which blocks of keys travel, and what each of them has.
 *
 * Places count along the ring. A place is a rank with its own shard; or, where ranks have traded heads for rows, a
 * group with its joined shard, of which this rank deals with its lanes and meets the like member of every other group.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_CIRCLE_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_CIRCLE_H

#include "models/schedule/schedule.h"

struct circle {
    const struct schedule *schedule;
    uint32_t places;
    bool joined;     /* places are groups */
    uint32_t member; /* joined: this rank's number in its group */
};

/* All ranks; the groups, as `rank` meets them. */
struct circle circle_of_ranks(const struct schedule *schedule);
struct circle circle_of_groups(const struct schedule *schedule, uint32_t rank);

uint32_t circle_rank(const struct circle *circle, uint32_t place);
uint32_t circle_owner(const struct circle *circle, uint32_t place); /* of blocks */

/* The place `steps` behind or ahead of another. */
uint32_t circle_back(const struct circle *circle, uint32_t place, uint32_t steps);
uint32_t circle_ahead(const struct circle *circle, uint32_t place, uint32_t steps);

/* The queries that a place works on, and all its keys. */
struct block circle_queries(const struct circle *circle, uint32_t place);
struct block circle_keys(const struct circle *circle, uint32_t place);

/* Blocks that the shard of a place travels in (at most schedule.kv_block rows each): their number, and the j-th; a
 * block beyond the last has count 0. */
uint32_t circle_blocks(const struct circle *circle, uint32_t place);
struct block circle_block(const struct circle *circle, uint32_t place, uint32_t j);
/* The largest number of blocks of any shard, and the most rows that a block has. */
uint32_t circle_blocks_max(const struct circle *circle);
uint64_t circle_block_rows_max(const struct circle *circle);

/* Whether `queries` have anything to compute with `keys`: they see some of them, or invisible blocks are computed too.
 * Also of BLOCK_ALL. */
bool circle_attends(const struct circle *circle, struct block queries, struct block keys);
/* The same, and narrows both blocks (keys not of BLOCK_ALL) to the rows that see each other, unless the pair is
 * computed without being visible. Every rank that asks gets the same answer: how the two ends of a message know what it
 * carries. */
bool circle_cut(const struct circle *circle, struct block *queries, struct block *keys);
/* circle_attends for all queries of a place. */
bool circle_computes(const struct circle *circle, uint32_t place, struct block keys);
/* Whether `keys` must reach a place at all under schedule.skip. */
bool circle_needs(const struct circle *circle, uint32_t place, struct block keys);

#endif
