// backward_hopper.cu - dQ, dK and dV of a block of queries and its key buffers, on Hopper GPUs, from LSE and delta of
// the whole rows.
//
// backward_hopper.cuh has the division of the work. Products are the transposes of the forward's, S^T = K Q^T and
// dP^T = V dO^T, so that P^T and dS^T come out where dV += P^T dO and dK += dS^T Q want them. For dQ = dS K the keys of
// all warpgroups are needed: dS^T goes to shared memory, and is read from there along the queries. Two ways to divide a
// tile among two warpgroups:
//   head dims 64, 128: 128 keys, 64 for each, which has all of their dK and dV; P^T and dS^T stay in registers. Of dQ
//             one has the first 64 queries (head dim 64) or the first 64 numbers (128), the other the rest.
//   head dim 256: 64 keys, for their dK and dV fill the registers of both: each has half of the numbers of dK, dV, dQ,
//             and computes the weights of half of the queries for both; P^T goes through shared memory too.
//
// Order, tile by tile (at head dim 64 twice, for half of the queries; dQ follows both): S^T and dP^T are started;
// weights, while dP^T is computed; dV is started; dS^T, while it is; then dQ and dK are started; dQ is added to the
// workspace while dK is computed. Places of dS^T (and P^T) are two in turn: who writes the next but one has passed the
// barrier behind the next, which all reach only when they have done with the first. After FlashAttention-3 (Shah et
// al., 2024, arXiv:2407.08608).
//
// nvcc 13.0, registers a thread of consumers and producers (168 at the launch) and shared memory of a block, which has
// a processor to itself; no spills:
//   head dim  64: 128 keys x 128 queries, 240 and 24, 164 KiB
//   head dim 128: 128 keys x  64 queries, 240 and 24, 162 KiB
//   head dim 256:  64 keys x  64 queries, 240 and 24, 226 KiB
#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/hopper/backward_hopper.cuh"
#include "kernels/cuda/runtime.h"

enum { SCORES_ARE_THERE = 1, ALL_IS_DONE = 2 }; // named barriers, of the consumers

