/* rank_tensors.h - what a rank begins and ends with, between the host and its buffers: inputs are made in them, results
 * are read from them.
 */
#ifndef CPSIM_HW_RUN_RANK_TENSORS_H
#define CPSIM_HW_RUN_RANK_TENSORS_H

#include "hw/compute.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/schedule.h"

/* A rank's buffers and where they are. */
struct rank_tensors {
    const struct schedule *schedule;
    const struct program *program;
    const struct compute_ops *ops;
    struct compute *compute;
    void *const *memory;       /* [buffer] */
    struct layers_place place; /* scope = layer */
};

/* Fills an input with the numbers that `seed` gives to it: Q, KV or dO of the rank itself by their positions, heads and
 * items; what a layer begins with as layer_tensors.h says. */
void rank_tensors_write_input(const struct rank_tensors *tensors, uint64_t seed, uint32_t buffer);

/* What a rank ends with. */
enum output {
    OUTPUT_O,
    OUTPUT_LSE,
    OUTPUT_DQ,
    OUTPUT_DK,
    OUTPUT_DV,
    OUTPUT_ATTENTION_COUNT, /* of a layer: */
    OUTPUT_Y = OUTPUT_ATTENTION_COUNT,
    OUTPUT_DX,
    OUTPUT_DNORM_1,
    OUTPUT_DW_Q, /* the columns of Q, K and V alone */
    OUTPUT_DW_K,
    OUTPUT_DW_V,
    OUTPUT_DW_O,
    OUTPUT_DNORM_2,
    OUTPUT_DW_UP,
    OUTPUT_DW_DOWN,
    OUTPUT_COUNT,
};

static inline bool output_is_of_weight(enum output output)
{
    return output >= OUTPUT_DNORM_1;
}

/* On the host, as fp32: [row][item][head][dim] (LSE without dim) of the queries that the rank owns (schedule_queries,
 * schedule_query_lanes), or of the keys of its shard; of a layer rows x columns of the rank's part (layer_tensors.h).
 * NULL where there is none. */
struct outputs {
    float *tensors[OUTPUT_COUNT];
};

/* Reads them from the resident buffers, at the end of a step. The caller calls outputs_fini. */
void rank_tensors_read(const struct rank_tensors *tensors, struct outputs *outputs);
/* Of a layer, at the end of each phase: adds what it has put out. */
void rank_tensors_read_layer(const struct rank_tensors *tensors, enum phase phase, struct outputs *outputs);
void outputs_fini(struct outputs *outputs);

const char *output_name(enum output output); /* "O", "LSE", "dQ", ... */

#endif
