// forward_hopper.cu - O and LSE of a block of queries against its key buffers, on Hopper GPUs.
//
// A thread block has a tile of queries of one head: 64 of them for each warpgroup that computes (a consumer). One
// thread of another warpgroup, the producer, walks over the key tiles and queues their copies, K and V each through a
// ring of two places. After FlashAttention-3 (Shah et al., 2024, arXiv:2407.08608), two overlaps of softmax with
// products:
// - within a warpgroup: S = Q K^T of the next key tile is started before O += P V of the current one, and its softmax
//   is computed while the latter runs;
// - between warpgroups: they take turns in starting products, so that one's softmax meets another's products.
//
// Order in a consumer, tile by tile: S(n+1) started, O += P(n) V(n) started; S(n+1) is waited for, K(n+1) released,
// weights taken; O is waited for, V(n) released; O is multiplied by what the new maximum makes of the old one's
// weights, and P(n+1) becomes operand. Each warp releases what it has waited for itself.
//
// nvcc 13.0, registers a thread of consumers and producer (at the launch: 128 with three consumers, 168 with two) and
// shared memory of a block, which has a processor to itself; no spills, but for 4 bytes at head dim 256:
//   head dim  64: 192 queries x 128 keys, 160 and 32,  88 KiB
//   head dim 128: 128 queries x 128 keys, 240 and 24, 160 KiB
//   head dim 256: 128 queries x  80 keys, 240 and 24, 224 KiB
#include "kernels/cuda/attention_hopper.h"
#include "kernels/cuda/hopper/forward_maps.cuh"
#include "kernels/cuda/hopper/ring.cuh"
#include "kernels/cuda/hopper/tile_hopper.cuh"
#include "kernels/cuda/softmax.cuh"

template <int DIM> struct hopper_shape {
    static constexpr int CONSUMERS = DIM == 64 ? 3 : 2, THREADS = 128 * (CONSUMERS + 1);
    static constexpr int ROWS = 64 * CONSUMERS, COLUMNS = DIM == 256 ? 80 : 128, PLACES = 2;
    static constexpr uint32_t Q_TILE = panels_bytes<DIM>(64), KEY_TILE = panels_bytes<DIM>(COLUMNS);
    static constexpr uint32_t TILES = CONSUMERS * Q_TILE + 2 * PLACES * KEY_TILE;
    static constexpr uint32_t SHARED = TILES + 2 * ring<PLACES>::BYTES + 8; // barriers behind the tiles
    // Of the 64K registers; multiples of 8.
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 24, CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : 240;
    static_assert(PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS <= group_registers(CONSUMERS + 1), "a block's");
};

template <int DIM> struct hopper_places {
    uint32_t q, q_full;
    ring<2> k, v;
};

template <int DIM> DEVICE hopper_places<DIM> places_of(uint32_t shared)
{
    using shape = hopper_shape<DIM>;
    hopper_places<DIM> places;
    const uint32_t keys = shared + shape::CONSUMERS * shape::Q_TILE, barriers = shared + shape::TILES;
    places.q = shared;
    places.k = {barriers, keys, shape::KEY_TILE};
    places.v = {barriers + ring<2>::BYTES, keys + shape::PLACES * shape::KEY_TILE, shape::KEY_TILE};
    places.q_full = barriers + 2 * ring<2>::BYTES;
    return places;
}

// ---- the producer ----

template <int DIM>
DEVICE void produce(const forward_arguments &arguments, const query_tile &tile, const hopper_places<DIM> &places)
{
    using shape = hopper_shape<DIM>;
    const problem &p = arguments.p;
    key_walk<shape::COLUMNS> walk = {};
    barrier_expect(places.q_full, shape::CONSUMERS * shape::Q_TILE);
    for (uint32_t w = 0; w < shape::CONSUMERS; w++)
        copy_tile<DIM>(places.q + w * shape::Q_TILE, &arguments.q, tile.row + 64 * w, tile.head, tile.item,
                       places.q_full);
    const key_maps *previous = nullptr;
    uint32_t v_row = 0, n = 0;
    // V follows one tile behind K, as it is used.
    auto bring_v = [&](uint32_t number) {
        places.v.claim(number, shape::KEY_TILE);
        copy_tile<DIM>(places.v.place(number), &previous->v, v_row, tile.kv_head, tile.item, places.v.full(number));
    };
    for (walk.start(p, tile); walk.there(p); walk.step(p, tile), n++) {
        const key_maps *maps = maps_of(arguments, walk.buffer);
        places.k.claim(n, shape::KEY_TILE);
        copy_tile<DIM>(places.k.place(n), &maps->k, (uint32_t)walk.column, tile.kv_head, tile.item, places.k.full(n));
        if (n > 0)
            bring_v(n - 1);
        previous = maps;
        v_row = (uint32_t)walk.column;
    }
    if (n > 0)
        bring_v(n - 1);
}