template <class T, int DIM>
DEVICE void consume_keys(const backward_arguments &arguments, const key_tile &tile, const backward_places<DIM> &places)
{
    using shape = backward_shape<DIM>;
    constexpr int KEYS = shape::KEYS, QUERIES = shape::QUERIES, PART = 64, PARTS = QUERIES / PART;
    const uint32_t w = warpgroup_index() - 1, warp_row = 64 * w + thread_index() % 128 / 32 * 16;
    const uint32_t own_k = places.k + 64 * w * ROW_BYTES, own_v = places.v + 64 * w * ROW_BYTES;
    const float scale_log2 = arguments.p.scale * LOG2_E;
    float dk[DIM / 8][4], dv[DIM / 8][4];
    uint32_t ds_words[PART / 16][4];
    clear(dk);
    clear(dv);
    barrier_wait(places.kv_full, 0);
    uint32_t n = 0;
    for (query_tiles walk(tile); walk.there(tile); walk.step(tile, QUERIES), n++) {
        const uint32_t scores = places.scores + n % 2 * shape::SCORE_TILE;
        places.q.wait(n);
        places.d_o.wait(n);
        places.numbers.wait(n);
#pragma unroll
        for (uint32_t part = 0; part < PARTS; part++) {
            const uint32_t q = places.q.place(n) + part * (PART * ROW_BYTES),
                           d_o = places.d_o.place(n) + part * (PART * ROW_BYTES),
                           numbers = places.numbers.place(n) + part * (4 * PART);
            float weights[PART / 8][4], slopes[PART / 8][4];
            uint32_t p_words[PART / 16][4];
            settle(weights);
            settle(slopes);
            products_fence();
            start_scores<T, DIM, KEYS, QUERIES>(weights, own_k, q);
            commit_products();
            start_scores<T, DIM, KEYS, QUERIES>(slopes, own_v, d_o);
            commit_products();
            wait_products<1>();
            settle(weights);
            settle(dk);
            settle(ds_words);
            weigh_transposed<QUERIES>(weights, numbers, tile.first + warp_row, scale_log2);
            pack_fragments<T>(p_words, weights);
            settle(p_words);
            settle(dv);
            products_fence();
            start_sums<T, QUERIES>(dv, p_words, d_o);
            commit_products();
            wait_products<1>();
            settle(slopes);
            slope_transposed(slopes, weights, numbers + 4 * QUERIES);
            pack_fragments<T>(ds_words, slopes);
            store_scores<KEYS>(scores, warp_row, part * PART, ds_words);
            if (part + 1 < PARTS) {
                settle(dk);
                settle(ds_words);
                products_fence();
                start_sums<T, QUERIES>(dk, ds_words, q);
                commit_products();
                wait_products<1>();
                settle(dv);
                settle(p_words);
            } else {
                places.numbers.release(n);
                async_fence();
                named_sync(SCORES_ARE_THERE, 128 * shape::CONSUMERS);
                // The warpgroup's 64 queries and 64 numbers of dQ.
                const uint32_t query_panel = PARTS > 1 ? w : 0, panel = PARTS > 1 ? 0 : w;
                float dq[8][4];
                settle(dq);
                settle(dk);
                settle(ds_words);
                products_fence();
                start_dq<T, KEYS>(dq, scores + query_panel * (KEYS * ROW_BYTES), places.k + panel * (KEYS * ROW_BYTES));
                commit_products();
                start_sums<T, QUERIES>(dk, ds_words, q);
                commit_products();
                wait_products<1>();
                settle(dv);
                settle(p_words);
                settle(dq);
                places.d_o.release(n);
                add_dq<DIM>(arguments, dq, tile.item, walk.head, walk.row + 64 * query_panel, panel);
                wait_products<0>();
                settle(dk);
                settle(ds_words);
                places.q.release(n);
            }
        }
    }
    named_sync(ALL_IS_DONE, 128 * shape::CONSUMERS); // K and V make room
    const uint32_t row = tile.first + warp_row, room = w * panels_bytes<DIM>(64);
    store_gradient_rows<T, DIM, DIM>(arguments, arguments.keys.dk, tile, row, 0, dk, arguments.p.scale,
                                     places.k + room);
    store_gradient_rows<T, DIM, DIM>(arguments, arguments.keys.dv, tile, row, 0, dv, 1, places.v + room);
}

