/* parameters.h - how many parameters a transformer has, by part. */
#ifndef CPSIM_MODELS_LAYER_PARAMETERS_H
#define CPSIM_MODELS_LAYER_PARAMETERS_H

#include <stdint.h>

#include "models/input/experiment.h"
#include "models/layer/parts.h"

struct parameters {
    uint64_t weights[MODEL_PARTS]; /* elements of matrices; scales of norms */
    uint64_t biases[MODEL_PARTS];  /* of matrix products; shifts of norms */
};

/* One layer: its projections, MLP and two norms. */
struct parameters parameters_of_layer(const struct transformer *model);

/* All layers, the norm behind them, the embeddings and the head. */
struct parameters parameters_of_model(const struct transformer *model);

uint64_t parameters_total(const struct parameters *parameters);

#endif
