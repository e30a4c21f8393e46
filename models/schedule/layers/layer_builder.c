/* layer_builder.c - dimensions of a rank's part of a model, and the operations that are made of them. */
#include "models/schedule/layers/layer_builder.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/algorithms/algorithm.h"

struct matrix layers_matrix(const struct experiment *experiment, enum layer_weight weight)
{
    const struct transformer *model = &experiment->model;
    uint32_t tp = experiment->degree[PARALLEL_TP];
    uint64_t hidden = model->hidden, ffn = model->ffn / tp;
    uint64_t q = (uint64_t)experiment_q_heads(experiment) * model->head_dim;
    uint64_t kv = (uint64_t)experiment_kv_heads(experiment) * model->head_dim;
    uint64_t some = model->bias != BIAS_NONE, all = model->bias == BIAS_ALL;
    switch (weight) {
    case LAYER_NORM_ATTENTION:
    case LAYER_NORM_MLP:
        return (struct matrix){model->norm == NORM_LAYER ? 2 : 1, hidden};
    case LAYER_QKV:
        return (struct matrix){hidden + some, q + 2 * kv};
    case LAYER_OUTPUT:
        return (struct matrix){q + all, hidden};
    case LAYER_UP:
        return (struct matrix){hidden + all, model->mlp == MLP_GATED ? 2 * ffn : ffn};
    case LAYER_DOWN:
        return (struct matrix){ffn + all, hidden};
    case LAYER_WEIGHTS:
        break;
    }
    return (struct matrix){0, 0};
}

void layer_builder_init(struct layer_builder *b, const struct schedule *schedule, struct layers_place place,
                        bool written_out, struct program *program)
{
    const struct experiment *experiment = schedule->experiment;
    const struct transformer *model = &experiment->model;
    const struct step_setting *step = &experiment->step;
    uint32_t tp = experiment->degree[PARALLEL_TP];
    *b = (struct layer_builder){
        .schedule = schedule,
        .experiment = experiment,
        .model = model,
        .step = step,
        .program = program,
        .layout = layers_layout(schedule),
        .place = place,
        .written_out = written_out,
        .tokens = sharding_rows(&schedule->sharding, place.rank) * experiment->batch,
        .q = (uint64_t)schedule->q_heads * model->head_dim,
        .kv = (uint64_t)schedule->kv_heads * model->head_dim,
        .ffn = model->ffn / tp,
        .up = layers_matrix(experiment, LAYER_UP).columns,
        .vocab = ((uint64_t)model->vocab + tp - 1) / tp,
        .hidden = dtype_output(experiment->dtype),
        .splits_rows = tp > 1 && step->sequence_parallel,
        .n_layers = step->scope == SCOPE_LAYER ? 1 : model->layers,
        .optimizer_state = NO_BUFFER,
    };
    b->linear = step->linear == LINEAR_FP8 ? DTYPE_FP8 : b->hidden;
    b->gradient = step->weight_gradients_fp32 ? dtype_accumulator(b->hidden) : b->hidden;
    b->rows = b->splits_rows ? b->tokens / tp : b->tokens;
    b->kept = memory_zeroed(b->n_layers, sizeof *b->kept);
    program_init(&b->attention, place.rank);
    schedule->algorithm->build(schedule, &b->attention);
    layer_teams_init(b);
    layer_weights_init(b);
}

void layer_builder_fini(struct layer_builder *b)
{
    for (uint32_t layer = 0; layer < b->n_layers; layer++)
        free(b->kept[layer].map);
    free(b->kept);
    free(b->weights);
    free(b->units);
    free(b->shards);
    layer_teams_fini(b);
    program_fini(&b->attention);
}

uint32_t layer_buffer(struct layer_builder *b, const char *name, uint32_t layer, enum tensor tensor, enum dtype dtype,
                      enum buffer_role role, uint64_t rows, uint64_t columns)
{
    char numbered[40];
    snprintf(numbered, sizeof numbered, layer < b->n_layers ? "%s %u" : "%s", name, layer);
    const struct buffer buffer = {.tensor = (uint8_t)tensor,
                                  .dtype = (uint8_t)dtype,
                                  .role = (uint8_t)role,
                                  .rows = rows,
                                  .columns = columns,
                                  .bytes = rows * columns * dtype_bytes(dtype)};
    return program_add_buffer(b->program, numbered, buffer);
}

uint32_t layer_hidden(struct layer_builder *b, const char *name, uint32_t layer, uint64_t rows)
{
    return layer_buffer(b, name, layer, TENSOR_HIDDEN, b->hidden, ROLE_ACTIVATIONS, rows, b->model->hidden);
}

