/* compare.c - pairs runs, and computes every number that a comparison shows.
 *
 * Pairs come in the order of the references, then of the subjects. Subjects are sorted by their experiment's text once,
 * so that pairing n with m runs takes (n + m) log m and not n m. Quantiles are interpolated between order statistics
 * (Hyndman and Fan 1996, definition 7): the q-quantile of n values lies at position q (n - 1), counted from 0.
 */
#include "cli/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/compare_columns.h"
#include "cli/text_table.h"
#include "models/base/memory.h"
#include "models/base/statistics.h"

static const struct quantity {
    const char *name, *key;
    bool phase; /* 0 on both sides: a phase that neither run has, and nothing to compare */
} quantities[COMPARE_QUANTITIES] = {
    [COMPARE_STEP] = {"step", "seconds", true},
    [COMPARE_FORWARD] = {"forward", "forward_seconds", true},
    [COMPARE_BACKWARD] = {"backward", "backward_seconds", true},
    [COMPARE_EXPOSED] = {"exposed", "exposed_seconds", false},
    [COMPARE_EXPOSED_SHARE] = {"exposed, of the step", "exposed_of_step", false},
    [COMPARE_MEMORY] = {"peak memory", "peak_bytes", false},
    [COMPARE_BYTES] = {"bytes sent", "bytes_sent", false},
};

const char *compare_quantity_name(enum compare_quantity quantity)
{
    return quantities[quantity].name;
}

const char *compare_quantity_key(enum compare_quantity quantity)
{
    return quantities[quantity].key;
}

/* ---- one pair ---- */

static double relative_error(const struct compared_value *value, bool phase)
{
    if (value->reference > 0)
        return value->subject / value->reference - 1;
    return !phase && value->reference <= 0 && value->subject <= 0 ? 0 : (double)NAN;
}

static struct compared_value compare_value(const struct compared_pair *pair, enum compare_quantity quantity)
{
    const char *key = quantities[quantity == COMPARE_EXPOSED_SHARE ? COMPARE_EXPOSED : quantity].key;
    struct compared_value value = {compared_run_number(pair->subject, key), compared_run_number(pair->reference, key),
                                   NAN};
    if (quantity == COMPARE_EXPOSED_SHARE) {
        value.error = (value.subject - value.reference) / pair->reference->seconds;
        value.subject /= pair->reference->seconds;
        value.reference /= pair->reference->seconds;
    } else {
        value.error = relative_error(&value, quantities[quantity].phase);
    }
    return value;
}

static enum verdict inside(double value, const struct compared_run *run)
{
    if (isnan(run->low))
        return VERDICT_NONE;
    return value >= run->low && value <= run->high ? VERDICT_INSIDE : VERDICT_OUTSIDE;
}

static void add_pair(struct comparison *comparison, const struct compared_run *subject,
                     const struct compared_run *reference)
{
    memory_grow(comparison->pairs, comparison->n_pairs, comparison->pair_capacity);
    struct compared_pair *pair = &comparison->pairs[comparison->n_pairs++];
    *pair = (struct compared_pair){
        .subject = subject,
        .reference = reference,
        .in_spread = inside(subject->seconds, reference),
        .in_interval = inside(reference->seconds, subject),
    };
    for (int quantity = 0; quantity < COMPARE_QUANTITIES; quantity++)
        pair->values[quantity] = compare_value(pair, (enum compare_quantity)quantity);
}

/* ---- pairing ---- */

static bool is_reference(const struct comparison *comparison, const struct compared_run *run)
{
    return comparison->against_first ? run->file == 0 : run->measured;
}

static int compare_questions(const void *left, const void *right)
{
    const struct compared_run *const *a = left, *const *b = right;
    int order = strcmp((*a)->question, (*b)->question);
    if (order != 0)
        return order;
    return *a < *b ? -1 : *a > *b; /* all are in one array */
}

/* The first of the sorted runs whose question is not below that of `run`. */
static size_t lower_bound(const struct compared_run *const *sorted, size_t count, const struct compared_run *run)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(sorted[middle]->question, run->question) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the user has paired the runs: runs of one kind, a file each. */
static bool paired_by_hand(const struct comparison *comparison)
{
    if (!comparison->against_first || comparison->runs.count != comparison->runs.n_files)
        return false;
    for (size_t i = 0; i < comparison->runs.count; i++)
        if (comparison->runs.runs[i].point)
            return false;
    return true;
}

