/* head.c - the two ends of a model: the embedding; the last norm, the logits and the loss.
 *
 * tp ranks share the vocabulary. A row's loss needs the largest logit and the sum of exponentials over all of it, two
 * numbers that are summed over the tp group. Logits are fp32, as the loss is; their gradient takes their place. With
 * step.loss_chunks they are made and used a part of the rows at a time, in the forward pass: what is kept of them is
 * the gradient of their input.
 *
 * Where weights are shared out (FSDP), the embedding's and the head's are gathered together before the first is used,
 * and stay: they are the root unit, which is not given up before its backward pass.
 *
 * Eager, logits are in the model's type and cast to fp32 (PyTorch's cross_entropy of logits.float()); log-softmax, the
 * gradient of that and the gradient of the logits have results of their own, the first of these two in place of the
 * cast logits, which nobody needs any more. The logits' place stays theirs, nothing else of that size being made: their
 * gradient is cast into it.
 */
#include "models/schedule/layers/layer_builder.h"

static uint32_t embedding_unit(const struct layer_builder *b)
{
    return b->n_layers;
}

static uint32_t head_unit(const struct layer_builder *b)
{
    return b->n_layers + 1;
}

static uint32_t head_weight(const struct layer_builder *b)
{
    return b->model->tied_embeddings ? b->units[embedding_unit(b)].first : b->units[head_unit(b)].first + 1;
}

static void gather_head(struct layer_builder *b)
{
    layer_gather_unit(b, head_unit(b));
    if (b->model->tied_embeddings)
        layer_gather_unit(b, embedding_unit(b));
}

static struct layer_work work_on(const struct layer_builder *b, enum model_part part, uint64_t rows, uint64_t columns)
{
    return (struct layer_work){.part = (uint8_t)part, .layer = b->n_layers, .rows = rows, .columns = columns};
}

uint32_t embedding_forward(struct layer_builder *b)
{
    uint32_t unit = embedding_unit(b), looked_up = layer_hidden(b, "embedded", UINT32_MAX, b->tokens);
    layer_gather_unit(b, unit);
    if (b->step->zero == 3)
        gather_head(b);
    layer_add(b, OP_EMBED, work_on(b, MODEL_EMBEDDING, b->tokens, b->model->hidden),
              LIST(b->weights[b->units[unit].first].value), LIST(looked_up));
    if (b->step->zero < 3)
        layer_release_unit(b, unit);
    return layer_sum_rows(b, "x", UINT32_MAX, looked_up);
}

void embedding_backward(struct layer_builder *b, uint32_t dx)
{
    struct weight *weight = &b->weights[b->units[embedding_unit(b)].first];
    uint32_t all = layer_gather_rows(b, "dx all", UINT32_MAX, dx);
    uint32_t reads[3] = {all}, n = 1;
    if (weight->added)
        reads[n++] = weight->gradient;
    if (b->step->zero == 3) /* it is there until then */
        reads[n++] = weight->value;
    layer_add(b, OP_EMBED_BACKWARD, work_on(b, MODEL_EMBEDDING, b->tokens, b->model->hidden),
              (struct buffer_list){reads, n}, LIST(weight->gradient));
    weight->added = true;
    layer_reduce_unit(b, embedding_unit(b));
}

/* ---- the head ---- */

/* Rows of one of the chunks. */
static uint64_t chunk_rows(const struct layer_builder *b)
{
    return (b->tokens + b->step->loss_chunks - 1) / b->step->loss_chunks;
}

static uint32_t logits_buffer(struct layer_builder *b)
{
    enum dtype dtype = b->step->loss == LOSS_EAGER ? b->hidden : DTYPE_FP32;
    return layer_buffer(b, "logits", UINT32_MAX, TENSOR_LOGITS, dtype, ROLE_ACTIVATIONS, chunk_rows(b), b->vocab);
}

/* What the eager loss has beside the logits. */
static uint32_t loss_buffer(struct layer_builder *b, const char *name)
{
    return layer_buffer(b, name, UINT32_MAX, TENSOR_LOGITS, DTYPE_FP32, ROLE_ACTIVATIONS, b->tokens, b->vocab);
}

/* A product with the head's matrix on `rows` rows. */
static void head_product(struct layer_builder *b, enum product_form form, uint64_t rows, struct buffer_list reads,
                         uint32_t result)
{
    struct layer_work work = work_on(b, MODEL_HEAD, rows, b->vocab);
    work.form = (uint8_t)form;
    work.dtype = (uint8_t)b->hidden;
    work.depth = b->model->hidden;
    if (form == PRODUCT_INPUT_GRADIENT) {
        work.columns = b->model->hidden;
        work.depth = b->vocab;
    } else if (form == PRODUCT_WEIGHT_GRADIENT) {
        work.rows = b->model->hidden;
        work.depth = rows;
    }
    layer_add(b, OP_PRODUCT, work, reads, LIST(result));
}

static void head_weight_gradient(struct layer_builder *b, uint64_t rows, uint32_t normed, uint32_t logits)
{
    struct weight *weight = &b->weights[head_weight(b)];
    const uint32_t reads[] = {normed, logits, weight->gradient};
    head_product(b, PRODUCT_WEIGHT_GRADIENT, rows, (struct buffer_list){reads, weight->added ? 3 : 2},
                 weight->gradient);
    weight->added = true;
}

