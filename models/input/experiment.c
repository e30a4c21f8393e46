/* experiment.c - reads an experiment: the key tables first, then what they refer to (a preset, an implementation), then
 * what holds between keys (experiment_checks.h).
 */
#include "models/input/experiment.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/experiment_checks.h"
#include "models/input/experiment_keys.h"
#include "models/input/experiment_values.h"
#include "models/input/ini_document.h"
#include "models/input/key_table.h"
#include "models/input/step_checks.h"
#include "models/input/transformer.h"

/* A message about a key; where the key was not written, about its section. */
#define COMPLAIN(experiment, diag, section_name, key, ...)                                                             \
    ini_document_complain((experiment)->document, ini_document_section((experiment)->document, section_name),          \
                          find_entry(experiment, section_name, key), diag, __VA_ARGS__)

static const struct ini_entry *find_entry(const struct experiment *experiment, const char *section_name,
                                          const char *key)
{
    const struct ini_section *section =
        experiment->document ? ini_document_section(experiment->document, section_name) : NULL;
    return section ? ini_section_entry(section, key) : NULL;
}

/* --- [model] ------------------------------------------------------------------------------------------------------ */

/* The transformer's keys are known if the preset is. */
static bool read_preset(struct experiment *experiment, const char *preset, struct diagnostics *diag)
{
    char *path = data_path_find("transformers", preset);
    bool ok;
    if (path) {
        ok = transformer_read(&experiment->model, path, diag);
    } else {
        char **names = data_path_list("transformers");
        char *hint = key_table_suggestion(preset, (const char *const *)names);
        ok = COMPLAIN(experiment, diag, "model", "preset", "unknown preset '%s'%s", preset, hint);
        free(hint);
        for (size_t i = 0; names[i]; i++)
            free(names[i]);
        free(names);
    }
    free(path);
    if (!ok)
        ini_section_refuse(ini_document_section(experiment->document, "model"), "preset");
    return ok;
}

static bool is_shape_key(const char *key)
{
    return strcmp(key, "preset") != 0 && strcmp(key, "dtype") != 0;
}

/* A model is a preset or a shape, not both. */
static bool settle_model(struct experiment *experiment, struct diagnostics *diag)
{
    static const char *const needed[] = {"q_heads", "kv_heads", "head_dim"};
    const struct ini_section *section = ini_document_section(experiment->document, "model");
    if (!section)
        return true; /* already reported */
    const struct ini_entry *preset = ini_section_entry(section, "preset");
    bool ok = true;
    if (preset) {
        for (size_t i = 0; i < experiment_model.n_keys; i++) {
            const char *key = experiment_model.keys[i].name;
            if (is_shape_key(key) && ini_section_entry(section, key))
                ok = COMPLAIN(experiment, diag, "model", key,
                              "'%s' beside preset = %s, expected either a preset or a shape", key, preset->value);
        }
        return read_preset(experiment, preset->value, diag) && ok;
    }
    bool shape = experiment_knows(experiment, "model", "preset"); /* which may have been meant, mistyped */
    for (size_t i = 0; i < sizeof needed / sizeof *needed && shape; i++) {
        if (!ini_section_entry(section, needed[i]) && experiment_knows(experiment, "model", needed[i]))
            ok = ini_document_complain(experiment->document, section, NULL, diag,
                                       "[model] has no key '%s', expected q_heads, kv_heads and head_dim, or a preset",
                                       needed[i]);
    }
    return transformer_check(&experiment->model, experiment->document, section, diag) && ok;
}

/* --- [schedule] implementation ------------------------------------------------------------------------------------ */

/* Its choices hold where the experiment makes none. */
static bool settle_implementation(struct experiment *experiment, struct diagnostics *diag)
{
    struct diagnostics why;
    if (!*experiment->implementation_name)
        return true; /* there is no [schedule], or the key was refused; both reported */
    diagnostics_init(&why);
    bool ok = implementation_read(&experiment->implementation, experiment->implementation_name, &why);
    for (size_t i = 0; i < why.count; i++)
        COMPLAIN(experiment, diag, "schedule", "implementation", "%s", why.lines[i]);
    diagnostics_fini(&why);
    if (!find_entry(experiment, "schedule", "kv_messages"))
        experiment->split_kv = experiment->implementation.split_kv;
    if (!find_entry(experiment, "schedule", "gradients"))
        experiment->gradient_accumulator = !experiment->implementation.gradients_model;
    return ok;
}

/* --- the interface ------------------------------------------------------------------------------------------------ */

