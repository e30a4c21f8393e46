/* worker_process.c - see worker_process.h. */
#include "cli/worker_process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_SECONDS 0.005 /* of a result, for others to go with it */
#define WAIT_BYTES (1 << 16)
#define TASKS_MAX 64 /* taken in at a time */

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool send_all(int fd, const void *bytes, size_t size)
{
    for (const char *at = bytes; size > 0;) {
        ssize_t length = send(fd, at, size, MSG_NOSIGNAL);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return false;
        at += length;
        size -= (size_t)length;
    }
    return true;
}

/* If that fails, its socket ends: its parent sees to the tasks. */
void worker_process_tell(int fd, const uint64_t *tasks, size_t count)
{
    send_all(fd, tasks, count * sizeof *tasks);
}

/* Results that wait to go out. */
struct outbox {
    int fd;
    FILE *stream; /* to the others; NULL: nothing waits */
    char *text;
    size_t size;
    double since; /* the first was done */
};

static bool outbox_send(struct outbox *outbox)
{
    if (!outbox->stream)
        return true;
    bool fine = fclose(outbox->stream) == 0 && send_all(outbox->fd, outbox->text, outbox->size);
    free(outbox->text);
    *outbox = (struct outbox){.fd = outbox->fd};
    return fine;
}

/* Does the task; its result is put to those that wait. */
static bool do_task(const struct workers_settings *settings, size_t task, struct outbox *outbox)
{
    const struct result_header blank = {0};
    double begin = now_seconds();
    bool first = !outbox->stream;
    if (first && !(outbox->stream = open_memstream(&outbox->text, &outbox->size)))
        return false;
    if (fflush(outbox->stream) != 0)
        return false;
    size_t at = outbox->size; /* of the header, for which there is room before it is known */
    fwrite(&blank, sizeof blank, 1, outbox->stream);
    settings->work(settings->context, task, outbox->stream);
    if (fflush(outbox->stream) != 0)
        return false;
    double end = now_seconds();
    const struct result_header header = {task, outbox->size - at - sizeof header, end - begin};
    memcpy(outbox->text + at, &header, sizeof header);
    outbox->since = first ? end : outbox->since;
    return (end - outbox->since < WAIT_SECONDS && end - begin < WAIT_SECONDS && outbox->size < WAIT_BYTES) ||
           outbox_send(outbox);
}

/* Takes in as many tasks as have come; waits for one only when no result does. Returns their number, 0: there are no
 * more. */
static size_t next_tasks(struct outbox *outbox, uint64_t tasks[TASKS_MAX])
{
    size_t size = 0;
    while (size == 0 || size % sizeof *tasks != 0) {
        bool may_wait = !outbox->stream || size > 0;
        ssize_t length =
            recv(outbox->fd, (char *)tasks + size, TASKS_MAX * sizeof *tasks - size, may_wait ? 0 : MSG_DONTWAIT);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && !may_wait && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!outbox_send(outbox))
                return 0;
            continue;
        }
        if (length <= 0)
            return 0;
        size += (size_t)length;
    }
    return size / sizeof *tasks;
}

bool worker_process_run(const struct workers_settings *settings, int fd, volatile uint64_t *begun)
{
    struct outbox outbox = {.fd = fd};
    uint64_t tasks[TASKS_MAX];
    for (size_t n; (n = next_tasks(&outbox, tasks)) > 0;) {
        for (size_t i = 0; i < n; i++) {
            ++*begun;
            if (!do_task(settings, (size_t)tasks[i], &outbox))
                return false;
            if (settings->once)
                return outbox_send(&outbox);
        }
    }
    return outbox_send(&outbox);
}
