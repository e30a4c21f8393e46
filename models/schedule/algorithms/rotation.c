/* rotation.c - see rotation.h. */
#include "models/schedule/algorithms/rotation.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"

void rotation_init(struct rotation *rotation, struct builder *b, const char *name, enum tensor tensor, enum dtype dtype,
                   enum buffer_role role, struct block room, uint32_t count)
{
    *rotation = (struct rotation){.buffers = memory_zeroed(count, sizeof *rotation->buffers), .count = count};
    for (uint32_t i = 0; i < count; i++) {
        char numbered[40];
        snprintf(numbered, sizeof numbered, "%s %u", name, i);
        rotation->buffers[i] =
            builder_buffer_block(b, numbered, tensor, dtype, role, room, builder_lanes_of(b, tensor));
    }
}

void rotation_fini(struct rotation *rotation)
{
    free(rotation->buffers);
    *rotation = (struct rotation){.buffers = NULL};
}

uint32_t rotation_count(const struct builder *b, uint32_t uses)
{
    uint32_t buffers = b->schedule->experiment->buffers;
    return buffers < uses ? buffers : uses;
}

uint32_t rotation_take(struct rotation *rotation)
{
    assert(rotation->count > 0);
    return rotation->buffers[rotation->next++ % rotation->count];
}
