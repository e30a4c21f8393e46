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
    USES_BUFFERS = 1 << 0,        /* schedule.buffers */
    USES_KV_BLOCK = 1 << 1,       /* schedule.kv_block */
    USES_SKIP_TRANSFER = 1 << 2,  /* schedule.skip = transfer */
    USES_SPLIT_KV = 1 << 3,       /* schedule.kv_messages */
    USES_COLLECTIVE = 1 << 4,     /* schedule.collective */
    USES_GRADIENTS = 1 << 5,      /* schedule.gradients */
    USES_OVERLAP = 1 << 6,        /* schedule.overlap */
    USES_ULYSSES_DEGREE = 1 << 7, /* schedule.ulysses_degree */
    USES_RING_WINDOW = 1 << 8,    /* schedule.ring_window */
    USES_GATHER_HEADS = 1 << 9,   /* schedule.gather_heads */
    USES_INNER = 1 << 10,         /* schedule.inner */
};

/* Kinds of work. All do a forward pass over the whole sequence. */
enum algorithm_can {
    CAN_TRAIN = 1 << 0,   /* forward and backward */
    CAN_PREFILL = 1 << 1, /* new tokens on a cached prefix */
    CAN_DECODE = 1 << 2,  /* fewer new tokens than ranks: queries dealt out by batch item */
};

/* Whether, where all ranks' blocks are alike, rank r does what rank 0 does, turned by r (schedule_period). */
enum algorithm_turns {
    TURNS_NEVER,
    TURNS_FORWARD, /* in the forward pass alone, and with no hierarchical collective */
    TURNS,
};

struct algorithm_ops {
    const char *name;        /* schedule.algorithm */
    const char *summary;     /* one line for --list */
    const char *constraint;  /* what it needs, to follow that word in --list; NULL: nothing in particular */
    unsigned uses;           /* enum algorithm_key bits */
    unsigned can;            /* enum algorithm_can bits */
    bool replicates_queries; /* every rank has all queries and ends with all outputs */
    bool skips_always;       /* whatever schedule.skip says, it moves and computes only what is seen */
    bool moves_queries;      /* queries and what comes of them travel to all ranks */
    enum algorithm_turns turns;
    /* Why `key`, one of `uses`, changes nothing in this experiment, to follow "with algorithm = <name>": such as "and
     * kv_block = 0". Returns NULL if it changes something. NULL: every one of `uses` always does. */
    const char *(*no_effect)(const struct schedule *schedule, enum algorithm_key key);
    /* Ranks whose shards are joined to one (sharding.h), a divisor of cp if the experiment asks for nothing illegal.
     * NULL: 1. The schedule has no sharding yet. */
    uint32_t (*joined)(const struct schedule *schedule);
    /* Adds a message for each demand that the experiment does not meet; NULL: it has none. */
    bool (*check)(const struct schedule *schedule, struct diagnostics *diag);
    /* Computes once per schedule what every rank's build looks up in schedule->algorithm_data; one block of memory,
     * freed with free(). NULL: nothing. */
    void *(*prepare)(const struct schedule *schedule);
    /* Appends the operations of both phases (backward only when training) to an empty program. */
    void (*build)(const struct schedule *schedule, struct program *program);
};

extern const struct algorithm_ops algorithm_ring, algorithm_all_gather, algorithm_all_gather_heads, algorithm_direct,
    algorithm_ulysses, algorithm_usp, algorithm_double_ring, algorithm_ring_te, algorithm_burst, algorithm_token_ring,
    algorithm_dist_flash, algorithm_pass_q, algorithm_tree_decode;

/* NULL-terminated, in the order in which they are listed. */
extern const struct algorithm_ops *const algorithms[];

const struct algorithm_ops *algorithm_find(const char *name);

/* Reports that there is no algorithm of the experiment's name, with the list of those there are. Returns false. */
bool algorithm_report_unknown(const struct experiment *experiment, struct diagnostics *diag);

/* Why the schedule's algorithm does not look at `key` in this experiment: "" if it never does, else as
 * algorithm_ops.no_effect. NULL: it does. */
const char *algorithm_ignores(const struct schedule *schedule, enum algorithm_key key);

#endif
