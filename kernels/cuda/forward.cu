// forward.cu - O and LSE of a block of queries against its key buffers.
//
// A thread block has a tile of queries of one head; each warp 16 rows of them. Key tiles pass, two in shared memory:
// one arrives while the other is used. Online softmax in fp32, in powers of two; scores stay in registers, and are
// rounded once, as weights of V. After FlashAttention-2 (Dao, 2023, arXiv:2307.08691).
//
// nvcc 13.0, registers a thread (sm_80, sm_90) and shared memory a block; no spills:
//   head dim  64: 128 queries x 64 keys, 128, 128,  48 KiB
//   head dim 128: 128 queries x 64 keys, 128, 128,  96 KiB
//   head dim 256:  64 queries x 32 keys, 234, 242,  96 KiB
#include "kernels/cuda/key_tile.cuh"
#include "kernels/cuda/softmax.cuh"

template <int DIM> struct forward_shape {
    static constexpr int WARPS = DIM == 256 ? 4 : 8, THREADS = 32 * WARPS;
    static constexpr int ROWS = 16 * WARPS, COLUMNS = DIM == 256 ? 32 : 64;
    static constexpr uint32_t STAGE = 2 * tile_bytes<DIM>(COLUMNS); // K, then V
    static constexpr uint32_t SHARED = tile_bytes<DIM>(ROWS) + 2 * STAGE;
    static constexpr int BLOCKS = DIM == 256 ? 1 : 2;
};

// Scores of keys that a row does not see become -inf.
template <int N> DEVICE void mask_scores(float (&scores)[N][4], const sight &seen)
{
    if (seen.all)
        return;
    for (uint32_t n = 0; n < N; n++)
        for (uint32_t i = 0; i < 4; i++)
            scores[n][i] = is_seen(seen, n, i) ? scores[n][i] : -INFINITY;
}

template <class T, int DIM> KERNEL(forward_shape<DIM>::THREADS, forward_shape<DIM>::BLOCKS) forward(const problem p)
{
    using shape = forward_shape<DIM>;
    const query_tile tile = query_tile_of<shape::ROWS>(p, block_index());
    const uint32_t q = shared_memory(), stages = q + tile_bytes<DIM>(shape::ROWS);
    const uint32_t warp_row = thread_index() / 32 * 16, row = tile.row + warp_row;
    const uint32_t last_row = tile.row + tile.rows - 1;
    const float scale_log2 = p.scale * LOG2_E;

    key_walk<shape::COLUMNS> here, next;
    auto load = [&](const key_walk<shape::COLUMNS> &walk, uint32_t stage) {
        load_keys<DIM, shape::COLUMNS, shape::THREADS>(p, tile, walk, stages + stage * shape::STAGE);
    };

    float sums[DIM / 8][4];
    softmax state = {{-INFINITY, -INFINITY}, {0, 0}};
    clear(sums);
    load_rows<DIM, shape::ROWS, shape::THREADS>(q, p.q.at(tile.row, tile.item, tile.head, DIM), p.q.strides.row,
                                                tile.rows);
    here.start(p, tile);
    if (here.there(p))
        load(here, 0);
    commit_copies();
    for (uint32_t stage = 0; here.there(p); stage ^= 1) {
        next = here;
        next.step(p, tile);
        if (next.there(p))
            load(next, stage ^ 1);
        commit_copies();
        wait_copies<1>();
        block_sync();
        const sight seen = sight_of<shape::COLUMNS>(here.global_from(p), here.global_to(p), row, last_row, here.column);
        if (!seen.nothing) {
            const uint32_t k = stages + stage * shape::STAGE;
            float scores[shape::COLUMNS / 8][4], keep[2];
            product<T, DIM, shape::COLUMNS>(scores, q, warp_row, k);
            mask_scores(scores, seen);
            take_weights(scores, scale_log2, state, keep);
#pragma unroll
            for (uint32_t n = 0; n < DIM / 8; n++)
                for (uint32_t i = 0; i < 4; i++)
                    sums[n][i] *= keep[i / 2];
            add_product<T, DIM, shape::COLUMNS>(sums, scores, k + tile_bytes<DIM>(shape::COLUMNS));
        }
        block_sync(); // the stage is free for the next but one
        here = next;
    }
    wait_copies<0>(); // Q, where no tile was seen: its place is written to below
    block_sync();

    float factor[2];
    finish_rows(p, tile, row, last_row, state, factor);
    store_rows<T, DIM>(p.o.at(row, tile.item, tile.head, DIM), p.o.strides.row, row > last_row ? 0 : last_row + 1 - row,
                       sums, factor, q, warp_row);
}

template <class T, int DIM> static int launch_forward(const cuda_call *call, const problem &p, void *stream)
{
    using shape = forward_shape<DIM>;
    const uint64_t tiles = ((uint64_t)call->rows + shape::ROWS - 1) / shape::ROWS;
    return launch(forward<T, DIM>, tiles * call->q_heads * call->items, shape::THREADS, shape::SHARED, stream, p);
}

template <class T> static int launch_dtype(const cuda_call *call, const problem &p, void *stream)
{
    return call->head_dim == 64    ? launch_forward<T, 64>(call, p, stream)
           : call->head_dim == 128 ? launch_forward<T, 128>(call, p, stream)
                                   : launch_forward<T, 256>(call, p, stream);
}

int load_forward()
{
    return load_kernels(forward<bf16, 64>, forward<bf16, 128>, forward<bf16, 256>, forward<fp16, 64>,
                        forward<fp16, 128>, forward<fp16, 256>);
}

int cuda_attention_forward(const cuda_call *call, void *o, float *lse, void *stream)
{
    if (!call_is_valid(call) || !tensor_is_valid(o, call->strides.o))
        return CUDA_INVALID;
    problem p = problem_of(call);
    p.o = {(uint16_t *)o, call->strides.o};
    p.lse_out = {lse, call->strides.lse};
    return call->dtype == DTYPE_BF16 ? launch_dtype<bf16>(call, p, stream) : launch_dtype<fp16>(call, p, stream);
}
