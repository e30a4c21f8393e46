/* mpi_staging.c - spare pieces by size; they are given up only where there is no memory for another size. */
#include "hw/transport/mpi_staging.h"

#include <stdlib.h>

#include "models/base/memory.h"

#define SIZE_MIN 12 /* a page of 4 KiB */

static uint32_t size_of(uint64_t bytes)
{
    uint32_t size = SIZE_MIN;
    while (UINT64_C(1) << size < bytes)
        size++;
    return size;
}

static void drop_spares(struct staging *staging)
{
    for (uint32_t size = 0; size < STAGING_SIZES; size++)
        while (staging->spares[size].count)
            staging->ops->unstage(staging->compute, staging->spares[size].items[--staging->spares[size].count]);
}

void *staging_take(struct staging *staging, uint64_t bytes)
{
    const uint32_t size = size_of(bytes);
    if (bytes == 0)
        return NULL;
    if (staging->spares[size].count)
        return staging->spares[size].items[--staging->spares[size].count];
    void *memory = staging->ops->stage(staging->compute, UINT64_C(1) << size);
    if (!memory) {
        drop_spares(staging); /* of other sizes */
        memory = staging->ops->stage(staging->compute, UINT64_C(1) << size);
    }
    return memory;
}

void staging_give(struct staging *staging, void *memory, uint64_t bytes)
{
    const uint32_t size = size_of(bytes);
    if (!memory)
        return;
    memory_grow(staging->spares[size].items, staging->spares[size].count, staging->spares[size].capacity);
    staging->spares[size].items[staging->spares[size].count++] = memory;
}

void staging_fini(struct staging *staging)
{
    drop_spares(staging);
    for (uint32_t size = 0; size < STAGING_SIZES; size++)
        free(staging->spares[size].items);
}
