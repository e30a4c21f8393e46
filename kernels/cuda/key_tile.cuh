// key_tile.cuh - how the kernels whose thread blocks have a tile of queries get the tiles of keys that pass.
#ifndef CPSIM_KERNELS_CUDA_KEY_TILE_CUH
#define CPSIM_KERNELS_CUDA_KEY_TILE_CUH

#include "kernels/cuda/problem.cuh"
#include "kernels/cuda/tile.cuh"

// Queues the copies of the tile that the walk is at: K to `at`, V behind it.
template <int DIM, int COLUMNS, int THREADS>
DEVICE void load_keys(const problem &p, const query_tile &tile, const key_walk<COLUMNS> &walk, uint32_t at)
{
    const cuda_keys keys = global_load(&p.keys[walk.buffer]);
    const uint32_t there = keys.rows - (uint32_t)walk.column;
    load_rows<DIM, COLUMNS, THREADS>(
        at, rows_from(keys.k, keys.strides, (uint64_t)walk.column, tile.item, tile.kv_head, DIM), keys.strides.row,
        there);
    load_rows<DIM, COLUMNS, THREADS>(
        at + tile_bytes<DIM>(COLUMNS),
        rows_from(keys.v, keys.strides, (uint64_t)walk.column, tile.item, tile.kv_head, DIM), keys.strides.row, there);
}

#endif
