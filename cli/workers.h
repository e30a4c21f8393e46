/* workers.h - forked processes of this machine that do numbered tasks: each does one after the other, or only one.
 *
 * The owner adds tasks as long as the workers want more, waits, and gets each task's result through a callback in the
 * order in which they are done. A worker that dies takes nothing along: what it held is given to others. The task that
 * it was at is tried once more; if that ends another worker too, the death is its result.
 *
 * While there are workers, SIGINT, SIGTERM and SIGHUP (unless it is ignored) are taken by workers_wait(), and
 * nobody else needs a handler.
 */
#ifndef CPSIM_CLI_WORKERS_H
#define CPSIM_CLI_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct worker_result {
    char *text; /* what the task wrote; the caller frees it */
    size_t size;
    int wait_status; /* 0, or as of waitpid() if the task has no result; -1: no process could be started, `start_errno`
                        says why */
    int start_errno;
    double seconds; /* that the task took */
};

/* Whether anything has come of the task; else nobody has got to it, or not to its end. */
static inline bool worker_result_is_there(const struct worker_result *result)
{
    return result->text || result->wait_status != 0;
}

struct workers_settings {
    uint32_t jobs; /* processes at a time */
    bool once;     /* a process does one task and ends */
    /* In the worker: does the task and writes its result. */
    void (*work)(void *context, size_t task, FILE *stream);
    void *context;
    /* Tasks of one kind have something in common that a process keeps from one to the next: as long as there is a
     * choice, each is given tasks of the kind that it had before, or of one that no other process is at. NULL: all are
     * of one kind. */
    size_t (*kind)(void *context, size_t task);
    /* Here: a task is done, or has failed for good; owns the result's text. */
    void (*take)(void *taker, size_t task, struct worker_result *result);
    void *taker;
};

struct workers;

struct workers *workers_create(const struct workers_settings *settings);
/* Ends all processes, whatever they are at. */
void workers_destroy(struct workers *workers);

/* How many more tasks would keep all processes busy for a moment, and leave a choice. */
size_t workers_room(const struct workers *workers);
void workers_add(struct workers *workers, size_t task);
/* Tasks that were added and not taken yet. */
size_t workers_pending(const struct workers *workers);

/* Waits for the next thing to happen, at most so many milliseconds (-1: any number); calls `take`. Returns SIGINT,
 * SIGTERM or SIGHUP when that has arrived, else 0. */
int workers_wait(struct workers *workers, int milliseconds);

#endif
