/* accesses.h - which rows and lanes of which buffers an operation touches: the one reading of the program form that the
 * checker, the cost model and the hardware mode share.
 *
 * A buffer's rows are the operation's queries or its keys, as its tensor goes. Keys of BLOCK_ALL are one buffer per
 * rank that has such rows, in the order of the ranks. SPLIT_ROWS writes, and JOIN_ROWS reads, one buffer per rank of
 * the block's group that has rows of it, in the order of their numbers in the group, each with that rank's own rows;
 * the other side is the joined block. SPLIT_LANES writes, and JOIN_LANES reads, buffers with some of the lanes each.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ACCESSES_H
#define CPSIM_MODELS_SCHEDULE_ACCESSES_H

#include "models/schedule/program.h"
#include "models/schedule/schedule.h"

struct access {
    uint32_t buffer;
    bool write;
    struct block block; /* owner a rank or a group; count 0 if it should have no rows, which no algorithm does */
    struct lanes lanes; /* the operation's, as far as the buffer holds them */
};

struct access_walk {
    const struct schedule *schedule;
    const struct program *program;
    const struct op *op;
    uint32_t next;
    bool spread;         /* some of its buffers are one per rank, or per member of a group */
    uint32_t turn[2][2]; /* [reads, writes][queries, keys]: ranks, or members, whose turn is over */
};

/* Reads in order, then writes. */
void accesses_begin(struct access_walk *walk, const struct schedule *schedule, const struct program *program,
                    const struct op *op);
bool accesses_next(struct access_walk *walk, struct access *access);

/* The i-th of its reads or writes alone. */
struct access access_of(const struct schedule *schedule, const struct program *program, const struct op *op, bool write,
                        uint32_t i);

/* How many buffers of a tensor an operation of this kind reads or writes: more than one for blocks that are spread.
 * Lanes that are split into slices may be any number: 0. */
uint32_t access_count(const struct schedule *schedule, const struct op *op, bool write, enum tensor tensor);

struct lanes lanes_common(struct lanes a, struct lanes b);

#endif
