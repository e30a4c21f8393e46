/* mark_pool.c - marks are made when no spare one is left, and destroyed all at once. */
#include "hw/transport/mark_pool.h"

#include <stdlib.h>

#include "models/base/memory.h"

struct mark *mark_pool_set(struct mark_pool *pool, enum stream stream)
{
    if (pool->n_spares == 0) {
        memory_grow(pool->marks, pool->n_marks, pool->mark_capacity);
        pool->marks[pool->n_marks] = pool->ops->mark_create(pool->compute, false);
        mark_pool_give(pool, pool->marks[pool->n_marks++]);
    }
    struct mark *mark = pool->spares[--pool->n_spares];
    pool->ops->mark(pool->compute, stream, mark);
    return mark;
}

void mark_pool_give(struct mark_pool *pool, struct mark *mark)
{
    if (!mark)
        return;
    memory_grow(pool->spares, pool->n_spares, pool->spare_capacity);
    pool->spares[pool->n_spares++] = mark;
}

void mark_pool_fini(struct mark_pool *pool)
{
    for (size_t i = 0; i < pool->n_marks; i++)
        pool->ops->mark_destroy(pool->compute, pool->marks[i]);
    free(pool->marks);
    free(pool->spares);
}
