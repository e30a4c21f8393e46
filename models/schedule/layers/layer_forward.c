/* layer_forward.c - one layer forward: once, and again in the backward pass as far as nothing of it was kept. */
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/layers/layer_builder.h"
#include "models/schedule/layers/splice.h"

/* The buffer of the attention program that is the rank's own `tensor`. */
static uint32_t resident_of(const struct program *attention, enum tensor tensor)
{
    for (uint32_t i = 0; i < attention->n_buffers; i++)
        if (attention->buffers[i].role == ROLE_RESIDENT && attention->buffers[i].tensor == (uint8_t)tensor)
            return i;
    return NO_BUFFER;
}

uint32_t layer_attention_buffer(struct layer_builder *b, struct layer_kept *kept, enum tensor tensor)
{
    uint32_t resident = resident_of(&b->attention, tensor);
    struct buffer copy = b->attention.buffers[resident];
    copy.role = ROLE_ACTIVATIONS;
    return kept->map[resident] = program_add_buffer(b->program, b->attention.buffers[resident].name, copy);
}

static void forget_map(struct layer_builder *b, struct layer_kept *kept)
{
    size_t size = b->attention.n_buffers * sizeof *kept->map;
    if (!kept->map)
        kept->map = memory_zeroed(b->attention.n_buffers, sizeof *kept->map);
    memset(kept->map, 0xff, size);
}

/* From the norm to attention's operands. */
static void operands(struct layer_builder *b, uint32_t layer, struct layer_kept *kept)
{
    kept->normed = layer_hidden(b, "norm", layer, b->rows);
    layer_norm(b, layer, layer_weight_index(b, layer, LAYER_NORM_ATTENTION), kept->x, kept->normed);
    uint32_t all = layer_gather_rows(b, "norm all", layer, kept->normed);
    kept->q = layer_attention_buffer(b, kept, TENSOR_Q);
    kept->kv = layer_attention_buffer(b, kept, TENSOR_KV);
    layer_product(b, layer, layer_weight_index(b, layer, LAYER_QKV), all, LIST(kept->q, kept->kv));
}

static void attend(struct layer_builder *b, struct layer_kept *kept)
{
    kept->o = layer_attention_buffer(b, kept, TENSOR_O);
    kept->lse = layer_attention_buffer(b, kept, TENSOR_LSE);
    program_splice(b->program, &b->attention, PHASE_FORWARD, kept->map);
}

/* From attention's result to what goes down the MLP. */
static void to_mlp(struct layer_builder *b, uint32_t layer, struct layer_kept *kept)
{
    uint32_t partial = layer_hidden(b, "back", layer, b->tokens);
    layer_product(b, layer, layer_weight_index(b, layer, LAYER_OUTPUT), kept->o, LIST(partial));
    uint32_t sum = layer_sum_rows(b, "back sum", layer, partial);
    kept->middle = layer_hidden(b, "middle", layer, b->rows);
    layer_sum(b, layer, MODEL_OUTPUT, kept->x, sum, kept->middle);
    kept->normed_mlp = layer_hidden(b, "MLP norm", layer, b->rows);
    layer_norm(b, layer, layer_weight_index(b, layer, LAYER_NORM_MLP), kept->middle, kept->normed_mlp);
    uint32_t all = layer_gather_rows(b, "MLP norm all", layer, kept->normed_mlp);
    kept->up = layer_buffer(b, "up", layer, TENSOR_WIDE, b->hidden, ROLE_ACTIVATIONS, b->tokens, b->up);
    layer_product(b, layer, layer_weight_index(b, layer, LAYER_UP), all, LIST(kept->up));
    kept->down = layer_buffer(b, "down", layer, TENSOR_WIDE, b->hidden, ROLE_ACTIVATIONS, b->tokens, b->ffn);
    const struct layer_work work = {.part = MODEL_MLP, .layer = layer, .rows = b->tokens, .columns = b->ffn};
    layer_add(b, OP_ACTIVATE, work, LIST(kept->up), LIST(kept->down));
}

static uint32_t from_mlp(struct layer_builder *b, uint32_t layer, const struct layer_kept *kept)
{
    uint32_t partial = layer_hidden(b, "MLP", layer, b->tokens);
    layer_product(b, layer, layer_weight_index(b, layer, LAYER_DOWN), kept->down, LIST(partial));
    uint32_t sum = layer_sum_rows(b, "MLP sum", layer, partial);
    uint32_t y = layer_hidden(b, "y", layer, b->rows);
    layer_sum(b, layer, MODEL_MLP, kept->middle, sum, y);
    return y;
}

/* Scores, softmax and result from kept operands: the result that was kept still serves its product. */
static void attend_again(struct layer_builder *b, struct layer_kept *kept)
{
    uint32_t q = resident_of(&b->attention, TENSOR_Q), kv = resident_of(&b->attention, TENSOR_KV);
    uint32_t o = kept->o;
    forget_map(b, kept);
    kept->map[q] = kept->q;
    kept->map[kv] = kept->kv;
    attend(b, kept);
    kept->map[resident_of(&b->attention, TENSOR_O)] = kept->o = o;
}

uint32_t layer_forward(struct layer_builder *b, uint32_t layer, uint32_t x, bool again)
{
    struct layer_kept *kept = &b->kept[layer];
    if (again && b->step->recomputation == RECOMPUTE_SELECTIVE) {
        attend_again(b, kept);
        return NO_BUFFER;
    }
    bool attends = !again || b->step->recomputation == RECOMPUTE_FULL;
    kept->x = x;
    if (attends)
        forget_map(b, kept);
    operands(b, layer, kept);
    if (attends)
        attend(b, kept);
    to_mlp(b, layer, kept);
    return again ? NO_BUFFER : from_mlp(b, layer, kept);
}
