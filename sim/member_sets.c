/* member_sets.c - sets by a pattern and the indices of its ranks' group that it depends on. */
#include "sim/member_sets.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

/* Of a level, its instances that have members. */
struct member_blocks {
    uint32_t *blocks; /* ascending: seating.within */
    uint32_t *joined; /* members there */
    uint32_t count;
};

struct member_set {
    uint32_t count, span;
    struct member_blocks levels[LEVELS_MAX]; /* none without seating.within */
};

uint32_t seating_level(const struct seating *seating, uint32_t a, uint32_t b)
{
    uint32_t level = 0;
    if (!seating->within[0])
        return topology_level_between(seating->topology, seating->gpus[a], seating->gpus[b]);
    while (seating->within[level][a] != seating->within[level][b])
        level++;
    return level;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

void member_sets_init(struct member_sets *sets, const struct seating *seating, const struct member_patterns *patterns)
{
    *sets = (struct member_sets){.seating = seating, .patterns = patterns};
    numbering_init(&sets->keys, 4);
}

void member_sets_fini(struct member_sets *sets)
{
    for (uint32_t s = 0; s < sets->n_sets; s++) {
        for (uint32_t k = 0; k < LEVELS_MAX; k++) {
            free(sets->sets[s].levels[k].blocks);
            free(sets->sets[s].levels[k].joined);
        }
    }
    free(sets->sets);
    numbering_fini(&sets->keys);
}

/* Counts the members of each instance of a level; `blocks` has one for each member, and is sorted. */
static struct member_blocks count_blocks(uint32_t *blocks, uint32_t count)
{
    struct member_blocks level = {memory_zeroed(count, sizeof *level.blocks),
                                  memory_zeroed(count, sizeof *level.joined), 0};
    qsort(blocks, count, sizeof *blocks, compare_numbers);
    for (uint32_t i = 0; i < count; i++) {
        if (level.count == 0 || level.blocks[level.count - 1] != blocks[i])
            level.blocks[level.count++] = blocks[i];
        level.joined[level.count - 1]++;
    }
    level.blocks = memory_resized(level.blocks, level.count, sizeof *level.blocks);
    level.joined = memory_resized(level.joined, level.count, sizeof *level.joined);
    return level;
}

/* Levels nest, so the lowest GPU and the highest are as far apart as any two. */
static struct member_set look_at(const struct seating *seating, const struct member_pattern *pattern,
                                 struct place_walk walk)
{
    struct member_set set = {.count = pattern->count};
    uint32_t *places = memory_zeroed(set.count, sizeof *places), *blocks = memory_zeroed(set.count, sizeof *blocks);
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (uint32_t i = 0; i < set.count; i++) {
        places[i] = place_walk_to(&walk, pattern->numbers[i]);
        uint64_t gpu = seating->gpus[places[i]];
        lowest = gpu < lowest ? gpu : lowest;
        highest = gpu > highest ? gpu : highest;
    }
    set.span = topology_level_between(seating->topology, lowest, highest);
    for (uint32_t k = 0; k < LEVELS_MAX && seating->within[k]; k++) {
        for (uint32_t i = 0; i < set.count; i++)
            blocks[i] = seating->within[k][places[i]];
        set.levels[k] = count_blocks(blocks, set.count);
    }
    free(places);
    free(blocks);
    return set;
}

static const struct member_set *find_set(struct member_sets *sets, uint32_t index, const struct instance *self)
{
    const struct layout *layout = &sets->seating->whole->layout;
    const struct member_pattern *pattern = &sets->patterns->items[index];
    uint64_t key[] = {index, pattern->round_cp ? 0 : self->turn, pattern->round_tp ? 0 : self->group % layout->tp,
                      pattern->round_dp ? 0 : self->group / layout->tp};
    uint32_t number = numbering_of(&sets->keys, key);
    if (number == sets->n_sets) {
        memory_grow(sets->sets, sets->n_sets, sets->set_capacity);
        sets->sets[sets->n_sets++] = look_at(sets->seating, pattern, place_walk_of(layout, self->group, self->turn));
    }
    return &sets->sets[number];
}

static uint32_t joined_at(const struct member_blocks *level, uint32_t block)
{
    const uint32_t *found = bsearch(&block, level->blocks, level->count, sizeof block, compare_numbers);
    return found ? level->joined[found - level->blocks] : 0;
}

/* Where levels do not nest, each rank has its own view of each member. */
static void look_from(const struct member_sets *sets, const struct member_pattern *pattern, const struct instance *self,
                      uint32_t place, uint32_t joined[LEVELS_MAX])
{
    struct place_walk walk = place_walk_of(&sets->seating->whole->layout, self->group, self->turn);
    memset(joined, 0, LEVELS_MAX * sizeof *joined);
    for (uint32_t i = 0; i < pattern->count; i++)
        joined[seating_level(sets->seating, place, place_walk_to(&walk, pattern->numbers[i]))]++;
    for (uint32_t k = 1; k < LEVELS_MAX; k++)
        joined[k] += joined[k - 1];
}

struct communicator_size member_sets_look(struct member_sets *sets, uint32_t pattern, const struct instance *self,
                                          uint32_t joined[LEVELS_MAX])
{
    const struct seating *seating = sets->seating;
    const struct member_set *set = find_set(sets, pattern, self);
    uint32_t place = self->group * seating->whole->ranks + self->rank;
    if (!seating->within[0])
        look_from(sets, &sets->patterns->items[pattern], self, place, joined);
    for (uint32_t k = 0; k < LEVELS_MAX && seating->within[k]; k++)
        joined[k] = joined_at(&set->levels[k], seating->within[k][place]);
    return (struct communicator_size){set->count, set->span};
}
