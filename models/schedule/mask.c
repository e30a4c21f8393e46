/* mask.c - visible pairs in closed form.
 *
 * Everything rests on one count, the causal one (see causal_pairs). Positions are below 2^31 (SEQ_LEN_MAX), so every
 * sum here, the floor sums' products included, stays below 2^63.
 */
#include "models/schedule/mask.h"

#include <assert.h>

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t span_last(struct span span)
{
    return span.first + (span.count - 1) * span.stride;
}

/* How many positions of `span` lie below `position`. */
static uint64_t span_rows_below(struct span span, uint64_t position)
{
    if (span.count == 0 || position <= span.first)
        return 0;
    if (span.count == 1)
        return 1;
    return smaller(span.count, (position - span.first - 1) / span.stride + 1);
}

/* The part of `span` inside [from, end). */
static struct span span_within(struct span span, uint64_t from, uint64_t end)
{
    uint64_t below = span_rows_below(span, from);
    return (struct span){span.first + below * span.stride, span.stride, span_rows_below(span, end) - below};
}

/* sum over 0 <= i < n of floor((step * i + start) / divisor), by Euclid's algorithm on (step, divisor): take out the
 * whole parts, then count the lattice points below the line by columns instead of rows (Graham, Knuth, Patashnik,
 * Concrete Mathematics, section 3.5). */
static uint64_t floor_sum(uint64_t n, uint64_t divisor, uint64_t step, uint64_t start)
{
    uint64_t sum = 0;
    while (n > 0) {
        sum += n * (n - 1) / 2 * (step / divisor) + n * (start / divisor);
        step %= divisor;
        start %= divisor;
        uint64_t top = step * n + start;
        n = top / divisor;
        start = top % divisor;
        uint64_t swapped = step;
        step = divisor;
        divisor = swapped;
    }
    return sum;
}

/* Pairs with key + lag <= query. Three ranges of queries: those before every key, those that see some of the keys (one
 * more for every `keys.stride` positions: a floor sum), and those that see all. */
static uint64_t causal_pairs(struct span queries, struct span keys, uint64_t lag)
{
    if (queries.count == 0 || keys.count == 0)
        return 0;
    uint64_t first_key = keys.first + lag, last_key = span_last(keys) + lag;
    uint64_t none = span_rows_below(queries, first_key);
    uint64_t some = span_rows_below(queries, last_key) - none;
    uint64_t all = queries.count - none - some;
    if (some == 0)
        return all * keys.count;
    uint64_t ahead = queries.first + none * queries.stride - first_key;
    return some + floor_sum(some, keys.stride, queries.stride, ahead) + all * keys.count;
}

