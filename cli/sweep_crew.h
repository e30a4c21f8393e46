/* sweep_crew.h - who does the points of a sweep: workers of this process, and under a launcher those of every process.
 *
 * The first process hands points out as others are done, a few at a time. It asks its owner for the next one and gives
 * every result back in the order in which they come. Each process does points in workers of its own (workers.h), so the
 * death of a worker is made good within its process. A process that has been silent for some seconds counts as lost,
 * and what it was given goes to others; its launcher permitting (Open MPI: mpirun --enable-recovery, else it ends all
 * of them).
 */
#ifndef CPSIM_CLI_SWEEP_CREW_H
#define CPSIM_CLI_SWEEP_CREW_H

#include "cli/workers.h"
#include "hw/processes.h"

struct sweep_crew_settings {
    struct workers_settings workers; /* without `take` and `taker` */
    struct processes *processes;     /* NULL: this process alone */
    const char *question;            /* the same in every process */
};

/* In the first process. */
struct sweep_crew_owner {
    bool (*next)(void *owner, size_t *task); /* false: none for now, or none any more */
    /* As of workers_settings. */
    void (*take)(void *owner, size_t task, struct worker_result *result);
    bool (*goes_on)(void *owner); /* called before each wait; false: it has all it wants */
    void *owner;
};

struct sweep_crew;

struct sweep_crew *sweep_crew_create(const struct sweep_crew_settings *settings);
/* As long as the owner goes on: 0. SIGINT, SIGTERM or SIGHUP when that has ended it, CREW_REFUSED when another
 * process was asked something else. Call it as often as there is something to do. */
#define CREW_REFUSED (-1)
int sweep_crew_run(struct sweep_crew *crew, const struct sweep_crew_owner *owner);
/* What the other processes had to say: lost ones, those that were asked another question. */
const struct diagnostics *sweep_crew_notes(const struct sweep_crew *crew);
/* Whether a process has been lost: it will not come to processes_close() either. */
bool sweep_crew_lost_any(const struct sweep_crew *crew);
/* Sends all home and ends the workers here. */
void sweep_crew_destroy(struct sweep_crew *crew);

/* In any other process: does what the first one hands out until that sends it home, or a signal ends it. Then
 * closes `processes`. False when the first one has fallen silent. */
bool sweep_crew_help(const struct sweep_crew_settings *settings);

#endif