void layer_add(struct layer_builder *b, enum op_kind kind, struct layer_work work, struct buffer_list reads,
               struct buffer_list writes)
{
    const struct op op = {.kind = (uint8_t)kind, .stream = STREAM_COMPUTE, .work = program_add_work(b->program, work)};
    program_add_op(b->program, op, reads.items, reads.count, writes.items, writes.count);
}

/* A product with a weight: what its form does not say. */
static struct layer_work work_of(const struct layer_builder *b, uint32_t layer, const struct weight *weight,
                                 enum product_form form)
{
    bool of_head = weight->part == MODEL_HEAD || weight->part == MODEL_EMBEDDING;
    return (struct layer_work){.form = (uint8_t)form,
                               .part = (uint8_t)weight->part,
                               .dtype = (uint8_t)(of_head ? b->hidden : b->linear),
                               .layer = layer};
}

#define RESULTS_MAX 4 /* buffers that one product writes */

void layer_product_part(struct layer_builder *b, uint32_t layer, uint32_t weight, uint64_t columns,
                        struct buffer_list x, struct buffer_list result)
{
    const struct weight *w = &b->weights[weight];
    struct layer_work work = work_of(b, layer, w, PRODUCT_OUTPUT);
    uint32_t reads[RESULTS_MAX + 1];
    for (size_t i = 0; i < x.count; i++)
        reads[i] = x.items[i];
    reads[x.count] = w->value;
    work.rows = b->tokens;
    work.columns = columns;
    work.depth = w->inputs;
    layer_add(b, OP_PRODUCT, work, (struct buffer_list){reads, x.count + 1}, result);
}

void layer_product(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t x, struct buffer_list result)
{
    layer_product_part(b, layer, weight, b->weights[weight].shape.columns, LIST(x), result);
}

void layer_input_gradient(struct layer_builder *b, uint32_t layer, uint32_t weight, struct buffer_list dy, uint32_t dx)
{
    const struct weight *w = &b->weights[weight];
    struct layer_work work = work_of(b, layer, w, PRODUCT_INPUT_GRADIENT);
    uint32_t reads[RESULTS_MAX + 1];
    for (size_t i = 0; i < dy.count; i++)
        reads[i] = dy.items[i];
    reads[dy.count] = w->value;
    work.rows = b->tokens;
    work.columns = w->inputs;
    work.depth = w->shape.columns;
    layer_add(b, OP_PRODUCT, work, (struct buffer_list){reads, dy.count + 1}, LIST(dx));
}

/* Writes a gradient of a weight; what is there already is read, to be added to. */
static void add_gradient(struct layer_builder *b, enum op_kind kind, struct layer_work work, uint32_t weight,
                         struct buffer_list reads, uint32_t dx)
{
    struct weight *w = &b->weights[weight];
    uint32_t all[RESULTS_MAX + 2], writes[2] = {dx, w->gradient};
    size_t n = 0, skipped = dx == NO_BUFFER;
    for (; n < reads.count; n++)
        all[n] = reads.items[n];
    if (w->added)
        all[n++] = w->gradient;
    w->added = true;
    layer_add(b, kind, work, (struct buffer_list){all, n}, (struct buffer_list){writes + skipped, 2 - skipped});
}

void layer_weight_gradient(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t x, struct buffer_list dy)
{
    const struct weight *w = &b->weights[weight];
    struct layer_work work = work_of(b, layer, w, PRODUCT_WEIGHT_GRADIENT);
    uint32_t reads[RESULTS_MAX + 1] = {x};
    for (size_t i = 0; i < dy.count; i++)
        reads[i + 1] = dy.items[i];
    work.rows = w->inputs;
    work.columns = w->shape.columns;
    work.depth = b->tokens;
    add_gradient(b, OP_PRODUCT, work, weight, (struct buffer_list){reads, dy.count + 1}, NO_BUFFER);
}

void layer_norm(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t x, uint32_t y)
{
    const struct layer_work work = {.part = MODEL_NORM, .layer = layer, .rows = b->rows, .columns = b->model->hidden};
    layer_add(b, OP_NORM, work, LIST(x, b->weights[weight].value), LIST(y));
}

void layer_norm_backward(struct layer_builder *b, uint32_t layer, uint32_t weight, uint32_t dy, uint32_t x, uint32_t dx)
{
    const struct layer_work work = {.part = MODEL_NORM, .layer = layer, .rows = b->rows, .columns = b->model->hidden};
    add_gradient(b, OP_NORM_BACKWARD, work, weight, LIST(dy, x, b->weights[weight].value), dx);
}

void layer_sum(struct layer_builder *b, uint32_t layer, enum model_part part, uint32_t x, uint32_t y, uint32_t sum)
{
    const struct layer_work work = {
        .part = (uint8_t)part, .layer = layer, .rows = b->rows, .columns = b->model->hidden};
    layer_add(b, OP_ADD, work, LIST(x, y), LIST(sum));
}
