/* cuda_masks.h - what queries see of keys, on the GPU: for attention operations (cuda_attention.c).
 *
 * The runs of rows (kernels/runs.h) that a block of queries sees of a block of keys depend on the two blocks alone:
 * they are made when the first operation needs them, and stay. Forward, replay and backward of a pair share them.
 * What is made then is written to the GPU at once, so the first run of an operation cannot be one that is recorded.
 */
#ifndef CPSIM_HW_CUDA_CUDA_MASKS_H
#define CPSIM_HW_CUDA_CUDA_MASKS_H

#include "hw/cuda/compute_cuda.h"

/* The buffers of keys of one operation. They are where buffers have their memory, which mostly is the same in each
 * step: the GPU gets them when they changed. */
struct cuda_key_list {
    struct block q; /* the queries that `from` and `to` are for */
    struct block *blocks;
    struct cuda_keys *keys;        /* in host memory that copies reach */
    struct cuda_keys *device_keys; /* the same on the GPU, once what is queued now is done */
    uint32_t n_keys, capacity;
};

/* The call's keys: `n_keys` from `keys`, of which `from` and `to` are filled in here, for the blocks `blocks`. They are
 * queued to be copied to the GPU if they differ from what the operation had when it ran last; that run must be over
 * then, which it is, as a step begins when the one before is done. NULL when the backend has failed. */
const struct cuda_key_list *cuda_masks_keys(const struct cuda_action *action, struct block q,
                                            const struct block *blocks, struct cuda_keys *keys, uint32_t n_keys);

#endif
