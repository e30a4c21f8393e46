/* experiment.c - reads an experiment: the key tables first, then what holds between keys.
 *
 * Every judgement is made as far as its keys are known (a refused count is still zero; of words, experiment_knows says
 * it), so that one run shows all that is wrong, and each mistake once. A message stands where the key that can be
 * changed was written.
 */
#include "models/input/experiment.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/divisors.h"
#include "models/base/memory.h"
#include "models/input/data_path.h"
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

/* --- between keys ------------------------------------------------------------------------------------------------- */

static bool check_heads(const struct experiment *experiment, struct diagnostics *diag)
{
    uint32_t tp = experiment->degree[PARALLEL_TP];
    uint32_t q_heads = experiment->model.q_heads, kv_heads = experiment->model.kv_heads;
    if (tp == 0 || (q_heads % tp == 0 && kv_heads % tp == 0))
        return true;
    char nearest[NEAREST_SIZE];
    divisors_nearest(divisors_greatest_common(q_heads, kv_heads), tp, nearest, sizeof nearest);
    return COMPLAIN(experiment, diag, "parallel", "tp",
                    "'tp' = %" PRIu32 " does not divide q_heads = %" PRIu32 " and kv_heads = %" PRIu32
                    ", expected a divisor of both, nearest: %s",
                    tp, q_heads, kv_heads, nearest);
}

static bool check_zigzag(const struct experiment *experiment, struct diagnostics *diag)
{
    uint64_t cp = experiment->degree[PARALLEL_CP], divisor = 2 * cp;
    const char *key = experiment->new_tokens ? "new_tokens" : "seq_len";
    if (!experiment_knows(experiment, "workload", "new_tokens"))
        return true; /* which of the two is sharded */
    uint64_t tokens = experiment->new_tokens ? experiment->new_tokens : experiment->seq_len;
    if (tokens % divisor == 0)
        return true;
    uint64_t below = tokens / divisor * divisor, above = below + divisor;
    uint64_t most = experiment->new_tokens ? experiment->seq_len : SEQ_LEN_MAX; /* new ones are some of all */
    char nearest[96];
    if (below == 0 && above > most)
        snprintf(nearest, sizeof nearest, "which seq_len = %" PRIu64 " has no room for", most);
    else if (below == 0)
        snprintf(nearest, sizeof nearest, "the nearest: %" PRIu64, above);
    else if (above > most)
        snprintf(nearest, sizeof nearest, "the nearest: %" PRIu64, below);
    else
        snprintf(nearest, sizeof nearest, "the nearest: %" PRIu64 " or %" PRIu64, below, above);
    return COMPLAIN(experiment, diag, "workload", key,
                    "'%s' = %" PRIu64 " with cp = %" PRIu64 " and zigzag, expected a multiple of 2 x cp = %" PRIu64
                    ", %s%s",
                    key, tokens, cp, divisor, nearest,
                    !experiment->new_tokens ? ""
                    : tokens < cp           ? "; to decode, contiguous or striped"
                    : below == 0            ? "; else contiguous or striped"
                                            : "");
}

static bool check_counts(const struct experiment *experiment, struct diagnostics *diag)
{
    size_t n = 0;
    uint64_t sum = 0; /* at most 2^20 counts of at most 2^31 each */
    for (; experiment->shard_counts[n] != SHARD_COUNTS_END; n++)
        sum += experiment->shard_counts[n];
    bool ok = true;
    if (experiment->degree[PARALLEL_CP] > 0 && n != experiment->degree[PARALLEL_CP])
        ok = COMPLAIN(experiment, diag, "schedule", "sharding",
                      "'sharding' has %zu counts, expected one a rank: cp = %" PRIu32, n,
                      experiment->degree[PARALLEL_CP]);
    if (experiment->seq_len > 0 && sum != experiment->seq_len)
        ok = COMPLAIN(experiment, diag, "schedule", "sharding",
                      "'sharding' counts sum to %" PRIu64 ", expected seq_len = %" PRIu64, sum, experiment->seq_len);
    return ok;
}

/* Documents to shard, and not so many that a shard would fall into splinters. */
static bool check_per_document(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct mask *mask = &experiment->mask;
    if (!experiment_knows(experiment, "workload", "mask"))
        return true;
    if (mask->kind != MASK_DOCUMENTS)
        return COMPLAIN(experiment, diag, "schedule", "sharding",
                        "'sharding' = per-document without documents, expected mask = documents:... beside it");
    if (mask->n_documents <= SHARDING_DOCUMENTS_MAX)
        return true;
    return COMPLAIN(experiment, diag, "schedule", "sharding",
                    "'sharding' = per-document with %zu documents, expected at most %d, or another sharding",
                    mask->n_documents, SHARDING_DOCUMENTS_MAX);
}

static bool check_sharding(const struct experiment *experiment, struct diagnostics *diag)
{
    if (experiment->sharding == SHARDING_EXPLICIT)
        return check_counts(experiment, diag);
    if (experiment->sharding == SHARDING_PER_DOCUMENT)
        return check_per_document(experiment, diag);
    if (experiment->sharding == SHARDING_ZIGZAG && experiment->seq_len > 0 && experiment->degree[PARALLEL_CP] > 0)
        return check_zigzag(experiment, diag);
    return true;
}

