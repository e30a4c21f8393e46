/* weights.c - where weights and their gradients are, how they are gathered and summed, and the optimizer.
 *
 * Shared-out weights are gathered into two sets of buffers in turn, so that one layer's come while another's are used,
 * and no earlier; gradients that are not kept whole likewise, two buckets of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/layers/layer_builder.h"

#define SETS 2
#define ADAM_BYTES 12 /* of fp32: the weight, its two moments */

static uint32_t ranks_of(const struct layer_builder *b)
{
    return b->layout.cp * b->layout.dp;
}

/* Whether the dp x cp ranks share out what `stage` says. */
static bool shares(const struct layer_builder *b, uint32_t stage)
{
    return b->step->zero >= stage && ranks_of(b) > 1;
}

static uint64_t share_of(const struct layer_builder *b, uint64_t elements)
{
    return (elements + ranks_of(b) - 1) / ranks_of(b);
}

/* ---- shapes ---- */

static void add_weight(struct layer_builder *b, struct weight_unit *unit, enum model_part part, struct matrix shape,
                       uint64_t inputs)
{
    b->weights[b->n_weights++] =
        (struct weight){.shape = shape, .inputs = inputs, .part = part, .value = NO_BUFFER, .gradient = NO_BUFFER};
    unit->count++;
    unit->elements += shape.rows * shape.columns;
}

static struct weight_unit *add_unit(struct layer_builder *b)
{
    struct weight_unit *unit = &b->units[b->n_units++];
    *unit = (struct weight_unit){.first = b->n_weights};
    return unit;
}

static void add_layer(struct layer_builder *b)
{
    static const enum model_part parts[LAYER_WEIGHTS] = {
        [LAYER_NORM_ATTENTION] = MODEL_NORM, [LAYER_QKV] = MODEL_QUERY, [LAYER_OUTPUT] = MODEL_OUTPUT,
        [LAYER_NORM_MLP] = MODEL_NORM,       [LAYER_UP] = MODEL_MLP,    [LAYER_DOWN] = MODEL_MLP};
    const uint64_t inputs[LAYER_WEIGHTS] = {
        [LAYER_NORM_ATTENTION] = 1, [LAYER_QKV] = b->model->hidden, [LAYER_OUTPUT] = b->q,
        [LAYER_NORM_MLP] = 1,       [LAYER_UP] = b->model->hidden,  [LAYER_DOWN] = b->ffn};
    struct weight_unit *unit = add_unit(b);
    for (int w = 0; w < LAYER_WEIGHTS; w++)
        add_weight(b, unit, parts[w], layers_matrix(b->experiment, (enum layer_weight)w), inputs[w]);
}

static void add_ends(struct layer_builder *b)
{
    uint64_t hidden = b->model->hidden;
    struct weight_unit *embedding = add_unit(b);
    add_weight(b, embedding, MODEL_EMBEDDING, (struct matrix){b->vocab + b->model->positions, hidden}, 1);
    struct weight_unit *head = add_unit(b);
    add_weight(b, head, MODEL_NORM, layers_matrix(b->experiment, LAYER_NORM_MLP), 1);
    if (!b->model->tied_embeddings)
        add_weight(b, head, MODEL_HEAD, (struct matrix){hidden, b->vocab}, hidden);
}

/* ---- buffers ---- */

static const char *weight_name(const struct weight *weight)
{
    static const char *const names[MODEL_PARTS] = {
        [MODEL_QUERY] = "QKV", [MODEL_OUTPUT] = "output",   [MODEL_MLP] = "MLP",
        [MODEL_NORM] = "norm", [MODEL_EMBEDDING] = "embed", [MODEL_HEAD] = "head"};
    return names[weight->part];
}

static uint32_t matrix_buffer(struct layer_builder *b, const struct weight *weight, uint32_t unit, bool gradient,
                              bool kept)
{
    char name[24];
    snprintf(name, sizeof name, "%s %s", gradient ? "dW" : "W", weight_name(weight));
    uint32_t buffer = layer_buffer(b, name, kept ? unit : UINT32_MAX, gradient ? TENSOR_WEIGHT_GRADIENT : TENSOR_WEIGHT,
                                   gradient ? b->gradient : b->hidden, gradient ? ROLE_GRADIENTS : ROLE_WEIGHTS,
                                   weight->shape.rows, weight->shape.columns);
    b->program->buffers[buffer].kept = kept;
    return buffer;
}

/* Units that are alike and use buffers of `sets` in turn: the layers. Those of the others are their own. */
static void add_matrices(struct layer_builder *b, bool gradients, bool kept, uint32_t sets)
{
    for (uint32_t u = 0; u < b->n_units; u++) {
        for (uint32_t w = 0; w < b->units[u].count; w++) {
            struct weight *weight = &b->weights[b->units[u].first + w];
            bool again = !kept && u < b->n_layers && u >= sets;
            const struct weight *like = again ? &b->weights[b->units[u - sets].first + w] : NULL;
            uint32_t buffer = !again      ? matrix_buffer(b, weight, u, gradients, kept)
                              : gradients ? like->gradient
                                          : like->value;
            *(gradients ? &weight->gradient : &weight->value) = buffer;
        }
    }
}

