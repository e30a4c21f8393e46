/* workers.c - fork, a socket to each process (worker_process.h), poll.
 *
 * A worker is given a few tasks in advance, as many as it does in a moment, so that short ones do not wait for this
 * process and long ones are not kept from a worker that has nothing to do. Where tasks are of kinds some more wait to
 * be chosen from. Results of one worker come in the order of its tasks.
 *
 * The parent only waits: for bytes from a worker, for the end of its socket, or for SIGINT, SIGTERM and SIGHUP (a
 * terminal that is closed), which it takes through a descriptor, so that no signal handler and no global state is
 * needed. A worker whose parent dies is killed.
 */
#include "cli/workers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/worker_process.h"
#include "models/base/memory.h"

#define MOMENT_SECONDS 0.02
#define HELD_MAX 64
#define CHOICE_MOMENTS 10 /* that what waits to be chosen from takes at most; where a choice is wanted */
#define DEATHS_MAX 2      /* of workers at one task */
#define READ_BYTES (1 << 18)

struct task {
    size_t number, kind;
    unsigned deaths;
};

struct worker {
    pid_t pid;
    int fd;
    struct task held[HELD_MAX]; /* whose results have not come */
    size_t n_told;              /* so many of the first of them it has been told */
    volatile uint64_t *begun;   /* tasks, which it counts; in shared memory */
    uint64_t n_come;            /* results */
    size_t n_held, kind;        /* of the last task that it was given */
    bool used;                  /* does not get another task */
    char *bytes;                /* of results that have not come whole */
    size_t n_bytes, capacity;
};

struct workers {
    struct workers_settings settings;
    struct worker *workers; /* `running` of them */
    size_t running;
    struct task *queue; /* a ring: `queued` of `queue_capacity`, from `queue_first` on */
    size_t queued, queue_first, queue_capacity;
    size_t held;         /* by all workers */
    double task_seconds; /* a running mean; below 0: nothing known */
    bool chooses;        /* not all tasks are of one kind */
    struct pollfd *polled;
    int signal_fd;
    sigset_t signals_before;
};

/* Those that end a run. Under nohup a terminal that is closed does not; shells that start something behind them let it
 * ignore SIGINT too, but who sends one to this process means it. */
static void ending_signals(sigset_t *ending)
{
    struct sigaction hangup;
    sigemptyset(ending);
    sigaddset(ending, SIGINT);
    sigaddset(ending, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(ending, SIGHUP);
}

static _Noreturn void be_worker(const struct workers *workers, int fd, volatile uint64_t *begun)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* from a terminal, they reach the parent too, which ends its workers itself */
    signal(SIGHUP, SIG_IGN);
    sigprocmask(SIG_SETMASK, &workers->signals_before, NULL);
    bool fine = worker_process_run(&workers->settings, fd, begun);
    _exit(fine ? 0 : 1); /* not exit(): what the parent has buffered is the parent's to write */
}

/* ---- tasks that wait ---- */

static void queue_push(struct workers *workers, struct task task, bool at_front)
{
    if (workers->queued == workers->queue_capacity) {
        size_t capacity = workers->queue_capacity ? 2 * workers->queue_capacity : 64;
        struct task *longer = memory_zeroed(capacity, sizeof *longer);
        for (size_t i = 0; i < workers->queued; i++)
            longer[i] = workers->queue[(workers->queue_first + i) % workers->queue_capacity];
        free(workers->queue);
        workers->queue = longer;
        workers->queue_capacity = capacity;
        workers->queue_first = 0;
    }
    size_t capacity = workers->queue_capacity;
    if (at_front) {
        workers->queue_first = (workers->queue_first + capacity - 1) % capacity;
        workers->queue[workers->queue_first] = task;
    } else {
        workers->queue[(workers->queue_first + workers->queued) % capacity] = task;
    }
    workers->queued++;
}

static struct task *queue_at(const struct workers *workers, size_t place)
{
    return &workers->queue[(workers->queue_first + place) % workers->queue_capacity];
}

/* Takes the task at `place` out; the others keep their order. */
static struct task queue_take(struct workers *workers, size_t place)
{
    struct task task = *queue_at(workers, place);
    for (; place > 0; place--)
        *queue_at(workers, place) = *queue_at(workers, place - 1);
    workers->queue_first = (workers->queue_first + 1) % workers->queue_capacity;
    workers->queued--;
    return task;
}

/* Tasks that one worker may hold. */
static size_t depth(const struct workers *workers)
{
    if (workers->settings.once || workers->task_seconds < 0)
        return 1;
    double tasks = workers->task_seconds > 0 ? MOMENT_SECONDS / workers->task_seconds : HELD_MAX;
    return tasks < 1 ? 1 : tasks > HELD_MAX ? HELD_MAX : (size_t)tasks;
}

