/* compare_table.c - a comparison for people: a row a pair, then how large the errors are over all of them. */
#include <math.h>
#include <string.h>

#include "cli/compare_writers.h"
#include "cli/text_table.h"

#define PAIRS_MAX 40   /* as many are all shown */
#define PAIRS_SHOWN 20 /* of more, the worst so many */

static void add_percent(struct text_table *table, double ratio)
{
    if (isnan(ratio))
        text_table_cell(table, "-");
    else if (fpclassify(ratio) == FP_ZERO)
        text_table_cell(table, "0"); /* equal, not just near */
    else
        text_table_cell(table, "%+.1f", 100 * ratio);
}

static void add_settings_headers(struct text_table *table, const struct comparison *comparison)
{
    text_table_column(table, false, "pair");
    for (size_t i = 0; i < comparison->n_columns; i++)
        text_table_column(table, !comparison->columns[i].number, "%s", comparison->columns[i].name);
}

static void add_settings(struct text_table *table, const struct comparison *comparison, size_t pair)
{
    text_table_cell(table, "%zu", pair + 1);
    for (size_t i = 0; i < comparison->n_columns; i++)
        text_table_cell(table, "%s", comparison->pairs[pair].cells[i]);
}

/* Bounds relative to the run's own step: "-1.2 +3.4". */
static void add_interval(struct text_table *table, const struct compared_run *run)
{
    if (isnan(run->low))
        text_table_cell(table, "%s", "");
    else
        text_table_cell(table, "%+.1f %+.1f", 100 * (run->low / run->seconds - 1),
                        100 * (run->high / run->seconds - 1));
}

static const char *within(const struct compared_pair *pair)
{
    bool spread = pair->in_spread == VERDICT_INSIDE, interval = pair->in_interval == VERDICT_INSIDE;
    if (pair->in_spread == VERDICT_NONE && pair->in_interval == VERDICT_NONE)
        return "";
    return spread && interval ? "both" : spread ? "spread" : interval ? "interval" : "no";
}

static double largest_seconds(const struct comparison *comparison)
{
    double largest = 0;
    for (size_t i = 0; i < comparison->n_pairs; i++)
        largest = fmax(largest, fmax(comparison->pairs[i].subject->seconds, comparison->pairs[i].reference->seconds));
    return largest;
}

static void add_pair(struct text_table *table, const struct comparison *comparison, size_t index, struct unit unit)
{
    const struct compared_pair *pair = &comparison->pairs[index];
    add_settings(table, comparison, index);
    text_table_number(table, pair->subject->seconds, unit);
    text_table_number(table, pair->reference->seconds, unit);
    add_percent(table, pair->values[COMPARE_STEP].error);
    if (comparison->in_interval.all)
        add_interval(table, pair->subject);
    if (comparison->in_spread.all)
        add_interval(table, pair->reference);
    if (comparison->in_spread.all || comparison->in_interval.all)
        text_table_cell(table, "%s", within(pair));
    for (int quantity = COMPARE_FORWARD; quantity < COMPARE_QUANTITIES; quantity++)
        add_percent(table, pair->values[quantity].error);
}

/* The pairs of a short table: all, or those with the largest errors of the step, which come first in `by_error`. */
static void write_pairs(const struct comparison *comparison, int details, FILE *stream)
{
    struct unit unit = fine_unit_of_seconds(largest_seconds(comparison));
    bool cut = !details && comparison->n_pairs > PAIRS_MAX;
    struct text_table table;
    text_table_init(&table);
    add_settings_headers(&table, comparison);
    text_table_column(&table, false, "%s\n%s", comparison->subject_name, unit.name);
    text_table_column(&table, false, "%s\n%s", comparison->reference_name, unit.name);
    text_table_column(&table, false, "step\n%%");
    if (comparison->in_interval.all)
        text_table_column(&table, false, "interval\n%%");
    if (comparison->in_spread.all)
        text_table_column(&table, false, "spread\n%%");
    if (comparison->in_spread.all || comparison->in_interval.all)
        text_table_column(&table, true, "within");
    static const char *const headers[COMPARE_QUANTITIES] = {
        [COMPARE_FORWARD] = "forward",       [COMPARE_BACKWARD] = "backward", [COMPARE_EXPOSED] = "exposed",
        [COMPARE_EXPOSED_SHARE] = "of step", [COMPARE_MEMORY] = "memory",     [COMPARE_BYTES] = "sent"};
    for (int quantity = COMPARE_FORWARD; quantity < COMPARE_QUANTITIES; quantity++)
        text_table_column(&table, false, "%s\n%%", headers[quantity]);
    for (size_t i = 0; i < (cut ? PAIRS_SHOWN : comparison->n_pairs); i++)
        add_pair(&table, comparison, cut ? comparison->by_error[i] : i, unit);
    text_table_print(&table, stream);
    text_table_fini(&table);
    if (cut)
        fprintf(stream, "(the %d largest errors; %zu more pairs not shown)\n", PAIRS_SHOWN,
                comparison->n_pairs - PAIRS_SHOWN);
}

