/* gpu_grid.h - what a calibration measures on a GPU: shapes and sizes, and how often.
 *
 * Heads are those of a rank that holds all heads of a model of Llama 3 8B's shape: enough thread blocks to fill a GPU
 * from about 512 rows on, and groups as models have them today.
 */
#ifndef CPSIM_HW_CALIBRATE_GPU_GPU_GRID_H
#define CPSIM_HW_CALIBRATE_GPU_GPU_GRID_H

#include "hw/calibrate/calibrate.h"

#define GRID_SIZES_MAX 8

struct gpu_grid {
    /* Attention: square blocks, of which those that the memory has room for are measured, and rows of the blocks that
     * tables are to foretell. */
    uint32_t sizes[GRID_SIZES_MAX], n_sizes;
    struct gpu_probe {
        uint32_t rows, heads, kv_heads; /* heads: of the grouped one */
    } probes[2];
    uint32_t n_probes;
    uint32_t heads, kv_heads;
    uint32_t head_dims[3], n_head_dims;
    enum dtype dtypes[2];
    uint32_t n_dtypes;
    uint32_t rounds, repeats; /* repeats: of whatever is repeated, in one visit */
    double batch_seconds;     /* what is shorter is timed so often in a row that it takes about as long */
    uint32_t batch_max;

    uint32_t held[HELD_MAX], n_held; /* SMs held by something else, ascending from 0 */
    uint32_t held_rows[HELD_BLOCKS_MAX / PASS_COUNT], n_held_rows;
    uint32_t beside_rows;  /* of the block that messages move beside */
    uint64_t beside_bytes; /* of those messages */

    uint64_t step_lanes[3]; /* rows x heads of the steps around attention, ascending */
    uint32_t n_step_lanes;
    /* Matrix products: squares, ascending, and others that their tables are to foretell. */
    uint32_t product_sizes[GRID_SIZES_MAX], n_product_sizes;
    struct measured_product product_probes[4]; /* the first: little depth, a square's rows and columns */
    uint32_t n_product_probes;
    uint64_t copy_bytes;
    uint32_t tiny_kernels; /* in a row, to see what one costs; at most what a stream takes in */

    uint64_t message_bytes[9]; /* what fits in one line of a topology */
    uint32_t n_message_bytes;
};

extern const struct gpu_grid gpu_grid_full, gpu_grid_quick;

#endif
