/* cuda_arena.c - pieces are never given back before the end, so that nothing queued can lose what it uses. */
#include "hw/cuda/cuda_arena.h"

#include <stdlib.h>

#include "hw/cuda/compute_cuda.h"
#include "models/base/memory.h"

#define PIECE_BYTES ((size_t)1 << 20)
#define ALIGNMENT 256

static bool add_piece(struct compute *cuda, struct cuda_arena *arena, size_t bytes)
{
    void *piece = NULL;
    const size_t size = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
    if (!CUDA_CHECK(cuda, arena->of_host ? cuda_host_allocate(&piece, size) : cuda_allocate(&piece, size),
                    arena->of_host ? "taking memory of the host for keys" : "taking memory for masks and keys"))
        return false;
    memory_grow(arena->pieces, arena->n_pieces, arena->capacity);
    arena->pieces[arena->n_pieces++] = piece;
    arena->used = 0;
    arena->size = size;
    return true;
}

void *cuda_arena_take(struct compute *cuda, struct cuda_arena *arena, size_t bytes)
{
    bytes = (bytes / ALIGNMENT + 1) * ALIGNMENT; /* also of nothing: some */
    if (bytes > arena->size - arena->used && !add_piece(cuda, arena, bytes))
        return NULL;
    void *memory = (char *)arena->pieces[arena->n_pieces - 1] + arena->used;
    arena->used += bytes;
    return memory;
}

void cuda_arena_free(struct compute *cuda, struct cuda_arena *arena)
{
    while (arena->n_pieces) {
        void *piece = arena->pieces[--arena->n_pieces];
        CUDA_CHECK(cuda, arena->of_host ? cuda_host_release(piece) : cuda_release(piece), "freeing masks and keys");
    }
    free(arena->pieces);
    *arena = (struct cuda_arena){.of_host = arena->of_host};
}