static void pair_runs(struct comparison *comparison)
{
    const struct compared_runs *runs = &comparison->runs;
    bool by_hand = paired_by_hand(comparison), *paired = memory_zeroed(runs->count, sizeof *paired);
    const struct compared_run **subjects = memory_zeroed(runs->count, sizeof *subjects);
    size_t n_subjects = 0;
    for (size_t i = 0; i < runs->count; i++)
        if (!is_reference(comparison, &runs->runs[i]))
            subjects[n_subjects++] = &runs->runs[i];
    if (!by_hand)
        qsort(subjects, n_subjects, sizeof *subjects, compare_questions);
    for (size_t i = 0; i < runs->count; i++) {
        const struct compared_run *reference = &runs->runs[i];
        if (!is_reference(comparison, reference))
            continue;
        for (size_t k = by_hand ? 0 : lower_bound(subjects, n_subjects, reference);
             k < n_subjects && (by_hand || strcmp(subjects[k]->question, reference->question) == 0); k++) {
            add_pair(comparison, subjects[k], reference);
            paired[i] = paired[subjects[k] - runs->runs] = true;
        }
    }
    comparison->unpaired = subjects; /* now in the order of the files */
    for (size_t i = 0; i < runs->count; i++)
        if (!paired[i])
            comparison->unpaired[comparison->n_unpaired++] = &runs->runs[i];
    free(paired);
}

/* ---- summary ---- */

static struct compare_summary summarize(const struct comparison *comparison, int quantity)
{
    struct compare_summary summary = {.median = NAN, .percentile90 = NAN, .worst = NAN, .bias = NAN};
    double *errors = memory_zeroed(comparison->n_pairs, sizeof *errors);
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        double error = comparison->pairs[i].values[quantity].error;
        if (isnan(error))
            continue;
        errors[summary.count++] = error;
        if (summary.count == 1 || fabs(error) > fabs(summary.worst)) {
            summary.worst = error;
            summary.worst_pair = i;
        }
    }
    if (summary.count) {
        sort_ascending(errors, summary.count);
        summary.bias = quantile(errors, summary.count, 0.5);
        for (size_t i = 0; i < summary.count; i++)
            errors[i] = fabs(errors[i]);
        sort_ascending(errors, summary.count);
        summary.median = quantile(errors, summary.count, 0.5);
        summary.percentile90 = quantile(errors, summary.count, 0.9);
    }
    free(errors);
    return summary;
}

static void count_verdict(struct verdict_count *count, enum verdict verdict)
{
    count->all += verdict != VERDICT_NONE;
    count->inside += verdict == VERDICT_INSIDE;
}

struct ranked {
    double magnitude;
    size_t pair;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->magnitude > b->magnitude || a->magnitude < b->magnitude)
        return a->magnitude > b->magnitude ? -1 : 1;
    return a->pair < b->pair ? -1 : a->pair > b->pair;
}

static void rank_pairs(struct comparison *comparison)
{
    struct ranked *ranked = memory_zeroed(comparison->n_pairs, sizeof *ranked);
    for (size_t i = 0; i < comparison->n_pairs; i++)
        ranked[i] = (struct ranked){fabs(comparison->pairs[i].values[COMPARE_STEP].error), i};
    qsort(ranked, comparison->n_pairs, sizeof *ranked, compare_ranked);
    comparison->by_error = memory_zeroed(comparison->n_pairs, sizeof *comparison->by_error);
    for (size_t i = 0; i < comparison->n_pairs; i++)
        comparison->by_error[i] = ranked[i].pair;
    free(ranked);
}

static char *make_answer(const struct comparison *comparison)
{
    const struct compare_summary *step = &comparison->summaries[COMPARE_STEP];
    const struct compared_pair *pair = &comparison->pairs[0];
    if (comparison->n_pairs == 1)
        return memory_format("Step %s %s, %s %s: error %+.1f%%", text_of_seconds(pair->subject->seconds).text,
                             comparison->subject_name, text_of_seconds(pair->reference->seconds).text,
                             comparison->reference_name, 100 * step->worst);
    return memory_format("Error of the step over %zu pairs: median %.1f%%, 90th percentile %.1f%%, worst %+.1f%% "
                         "(pair %zu), bias %+.1f%%",
                         step->count, 100 * step->median, 100 * step->percentile90, 100 * step->worst,
                         step->worst_pair + 1, 100 * step->bias);
}

static void sum_up(struct comparison *comparison)
{
    for (int quantity = 0; quantity < COMPARE_QUANTITIES; quantity++)
        comparison->summaries[quantity] = summarize(comparison, quantity);
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        count_verdict(&comparison->in_spread, comparison->pairs[i].in_spread);
        count_verdict(&comparison->in_interval, comparison->pairs[i].in_interval);
    }
    rank_pairs(comparison);
    compare_choose_columns(comparison);
    comparison->answer = make_answer(comparison);
}

/* ---- what stays alone ---- */

/* In how many settings two experiments differ; the first few of them go to `stream` unless it is NULL. */
static size_t count_differences(const struct compared_run *run, const struct compared_run *other, FILE *stream)
{
    enum { NAMED = 3 };
    size_t count = 0;
    for (int side = 0; side < 2; side++) {
        const struct run_settings *names = side ? &other->experiment : &run->experiment;
        for (size_t i = 0; i < names->count; i++) {
            const char *name = names->items[i].name, *own = run_setting(&run->experiment, name),
                       *theirs = run_setting(&other->experiment, name);
            bool seen = side && own, equal = own && theirs && strcmp(own, theirs) == 0;
            if (run_setting_is_name(name) || seen || equal)
                continue;
            if (stream && count < NAMED)
                fprintf(stream, "%s%s = %s, not %s", count ? "; " : "", name, theirs ? theirs : "(nothing)",
                        own ? own : "(nothing)");
            count++;
        }
    }
    if (stream && count > NAMED)
        fprintf(stream, "; and %zu more", count - NAMED);
    return count;
}

