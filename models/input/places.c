/* places.c - runs of taken places, made from the outermost level inwards. */
#include "models/input/places.h"

#include <stdlib.h>

#include "models/base/memory.h"
#include "models/input/topology.h"

/* So many instances of a level, one after the other by place. */
struct span {
    uint64_t first, count;
};

struct spans {
    struct span *items;
    size_t count, capacity;
};

static void add_span(struct spans *spans, uint64_t first, uint64_t count)
{
    struct span *last = spans->count ? &spans->items[spans->count - 1] : NULL;
    if (last && last->first + last->count == first) {
        last->count += count;
        return;
    }
    memory_grow(spans->items, spans->count, spans->capacity);
    spans->items[spans->count++] = (struct span){first, count};
}

static uint64_t total(const struct spans *spans)
{
    uint64_t count = 0;
    for (size_t i = 0; i < spans->count; i++)
        count += spans->items[i].count;
    return count;
}

/* The members of `instances` (of the level), which are instances of the level inside it. */
static void members_of(const struct level *level, const struct spans *instances, struct spans *members)
{
    size_t run = 0;
    uint64_t left = level->sizes ? level->sizes[0].count : 0; /* of the run */
    for (size_t i = 0; i < instances->count; i++) {
        struct span span = instances->items[i];
        while (span.count > 0) {
            uint64_t size = level->sizes ? level->sizes[run].size : level->size, n = span.count;
            if (level->sizes && left < n)
                n = left;
            if (size == level->size)
                add_span(members, span.first * size, n * size);
            for (uint64_t k = 0; size < level->size && k < n; k++)
                add_span(members, (span.first + k) * level->size, size);
            span.first += n;
            span.count -= n;
            left -= level->sizes ? n : 0;
            if (level->sizes && left == 0 && ++run < level->n_sizes)
                left = level->sizes[run].count;
        }
    }
}

static uint64_t instances_said(const struct level *level)
{
    uint64_t count = 0;
    for (size_t i = 0; i < level->n_sizes; i++)
        count += level->sizes[i].count;
    return count;
}

bool places_init(struct places *places, const struct topology *topology, uint32_t *level, uint64_t *instances)
{
    bool all = true;
    for (uint32_t k = 0; k < topology->n_levels; k++)
        all = all && !topology->levels[k].sizes;
    *places = (struct places){0};
    if (all)
        return true;
    struct spans spans = {0};
    add_span(&spans, 0, 1);
    for (uint32_t k = topology->n_levels; k-- > 0;) {
        struct spans members = {0};
        uint64_t there = total(&spans);
        bool good = !topology->levels[k].sizes || instances_said(&topology->levels[k]) == there;
        if (good)
            members_of(&topology->levels[k], &spans, &members);
        free(spans.items);
        spans = members;
        if (!good) {
            *level = k;
            *instances = there;
            return false;
        }
    }
    for (size_t i = 0; i < spans.count; i++) {
        memory_grow(places->runs, places->n_runs, places->capacity);
        places->runs[places->n_runs++] = (struct place_run){places->n_gpus, spans.items[i].first, spans.items[i].count};
        places->n_gpus += spans.items[i].count;
    }
    free(spans.items);
    return true;
}

void places_fini(struct places *places)
{
    free(places->runs);
    *places = (struct places){0};
}

uint64_t places_of_gpu(const struct places *places, uint64_t gpu)
{
    if (places->n_runs == 0)
        return gpu;
    size_t low = 0, high = places->n_runs - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (places->runs[middle].gpu <= gpu)
            low = middle;
        else
            high = middle - 1;
    }
    return places->runs[low].place + (gpu - places->runs[low].gpu);
}

bool places_gpu(const struct places *places, uint64_t place, uint64_t *gpu)
{
    *gpu = place;
    if (places->n_runs == 0)
        return true;
    size_t low = 0, high = places->n_runs - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (places->runs[middle].place <= place)
            low = middle;
        else
            high = middle - 1;
    }
    const struct place_run *run = &places->runs[low];
    *gpu = run->gpu + (place - run->place);
    return place >= run->place && place - run->place < run->count;
}

uint64_t topology_node(const struct topology *topology, uint64_t gpu)
{
    return topology->graph ? 0 : places_of_gpu(&topology->places, gpu) / topology->levels[0].size;
}

uint64_t topology_lane(const struct topology *topology, uint64_t gpu)
{
    return topology->graph ? gpu : places_of_gpu(&topology->places, gpu) % topology->levels[0].size;
}
