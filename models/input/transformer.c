/* transformer.c - reads one transformer preset. */
#include "models/input/transformer.h"

#include <inttypes.h>

#include "models/input/ini_document.h"

const char *const transformer_mlp_words[] = {"gated", "plain", NULL};      /* as enum mlp_kind */
const char *const transformer_norm_words[] = {"rms", "layer", NULL};       /* as enum norm_kind */
const char *const transformer_bias_words[] = {"none", "qkv", "all", NULL}; /* as enum bias_kind */

static const struct key_spec keys[] = {
    {.name = "name",
     .type = KEY_TEXT,
     .offset = offsetof(struct transformer, name),
     .size = sizeof((struct transformer *)0)->name,
     .form = "the file's name without .ini",
     .help = "what reports call it"},
    TRANSFORMER_SHAPE_KEYS(0, NULL),
    {.name = "window",
     .type = KEY_COUNT64,
     .offset = offsetof(struct transformer, window),
     .fallback = "0",
     .help = "sliding window it was trained with; 0: none. A run has the mask of its [workload]"},
};

static const struct section_spec shape_section = {
    .name = "transformer",
    .required = true,
    .help = "the shape of a model: attention runs on the heads, --list transformers counts with all of it",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
};

static const struct section_spec *const sections[] = {&shape_section, NULL};

const struct file_spec transformer_file = {.name = "transformer", .sections = sections};

/* Every weight and bias there can be, and some more: the limit need not be sharp. */
static double parameters_at_most(const struct transformer *model)
{
    double heads = 2 * ((double)model->q_heads + model->kv_heads) * model->head_dim;
    double layer = (heads + 3.0 * model->ffn + 8) * (model->hidden + 1.0);
    return layer * model->layers + (2.0 * model->vocab + model->positions + 2) * model->hidden;
}

bool transformer_check(const struct transformer *transformer, const struct ini_document *document,
                       const struct ini_section *section, struct diagnostics *diag)
{
    bool ok = true;
    if (transformer->kv_heads > 0 && transformer->q_heads > 0 && transformer->q_heads % transformer->kv_heads != 0)
        ok = ini_document_complain(document, section, ini_section_entry(section, "kv_heads"), diag,
                                   "'kv_heads' = %" PRIu32 " does not divide q_heads = %" PRIu32 ", expected a divisor",
                                   transformer->kv_heads, transformer->q_heads);
    if (parameters_at_most(transformer) >= 0x1p62)
        ok = ini_document_complain(document, section, ini_section_entry(section, "layers"), diag,
                                   "'layers' = %" PRIu32 " of this shape have more parameters than 63 bits can count, "
                                   "expected a smaller model",
                                   transformer->layers);
    return ok;
}

bool transformer_is_complete(const struct transformer *transformer)
{
    return transformer->layers > 0 && transformer->hidden > 0 && transformer->ffn > 0 && transformer->vocab > 0;
}

bool transformer_read(struct transformer *transformer, const char *path, struct diagnostics *diag)
{
    *transformer = (struct transformer){0};
    struct ini_document *document = ini_document_read(path, diag);
    if (!document)
        return false;
    const struct ini_section *shape = ini_document_section(document, shape_section.name);
    bool ok = key_table_check_sections(&transformer_file, document, diag);
    if (shape && !key_table_read(&shape_section, document, shape, transformer, diag))
        ok = false;
    ok &= transformer_check(transformer, document, shape, diag);
    ini_document_destroy(document);
    return ok;
}
