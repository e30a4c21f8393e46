/* mark_pool.h - untimed marks of an asynchronous backend, used again and again.
 */
#ifndef CPSIM_HW_TRANSPORT_MARK_POOL_H
#define CPSIM_HW_TRANSPORT_MARK_POOL_H

#include "hw/compute.h"

struct mark_pool {
    const struct queue_ops *ops;
    struct compute *compute;
    struct mark **marks, **spares; /* all; those that are not in use */
    size_t n_marks, mark_capacity, n_spares, spare_capacity;
};

/* {.ops, .compute} is an empty pool. */
void mark_pool_fini(struct mark_pool *pool);

/* A mark, set in `stream`. */
struct mark *mark_pool_set(struct mark_pool *pool, enum stream stream);
/* NULL does nothing. Nothing will be queued any more that waits for the mark as it is set now. */
void mark_pool_give(struct mark_pool *pool, struct mark *mark);

#endif
