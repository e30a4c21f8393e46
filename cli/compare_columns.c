/* compare_columns.c - of all settings, those that tell the pairs of a comparison apart.
 *
 * A setting becomes a column when it varies over the pairs, or between the runs of a pair ("8 vs 4"). Where a name
 * stands for a whole set of values - a model's for its shape, a topology's for its levels - the name alone is shown
 * unless the values vary under one name. Topologies are those of the subjects: where a measurement ran is not what a
 * prediction assumed. Pairs that still look alike get the labels of their runs.
 */
#include "cli/compare_columns.h"

#include <stdlib.h>
#include <string.h>

#include "cli/summary.h"
#include "cli/text_table.h"
#include "models/base/memory.h"

enum source { FROM_EXPERIMENT, FROM_TOPOLOGY, FROM_ENGINE, FROM_SUBJECT, FROM_REFERENCE };

struct candidate {
    enum source source;
    const char *name; /* of the setting */
};

struct candidates {
    struct candidate *items;
    size_t count, capacity;
};

/* ---- what could be a column ---- */

static void add_candidate(struct candidates *candidates, enum source source, const char *name)
{
    for (size_t i = 0; i < candidates->count; i++)
        if (candidates->items[i].source == source && strcmp(candidates->items[i].name, name) == 0)
            return;
    memory_grow(candidates->items, candidates->count, candidates->capacity);
    candidates->items[candidates->count++] = (struct candidate){source, name};
}

static void add_candidates(struct candidates *candidates, enum source source, const struct run_settings *settings)
{
    for (size_t i = 0; i < settings->count; i++) {
        const char *name = settings->items[i].name;
        bool origin = source == FROM_EXPERIMENT && run_setting_is_name(name) && strcmp(name, "model.name") != 0;
        if (!origin)
            add_candidate(candidates, source, name);
    }
}

/* Many pairs share their runs, and all runs most names: a run is looked at once in a row. */
static void collect_candidates(struct candidates *candidates, const struct comparison *comparison)
{
    const struct compared_run *seen = NULL;
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        const struct compared_pair *pair = &comparison->pairs[i];
        add_candidates(candidates, FROM_EXPERIMENT, &pair->subject->experiment);
        if (pair->reference != seen)
            add_candidates(candidates, FROM_EXPERIMENT, &pair->reference->experiment);
        seen = pair->reference;
    }
    for (size_t i = 0; i < comparison->n_pairs; i++)
        add_candidates(candidates, FROM_TOPOLOGY, &comparison->pairs[i].subject->topology);
    add_candidate(candidates, FROM_ENGINE, "engine");
}

/* The setting whose value names a set of values that this one is part of; NULL: it stands for itself. */
static const char *name_above(const struct candidate *candidate)
{
    static const char *const shape[] = {"model.q_heads", "model.kv_heads", "model.head_dim",        "model.layers",
                                        "model.hidden",  "model.ffn",      "model.vocab",           "model.mlp",
                                        "model.norm",    "model.bias",     "model.tied_embeddings", "model.positions",
                                        "model.dropout"};
    if (candidate->source == FROM_TOPOLOGY)
        return strcmp(candidate->name, "path") == 0 ? NULL : "path";
    for (size_t i = 0; candidate->source == FROM_EXPERIMENT && i < sizeof shape / sizeof *shape; i++)
        if (strcmp(candidate->name, shape[i]) == 0)
            return "model.name";
    return NULL;
}

/* ---- cells ---- */

static const char *value_of(const struct compared_run *run, const struct candidate *candidate)
{
    const char *value = NULL;
    switch (candidate->source) {
    case FROM_EXPERIMENT:
        value = run_setting(&run->experiment, candidate->name);
        break;
    case FROM_TOPOLOGY:
        value = run_setting(&run->topology, candidate->name);
        break;
    case FROM_ENGINE:
        value = json_string_value(json_object_get(json_object_get(run->json, "engine"), "name"));
        break;
    case FROM_SUBJECT:
    case FROM_REFERENCE:
        return run->label;
    }
    return value ? value : "";
}

/* Whether the runs of a pair are held against each other in this setting, rather than the subject's alone shown. */
static bool holds_against(const struct comparison *comparison, const struct compared_pair *pair,
                          const struct candidate *candidate)
{
    if (candidate->source == FROM_EXPERIMENT)
        return !run_setting_is_name(candidate->name) || strcmp(pair->subject->question, pair->reference->question) != 0;
    return comparison->against_first && (candidate->source == FROM_TOPOLOGY || candidate->source == FROM_ENGINE);
}

