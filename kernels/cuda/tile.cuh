// tile.cuh - tiles of rows in shared memory, and products of them by one warp.
//
// A tile is rows of DIM 16-bit numbers. Its 16-byte chunks are swizzled: chunk c of row r lies at chunk c ^ (r % 8), so
// that the eight rows of a matrix (same c) lie in different banks, and so do the chunks of a row. A tile starts at a
// multiple of a row's bytes: chunk c + 2k, c being 0 or 1, then is at (address of chunk c) ^ 32k, eight chunks (and so
// many rows, a multiple of 8) further on at a constant distance.
// A warp works on 16 rows of a product, all its columns: rows are then a matter of one warp, sums along them of four
// lanes.
#ifndef CPSIM_KERNELS_CUDA_TILE_CUH
#define CPSIM_KERNELS_CUDA_TILE_CUH

#include "kernels/cuda/device.cuh"

constexpr float LOG2_E = 1.4426950408889634f;

template <int DIM> HOST_DEVICE uint32_t tile_bytes(uint32_t rows)
{
    return rows * DIM * 2;
}

template <int DIM> DEVICE uint32_t chunk_at(uint32_t tile, uint32_t row, uint32_t chunk)
{
    return tile + row * (DIM * 2) + ((chunk ^ (row & 7)) << 4);
}

// Queues the copy of ROWS rows, the first `there` (at least one) from `from` on, `stride` numbers apart; the others
// become 0.
template <int DIM, int ROWS, int THREADS>
DEVICE void load_rows(uint32_t tile, const uint16_t *from, uint64_t stride, uint32_t there)
{
    constexpr int CHUNKS = DIM / 8;
    static_assert(ROWS * CHUNKS % THREADS == 0, "every thread copies the same number of chunks");
#pragma unroll 2
    for (uint32_t i = 0; i < ROWS * CHUNKS / THREADS; i++) {
        const uint32_t n = thread_index() + i * THREADS, row = n / CHUNKS, chunk = n % CHUNKS;
        const bool is_there = row < there;
        copy_async<16>(chunk_at<DIM>(tile, row, chunk), from + (is_there ? row * stride : 0) + chunk * 8, is_there);
    }
}

template <int N> DEVICE void clear(float (&c)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
        for (int i = 0; i < 4; i++)
            c[n][i] = 0;
}

// c[16 x N] = A B^T, along DIM: A is rows [row, row + 16) of the tile `a`, B the N rows of the tile `b`.
template <class T, int DIM, int N> DEVICE void product(float (&c)[N / 8][4], uint32_t a, uint32_t row, uint32_t b)
{
    const uint32_t lane = lane_index();
    const uint32_t a_at = chunk_at<DIM>(a, row + lane % 16, lane / 16);
    const uint32_t b_at = chunk_at<DIM>(b, lane % 8 + lane / 16 * 8, lane / 8 % 2);
    clear(c);
#pragma unroll(DIM == 64 ? 1 : 2) // more only makes code longer and registers short
    for (uint32_t k = 0; k < DIM / 16; k++) {
        uint32_t a_words[4];
        load_matrices(a_words, a_at ^ 32 * k);
#pragma unroll
        for (uint32_t n = 0; n < N / 16; n++) {
            uint32_t b_words[4];
            load_matrices(b_words, (b_at ^ 32 * k) + tile_bytes<DIM>(16 * n));
            multiply<T>(c[2 * n], a_words, b_words[0], b_words[1]);
            multiply<T>(c[2 * n + 1], a_words, b_words[2], b_words[3]);
        }
    }
}

// c[16 x DIM] += P B, along N: P is a product's result [16 x N] (rounded), B the N rows of the tile `b`.
template <class T, int DIM, int N>
DEVICE void add_product(float (&c)[DIM / 8][4], const float (&p)[N / 8][4], uint32_t b)
{
    const uint32_t lane = lane_index();
    const uint32_t b_at = chunk_at<DIM>(b, lane % 16, lane / 16);
#pragma unroll
    for (uint32_t k = 0; k < N / 16; k++) {
        // Columns of C are laid out over the lanes as rows of A are.
        const uint32_t a_words[4] = {pack<T>(p[2 * k][0], p[2 * k][1]), pack<T>(p[2 * k][2], p[2 * k][3]),
                                     pack<T>(p[2 * k + 1][0], p[2 * k + 1][1]),
                                     pack<T>(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
        for (uint32_t d = 0; d < DIM / 16; d++) {
            uint32_t b_words[4];
            load_transposed(b_words, (b_at ^ d % 4 * 32) + d / 4 * 128 + tile_bytes<DIM>(16 * k));
            multiply<T>(c[2 * d], a_words, b_words[0], b_words[1]);
            multiply<T>(c[2 * d + 1], a_words, b_words[2], b_words[3]);
        }
    }
}

// Sum and maximum over a row of C: over the four lanes that hold it.
DEVICE float row_sum(float value)
{
    value += warp_xor(value, 1);
    return value + warp_xor(value, 2);
}

DEVICE float row_max(float value)
{
    value = fmaxf(value, warp_xor(value, 1));
    return fmaxf(value, warp_xor(value, 2));
}

// Writes c[16 x DIM], its rows g by factor[0] and g + 8 by factor[1], to memory, the first `there` rows (maybe none),
// by way of rows [row, row + 16) of a tile that no other warp looks at any more: whole chunks go out.
template <class T, int DIM>
DEVICE void store_rows(uint16_t *to, uint64_t stride, uint32_t there, const float (&c)[DIM / 8][4],
                       const float (&factor)[2], uint32_t tile, uint32_t row)
{
    const uint32_t lane = lane_index(), g = lane / 4, t = lane % 4;
    warp_sync();
#pragma unroll
    for (uint32_t n = 0; n < DIM / 8; n++)
        for (uint32_t half = 0; half < 2; half++)
            shared_store_word(chunk_at<DIM>(tile, row + g + 8 * half, n) + 4 * t,
                              pack<T>(c[n][2 * half] * factor[half], c[n][2 * half + 1] * factor[half]));
    warp_sync();
#pragma unroll
    for (uint32_t i = 0; i < 16 * DIM / 8 / 32; i++) {
        const uint32_t n = lane + 32 * i, r = n / (DIM / 8), chunk = n % (DIM / 8);
        const quad words = shared_load_quad(chunk_at<DIM>(tile, row + r, chunk));
        if (r < there)
            global_store((quad *)(to + r * stride + chunk * 8), words);
    }
}

// The same in fp32, straight from the registers: four lanes fill 32 bytes.
template <int DIM>
DEVICE void store_rows_fp32(float *to, uint64_t stride, uint32_t there, const float (&c)[DIM / 8][4], float factor)
{
    const uint32_t lane = lane_index(), g = lane / 4, t = lane % 4;
#pragma unroll
    for (uint32_t n = 0; n < DIM / 8; n++)
        for (uint32_t half = 0; half < 2; half++)
            if (g + 8 * half < there)
                global_store((pair *)(to + (g + 8 * half) * stride + 8 * n + 2 * t),
                             pair{c[n][2 * half] * factor, c[n][2 * half + 1] * factor});
}

#endif