// ---- a consumer ----

// What the warp's 16 rows see of a tile, for masking alone: all warps compute all tiles. Of row g + 8 half a lane's
// column 8n + 2t + odd is seen if 8n + odd + first[half], unsigned, is below count[half].
struct seen_columns {
    bool all;
    uint32_t first[2], count[2];
};

template <int COLUMNS>
DEVICE seen_columns columns_of(const problem &p, const key_walk<COLUMNS> &walk, uint32_t row, uint32_t last_row)
{
    const int32_t *from = walk.global_from(p), *to = walk.global_to(p);
    const uint32_t g = lane_index() / 4, t = lane_index() % 4, last = lesser(row + 15, last_row);
    seen_columns seen;
    seen.all = row <= last_row && global_load(&from[last]) <= walk.column &&
               global_load(&to[lesser(row, last_row)]) >= walk.column + COLUMNS;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t own = lesser(row + g + 8 * half, last_row); // rows that there are not are like the last one
        const int32_t begin = global_load(&from[own]), end = global_load(&to[own]);
        seen.first[half] = 2 * t + (uint32_t)walk.column - (uint32_t)begin;
        seen.count[half] = begin < end ? (uint32_t)(end - begin) : 0;
    }
    return seen;
}

// Scores of keys that a row does not see become -inf.
template <int N8> DEVICE void mask_scores(float (&scores)[N8][4], const seen_columns &seen)
{
    if (seen.all)
        return;
#pragma unroll
    for (uint32_t n = 0; n < N8; n++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            scores[n][i] = 8 * n + i % 2 + seen.first[i / 2] < seen.count[i / 2] ? scores[n][i] : -INFINITY;
}

// Turns in starting products: named barrier 1 + w is passed by warpgroup w when the one before it has had its turn.
DEVICE void take_turn(uint32_t w)
{
    named_sync(1 + w, 256);
}

template <int CONSUMERS> DEVICE void pass_turn(uint32_t w)
{
    named_arrive(1 + (w + 1 == CONSUMERS ? 0 : w + 1), 256);
}

template <class T, int DIM>
DEVICE void consume(const problem &p, const query_tile &tile, const hopper_places<DIM> &places)
{
    using shape = hopper_shape<DIM>;
    constexpr int N8 = shape::COLUMNS / 8, TURNS = shape::CONSUMERS;
    const uint32_t w = warpgroup_index() - 1, q = places.q + w * shape::Q_TILE;
    const uint32_t warp_row = thread_index() % 128 / 32 * 16, row = tile.row + 64 * w + warp_row;
    const uint32_t last_row = tile.row + tile.rows - 1;
    const float scale_log2 = p.scale * LOG2_E;

    float sums[DIM / 8][4], scores[N8][4], keep[2];
    uint32_t weights[N8 / 2][4];
    softmax state = {{-INFINITY, -INFINITY}, {0, 0}};
    clear(sums);
    key_walk<shape::COLUMNS> walk = {};
    walk.start(p, tile);
    barrier_wait(places.q_full, 0);
    if (walk.there(p)) {
        if (w + 1 == TURNS)
            pass_turn<TURNS>(w); // the first turn is warpgroup 0's
        seen_columns seen = columns_of(p, walk, row, last_row);
        places.k.wait(0);
        take_turn(w);
        settle(scores);
        products_fence();
        start_scores<T, DIM, 64, shape::COLUMNS>(scores, q, places.k.place(0));
        commit_products();
        pass_turn<TURNS>(w);
        wait_products<0>();
        settle(scores);
        places.k.release(0);
        mask_scores(scores, seen);
        take_weights(scores, scale_log2, state, keep);
        pack_fragments<T>(weights, scores);
        uint32_t n = 0;
        // Products are started in straight lines of code: where paths meet, the compiler would wait for them at once.
        for (walk.step(p, tile); walk.there(p); walk.step(p, tile), n++) {
            seen = columns_of(p, walk, row, last_row);
            places.k.wait(n + 1);
            take_turn(w);
            settle(sums);
            settle(scores);
            settle(weights);
            products_fence();
            start_scores<T, DIM, 64, shape::COLUMNS>(scores, q, places.k.place(n + 1));
            commit_products();
            places.v.wait(n);
            products_fence();
            start_sums<T, shape::COLUMNS>(sums, weights, places.v.place(n));
            commit_products();
            pass_turn<TURNS>(w);
            wait_products<1>();
            settle(scores);
            places.k.release(n + 1);
            mask_scores(scores, seen);
            take_weights(scores, scale_log2, state, keep);
            wait_products<0>();
            settle(sums);
            settle(weights);
            places.v.release(n);
#pragma unroll
            for (uint32_t d = 0; d < DIM / 8; d++)
#pragma unroll
                for (uint32_t i = 0; i < 4; i++)
                    sums[d][i] *= keep[i / 2];
            pack_fragments<T>(weights, scores);
        }
        places.v.wait(n);
        take_turn(w);
        settle(sums);
        settle(weights);
        products_fence();
        start_sums<T, shape::COLUMNS>(sums, weights, places.v.place(n));
        commit_products();
        if (w + 1 < TURNS)
            pass_turn<TURNS>(w); // nobody waits for what would follow the last turn
        wait_products<0>();
        settle(sums);
        settle(weights);
    }

    float factor[2];
    finish_rows(p, tile, row, last_row, state, factor);
    // O leaves by way of the warpgroup's own queries, when none of its warps needs them any more.
    named_sync(1 + TURNS + w, 128);
    store_rows<T, DIM>(p.o.at(row, tile.item, tile.head, DIM), p.o.strides.row, row > last_row ? 0 : last_row + 1 - row,
                       sums, factor, q, warp_row);
}

template <class T, int DIM>
KERNEL(hopper_shape<DIM>::THREADS, 1)
hopper_forward(const GRID_CONSTANT forward_arguments arguments)
{
    using shape = hopper_shape<DIM>;
    const query_tile tile = query_tile_of<shape::ROWS>(arguments.p, block_index());
    const hopper_places<DIM> places = places_of<DIM>(shared_memory());
    if (thread_index() == 0) {
        barrier_init(places.q_full, 1);
        places.k.init(1, 4 * shape::CONSUMERS);
        places.v.init(1, 4 * shape::CONSUMERS);
        async_fence();
    }
    block_sync();
    if (warpgroup_index() == 0) {
        give_registers<shape::PRODUCER_REGISTERS>();
        if (thread_index() == 0)
            produce<DIM>(arguments, tile, places);
    } else {
        take_registers<shape::CONSUMER_REGISTERS>();
        consume<T, DIM>(arguments.p, tile, places);
    }
}

// ---- on the host ----

template <class T, int DIM>
static int launch_forward(const cuda_call *call, const problem &p, void *workspace, void *stream)
{
    using shape = hopper_shape<DIM>;
    const uint64_t tiles = ((uint64_t)call->rows + shape::ROWS - 1) / shape::ROWS;
    const uint64_t blocks = tiles * call->q_heads * call->items;
    forward_arguments arguments;
    if (blocks == 0)
        return 0;
    arguments.p = p;
    const int error = make_forward_maps<DIM>(call, 64, shape::COLUMNS, &arguments, workspace, stream);
    return error ? error : launch(hopper_forward<T, DIM>, blocks, shape::THREADS, shape::SHARED, stream, arguments);
}

template <class T> static int launch_dtype(const cuda_call *call, const problem &p, void *workspace, void *stream)
{
    return call->head_dim == 64    ? launch_forward<T, 64>(call, p, workspace, stream)
           : call->head_dim == 128 ? launch_forward<T, 128>(call, p, workspace, stream)
                                   : launch_forward<T, 256>(call, p, workspace, stream);
}

int load_hopper_forward()
{
    const int error = load_maps();
    return error ? error
                 : load_kernels(hopper_forward<bf16, 64>, hopper_forward<bf16, 128>, hopper_forward<bf16, 256>,
                                hopper_forward<fp16, 64>, hopper_forward<fp16, 128>, hopper_forward<fp16, 256>);
}

int cuda_hopper_forward(const cuda_call *call, void *o, float *lse, void *workspace, void *stream)
{
    if (!call_is_valid(call) || !tensor_is_valid(o, call->strides.o) ||
        (cuda_hopper_workspace(call, false) > 0 && !workspace))
        return CUDA_INVALID;
    problem p = problem_of(call);
    p.o = {(uint16_t *)o, call->strides.o};
    p.lse_out = {lse, call->strides.lse};
    return call->dtype == DTYPE_BF16 ? launch_dtype<bf16>(call, p, workspace, stream)
                                     : launch_dtype<fp16>(call, p, workspace, stream);
}
