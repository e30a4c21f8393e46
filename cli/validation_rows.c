/* validation_rows.c - the CSV file of a set: header, then a measurement a line; all that is wrong is said. */
#include "cli/validation_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/csv_read.h"
#include "models/base/memory.h"
#include "models/input/key_table.h"

static const char *const metric_names[METRICS] = {
    [METRIC_SECONDS] = "seconds",
    [METRIC_STEP_SECONDS] = "step_seconds",
    [METRIC_FORWARD_SECONDS] = "forward_seconds",
    [METRIC_BACKWARD_SECONDS] = "backward_seconds",
    [METRIC_ITERATIONS_PER_SECOND] = "iterations_per_second",
    [METRIC_TFLOPS_PER_RANK] = "tflops_per_rank",
    [METRIC_FORWARD_TFLOPS_PER_RANK] = "forward_tflops_per_rank",
    [METRIC_BACKWARD_TFLOPS_PER_RANK] = "backward_tflops_per_rank",
    [METRIC_TOKENS_PER_SECOND_PER_RANK] = "tokens_per_second_per_rank",
    [METRIC_MODEL_TFLOPS_PER_RANK] = "model_tflops_per_rank",
    [METRIC_UNMASKED_MODEL_TFLOPS_PER_RANK] = "unmasked_model_tflops_per_rank",
    [METRIC_PEAK_GIB] = "peak_gib",
};

const char *metric_name(enum metric metric)
{
    return metric_names[metric];
}

bool metric_is_of(enum metric metric, enum published_kind kind)
{
    bool of_links = metric == METRIC_SECONDS, of_steps = metric >= METRIC_TOKENS_PER_SECOND_PER_RANK;
    if (kind == PUBLISHED_STEPS)
        return of_steps || metric == METRIC_STEP_SECONDS;
    return kind == PUBLISHED_LINKS ? of_links : !of_links && !of_steps;
}

/* ---- the header ---- */

/* Columns that are not overrides. */
enum role {
    COLUMN_METRIC,
    COLUMN_VALUE,
    COLUMN_UNCERTAINTY,
    COLUMN_GROUP,
    COLUMN_NOTE,
    COLUMN_PATTERN, /* this one and those below: of transfers */
    COLUMN_RANKS,
    COLUMN_BYTES,
    ROLES,
};
static const char *const role_names[] = {"metric",  "value", "uncertainty", "group", "note",
                                         "pattern", "ranks", "bytes",       NULL};
#define ABSENT SIZE_MAX

/* Which field is what. */
struct header {
    size_t role[ROLES]; /* ABSENT: no such column */
    size_t *overrides;  /* a column of the set each */
    size_t n_fields;
};

static size_t find_role(const struct validation_set *set, const char *name)
{
    size_t known = validation_set_is_links(set) ? ROLES : COLUMN_PATTERN;
    for (size_t i = 0; i < known; i++)
        if (strcmp(name, role_names[i]) == 0)
            return i;
    return ROLES;
}

/* Whether rows may override a key of this name. */
static bool may_override(const struct validation_set *set, const char *name)
{
    if (!strchr(name, '.'))
        return false;
    return key_table_owns_override(&topology_file, name) ||
           (!validation_set_is_links(set) && key_table_owns_override(&experiment_file, name));
}

static bool report_column(const struct validation_set *set, const char *name, int line, struct diagnostics *diag)
{
    const char *known[ROLES + 1] = {NULL};
    for (size_t i = 0; i < (validation_set_is_links(set) ? ROLES : COLUMN_PATTERN); i++)
        known[i] = role_names[i];
    const char *nearest = key_table_nearest(name, known);
    if (nearest)
        return diagnostics_at(diag, set->rows_path, line, "unknown column '%s', did you mean '%s'?", name, nearest);
    return diagnostics_at(diag, set->rows_path, line,
                          "unknown column '%s', expected metric, value, uncertainty, group, note, %s", name,
                          validation_set_is_links(set) ? "pattern, ranks, bytes or section.key of the topology"
                                                       : "or section.key of the experiment or the topology");
}