template <class T>
DEVICE void consume_halves(const backward_arguments &arguments, const key_tile &tile,
                           const backward_places<256> &places)
{
    using shape = backward_shape<256>;
    constexpr int KEYS = shape::KEYS, QUERIES = shape::QUERIES, HALF = QUERIES / 2, WIDTH = 128;
    const uint32_t w = warpgroup_index() - 1, warp_row = thread_index() % 128 / 32 * 16;
    const uint32_t own_queries = HALF * w * ROW_BYTES, own_panels = 2 * w * (KEYS * ROW_BYTES);
    static_assert(KEYS == QUERIES, "panels of K and of Q are alike");
    const float scale_log2 = arguments.p.scale * LOG2_E;
    float dk[WIDTH / 8][4], dv[WIDTH / 8][4];
    clear(dk);
    clear(dv);
    barrier_wait(places.kv_full, 0);
    uint32_t n = 0;
    for (query_tiles walk(tile); walk.there(tile); walk.step(tile, QUERIES), n++) {
        const uint32_t q = places.q.place(n), d_o = places.d_o.place(n);
        const uint32_t numbers = places.numbers.place(n) + 4 * HALF * w;
        const uint32_t p_tile = places.scores + n % 2 * (2 * shape::SCORE_TILE), ds_tile = p_tile + shape::SCORE_TILE;
        float weights[HALF / 8][4], slopes[HALF / 8][4];
        places.q.wait(n);
        settle(weights);
        products_fence();
        start_scores<T, 256, KEYS, QUERIES>(weights, places.k, q + own_queries);
        commit_products();
        places.d_o.wait(n);
        settle(slopes);
        products_fence();
        start_scores<T, 256, KEYS, QUERIES>(slopes, places.v, d_o + own_queries);
        commit_products();
        places.numbers.wait(n);
        wait_products<1>();
        settle(weights);
        weigh_transposed<QUERIES>(weights, numbers, tile.first + warp_row, scale_log2);
        uint32_t words[HALF / 16][4];
        pack_fragments<T>(words, weights);
        store_scores<KEYS>(p_tile, warp_row, HALF * w, words);
        wait_products<0>();
        settle(slopes);
        slope_transposed(slopes, weights, numbers + 4 * QUERIES);
        places.numbers.release(n);
        pack_fragments<T>(words, slopes);
        store_scores<KEYS>(ds_tile, warp_row, HALF * w, words);
        async_fence();
        named_sync(SCORES_ARE_THERE, 128 * shape::CONSUMERS);
        float dq[WIDTH / 8][4];
        settle(dq);
        settle(dk);
        settle(dv);
        products_fence();
#pragma unroll
        for (uint32_t k = 0; k < QUERIES; k += 16)
            start_product<T, ALONG_K, ALONG_MN>(dv, along_k<KEYS>(p_tile, k), along_mn<QUERIES>(d_o + own_panels, k),
                                                true);
        commit_products();
        start_dq<T, KEYS>(dq, ds_tile, places.k + own_panels);
        commit_products();
#pragma unroll
        for (uint32_t k = 0; k < QUERIES; k += 16)
            start_product<T, ALONG_K, ALONG_MN>(dk, along_k<KEYS>(ds_tile, k), along_mn<QUERIES>(q + own_panels, k),
                                                true);
        commit_products();
        wait_products<1>();
        settle(dv);
        settle(dq);
        places.d_o.release(n);
        add_dq<256>(arguments, dq, tile.item, walk.head, walk.row, 2 * w);
        wait_products<0>();
        settle(dk);
        places.q.release(n);
    }
    named_sync(ALL_IS_DONE, 128 * shape::CONSUMERS); // K and V make room
    const uint32_t row = tile.first + warp_row, room = w * panels_bytes<WIDTH>(64);
    store_gradient_rows<T, 256, WIDTH>(arguments, arguments.keys.dk, tile, row, WIDTH * w, dk, arguments.p.scale,
                                       places.k + room);
    store_gradient_rows<T, 256, WIDTH>(arguments, arguments.keys.dv, tile, row, WIDTH * w, dv, 1, places.v + room);
}

template <class T, int DIM>
KERNEL(backward_shape<DIM>::THREADS, 1)
hopper_backward(const GRID_CONSTANT backward_arguments arguments)
{
    using shape = backward_shape<DIM>;
    const backward_places<DIM> places(shared_memory());
    if (thread_index() == 0) {
        barrier_init(places.kv_full, 1);
        places.q.init(1, 4 * shape::CONSUMERS);
        places.d_o.init(1, 4 * shape::CONSUMERS);
        places.numbers.init(32, 4 * shape::CONSUMERS);
        async_fence();
    }
    const key_tile tile = key_tile_of<DIM>(arguments, block_index());
    block_sync();
    if (warpgroup_index() == 0) {
        give_registers<shape::PRODUCER_REGISTERS>();
        if (thread_index() == 0)
            bring_tiles<DIM>(arguments, tile, places);
        else if (thread_index() / 32 == 1)
            bring_numbers<DIM>(arguments, tile, places);
    } else {
        take_registers<shape::CONSUMER_REGISTERS>();
        if constexpr (DIM == 256)
            consume_halves<T>(arguments, tile, places);
        else
            consume_keys<T, DIM>(arguments, tile, places);
    }
}

// ---- on the host ----

