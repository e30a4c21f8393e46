// tile_hopper.cuh - tiles of rows in shared memory as tensor copies bring them and products take them.
//
// A tile is ROWS rows of DIM 16-bit numbers, in DIM / 64 panels behind each other; a panel has ROWS rows of 64 numbers,
// 128 bytes, with 128-byte swizzling (wgmma.cuh). One copy brings a whole tile: to the map, a tensor is 64 numbers x
// rows x panels (those of all heads) x items, and a tile is a box of it.
#ifndef CPSIM_KERNELS_CUDA_TILE_HOPPER_CUH
#define CPSIM_KERNELS_CUDA_TILE_HOPPER_CUH

#include "kernels/cuda/hopper/wgmma.cuh"
#include "kernels/cuda/problem.cuh"

constexpr uint32_t ROW_BYTES = 128, PATTERN_BYTES = 1024, UNUSED_BYTES = 16;

template <int DIM> HOST_DEVICE uint32_t panels_bytes(uint32_t rows)
{
    return rows * DIM * 2;
}

template <int DIM>
DEVICE void copy_tile(uint32_t to, const tensor_map *map, uint32_t row, uint32_t head, uint32_t item, uint32_t barrier)
{
    copy_box(to, map, 0, (int32_t)row, (int32_t)(head * (DIM / 64)), (int32_t)item, barrier);
}

// The map for copy_tile of `rows_of_tile` rows.
template <int DIM>
static inline int make_tile_map(map_maker maker, tensor_map *map, const void *first, const cuda_strides &strides,
                                uint32_t rows, uint32_t heads, uint32_t items, uint32_t rows_of_tile)
{
    // A dimension of one has no use for its stride, which may be anything then.
    const uint64_t row_bytes = rows == 1 ? ROW_BYTES : 2 * strides.row,
                   item_bytes = items == 1 ? ROW_BYTES : 2 * strides.item;
    return make_map(maker, map,
                    map_extent{first,
                               {64, rows, (uint64_t)heads * (DIM / 64), items},
                               {row_bytes, ROW_BYTES, item_bytes},
                               {64, rows_of_tile, DIM / 64, 1}});
}

// 16 numbers of each row from number `k` of it on, of all rows from row 0 on: an operand ALONG_K.
template <int ROWS> DEVICE uint64_t along_k(uint32_t tile, uint32_t k)
{
    return descriptor(tile + k / 64 * (ROWS * ROW_BYTES) + k % 64 * 2, UNUSED_BYTES, PATTERN_BYTES);
}

// Rows `row` to `row` + 15, all numbers from those of the panel `tile` on: an operand ALONG_MN.
template <int ROWS> DEVICE uint64_t along_mn(uint32_t tile, uint32_t row)
{
    return descriptor(tile + row * ROW_BYTES, ROWS * ROW_BYTES, PATTERN_BYTES);
}

// Starts c[64 x 8 N8] = A B^T along DIM: A are 64 rows from `a` on of a tile of ROWS_A, B 8 N8 rows from `b` on of one
// of ROWS_B.
template <class T, int DIM, int ROWS_A, int ROWS_B, int N8>
DEVICE void start_scores(float (&c)[N8][4], uint32_t a, uint32_t b)
{
#pragma unroll
    for (uint32_t k = 0; k < DIM; k += 16)
        start_product<T, ALONG_K, ALONG_K>(c, along_k<ROWS_A>(a, k), along_k<ROWS_B>(b, k), k > 0);
}

// Starts c[64 x 8 N8] += P B, along 16 K rows of tile `b`, whose tile has ROWS_B.
template <class T, int ROWS_B, int K, int N8>
DEVICE void start_sums(float (&c)[N8][4], const uint32_t (&p)[K][4], uint32_t b)
{
#pragma unroll
    for (uint32_t k = 0; k < K; k++)
        start_product<T, ALONG_MN>(c, p[k], along_mn<ROWS_B>(b, 16 * k), true);
}

// A product's result, rounded, as operand A of another: columns of the one are laid out over the lanes as k of the
// other.
template <class T, int N8> DEVICE void pack_fragments(uint32_t (&p)[N8 / 2][4], const float (&c)[N8][4])
{
#pragma unroll
    for (uint32_t k = 0; k < N8 / 2; k++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            p[k][i] = pack<T>(c[2 * k + i / 2][i % 2 * 2], c[2 * k + i / 2][i % 2 * 2 + 1]);
}

#endif