static bool read_header(struct validation_set *set, struct header *header, const struct csv_record *record,
                        struct diagnostics *diag)
{
    bool fine = true;
    header->n_fields = record->n_fields;
    header->overrides = memory_zeroed(record->n_fields, sizeof *header->overrides);
    set->columns = memory_zeroed(record->n_fields, sizeof *set->columns);
    for (size_t i = 0; i < record->n_fields; i++) {
        const char *name = record->fields[i];
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, record->fields[k]) == 0)
                fine = diagnostics_at(diag, set->rows_path, record->line, "column '%s' stands twice", name);
        size_t role = find_role(set, name);
        if (role < ROLES) {
            header->role[role] = i;
        } else if (may_override(set, name)) {
            header->overrides[set->n_columns] = i;
            set->columns[set->n_columns++] = memory_text(name);
        } else {
            fine = report_column(set, name, record->line, diag);
        }
    }
    for (size_t i = 0; i < ROLES; i++) {
        bool needed = i == COLUMN_METRIC || i == COLUMN_VALUE || (i >= COLUMN_PATTERN && validation_set_is_links(set));
        if (needed && header->role[i] == ABSENT)
            fine = diagnostics_at(diag, set->rows_path, record->line, "no column '%s', expected one", role_names[i]);
    }
    return fine;
}

/* ---- a row ---- */

/* A record that is being read, and where to complain. */
struct reading {
    const struct validation_set *set;
    const struct header *header;
    const struct csv_record *record;
    struct diagnostics *diag;
};

/* The field of a role; "" where there is no such column. */
static const char *field_of(const struct reading *reading, enum role role)
{
    size_t index = reading->header->role[role];
    return index == ABSENT ? "" : reading->record->fields[index];
}

static bool bad_field(const struct reading *reading, enum role role, const char *expected)
{
    return diagnostics_at(reading->diag, reading->set->rows_path, reading->record->line, "'%s' is '%s', expected %s",
                          role_names[role], field_of(reading, role), expected);
}

static bool read_metric(const struct reading *reading, enum metric *metric)
{
    const char *text = field_of(reading, COLUMN_METRIC), *names[METRICS + 1] = {NULL};
    size_t n_names = 0;
    for (int i = 0; i < METRICS; i++) {
        if (!metric_is_of((enum metric)i, reading->set->published.kind))
            continue;
        names[n_names++] = metric_names[i];
        if (strcmp(text, metric_names[i]) != 0)
            continue;
        *metric = (enum metric)i;
        return true;
    }
    char *hint = key_table_suggestion(text, names);
    diagnostics_at(reading->diag, reading->set->rows_path, reading->record->line, "'metric' is '%s'%s", text, hint);
    free(hint);
    return false;
}

static bool read_numbers(const struct reading *reading, struct validation_row *row)
{
    bool fine = true;
    if (!units_parse(field_of(reading, COLUMN_VALUE), DIMENSION_NUMBER, &row->value) || !(row->value > 0))
        fine = bad_field(reading, COLUMN_VALUE, "a number above 0");
    row->uncertainty = reading->set->published.uncertainty;
    const char *uncertainty = field_of(reading, COLUMN_UNCERTAINTY);
    if (*uncertainty && (!units_parse(uncertainty, DIMENSION_NUMBER, &row->uncertainty) || row->uncertainty < 0 ||
                         row->uncertainty > 1))
        fine = bad_field(reading, COLUMN_UNCERTAINTY, "a share from 0 to 1");
    return fine;
}

