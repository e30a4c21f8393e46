/* sharding.c - the positions of each rank, from its number alone: no table over positions or ranks is kept, except the
 * prefix sums of explicit lengths. */
#include "models/schedule/sharding.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"

void block_describe(struct block block, char *text, size_t size)
{
    char owner[24] = "all ranks", rows[32] = "no rows";
    if (block.owner != BLOCK_ALL)
        snprintf(owner, sizeof owner, "rank %" PRIu32, block.owner);
    if (block.count)
        snprintf(rows, sizeof rows, "rows %" PRIu32 "-%" PRIu64, block.first, (uint64_t)block.first + block.count - 1);
    snprintf(text, size, "%s, %s", owner, rows);
}

void sharding_init(struct sharding *sharding, const struct experiment *experiment)
{
    *sharding = (struct sharding){
        .kind = experiment->sharding, .seq_len = experiment->seq_len, .ranks = experiment->degree[PARALLEL_CP]};
    assert(sharding->ranks > 0 && sharding->seq_len <= SEQ_LEN_MAX);
    assert(sharding->kind != SHARDING_ZIGZAG || sharding->seq_len % (2 * (uint64_t)sharding->ranks) == 0);
    if (sharding->kind != SHARDING_EXPLICIT)
        return;
    sharding->starts = memory_zeroed((size_t)sharding->ranks + 1, sizeof *sharding->starts);
    for (uint32_t rank = 0; rank < sharding->ranks; rank++)
        sharding->starts[rank + 1] = sharding->starts[rank] + experiment->shard_counts[rank];
    assert(sharding->starts[sharding->ranks] == sharding->seq_len);
}

void sharding_fini(struct sharding *sharding)
{
    free(sharding->starts);
    sharding->starts = NULL;
}

/* The length of share `rank` when the sequence is dealt out evenly: the first seq_len % ranks have one more. */
static uint64_t even_rows(const struct sharding *sharding, uint32_t rank)
{
    return sharding->seq_len / sharding->ranks + (rank < sharding->seq_len % sharding->ranks);
}

/* The start of share `rank` when the shares lie one after the other. */
static uint64_t even_start(const struct sharding *sharding, uint32_t rank)
{
    uint64_t longer = sharding->seq_len % sharding->ranks;
    return rank * (sharding->seq_len / sharding->ranks) + (rank < longer ? rank : longer);
}

uint64_t sharding_rows(const struct sharding *sharding, uint32_t rank)
{
    if (sharding->kind == SHARDING_EXPLICIT)
        return sharding->starts[rank + 1] - sharding->starts[rank];
    return even_rows(sharding, rank);
}

uint64_t sharding_rows_max(const struct sharding *sharding)
{
    if (sharding->kind != SHARDING_EXPLICIT)
        return even_rows(sharding, 0);
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < sharding->ranks; rank++) {
        uint64_t rows = sharding_rows(sharding, rank);
        most = rows > most ? rows : most;
    }
    return most;
}

void sharding_shard(const struct sharding *sharding, uint32_t rank, struct shard *shard)
{
    assert(rank < sharding->ranks);
    *shard = (struct shard){.n_spans = 1, .rows = sharding_rows(sharding, rank)};
    uint64_t rows = shard->rows, ranks = sharding->ranks;
    switch (sharding->kind) {
    case SHARDING_CONTIGUOUS:
        shard->spans[0] = (struct span){even_start(sharding, rank), 1, rows};
        break;
    case SHARDING_EXPLICIT:
        shard->spans[0] = (struct span){sharding->starts[rank], 1, rows};
        break;
    case SHARDING_STRIPED:
        shard->spans[0] = (struct span){rank, ranks, rows};
        break;
    case SHARDING_ZIGZAG: {
        uint64_t chunk = rows / 2;
        shard->spans[0] = (struct span){rank * chunk, 1, chunk};
        shard->spans[1] = (struct span){(2 * ranks - 1 - rank) * chunk, 1, chunk};
        shard->n_spans = 2;
        break;
    }
    }
    if (rows == 0)
        shard->n_spans = 0;
}

uint32_t sharding_block_spans(const struct sharding *sharding, struct block block, struct span *spans)
{
    assert(block.owner != BLOCK_ALL);
    struct shard shard;
    sharding_shard(sharding, block.owner, &shard);
    assert((uint64_t)block.first + block.count <= shard.rows);
    uint64_t skip = block.first, left = block.count;
    uint32_t n_spans = 0;
    for (uint32_t i = 0; i < shard.n_spans && left > 0; i++) {
        struct span span = shard.spans[i];
        uint64_t skipped = skip < span.count ? skip : span.count;
        uint64_t taken = left < span.count - skipped ? left : span.count - skipped;
        if (taken > 0)
            spans[n_spans++] = (struct span){span.first + skipped * span.stride, span.stride, taken};
        skip -= skipped;
        left -= taken;
    }
    return n_spans;
}
