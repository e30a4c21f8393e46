/* summary.c - short forms of what a file says; what does not fit is cut. */
#include "cli/summary.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/quantity.h"
#include "models/input/units.h"

/* Appends to what `text` already holds, as far as there is room. */
static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void summary_name(const char *path, char *text, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, ".ini") == 0)
        length -= 4;
    snprintf(text, size, "%.*s", (int)length, name);
}

void summary_mask(const struct mask *mask, char *text, size_t size)
{
    switch (mask->kind) {
    case MASK_FULL:
        snprintf(text, size, "full mask");
        break;
    case MASK_CAUSAL:
        snprintf(text, size, "causal mask");
        break;
    case MASK_WINDOW:
        snprintf(text, size, "window of %" PRIu64, mask->window);
        break;
    case MASK_DOCUMENTS:
        snprintf(text, size, "%zu document%s", mask->n_documents, mask->n_documents == 1 ? "" : "s");
        break;
    }
}

void summary_tokens(const struct experiment *experiment, char *text, size_t size)
{
    snprintf(text, size, "%s tokens", text_of_count(experiment->seq_len).text);
    if (experiment->new_tokens)
        append(text, size, ", %s of them new", text_of_count(experiment->new_tokens).text);
}

const char *summary_sharding(enum sharding_kind kind)
{
    static const char *const names[] = {
        [SHARDING_CONTIGUOUS] = "contiguous",    [SHARDING_ZIGZAG] = "zigzag",
        [SHARDING_STRIPED] = "striped",          [SHARDING_PER_DOCUMENT] = "zigzag per document",
        [SHARDING_EXPLICIT] = "explicit shards",
    };
    return names[kind];
}

const char *summary_ring(enum ring_kind kind)
{
    static const char *const names[] = {
        [RING_NATURAL] = "",    [RING_NODE_MAJOR] = "node-major", [RING_RAIL] = "rail",
        [RING_SNAKE] = "snake", [RING_EXPLICIT] = "as listed",
    };
    return names[kind];
}

void summary_experiment(const struct experiment *experiment, char *text, size_t size)
{
    char mask[64], tokens[96];
    summary_mask(&experiment->mask, mask, sizeof mask);
    summary_tokens(experiment, tokens, sizeof tokens);
    snprintf(text, size, "%s %s, %s", experiment->model.name, dtype_name(experiment->dtype), tokens);
    if (experiment->batch > 1)
        append(text, size, " x %" PRIu32, experiment->batch);
    if (experiment->step.scope != SCOPE_ATTENTION && experiment->step.micro_batches > 1)
        append(text, size, " x %" PRIu32 " passes", experiment->step.micro_batches);
    static const char *const scopes[] = {[SCOPE_ATTENTION] = "", [SCOPE_LAYER] = "layer ", [SCOPE_MODEL] = "model "};
    append(text, size, ", %s, %s%s, ", mask, scopes[experiment->step.scope], experiment->train ? "train" : "forward");
    if (experiment->degree[PARALLEL_TP] > 1)
        append(text, size, "tp %" PRIu32 " ", experiment->degree[PARALLEL_TP]);
    append(text, size, "cp %" PRIu32, experiment->degree[PARALLEL_CP]);
    if (experiment->degree[PARALLEL_DP] > 1)
        append(text, size, " dp %" PRIu32, experiment->degree[PARALLEL_DP]);
    append(text, size, ", %s, %s", experiment->algorithm, summary_sharding(experiment->sharding));
    if (!experiment->overlap)
        append(text, size, ", no overlap");
    if (experiment->ring != RING_NATURAL)
        append(text, size, ", ring %s", summary_ring(experiment->ring));
}

void summary_topology(const struct topology *topology, char *text, size_t size)
{
    static const char *const kinds[] = {"switch", "mesh", "ring", "torus", "dragonfly"};
    snprintf(text, size, "%" PRIu64 " x %s", topology->n_gpus, topology->device);
    for (uint32_t i = 0; i < topology->n_levels; i++) {
        const struct level *level = &topology->levels[i];
        char rate[32];
        units_print(rate, sizeof rate, DIMENSION_RATE, level->bytes_per_s);
        if (topology->graph)
            append(text, size, "%s %" PRIu32 " x %s (graph, %s)", i ? "," : ":", level->size, level->name, rate);
        else
            append(text, size, "%s %" PRIu32 " per %s (%s, %s)", i ? "," : ":", level->size, level->name,
                   kinds[level->kind], rate);
    }
}

void summary_device(const struct device *device, char *text, size_t size)
{
    snprintf(text, size, "%s, %.4g GiB, attention by", device->name, device->memory_bytes / (1 << 30));
    size_t named = 0;
    for (size_t i = 0; i < device->n_tables; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || strcmp(device->tables[k].kernel, device->tables[i].kernel) == 0;
        if (!seen)
            append(text, size, "%s %s", named++ ? "," : "", device->tables[i].kernel);
    }
}

void summary_transformer(const struct transformer *transformer, char *text, size_t size)
{
    snprintf(text, size, "%" PRIu32 " query head%s, %" PRIu32 " KV head%s, head dim %" PRIu32, transformer->q_heads,
             transformer->q_heads == 1 ? "" : "s", transformer->kv_heads, transformer->kv_heads == 1 ? "" : "s",
             transformer->head_dim);
}
