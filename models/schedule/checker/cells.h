/* cells.h - lanes as the checker sees them: runs of lanes that no buffer and no operation of any program divides.
 *
 * Attention runs in each lane alone, so whatever holds in one lane of a cell holds in all of them. The cells are a
 * grid, runs of query heads by runs of batch items, cut wherever some lanes begin or end. Programs that divide no lanes
 * have one cell.
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_CELLS_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_CELLS_H

#include <stdint.h>

#include "models/schedule/program.h"

struct cells {
    struct lanes all;
    uint32_t count, columns; /* columns: runs of items */
    uint32_t *heads, *items; /* [heads + 1], [items + 1]: how many runs end before this head or item */
};

/* Runs of heads by runs of items: what some lanes are in cells. */
struct cell_range {
    uint32_t head, heads, item, items;
};

/* First cells_init, then cells_cut for all lanes there are (within `all`), then cells_count; then the rest. */
void cells_init(struct cells *cells, struct lanes all);
void cells_fini(struct cells *cells);
void cells_cut(struct cells *cells, struct lanes lanes);
void cells_count(struct cells *cells);

static inline struct cell_range cells_range(const struct cells *cells, struct lanes lanes)
{
    uint32_t head = cells->heads[lanes.head], item = cells->items[lanes.item];
    return (struct cell_range){head, cells->heads[lanes.head + lanes.heads] - head, item,
                               cells->items[lanes.item + lanes.items] - item};
}

static inline uint32_t cell_range_count(struct cell_range range)
{
    return range.heads * range.items;
}

/* The nth cell of a range; the reverse. Of one cell, the usual case, without divisions: this is asked all the time. */
static inline uint32_t cells_at(const struct cells *cells, struct cell_range range, uint32_t n)
{
    if (cells->count == 1)
        return 0;
    return (range.head + n / range.items) * cells->columns + range.item + n % range.items;
}

static inline uint32_t cells_place(const struct cells *cells, struct cell_range range, uint32_t cell)
{
    if (cells->count == 1)
        return 0;
    return (cell / cells->columns - range.head) * range.items + cell % cells->columns - range.item;
}

struct lanes cells_lanes(const struct cells *cells, uint32_t cell);

#endif
