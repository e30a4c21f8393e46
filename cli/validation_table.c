/* validation_table.c - a validation for people: rows, the summary of each set, the bounds.
 *
 * So many rows that nobody would read them are left out, but for the worst: those are what one asks next.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text_table.h"
#include "cli/validation.h"
#include "models/base/memory.h"

#define ROWS_SHOWN 40 /* more are listed with --details only */
#define WORST_SHOWN 12

/* A value of a metric, with its unit. */
static struct short_text text_of_value(enum metric metric, double value)
{
    struct short_text text = text_of_number(value);
    switch (metric) {
    case METRIC_ITERATIONS_PER_SECOND:
        strcat(text.text, " /s");
        return text;
    case METRIC_TFLOPS_PER_RANK:
    case METRIC_FORWARD_TFLOPS_PER_RANK:
    case METRIC_BACKWARD_TFLOPS_PER_RANK:
    case METRIC_MODEL_TFLOPS_PER_RANK:
    case METRIC_UNMASKED_MODEL_TFLOPS_PER_RANK:
        return text_of_flop_rate(1e12 * value);
    case METRIC_TOKENS_PER_SECOND_PER_RANK:
        strcat(text.text, " tok/s");
        return text;
    case METRIC_PEAK_GIB:
        strcat(text.text, " GiB");
        return text;
    default:
        return text_of_seconds(value);
    }
}

/* ---- rows ---- */

static void begin_rows(struct text_table *table, bool names_set)
{
    text_table_init(table);
    if (names_set)
        text_table_column(table, true, "set");
    text_table_column(table, true, "row");
    text_table_column(table, false, "predicted");
    text_table_column(table, false, "measured");
    text_table_column(table, false, "error\nof time");
    text_table_column(table, false, "interval of\nprediction");
    text_table_column(table, true, "inside");
}

static void add_row(struct text_table *table, const struct validation *validation, size_t set_index, size_t index,
                    bool names_set)
{
    const struct validation_set *set = &validation->sets.sets[set_index];
    const struct validation_row *row = &set->rows[index];
    const struct validated_row *result = &validation->rows[set_index][index];
    char *label = validation_row_label(set, row);
    if (names_set)
        text_table_cell(table, "%s", set->name);
    text_table_cell(table, "%s", label);
    free(label);
    text_table_cell(table, "%s",
                    result->done   ? text_of_value(row->metric, result->predicted).text
                    : result->left ? "not reached"
                                   : "failed");
    text_table_cell(table, "%s", text_of_value(row->metric, row->value).text);
    if (result->done) {
        text_table_cell(table, "%+.1f%%", 100 * result->error);
        if (result->has_interval) {
            text_table_cell(table, "%s - %s", text_of_value(row->metric, result->low).text,
                            text_of_value(row->metric, result->high).text);
            text_table_cell(table, "%s", result->inside ? "yes" : "no");
        }
    }
    text_table_end_row(table);
}

static void write_rows(const struct validation *validation, FILE *stream)
{
    for (size_t i = 0; i < validation->sets.count; i++) {
        const struct validation_set *set = &validation->sets.sets[i];
        fprintf(stream, "%s\n%s\n\n", validation_title(set), set->published.source);
        struct text_table table;
        begin_rows(&table, false);
        for (size_t k = 0; k < set->n_rows; k++)
            add_row(&table, validation, i, k, false);
        text_table_print(&table, stream);
        text_table_fini(&table);
        fputc('\n', stream);
    }
}

/* ---- the worst rows ---- */

struct ranked {
    size_t set, row;
    double error;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (fabs(a->error) != fabs(b->error))
        return fabs(a->error) < fabs(b->error) ? 1 : -1;
    return a->set != b->set ? (a->set > b->set) - (a->set < b->set) : (a->row > b->row) - (a->row < b->row);
}

static void write_worst(const struct validation *validation, FILE *stream)
{
    struct ranked *ranked = memory_zeroed(validation->sets.n_rows, sizeof *ranked);
    size_t count = 0;
    for (size_t i = 0; i < validation->sets.count; i++)
        for (size_t k = 0; k < validation->sets.sets[i].n_rows; k++)
            if (validation->rows[i][k].done)
                ranked[count++] = (struct ranked){i, k, validation->rows[i][k].error};
    qsort(ranked, count, sizeof *ranked, compare_ranked);
    fprintf(stream, "The %d largest of %zu errors (--details: all rows)\n\n", WORST_SHOWN, count);
    struct text_table table;
    begin_rows(&table, true);
    for (size_t i = 0; i < count && i < WORST_SHOWN; i++)
        add_row(&table, validation, ranked[i].set, ranked[i].row, true);
    text_table_print(&table, stream);
    text_table_fini(&table);
    fputc('\n', stream);
    free(ranked);
}

/* ---- summaries ---- */

/* Those of time. */
static void add_bounds(struct text_table *table, const struct validation_summary *summary, const struct bounds *bounds)
{
    static const char *const names[BOUND_MEMORY] = {"median", "90th", "order"};
    char text[64] = "";
    bool any = false;
    for (int bound = 0; bound < BOUND_MEMORY; bound++) {
        enum bound_verdict verdict = validation_bound(summary, bounds, (enum bound)bound);
        any = any || verdict != BOUND_NONE;
        if (verdict == BOUND_BROKEN)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? ", " : "worse: ", names[bound]);
    }
    text_table_cell(table, "%s", *text ? text : any ? "kept" : "none");
}

/* Of rows that are not all there nothing is said. */
static void add_verdict(struct text_table *table, const struct validation_summary *summary, const struct bounds *bounds)
{
    if (summary->n_left)
        text_table_cell(table, "incomplete");
    else
        add_bounds(table, summary, bounds);
}

