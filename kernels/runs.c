/* runs.c - two pointers walk along the keys while the queries ascend: O(queries + keys). */
#include "kernels/runs.h"

#include <assert.h>

#include "models/schedule/mask.h"

/* A row of a run of rows, and its position. */
struct walker {
    const struct attention_rows *rows;
    size_t row;
    uint32_t span;
    uint64_t in_span;
};

static struct walker walker_at_start(const struct attention_rows *rows)
{
    struct walker walker = {.rows = rows};
    while (walker.span < rows->n_spans && rows->spans[walker.span].count == 0)
        walker.span++;
    return walker;
}

static uint64_t walker_position(const struct walker *walker)
{
    const struct span *span = &walker->rows->spans[walker->span];
    return span->first + walker->in_span * span->stride;
}

static void walker_step(struct walker *walker)
{
    const uint64_t before = walker_position(walker);
    const struct attention_rows *rows = walker->rows;
    walker->row++;
    walker->in_span++;
    while (walker->span < rows->n_spans && walker->in_span == rows->spans[walker->span].count) {
        walker->span++;
        walker->in_span = 0;
    }
    assert(walker->row == rows->rows || (walker->span < rows->n_spans && before < walker_position(walker)));
    (void)before;
}

void attention_runs(const struct mask *mask, const struct attention_rows *queries, const struct attention_rows *keys,
                    int32_t *from, int32_t *to)
{
    assert(keys->rows <= INT32_MAX);
    struct walker begin = walker_at_start(keys), end = begin;
    for (struct walker query = walker_at_start(queries); query.row < queries->rows; walker_step(&query)) {
        uint64_t first, last;
        mask_key_range(mask, walker_position(&query), &first, &last);
        while (begin.row < keys->rows && walker_position(&begin) < first)
            walker_step(&begin);
        while (end.row < keys->rows && walker_position(&end) <= last)
            walker_step(&end);
        from[query.row] = (int32_t)begin.row;
        to[query.row] = (int32_t)(end.row > begin.row ? end.row : begin.row);
    }
}
