/* cost_parts.h - what the files of the cost model share among themselves. */
#ifndef CPSIM_MODELS_COST_COST_PARTS_H
#define CPSIM_MODELS_COST_COST_PARTS_H

#include "models/cost/cost.h"

/* Rows of a block, those of BLOCK_ALL over all owners. */
double cost_block_rows(const struct sharding *sharding, struct block block);

/* Key rows that a kernel goes through: of gathered keys, those that the queries see anything of. */
double cost_key_rows(const struct schedule *schedule, const struct op *op);

double cost_lanes(struct lanes lanes);

/* Bytes that `op` reads and writes once; of key-side buffers only the share `keys`. */
double cost_moved_bytes(const struct cost *cost, const struct program *program, const struct op *op, double keys);

/* What memory achieves. */
double cost_memory_bytes_per_s(const struct device *device);

/* From one kernel to the next. */
double cost_launch_seconds(const struct cost *cost);

const struct implementation *cost_implementation(const struct cost *cost);

/* What a time that goes by `constant` is to be multiplied with at the costs' end of its spread. */
double cost_end_factor(const struct cost *cost, uint32_t constant);

/* Seconds of a step around attention, and those of them that its launches take. */
double cost_step_seconds(const struct cost *cost, const struct program *program, const struct op *op);
double cost_step_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op);

/* Seconds of an operation of a layer, its launches among them, and those that these take. False, with a message, when
 * the device's profile cannot say what a product takes. */
double cost_layer_seconds(const struct cost *cost, const struct program *program, const struct op *op);
double cost_layer_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op);
bool cost_layers_check(const struct cost *cost, struct diagnostics *diag);
/* How far the rates of the products vary, relative. */
double cost_products_spread(const struct cost *cost);

/* Seconds of the implementation's copies around an attention kernel. */
double cost_copies_seconds(const struct cost *cost, const struct program *program, const struct op *op);
/* How many kernels these are. */
double cost_copies_kernels(const struct cost *cost, const struct program *program, const struct op *op);

#endif
