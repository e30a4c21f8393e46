/* tiles.h - which tile of queries sees which tile of keys, and which part of it.
 *
 * A call's keys are cut into tiles that never cross a buffer. Every mask shows a query one run of positions, and both
 * its ends grow with the query's position; positions ascend within the queries and within each buffer. So a row sees
 * one run of a tile's columns, and whether a whole tile is seen, or nothing of it, shows at its corners.
 */
#ifndef CPSIM_KERNELS_TILES_H
#define CPSIM_KERNELS_TILES_H

#include "kernels/attention.h"

struct key_tile {
    const struct attention_keys *buffer;
    size_t first_row, rows; /* of the buffer */
    const uint64_t *positions;
};

struct tiling {
    size_t n_tiles;
    struct key_tile *tiles;
    uint64_t *key_positions; /* of every buffer, one after the other */
    uint64_t *first, *last;  /* of each query row: the run of positions that it sees */
};

/* Cuts the keys into tiles of at most `tile_rows`. Asserts that positions ascend. */
void tiling_init(struct tiling *tiling, const struct attention_call *call, size_t tile_rows);
void tiling_fini(struct tiling *tiling);

enum sight {
    SEES_NOTHING,
    SEES_ALL,
    SEES_PART,
};

/* What query rows [row, row + rows) see of a tile. With SEES_PART, row i of them sees columns [from[i], to[i]), which
 * may be empty. */
enum sight tiling_sight(const struct tiling *tiling, size_t row, size_t rows, const struct key_tile *tile,
                        uint32_t *from, uint32_t *to);

#endif
