// backward_keys.cu - dK and dV of one buffer of keys, from LSE and delta of the whole rows of queries.
//
// A thread block has a tile of keys of one KV head; each warp 16 of them. The tiles of queries that see some of them
// pass, for every query head of the KV head: so the sums over queries and heads are one thread block's, written once.
// Products are the transposes of the forward's, S^T = K Q^T and dP^T = V dO^T, so that P^T and dS^T come out where
// dV += P^T dO and dK += dS^T Q want them, in registers.
// At head dim 256 the sums of both are too many for the registers: one thread block makes dV, another dK.
//
// nvcc 13.0, registers a thread (sm_80, sm_90) and shared memory a block; no spills, but for 4 bytes at head dim 64 on
// sm_90:
//   head dim  64: 128 keys x 32 queries, 128, 128,  49 KiB
//   head dim 128: 128 keys x 32 queries, 219, 227,  97 KiB
//   head dim 256:  64 keys x 16 queries, 218, 218 (dK), 219, 219 (dV), 96.5 KiB
#include "kernels/cuda/tile.cuh"

#include <math.h>

#include "kernels/cuda/backward.cuh"

// Which gradients a thread block makes.
enum { MAKES_DK = 1, MAKES_DV = 2 };

template <int DIM> struct keys_shape {
    static constexpr int WARPS = DIM == 256 ? 4 : 8, THREADS = 32 * WARPS;
    static constexpr int KEYS = 16 * WARPS, QUERIES = DIM == 256 ? 16 : 32;
    static constexpr uint32_t STAGE = 2 * tile_bytes<DIM>(QUERIES); // Q, dO
    static constexpr uint32_t NUMBERS = 4 * 4 * QUERIES; // of each query LSE, delta, from, to; behind all tiles
    static constexpr uint32_t SHARED = 2 * tile_bytes<DIM>(KEYS) + 2 * STAGE + 2 * NUMBERS;
    static constexpr int BLOCKS = DIM == 64 ? 2 : 1;
    static_assert(4 * QUERIES <= THREADS, "each thread copies one of a stage's numbers");
};

// Tiles of queries that see something of the keys: rows [first, end), of heads up to `last_head`.
struct query_walk {
    uint32_t row, head;

    DEVICE void step(uint32_t rows, uint32_t first, uint32_t end)
    {
        row += rows;
        if (row >= end) {
            row = first;
            head++;
        }
    }
};

template <class T, int DIM>
DEVICE void store_gradient(void *gradient, const cuda_keys &keys, bool fp32, uint32_t row, uint32_t item,
                           uint32_t kv_head, const float (&sums)[DIM / 8][4], float factor, uint32_t tile,
                           uint32_t warp_row)
{
    const uint64_t at = (uint64_t)row * keys.gradient.row + item * keys.gradient.item + (uint64_t)kv_head * DIM;
    const uint32_t there = row < keys.rows ? keys.rows - row : 0;
    const float factors[2] = {factor, factor};
    if (fp32)
        store_rows_fp32<DIM>((float *)gradient + at, keys.gradient.row, there, sums, factor);
    else
        store_rows<T, DIM>((uint16_t *)gradient + at, keys.gradient.row, there, sums, factors, tile, warp_row);
}

