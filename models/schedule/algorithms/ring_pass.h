/* ring_pass.h - K/V blocks travel around a ring of places, attended as they pass, and their gradients follow them home.
 *
 * Step i: place p holds the block of place p - i (mod P), attends it, and meanwhile passes it on to p + 1. Forward: P -
 * 1 exchanges. Backward: the blocks go round again (replay), and behind each the gradient of it, to which every place
 * adds its share; from the last one it goes home to its owner: P messages. Bytes sent per rank, KV being a place's K
 * and V: (P-1) KV forward, (P-1) KV + P dKV backward.
 *
 * A shard cut into blocks sends its first block all the way round, then its second, and so on: two block buffers
 * suffice whatever the shard's length. With skip = transfer a block travels as far as the last place that sees any of
 * it, and its gradient goes home straight from there.
 *
 * Works on the builder's working tensors and circle.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_RING_PASS_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_RING_PASS_H

#include "models/schedule/algorithms/builder.h"
#include "models/schedule/algorithms/rotation.h"

struct ring_pass {
    struct builder *b;
    const uint32_t *reach;
    uint32_t attends;                   /* attention operations of a phase; 2 stands for several */
    uint32_t j, blocks_max;             /* the circulation under way: block j of every place */
    struct rotation received;           /* KV blocks */
    uint32_t travelling[2], part, home; /* dKV: step i's is travelling[i % 2]; this block's; the own block's return */
};

/* How far each block travels: [place * blocks_max + j], steps from its owner to the last place that needs it. The
 * caller frees it. */
uint32_t *ring_reach(const struct circle *circle);

/* Adds the buffers of received blocks. `reach` outlives the pass. */
void ring_pass_init(struct ring_pass *pass, struct builder *builder, const uint32_t *reach);
void ring_pass_fini(struct ring_pass *pass);

void ring_pass_forward(struct ring_pass *pass);
void ring_pass_backward(struct ring_pass *pass);

/* Whether there are buffers enough for a ring of `places`; else false with a message. */
bool ring_pass_check(const struct schedule *schedule, uint32_t places, struct diagnostics *diag);

#endif
