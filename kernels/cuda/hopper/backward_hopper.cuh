// backward_hopper.cuh - what the parts of the backward pass on Hopper GPUs share: arguments, walk, places, sums of dQ.
//
// A thread block has a tile of keys of one KV head; K and V stay in shared memory. Tiles of queries that see some of
// them pass, for every query head of the KV head. dK and dV of the tile are thus one thread block's, and written once.
// dQ of a tile of queries is a sum over thread blocks: each adds its part to fp32 numbers in the workspace, by atomic
// additions. These numbers lie as fragments do (dq_unit), so that a warp adds to 512 bytes on end; dq_hopper.cu makes
// dQ of them.
#ifndef CPSIM_KERNELS_CUDA_BACKWARD_HOPPER_CUH
#define CPSIM_KERNELS_CUDA_BACKWARD_HOPPER_CUH

#include "kernels/cuda/hopper/ring.cuh"
#include "kernels/cuda/hopper/tile_hopper.cuh"
#include "kernels/cuda/tile.cuh"

// Sums of dQ: of 64 queries and 64 numbers of a head each, 128 threads with 8 fours, four n of all threads on end:
// thread's c[n] of a product of 64 x 64.
constexpr uint32_t UNIT_FOURS = 8 * 128;

HOST_DEVICE uint64_t unit_rows(uint32_t rows) // in units; a tile of queries has up to two
{
    return ((uint64_t)rows + 127) / 128 * 2;
}

struct backward_arguments {
    problem p;
    cuda_keys keys;
    tensor_map q, d_o, k, v;
    four *dq_sums;
};

template <int DIM> struct backward_shape {
    static constexpr int CONSUMERS = 2, THREADS = 128 * (CONSUMERS + 1), PLACES = 2;
    static constexpr int KEYS = DIM == 256 ? 64 : 128, QUERIES = DIM == 64 ? 128 : 64;
    static constexpr uint32_t KEY_TILE = panels_bytes<DIM>(KEYS), QUERY_TILE = panels_bytes<DIM>(QUERIES);
    // dS, and at head dim 256 P: a row of queries for each key, in panels of 64 queries.
    static constexpr uint32_t SCORE_TILE = KEYS * QUERIES * 2, SCORE_TILES = DIM == 256 ? 2 : 1;
    static constexpr uint32_t NUMBERS = 4 * 4 * QUERIES; // of each query LSE (of base 2), delta, from, to
    static constexpr uint32_t TILES = 2 * KEY_TILE + PLACES * (2 * QUERY_TILE + SCORE_TILES * SCORE_TILE);
    static constexpr uint32_t SHARED = TILES + PLACES * NUMBERS + 3 * ring<PLACES>::BYTES + 8;
    static constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
    static_assert(PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS <= group_registers(CONSUMERS + 1), "a block's");
    static_assert(SHARED <= 227 * 1024, "shared memory of a block");
};

template <int DIM> struct backward_places {
    uint32_t k, v, kv_full, scores;
    ring<2> q, d_o, numbers;

    DEVICE explicit backward_places(uint32_t shared)
    {
        using shape = backward_shape<DIM>;
        const uint32_t queries = shared + 2 * shape::KEY_TILE, barriers = shared + shape::TILES + 2 * shape::NUMBERS;
        k = shared;
        v = k + shape::KEY_TILE;
        q = {barriers, queries, shape::QUERY_TILE};
        d_o = {barriers + ring<2>::BYTES, queries + 2 * shape::QUERY_TILE, shape::QUERY_TILE};
        scores = queries + 4 * shape::QUERY_TILE;
        numbers = {barriers + 2 * ring<2>::BYTES, shared + shape::TILES, shape::NUMBERS};
        kv_full = barriers + 3 * ring<2>::BYTES;
    }
};

// What a thread block is for: keys from `first` on, those that there are, and who sees them: query heads [first_head,
// end_head) and rows [first_row, end_row), the first a multiple of a tile's.
struct key_tile {
    uint32_t first, there, item, kv_head;
    uint32_t first_head, end_head, first_row, end_row;
};

// Tiles of queries, head by head.
struct query_tiles {
    uint32_t row, head;

    DEVICE explicit query_tiles(const key_tile &tile)
        : row(tile.first_row), head(tile.first_row < tile.end_row ? tile.first_head : tile.end_head)
    {
    }
    DEVICE bool there(const key_tile &tile) const
    {
        return head < tile.end_head;
    }
    DEVICE void step(const key_tile &tile, uint32_t rows)
    {
        row += rows;
        if (row >= tile.end_row) {
            row = tile.first_row;
            head++;
        }
    }
};