static bool differs_within(const struct comparison *comparison, const struct compared_pair *pair,
                           const struct candidate *candidate)
{
    return holds_against(comparison, pair, candidate) &&
           strcmp(value_of(pair->subject, candidate), value_of(pair->reference, candidate)) != 0;
}

static char *make_cell(const struct comparison *comparison, const struct compared_pair *pair,
                       const struct candidate *candidate)
{
    const char *value = value_of(candidate->source == FROM_REFERENCE ? pair->reference : pair->subject, candidate);
    if (differs_within(comparison, pair, candidate))
        return memory_format("%s vs %s", value, value_of(pair->reference, candidate));
    return memory_text(value);
}

static char **make_cells(const struct comparison *comparison, const struct candidate *candidate)
{
    char **cells = memory_zeroed(comparison->n_pairs, sizeof *cells);
    for (size_t i = 0; i < comparison->n_pairs; i++)
        cells[i] = make_cell(comparison, &comparison->pairs[i], candidate);
    return cells;
}

static void free_cells(const struct comparison *comparison, char **cells)
{
    for (size_t i = 0; cells && i < comparison->n_pairs; i++)
        free(cells[i]);
    free(cells);
}

/* ---- which are needed ---- */

struct named_cell {
    const char *above, *cell;
};

static int compare_named_cells(const void *left, const void *right)
{
    const struct named_cell *a = left, *b = right;
    int order = strcmp(a->above, b->above);
    return order != 0 ? order : strcmp(a->cell, b->cell);
}

/* Whether two pairs of one name above have different cells; `above` NULL: all pairs are of one name. */
static bool varies(const struct comparison *comparison, char *const *cells, char *const *above)
{
    struct named_cell *sorted = memory_zeroed(comparison->n_pairs, sizeof *sorted);
    for (size_t i = 0; i < comparison->n_pairs; i++)
        sorted[i] = (struct named_cell){above ? above[i] : "", cells[i]};
    qsort(sorted, comparison->n_pairs, sizeof *sorted, compare_named_cells);
    bool found = false;
    for (size_t i = 1; i < comparison->n_pairs && !found; i++)
        found = strcmp(sorted[i].above, sorted[i - 1].above) == 0 && strcmp(sorted[i].cell, sorted[i - 1].cell) != 0;
    free(sorted);
    return found;
}

static bool is_needed(const struct comparison *comparison, const struct candidate *candidate, char *const *cells)
{
    const char *name = name_above(candidate);
    const struct candidate named = {candidate->source, name};
    char **above = name ? make_cells(comparison, &named) : NULL;
    bool needed = varies(comparison, cells, above);
    for (size_t i = 0; i < comparison->n_pairs && !needed; i++) {
        const struct compared_pair *pair = &comparison->pairs[i];
        needed = differs_within(comparison, pair, candidate) && !(name && differs_within(comparison, pair, &named));
    }
    free_cells(comparison, above);
    return needed;
}

/* "cp" of "parallel.cp"; a topology's keys keep their level. */
static const char *header_of(const struct comparison *comparison, const struct candidate *candidate)
{
    const char *dot = strchr(candidate->name, '.');
    switch (candidate->source) {
    case FROM_EXPERIMENT:
        return strcmp(candidate->name, "model.name") == 0 ? "model" : dot ? dot + 1 : candidate->name;
    case FROM_TOPOLOGY:
        return strcmp(candidate->name, "path") == 0 ? "topology" : candidate->name;
    case FROM_SUBJECT:
        return comparison->against_first ? "other run" : "prediction";
    case FROM_REFERENCE:
        return comparison->against_first ? "first run" : "measurement";
    default:
        return candidate->name;
    }
}

/* Takes the cells. */
static void add_column(struct comparison *comparison, const struct candidate *candidate, char **cells)
{
    size_t column = comparison->n_columns++;
    comparison->columns = memory_resized(comparison->columns, comparison->n_columns, sizeof *comparison->columns);
    bool number = true;
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        struct compared_pair *pair = &comparison->pairs[i];
        pair->cells = memory_resized(pair->cells, comparison->n_columns, sizeof *pair->cells);
        pair->cells[column] = cells[i];
        number = number && *cells[i] && strspn(cells[i], "0123456789") == strlen(cells[i]);
    }
    comparison->columns[column] =
        (struct compare_column){.name = memory_text(header_of(comparison, candidate)), .number = number};
    free(cells);
}

/* ---- pairs that look alike ---- */

static char *row_text(const struct comparison *comparison, size_t pair)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    for (size_t i = 0; stream && i < comparison->n_columns; i++)
        fprintf(stream, "%s\n", comparison->pairs[pair].cells[i]);
    if (stream)
        fclose(stream);
    return text ? text : memory_text("");
}

