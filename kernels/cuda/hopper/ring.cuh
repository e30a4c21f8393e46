// ring.cuh - places in shared memory that tiles pass through: one thread or warp fills them, warps use them.
//
// Tile n has place n % PLACES. Each place has two barriers: `full` completes when the tile has arrived, `free` when all
// warps that use it have said that they are done. Phases count the tiles of a place, so both sides know by the tile's
// number which parity to wait for.
#ifndef CPSIM_KERNELS_CUDA_RING_CUH
#define CPSIM_KERNELS_CUDA_RING_CUH

#include "kernels/cuda/hopper/device_hopper.cuh"

template <int PLACES> struct ring {
    static constexpr uint32_t BYTES = 2 * 8 * PLACES; // of barriers
    uint32_t barriers, tiles, tile_bytes;

    // Arrivals that fill a place (copies: one, which announces them), and warps that use it.
    DEVICE void init(uint32_t fillers, uint32_t warps) const
    {
        for (uint32_t place = 0; place < PLACES; place++) {
            barrier_init(barriers + 16 * place, fillers);
            barrier_init(barriers + 16 * place + 8, warps);
        }
    }
    DEVICE uint32_t place(uint32_t n) const
    {
        return tiles + n % PLACES * tile_bytes;
    }
    DEVICE uint32_t full(uint32_t n) const
    {
        return barriers + n % PLACES * 16;
    }
    // Waits until tile n - PLACES is done with.
    DEVICE void claim(uint32_t n) const
    {
        barrier_wait(full(n) + 8, (n / PLACES & 1) ^ 1);
    }
    // The same; then copies of tile n, of `bytes`, may be queued for full(n).
    DEVICE void claim(uint32_t n, uint32_t bytes) const
    {
        claim(n);
        barrier_expect(full(n), bytes);
    }
    DEVICE void wait(uint32_t n) const
    {
        barrier_wait(full(n), n / PLACES & 1);
    }
    // For each warp, all lanes of which have waited for what they do with the tile.
    DEVICE void release(uint32_t n) const
    {
        warp_sync(); // lanes that read it themselves: none arrives for another that still does
        if (lane_index() == 0)
            barrier_arrive(full(n) + 8);
    }
};

#endif
