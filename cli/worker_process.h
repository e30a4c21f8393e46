/* worker_process.h - what a worker of workers.h is while it lives: tasks come in, results go out, over one socket.
 *
 * A task is its number; a result a header and so many bytes. Results that are done in quick succession go out together,
 * and none waits for long: so a worker that dies may take some along, which nobody has then seen. What it was at is
 * known all the same: it counts the tasks that it begins where its parent can see it.
 */
#ifndef CPSIM_CLI_WORKER_PROCESS_H
#define CPSIM_CLI_WORKER_PROCESS_H

#include "cli/workers.h"

struct result_header {
    uint64_t task, size;
    double seconds; /* that the task took */
};

/* Does tasks until there are none, or one. `begun`, in shared memory, is counted up before each. Returns whether all
 * results went out. */
bool worker_process_run(const struct workers_settings *settings, int fd, volatile uint64_t *begun);

/* Sends the numbers of tasks to a worker. */
void worker_process_tell(int fd, const uint64_t *tasks, size_t count);

#endif