static void add_kept(struct layer_builder *b, const char *name, enum tensor tensor, enum dtype dtype,
                     enum buffer_role role, uint64_t elements, uint32_t *buffer)
{
    *buffer = layer_buffer(b, name, UINT32_MAX, tensor, dtype, role, 1, elements);
    b->program->buffers[*buffer].kept = true;
}

/* Buckets of layers from the last to the first, as they get their gradients; the head's before, the embedding's behind
 * them; but together behind them where weights are shared out: what is in no layer is the root unit of FSDP. */
static void find_buckets(struct layer_builder *b)
{
    uint32_t size = shares(b, 3) ? 1 : b->step->bucket_layers, buckets = 0;
    bool ends = b->n_units > b->n_layers;
    if (ends && !shares(b, 3))
        b->units[b->n_layers + 1].bucket = buckets++;
    for (uint32_t i = 0; i < b->n_layers; i++) {
        struct weight_unit *unit = &b->units[b->n_layers - 1 - i];
        unit->bucket = buckets + i / size;
        unit->last_of_bucket = i % size == size - 1 || i + 1 == b->n_layers;
    }
    buckets += (b->n_layers + size - 1) / size;
    if (ends) {
        if (shares(b, 3))
            b->units[b->n_layers + 1].bucket = buckets;
        b->units[b->n_layers].bucket = buckets++;
        b->units[b->n_layers].last_of_bucket = true;
        b->units[b->n_layers + 1].last_of_bucket = !shares(b, 3);
    }
    b->n_shards = buckets;
}

/* Units [first, end) of a bucket, or one alone. */
struct unit_range {
    uint32_t first, end;
};

static struct unit_range bucket_of(const struct layer_builder *b, uint32_t unit)
{
    uint32_t size = shares(b, 3) ? 1 : b->step->bucket_layers;
    if (unit >= b->n_layers) /* an end, or both */
        return b->units[b->n_layers].bucket == b->units[b->n_layers + 1].bucket
                   ? (struct unit_range){b->n_layers, b->n_layers + 2}
                   : (struct unit_range){unit, unit + 1};
    uint32_t behind = b->n_layers - 1 - unit; /* layers whose gradients come before */
    uint32_t end = b->n_layers - behind / size * size;
    return (struct unit_range){end > size ? end - size : 0, end};
}

static uint64_t elements_of(const struct layer_builder *b, struct unit_range units)
{
    uint64_t elements = 0;
    for (uint32_t u = units.first; u < units.end; u++)
        elements += b->units[u].elements;
    return elements;
}

static uint64_t all_elements(const struct layer_builder *b)
{
    return elements_of(b, (struct unit_range){0, b->n_units});
}

static void add_training(struct layer_builder *b)
{
    bool whole = !shares(b, 2);
    uint32_t bucket = shares(b, 3) ? 1 : b->step->bucket_layers;
    add_matrices(b, true, whole, whole ? b->n_layers : SETS * bucket);
    b->shards = memory_zeroed(b->n_shards, sizeof *b->shards);
    for (uint32_t u = 0; u < b->n_units && !whole; u++)
        if (bucket_of(b, u).first == u)
            add_kept(b, "dW share", TENSOR_WEIGHT_GRADIENT, b->gradient, ROLE_GRADIENTS,
                     share_of(b, elements_of(b, bucket_of(b, u))), &b->shards[b->units[u].bucket]);
    if (b->step->scope == SCOPE_MODEL && b->step->optimizer == OPTIMIZER_ADAM) {
        uint64_t elements = shares(b, 1) ? share_of(b, all_elements(b)) : all_elements(b);
        add_kept(b, "optimizer", TENSOR_OPTIMIZER, DTYPE_FP32, ROLE_OPTIMIZER, elements * (ADAM_BYTES / sizeof(float)),
                 &b->optimizer_state);
    }
}

/* A rank's share of shared-out weights: what its optimizer keeps, or one in the model's type. */
static void add_share(struct layer_builder *b)
{
    b->share = b->optimizer_state;
    if (shares(b, 3) && b->share == NO_BUFFER)
        add_kept(b, "W share", TENSOR_WEIGHT, b->hidden, ROLE_WEIGHTS, share_of(b, all_elements(b)), &b->share);
}

void layer_weights_init(struct layer_builder *b)
{
    b->weights = memory_zeroed((size_t)b->n_layers * LAYER_WEIGHTS + 3, sizeof *b->weights);
    b->units = memory_zeroed((size_t)b->n_layers + 2, sizeof *b->units);
    for (uint32_t layer = 0; layer < b->n_layers; layer++)
        add_layer(b);
    if (b->step->scope == SCOPE_MODEL)
        add_ends(b);
    find_buckets(b);
    add_matrices(b, false, !shares(b, 3), SETS);
    if (b->experiment->train)
        add_training(b);
    add_share(b);
}

