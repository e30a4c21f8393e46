// backward_queries.cu - dQ of a block of queries, from LSE and delta of the whole rows.
//
// The forward kernel's walk, with weights known at once: P = e^(scale S - LSE), dS = P (dO V^T - delta),
// dQ = scale dS K. dK and dV are another kernel's (backward_keys.cu), which computes P and dS again: 7 products where
// one kernel for all would do with 5, but dQ is then a sum of many thread blocks, and needs atomic additions, whose
// order and so whose result changes from run to run.
//
// nvcc 13.0, registers a thread (sm_80, sm_90) and shared memory a block; no spills, but for 8 bytes at head dim 64 on
// sm_80:
//   head dim  64: 128 queries x 64 keys, 128, 128,  64 KiB
//   head dim 128: 128 queries x 32 keys, 128, 128,  96 KiB
//   head dim 256:  64 queries x 16 keys, 231, 231,  96 KiB
#include "kernels/cuda/key_tile.cuh"

#include <math.h>

#include "kernels/cuda/backward.cuh"

template <int DIM> struct queries_shape {
    static constexpr int WARPS = DIM == 256 ? 4 : 8, THREADS = 32 * WARPS;
    static constexpr int ROWS = 16 * WARPS, COLUMNS = DIM == 64 ? 64 : DIM == 128 ? 32 : 16;
    static constexpr uint32_t STAGE = 2 * tile_bytes<DIM>(COLUMNS); // K, then V
    static constexpr uint32_t SHARED = 2 * tile_bytes<DIM>(ROWS) + 2 * STAGE;
    static constexpr int BLOCKS = DIM == 256 ? 1 : 2;
};

template <class T, int DIM>
KERNEL(queries_shape<DIM>::THREADS, queries_shape<DIM>::BLOCKS)
backward_queries(const problem p)
{
    using shape = queries_shape<DIM>;
    const query_tile tile = query_tile_of<shape::ROWS>(p, block_index());
    const uint32_t q = shared_memory(), d_o = q + tile_bytes<DIM>(shape::ROWS),
                   stages = d_o + tile_bytes<DIM>(shape::ROWS);
    const uint32_t lane = lane_index(), warp_row = thread_index() / 32 * 16, row = tile.row + warp_row;
    const uint32_t last_row = tile.row + tile.rows - 1;
    const float scale_log2 = p.scale * LOG2_E;

    key_walk<shape::COLUMNS> here, next;
    auto load = [&](const key_walk<shape::COLUMNS> &walk, uint32_t stage) {
        load_keys<DIM, shape::COLUMNS, shape::THREADS>(p, tile, walk, stages + stage * shape::STAGE);
    };

    float sums[DIM / 8][4], lse_log2[2], delta[2];
    clear(sums);
    load_rows<DIM, shape::ROWS, shape::THREADS>(q, p.q.at(tile.row, tile.item, tile.head, DIM), p.q.strides.row,
                                                tile.rows);
    load_rows<DIM, shape::ROWS, shape::THREADS>(d_o, p.d_o.at(tile.row, tile.item, tile.head, DIM), p.d_o.strides.row,
                                                tile.rows);
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t own = lesser(row + lane / 4 + 8 * half, last_row);
        lse_log2[half] = global_load(p.lse.at(own, tile.item, tile.head, 1)) * LOG2_E;
        delta[half] = global_load(p.delta.at(own, tile.item, tile.head, 1));
    }
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
            float weights[shape::COLUMNS / 8][4], slopes[shape::COLUMNS / 8][4];
            product<T, DIM, shape::COLUMNS>(weights, q, warp_row, k);
            product<T, DIM, shape::COLUMNS>(slopes, d_o, warp_row, k + tile_bytes<DIM>(shape::COLUMNS));
#pragma unroll
            for (uint32_t n = 0; n < shape::COLUMNS / 8; n++)
                for (uint32_t i = 0; i < 4; i++) {
                    const float weight = exp2_fast(multiply_add(weights[n][i], scale_log2, -lse_log2[i / 2]));
                    slopes[n][i] = (slopes[n][i] - delta[i / 2]) * (seen.all || is_seen(seen, n, i) ? weight : 0);
                }
            add_product<T, DIM, shape::COLUMNS>(sums, slopes, k);
        }
        block_sync(); // the stage is free for the next but one
        here = next;
    }
    wait_copies<0>(); // Q, where no tile was seen: its place is written to below
    block_sync();
    const float factor[2] = {p.scale, p.scale};
    store_rows<T, DIM>(p.dq.at(row, tile.item, tile.head, DIM), p.dq.strides.row,
                       row > last_row ? 0 : last_row + 1 - row, sums, factor, q, warp_row);
}

template <class T, int DIM> static int launch_dim(const cuda_call *call, const problem &p, void *stream)
{
    using shape = queries_shape<DIM>;
    const uint64_t tiles = ((uint64_t)call->rows + shape::ROWS - 1) / shape::ROWS;
    return launch(backward_queries<T, DIM>, tiles * call->q_heads * call->items, shape::THREADS, shape::SHARED, stream,
                  p);
}

template <class T> static int launch_dtype(const cuda_call *call, const problem &p, void *stream)
{
    return call->head_dim == 64    ? launch_dim<T, 64>(call, p, stream)
           : call->head_dim == 128 ? launch_dim<T, 128>(call, p, stream)
                                   : launch_dim<T, 256>(call, p, stream);
}

static int launch_backward_queries(const cuda_call *call, const problem &p, void *stream)
{
    return call->dtype == DTYPE_BF16 ? launch_dtype<bf16>(call, p, stream) : launch_dtype<fp16>(call, p, stream);
}

int cuda_attention_load()
{
    int error = load_forward();
    if (!error)
        error = load_backward_keys();
    return error ? error
                 : load_kernels(backward_queries<bf16, 64>, backward_queries<bf16, 128>, backward_queries<bf16, 256>,
                                backward_queries<fp16, 64>, backward_queries<fp16, 128>, backward_queries<fp16, 256>);
}

// One launch for dQ, and one for each buffer's dK and dV.
int cuda_attention_backward(const cuda_call *call, const void *d_o, const float *lse, const float *delta, void *dq,
                            void *stream)
{
    if (!call_is_valid(call) || !tensor_is_valid(d_o, call->strides.d_o) || !tensor_is_valid(dq, call->strides.dq) ||
        (call->dkv_dtype != call->dtype && call->dkv_dtype != DTYPE_FP32))
        return CUDA_INVALID;
    for (uint32_t b = 0; b < call->n_keys; b++)
        if (!tensor_is_valid(call->keys[b].dk, call->keys[b].gradient) ||
            !tensor_is_valid(call->keys[b].dv, call->keys[b].gradient))
            return CUDA_INVALID;
    problem p = problem_of(call);
    p.d_o = {(const uint16_t *)d_o, call->strides.d_o};
    p.lse = {lse, call->strides.lse};
    p.delta = {delta, call->strides.delta};
    p.dq = {(uint16_t *)dq, call->strides.dq};
    p.dkv_fp32 = call->dkv_dtype == DTYPE_FP32;
    int error = launch_backward_queries(call, p, stream);
    for (uint32_t b = 0; b < call->n_keys && !error; b++)
        error = launch_backward_keys(call, p, call->keys[b], stream);
    return error;
}