/* Logits become their gradient. */
static void add_loss(struct layer_builder *b, uint32_t logits, uint64_t rows)
{
    uint32_t numbers = layer_buffer(b, "row sums", UINT32_MAX, TENSOR_HIDDEN, DTYPE_FP32, ROLE_WORKSPACE, rows, 2);
    struct layer_work work = work_on(b, MODEL_HEAD, rows, b->vocab);
    if (b->layout.tp > 1) {
        layer_add(b, OP_LOSS, work, LIST(logits), LIST(numbers));
        layer_sum_tensor(b, LIST(numbers));
        layer_add(b, OP_LOSS, work, LIST(logits, numbers), LIST(logits));
    } else {
        layer_add(b, OP_LOSS, work, LIST(logits), LIST(logits, numbers));
    }
}

static void add_eager_loss(struct layer_builder *b, uint32_t logits)
{
    const struct layer_work work = work_on(b, MODEL_HEAD, b->tokens, b->vocab);
    b->head.wide = loss_buffer(b, "logits fp32");
    b->head.log_softmax = loss_buffer(b, "log-softmax");
    layer_add(b, OP_LOSS, work, LIST(logits), LIST(b->head.wide));
    layer_add(b, OP_LOSS, work, LIST(b->head.wide), LIST(b->head.log_softmax));
}

static void add_eager_loss_backward(struct layer_builder *b, uint32_t logits)
{
    const struct layer_work work = work_on(b, MODEL_HEAD, b->tokens, b->vocab);
    uint32_t gradient = loss_buffer(b, "d logits fp32");
    layer_add(b, OP_LOSS, work, LIST(b->head.log_softmax), LIST(b->head.wide));
    layer_add(b, OP_LOSS, work, LIST(b->head.wide, b->head.log_softmax), LIST(gradient));
    layer_add(b, OP_LOSS, work, LIST(gradient, logits), LIST(logits));
}

/* The last norm of `x`, all rows. */
static uint32_t last_norm(struct layer_builder *b, uint32_t x)
{
    uint32_t normed = layer_hidden(b, "last norm", UINT32_MAX, b->rows);
    layer_norm(b, b->n_layers, b->units[head_unit(b)].first, x, normed);
    return normed;
}

static void chunked(struct layer_builder *b, uint32_t normed)
{
    uint32_t all = layer_gather_rows(b, "last norm all", UINT32_MAX, normed), logits = logits_buffer(b);
    uint64_t chunk = chunk_rows(b);
    b->head.d_normed = b->experiment->train ? layer_hidden(b, "d last norm", UINT32_MAX, b->tokens) : NO_BUFFER;
    uint64_t first = 0;
    do { /* once on a rank without rows too: its gradients are part of the sums */
        uint64_t rows = b->tokens - first < chunk ? b->tokens - first : chunk;
        head_product(b, PRODUCT_OUTPUT, rows, LIST(all, b->weights[head_weight(b)].value), logits);
        add_loss(b, logits, rows);
        if (b->experiment->train) {
            head_product(b, PRODUCT_INPUT_GRADIENT, rows, LIST(logits, b->weights[head_weight(b)].value),
                         b->head.d_normed);
            head_weight_gradient(b, rows, all, logits);
        }
        first += chunk;
    } while (first < b->tokens);
}

void head_forward(struct layer_builder *b, uint32_t x)
{
    gather_head(b);
    b->head.normed = last_norm(b, x);
    if (b->step->loss_chunks > 1) {
        chunked(b, b->head.normed);
        return;
    }
    uint32_t all = layer_gather_rows(b, "last norm all", UINT32_MAX, b->head.normed);
    b->head.logits = logits_buffer(b);
    head_product(b, PRODUCT_OUTPUT, b->tokens, LIST(all, b->weights[head_weight(b)].value), b->head.logits);
    if (b->step->loss == LOSS_EAGER)
        add_eager_loss(b, b->head.logits);
    else
        add_loss(b, b->head.logits, b->tokens);
}

/* The sum of the input's gradient over tp flows beside the product for the weights'. */
static uint32_t whole_backward(struct layer_builder *b)
{
    if (b->step->loss == LOSS_EAGER)
        add_eager_loss_backward(b, b->head.logits);
    uint32_t all = layer_gather_rows(b, "last norm again", UINT32_MAX, b->head.normed);
    uint32_t partial = layer_hidden(b, "d last norm", UINT32_MAX, b->tokens);
    head_product(b, PRODUCT_INPUT_GRADIENT, b->tokens, LIST(b->head.logits, b->weights[head_weight(b)].value), partial);
    uint32_t sum = layer_sum_rows(b, "d norm sum", UINT32_MAX, partial);
    head_weight_gradient(b, b->tokens, all, b->head.logits);
    return sum;
}

uint32_t head_backward(struct layer_builder *b, uint32_t x)
{
    uint32_t sum =
        b->step->loss_chunks == 1 ? whole_backward(b) : layer_sum_rows(b, "d norm sum", UINT32_MAX, b->head.d_normed);
    uint32_t dx = layer_hidden(b, "dx", UINT32_MAX, b->rows);
    layer_norm_backward(b, b->n_layers, b->units[head_unit(b)].first, sum, x, dx);
    layer_sum_norms(b, LIST(b->weights[b->units[head_unit(b)].first].gradient));
    layer_release_unit(b, head_unit(b));
    layer_reduce_unit(b, head_unit(b));
    return dx;
}
