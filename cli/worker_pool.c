/* worker_pool.c - fork, a pipe back, poll.
 *
 * The parent only waits: for bytes from a child, for the end of a pipe (then the child is waited for and the next task
 * starts), or for SIGINT and SIGTERM, which it takes through a descriptor, so that no signal handler and no global
 * state is needed. A child whose parent dies is killed.
 */
#include "cli/worker_pool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "models/base/memory.h"

struct worker {
    pid_t pid;
    int fd; /* reading end */
    size_t task;
};

struct run {
    const struct worker_pool *pool;
    struct worker_result *results;
    struct worker *workers; /* `running` of them */
    size_t running, next_task, finished;
    sigset_t signals_before;
};

static _Noreturn void be_child(const struct run *run, size_t task, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, &run->signals_before, NULL);
    FILE *stream = fdopen(fd, "w");
    if (!stream)
        _exit(1);
    run->pool->work(run->pool->context, task, stream);
    _exit(fclose(stream) == 0 ? 0 : 1); /* not exit(): what the parent has buffered is the parent's to write */
}

/* False when the system has no process or pipe left. */
static bool start_worker(struct run *run)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    pid_t pid = fork();
    if (pid < 0) {
        int why = errno;
        close(ends[0]);
        close(ends[1]);
        errno = why;
        return false;
    }
    if (pid == 0) {
        close(ends[0]);
        be_child(run, run->next_task, ends[1]);
    }
    close(ends[1]);
    run->workers[run->running++] = (struct worker){pid, ends[0], run->next_task++};
    return true;
}

/* Keeps `jobs` workers busy. With none running, a task that cannot start is given up: waiting would not help. */
static void start_workers(struct run *run)
{
    while (run->next_task < run->pool->n_tasks && run->running < run->pool->jobs) {
        if (start_worker(run))
            continue;
        if (run->running > 0)
            return;
        run->results[run->next_task].wait_status = -1;
        run->results[run->next_task++].start_errno = errno;
        run->finished++;
    }
}

static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void end_worker(struct run *run, size_t index)
{
    struct worker worker = run->workers[index];
    close(worker.fd);
    run->results[worker.task].wait_status = wait_for(worker.pid);
    run->workers[index] = run->workers[--run->running];
    run->finished++;
    if (run->pool->progress)
        run->pool->progress(run->pool->progress_context, (double)run->finished / (double)run->pool->n_tasks);
}

static void read_worker(struct run *run, size_t index)
{
    char chunk[65536];
    ssize_t length = read(run->workers[index].fd, chunk, sizeof chunk);
    if (length < 0 && errno == EINTR)
        return;
    if (length <= 0) {
        end_worker(run, index);
        return;
    }
    struct worker_result *result = &run->results[run->workers[index].task];
    result->text = memory_resized(result->text, result->size + (size_t)length, 1);
    memcpy(result->text + result->size, chunk, (size_t)length);
    result->size += (size_t)length;
}

static void kill_workers(struct run *run)
{
    for (size_t i = 0; i < run->running; i++)
        kill(run->workers[i].pid, SIGKILL);
    while (run->running > 0)
        end_worker(run, run->running - 1);
}

/* Waits for the next thing to happen; returns the number of a signal that ends the run, or 0. */
static int wait_and_read(struct run *run, int signal_fd, struct pollfd *polled)
{
    polled[0] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    for (size_t i = 0; i < run->running; i++)
        polled[i + 1] = (struct pollfd){.fd = run->workers[i].fd, .events = POLLIN};
    if (poll(polled, (nfds_t)run->running + 1, -1) < 0)
        return 0;
    struct signalfd_siginfo info;
    if ((polled[0].revents & POLLIN) && read(signal_fd, &info, sizeof info) == sizeof info)
        return (int)info.ssi_signo;
    for (size_t i = run->running; i-- > 0;) /* downwards: ending one moves the last into its place */
        if (polled[i + 1].revents)
            read_worker(run, i);
    return 0;
}

int worker_pool_run(const struct worker_pool *pool, struct worker_result *results)
{
    memset(results, 0, pool->n_tasks * sizeof *results);
    struct run run = {.pool = pool, .results = results, .workers = memory_zeroed(pool->jobs, sizeof *run.workers)};
    struct pollfd *polled = memory_zeroed((size_t)pool->jobs + 1, sizeof *polled);
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigprocmask(SIG_BLOCK, &ending, &run.signals_before);
    int signal_fd = signalfd(-1, &ending, SFD_CLOEXEC);
    fflush(NULL); /* or every child would write what is buffered once more */
    int signal_number = 0;
    while (run.finished < pool->n_tasks && signal_number == 0) {
        start_workers(&run);
        if (run.running > 0)
            signal_number = wait_and_read(&run, signal_fd, polled);
    }
    kill_workers(&run);
    if (signal_fd >= 0)
        close(signal_fd);
    sigprocmask(SIG_SETMASK, &run.signals_before, NULL);
    free(polled);
    free(run.workers);
    return signal_number;
}
