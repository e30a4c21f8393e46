/* cells.c - cuts are marked first and counted afterwards, in the same arrays. */
#include "models/schedule/checker/cells.h"

#include <stdlib.h>

#include "models/base/memory.h"

void cells_init(struct cells *cells, struct lanes all)
{
    *cells = (struct cells){.all = all,
                            .heads = memory_zeroed((size_t)all.head + all.heads + 1, sizeof *cells->heads),
                            .items = memory_zeroed((size_t)all.item + all.items + 1, sizeof *cells->items)};
    cells_cut(cells, all);
}

void cells_fini(struct cells *cells)
{
    free(cells->heads);
    free(cells->items);
    *cells = (struct cells){.count = 0};
}

void cells_cut(struct cells *cells, struct lanes lanes)
{
    if (lanes.heads == 0 || lanes.items == 0)
        return;
    cells->heads[lanes.head] = cells->heads[lanes.head + lanes.heads] = 1;
    cells->items[lanes.item] = cells->items[lanes.item + lanes.items] = 1;
}

/* Turns marks into the number of the run that begins there; returns how many runs there are. */
static uint32_t number(uint32_t *marks, uint32_t count)
{
    uint32_t cuts = 0;
    for (uint32_t i = 0; i <= count; i++) {
        cuts += marks[i];
        marks[i] = cuts ? cuts - 1 : 0;
    }
    return marks[count];
}

void cells_count(struct cells *cells)
{
    cells->columns = number(cells->items, cells->all.item + cells->all.items);
    cells->count = number(cells->heads, cells->all.head + cells->all.heads) * cells->columns;
}

/* The run of that number: first and count. */
static void find_run(const uint32_t *numbers, uint32_t first, uint32_t end, uint32_t wanted, uint32_t *start,
                     uint32_t *count)
{
    *start = first;
    while (*start < end && numbers[*start] < wanted)
        ++*start;
    *count = 0;
    while (*start + *count < end && numbers[*start + *count] == wanted)
        ++*count;
}

struct lanes cells_lanes(const struct cells *cells, uint32_t cell)
{
    struct lanes all = cells->all, lanes;
    find_run(cells->heads, all.head, all.head + all.heads, cell / cells->columns, &lanes.head, &lanes.heads);
    find_run(cells->items, all.item, all.item + all.items, cell % cells->columns, &lanes.item, &lanes.items);
    return lanes;
}
