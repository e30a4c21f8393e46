/* calibrate_blocks.h - the tables of one dtype and head dim, whatever device computes the blocks.
 *
 * Each block is visited in several rounds, so that a slow minute of the machine does not fall on one of them; within a
 * visit forward and backward follow each other, since backward takes forward's results.
 */
#ifndef CPSIM_HW_CALIBRATE_CALIBRATE_BLOCKS_H
#define CPSIM_HW_CALIBRATE_CALIBRATE_BLOCKS_H

#include "hw/calibrate/calibrate.h"

/* Computes blocks; made by embedding. Functions return false when the device has failed, which the transport then
 * knows. */
struct block_bench {
    /* Makes the calls that follow those of `block`, and counts its pairs. */
    bool (*set)(struct block_bench *bench, struct measured_block *block);
    /* Calls it once, which does not count, then `repeats` times, and adds their seconds. Backward comes after forward
     * of the same block. */
    bool (*time)(struct block_bench *bench, enum attention_pass pass, uint32_t repeats, struct samples *samples);
};

struct block_plan {
    uint32_t rounds, repeats_max; /* of a block in a round */
    uint32_t reference;           /* the block that the others' times are guessed from */
    double seconds, from, to;     /* that it may take; which share of the part it is */
};

/* Two tables, forward and backward, of the same blocks (their kinds and shapes are filled in), get their times. Every
 * rank repeats equally often. False when a rank has failed. */
bool calibrate_blocks(struct calibration_part *part, struct measured_table *const tables[PASS_COUNT],
                      struct block_bench *bench, const struct block_plan *plan);

void measured_table_add(struct measured_table *table, enum block_kind kind, uint32_t queries, uint32_t keys,
                        uint32_t heads, uint32_t kv_heads);

#endif
