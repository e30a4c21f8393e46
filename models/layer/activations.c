/* activations.c - the tensors in the order of the forward pass. */
#include "models/layer/activations.h"

#include <assert.h>

/* A list that is being written. */
struct writer {
    const struct transformer *model;
    const struct activation_setting *setting;
    struct activation *list;
    size_t n;
    double element; /* bytes */
};

static void add(struct writer *writer, const char *name, enum activation_split split, double bytes)
{
    assert(writer->n < ACTIVATIONS_MAX);
    writer->list[writer->n++] = (struct activation){.name = name, .split = split, .bytes = bytes};
}

/* Rows of hidden; under sequence parallelism the fullest rank's. */
static void add_rows(struct writer *writer, const char *name, double bytes_per_element)
{
    const struct activation_setting *setting = writer->setting;
    uint64_t parts = setting->sequence_parallel ? setting->tp : 1;
    uint64_t rows = setting->rows / parts + (setting->rows % parts != 0);
    add(writer, name, SPLIT_ROWS, (double)rows * writer->model->hidden * bytes_per_element);
}

/* `columns` of the whole group for each row. */
static void add_columns(struct writer *writer, const char *name, double columns, double bytes_per_element)
{
    const struct activation_setting *setting = writer->setting;
    add(writer, name, SPLIT_COLUMNS, (double)setting->rows * (columns / setting->tp) * bytes_per_element);
}

static bool keeps(const struct writer *writer, enum recomputation most)
{
    return writer->setting->recomputation <= most;
}

static void add_attention(struct writer *writer)
{
    const struct transformer *model = writer->model;
    double q = (double)model->q_heads * model->head_dim, kv = (double)model->kv_heads * model->head_dim;
    double scores = (double)model->q_heads * (double)writer->setting->keys;
    bool core = keeps(writer, RECOMPUTE_NONE);
    add_rows(writer, "QKV input", writer->element);
    add_columns(writer, "Q", q, writer->element);
    add_columns(writer, "K", kv, writer->element);
    add_columns(writer, "V", kv, writer->element);
    if (core && writer->setting->flash)
        add_columns(writer, "LSE", model->q_heads, (double)dtype_bytes(DTYPE_FP32));
    if (core && !writer->setting->flash) {
        add_columns(writer, "softmax output", scores, writer->element);
        if (model->dropout) {
            add_columns(writer, "softmax dropout mask", scores, 1);
            add_columns(writer, "softmax dropout output", scores, writer->element);
        }
    }
    add_columns(writer, "O", q, writer->element);
    if (model->dropout)
        add_rows(writer, "attention dropout mask", 1);
}

static void add_mlp(struct writer *writer)
{
    const struct transformer *model = writer->model;
    add_rows(writer, "MLP input", writer->element);
    if (model->mlp == MLP_GATED)
        add_columns(writer, "gate", model->ffn, writer->element);
    add_columns(writer, "up", model->ffn, writer->element);
    add_columns(writer, "down input", model->ffn, writer->element);
    if (model->dropout)
        add_rows(writer, "MLP dropout mask", 1);
}

/* Results of the first, third and fifth product; nobody needs that of the last. */
static void add_alternate(struct writer *writer)
{
    const struct transformer *model = writer->model;
    add_columns(writer, "Q", (double)model->q_heads * model->head_dim, writer->element);
    add_columns(writer, "V", (double)model->kv_heads * model->head_dim, writer->element);
    add_columns(writer, model->mlp == MLP_GATED ? "gate" : "up", model->ffn, writer->element);
}

size_t activations_of_layer(const struct transformer *model, const struct activation_setting *setting,
                            struct activation list[ACTIVATIONS_MAX])
{
    struct writer writer = {
        .model = model, .setting = setting, .list = list, .element = (double)dtype_bytes(setting->dtype)};
    add_rows(&writer, "layer input", writer.element); /* which the first norm needs */
    if (setting->recomputation == RECOMPUTE_AROUND || setting->recomputation == RECOMPUTE_ALTERNATE) {
        /* attention's results */
        add_columns(&writer, "LSE", model->q_heads, (double)dtype_bytes(DTYPE_FP32));
        add_columns(&writer, "O", (double)model->q_heads * model->head_dim, writer.element);
    }
    if (setting->recomputation == RECOMPUTE_ALTERNATE) /* and those of products */
        add_alternate(&writer);
    if (!keeps(&writer, RECOMPUTE_SELECTIVE))
        return writer.n;
    add_attention(&writer);
    add_rows(&writer, "MLP norm input", writer.element);
    add_mlp(&writer);
    return writer.n;
}

double activations_total(const struct activation *list, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += list[i].bytes;
    return total;
}
