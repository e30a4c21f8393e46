/* rank_layer.h - what rank_tensors.h says, of the tensors of a layer; for rank_tensors.c and the executor only. */
#ifndef CPSIM_HW_RUN_RANK_LAYER_H
#define CPSIM_HW_RUN_RANK_LAYER_H

#include "hw/run/rank_tensors.h"

/* Fills x, dy or a weight. */
void rank_layer_write(const struct rank_tensors *tensors, uint64_t seed, uint32_t buffer);

#endif
