/* cuda_scratch.c - a piece of the GPU's memory for each stream, as operations of several may be under way at once,
 * while those of one follow each other. One that has become too small stays until the end: what is queued may still use
 * it.
 */
#include <stdlib.h>

#include "hw/cuda/compute_cuda.h"
#include "models/base/memory.h"

struct cuda_scratch {
    struct {
        void *memory;
        uint64_t bytes;
    } of[STREAM_COUNT];
    void **outgrown;
    size_t n_outgrown, capacity;
};

void *cuda_scratch_take(const struct cuda_action *action, uint64_t bytes)
{
    struct compute *cuda = action->cuda;
    if (!cuda->scratch)
        cuda->scratch = memory_zeroed(1, sizeof *cuda->scratch);
    struct cuda_scratch *scratch = cuda->scratch;
    const int stream = action->op->stream;
    if (bytes <= scratch->of[stream].bytes)
        return scratch->of[stream].memory;
    void *memory = NULL;
    if (!CUDA_CHECK(cuda, cuda_allocate(&memory, bytes), "taking memory for an operation's own use"))
        return NULL;
    if (scratch->of[stream].memory) {
        memory_grow(scratch->outgrown, scratch->n_outgrown, scratch->capacity);
        scratch->outgrown[scratch->n_outgrown++] = scratch->of[stream].memory;
    }
    scratch->of[stream].memory = memory;
    scratch->of[stream].bytes = bytes;
    return memory;
}

void cuda_scratch_free(struct compute *cuda)
{
    struct cuda_scratch *scratch = cuda->scratch;
    if (!scratch)
        return;
    while (scratch->n_outgrown)
        CUDA_CHECK(cuda, cuda_release(scratch->outgrown[--scratch->n_outgrown]), "freeing memory");
    for (int s = 0; s < STREAM_COUNT; s++)
        if (scratch->of[s].memory)
            CUDA_CHECK(cuda, cuda_release(scratch->of[s].memory), "freeing memory");
    free(scratch->outgrown);
    free(scratch);
    cuda->scratch = NULL;
}