static bool read_document(struct experiment *experiment, const char *const *overrides, size_t n_overrides,
                          struct diagnostics *diag)
{
    bool ok = true;
    for (size_t i = 0; i < n_overrides; i++)
        ok &= ini_document_override(experiment->document, overrides[i], diag);
    ok &= key_table_check_sections(&experiment_file, experiment->document, diag);
    for (size_t i = 0; experiment_file.sections[i]; i++) {
        const struct section_spec *spec = experiment_file.sections[i];
        const struct ini_section *section = ini_document_section(experiment->document, spec->name);
        bool optional = !spec->required && !spec->aside;
        if (optional || (section && !spec->aside)) /* a missing one is reported, its keys need not be */
            ok &= key_table_read(spec, experiment->document, section, experiment, diag);
    }
    experiment->mask.seq_len = experiment->seq_len;
    ok &= settle_model(experiment, diag);
    ok &= settle_implementation(experiment, diag);
    ok &= experiment_check(experiment, diag);
    ok &= step_check(experiment, diag);
    return ok;
}

bool experiment_read(struct experiment *experiment, const char *path, const char *const *overrides, size_t n_overrides,
                     struct diagnostics *diag)
{
    *experiment = (struct experiment){.path = memory_text(path), .document = ini_document_read(path, diag)};
    if (experiment->document && read_document(experiment, overrides, n_overrides, diag))
        return true;
    experiment_fini(experiment);
    return false;
}

void experiment_fini(struct experiment *experiment)
{
    ini_document_destroy(experiment->document);
    free(experiment->shard_counts);
    free(experiment->ring_indices);
    free(experiment->mask.document_starts);
    free(experiment->path);
    *experiment = (struct experiment){0};
}

int experiment_key_line(const struct experiment *experiment, const char *section, const char *key)
{
    const struct ini_entry *entry = find_entry(experiment, section, key);
    return entry ? entry->line : 0;
}

bool experiment_knows(const struct experiment *experiment, const char *section, const char *key)
{
    for (size_t i = 0; experiment->document && experiment_file.sections[i]; i++)
        if (strcmp(experiment_file.sections[i]->name, section) == 0)
            return key_table_knows(experiment_file.sections[i], experiment->document, key);
    return true;
}

bool experiment_complain(const struct experiment *experiment, const char *section, const char *key,
                         struct diagnostics *diag, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = memory_vformat(format, arguments);
    va_end(arguments);
    if (experiment->document)
        COMPLAIN(experiment, diag, section, key, "%s", text);
    else
        diagnostics_add(diag, "%s", text);
    free(text);
    return false;
}

uint32_t experiment_q_heads(const struct experiment *experiment)
{
    return experiment->model.q_heads / experiment->degree[PARALLEL_TP];
}

uint32_t experiment_kv_heads(const struct experiment *experiment)
{
    return experiment->model.kv_heads / experiment->degree[PARALLEL_TP];
}

uint64_t experiment_cached(const struct experiment *experiment)
{
    return experiment->new_tokens ? experiment->seq_len - experiment->new_tokens : 0;
}

/* Room for any value: a list printed is at most so much longer than it was written ("1Gi" becomes "1073741824"). */
static size_t value_size(const struct experiment *experiment)
{
    size_t longest = 0;
    for (size_t i = 0; i < experiment->document->n_sections; i++) {
        const struct ini_section *section = &experiment->document->sections[i];
        for (size_t j = 0; j < section->n_entries; j++) {
            size_t length = strlen(section->entries[j].value);
            longest = length > longest ? length : longest;
        }
    }
    return 4 * longest + 128;
}

void experiment_each_value(const struct experiment *experiment,
                           void (*visit)(void *context, const char *section, const char *key, const char *value),
                           void *context)
{
    size_t size = value_size(experiment);
    char *text = memory_zeroed(size, 1);
    for (size_t i = 0; experiment_file.sections[i]; i++) {
        const struct section_spec *spec = experiment_file.sections[i];
        bool idle = spec == &experiment_step && experiment->step.scope == SCOPE_ATTENTION;
        for (size_t j = 0; j < spec->n_keys && !spec->aside && !idle; j++) {
            if (strcmp(spec->keys[j].name, "preset") == 0)
                continue; /* its shape follows key by key, under the preset's name, so the values read back as they are
                           */
            key_table_print_value(&spec->keys[j], experiment, text, size);
            visit(context, spec->name, spec->keys[j].name, text);
        }
    }
    free(text);
}