/* The document that holds `position`: the last one that starts at or before it. */
static size_t document_of(const struct mask *mask, uint64_t position)
{
    size_t low = 0, high = mask->n_documents;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (mask->document_starts[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t document_pairs(const struct mask *mask, struct span queries, struct span keys)
{
    uint64_t first = larger(queries.first, keys.first), last = smaller(span_last(queries), span_last(keys));
    uint64_t pairs = 0;
    /* From the document in which the later span begins to the one in which the earlier span ends; possibly none. */
    for (size_t d = document_of(mask, first), end = document_of(mask, last); d <= end; d++) {
        uint64_t from = mask->document_starts[d], to = mask->document_starts[d + 1];
        pairs += causal_pairs(span_within(queries, from, to), span_within(keys, from, to), 0);
    }
    return pairs;
}

bool mask_visible(const struct mask *mask, uint64_t query, uint64_t key)
{
    uint64_t first, last;
    mask_key_range(mask, query, &first, &last);
    return first <= key && key <= last;
}

uint64_t mask_pairs(const struct mask *mask, struct span queries, struct span keys)
{
    if (queries.count == 0 || keys.count == 0)
        return 0;
    switch (mask->kind) {
    case MASK_FULL:
        return queries.count * keys.count;
    case MASK_CAUSAL:
        return causal_pairs(queries, keys, 0);
    case MASK_WINDOW:
        return causal_pairs(queries, keys, 0) - causal_pairs(queries, keys, smaller(mask->window, mask->seq_len));
    case MASK_DOCUMENTS:
        return document_pairs(mask, queries, keys);
    }
    return 0;
}

static uint64_t spans_pairs(const struct mask *mask, const struct span *queries, uint32_t n_queries,
                            const struct span *keys, uint32_t n_keys)
{
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < n_queries; i++)
        for (uint32_t j = 0; j < n_keys; j++)
            pairs += mask_pairs(mask, queries[i], keys[j]);
    return pairs;
}

/* Rows [first, first + count) of every rank that are one span of the sequence. */
static bool gathered_span(const struct sharding *sharding, struct block block, struct span *span)
{
    uint64_t end = (uint64_t)block.first + block.count;
    if (block.first == 0 && end >= sharding_rows_max(sharding)) {
        *span = (struct span){0, 1, sharding->seq_len};
        return true;
    }
    if (sharding->kind == SHARDING_STRIPED && sharding->cached == 0) {
        *span = span_within((struct span){0, 1, sharding->seq_len}, (uint64_t)block.first * sharding->ranks,
                            end * sharding->ranks);
        return true;
    }
    return false;
}

uint64_t mask_block_pairs(const struct mask *mask, const struct sharding *sharding, struct block queries,
                          struct block keys)
{
    struct span query_spans[SHARD_SPANS_MAX], key_spans[SHARD_SPANS_MAX];
    uint32_t n_queries = sharding_block_spans(sharding, queries, query_spans);
    if (keys.owner != BLOCK_ALL) {
        uint32_t n_keys = sharding_block_spans(sharding, keys, key_spans);
        return spans_pairs(mask, query_spans, n_queries, key_spans, n_keys);
    }
    if (gathered_span(sharding, keys, &key_spans[0]))
        return spans_pairs(mask, query_spans, n_queries, key_spans, 1);
    uint64_t pairs = 0;
    for (uint32_t rank = 0; rank < sharding->ranks; rank++) {
        uint64_t rows = sharding_rows(sharding, rank);
        if (rows <= keys.first)
            continue;
        struct block part = {rank, keys.first, (uint32_t)smaller(keys.count, rows - keys.first)};
        uint32_t n_keys = sharding_block_spans(sharding, part, key_spans);
        pairs += spans_pairs(mask, query_spans, n_queries, key_spans, n_keys);
    }
    return pairs;
}

/* A block and the positions of its rows, while it is being narrowed. */
struct run {
    struct block *block;
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans;
};

static void run_init(struct run *run, const struct sharding *sharding, struct block *block)
{
    run->block = block;
    run->n_spans = sharding_block_spans(sharding, *block, run->spans);
}

static uint64_t run_first(const struct run *run)
{
    return run->spans[0].first;
}

static uint64_t run_last(const struct run *run)
{
    return span_last(run->spans[run->n_spans - 1]);
}

/* Drops the rows outside positions [first, last]; says whether there were any. */
static bool run_narrow(struct run *run, const struct sharding *sharding, uint64_t first, uint64_t last)
{
    if (run_first(run) >= first && run_last(run) <= last)
        return false;
    uint64_t below = 0, up_to = 0;
    for (uint32_t i = 0; i < run->n_spans; i++) {
        below += span_rows_below(run->spans[i], first);
        up_to += span_rows_below(run->spans[i], last + 1);
    }
    run->block->first += (uint32_t)below;
    run->block->count = (uint32_t)(up_to - below);
    run->n_spans = sharding_block_spans(sharding, *run->block, run->spans);
    return true;
}

uint64_t mask_trim(const struct mask *mask, const struct sharding *sharding, struct block *queries, struct block *keys)
{
    struct run q, k;
    run_init(&q, sharding, queries);
    run_init(&k, sharding, keys);
    uint64_t pairs = spans_pairs(mask, q.spans, q.n_spans, k.spans, k.n_spans);
    if (pairs == 0)
        return 0;
    /* Only rows that see nothing (of the other run) are ever dropped, so there are pairs left and neither run gets
     * empty. When nothing more falls away, the first query sees the first key and the last query the last key. */
    for (bool narrowed = true; narrowed;) {
        uint64_t first, last, unused;
        mask_key_range(mask, run_first(&q), &first, &unused);
        mask_key_range(mask, run_last(&q), &unused, &last);
        narrowed = run_narrow(&k, sharding, first, last);
        mask_query_range(mask, run_first(&k), &first, &unused);
        mask_query_range(mask, run_last(&k), &unused, &last);
        narrowed |= run_narrow(&q, sharding, first, last);
    }
    return pairs;
}

void mask_key_range(const struct mask *mask, uint64_t query, uint64_t *first, uint64_t *last)
{
    assert(query < mask->seq_len);
    *first = 0;
    *last = query;
    switch (mask->kind) {
    case MASK_FULL:
        *last = mask->seq_len - 1;
        break;
    case MASK_CAUSAL:
        break;
    case MASK_WINDOW:
        *first = query < mask->window ? 0 : query - mask->window + 1;
        break;
    case MASK_DOCUMENTS:
        *first = mask->document_starts[document_of(mask, query)];
        break;
    }
}

void mask_query_range(const struct mask *mask, uint64_t key, uint64_t *first, uint64_t *last)
{
    assert(key < mask->seq_len);
    *first = key;
    *last = mask->seq_len - 1;
    switch (mask->kind) {
    case MASK_FULL:
        *first = 0;
        break;
    case MASK_CAUSAL:
        break;
    case MASK_WINDOW:
        *last = smaller(*last, key + smaller(mask->window, mask->seq_len) - 1);
        break;
    case MASK_DOCUMENTS:
        *last = mask->document_starts[document_of(mask, key) + 1] - 1;
        break;
    }
}
