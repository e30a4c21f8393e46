/* input_cache.c - a few readings of each kind; the one that was made first gives way. */
#include "cli/input_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "models/base/memory.h"
#include "models/schedule/schedule.h"

#define READINGS_MAX 128
#define TOPOLOGIES_MAX 1024 /* grids go over these for each experiment */
#define SCHEDULES_MAX 4

struct reading {
    char *key;
    void *reading;
    UT_hash_handle hh;
};

/* Of one kind of file: `size` bytes each, made and freed in turn. */
struct shelf {
    size_t size, places;
    void (*fini)(void *reading);
    struct reading *readings; /* by their keys, in the order in which they were made */
};

#define PATHS_MAX 4

struct found_path {
    char *folder, *name, *path;
};

struct input_cache {
    struct shelf experiments, topologies, devices, schedules;
    struct found_path paths[PATHS_MAX];
    size_t n_paths;
    struct kernel_memo kernels;
};

struct kernel_memo *input_cache_kernels(struct input_cache *cache)
{
    return &cache->kernels;
}

static void fini_experiment(void *reading)
{
    experiment_fini(reading);
}

static void fini_topology(void *reading)
{
    topology_fini(reading);
}

static void fini_device(void *reading)
{
    device_fini(reading);
}

static void fini_schedule(void *reading)
{
    struct kept_schedule *schedule = reading;
    plan_memo_destroy(schedule->memo);
    shape_facts_destroy(schedule->facts, schedule->ensemble.n_shapes);
    ensemble_fini(&schedule->ensemble);
    schedule_free_first(schedule->programs, schedule->n_programs);
}

static struct shelf new_shelf(size_t size, size_t places, void (*fini)(void *reading))
{
    return (struct shelf){.size = size, .places = places, .fini = fini};
}

struct input_cache *input_cache_create(void)
{
    struct input_cache *cache = memory_zeroed(1, sizeof *cache);
    cache->experiments = new_shelf(sizeof(struct experiment), READINGS_MAX, fini_experiment);
    cache->topologies = new_shelf(sizeof(struct topology), TOPOLOGIES_MAX, fini_topology);
    cache->devices = new_shelf(sizeof(struct device), READINGS_MAX, fini_device);
    cache->schedules = new_shelf(sizeof(struct kept_schedule), SCHEDULES_MAX, fini_schedule);
    return cache;
}

const char *input_cache_find_path(const struct input_cache *cache, const char *folder, const char *name)
{
    for (size_t i = 0; i < cache->n_paths; i++)
        if (strcmp(cache->paths[i].folder, folder) == 0 && strcmp(cache->paths[i].name, name) == 0)
            return cache->paths[i].path;
    return NULL;
}

void input_cache_keep_path(struct input_cache *cache, const char *folder, const char *name, const char *path)
{
    if (cache->n_paths < PATHS_MAX)
        cache->paths[cache->n_paths++] = (struct found_path){memory_text(folder), memory_text(name), memory_text(path)};
}

char *input_cache_key(const char *path, const char *const *overrides, size_t n_overrides)
{
    size_t size = strlen(path) + 1;
    for (size_t i = 0; i < n_overrides; i++)
        size += strlen(overrides[i]) + 1;
    char *key = memory_zeroed(size, 1), *end = stpcpy(key, path);
    for (size_t i = 0; i < n_overrides; i++) {
        *end++ = '\n'; /* which no value contains that a file could have */
        end = stpcpy(end, overrides[i]);
    }
    return key;
}

static bool find(const struct shelf *shelf, const char *key, void *reading)
{
    struct reading *found;
    HASH_FIND_STR(shelf->readings, key, found);
    if (found)
        memcpy(reading, found->reading, shelf->size);
    return found;
}

static void drop_first(struct shelf *shelf)
{
    struct reading *first = shelf->readings;
    HASH_DEL(shelf->readings, first);
    shelf->fini(first->reading);
    free(first->reading);
    free(first->key);
    free(first);
}

static void keep(struct shelf *shelf, const char *key, const void *reading)
{
    struct reading *kept = memory_zeroed(1, sizeof *kept);
    if (HASH_COUNT(shelf->readings) == shelf->places)
        drop_first(shelf);
    kept->key = memory_text(key);
    kept->reading = memory_zeroed(1, shelf->size);
    memcpy(kept->reading, reading, shelf->size);
    HASH_ADD_KEYPTR(hh, shelf->readings, kept->key, strlen(kept->key), kept);
}

bool input_cache_find_experiment(const struct input_cache *cache, const char *key, struct experiment *experiment)
{
    return find(&cache->experiments, key, experiment);
}

bool input_cache_find_topology(const struct input_cache *cache, const char *key, struct topology *topology)
{
    return find(&cache->topologies, key, topology);
}

bool input_cache_find_device(const struct input_cache *cache, const char *key, struct device *device)
{
    return find(&cache->devices, key, device);
}

void input_cache_keep_experiment(struct input_cache *cache, const char *key, const struct experiment *experiment)
{
    keep(&cache->experiments, key, experiment);
}

void input_cache_keep_topology(struct input_cache *cache, const char *key, const struct topology *topology)
{
    keep(&cache->topologies, key, topology);
}

void input_cache_keep_device(struct input_cache *cache, const char *key, const struct device *device)
{
    keep(&cache->devices, key, device);
}

bool input_cache_find_schedule(const struct input_cache *cache, const char *key, struct kept_schedule *schedule)
{
    return find(&cache->schedules, key, schedule);
}

void input_cache_keep_schedule(struct input_cache *cache, const char *key, const struct kept_schedule *schedule)
{
    keep(&cache->schedules, key, schedule);
}