template <class T, int DIM, int MAKES>
KERNEL(keys_shape<DIM>::THREADS, keys_shape<DIM>::BLOCKS)
backward_keys(const problem p, const cuda_keys keys)
{
    using shape = keys_shape<DIM>;
    constexpr int N = shape::QUERIES;
    const uint32_t tiles = (keys.rows + shape::KEYS - 1) / shape::KEYS, kv_lane = block_index() / tiles;
    const uint32_t first_key = block_index() % tiles * shape::KEYS;
    const uint32_t item = kv_lane / p.kv_heads, kv_head = kv_lane % p.kv_heads;
    const uint32_t k = shared_memory(), v = k + tile_bytes<DIM>(shape::KEYS), stages = v + tile_bytes<DIM>(shape::KEYS),
                   stage_numbers = stages + 2 * shape::STAGE;
    const uint32_t warp_row = thread_index() / 32 * 16, key_row = first_key + warp_row;
    const uint32_t keys_there = lesser(shape::KEYS, keys.rows - first_key);
    const float scale_log2 = p.scale * LOG2_E;

    load_rows<DIM, shape::KEYS, shape::THREADS>(k, rows_from(keys.k, keys.strides, first_key, item, kv_head, DIM),
                                                keys.strides.row, keys_there);
    if (MAKES & MAKES_DK)
        load_rows<DIM, shape::KEYS, shape::THREADS>(v, rows_from(keys.v, keys.strides, first_key, item, kv_head, DIM),
                                                    keys.strides.row, keys_there);

    // Query heads of the call that read this KV head, and rows that see a key of the tile.
    const uint32_t heads_before = kv_head * p.group;
    const uint32_t first_head = heads_before > p.group_offset ? heads_before - p.group_offset : 0;
    const uint32_t end_head =
        heads_before + p.group > p.group_offset ? lesser(p.q_heads, heads_before + p.group - p.group_offset) : 0;
    const uint32_t first_row = first_row_at_least<shape::THREADS>(keys.to, p.rows, (int32_t)first_key + 1);
    const uint32_t end_row = first_row_at_least<shape::THREADS>(keys.from, p.rows, (int32_t)(first_key + keys_there));

    auto load = [&](const query_walk &walk, uint32_t stage) {
        const uint32_t q = stages + stage * shape::STAGE, there = lesser(N, p.rows - walk.row);
        load_rows<DIM, N, shape::THREADS>(q, p.q.at(walk.row, item, walk.head, DIM), p.q.strides.row, there);
        load_rows<DIM, N, shape::THREADS>(q + tile_bytes<DIM>(N), p.d_o.at(walk.row, item, walk.head, DIM),
                                          p.d_o.strides.row, there);
        const uint32_t which = thread_index() / N, i = thread_index() % N, own = walk.row + (i < there ? i : 0);
        const void *numbers[4] = {p.lse.at(own, item, walk.head, 1), p.delta.at(own, item, walk.head, 1),
                                  keys.from + own, keys.to + own};
        // Rows that there are not get from = to = 0: they see nothing.
        const void *number = which == 0 ? numbers[0] : which == 1 ? numbers[1] : which == 2 ? numbers[2] : numbers[3];
        if (which < 4)
            copy_async<4>(stage_numbers + stage * shape::NUMBERS + 4 * thread_index(), number, i < there);
    };

    float dk[MAKES & MAKES_DK ? DIM / 8 : 1][4], dv[MAKES & MAKES_DV ? DIM / 8 : 1][4];
    clear(dk);
    clear(dv);
    query_walk walk = {first_row, first_row < end_row ? first_head : end_head};
    bool left = walk.head < end_head;
    if (left)
        load(walk, 0);
    commit_copies();
    for (uint32_t stage = 0; left; stage ^= 1) {
        const uint32_t there = lesser(N, p.rows - walk.row);
        walk.step(N, first_row, end_row);
        left = walk.head < end_head;
        if (left)
            load(walk, stage ^ 1);
        commit_copies();
        wait_copies<1>();
        block_sync();
        const uint32_t q = stages + stage * shape::STAGE, d_o = q + tile_bytes<DIM>(N);
        const uint32_t lse = stage_numbers + stage * shape::NUMBERS, delta = lse + 4 * N, from = delta + 4 * N,
                       to = from + 4 * N;
        // What this warp's keys are seen by: runs only move on, so the tile's first and last query tell.
        const int32_t key = (int32_t)key_row;
        const bool nothing = (int32_t)shared_load_word(from) >= key + 16 ||
                             (int32_t)shared_load_word(to + 4 * (there - 1)) <= key || key_row >= keys.rows;
        const bool all = there == N && (int32_t)shared_load_word(from + 4 * (N - 1)) <= key &&
                         (int32_t)shared_load_word(to) >= key + 16;
        if (!nothing) {
            const uint32_t g = lane_index() / 4, t = lane_index() % 4;
            float weights[N / 8][4];
            product<T, DIM, N>(weights, k, warp_row, q);
#pragma unroll
            for (uint32_t n = 0; n < N / 8; n++) {
                const pair lse_of = shared_load_pair(lse + 4 * (8 * n + 2 * t));
#pragma unroll
                for (uint32_t i = 0; i < 4; i++)
                    weights[n][i] = exp2_fast(
                        multiply_add(weights[n][i], scale_log2, -(i % 2 ? lse_of.second : lse_of.first) * LOG2_E));
            }
            if (!all) {
#pragma unroll
                for (uint32_t n = 0; n < N / 8; n++)
#pragma unroll
                    for (uint32_t i = 0; i < 4; i++) {
                        const uint32_t query = 8 * n + 2 * t + i % 2;
                        const int32_t own = key + (int32_t)(g + i / 2 * 8);
                        const bool seen = (int32_t)shared_load_word(from + 4 * query) <= own &&
                                          own < (int32_t)shared_load_word(to + 4 * query);
                        weights[n][i] = seen ? weights[n][i] : 0;
                    }
            }
            if constexpr (MAKES & MAKES_DV)
                add_product<T, DIM, N>(dv, weights, d_o);
            if constexpr (MAKES & MAKES_DK) {
                float slopes[N / 8][4];
                product<T, DIM, N>(slopes, v, warp_row, d_o);
#pragma unroll
                for (uint32_t n = 0; n < N / 8; n++) {
                    const pair delta_of = shared_load_pair(delta + 4 * (8 * n + 2 * t));
#pragma unroll
                    for (uint32_t i = 0; i < 4; i++)
                        slopes[n][i] = weights[n][i] * (slopes[n][i] - (i % 2 ? delta_of.second : delta_of.first));
                }
                add_product<T, DIM, N>(dk, slopes, q);
            }
        }
        block_sync(); // the stage is free for the next but one
    }
    wait_copies<0>(); // K and V, where no tile was seen: their place is written to below
    block_sync();
    if constexpr (MAKES & MAKES_DK)
        store_gradient<T, DIM>(keys.dk, keys, p.dkv_fp32, key_row, item, kv_head, dk, p.scale, k, warp_row);
    if constexpr (MAKES & MAKES_DV)
        store_gradient<T, DIM>(keys.dv, keys, p.dkv_fp32, key_row, item, kv_head, dv, 1, k, warp_row);
}