/* ---- what happens to them ---- */

/* The values, or the gradients, of all weights of some units. The caller frees them. */
static uint32_t *buffers_of(const struct layer_builder *b, struct unit_range units, bool gradients, size_t *count)
{
    uint32_t first = b->units[units.first].first, end = b->units[units.end - 1].first + b->units[units.end - 1].count;
    uint32_t *buffers = memory_zeroed(end - first, sizeof *buffers);
    for (uint32_t w = first; w < end; w++)
        buffers[w - first] = gradients ? b->weights[w].gradient : b->weights[w].value;
    *count = end - first;
    return buffers;
}

void layer_gather_unit(struct layer_builder *b, uint32_t unit)
{
    if (!shares(b, 3) || b->units[unit].gathered)
        return;
    size_t n;
    uint32_t *values = buffers_of(b, (struct unit_range){unit, unit + 1}, false, &n);
    layer_flow(b, CALL_ALL_GATHER, STREAM_WEIGHTS, TRAFFIC_WEIGHTS, b->units[unit].elements * dtype_bytes(b->hidden),
               LIST(b->share), (struct buffer_list){values, n});
    b->units[unit].gathered = true;
    free(values);
}

void layer_release_unit(struct layer_builder *b, uint32_t unit)
{
    b->units[unit].gathered = false;
}

static void sum_written_out(struct layer_builder *b, uint32_t unit)
{
    for (uint32_t w = 0; w < b->units[unit].count; w++)
        layer_sum_data(b, b->weights[b->units[unit].first + w].gradient);
}

/* Those that are kept whole wait for the last. */
bool layer_gradients_wait(const struct layer_builder *b)
{
    return b->schedule->accumulates && !shares(b, 2);
}

void layer_reduce_unit(struct layer_builder *b, uint32_t unit)
{
    bool between = layer_gradients_wait(b);
    for (uint32_t w = 0; !between && !b->written_out && shares(b, 2) && w < b->units[unit].count; w++)
        b->weights[b->units[unit].first + w].added = false; /* the next of these buffers begins anew */
    if (ranks_of(b) == 1 || between)
        return;
    if (b->written_out) {
        sum_written_out(b, unit);
        return;
    }
    if (!b->units[unit].last_of_bucket)
        return;
    size_t n;
    uint32_t bucket = b->units[unit].bucket, *gradients = buffers_of(b, bucket_of(b, unit), true, &n);
    uint64_t bytes = elements_of(b, bucket_of(b, unit)) * dtype_bytes(b->gradient);
    struct buffer_list whole = {gradients, n};
    bool scatters = shares(b, 1);
    layer_flow(b, scatters ? CALL_REDUCE_SCATTER : CALL_ALL_REDUCE, STREAM_REDUCTION, TRAFFIC_WEIGHT_GRADIENT, bytes,
               whole, shares(b, 2) ? LIST(b->shards[bucket]) : whole);
    free(gradients);
}

/* One pass over all that the rank has of gradients and states: whether a gradient is too large is known when the last
 * is summed. */
static void update(struct layer_builder *b)
{
    size_t n = 0, n_values = 0;
    uint32_t *reads = memory_zeroed((size_t)b->n_weights + b->n_shards + 1, sizeof *reads);
    uint32_t *writes = memory_zeroed((size_t)b->n_weights + 1, sizeof *writes);
    for (uint32_t s = 0; shares(b, 2) && s < b->n_shards; s++)
        reads[n++] = b->shards[s];
    for (uint32_t w = 0; w < b->n_weights; w++) {
        if (!shares(b, 2))
            reads[n++] = b->weights[w].gradient;
        if (!shares(b, 3))
            writes[n_values++] = b->weights[w].value;
    }
    reads[n++] = writes[n_values++] = b->optimizer_state;
    uint64_t elements = shares(b, 1) ? share_of(b, all_elements(b)) : all_elements(b);
    const struct layer_work work = {.part = MODEL_PARTS, .layer = b->n_layers, .rows = 1, .columns = elements};
    layer_add(b, OP_OPTIMIZE, work, (struct buffer_list){reads, n}, (struct buffer_list){writes, n_values});
    free(reads);
    free(writes);
}

void layer_optimize(struct layer_builder *b)
{
    if (b->optimizer_state == NO_BUFFER || b->schedule->accumulates)
        return;
    update(b);
    for (uint32_t u = 0; shares(b, 1) && !shares(b, 3) && u < b->n_units; u++) {
        if (!b->units[u].last_of_bucket)
            continue;
        size_t n;
        uint32_t *values = buffers_of(b, bucket_of(b, u), false, &n);
        layer_flow(b, CALL_ALL_GATHER, STREAM_WEIGHTS, TRAFFIC_WEIGHTS,
                   elements_of(b, bucket_of(b, u)) * dtype_bytes(b->hidden), (struct buffer_list){values, n},
                   (struct buffer_list){values, n});
        free(values);
    }
}