size_t workers_room(const struct workers *workers)
{
    size_t choice = workers->chooses ? CHOICE_MOMENTS : 0;
    size_t most = workers->settings.jobs * depth(workers) * (1 + choice), pending = workers_pending(workers);
    return pending < most ? most - pending : 0;
}

size_t workers_pending(const struct workers *workers)
{
    return workers->queued + workers->held;
}

void workers_add(struct workers *workers, size_t task)
{
    const struct workers_settings *settings = &workers->settings;
    size_t kind = workers->chooses ? settings->kind(settings->context, task) : 0;
    queue_push(workers, (struct task){.number = task, .kind = kind}, false);
}

/* ---- processes ---- */

/* False when the system has no process or socket left. */
static bool start_worker(struct workers *workers)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    uint64_t *begun = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL); /* or the worker could write what is buffered once more */
    pid_t pid = begun == MAP_FAILED ? -1 : fork();
    if (pid < 0) {
        int why = errno;
        if (begun != MAP_FAILED)
            munmap(begun, sizeof *begun);
        close(ends[0]);
        close(ends[1]);
        errno = why;
        return false;
    }
    if (pid == 0) {
        close(ends[0]);
        for (size_t i = 0; i < workers->running; i++)
            close(workers->workers[i].fd);
        be_worker(workers, ends[1], begun);
    }
    close(ends[1]);
    workers->workers[workers->running++] = (struct worker){.pid = pid, .fd = ends[0], .kind = SIZE_MAX, .begun = begun};
    return true;
}

/* The worker that is to get the next task: the one that holds least; NULL if all have enough. */
static struct worker *least_busy(struct workers *workers)
{
    struct worker *least = NULL;
    size_t most = depth(workers);
    for (size_t i = 0; i < workers->running; i++) {
        struct worker *worker = &workers->workers[i];
        if (!worker->used && worker->n_held < most && (!least || worker->n_held < least->n_held))
            least = worker;
    }
    return least;
}

static bool is_others(const struct workers *workers, const struct worker *worker, size_t kind)
{
    for (size_t i = 0; i < workers->running; i++)
        if (&workers->workers[i] != worker && workers->workers[i].kind == kind)
            return true;
    return false;
}

/* Which of the tasks that wait is for the worker: the first of its kind; else of a kind that is nobody's; else of all.
 */
static size_t choose(const struct workers *workers, const struct worker *worker)
{
    size_t nobodys = workers->queued;
    for (size_t i = 0; workers->chooses && i < workers->queued; i++) {
        size_t kind = queue_at(workers, i)->kind;
        if (kind == worker->kind)
            return i;
        if (nobodys == workers->queued && !is_others(workers, worker, kind))
            nobodys = i;
    }
    return nobodys < workers->queued ? nobodys : 0;
}

static void hand_over(struct workers *workers, struct worker *worker)
{
    struct task task = queue_take(workers, choose(workers, worker));
    worker->held[worker->n_held++] = task;
    worker->kind = task.kind;
    worker->used = workers->settings.once;
    workers->held++;
}

/* Tells the workers what they hold that they have not been told. */
static void tell(struct workers *workers)
{
    for (size_t i = 0; i < workers->running; i++) {
        struct worker *worker = &workers->workers[i];
        uint64_t tasks[HELD_MAX];
        size_t count = 0;
        while (worker->n_told < worker->n_held)
            tasks[count++] = worker->held[worker->n_told++].number;
        if (count > 0)
            worker_process_tell(worker->fd, tasks, count);
    }
}

/* With none running, a task that no process can be started for is given up: waiting would not help. */
static void give_up(struct workers *workers, int why)
{
    struct worker_result result = {.wait_status = -1, .start_errno = why};
    workers->settings.take(workers->settings.taker, queue_take(workers, 0).number, &result);
}

static void hand_out(struct workers *workers)
{
    while (workers->queued > 0) {
        struct worker *worker = least_busy(workers);
        if ((!worker || worker->n_held > 0) && workers->running < workers->settings.jobs) {
            if (start_worker(workers))
                worker = &workers->workers[workers->running - 1];
            else if (workers->running == 0) {
                give_up(workers, errno);
                continue;
            }
        }
        if (!worker)
            break;
        hand_over(workers, worker);
    }
    tell(workers);
}

