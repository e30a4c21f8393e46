/* prediction_files.c - what a cache has, or what is read and then the cache's; without one it is the prediction's own.
 */
#include <stdlib.h>

#include "cli/input_cache.h"
#include "cli/prediction_parts.h"
#include "models/base/memory.h"

/* As question_file, which looks in many places. */
static char *find_file(const struct question *question, const char *folder, const char *name, struct diagnostics *diag)
{
    const char *known = question->cache ? input_cache_find_path(question->cache, folder, name) : NULL;
    if (known)
        return memory_text(known);
    char *path = question_file(folder, name, diag);
    if (path && question->cache)
        input_cache_keep_path(question->cache, folder, name, path);
    return path;
}

static bool read_experiment_file(struct prediction *prediction, const struct question *question,
                                 const struct question_overrides *mine, struct diagnostics *diag)
{
    char *path = find_file(question, "experiments", question->experiment_path, diag);
    bool fine = path && experiment_read(&prediction->experiment, path, mine->items, mine->count, diag);
    free(path);
    return fine;
}

static bool read_experiment(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    struct question_overrides mine = question_overrides(question, &experiment_file);
    char *key = question->cache ? input_cache_key(question->experiment_path, mine.items, mine.count) : NULL;
    bool known = key && input_cache_find_experiment(question->cache, key, &prediction->experiment);
    bool fine = known || read_experiment_file(prediction, question, &mine, diag);
    if (fine && !known && key)
        input_cache_keep_experiment(question->cache, key, &prediction->experiment);
    else if (fine && !known)
        prediction->made |= MADE_EXPERIMENT;
    if (fine && question->layers)
        prediction->experiment.model.layers = question->layers;
    free(key);
    free(mine.items);
    return fine;
}

static bool read_topology_file(struct prediction *prediction, const struct question *question,
                               const struct question_overrides *mine, struct diagnostics *diag)
{
    char *path = find_file(question, "topologies", question->topology_path, diag);
    bool fine = path && topology_read(&prediction->topology, path, mine->items, mine->count, diag);
    free(path);
    return fine;
}

static bool read_topology(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    struct question_overrides mine = question_overrides(question, &topology_file);
    char *key = question->cache ? input_cache_key(question->topology_path, mine.items, mine.count) : NULL;
    bool known = key && input_cache_find_topology(question->cache, key, &prediction->topology);
    bool fine = known || read_topology_file(prediction, question, &mine, diag);
    if (fine && !known && key)
        input_cache_keep_topology(question->cache, key, &prediction->topology);
    else if (fine && !known)
        prediction->made |= MADE_TOPOLOGY;
    free(key);
    free(mine.items);
    return fine;
}

static bool read_device(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    const char *name = prediction->topology.device;
    if (question->cache && input_cache_find_device(question->cache, name, &prediction->device))
        return true;
    char *path = topology_device_path(&prediction->topology, diag);
    bool fine = path && device_read(&prediction->device, path, diag);
    free(path);
    if (fine && question->cache)
        input_cache_keep_device(question->cache, name, &prediction->device);
    else if (fine)
        prediction->made |= MADE_DEVICE;
    return fine;
}

bool prediction_read_files(struct prediction *prediction, const struct question *question, struct diagnostics *diag)
{
    bool fine = question_check_overrides(question, diag);
    fine &= read_experiment(prediction, question, diag);
    if (question->topology_path) {
        bool topology_fine = read_topology(prediction, question, diag);
        fine &= topology_fine && read_device(prediction, question, diag);
    }
    return fine;
}
