// problem.cuh - what the attention kernels are given, and their walks over tiles.
#ifndef CPSIM_KERNELS_CUDA_PROBLEM_CUH
#define CPSIM_KERNELS_CUDA_PROBLEM_CUH

#include "kernels/cuda/attention_cuda.h"
#include "kernels/cuda/device.cuh"

// A tensor of queries: numbers of a kind.
template <class E> struct query_array {
    E *first;
    cuda_strides strides;

    DEVICE E *at(uint64_t row, uint32_t item, uint32_t head, uint32_t width) const
    {
        return first + row * strides.row + item * strides.item + (uint64_t)head * width;
    }
};

struct problem {
    uint32_t rows, q_heads, kv_heads, group, group_offset;
    uint32_t n_keys;
    const cuda_keys *keys; // in device memory
    float scale;
    query_array<const uint16_t> q, d_o;
    query_array<const float> lse, delta; // backward
    query_array<uint16_t> o, dq;
    query_array<float> lse_out;
    bool dkv_fp32;
};

DEVICE const uint16_t *rows_from(const void *tensor, const cuda_strides &strides, uint64_t row, uint32_t item,
                                 uint32_t head, uint32_t dim)
{
    return (const uint16_t *)tensor + row * strides.row + item * strides.item + (uint64_t)head * dim;
}

DEVICE uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// The first row whose number is at least `bound`; `rows` where none is. Numbers never fall. For the whole block: each
// round narrows the search to one of as many stretches as there are threads.
template <int THREADS> DEVICE uint32_t first_row_at_least(const int32_t *numbers, uint32_t rows, int32_t bound)
{
    uint32_t low = 0, high = rows;
    while (low < high) {
        const uint32_t stretch = (high - low - 1) / THREADS + 1;
        const uint64_t last = low + (uint64_t)stretch * thread_index() + stretch - 1;
        const uint32_t below = block_count(last < high && global_load(&numbers[last < high ? last : low]) < bound);
        low += below * stretch;
        high = lesser(high, low + stretch - 1);
    }
    return low;
}

// A tile of queries of one head and item: what a thread block of the forward and the dQ kernel is for. Blocks of one
// head follow each other, the last rows first: under a causal mask these have the most to do.
struct query_tile {
    uint32_t row, rows; // first row, rows that there are
    uint32_t head, item, kv_head;
};

template <int ROWS> DEVICE query_tile query_tile_of(const problem &p, uint32_t block)
{
    const uint32_t tiles = (p.rows + ROWS - 1) / ROWS, lane = block / tiles;
    query_tile tile;
    tile.row = (tiles - 1 - block % tiles) * ROWS;
    tile.rows = lesser(ROWS, p.rows - tile.row);
    tile.item = lane / p.q_heads;
    tile.head = lane % p.q_heads;
    tile.kv_head = (p.group_offset + tile.head) / p.group;
    return tile;
}

// The key tiles that a tile of queries sees something of, one after the other, buffer after buffer. No tile is cut at
// fixed places: a buffer's first begins where the first row's run does.
template <int COLUMNS> struct key_walk {
    uint32_t buffer;
    int32_t column, end; // of the current tile; of what is seen of the buffer

    DEVICE void enter(const problem &p, const query_tile &tile)
    {
        for (; buffer < p.n_keys; buffer++) {
            column = global_load(&global_from(p)[tile.row]);
            end = global_load(&global_to(p)[tile.row + tile.rows - 1]);
            if (column < end)
                return;
        }
    }
    DEVICE const int32_t *global_from(const problem &p) const
    {
        return global_load(&p.keys[buffer].from);
    }
    DEVICE const int32_t *global_to(const problem &p) const
    {
        return global_load(&p.keys[buffer].to);
    }
    DEVICE void start(const problem &p, const query_tile &tile)
    {
        buffer = 0;
        enter(p, tile);
    }
    DEVICE void step(const problem &p, const query_tile &tile)
    {
        column += COLUMNS;
        if (column >= end) {
            buffer++;
            enter(p, tile);
        }
    }
    DEVICE bool there(const problem &p) const
    {
        return buffer < p.n_keys;
    }
};

// What 16 rows see of COLUMNS columns from `column` on. Rows that there are not are taken for the last one.
struct sight {
    bool nothing, all;
    int32_t from[2], to[2]; // of rows g and g + 8: the run of columns, when part is seen
};

template <int COLUMNS>
DEVICE sight sight_of(const int32_t *from, const int32_t *to, uint32_t row, uint32_t last_row, int32_t column)
{
    sight seen;
    seen.nothing = row > last_row;
    if (seen.nothing)
        return seen;
    const uint32_t last = lesser(row + 15, last_row), g = lane_index() / 4;
    seen.nothing = global_load(&from[row]) >= column + COLUMNS || global_load(&to[last]) <= column;
    seen.all = global_load(&from[last]) <= column && global_load(&to[row]) >= column + COLUMNS;
    if (!seen.nothing && !seen.all)
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t own = lesser(row + g + 8 * half, last_row);
            seen.from[half] = global_load(&from[own]) - column;
            seen.to[half] = global_load(&to[own]) - column;
        }
    return seen;
}

// Whether number i of c[n] (columns 8n + 2t and the next, rows g and g + 8) is seen.
DEVICE bool is_seen(const sight &seen, uint32_t n, uint32_t i)
{
    const int32_t column = (int32_t)(8 * n + 2 * (lane_index() % 4) + i % 2);
    return column >= seen.from[i / 2] && column < seen.to[i / 2];
}

// ---- on the host: loading, a call's rules, and its form for the kernels ----

// Of forward.cu; the others are backward.cuh's.
int load_forward();

static inline problem problem_of(const cuda_call *call)
{
    problem p = {};
    p.rows = call->rows;
    p.q_heads = call->q_heads;
    p.kv_heads = call->kv_heads;
    p.group = call->group;
    p.group_offset = call->group_offset;
    p.n_keys = call->n_keys;
    p.keys = call->device_keys;
    p.scale = call->scale;
    p.q = {(const uint16_t *)call->q, call->strides.q};
    return p;
}

// With head dims, of 16-bit numbers.
static inline bool tensor_is_valid(const void *tensor, const cuda_strides &strides)
{
    return (uintptr_t)tensor % 16 == 0 && strides.row % 8 == 0 && strides.item % 8 == 0;
}

static inline bool call_is_valid(const cuda_call *call)
{
    if (call->dtype != DTYPE_BF16 && call->dtype != DTYPE_FP16)
        return false;
    if (call->head_dim != 64 && call->head_dim != 128 && call->head_dim != 256)
        return false;
    if (!(call->scale > 0) || call->group == 0 || call->group_offset >= call->group || call->kv_heads == 0 ||
        (call->q_heads > 0 && ((uint64_t)call->group_offset + call->q_heads - 1) / call->group >= call->kv_heads))
        return false;
    if (call->n_keys > 0 && (!call->keys || !call->device_keys))
        return false;
    for (uint32_t b = 0; b < call->n_keys; b++) {
        const cuda_keys &keys = call->keys[b];
        if (keys.rows > INT32_MAX || !tensor_is_valid(keys.k, keys.strides) || !tensor_is_valid(keys.v, keys.strides))
            return false;
    }
    return tensor_is_valid(call->q, call->strides.q);
}

#endif