static void write_legend(const struct comparison *comparison, FILE *stream)
{
    const char *subject = comparison->subject_name, *reference = comparison->reference_name;
    fprintf(stream,
            "errors in %%: %s / %s - 1; 'of step': exposed seconds, %s - %s, of the %s step; '-': no such value\n",
            subject, reference, subject, reference, reference);
    if (comparison->in_interval.all)
        fprintf(stream, "interval: of the %s step, around it; a pair is within it when the %s step is\n", subject,
                reference);
    if (comparison->in_spread.all)
        fprintf(stream, "spread: of the %s step, around it; a pair is within it when the %s step is\n", reference,
                subject);
}

/* One table a quantity: both values beside the error. */
static void write_quantity(const struct comparison *comparison, enum compare_quantity quantity, FILE *stream)
{
    double largest = 0;
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        const struct compared_value *value = &comparison->pairs[i].values[quantity];
        largest = fmax(largest, fmax(value->subject, value->reference));
    }
    struct unit unit = quantity == COMPARE_MEMORY          ? unit_of_memory(largest)
                       : quantity == COMPARE_BYTES         ? unit_of_bytes(largest)
                       : quantity == COMPARE_EXPOSED_SHARE ? (struct unit){"%", 0.01}
                                                           : fine_unit_of_seconds(largest);
    struct text_table table;
    text_table_init(&table);
    add_settings_headers(&table, comparison);
    text_table_column(&table, false, "%s\n%s", comparison->subject_name, unit.name);
    text_table_column(&table, false, "%s\n%s", comparison->reference_name, unit.name);
    text_table_column(&table, false, "error\n%%");
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        const struct compared_value *value = &comparison->pairs[i].values[quantity];
        const double values[] = {value->subject, value->reference};
        add_settings(&table, comparison, i);
        for (int k = 0; k < 2; k++) {
            if (isnan(values[k]))
                text_table_cell(&table, "-");
            else
                text_table_number(&table, values[k], unit);
        }
        add_percent(&table, value->error);
    }
    const char *name = compare_quantity_name(quantity);
    fprintf(stream, "\n%c%s\n", name[0] - 'a' + 'A', name + 1);
    text_table_print(&table, stream);
    text_table_fini(&table);
}

static void write_summary(const struct comparison *comparison, FILE *stream)
{
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "error of");
    text_table_column(&table, false, "pairs");
    text_table_column(&table, false, "median\n%%");
    text_table_column(&table, false, "90th percentile\n%%");
    text_table_column(&table, false, "worst\n%%");
    text_table_column(&table, false, "in pair");
    text_table_column(&table, false, "bias\n%%");
    for (int quantity = 0; quantity < COMPARE_QUANTITIES; quantity++) {
        const struct compare_summary *summary = &comparison->summaries[quantity];
        if (summary->count == 0)
            continue;
        text_table_cell(&table, "%s", compare_quantity_name((enum compare_quantity)quantity));
        text_table_count(&table, summary->count);
        text_table_cell(&table, "%.1f", 100 * summary->median);
        text_table_cell(&table, "%.1f", 100 * summary->percentile90);
        add_percent(&table, summary->worst);
        if (fpclassify(summary->worst) == FP_ZERO)
            text_table_cell(&table, "%s", "");
        else
            text_table_cell(&table, "%zu", summary->worst_pair + 1);
        add_percent(&table, summary->bias);
    }
    fputs("\nSummary\n", stream);
    text_table_print(&table, stream);
    text_table_fini(&table);
    fputs("median and percentile of the magnitudes; bias: median of the signed errors\n", stream);
    if (comparison->in_interval.all)
        fprintf(stream, "%zu of %zu %s steps lie within the interval of the %s one\n", comparison->in_interval.inside,
                comparison->in_interval.all, comparison->reference_name, comparison->subject_name);
    if (comparison->in_spread.all)
        fprintf(stream, "%zu of %zu %s steps lie within the spread of the %s one\n", comparison->in_spread.inside,
                comparison->in_spread.all, comparison->subject_name, comparison->reference_name);
}

bool compare_table_write(const struct comparison *comparison, int details, FILE *stream)
{
    fprintf(stream, "%s\n\n", comparison->title);
    write_pairs(comparison, details, stream);
    write_legend(comparison, stream);
    for (int quantity = COMPARE_FORWARD; details && quantity < COMPARE_QUANTITIES; quantity++)
        write_quantity(comparison, (enum compare_quantity)quantity, stream);
    write_summary(comparison, stream);
    return fflush(stream) == 0 && !ferror(stream);
}