template <class T, int DIM>
static int launch_buffer(const cuda_call *call, map_maker maker, backward_arguments *arguments, const void *d_o,
                         void *stream)
{
    using shape = backward_shape<DIM>;
    const cuda_keys &keys = arguments->keys;
    const uint64_t tiles = ((uint64_t)keys.rows + shape::KEYS - 1) / shape::KEYS;
    const uint64_t blocks = tiles * call->kv_heads * call->items;
    if (blocks == 0)
        return 0;
    int error = 0;
    if (call->rows > 0 && call->q_heads > 0) { // else none is copied
        error = make_tile_map<DIM>(maker, &arguments->q, call->q, call->strides.q, call->rows, call->q_heads,
                                   call->items, shape::QUERIES);
        if (!error)
            error = make_tile_map<DIM>(maker, &arguments->d_o, d_o, call->strides.d_o, call->rows, call->q_heads,
                                       call->items, shape::QUERIES);
    }
    if (!error)
        error = make_tile_map<DIM>(maker, &arguments->k, keys.k, keys.strides, keys.rows, call->kv_heads, call->items,
                                   shape::KEYS);
    if (!error)
        error = make_tile_map<DIM>(maker, &arguments->v, keys.v, keys.strides, keys.rows, call->kv_heads, call->items,
                                   shape::KEYS);
    return error ? error : launch(hopper_backward<T, DIM>, blocks, shape::THREADS, shape::SHARED, stream, *arguments);
}

template <class T>
static int launch_dtype(const cuda_call *call, map_maker maker, backward_arguments *arguments, const void *d_o,
                        void *stream)
{
    return call->head_dim == 64    ? launch_buffer<T, 64>(call, maker, arguments, d_o, stream)
           : call->head_dim == 128 ? launch_buffer<T, 128>(call, maker, arguments, d_o, stream)
                                   : launch_buffer<T, 256>(call, maker, arguments, d_o, stream);
}

static bool backward_is_valid(const cuda_call *call, const void *d_o, const void *dq)
{
    if (!call_is_valid(call) || !tensor_is_valid(d_o, call->strides.d_o) || !tensor_is_valid(dq, call->strides.dq) ||
        (call->dkv_dtype != call->dtype && call->dkv_dtype != DTYPE_FP32))
        return false;
    for (uint32_t b = 0; b < call->n_keys; b++)
        if (!tensor_is_valid(call->keys[b].dk, call->keys[b].gradient) ||
            !tensor_is_valid(call->keys[b].dv, call->keys[b].gradient))
            return false;
    return true;
}

int load_hopper_backward()
{
    const int error = load_dq();
    return error ? error
                 : load_kernels(hopper_backward<bf16, 64>, hopper_backward<bf16, 128>, hopper_backward<bf16, 256>,
                                hopper_backward<fp16, 64>, hopper_backward<fp16, 128>, hopper_backward<fp16, 256>);
}

int cuda_hopper_backward(const cuda_call *call, const void *d_o, const float *lse, const float *delta, void *dq,
                         void *workspace, void *stream)
{
    const map_maker maker = find_map_maker();
    if (!backward_is_valid(call, d_o, dq) || !maker)
        return CUDA_INVALID;
    const size_t bytes = cuda_hopper_workspace(call, true);
    if (bytes > 0 && (!workspace || (uintptr_t)workspace % 256 != 0))
        return CUDA_INVALID;
    backward_arguments arguments;
    arguments.p = problem_of(call);
    arguments.p.d_o = {(const uint16_t *)d_o, call->strides.d_o};
    arguments.p.lse = {lse, call->strides.lse};
    arguments.p.delta = {delta, call->strides.delta};
    arguments.p.dq = {(uint16_t *)dq, call->strides.dq};
    arguments.p.dkv_fp32 = call->dkv_dtype == DTYPE_FP32;
    arguments.dq_sums = (four *)workspace;
    int error = bytes > 0 ? cuda_fill(workspace, 0, bytes, stream) : 0;
    for (uint32_t b = 0; b < call->n_keys && !error; b++) {
        arguments.keys = call->keys[b];
        error = call->dtype == DTYPE_BF16 ? launch_dtype<bf16>(call, maker, &arguments, d_o, stream)
                                          : launch_dtype<fp16>(call, maker, &arguments, d_o, stream);
    }
    return error ? error : launch_dq(call, arguments.p, arguments.dq_sums, stream);
}
