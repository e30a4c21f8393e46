/* layer_backward.c - one layer backward. */
#include "models/schedule/layers/layer_builder.h"
#include "models/schedule/layers/splice.h"

/* From the gradient of the MLP's result (and of the residual beside it) to that of what came in. */
static uint32_t mlp_backward(struct layer_builder *b, uint32_t layer, uint32_t dy)
{
    const struct layer_kept *kept = &b->kept[layer];
    uint32_t up = layer_weight_index(b, layer, LAYER_UP), down = layer_weight_index(b, layer, LAYER_DOWN);
    uint32_t all = layer_gather_rows(b, "dy all", layer, dy);
    uint32_t d_down = layer_buffer(b, "d down", layer, TENSOR_WIDE, b->hidden, ROLE_ACTIVATIONS, b->tokens, b->ffn);
    layer_input_gradient(b, layer, down, LIST(all), d_down);
    layer_weight_gradient(b, layer, down, kept->down, LIST(all));
    uint32_t d_up = layer_buffer(b, "d up", layer, TENSOR_WIDE, b->hidden, ROLE_ACTIVATIONS, b->tokens, b->up);
    const struct layer_work work = {.part = MODEL_MLP, .layer = layer, .rows = b->tokens, .columns = b->up};
    layer_add(b, OP_ACTIVATE_BACKWARD, work, LIST(d_down, kept->up), LIST(d_up));
    uint32_t normed = layer_gather_rows(b, "MLP norm again", layer, kept->normed_mlp);
    uint32_t partial = layer_hidden(b, "d MLP norm", layer, b->tokens);
    layer_input_gradient(b, layer, up, LIST(d_up), partial);
    uint32_t d_normed = layer_sum_rows(b, "d MLP norm sum", layer, partial);
    layer_weight_gradient(b, layer, up, normed, LIST(d_up));
    uint32_t d_middle = layer_hidden(b, "d middle norm", layer, b->rows);
    layer_norm_backward(b, layer, layer_weight_index(b, layer, LAYER_NORM_MLP), d_normed, kept->middle, d_middle);
    uint32_t sum = layer_hidden(b, "d middle", layer, b->rows);
    layer_sum(b, layer, MODEL_MLP, dy, d_middle, sum);
    return sum;
}

static uint32_t attention_backward(struct layer_builder *b, uint32_t layer, uint32_t dy)
{
    struct layer_kept *kept = &b->kept[layer];
    uint32_t qkv = layer_weight_index(b, layer, LAYER_QKV), output = layer_weight_index(b, layer, LAYER_OUTPUT);
    uint32_t all = layer_gather_rows(b, "d middle all", layer, dy);
    uint32_t d_o = layer_attention_buffer(b, kept, TENSOR_DO);
    layer_input_gradient(b, layer, output, LIST(all), d_o);
    layer_weight_gradient(b, layer, output, kept->o, LIST(all));
    uint32_t dq = layer_attention_buffer(b, kept, TENSOR_DQ), dkv = layer_attention_buffer(b, kept, TENSOR_DKV);
    program_splice(b->program, &b->attention, PHASE_BACKWARD, kept->map);
    uint32_t normed = layer_gather_rows(b, "norm again", layer, kept->normed);
    uint32_t partial = layer_hidden(b, "d norm", layer, b->tokens);
    layer_input_gradient(b, layer, qkv, LIST(dq, dkv), partial);
    uint32_t d_normed = layer_sum_rows(b, "d norm sum", layer, partial);
    layer_weight_gradient(b, layer, qkv, normed, LIST(dq, dkv));
    uint32_t dx = layer_hidden(b, "dx norm", layer, b->rows);
    layer_norm_backward(b, layer, layer_weight_index(b, layer, LAYER_NORM_ATTENTION), d_normed, kept->x, dx);
    uint32_t sum = layer_hidden(b, "dx", layer, b->rows);
    layer_sum(b, layer, MODEL_OUTPUT, dy, dx, sum);
    return sum;
}

uint32_t layer_backward(struct layer_builder *b, uint32_t layer, uint32_t dy)
{
    if (b->step->recomputation != RECOMPUTE_NONE)
        layer_forward(b, layer, b->kept[layer].x, true);
    uint32_t dx = attention_backward(b, layer, mlp_backward(b, layer, dy));
    uint32_t first = b->weights[layer_weight_index(b, layer, LAYER_NORM_ATTENTION)].gradient;
    uint32_t second = b->weights[layer_weight_index(b, layer, LAYER_NORM_MLP)].gradient;
    layer_sum_norms(b, LIST(first, second));
    return dx;
}
