/* validation_statistics.c - errors row by row, then their order statistics, and the order of rows in each group. */
#include "cli/validation_statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/base/statistics.h"

#define GIB (double)(1 << 30)

/* In the metric's unit. */
static double value_of(const struct row_prediction *prediction, double seconds)
{
    return prediction->work > 0 ? prediction->work / seconds : seconds;
}

/* Whether some measured time within its uncertainty is in the interval. */
static bool is_inside(const struct validated_row *result, double uncertainty)
{
    double early = result->measured_seconds / (1 + uncertainty), late = result->measured_seconds * (1 + uncertainty);
    return late >= result->prediction.low && early <= result->prediction.high;
}

void validated_row_judge(struct validated_row *result, const struct validation_row *row)
{
    const struct row_prediction *prediction = &result->prediction;
    result->done = true;
    if (metric_is_memory(row->metric)) {
        result->predicted = prediction->bytes / GIB;
        result->error = result->predicted / row->value - 1;
        return;
    }
    result->predicted = value_of(prediction, prediction->seconds);
    result->measured_seconds = value_of(prediction, row->value); /* its own inverse */
    result->error = prediction->seconds / result->measured_seconds - 1;
    result->has_interval = prediction->high > 0;
    result->inside = result->has_interval && is_inside(result, row->uncertainty);
    if (!result->has_interval)
        return;
    double at_low = value_of(prediction, prediction->low), at_high = value_of(prediction, prediction->high);
    result->low = fmin(at_low, at_high);
    result->high = fmax(at_low, at_high);
}

struct errors {
    double *values;
    size_t count, capacity;
};

/* Rows of one set or of several, as they are added up. */
struct tally {
    struct errors of_time, of_memory;
    struct validation_summary summary;
};

static void errors_add(struct errors *errors, double error)
{
    memory_grow(errors->values, errors->count, errors->capacity);
    errors->values[errors->count++] = error;
}

/* Leaves their sizes, in order. */
static void errors_lose_signs(struct errors *errors)
{
    for (size_t i = 0; i < errors->count; i++)
        errors->values[i] = fabs(errors->values[i]);
    sort_ascending(errors->values, errors->count);
}

static void add_pairs(struct tally *tally, const struct validation_set *set, const struct validated_row *results)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!results[i].done || !results[k].done || strcmp(set->rows[i].group, set->rows[k].group) != 0 ||
                metric_is_memory(set->rows[i].metric) || metric_is_memory(set->rows[k].metric))
                continue;
            double a = results[i].measured_seconds, b = results[k].measured_seconds;
            if (fmax(a, b) <= (1 + ORDER_DIFFERENCE) * fmin(a, b))
                continue;
            double predicted = results[i].prediction.seconds - results[k].prediction.seconds;
            tally->summary.pairs++;
            tally->summary.pairs_right += a > b ? predicted > 0 : predicted < 0;
        }
    }
}

static void add_set(struct tally *tally, const struct validation_set *set, const struct validated_row *results)
{
    struct validation_summary *summary = &tally->summary;
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct validated_row *result = &results[i];
        summary->n_left += result->left;
        if (!result->done)
            continue;
        if (metric_is_memory(set->rows[i].metric)) {
            errors_add(&tally->of_memory, result->error);
            if (summary->n_memory++ == 0 || fabs(result->error) > fabs(summary->memory_worst))
                summary->memory_worst = result->error;
            continue;
        }
        errors_add(&tally->of_time, result->error);
        if (summary->n_rows++ == 0 || fabs(result->error) > fabs(summary->worst)) {
            summary->worst = result->error;
            summary->worst_row = i;
        }
        summary->with_interval += result->has_interval;
        summary->inside += result->inside;
    }
    add_pairs(tally, set, results);
}

static struct validation_summary tally_end(struct tally *tally)
{
    struct validation_summary *summary = &tally->summary;
    struct errors *times = &tally->of_time, *memory = &tally->of_memory;
    if (times->count > 0) {
        sort_ascending(times->values, times->count);
        summary->bias = quantile(times->values, times->count, 0.5);
        errors_lose_signs(times);
        summary->median = quantile(times->values, times->count, 0.5);
        summary->p90 = quantile(times->values, times->count, 0.9);
    }
    if (memory->count > 0) {
        errors_lose_signs(memory);
        summary->memory_median = quantile(memory->values, memory->count, 0.5);
    }
    free(times->values);
    free(memory->values);
    return *summary;
}

/* All sets of a kind (NULL: all), but doubtful ones. */
static struct validation_summary summary_of(const struct validation *validation, const enum published_kind *kind)
{
    struct tally tally = {0};
    for (size_t i = 0; i < validation->sets.count; i++) {
        const struct validation_set *set = &validation->sets.sets[i];
        if (!validation_set_is_doubtful(set) && (!kind || set->published.kind == *kind))
            add_set(&tally, set, validation->rows[i]);
    }
    return tally_end(&tally);
}

static struct validation_summary summary_of_kind(const struct validation *validation, enum published_kind kind)
{
    return summary_of(validation, &kind);
}

void validation_summarize(struct validation *validation)
{
    for (size_t i = 0; i < validation->sets.count; i++) {
        struct tally tally = {0};
        add_set(&tally, &validation->sets.sets[i], validation->rows[i]);
        validation->summaries[i] = tally_end(&tally);
    }
    validation->attention = summary_of_kind(validation, PUBLISHED_ATTENTION);
    validation->links = summary_of_kind(validation, PUBLISHED_LINKS);
    validation->steps = summary_of_kind(validation, PUBLISHED_STEPS);
    validation->all = summary_of(validation, NULL);
}
