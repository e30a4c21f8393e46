/* layer_tensors.h - what a layer begins and ends with (scope = layer): which buffers of a program these tensors are,
 * and which part of the whole layer's tensors a rank of the layout has in them.
 *
 * A rank's tokens are those of its positions, in their order, and at each of its batch items; replicas (dp) have other
 * items: those of replica d are d * batch and on. Where tp ranks share the rows, each has as many that follow each
 * other. Of weights a tp rank has the columns (or rows) of its heads and of its part of the MLP; all ranks together
 * have one layer, that of kernels/layer_reference.h.
 *
 * Inputs are random numbers by where they stand in the whole: uniform, x and dy in [-1, 1); weights so that what they
 * make has the size of what comes in, but for queries, which are twice that (scores then spread as those of inputs.h
 * do); scales of norms about 1, shifts about 0.
 */
#ifndef CPSIM_HW_RUN_LAYER_TENSORS_H
#define CPSIM_HW_RUN_LAYER_TENSORS_H

#include "kernels/layer_reference.h"
#include "models/schedule/layers/layers.h"
#include "models/schedule/schedule.h"

/* Buffers; NO_BUFFER: none. */
struct layer_buffers {
    uint32_t x, dy, y, dx;
    uint32_t weights[REFERENCE_WEIGHTS], gradients[REFERENCE_WEIGHTS];
};

void layer_buffers_find(const struct program *program, struct layer_buffers *buffers);

/* ---- which part ---- */

/* The whole layer: all positions, the items of all replicas. The model is the experiment's. */
struct layer_shape layer_shape_of(const struct schedule *schedule);

/* A row of hidden of a tensor with `rows` rows on a rank: its position, and its item in the whole. */
struct layer_token {
    uint64_t position, item;
};
struct layer_token layer_token_of(const struct schedule *schedule, struct layers_place place, uint64_t rows,
                                  uint64_t row);

/* A rank's part of a weight: rows x columns as layers_matrix says. */
struct layer_part {
    const struct schedule *schedule;
    struct layers_place place;
    enum reference_weight weight;
    struct matrix shape;
};
struct layer_part layer_part_of(const struct schedule *schedule, struct layers_place place,
                                enum reference_weight weight);
/* The row and column of the whole that a row and column of the part is. */
uint64_t layer_part_row(const struct layer_part *part, uint64_t row);
uint64_t layer_part_column(const struct layer_part *part, uint64_t column);

/* ---- inputs ---- */

/* As the model's type holds them. */
double layer_hidden_number(const struct schedule *schedule, uint64_t seed, bool of_gradient, struct layer_token token,
                           uint64_t column);
double layer_weight_number(const struct schedule *schedule, uint64_t seed, enum reference_weight weight, uint64_t row,
                           uint64_t column);

#endif
