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

static bool alternates(const struct layer_builder *b)
{
    return b->experiment->train && b->step->recomputation == RECOMPUTE_ALTERNATE;
}

/* A part of a product's result that is kept beside it, and put to the rest of it when that is made again. */
static uint32_t kept_part(struct layer_builder *b, const char *name, uint32_t layer, uint64_t columns)
{
    return layer_buffer(b, name, layer, TENSOR_WIDE, b->hidden, ROLE_ACTIVATIONS, b->tokens, columns);
}

/* Columns of the products up that are made again: up, of a gated MLP; of a plain one the fifth product, which is kept.
 */
static uint64_t up_again(const struct layer_builder *b)
{
    return b->model->mlp == MLP_GATED ? b->ffn : 0;
}

/* From the norm to attention's operands; again, where products alternate, K alone. */
static void operands(struct layer_builder *b, uint32_t layer, struct layer_kept *kept, bool again)
{
    uint32_t weight = layer_weight_index(b, layer, LAYER_QKV);
    kept->normed = layer_hidden(b, "norm", layer, b->rows);
    layer_norm(b, layer, layer_weight_index(b, layer, LAYER_NORM_ATTENTION), kept->x, kept->normed);
    uint32_t all = layer_gather_rows(b, "norm all", layer, kept->normed);
    if (!again || !alternates(b))
        kept->q = layer_attention_buffer(b, kept, TENSOR_Q);
    kept->kv = layer_attention_buffer(b, kept, TENSOR_KV);
    if (!alternates(b)) {
        layer_product(b, layer, weight, all, LIST(kept->q, kept->kv));
    } else if (again) {
        layer_product_part(b, layer, weight, b->kv, LIST(all, kept->value), LIST(kept->kv));
    } else {
        kept->value = kept_part(b, "V kept", layer, b->kv);
        layer_product(b, layer, weight, all, LIST(kept->q, kept->kv, kept->value));
    }
}

/* The way up of the MLP; again, where products alternate, but for the gate. */
static void go_up(struct layer_builder *b, uint32_t layer, struct layer_kept *kept, uint32_t all, bool again)
{
    uint32_t weight = layer_weight_index(b, layer, LAYER_UP);
    if (!alternates(b) || (!again && up_again(b) == 0)) {
        layer_product(b, layer, weight, all, LIST(kept->up));
    } else if (again) {
        layer_product_part(b, layer, weight, up_again(b), LIST(all, kept->gate), LIST(kept->up));
    } else {
        kept->gate = kept_part(b, "gate kept", layer, b->ffn);
        layer_product(b, layer, weight, all, LIST(kept->up, kept->gate));
    }
}

static void attend(struct layer_builder *b, struct layer_kept *kept)
{
    kept->o = layer_attention_buffer(b, kept, TENSOR_O);
    kept->lse = layer_attention_buffer(b, kept, TENSOR_LSE);
    program_splice(b->program, &b->attention, PHASE_FORWARD, kept->map);
}

/* From attention's result to what goes down the MLP. */
static void to_mlp(struct layer_builder *b, uint32_t layer, struct layer_kept *kept, bool again)
{
    uint32_t partial = layer_hidden(b, "back", layer, b->tokens);
    layer_product(b, layer, layer_weight_index(b, layer, LAYER_OUTPUT), kept->o, LIST(partial));
    uint32_t sum = layer_sum_rows(b, "back sum", layer, partial);
    kept->middle = layer_hidden(b, "middle", layer, b->rows);
    layer_sum(b, layer, MODEL_OUTPUT, kept->x, sum, kept->middle);
    kept->normed_mlp = layer_hidden(b, "MLP norm", layer, b->rows);
    layer_norm(b, layer, layer_weight_index(b, layer, LAYER_NORM_MLP), kept->middle, kept->normed_mlp);
    uint32_t all = layer_gather_rows(b, "MLP norm all", layer, kept->normed_mlp);
    bool is_there = again && alternates(b) && up_again(b) == 0;
    if (!is_there) {
        kept->up = layer_buffer(b, "up", layer, TENSOR_WIDE, b->hidden, ROLE_ACTIVATIONS, b->tokens, b->up);
        go_up(b, layer, kept, all, again);
    }
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
    operands(b, layer, kept, again);
    if (attends)
        attend(b, kept);
    to_mlp(b, layer, kept, again);
    return again ? NO_BUFFER : from_mlp(b, layer, kept);
}