/* A cached prefix is what earlier passes left: there is something new, and nothing goes back into it. */
static bool check_new_tokens(const struct experiment *experiment, struct diagnostics *diag)
{
    if (experiment->new_tokens == 0)
        return true;
    bool ok = true;
    if (experiment->seq_len > 0 && experiment->new_tokens > experiment->seq_len)
        ok = COMPLAIN(experiment, diag, "workload", "new_tokens",
                      "'new_tokens' = %" PRIu64 ", expected at most seq_len = %" PRIu64 ", the cached ones included",
                      experiment->new_tokens, experiment->seq_len);
    if (experiment->train && experiment_knows(experiment, "workload", "pass"))
        ok = COMPLAIN(experiment, diag, "workload", "new_tokens",
                      "'new_tokens' with pass = train, expected pass = forward: a cached prefix has no gradients");
    if (experiment->sharding == SHARDING_EXPLICIT || experiment->sharding == SHARDING_PER_DOCUMENT)
        ok = COMPLAIN(experiment, diag, "schedule", "sharding",
                      "'sharding' by counts or documents with new_tokens, expected contiguous, zigzag or striped");
    return ok;
}

static bool check_documents(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct mask *mask = &experiment->mask;
    if (mask->kind != MASK_DOCUMENTS || experiment->seq_len == 0 ||
        mask->document_starts[mask->n_documents] == experiment->seq_len)
        return true;
    return COMPLAIN(experiment, diag, "workload", "mask",
                    "'mask' documents sum to %" PRIu64 ", expected seq_len = %" PRIu64,
                    mask->document_starts[mask->n_documents], experiment->seq_len);
}

/* Every count of bytes, over all ranks and the passes of a step, must fit 63 bits. In fp64 the largest are the tensors
 * of a sequence, when ranks trade rows for heads, and the keys and values that cp ranks see from all others: forward,
 * again backward, and their gradients. (Where queries travel to all, schedule.c has more to add up.) Doubles do to find
 * out, the limit need not be sharp. */
static bool check_overflow(const struct experiment *experiment, struct diagnostics *diag)
{
    const struct transformer *model = &experiment->model;
    double rows = (double)experiment->seq_len * experiment->batch * model->head_dim * 8;
    double sequence = rows * model->q_heads * 16 * experiment->degree[PARALLEL_DP];
    double traffic = rows * model->kv_heads * 2 * 3 * experiment->degree[PARALLEL_CP] * experiment->degree[PARALLEL_DP];
    if (sequence < 0x1p62 && traffic < 0x1p62)
        return true;
    return COMPLAIN(experiment, diag, "workload", "seq_len",
                    "'seq_len' = %" PRIu64 " with batch = %" PRIu32 ", q_heads = %" PRIu32 ", kv_heads = %" PRIu32
                    ", head_dim = %" PRIu32 ", cp = %" PRIu32 " and dp = %" PRIu32
                    " moves more bytes than 63 bits can count, expected a smaller product",
                    experiment->seq_len, experiment->batch, model->q_heads, model->kv_heads, model->head_dim,
                    experiment->degree[PARALLEL_CP], experiment->degree[PARALLEL_DP]);
}

static bool check_layout(const struct experiment *experiment, struct diagnostics *diag)
{
    uint64_t ranks = 1; /* at most 2^60 */
    for (int d = 0; d < PARALLEL_DIMENSIONS; d++)
        ranks *= experiment->degree[d];
    if (ranks <= INT32_MAX)
        return true;
    return COMPLAIN(experiment, diag, "parallel", "cp", "tp x cp x dp = %" PRIu64 " ranks, expected at most %" PRId32,
                    ranks, INT32_MAX);
}

/* A list of cp indices names each of them once. */
static bool check_ring(const struct experiment *experiment, struct diagnostics *diag)
{
    uint64_t cp = experiment->degree[PARALLEL_CP];
    if (experiment->ring != RING_EXPLICIT || cp == 0)
        return true;
    bool *seen = memory_zeroed(cp, sizeof *seen), ok = true;
    size_t n = 0;
    for (const uint64_t *index = experiment->ring_indices; ok && *index != RING_INDICES_END; index++, n++) {
        if (*index >= cp)
            ok = COMPLAIN(experiment, diag, "parallel", "ring",
                          "'ring' has %" PRIu64 ", expected each of 0 to cp - 1 = %" PRIu64 " once", *index, cp - 1);
        else if (seen[*index])
            ok = COMPLAIN(experiment, diag, "parallel", "ring",
                          "'ring' has %" PRIu64 " twice, expected each of 0 to cp - 1 = %" PRIu64 " once", *index,
                          cp - 1);
        else
            seen[*index] = true;
    }
    free(seen);
    if (ok && n != cp)
        ok = COMPLAIN(experiment, diag, "parallel", "ring",
                      "'ring' has %zu indices, expected each of 0 to cp - 1 = %" PRIu64 " once", n, cp - 1);
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
    ok &= check_heads(experiment, diag);
    bool fits = check_new_tokens(experiment, diag);
    ok &= fits && check_sharding(experiment, diag);
    ok &= check_documents(experiment, diag);
    ok &= check_overflow(experiment, diag);
    ok &= check_layout(experiment, diag);
    ok &= check_ring(experiment, diag);
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
