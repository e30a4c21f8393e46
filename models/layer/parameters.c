/* parameters.c - matrices have inputs x outputs elements; transformer_check keeps every sum below 2^62. */
#include "models/layer/parameters.h"

static void add_norm(struct parameters *parameters, const struct transformer *model)
{
    parameters->weights[MODEL_NORM] += model->hidden;
    parameters->biases[MODEL_NORM] += model->norm == NORM_LAYER ? model->hidden : 0;
}

struct parameters parameters_of_layer(const struct transformer *model)
{
    uint64_t hidden = model->hidden, ffn = model->ffn;
    uint64_t q = (uint64_t)model->q_heads * model->head_dim, kv = (uint64_t)model->kv_heads * model->head_dim;
    uint64_t matrices_up = model->mlp == MLP_GATED ? 2 : 1;
    struct parameters layer = {0};
    layer.weights[MODEL_QUERY] = hidden * q;
    layer.weights[MODEL_KEY] = layer.weights[MODEL_VALUE] = hidden * kv;
    layer.weights[MODEL_OUTPUT] = q * hidden;
    layer.weights[MODEL_MLP] = (matrices_up + 1) * hidden * ffn;
    if (model->bias != BIAS_NONE) {
        layer.biases[MODEL_QUERY] = q;
        layer.biases[MODEL_KEY] = layer.biases[MODEL_VALUE] = kv;
    }
    if (model->bias == BIAS_ALL) {
        layer.biases[MODEL_OUTPUT] = hidden;
        layer.biases[MODEL_MLP] = matrices_up * ffn + hidden;
    }
    add_norm(&layer, model); /* before attention */
    add_norm(&layer, model); /* before the MLP */
    return layer;
}

struct parameters parameters_of_model(const struct transformer *model)
{
    struct parameters all = parameters_of_layer(model);
    for (int part = 0; part < MODEL_PARTS; part++) {
        all.weights[part] *= model->layers;
        all.biases[part] *= model->layers;
    }
    add_norm(&all, model);
    all.weights[MODEL_EMBEDDING] = ((uint64_t)model->vocab + model->positions) * model->hidden;
    all.weights[MODEL_HEAD] = model->tied_embeddings ? 0 : (uint64_t)model->vocab * model->hidden;
    return all;
}

uint64_t parameters_total(const struct parameters *parameters)
{
    uint64_t total = 0;
    for (int part = 0; part < MODEL_PARTS; part++)
        total += parameters->weights[part] + parameters->biases[part];
    return total;
}
