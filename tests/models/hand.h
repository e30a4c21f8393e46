/* hand.h - for tests: a timeline made by hand. Rank 0 has operations and their moments; rank 1 is there to be its peer.
 * Include after cmocka.h.
 */
#ifndef CPSIM_TESTS_MODELS_HAND_H
#define CPSIM_TESTS_MODELS_HAND_H

#include <string.h>

#include "models/result/rank_time.h"
#include "models/schedule/program.h"

#define NONE UINT32_MAX /* no buffer */
#define OPS_MAX 16

/* Two programs under construction and the moments of rank 0's operations. */
struct hand {
    struct program programs[2];
    struct moment moments[OPS_MAX];
};

/* Programs without buffers; hand_fini frees them. */
static inline void hand_init(struct hand *hand)
{
    memset(hand, 0, sizeof *hand);
    program_init(&hand->programs[0], 0);
    program_init(&hand->programs[1], 1);
}

static inline void hand_fini(struct hand *hand)
{
    program_fini(&hand->programs[0]);
    program_fini(&hand->programs[1]);
}

/* An operation of rank 0 from `begin` to `end` that reads one buffer and writes another; its index. */
static inline uint32_t hand_add(struct hand *hand, struct op op, uint32_t read, uint32_t write, double begin,
                                double end)
{
    uint32_t index = program_add_op(&hand->programs[0], op, &read, read != NONE, &write, write != NONE);
    hand->moments[index] = (struct moment){begin, begin, end};
    return index;
}

/* A message of 4 bytes from rank 1 into a buffer of rank 0; `op` says in which stream, and of what kind it is. */
static inline void hand_receive(struct hand *hand, struct op op, uint32_t write, double begin, double end)
{
    op.bytes = 4;
    op.kind = OP_RECEIVE;
    op.peer = 1;
    hand_add(hand, op, NONE, write, begin, end);
    op.kind = OP_SEND;
    op.peer = 0;
    program_add_op(&hand->programs[1], op, &write, 1, NULL, 0);
}

static inline void end_phase(struct hand *hand, enum phase phase)
{
    program_end_phase(&hand->programs[0], phase);
    program_end_phase(&hand->programs[1], phase);
}

#endif
