/* sharding.c - the positions of each rank, from its number alone: no table over positions or ranks is kept, except the
 * prefix sums of explicit lengths. */
#include "models/schedule/sharding.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"

struct block block_cover(struct block a, struct block b)
{
    if (a.count == 0 || b.count == 0)
        return a.count ? a : b;
    uint32_t end_a = a.first + a.count, end_b = b.first + b.count;
    uint32_t first = a.first < b.first ? a.first : b.first;
    return (struct block){a.owner, first, (end_a > end_b ? end_a : end_b) - first};
}

void block_describe(struct block block, char *text, size_t size)
{
    char owner[24] = "all ranks", rows[32] = "no rows";
    if (block_is_joined(block.owner))
        snprintf(owner, sizeof owner, "group %" PRIu32, block.owner & ~BLOCK_JOINED);
    else if (block.owner != BLOCK_ALL)
        snprintf(owner, sizeof owner, "rank %" PRIu32, block.owner);
    if (block.count)
        snprintf(rows, sizeof rows, "rows %" PRIu32 "-%" PRIu64, block.first, (uint64_t)block.first + block.count - 1);
    snprintf(text, size, "%s, %s", owner, rows);
}

void sharding_init(struct sharding *sharding, const struct experiment *experiment, uint32_t joined)
{
    *sharding = (struct sharding){.kind = experiment->sharding,
                                  .seq_len = experiment->seq_len,
                                  .cached = experiment_cached(experiment),
                                  .ranks = experiment->degree[PARALLEL_CP],
                                  .joined = joined,
                                  .mask = &experiment->mask};
    assert(sharding->ranks > 0 && sharding->seq_len <= SEQ_LEN_MAX && joined > 0 && sharding->ranks % joined == 0);
    assert(sharding->kind != SHARDING_ZIGZAG ||
           (sharding->seq_len - sharding->cached) % (2 * (uint64_t)sharding->ranks) == 0);
    if (sharding->kind != SHARDING_EXPLICIT)
        return;
    sharding->starts = memory_zeroed((size_t)sharding->ranks + 1, sizeof *sharding->starts);
    for (uint32_t rank = 0; rank < sharding->ranks; rank++)
        sharding->starts[rank + 1] = sharding->starts[rank] + experiment->shard_counts[rank];
    assert(sharding->starts[sharding->ranks] == sharding->seq_len && sharding->cached == 0);
}

void sharding_fini(struct sharding *sharding)
{
    free(sharding->starts);
    sharding->starts = NULL;
}

/* ---- groups ---- */

uint32_t sharding_groups(const struct sharding *sharding)
{
    return sharding->ranks / sharding->joined;
}

uint32_t sharding_group_of(const struct sharding *sharding, uint32_t rank)
{
    return sharding->kind == SHARDING_STRIPED ? rank % sharding_groups(sharding) : rank / sharding->joined;
}

uint32_t sharding_member_of(const struct sharding *sharding, uint32_t rank)
{
    return sharding->kind == SHARDING_STRIPED ? rank / sharding_groups(sharding) : rank % sharding->joined;
}

uint32_t sharding_group_rank(const struct sharding *sharding, uint32_t group, uint32_t member)
{
    assert(group < sharding_groups(sharding) && member < sharding->joined);
    return sharding->kind == SHARDING_STRIPED ? member * sharding_groups(sharding) + group
                                              : group * sharding->joined + member;
}

/* ---- shards ---- */

/* The shares [first, first + count) of `shares` equal ones: those of an owner, a rank or a group of ranks. Striped
 * groups are ranks of a coarser deal. */
struct share {
    uint64_t first, count, shares;
    bool joined;
};

static struct share share_of(const struct sharding *sharding, uint32_t owner)
{
    uint64_t ranks = sharding->ranks, joined = sharding->joined;
    if (!block_is_joined(owner)) {
        assert(owner < ranks);
        return (struct share){owner, 1, ranks, false};
    }
    uint64_t group = owner & ~BLOCK_JOINED;
    assert(group < sharding_groups(sharding));
    if (sharding->kind == SHARDING_STRIPED)
        return (struct share){group, 1, sharding_groups(sharding), true};
    return (struct share){group * joined, joined, ranks, true};
}

/* `length` positions dealt out evenly, one share after the other: the first `longer` shares have one more. Whoever asks
 * for shards asks often, and divisions are what that takes. */
struct deal {
    uint64_t each, longer;
};

static struct deal deal_out(uint64_t length, uint64_t shares)
{
    return (struct deal){length / shares, length % shares};
}

static uint64_t deal_start(struct deal deal, uint64_t index)
{
    return index * deal.each + (index < deal.longer ? index : deal.longer);
}

/* Joined shards may have spans that touch (the two halves of a zigzag, the prefix and what follows it): one then. A
 * rank's stay apart, for kernels may be launched chunk by chunk. */
