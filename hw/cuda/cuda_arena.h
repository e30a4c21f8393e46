/* cuda_arena.h - small things that stay until the backend is closed, side by side in large pieces of memory: to ask for
 * each alone would take longer than to use it.
 */
#ifndef CPSIM_HW_CUDA_CUDA_ARENA_H
#define CPSIM_HW_CUDA_CUDA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct compute;

struct cuda_arena {
    bool of_host; /* memory of the host, which copies reach directly; else the GPU's */
    void **pieces;
    size_t n_pieces, capacity;
    size_t used, size; /* of the last piece, in bytes */
};

/* Memory at a multiple of 256 bytes, of what nobody wrote yet; NULL when the backend fails for want of it. */
void *cuda_arena_take(struct compute *cuda, struct cuda_arena *arena, size_t bytes);
void cuda_arena_free(struct compute *cuda, struct cuda_arena *arena);

#endif