template <int DIM> DEVICE key_tile key_tile_of(const backward_arguments &arguments, uint32_t block)
{
    using shape = backward_shape<DIM>;
    const problem &p = arguments.p;
    const cuda_keys &keys = arguments.keys;
    const uint32_t tiles = (keys.rows + shape::KEYS - 1) / shape::KEYS, kv_lane = block / tiles;
    key_tile tile;
    tile.first = block % tiles * shape::KEYS;
    tile.there = lesser(shape::KEYS, keys.rows - tile.first);
    tile.item = kv_lane / p.kv_heads;
    tile.kv_head = kv_lane % p.kv_heads;
    const uint32_t before = tile.kv_head * p.group; // query heads of other KV heads, if the call began with a KV head's
    tile.first_head = before > p.group_offset ? before - p.group_offset : 0;
    tile.end_head = before + p.group > p.group_offset ? lesser(p.q_heads, before + p.group - p.group_offset) : 0;
    tile.first_row = first_row_at_least<shape::THREADS>(keys.to, p.rows, (int32_t)tile.first + 1);
    tile.end_row = first_row_at_least<shape::THREADS>(keys.from, p.rows, (int32_t)(tile.first + tile.there));
    tile.first_row -= tile.first_row % shape::QUERIES;
    return tile;
}

// ---- the producers: one thread for tiles, one warp for numbers ----

template <int DIM>
DEVICE void bring_tiles(const backward_arguments &arguments, const key_tile &tile, const backward_places<DIM> &places)
{
    using shape = backward_shape<DIM>;
    barrier_expect(places.kv_full, 2 * shape::KEY_TILE);
    copy_tile<DIM>(places.k, &arguments.k, tile.first, tile.kv_head, tile.item, places.kv_full);
    copy_tile<DIM>(places.v, &arguments.v, tile.first, tile.kv_head, tile.item, places.kv_full);
    uint32_t n = 0;
    for (query_tiles walk(tile); walk.there(tile); walk.step(tile, shape::QUERIES), n++) {
        places.q.claim(n, shape::QUERY_TILE);
        copy_tile<DIM>(places.q.place(n), &arguments.q, walk.row, walk.head, tile.item, places.q.full(n));
        places.d_o.claim(n, shape::QUERY_TILE);
        copy_tile<DIM>(places.d_o.place(n), &arguments.d_o, walk.row, walk.head, tile.item, places.d_o.full(n));
    }
}

// Queries that there are not see nothing.
template <int DIM>
DEVICE void bring_numbers(const backward_arguments &arguments, const key_tile &tile, const backward_places<DIM> &places)
{
    constexpr uint32_t QUERIES = backward_shape<DIM>::QUERIES;
    const problem &p = arguments.p;
    uint32_t n = 0;
    for (query_tiles walk(tile); walk.there(tile); walk.step(tile, QUERIES), n++) {
        places.numbers.claim(n);
#pragma unroll 1
        for (uint32_t i = lane_index(); i < QUERIES; i += 32) {
            const uint32_t row = walk.row + i, at = places.numbers.place(n) + 4 * i;
            const bool there = row < p.rows;
            const float lse = there ? global_load(p.lse.at(row, tile.item, walk.head, 1)) : 0;
            const float delta = there ? global_load(p.delta.at(row, tile.item, walk.head, 1)) : 0;
            shared_store_word(at, bits_of(lse * LOG2_E));
            shared_store_word(at + 4 * QUERIES, bits_of(delta));
            const int32_t from = there ? global_load(&arguments.keys.from[row]) : 0;
            const int32_t to = there ? global_load(&arguments.keys.to[row]) : 0;
            shared_store_word(at + 8 * QUERIES, (uint32_t)from);
            shared_store_word(at + 12 * QUERIES, (uint32_t)(to < from ? from : to)); // a run of no keys
        }
        barrier_arrive(places.numbers.full(n));
    }
}

// ---- of products [16 keys of a warp x 8 N8 queries] ----

// Scores to weights. `numbers` are those of the tile's QUERIES queries, from the product's first on; `key` is the
// warp's first.
template <int QUERIES, int N8>
DEVICE void weigh_transposed(float (&scores)[N8][4], uint32_t numbers, uint32_t key, float scale_log2)
{
    const uint32_t g = lane_index() / 4, t = lane_index() % 4, from = numbers + 8 * QUERIES, to = from + 4 * QUERIES;
#pragma unroll
    for (uint32_t n = 0; n < N8; n++) {
        const pair lse = shared_load_pair(numbers + 4 * (8 * n + 2 * t));
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            scores[n][i] = exp2_fast(multiply_add(scores[n][i], scale_log2, -(i % 2 ? lse.second : lse.first)));
    }
    // Runs only move on, so the first and the last query tell whether all see all: those that there are not, at the
    // end, see nothing.
    if ((int32_t)shared_load_word(from + 4 * (8 * N8 - 1)) <= (int32_t)key &&
        (int32_t)shared_load_word(to) >= (int32_t)key + 16 && shared_load_word(to + 4 * (8 * N8 - 1)) > 0)
        return;
#pragma unroll
    for (uint32_t n = 0; n < N8; n++)
#pragma unroll
        for (uint32_t odd = 0; odd < 2; odd++) {
            const uint32_t query = 4 * (8 * n + 2 * t + odd), first = shared_load_word(from + query),
                           count = shared_load_word(to + query) - first, own = key + g - first;
            scores[n][odd] = own < count ? scores[n][odd] : 0;
            scores[n][2 + odd] = own + 8 < count ? scores[n][2 + odd] : 0;
        }
}