template <class T, int DIM, int MAKES>
static int launch_dim(const cuda_call *call, const problem &p, const cuda_keys &keys, void *stream)
{
    using shape = keys_shape<DIM>;
    const uint64_t tiles = ((uint64_t)keys.rows + shape::KEYS - 1) / shape::KEYS;
    return launch(backward_keys<T, DIM, MAKES>, tiles * call->kv_heads * call->items, shape::THREADS, shape::SHARED,
                  stream, p, keys);
}

template <class T> static int launch_dtype(const cuda_call *call, const problem &p, const cuda_keys &keys, void *stream)
{
    if (call->head_dim == 64)
        return launch_dim<T, 64, MAKES_DK | MAKES_DV>(call, p, keys, stream);
    if (call->head_dim == 128)
        return launch_dim<T, 128, MAKES_DK | MAKES_DV>(call, p, keys, stream);
    int error = launch_dim<T, 256, MAKES_DV>(call, p, keys, stream);
    return error ? error : launch_dim<T, 256, MAKES_DK>(call, p, keys, stream);
}

template <class T> static int load_dtype()
{
    return load_kernels(backward_keys<T, 64, MAKES_DK | MAKES_DV>, backward_keys<T, 128, MAKES_DK | MAKES_DV>,
                        backward_keys<T, 256, MAKES_DV>, backward_keys<T, 256, MAKES_DK>);
}

int load_backward_keys()
{
    const int error = load_dtype<bf16>();
    return error ? error : load_dtype<fp16>();
}

int launch_backward_keys(const cuda_call *call, const problem &p, const cuda_keys &keys, void *stream)
{
    return call->dtype == DTYPE_BF16 ? launch_dtype<bf16>(call, p, keys, stream)
                                     : launch_dtype<fp16>(call, p, keys, stream);
}
