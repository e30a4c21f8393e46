// maps.cu - puts tensor maps into device memory.
#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/hopper/forward_maps.cuh"

KERNEL(32, 1) write_maps(key_maps *to, const GRID_CONSTANT maps_batch batch, uint32_t count)
{
    constexpr uint32_t QUADS = sizeof(key_maps) / sizeof(quad);
    const quad *from = (const quad *)&batch;
    for (uint32_t i = thread_index(); i < count * QUADS; i += 32)
        global_store((quad *)to + i, from[i]);
    map_release();
}

int load_maps()
{
    return load_kernels(write_maps);
}

int store_maps(key_maps *to, const maps_batch &batch, uint32_t count, void *stream)
{
    return launch(write_maps, 1, 32, 0, stream, to, batch, count);
}