/* What the run on the other side that is most like this one has otherwise. */
static void write_nearest(const struct comparison *comparison, const struct compared_run *run, FILE *stream)
{
    const struct compared_run *nearest = NULL;
    size_t least = 0;
    for (size_t i = 0; i < comparison->runs.count; i++) {
        const struct compared_run *other = &comparison->runs.runs[i];
        if (is_reference(comparison, other) == is_reference(comparison, run))
            continue;
        size_t differences = count_differences(run, other, NULL);
        if (!nearest || differences < least) {
            nearest = other;
            least = differences;
        }
    }
    if (!nearest)
        return;
    fprintf(stream, "; nearest is '%s', which has ", nearest->label);
    count_differences(run, nearest, stream);
}

/* "points 1, 3-5", of the unpaired runs [first, end), all of one sweep. */
static void write_points(const struct comparison *comparison, size_t first, size_t end, FILE *stream)
{
    enum { RANGES = 12 };
    const struct compared_run *const *unpaired = comparison->unpaired;
    int ranges = 0;
    fprintf(stream, ": point%s ", end - first == 1 ? "" : "s");
    for (size_t last; first < end; first = last + 1) {
        for (last = first; last + 1 < end && unpaired[last + 1]->point == unpaired[last]->point + 1; last++)
            ;
        if (ranges == RANGES) {
            fprintf(stream, " and %zu more", end - first);
            return;
        }
        fprintf(stream, "%s%zu", ranges++ ? ", " : "", unpaired[first]->point);
        if (last > first)
            fprintf(stream, "-%zu", unpaired[last]->point);
    }
}

/* A note per file with runs that have no partner. */
static void note_unpaired(const struct comparison *comparison, struct diagnostics *notes)
{
    for (size_t i = 0, end; i < comparison->n_unpaired; i = end) {
        const struct compared_run *run = comparison->unpaired[i];
        for (end = i; end < comparison->n_unpaired && comparison->unpaired[end]->file == run->file; end++)
            ;
        const char *partner = comparison->against_first ? "other" : run->measured ? "predicted" : "measured";
        char *text = NULL;
        size_t size;
        FILE *stream = open_memstream(&text, &size);
        if (!stream)
            return;
        fprintf(stream, "'%s': ", comparison->runs.files[run->file]);
        if (run->point)
            fprintf(stream, "%zu run%s ha%s ", end - i, end - i == 1 ? "" : "s", end - i == 1 ? "s" : "ve");
        fprintf(stream, "no %s run of %s experiment", partner, end - i == 1 ? "its" : "their");
        if (run->point)
            write_points(comparison, i, end, stream);
        if (end - i == 1 || comparison->n_pairs == 0)
            write_nearest(comparison, run, stream);
        fclose(stream);
        diagnostics_add(notes, "%s", text);
        free(text);
    }
}

bool comparison_init(struct comparison *comparison, const char *const *files, size_t n_files, struct diagnostics *notes,
                     struct diagnostics *diag)
{
    *comparison = (struct comparison){.n_pairs = 0};
    if (!compared_runs_init(&comparison->runs, files, n_files, notes, diag))
        return false;
    size_t measured = 0;
    for (size_t i = 0; i < comparison->runs.count; i++)
        measured += comparison->runs.runs[i].measured;
    comparison->against_first = measured == 0 || measured == comparison->runs.count;
    comparison->subject_name = comparison->against_first ? "other" : "predicted";
    comparison->reference_name = comparison->against_first ? "first" : "measured";
    pair_runs(comparison);
    note_unpaired(comparison, notes);
    if (comparison->n_pairs == 0)
        return diagnostics_add(diag, "no two runs of one experiment, of the %zu runs in %zu files",
                               comparison->runs.count, n_files);
    sum_up(comparison);
    return true;
}

void comparison_fini(struct comparison *comparison)
{
    for (size_t i = 0; i < comparison->n_pairs; i++) {
        for (size_t k = 0; comparison->pairs[i].cells && k < comparison->n_columns; k++)
            free(comparison->pairs[i].cells[k]);
        free(comparison->pairs[i].cells);
    }
    for (size_t i = 0; i < comparison->n_columns; i++)
        free(comparison->columns[i].name);
    free(comparison->columns);
    free(comparison->pairs);
    free(comparison->by_error);
    free(comparison->unpaired);
    free(comparison->title);
    free(comparison->answer);
    compared_runs_fini(&comparison->runs);
}
