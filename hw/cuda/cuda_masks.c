/* cuda_masks.c - runs by pair of blocks, and key lists by operation. */
#include "hw/cuda/cuda_masks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "hw/cuda/cuda_arena.h"
#include "kernels/runs.h"
#include "models/base/memory.h"

/* A block of queries and a block of keys. No gaps between members: it is hashed as bytes. */
struct pair {
    uint32_t q_owner, q_first, q_count, k_owner, k_first, k_count;
};

struct runs {
    struct pair pair;
    int32_t *from, *to; /* on the GPU */
    UT_hash_handle hh;
};

struct cuda_masks {
    struct cuda_arena device, host;
    struct runs *runs;           /* a hash table */
    struct cuda_key_list *lists; /* by operation's index */
    size_t n_lists;
};

static struct cuda_masks *masks_of(struct compute *cuda)
{
    if (!cuda->masks) {
        cuda->masks = memory_zeroed(1, sizeof *cuda->masks);
        cuda->masks->host.of_host = true;
    }
    return cuda->masks;
}

void cuda_masks_free(struct compute *cuda)
{
    struct cuda_masks *masks = cuda->masks;
    if (!masks)
        return;
    struct runs *runs, *next;
    HASH_ITER(hh, masks->runs, runs, next)
    {
        HASH_DEL(masks->runs, runs);
        free(runs);
    }
    for (size_t i = 0; i < masks->n_lists; i++)
        free(masks->lists[i].blocks);
    free(masks->lists);
    cuda_arena_free(cuda, &masks->device);
    cuda_arena_free(cuda, &masks->host);
    free(masks);
    cuda->masks = NULL;
}

/* ---- runs of rows ---- */

static struct attention_rows rows_of(const struct compute *cuda, struct block block)
{
    struct attention_rows rows = {.rows = block.count};
    rows.n_spans = sharding_block_spans(&cuda->schedule->sharding, block, rows.spans);
    return rows;
}

/* To memory that nothing queued knows of yet. */
static bool make_runs(struct compute *cuda, struct block q, struct block k, struct runs *runs)
{
    const struct attention_rows queries = rows_of(cuda, q), keys = rows_of(cuda, k);
    const size_t bytes = 2 * (size_t)q.count * sizeof(int32_t);
    int32_t *host = memory_zeroed(2 * (size_t)q.count, sizeof *host);
    attention_runs(&cuda->schedule->experiment->mask, &queries, &keys, host, host + q.count);
    runs->from = cuda_arena_take(cuda, &cuda->masks->device, bytes);
    bool good = runs->from && CUDA_CHECK(cuda, cuda_write(runs->from, host, bytes), "copying a mask to the GPU");
    if (good)
        runs->to = runs->from + q.count;
    free(host);
    return good;
}

static const struct runs *runs_of(struct compute *cuda, struct block q, struct block k)
{
    struct cuda_masks *masks = cuda->masks;
    const struct pair pair = {q.owner, q.first, q.count, k.owner, k.first, k.count};
    struct runs *runs;
    HASH_FIND(hh, masks->runs, &pair, sizeof pair, runs);
    if (runs)
        return runs;
    runs = memory_zeroed(1, sizeof *runs);
    runs->pair = pair;
    if (!make_runs(cuda, q, k, runs)) {
        free(runs);
        return NULL;
    }
    HASH_ADD(hh, masks->runs, pair, sizeof runs->pair, runs);
    return runs;
}

/* ---- lists of keys ---- */

static struct cuda_key_list *list_of(struct cuda_masks *masks, uint32_t op)
{
    if (op >= masks->n_lists) {
        const size_t n = 2 * (size_t)op + 16;
        masks->lists = memory_resized(masks->lists, n, sizeof *masks->lists);
        memset(masks->lists + masks->n_lists, 0, (n - masks->n_lists) * sizeof *masks->lists);
        masks->n_lists = n;
    }
    return &masks->lists[op];
}

static bool make_room(struct compute *cuda, struct cuda_key_list *list, uint32_t n_keys)
{
    if (n_keys <= list->capacity)
        return true;
    const size_t bytes = n_keys * sizeof *list->keys;
    list->n_keys = list->capacity = 0;
    list->keys = cuda_arena_take(cuda, &cuda->masks->host, bytes);
    list->device_keys = cuda_arena_take(cuda, &cuda->masks->device, bytes);
    list->blocks = memory_resized(list->blocks, n_keys, sizeof *list->blocks);
    if (!list->keys || !list->device_keys)
        return false;
    list->capacity = n_keys;
    return true;
}

static bool blocks_equal(struct block a, struct block b)
{
    return a.owner == b.owner && a.first == b.first && a.count == b.count;
}

/* Fills in what is seen: as the list has it, if it is of the same blocks. */
static bool see(struct compute *cuda, const struct cuda_key_list *list, struct block q, const struct block *blocks,
                struct cuda_keys *keys, uint32_t n_keys)
{
    const bool known = n_keys == list->n_keys && blocks_equal(q, list->q);
    for (uint32_t i = 0; i < n_keys; i++) {
        if (known && blocks_equal(blocks[i], list->blocks[i])) {
            keys[i].from = list->keys[i].from;
            keys[i].to = list->keys[i].to;
            continue;
        }
        const struct runs *runs = runs_of(cuda, q, blocks[i]);
        if (!runs)
            return false;
        keys[i].from = runs->from;
        keys[i].to = runs->to;
    }
    return true;
}

static bool strides_equal(struct cuda_strides a, struct cuda_strides b)
{
    return a.row == b.row && a.item == b.item;
}

static bool keys_equal(const struct cuda_keys *a, const struct cuda_keys *b)
{
    return a->k == b->k && a->v == b->v && a->dk == b->dk && a->dv == b->dv && strides_equal(a->strides, b->strides) &&
           strides_equal(a->gradient, b->gradient) && a->from == b->from && a->to == b->to && a->rows == b->rows;
}

static bool list_equals(const struct cuda_key_list *list, const struct cuda_keys *keys, uint32_t n_keys)
{
    for (uint32_t i = 0; i < n_keys && n_keys == list->n_keys; i++)
        if (!keys_equal(&list->keys[i], &keys[i]))
            return false;
    return n_keys == list->n_keys;
}

const struct cuda_key_list *cuda_masks_keys(const struct cuda_action *action, struct block q,
                                            const struct block *blocks, struct cuda_keys *keys, uint32_t n_keys)
{
    struct compute *cuda = action->cuda;
    struct cuda_key_list *list = list_of(masks_of(cuda), action->index);
    assert(n_keys > 0);
    if (!see(cuda, list, q, blocks, keys, n_keys) || !make_room(cuda, list, n_keys))
        return NULL;
    list->q = q;
    memcpy(list->blocks, blocks, n_keys * sizeof *blocks);
    if (list_equals(list, keys, n_keys))
        return list;
    /* Memory of this operation alone: a copy that was queued when it ran last has been made. */
    memcpy(list->keys, keys, n_keys * sizeof *keys);
    list->n_keys = n_keys;
    const bool good = CUDA_CHECK(cuda, cuda_copy(list->device_keys, list->keys, n_keys * sizeof *keys, action->stream),
                                 "queueing a copy of keys");
    return good ? list : NULL;
}
