/* stretches.c - a stretch for each span of the part: between its positions the joined shard has the same number of
 * others. */
#include "hw/stretches.h"

#include <assert.h>

static struct stretch stretch_of(const struct sharding *sharding, struct block joined, struct span span,
                                 size_t part_row)
{
    struct stretch stretch = {.count = span.count, .part_row = part_row, .step = 1};
    size_t first = sharding_rows_below(sharding, joined.owner, span.first);
    stretch.joined_row = first - joined.first;
    if (span.count > 1)
        stretch.step = sharding_rows_below(sharding, joined.owner, span.first + span.stride) - first;
    assert(sharding_rows_below(sharding, joined.owner, span.first + (span.count - 1) * span.stride) ==
           first + (span.count - 1) * stretch.step);
    return stretch;
}

uint32_t stretches_of(const struct sharding *sharding, struct block joined, struct block part,
                      struct stretch stretches[SHARD_SPANS_MAX])
{
    struct span spans[SHARD_SPANS_MAX];
    const uint32_t n_spans = sharding_block_spans(sharding, part, spans);
    size_t row = 0;
    for (uint32_t s = 0; s < n_spans; row += spans[s++].count)
        stretches[s] = stretch_of(sharding, joined, spans[s], row);
    return n_spans;
}