static void add_span(struct shard *shard, struct span span, bool joined)
{
    if (span.count == 0)
        return;
    shard->rows += span.count;
    struct span *before = shard->n_spans ? &shard->spans[shard->n_spans - 1] : NULL;
    if (joined && before && before->stride == 1 && span.stride == 1 && before->first + before->count == span.first)
        before->count += span.count;
    else
        shard->spans[shard->n_spans++] = span;
}

/* Adds the share of the positions [base, base + length), dealt out in runs or in turn. */
static void add_share(struct shard *shard, struct share share, bool in_turn, uint64_t base, uint64_t length)
{
    struct deal deal = deal_out(length, share.shares);
    if (in_turn) {
        uint64_t count = deal.each + (share.first < deal.longer);
        add_span(shard, (struct span){base + share.first, share.shares, count}, share.joined);
        return;
    }
    uint64_t start = deal_start(deal, share.first), end = deal_start(deal, share.first + share.count);
    add_span(shard, (struct span){base + start, 1, end - start}, share.joined);
}

static void add_zigzag(struct shard *shard, struct share share, uint64_t base, uint64_t length)
{
    uint64_t chunks = 2 * share.shares, early = share.first, late = chunks - share.first - share.count;
    struct deal deal = deal_out(length, chunks);
    uint64_t starts[] = {deal_start(deal, early), deal_start(deal, late)};
    uint64_t ends[] = {deal_start(deal, early + share.count), deal_start(deal, late + share.count)};
    for (int i = 0; i < 2; i++)
        add_span(shard, (struct span){base + starts[i], 1, ends[i] - starts[i]}, share.joined);
}

static void add_documents(struct shard *shard, struct share share, const struct mask *mask)
{
    for (size_t d = 0; d < mask->n_documents; d++)
        add_zigzag(shard, share, mask->document_starts[d], mask->document_starts[d + 1] - mask->document_starts[d]);
}

void sharding_shard(const struct sharding *sharding, uint32_t owner, struct shard *shard)
{
    struct share share = share_of(sharding, owner);
    uint64_t cached = sharding->cached, length = sharding->seq_len - cached;
    bool striped = sharding->kind == SHARDING_STRIPED;
    shard->n_spans = 0; /* the spans beyond are never looked at, and many */
    shard->rows = 0;
    if (cached)
        add_share(shard, share, striped, 0, cached);
    if (sharding->kind == SHARDING_ZIGZAG)
        add_zigzag(shard, share, cached, length);
    else if (sharding->kind == SHARDING_PER_DOCUMENT)
        add_documents(shard, share, sharding->mask);
    else if (sharding->kind != SHARDING_EXPLICIT)
        add_share(shard, share, striped, cached, length);
    else
        add_span(shard,
                 (struct span){sharding->starts[share.first], 1,
                               sharding->starts[share.first + share.count] - sharding->starts[share.first]},
                 share.joined);
}

uint64_t sharding_rows(const struct sharding *sharding, uint32_t owner)
{
    struct shard shard;
    sharding_shard(sharding, owner, &shard);
    return shard.rows;
}

uint64_t sharding_rows_max(const struct sharding *sharding)
{
    if (sharding->kind != SHARDING_EXPLICIT && sharding->kind != SHARDING_PER_DOCUMENT)
        return sharding_rows(sharding, 0);
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < sharding->ranks; rank++) {
        uint64_t rows = sharding_rows(sharding, rank);
        most = rows > most ? rows : most;
    }
    return most;
}

struct block sharding_keys(const struct sharding *sharding, uint32_t owner)
{
    return (struct block){owner, 0, (uint32_t)sharding_rows(sharding, owner)};
}

struct block sharding_queries(const struct sharding *sharding, uint32_t owner)
{
    uint64_t cached = sharding->cached ? sharding_rows_below(sharding, owner, sharding->cached) : 0;
    return (struct block){owner, (uint32_t)cached, (uint32_t)(sharding_rows(sharding, owner) - cached)};
}

/* How many of a shard's positions lie before `position`. */
static uint64_t rows_below(const struct shard *shard, uint64_t position)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < shard->n_spans; i++) {
        struct span span = shard->spans[i];
        if (position <= span.first)
            break;
        uint64_t below = (position - span.first - 1) / span.stride + 1;
        rows += below < span.count ? below : span.count;
    }
    return rows;
}

uint64_t sharding_rows_below(const struct sharding *sharding, uint32_t owner, uint64_t position)
{
    struct shard shard;
    sharding_shard(sharding, owner, &shard);
    return rows_below(&shard, position);
}

struct block sharding_part(const struct sharding *sharding, struct block joined, uint32_t rank)
{
    struct block part = {rank, 0, 0};
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = joined.count ? sharding_block_spans(sharding, joined, spans) : 0;
    if (n_spans == 0)
        return part;
    struct span last = spans[n_spans - 1];
    struct shard shard;
    sharding_shard(sharding, rank, &shard);
    part.first = (uint32_t)rows_below(&shard, spans[0].first);
    part.count = (uint32_t)rows_below(&shard, last.first + (last.count - 1) * last.stride + 1) - part.first;
    if (part.count == 0)
        part.first = 0;
    return part;
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
