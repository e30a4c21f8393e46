/* transformer.c - reads one transformer preset. */
#include "models/input/transformer.h"

#include <math.h>

#include "models/input/ini_document.h"

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
     .help = "sliding window it was trained with, for information; 0: none"},
};

static const struct section_spec section = {
    .name = "transformer",
    .required = true,
    .help = "the shape of a model",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
};

static const struct section_spec *const sections[] = {&section, NULL};

const struct file_spec transformer_file = {.name = "transformer", .sections = sections};

bool transformer_read(struct transformer *transformer, const char *path, struct diagnostics *diag)
{
    *transformer = (struct transformer){0};
    struct ini_document *document = ini_document_read(path, diag);
    if (!document)
        return false;
    const struct ini_section *shape = ini_document_section(document, section.name);
    bool ok = key_table_check_sections(&transformer_file, document, diag);
    if (shape && !key_table_read(&section, document, shape, transformer, diag))
        ok = false;
    if (transformer->kv_heads > 0 && transformer->q_heads > 0 && transformer->q_heads % transformer->kv_heads != 0)
        ok = ini_document_complain(document, shape, ini_section_entry(shape, "kv_heads"), diag,
                                   "'kv_heads' = %u does not divide q_heads = %u, expected a divisor",
                                   transformer->kv_heads, transformer->q_heads);
    ini_document_destroy(document);
    return ok;
}