struct row {
    char *text;
    size_t pair;
};

static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = strcmp(a->text, b->text);
    return order != 0 ? order : a->pair < b->pair ? -1 : a->pair > b->pair;
}

static void find_alike(const struct comparison *comparison, bool *subjects, bool *references)
{
    struct row *rows = memory_zeroed(comparison->n_pairs, sizeof *rows);
    for (size_t i = 0; i < comparison->n_pairs; i++)
        rows[i] = (struct row){row_text(comparison, i), i};
    qsort(rows, comparison->n_pairs, sizeof *rows, compare_rows);
    for (size_t i = 1; i < comparison->n_pairs; i++) {
        const struct compared_pair *a = &comparison->pairs[rows[i - 1].pair], *b = &comparison->pairs[rows[i].pair];
        bool alike = strcmp(rows[i - 1].text, rows[i].text) == 0;
        *subjects = *subjects || (alike && a->subject != b->subject);
        *references = *references || (alike && a->reference != b->reference);
    }
    for (size_t i = 0; i < comparison->n_pairs; i++)
        free(rows[i].text);
    free(rows);
}

static void add_labels(struct comparison *comparison)
{
    static const struct candidate subject = {FROM_SUBJECT, ""}, reference = {FROM_REFERENCE, ""};
    bool subjects = comparison->against_first && comparison->runs.n_files > 2, references = false;
    find_alike(comparison, &subjects, &references);
    if (subjects)
        add_column(comparison, &subject, make_cells(comparison, &subject));
    if (references)
        add_column(comparison, &reference, make_cells(comparison, &reference));
}

/* ---- what all have in common ---- */

/* The value that all pairs have; NULL: they differ, or have none. Cells of one pair look like its runs' values. */
static char *common_value(const struct comparison *comparison, enum source source, const char *name)
{
    const struct candidate candidate = {source, name};
    char **cells = make_cells(comparison, &candidate), *common = NULL;
    if (*cells[0] && !varies(comparison, cells, NULL) && !differs_within(comparison, &comparison->pairs[0], &candidate))
        common = memory_text(cells[0]);
    free_cells(comparison, cells);
    return common;
}

static char *make_title(const struct comparison *comparison)
{
    static const struct {
        enum source source;
        const char *name, *before, *after;
    } parts[] = {
        {FROM_EXPERIMENT, "model.name", "", ""},
        {FROM_EXPERIMENT, "model.dtype", "", ""},
        {FROM_EXPERIMENT, "workload.seq_len", "", " tokens"},
        {FROM_EXPERIMENT, "workload.new_tokens", "", " of them new"},
        {FROM_EXPERIMENT, "workload.mask", "", ""},
        {FROM_EXPERIMENT, "workload.pass", "", ""},
        {FROM_EXPERIMENT, "parallel.cp", "cp ", ""},
        {FROM_EXPERIMENT, "schedule.algorithm", "", ""},
        {FROM_EXPERIMENT, "schedule.sharding", "", ""},
        {FROM_TOPOLOGY, "path", "on ", ""},
    };
    char *title = comparison->against_first ? memory_format("Other runs against %s", comparison->runs.files[0])
                                            : memory_text("Predicted against measured");
    const char *separator = ": ";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *value = common_value(comparison, parts[i].source, parts[i].name);
        if (!value)
            continue;
        bool counts = strcmp(parts[i].name, "workload.seq_len") == 0,
             fresh = strcmp(parts[i].name, "workload.new_tokens") == 0;
        if (fresh && strcmp(value, "0") == 0) {
            free(value);
            continue;
        }
        char name[128];
        const char *shown = value;
        if (parts[i].source == FROM_TOPOLOGY) {
            summary_name(value, name, sizeof name);
            shown = name;
        } else if (counts || fresh) {
            snprintf(name, sizeof name, "%s", text_of_count(strtoull(value, NULL, 10)).text);
            shown = name;
        }
        char *longer = memory_format("%s%s%s%s%s", title, separator, parts[i].before, shown, parts[i].after);
        free(title);
        free(value);
        title = longer;
        separator = ", ";
    }
    return title;
}

void compare_choose_columns(struct comparison *comparison)
{
    struct candidates candidates = {NULL, 0, 0};
    collect_candidates(&candidates, comparison);
    for (size_t i = 0; i < candidates.count; i++) {
        char **cells = make_cells(comparison, &candidates.items[i]);
        if (is_needed(comparison, &candidates.items[i], cells))
            add_column(comparison, &candidates.items[i], cells);
        else
            free_cells(comparison, cells);
    }
    free(candidates.items);
    add_labels(comparison);
    comparison->title = make_title(comparison);
}
