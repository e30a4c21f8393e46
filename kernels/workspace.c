/* workspace.c - blocks on cache lines, all freed together. */
#include "kernels/workspace.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "models/base/memory.h"

#define CACHE_LINE 64

float *workspace_floats(struct workspace *workspace, size_t count)
{
    assert(workspace->n_blocks < WORKSPACE_BLOCKS);
    char *block = memory_resized(NULL, count + CACHE_LINE, sizeof(float));
    workspace->blocks[workspace->n_blocks++] = block;
    size_t beyond = (uintptr_t)block % CACHE_LINE;
    return (float *)(void *)(block + (beyond ? CACHE_LINE - beyond : 0));
}

void workspace_fini(struct workspace *workspace)
{
    for (size_t i = 0; i < workspace->n_blocks; i++)
        free(workspace->blocks[i]);
}
