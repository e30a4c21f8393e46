/* input_cache.h - files that were read, kept for the next prediction of this process that reads them the same.
 *
 * Points of a sweep mostly differ in one file's overrides, and reading files takes longer than predicting a few ranks.
 * What is read does not change afterwards, so a prediction may use what another has read: it borrows a copy of the
 * struct, whose pointers lead to what the cache owns. Only files without problems are kept. A file that changes while
 * the cache lives is not read again.
 */
#ifndef CPSIM_CLI_INPUT_CACHE_H
#define CPSIM_CLI_INPUT_CACHE_H

#include "models/cost/kernel_fit.h"
#include "models/input/device.h"
#include "models/input/experiment.h"
#include "models/input/topology.h"
#include "models/result/shape_facts.h"
#include "models/schedule/ensemble.h"
#include "sim/plan_memo.h"

struct input_cache;

/* What follows from the experiment alone, whichever the cluster: programs, proved, and who runs which; and what is
 * found out of them by and by. */
struct kept_schedule {
    struct program *programs;
    uint32_t n_programs;
    bool proved;
    struct ensemble ensemble;
    struct shape_facts *facts;
    struct plan_memo *memo;
};

/* Lives as long as the process. */
struct input_cache *input_cache_create(void);

/* What predictions have found out about kernels (cost.memo). */
struct kernel_memo *input_cache_kernels(struct input_cache *cache);

/* What tells readings of a kind of file apart; the caller frees it. */
char *input_cache_key(const char *path, const char *const *overrides, size_t n_overrides);

/* The path that was found for a name in a folder of shipped files; NULL when none is kept. The cache owns it. */
const char *input_cache_find_path(const struct input_cache *cache, const char *folder, const char *name);
void input_cache_keep_path(struct input_cache *cache, const char *folder, const char *name, const char *path);

/* Fills in what is kept under `key`; false when nothing is. */
bool input_cache_find_experiment(const struct input_cache *cache, const char *key, struct experiment *experiment);
bool input_cache_find_topology(const struct input_cache *cache, const char *key, struct topology *topology);
bool input_cache_find_device(const struct input_cache *cache, const char *key, struct device *device);

/* The same of schedules, of which few are kept: they may be large. */
bool input_cache_find_schedule(const struct input_cache *cache, const char *key, struct kept_schedule *schedule);
void input_cache_keep_schedule(struct input_cache *cache, const char *key, const struct kept_schedule *schedule);

/* Takes over what was read, which its reader may go on using until the next one of its kind is kept. */
void input_cache_keep_experiment(struct input_cache *cache, const char *key, const struct experiment *experiment);
void input_cache_keep_topology(struct input_cache *cache, const char *key, const struct topology *topology);
void input_cache_keep_device(struct input_cache *cache, const char *key, const struct device *device);

#endif
