/* worker_pool.h - independent tasks, each in a forked process of its own, so many at a time: all results at the end. */
#ifndef CPSIM_CLI_WORKER_POOL_H
#define CPSIM_CLI_WORKER_POOL_H

#include "cli/workers.h"

struct worker_pool {
    size_t n_tasks;
    uint32_t jobs; /* processes at a time */
    /* In the child: does the task and writes its result. */
    void (*work)(void *context, size_t task, FILE *stream);
    void *context;
    void (*progress)(void *context, double share); /* NULL: not called */
    void *progress_context;
};

/* Runs all tasks and fills `results`, one each. Returns 0, or SIGINT, SIGTERM or SIGHUP when that signal ended it: all
 * children are then gone, and results that had come are there (worker_result_is_there). */
int worker_pool_run(const struct worker_pool *pool, struct worker_result *results);

#endif
