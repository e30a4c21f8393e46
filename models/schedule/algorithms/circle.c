/* circle.c - places are ranks or groups of ranks; which, only the first few functions know. */
#include "models/schedule/algorithms/circle.h"

#include "models/schedule/mask.h"

struct circle circle_of_ranks(const struct schedule *schedule)
{
    return (struct circle){.schedule = schedule, .places = schedule->ranks};
}

struct circle circle_of_groups(const struct schedule *schedule, uint32_t rank)
{
    return (struct circle){.schedule = schedule,
                           .places = sharding_groups(&schedule->sharding),
                           .joined = true,
                           .member = sharding_member_of(&schedule->sharding, rank)};
}

uint32_t circle_rank(const struct circle *circle, uint32_t place)
{
    return circle->joined ? sharding_group_rank(&circle->schedule->sharding, place, circle->member) : place;
}

uint32_t circle_owner(const struct circle *circle, uint32_t place)
{
    return circle->joined ? block_joined(place) : place;
}

uint32_t circle_back(const struct circle *circle, uint32_t place, uint32_t steps)
{
    return (place + circle->places - steps % circle->places) % circle->places;
}

uint32_t circle_ahead(const struct circle *circle, uint32_t place, uint32_t steps)
{
    return (place + steps) % circle->places;
}

struct block circle_queries(const struct circle *circle, uint32_t place)
{
    if (circle->joined)
        return sharding_queries(&circle->schedule->sharding, block_joined(place));
    struct block queries = schedule_queries(circle->schedule, place);
    if (schedule_query_lanes(circle->schedule, place).items == 0)
        queries.count = 0; /* fewer batch items than ranks */
    return queries;
}

struct block circle_keys(const struct circle *circle, uint32_t place)
{
    return sharding_keys(&circle->schedule->sharding, circle_owner(circle, place));
}

/* ---- blocks ---- */

static uint64_t rows_per_block(const struct circle *circle)
{
    uint64_t rows = circle->schedule->experiment->kv_block;
    return rows ? rows : SEQ_LEN_MAX;
}

static uint64_t rows_max(const struct circle *circle)
{
    if (!circle->joined)
        return sharding_rows_max(&circle->schedule->sharding);
    uint64_t most = 0;
    for (uint32_t place = 0; place < circle->places; place++) {
        uint64_t rows = circle_keys(circle, place).count;
        most = rows > most ? rows : most;
    }
    return most;
}

static uint32_t blocks_of(const struct circle *circle, uint64_t rows)
{
    uint64_t per_block = rows_per_block(circle);
    return (uint32_t)(rows / per_block + (rows % per_block != 0));
}

uint32_t circle_blocks(const struct circle *circle, uint32_t place)
{
    return blocks_of(circle, circle_keys(circle, place).count);
}

struct block circle_block(const struct circle *circle, uint32_t place, uint32_t j)
{
    struct block block = circle_keys(circle, place);
    uint64_t first = j * rows_per_block(circle), left = first < block.count ? block.count - first : 0;
    block.count = (uint32_t)(left < rows_per_block(circle) ? left : rows_per_block(circle));
    block.first = block.count ? (uint32_t)first : 0;
    return block;
}

uint32_t circle_blocks_max(const struct circle *circle)
{
    return blocks_of(circle, rows_max(circle));
}

uint64_t circle_block_rows_max(const struct circle *circle)
{
    uint64_t rows = rows_max(circle);
    return rows < rows_per_block(circle) ? rows : rows_per_block(circle);
}

/* ---- who needs what ---- */

static bool sees(const struct circle *circle, struct block queries, struct block keys)
{
    const struct schedule *schedule = circle->schedule;
    return queries.count && keys.count &&
           mask_block_pairs(&schedule->experiment->mask, &schedule->sharding, queries, keys) > 0;
}

bool circle_attends(const struct circle *circle, struct block queries, struct block keys)
{
    if (circle->schedule->experiment->skip == SKIP_NONE)
        return keys.count > 0 && queries.count > 0;
    return sees(circle, queries, keys);
}

bool circle_cut(const struct circle *circle, struct block *queries, struct block *keys)
{
    if (!circle_attends(circle, *queries, *keys))
        return false;
    mask_trim(&circle->schedule->experiment->mask, &circle->schedule->sharding, queries, keys);
    return true;
}

bool circle_computes(const struct circle *circle, uint32_t place, struct block keys)
{
    return circle_attends(circle, circle_queries(circle, place), keys);
}

bool circle_needs(const struct circle *circle, uint32_t place, struct block keys)
{
    return keys.count > 0 &&
           (circle->schedule->experiment->skip != SKIP_TRANSFER || sees(circle, circle_queries(circle, place), keys));
}
