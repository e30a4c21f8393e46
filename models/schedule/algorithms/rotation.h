/* rotation.h - buffers taken in turn: what arrives or leaves in one step is in another buffer than what does in the
 * next, and the write-after-read hazard on a buffer that comes round again throttles the exchange.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_ROTATION_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_ROTATION_H

#include "models/schedule/algorithms/builder.h"

struct rotation {
    uint32_t *buffers, count, next;
};

/* Adds `count` buffers, named "<name> 0" and so on, each with room for the rows of `room` (whatever owner's), of the
 * builder's lanes. The caller calls rotation_fini. */
void rotation_init(struct rotation *rotation, struct builder *builder, const char *name, enum tensor tensor,
                   enum dtype dtype, enum buffer_role role, struct block room, uint32_t count);
void rotation_fini(struct rotation *rotation);

/* How many to add for something of which there will be `uses`: schedule.buffers, or as many if that is less. */
uint32_t rotation_count(const struct builder *builder, uint32_t uses);

/* The buffer whose turn it is; there is at least one. */
uint32_t rotation_take(struct rotation *rotation);

#endif
