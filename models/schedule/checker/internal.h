/* internal.h - what the parts of the checker share.
 *
 *   form.c     each program by itself: operands, sizes, messages
 *   groups.c   the messages that it posts together
 *   walk.c     what every buffer holds, step by step
 *   results.c  what has come out: every pair attended once and delivered once
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_INTERNAL_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_INTERNAL_H

#include "models/schedule/checker/contents.h"
#include "models/schedule/checker/findings.h"
#include "models/schedule/checker/sums.h"
#include "models/schedule/schedule.h"

struct check {
    const struct schedule *schedule;
    const struct program *programs;
    uint32_t ranks;
    uint64_t *rows; /* of each rank's shard */
    uint64_t rows_max;
    struct findings findings;

    struct contents **contents; /* [rank][2 * buffer + part] */
    struct sums sums;
    /* What each rank's resident O and LSE held when the forward phase ended: the backward pass must use these. */
    struct contents *final_o, *final_lse;
    uint32_t forward_leaves; /* the sums' leaves before this are of the forward phase */
};

static inline enum tensor tensor_of(const struct program *program, uint32_t buffer)
{
    return (enum tensor)program->buffers[buffer].tensor;
}

/* The block that the next of an operation's buffers of `tensor` holds. `owner` is 0 before the first: keys of BLOCK_ALL
 * are in one buffer per owner that has such rows, in their order. */
struct block check_next_block(const struct check *check, const struct op *op, enum tensor tensor, uint32_t *owner);

/* Whether operations only ever name what exists: buffers, ranks, rows, sizes that agree, messages of a group that do
 * not disturb each other. The walk relies on it. */
bool form_check(struct check *check);

/* The groups of a program whose operations are sound. */
void groups_check(struct check *check, const struct program *program);

/* Runs the programs and follows their buffers; judges each phase when it ends. */
void walk_programs(struct check *check);

/* Judges the forward phase (after it) or the backward phase (after that). */
void results_check(struct check *check, enum phase phase);

/* The resident buffer of `tensor` in a program: its index, or n_buffers. */
uint32_t check_resident(const struct program *program, enum tensor tensor);

#endif
