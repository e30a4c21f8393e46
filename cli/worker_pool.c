/* worker_pool.c - workers that do one task each, and an array that their results go to. */
#include "cli/worker_pool.h"

#include <string.h>

struct run {
    const struct worker_pool *pool;
    struct worker_result *results;
    size_t finished;
};

static void take(void *taker, size_t task, struct worker_result *result)
{
    struct run *run = taker;
    run->results[task] = *result;
    run->finished++;
    if (run->pool->progress)
        run->pool->progress(run->pool->progress_context, (double)run->finished / (double)run->pool->n_tasks);
}

int worker_pool_run(const struct worker_pool *pool, struct worker_result *results)
{
    memset(results, 0, pool->n_tasks * sizeof *results);
    struct run run = {.pool = pool, .results = results};
    const struct workers_settings settings = {
        .jobs = pool->jobs,
        .once = true,
        .work = pool->work,
        .context = pool->context,
        .take = take,
        .taker = &run,
    };
    struct workers *workers = workers_create(&settings);
    int signal_number = 0;
    for (size_t next = 0; run.finished < pool->n_tasks && signal_number == 0;) {
        for (size_t room = workers_room(workers); room > 0 && next < pool->n_tasks; room--)
            workers_add(workers, next++);
        signal_number = workers_wait(workers, -1);
    }
    if (signal_number == 0)
        signal_number = workers_wait(workers, 0); /* one that came with the last result must not end this process */
    workers_destroy(workers);
    return signal_number;
}
