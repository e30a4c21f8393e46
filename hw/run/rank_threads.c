/* rank_threads.c - see rank_threads.h. */
#include "hw/run/rank_threads.h"

#include <pthread.h>
#include <stdlib.h>

#include "models/base/memory.h"

struct rank_thread {
    bool (*work)(void *context, uint32_t end);
    void *context;
    uint32_t end;
    pthread_t thread;
    bool started, good;
};

static void *run(void *context)
{
    struct rank_thread *thread = context;
    thread->good = thread->work(thread->context, thread->end);
    return NULL;
}

bool rank_threads_run(const struct transport_ops *transport, struct transport **ends, uint32_t n_ends,
                      bool (*work)(void *context, uint32_t end), void *context)
{
    struct rank_thread *threads = memory_zeroed(n_ends, sizeof *threads);
    bool good = true;
    for (uint32_t e = 0; e < n_ends; e++)
        threads[e] = (struct rank_thread){.work = work, .context = context, .end = e};
    for (uint32_t e = 1; e < n_ends && good; e++) {
        threads[e].started = good = pthread_create(&threads[e].thread, NULL, run, &threads[e]) == 0;
        if (!good)
            transport->fail(ends[e], "no more threads can be started: one is needed for each rank");
    }
    run(&threads[0]);
    good = threads[0].good && good;
    for (uint32_t e = 1; e < n_ends; e++) {
        if (threads[e].started)
            pthread_join(threads[e].thread, NULL);
        good = threads[e].started && threads[e].good && good;
    }
    free(threads);
    return good;
}