static void add_share(struct text_table *table, size_t part, size_t all)
{
    if (all)
        text_table_cell(table, "%zu of %zu", part, all);
    else
        text_table_cell(table, "-");
}

static void add_summary(struct text_table *table, const char *name, const struct validation_summary *summary)
{
    text_table_cell(table, "%s", name);
    text_table_cell(table, "%zu", summary->n_rows);
    if (summary->n_rows == 0) {
        text_table_end_row(table);
        return;
    }
    text_table_cell(table, "%.1f%%", 100 * summary->median);
    text_table_cell(table, "%.1f%%", 100 * summary->p90);
    text_table_cell(table, "%+.1f%%", 100 * summary->worst);
    text_table_cell(table, "%+.1f%%", 100 * summary->bias);
    add_share(table, summary->pairs_right, summary->pairs);
    add_share(table, summary->inside, summary->with_interval);
}

static void write_summaries(const struct validation *validation, FILE *stream)
{
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "set");
    text_table_column(&table, false, "rows");
    text_table_column(&table, false, "median\nerror");
    text_table_column(&table, false, "90th\npercentile");
    text_table_column(&table, false, "worst");
    text_table_column(&table, false, "bias");
    text_table_column(&table, false, "pairs in\nright order");
    text_table_column(&table, false, "inside\ninterval");
    text_table_column(&table, true, "bounds");
    for (size_t i = 0; i < validation->sets.count; i++) {
        add_summary(&table, validation->sets.sets[i].name, &validation->summaries[i]);
        const struct validation_set *set = &validation->sets.sets[i];
        if (validation->summaries[i].n_rows && validation_set_is_doubtful(set))
            text_table_cell(&table, "doubtful");
        else if (validation->summaries[i].n_rows)
            add_verdict(&table, &validation->summaries[i], &set->published.bounds);
    }
    const size_t of_kinds[] = {validation->attention.n_rows, validation->steps.n_rows, validation->links.n_rows};
    bool several = (of_kinds[0] > 0) + (of_kinds[1] > 0) + (of_kinds[2] > 0) > 1;
    const struct {
        const char *name;
        const struct validation_summary *summary;
        const struct bounds *bounds;
        bool shown;
    } sums[] = {{"all attention", &validation->attention, &validation->sets.bounds.attention, several && of_kinds[0]},
                {"all steps", &validation->steps, &validation->sets.bounds.steps, several && of_kinds[1]},
                {"all transfers", &validation->links, &validation->sets.bounds.links, several && of_kinds[2]},
                {"all", &validation->all, NULL, validation->sets.count > 1}};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        if (!sums[i].shown)
            continue;
        add_summary(&table, sums[i].name, sums[i].summary);
        if (sums[i].bounds)
            add_verdict(&table, sums[i].summary, sums[i].bounds);
        text_table_end_row(&table);
    }
    text_table_print(&table, stream);
    text_table_fini(&table);
}

/* `bounds` NULL: of a doubtful set. */
static void add_memory(struct text_table *table, const char *name, const struct validation_summary *summary,
                       const struct bounds *bounds)
{
    static const char *const verdicts[] = {
        [BOUND_NONE] = "none", [BOUND_KEPT] = "kept", [BOUND_BROKEN] = "worse: median"};
    text_table_cell(table, "%s", name);
    text_table_cell(table, "%zu", summary->n_memory);
    text_table_cell(table, "%.1f%%", 100 * summary->memory_median);
    text_table_cell(table, "%+.1f%%", 100 * summary->memory_worst);
    text_table_cell(table, "%s",
                    !bounds           ? "doubtful"
                    : summary->n_left ? "incomplete"
                                      : verdicts[validation_bound(summary, bounds, BOUND_MEMORY)]);
}

/* Only what has such rows. */
static void write_memory(const struct validation *validation, FILE *stream)
{
    size_t sets = 0;
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "peak memory\nof set");
    text_table_column(&table, false, "rows");
    text_table_column(&table, false, "median\nerror");
    text_table_column(&table, false, "worst");
    text_table_column(&table, true, "bound");
    for (size_t i = 0; i < validation->sets.count; i++) {
        const struct validation_set *set = &validation->sets.sets[i];
        if (validation->summaries[i].n_memory == 0)
            continue;
        add_memory(&table, set->name, &validation->summaries[i],
                   validation_set_is_doubtful(set) ? NULL : &set->published.bounds);
        sets++;
    }
    if (sets > 1)
        add_memory(&table, "all steps", &validation->steps, &validation->sets.bounds.steps);
    if (sets > 0) {
        fputc('\n', stream);
        text_table_print(&table, stream);
    }
    text_table_fini(&table);
}

static void write_doubts(const struct validation *validation, FILE *stream)
{
    for (size_t i = 0; i < validation->sets.count; i++) {
        const struct validation_set *set = &validation->sets.sets[i];
        if (validation_set_is_doubtful(set))
            fprintf(stream, "\nDoubtful, and left out of 'all': %s: %s\n", set->name, set->published.doubtful);
    }
}

bool validation_table_write(const struct validation *validation, bool details, FILE *stream)
{
    if (details || validation->sets.n_rows <= ROWS_SHOWN)
        write_rows(validation, stream);
    else
        write_worst(validation, stream);
    write_summaries(validation, stream);
    write_memory(validation, stream);
    write_doubts(validation, stream);
    fputs(
        "\nError: predicted over measured time, less 1; above 0 the prediction is too slow. Bias: their median. Pairs: "
        "of one group,\nmeasured more than 5 % apart.\n",
        stream);
    if (validation->n_left)
        fprintf(stream, "\nIncomplete: %zu of %zu rows were not reached; bounds on them are not judged.\n",
                validation->n_left, validation->sets.n_rows);
    return fflush(stream) == 0 && !ferror(stream);
}
