/* mpi_staging.h - host memory that a device's copies reach directly, for messages on their way: pieces of it are used
 * again and again, as making one takes longer than sending it. Sizes are powers of two, so that few are enough.
 */
#ifndef CPSIM_HW_TRANSPORT_MPI_STAGING_H
#define CPSIM_HW_TRANSPORT_MPI_STAGING_H

#include "hw/compute.h"

#define STAGING_SIZES 64

struct staging {
    const struct queue_ops *ops;
    struct compute *compute;
    struct {
        void **items;
        size_t count, capacity;
    } spares[STAGING_SIZES]; /* of 2^index bytes */
};

/* {.ops, .compute} is an empty one. Memory that has not been given back stays. */
void staging_fini(struct staging *staging);

/* NULL when there is not enough, also when `bytes` is 0. */
void *staging_take(struct staging *staging, uint64_t bytes);
/* `bytes` as it was taken for; NULL does nothing. */
void staging_give(struct staging *staging, void *memory, uint64_t bytes);

#endif
