/* rows.c - joining is a sweep over the joined rows: at each row, which pieces take turns there. */
#include "models/schedule/checker/rows.h"

#include <stdlib.h>

#include "models/base/memory.h"

void rows_split(const struct sharding *sharding, const struct contents *joined, uint32_t rank, struct contents *run)
{
    run->count = 0;
    for (uint32_t i = 0; i < joined->count; i++) {
        const struct piece *piece = &joined->pieces[i];
        struct block part = sharding_part(sharding, (struct block){piece->owner, piece->first, piece->count}, rank);
        contents_append(run, part, piece->sum);
    }
}

/* A span of a piece: joined rows [row, end) have its positions among them. */
struct strand {
    uint32_t row, end;
    struct span span;
    uint32_t sum;
};

struct strands {
    struct strand *items;
    uint32_t count, capacity;
};

static int compare_strands(const void *left, const void *right)
{
    const struct strand *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static void add_strands(const struct sharding *sharding, uint32_t owner, const struct piece *piece,
                        struct strands *strands)
{
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(sharding, (struct block){piece->owner, piece->first, piece->count}, spans);
    for (uint32_t i = 0; i < n_spans; i++) {
        uint64_t last = spans[i].first + (spans[i].count - 1) * spans[i].stride;
        memory_grow(strands->items, strands->count, strands->capacity);
        strands->items[strands->count++] =
            (struct strand){(uint32_t)sharding_rows_below(sharding, owner, spans[i].first),
                            (uint32_t)sharding_rows_below(sharding, owner, last) + 1, spans[i], piece->sum};
    }
}

static bool has_position(const struct strand *strand, uint64_t position)
{
    return position >= strand->span.first && (position - strand->span.first) % strand->span.stride == 0;
}

/* Appends rows [row, end), which the strands of `active` share among them. */
static void append_shared(const struct sharding *sharding, uint32_t owner, uint32_t row, uint32_t end,
                          const struct strands *active, struct contents *run)
{
    bool alike = true;
    for (uint32_t i = 1; i < active->count; i++)
        alike = alike && active->items[i].sum == active->items[0].sum;
    if (alike && active->count) {
        contents_append(run, (struct block){owner, row, end - row}, active->items[0].sum);
        return;
    }
    for (; row < end; row++) {
        struct span span;
        sharding_block_spans(sharding, (struct block){owner, row, 1}, &span);
        for (uint32_t i = 0; i < active->count; i++)
            if (has_position(&active->items[i], span.first))
                contents_append(run, (struct block){owner, row, 1}, active->items[i].sum);
    }
}

static bool all_alike(const struct contents *parts)
{
    for (uint32_t i = 1; i < parts->count; i++)
        if (parts->pieces[i].sum != parts->pieces[0].sum)
            return false;
    return parts->count > 0;
}

void rows_join(const struct sharding *sharding, struct block joined, const struct contents *parts, struct contents *run)
{
    run->count = 0;
    if (all_alike(parts)) {
        contents_append(run, joined, parts->pieces[0].sum);
        return;
    }
    struct strands strands = {0}, active = {0};
    for (uint32_t i = 0; i < parts->count; i++)
        add_strands(sharding, joined.owner, &parts->pieces[i], &strands);
    if (strands.count)
        qsort(strands.items, strands.count, sizeof *strands.items, compare_strands);
    uint32_t row = joined.first, joined_end = joined.first + joined.count;
    for (uint32_t next = 0; row < joined_end;) {
        uint32_t kept = 0, end = joined_end;
        for (uint32_t i = 0; i < active.count; i++)
            if (active.items[i].end > row)
                active.items[kept++] = active.items[i];
        active.count = kept;
        for (; next < strands.count && strands.items[next].row <= row; next++) {
            memory_grow(active.items, active.count, active.capacity);
            active.items[active.count++] = strands.items[next];
        }
        if (next < strands.count && strands.items[next].row < end)
            end = strands.items[next].row;
        for (uint32_t i = 0; i < active.count; i++)
            end = active.items[i].end < end ? active.items[i].end : end;
        append_shared(sharding, joined.owner, row, end, &active, run);
        row = end;
    }
    free(strands.items);
    free(active.items);
}
