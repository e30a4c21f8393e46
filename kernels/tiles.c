/* tiles.c - cuts keys into tiles, and walks a tile's columns along with the rows' runs, both of which only grow. */
#include "kernels/tiles.h"

#include <assert.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/mask.h"

static void fill_positions(const struct attention_rows *rows, uint64_t *positions)
{
    size_t n = 0;
    for (uint32_t s = 0; s < rows->n_spans; s++)
        for (uint64_t i = 0; i < rows->spans[s].count; i++)
            positions[n++] = rows->spans[s].first + i * rows->spans[s].stride;
    assert(n == rows->rows);
    for (size_t i = 1; i < n; i++)
        assert(positions[i - 1] < positions[i]);
}

void tiling_init(struct tiling *tiling, const struct attention_call *call, size_t tile_rows)
{
    size_t n_queries = call->queries.rows, key_rows = 0, n_tiles = 0;
    for (size_t b = 0; b < call->n_keys; b++) {
        key_rows += call->keys[b].positions.rows;
        n_tiles += (call->keys[b].positions.rows + tile_rows - 1) / tile_rows;
    }
    *tiling = (struct tiling){.tiles = memory_zeroed(n_tiles, sizeof *tiling->tiles),
                              .key_positions = memory_zeroed(key_rows, sizeof *tiling->key_positions),
                              .first = memory_zeroed(n_queries, sizeof *tiling->first),
                              .last = memory_zeroed(n_queries, sizeof *tiling->last)};
    uint64_t *positions = tiling->key_positions;
    for (size_t b = 0; b < call->n_keys; b++) {
        size_t rows = call->keys[b].positions.rows;
        fill_positions(&call->keys[b].positions, positions);
        for (size_t row = 0; row < rows; row += tile_rows)
            tiling->tiles[tiling->n_tiles++] =
                (struct key_tile){.buffer = &call->keys[b],
                                  .first_row = row,
                                  .rows = rows - row < tile_rows ? rows - row : tile_rows,
                                  .positions = positions + row};
        positions += rows;
    }
    fill_positions(&call->queries, tiling->first); /* each replaced by its run below */
    for (size_t i = 0; i < n_queries; i++)
        mask_key_range(call->mask, tiling->first[i], &tiling->first[i], &tiling->last[i]);
}

void tiling_fini(struct tiling *tiling)
{
    free(tiling->tiles);
    free(tiling->key_positions);
    free(tiling->first);
    free(tiling->last);
}

enum sight tiling_sight(const struct tiling *tiling, size_t row, size_t rows, const struct key_tile *tile,
                        uint32_t *from, uint32_t *to)
{
    const uint64_t *first = tiling->first + row, *last = tiling->last + row;
    const uint64_t lowest = tile->positions[0], highest = tile->positions[tile->rows - 1];
    if (last[rows - 1] < lowest || first[0] > highest)
        return SEES_NOTHING;
    if (first[rows - 1] <= lowest && last[0] >= highest)
        return SEES_ALL;
    uint32_t begin = 0, end = 0;
    bool sees = false;
    for (size_t i = 0; i < rows; i++) {
        while (begin < tile->rows && tile->positions[begin] < first[i])
            begin++;
        while (end < tile->rows && tile->positions[end] <= last[i])
            end++;
        from[i] = begin;
        to[i] = end > begin ? end : begin;
        sees = sees || end > begin;
    }
    return sees ? SEES_PART : SEES_NOTHING;
}
