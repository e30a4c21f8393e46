/* rank_tensors.h - what a rank begins and ends with, between the host and its buffers: inputs are made in them, results
 * are read from them.
 */
#ifndef CPSIM_HW_RUN_RANK_TENSORS_H
#define CPSIM_HW_RUN_RANK_TENSORS_H

#include "hw/compute.h"
#include "models/schedule/schedule.h"

/* A rank's buffers and where they are. */
struct rank_tensors {
    const struct schedule *schedule;
    const struct program *program;
    const struct compute_ops *ops;
    struct compute *compute;
    void *const *memory; /* [buffer] */
};

/* Fills an input (Q, KV or dO of the rank itself) with the numbers that `seed` gives to its positions, heads and items.
 */
void rank_tensors_write_input(const struct rank_tensors *tensors, uint64_t seed, uint32_t buffer);

/* What a rank ends with. */
enum output { OUTPUT_O, OUTPUT_LSE, OUTPUT_DQ, OUTPUT_DK, OUTPUT_DV, OUTPUT_COUNT };

/* On the host, as fp32: [row][item][head][dim] (LSE without dim) of the queries that the rank owns (schedule_queries,
 * schedule_query_lanes), or of the keys of its shard. NULL where there is none. */
struct outputs {
    float *tensors[OUTPUT_COUNT];
};

/* Reads them from the resident buffers. The caller calls outputs_fini. */
void rank_tensors_read(const struct rank_tensors *tensors, struct outputs *outputs);
void outputs_fini(struct outputs *outputs);

const char *output_name(enum output output); /* "O", "LSE", "dQ", ... */

#endif
