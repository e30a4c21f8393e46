/* growing_sum.c - up to three operations a contribution: the rows before the run, those in it, those behind it. */
#include "models/schedule/algorithms/growing_sum.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

struct block growing_sum_reach(const struct growing_sum *sum, struct block rows)
{
    uint32_t sum_end = sum->rows.first + sum->rows.count, end = rows.first + rows.count;
    if (sum->rows.count && rows.first > sum_end)
        rows.first = sum_end;
    if (sum->rows.count && end < sum->rows.first)
        end = sum->rows.first;
    rows.count = end - rows.first;
    return rows;
}

static void add_run(const struct growing_sum *sum, struct builder *b, uint32_t source, uint32_t owner, uint32_t first,
                    uint32_t end, bool copies)
{
    struct block rows = {owner, first, end > first ? end - first : 0};
    if (rows.count)
        builder_accumulate(b, STREAM_COMPUTE, sum->buffer, source, rows, copies);
}

void growing_sum_add(struct growing_sum *sum, struct builder *b, uint32_t source, struct block rows)
{
    uint32_t end = rows.first + rows.count;
    if (!sum->rows.count)
        sum->rows = (struct block){rows.owner, rows.first, 0};
    uint32_t sum_first = sum->rows.first, sum_end = sum_first + sum->rows.count;
    add_run(sum, b, source, rows.owner, rows.first, smaller(end, sum_first), true);
    add_run(sum, b, source, rows.owner, larger(rows.first, sum_first), smaller(end, sum_end), false);
    add_run(sum, b, source, rows.owner, larger(rows.first, sum_end), end, true);
    sum->rows.first = smaller(sum_first, rows.first);
    sum->rows.count = larger(sum_end, end) - sum->rows.first;
}
