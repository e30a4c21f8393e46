/* workspace.h - a call's working arrays, aligned to cache lines and freed together. */
#ifndef CPSIM_KERNELS_WORKSPACE_H
#define CPSIM_KERNELS_WORKSPACE_H

#include <stddef.h>

#define WORKSPACE_BLOCKS 16

struct workspace {
    void *blocks[WORKSPACE_BLOCKS];
    size_t n_blocks;
};

float *workspace_floats(struct workspace *workspace, size_t count); /* contents undefined */
void workspace_fini(struct workspace *workspace);

#endif
