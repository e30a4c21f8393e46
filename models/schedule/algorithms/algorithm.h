/* algorithm.h - the interface of a context-parallel algorithm, and the list of all.
 *
 * An algorithm builds programs and knows nothing else: no engine, no cost, no hardware. One file each; registered in
 * algorithm.c.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_ALGORITHM_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_ALGORITHM_H

#include "models/schedule/schedule.h"

/* Keys of [schedule] that some algorithms have no use for. */
enum algorithm_key {
    USES_BUFFERS = 1 << 0,            /* schedule.buffers */
    USES_KV_BLOCK = 1 << 1,           /* schedule.kv_block */
    USES_SKIP_TRANSFER = 1 << 2,      /* schedule.skip = transfer */
    USES_SPLIT_KV = 1 << 3,           /* schedule.kv_messages */
    USES_COLLECTIVE = 1 << 4,         /* schedule.collective */
    USES_GRADIENTS = 1 << 5,          /* schedule.gradients */
    USES_OVERLAP = 1 << 6,            /* schedule.overlap */
    USES_BUFFERS_IF_BLOCKED = 1 << 7, /* schedule.buffers, when schedule.kv_block cuts shards into rounds */
};

struct algorithm_ops {
    const char *name;       /* schedule.algorithm */
    const char *summary;    /* one line for --list */
    const char *constraint; /* what it needs, for --list; NULL: nothing in particular */
    unsigned uses;          /* enum algorithm_key bits */
    /* Adds a message for each demand that the experiment does not meet; NULL: it has none. */
    bool (*check)(const struct schedule *schedule, struct diagnostics *diag);
    /* Computes once per schedule what every rank's build looks up in schedule->algorithm_data; one block of memory,
     * freed with free(). NULL: nothing. */
    void *(*prepare)(const struct schedule *schedule);
    /* Appends the operations of both phases (backward only when training) to an empty program. */
    void (*build)(const struct schedule *schedule, struct program *program);
};

extern const struct algorithm_ops algorithm_ring, algorithm_all_gather, algorithm_direct;

/* NULL-terminated, in the order in which they are listed. */
extern const struct algorithm_ops *const algorithms[];

const struct algorithm_ops *algorithm_find(const char *name);

/* Reports that there is no algorithm of the experiment's name, with the list of those there are. Returns false. */
bool algorithm_report_unknown(const struct experiment *experiment, struct diagnostics *diag);

/* The keys that the schedule's algorithm looks at in this experiment: enum algorithm_key bits. */
unsigned algorithm_uses(const struct schedule *schedule);

#endif