// dP to dS = P (dP - delta); `delta` is that of the product's first query on.
template <int N8> DEVICE void slope_transposed(float (&slopes)[N8][4], const float (&weights)[N8][4], uint32_t delta)
{
    const uint32_t t = lane_index() % 4;
#pragma unroll
    for (uint32_t n = 0; n < N8; n++) {
        const pair of = shared_load_pair(delta + 4 * (8 * n + 2 * t));
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            slopes[n][i] = weights[n][i] * (slopes[n][i] - (i % 2 ? of.second : of.first));
    }
}

// Writes fragments to rows [row, row + 16), queries from `query` (a multiple of 16) on, of a tile of scores. Swizzling
// xors the chunk of a row with g, whatever the row.
template <int KEYS, int K>
DEVICE void store_scores(uint32_t tile, uint32_t row, uint32_t query, const uint32_t (&words)[K][4])
{
    const uint32_t g = lane_index() / 4, t = lane_index() % 4, own = tile + (row + g) * ROW_BYTES + 16 * g + 4 * t;
#pragma unroll
    for (uint32_t k = 0; k < K; k++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t chunk = query / 8 + 2 * k + i / 2;
            shared_store_word((own ^ 16 * (chunk % 8)) + chunk / 8 * (KEYS * ROW_BYTES) + i % 2 * 8 * ROW_BYTES,
                              words[k][i]);
        }
}

// Starts c[64 queries x 8 N8] = dS K along the KEYS of tiles: `scores` is a panel of 64 queries, `k` the first panel of
// numbers.
template <class T, int KEYS, int N8> DEVICE void start_dq(float (&c)[N8][4], uint32_t scores, uint32_t k)
{
#pragma unroll
    for (uint32_t key = 0; key < KEYS; key += 16)
        start_product<T, ALONG_MN, ALONG_MN>(c, along_mn<KEYS>(scores, key), along_mn<KEYS>(k, key), key > 0);
}

// Adds a product of 64 queries from `row` on x 8 N8 numbers from panel `panel` on to the sums.
template <int DIM, int N8>
DEVICE void add_dq(const backward_arguments &arguments, const float (&c)[N8][4], uint32_t item, uint32_t head,
                   uint32_t row, uint32_t panel)
{
    const problem &p = arguments.p;
    const uint64_t unit = (((uint64_t)item * p.q_heads + head) * unit_rows(p.rows) + row / 64) * (DIM / 64) + panel;
    four *to = arguments.dq_sums + unit * UNIT_FOURS + thread_index() % 128;
#pragma unroll
    for (uint32_t n = 0; n < N8; n++)
        global_add(to + n * 128, four{{c[n][0], c[n][1], c[n][2], c[n][3]}});
}

// Writes rows [row, row + 16) x WIDTH numbers of dK or dV, from number `column` of the KV head on; `tile` has room for
// 64 rows, of which the warp's are its own.
template <class T, int DIM, int WIDTH>
DEVICE void store_gradient_rows(const backward_arguments &arguments, void *gradient, const key_tile &tile, uint32_t row,
                                uint32_t column, const float (&sums)[WIDTH / 8][4], float factor, uint32_t room)
{
    const cuda_keys &keys = arguments.keys;
    const uint64_t at =
        (uint64_t)row * keys.gradient.row + tile.item * keys.gradient.item + (uint64_t)tile.kv_head * DIM + column;
    const uint32_t there = row < keys.rows ? keys.rows - row : 0;
    const float factors[2] = {factor, factor};
    if (arguments.p.dkv_fp32)
        store_rows_fp32<WIDTH>((float *)gradient + at, keys.gradient.row, there, sums, factor);
    else
        store_rows<T, WIDTH>((uint16_t *)gradient + at, keys.gradient.row, there, sums, factors, room,
                             thread_index() % 128 / 32 * 16);
}

// Queues the making of dQ from the sums.
int launch_dq(const cuda_call *call, const problem &p, const four *sums, void *stream);

int load_dq();
int load_hopper_backward(); // with load_dq

#endif