static bool read_transfer(const struct reading *reading, struct validation_row *row)
{
    bool fine = true;
    const char *pattern = field_of(reading, COLUMN_PATTERN), *names[BENCHMARK_PATTERNS + 1] = {NULL};
    for (int p = 0; p < BENCHMARK_PATTERNS; p++)
        names[p] = benchmark_pattern_name((enum benchmark_pattern)p);
    if (!benchmark_pattern_find(pattern, &row->pattern)) {
        char *hint = key_table_suggestion(pattern, names);
        fine = diagnostics_at(reading->diag, reading->set->rows_path, reading->record->line, "'pattern' is '%s'%s",
                              pattern, hint);
        free(hint);
    }
    uint64_t ranks = 0;
    if (!units_parse_count(field_of(reading, COLUMN_RANKS), &ranks) || ranks < 2 || ranks > BENCHMARK_RANKS_MAX)
        return bad_field(reading, COLUMN_RANKS, "a whole number from 2 to 4096");
    row->ranks = (uint32_t)ranks;
    if (!units_parse_count(field_of(reading, COLUMN_BYTES), &row->bytes) || row->bytes == 0)
        return bad_field(reading, COLUMN_BYTES, "a whole number above 0");
    if (fine && benchmark_row_bytes(row->pattern, row->ranks, row->bytes) > BENCHMARK_ROW_BYTES_MAX)
        return bad_field(reading, COLUMN_BYTES, "less than 4 GiB from one rank to another");
    return fine;
}

/* Whether rows that differ in this key may be compared in order: other ways to do the same. */
static bool is_of_the_setting(const struct validation_set *set, const char *key)
{
    return strncmp(key, "schedule.", strlen("schedule.")) != 0 &&
           !(validation_set_is_steps(set) && strncmp(key, "parallel.", strlen("parallel.")) == 0);
}

/* What rows have in common that are compared in order unless their file says otherwise: the setting. The caller frees
 * it. */
static char *default_group(const struct validation_set *set, const struct validation_row *row)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text("");
    fputs(metric_name(row->metric), stream);
    for (size_t i = 0; i < set->n_columns; i++)
        if (is_of_the_setting(set, set->columns[i]))
            fprintf(stream, ", %s=%s", set->columns[i], row->cells[i]);
    if (validation_set_is_links(set))
        fprintf(stream, ", ranks=%" PRIu32 ", bytes=%" PRIu64, row->ranks, row->bytes);
    fclose(stream);
    return text;
}

static bool add_row(struct validation_set *set, const struct header *header, const struct csv_record *record,
                    struct diagnostics *diag)
{
    const struct reading reading = {set, header, record, diag};
    if (record->n_fields != header->n_fields)
        return diagnostics_at(diag, set->rows_path, record->line,
                              "%zu fields, expected %zu as in the header (quote what contains a comma)",
                              record->n_fields, header->n_fields);
    memory_grow(set->rows, set->n_rows, set->capacity);
    struct validation_row *row = &set->rows[set->n_rows++];
    *row = (struct validation_row){.line = record->line};
    row->cells = memory_zeroed(set->n_columns, sizeof *row->cells);
    for (size_t i = 0; i < set->n_columns; i++)
        row->cells[i] = memory_text(record->fields[header->overrides[i]]);
    row->note = memory_text(field_of(&reading, COLUMN_NOTE));
    bool fine = read_metric(&reading, &row->metric);
    fine &= read_numbers(&reading, row);
    fine &= !validation_set_is_links(set) || read_transfer(&reading, row);
    const char *group = field_of(&reading, COLUMN_GROUP);
    row->group = *group ? memory_text(group) : default_group(set, row);
    return fine;
}

bool validation_rows_read(struct validation_set *set, struct diagnostics *diag)
{
    struct csv_table table;
    struct header header = {.overrides = NULL};
    for (size_t i = 0; i < ROLES; i++)
        header.role[i] = ABSENT;
    bool fine = csv_table_read(&table, set->rows_path, diag);
    if (table.n_records > 0 && !table.has_comment)
        fine =
            diagnostics_at(diag, set->rows_path, 1, "no comment (#), expected one that says where the rows are from");
    if (fine && table.n_records < 2)
        fine = diagnostics_at(diag, set->rows_path, 0, "no rows, expected a header and at least one");
    if (table.n_records > 0 && read_header(set, &header, &table.records[0], diag))
        for (size_t i = 1; i < table.n_records; i++)
            fine &= add_row(set, &header, &table.records[i], diag);
    else
        fine = false;
    free(header.overrides);
    csv_table_fini(&table);
    return fine;
}