static int wait_for(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* The one of the tasks that a dead worker held that it was at. */
static size_t at_death(const struct worker *worker)
{
    uint64_t ahead = *worker->begun > worker->n_come ? *worker->begun - worker->n_come - 1 : 0;
    return ahead < worker->n_held ? (size_t)ahead : 0;
}

static void forget_worker(const struct worker *worker)
{
    close(worker->fd);
    munmap((void *)worker->begun, sizeof *worker->begun);
    free(worker->bytes);
}

/* The socket has ended, and with it the worker: what it held goes to others. */
static void end_worker(struct workers *workers, size_t index)
{
    struct worker worker = workers->workers[index];
    size_t at = at_death(&worker);
    int status = wait_for(worker.pid);
    forget_worker(&worker);
    workers->workers[index] = workers->workers[--workers->running];
    workers->held -= worker.n_held;
    bool given_up = worker.n_held > 0 && ++worker.held[at].deaths >= DEATHS_MAX;
    for (size_t i = worker.n_held; i-- > 0;)
        if (i != at || !given_up)
            queue_push(workers, worker.held[i], true);
    if (!given_up)
        return;
    struct worker_result result = {.wait_status = status ? status : 1 << 8 /* as of _exit(1) */};
    workers->settings.take(workers->settings.taker, worker.held[at].number, &result);
}

/* ---- results ---- */

static void take_result(struct workers *workers, struct worker *worker, const struct result_header *header,
                        const char *text)
{
    struct worker_result result = {
        .text = memory_zeroed(header->size + 1, 1), .size = (size_t)header->size, .seconds = header->seconds};
    memcpy(result.text, text, result.size);
    double weight = workers->task_seconds < 0 ? 1 : 0.2;
    workers->task_seconds += weight * (header->seconds - workers->task_seconds);
    memmove(worker->held, worker->held + 1, --worker->n_held * sizeof *worker->held);
    worker->n_told--;
    worker->n_come++;
    workers->held--;
    workers->settings.take(workers->settings.taker, (size_t)header->task, &result);
}

/* Takes every result that has come whole. */
static void take_results(struct workers *workers, struct worker *worker)
{
    size_t at = 0;
    struct result_header header;
    while (worker->n_bytes - at >= sizeof header) {
        memcpy(&header, worker->bytes + at, sizeof header);
        if (worker->n_bytes - at - sizeof header < header.size)
            break;
        take_result(workers, worker, &header, worker->bytes + at + sizeof header);
        at += sizeof header + (size_t)header.size;
    }
    worker->n_bytes -= at;
    memmove(worker->bytes, worker->bytes + at, worker->n_bytes);
}

static void read_worker(struct workers *workers, size_t index)
{
    struct worker *worker = &workers->workers[index];
    if (worker->capacity - worker->n_bytes < READ_BYTES) {
        worker->capacity = 2 * worker->capacity + READ_BYTES;
        worker->bytes = memory_resized(worker->bytes, worker->capacity, 1);
    }
    ssize_t length = read(worker->fd, worker->bytes + worker->n_bytes, worker->capacity - worker->n_bytes);
    if (length < 0 && errno == EINTR)
        return;
    if (length <= 0) {
        end_worker(workers, index);
        return;
    }
    worker->n_bytes += (size_t)length;
    take_results(workers, worker);
}

int workers_wait(struct workers *workers, int milliseconds)
{
    hand_out(workers);
    struct pollfd *polled = workers->polled;
    polled[0] = (struct pollfd){.fd = workers->signal_fd, .events = POLLIN};
    for (size_t i = 0; i < workers->running; i++)
        polled[i + 1] = (struct pollfd){.fd = workers->workers[i].fd, .events = POLLIN};
    if (workers->running == 0 && milliseconds < 0)
        milliseconds = 0; /* nothing would come */
    if (poll(polled, (nfds_t)workers->running + 1, milliseconds) < 0)
        return 0;
    struct signalfd_siginfo info;
    if ((polled[0].revents & POLLIN) && read(workers->signal_fd, &info, sizeof info) == sizeof info)
        return (int)info.ssi_signo;
    for (size_t i = workers->running; i-- > 0;) /* downwards: ending one moves the last into its place */
        if (polled[i + 1].revents)
            read_worker(workers, i);
    return 0;
}

/* ---- all of it ---- */

struct workers *workers_create(const struct workers_settings *settings)
{
    struct workers *workers = memory_zeroed(1, sizeof *workers);
    workers->settings = *settings;
    workers->task_seconds = -1;
    workers->chooses = settings->kind && !settings->once && settings->jobs > 1;
    workers->workers = memory_zeroed(settings->jobs, sizeof *workers->workers);
    workers->polled = memory_zeroed((size_t)settings->jobs + 1, sizeof *workers->polled);
    sigset_t ending;
    ending_signals(&ending);
    sigprocmask(SIG_BLOCK, &ending, &workers->signals_before);
    workers->signal_fd = signalfd(-1, &ending, SFD_CLOEXEC);
    return workers;
}

void workers_destroy(struct workers *workers)
{
    for (size_t i = 0; i < workers->running; i++)
        kill(workers->workers[i].pid, SIGKILL);
    for (size_t i = 0; i < workers->running; i++) {
        wait_for(workers->workers[i].pid);
        forget_worker(&workers->workers[i]);
    }
    if (workers->signal_fd >= 0)
        close(workers->signal_fd);
    sigprocmask(SIG_SETMASK, &workers->signals_before, NULL);
    free(workers->queue);
    free(workers->polled);
    free(workers->workers);
    free(workers);
}
