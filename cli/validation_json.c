/* validation_json.c - a validation as cpsim.validation/1: names and nesting are the contract, as in run_json.c. */
#include <math.h>
#include <stdlib.h>

#include "cli/json_set.h"
#include "cli/validation.h"

/* A number, or null where there is none. */
static void set_known(json_t *json, const char *key, bool known, double value)
{
    json_set_real(json, key, known ? value : (double)NAN);
}

static json_t *summary_to_json(const struct validation_summary *summary)
{
    json_t *json = json_object();
    bool any = summary->n_rows > 0;
    json_set_count(json, "n_rows", summary->n_rows);
    if (summary->n_left)
        json_set_count(json, "n_left", summary->n_left);
    set_known(json, "median_error", any, summary->median);
    set_known(json, "p90_error", any, summary->p90);
    set_known(json, "worst_error", any, summary->worst);
    set_known(json, "bias", any, summary->bias);
    json_set_count(json, "n_pairs", summary->pairs);
    json_set_count(json, "n_pairs_in_order", summary->pairs_right);
    set_known(json, "order", summary->pairs, (double)summary->pairs_right / (double)summary->pairs);
    json_set_count(json, "n_with_interval", summary->with_interval);
    json_set_count(json, "n_inside", summary->inside);
    set_known(json, "coverage", summary->with_interval, (double)summary->inside / (double)summary->with_interval);
    if (summary->n_memory) {
        json_t *memory = json_object();
        json_set_count(memory, "n_rows", summary->n_memory);
        json_set_real(memory, "median_error", summary->memory_median);
        json_set_real(memory, "worst_error", summary->memory_worst);
        json_object_set_new(json, "memory", memory);
    }
    return json;
}

static json_t *row_to_json(const struct validation *validation, size_t set_index, size_t index)
{
    const struct validation_set *set = &validation->sets.sets[set_index];
    const struct validation_row *row = &set->rows[index];
    const struct validated_row *result = &validation->rows[set_index][index];
    json_t *json = json_object(), *overrides = json_object();
    char *label = validation_row_label(set, row), *command = validation_row_command(set, row, &validation->settings);
    json_set_count(json, "line", (uint64_t)row->line);
    json_set_text(json, "label", label);
    if (validation_set_is_links(set)) {
        json_set_text(json, "pattern", benchmark_pattern_name(row->pattern));
        json_set_count(json, "ranks", row->ranks);
        json_set_count(json, "bytes", row->bytes);
    }
    for (size_t i = 0; i < set->n_columns; i++)
        if (*row->cells[i])
            json_set_text(overrides, set->columns[i], row->cells[i]);
    json_object_set_new(json, "set", overrides);
    json_set_text(json, "group", row->group);
    json_set_text(json, "note", row->note);
    json_set_text(json, "metric", metric_name(row->metric));
    json_set_real(json, "measured", row->value);
    json_set_real(json, "uncertainty", row->uncertainty);
    json_set_flag(json, "done", result->done);
    if (result->left)
        json_set_flag(json, "left", true);
    set_known(json, "predicted", result->done, result->predicted);
    set_known(json, "predicted_low", result->has_interval, result->low);
    set_known(json, "predicted_high", result->has_interval, result->high);
    bool timed = result->done && !metric_is_memory(row->metric);
    set_known(json, "measured_seconds", timed, result->measured_seconds);
    set_known(json, "predicted_seconds", timed, result->prediction.seconds);
    set_known(json, "error", result->done, result->error);
    json_object_set_new(json, "inside", result->has_interval ? json_boolean(result->inside) : json_null());
    if (command)
        json_set_text(json, "command", command);
    free(label);
    free(command);
    return json;
}

static json_t *bounds_to_json(const struct validation_summary *summary, const struct bounds *limits)
{
    const struct {
        const char *name;
        double limit;
    } bounds[BOUNDS] = {[BOUND_MEDIAN] = {"median_error", limits->median},
                        [BOUND_P90] = {"p90_error", limits->p90},
                        [BOUND_ORDER] = {"order", limits->order},
                        [BOUND_MEMORY] = {"memory_error", limits->memory}};
    json_t *json = json_object();
    for (int bound = 0; bound < BOUNDS; bound++) {
        if (isnan(bounds[bound].limit))
            continue;
        json_t *one = json_object();
        json_set_real(one, "limit", bounds[bound].limit);
        if (summary->n_left)
            json_object_set_new(one, "kept", json_null());
        else
            json_set_flag(one, "kept", validation_bound(summary, limits, (enum bound)bound) != BOUND_BROKEN);
        json_object_set_new(json, bounds[bound].name, one);
    }
    return json;
}

static json_t *overall_to_json(const struct validation_summary *summary, const struct bounds *limits)
{
    json_t *json = summary_to_json(summary), *bounds = bounds_to_json(summary, limits);
    if (json_object_size(bounds))
        json_object_set(json, "bounds", bounds);
    json_decref(bounds);
    return json;
}

static json_t *set_to_json(const struct validation *validation, size_t index)
{
    const struct validation_set *set = &validation->sets.sets[index];
    json_t *json = json_object(), *rows = json_array();
    json_set_text(json, "name", set->name);
    json_set_text(json, "title", validation_title(set));
    json_set_text(json, "source", set->published.source);
    json_set_text(json, "kind", published_kind_name(set->published.kind));
    json_set_text(json, "topology", set->topology);
    if (validation_set_is_doubtful(set))
        json_set_text(json, "doubtful", set->published.doubtful);
    for (size_t i = 0; i < set->n_rows; i++)
        json_array_append_new(rows, row_to_json(validation, index, i));
    json_object_set_new(json, "rows", rows);
    json_object_set_new(json, "summary", summary_to_json(&validation->summaries[index]));
    json_object_set_new(json, "bounds", bounds_to_json(&validation->summaries[index], &set->published.bounds));
    return json;
}

json_t *validation_to_json(const struct validation *validation)
{
    json_t *json = json_object(), *engine = json_object(), *sets = json_array();
    char *command = validation_command(validation);
    json_set_text(json, "schema", "cpsim.validation/1");
    json_set_text(json, "cpsim_version", CPSIM_VERSION);
    json_set_text(json, "command", command);
    free(command);
    json_set_text(engine, "name", validation->settings.engine->name);
    if (validation->settings.without)
        json_object_set_new(engine, "without", json_mechanisms(validation->settings.without));
    json_object_set_new(json, "engine", engine);
    for (size_t i = 0; i < validation->sets.count; i++)
        json_array_append_new(sets, set_to_json(validation, i));
    json_object_set_new(json, "sets", sets);
    json_object_set_new(json, "attention", overall_to_json(&validation->attention, &validation->sets.bounds.attention));
    if (validation->steps.n_rows || validation->steps.n_memory || validation->steps.n_left)
        json_object_set_new(json, "steps", overall_to_json(&validation->steps, &validation->sets.bounds.steps));
    json_object_set_new(json, "links", overall_to_json(&validation->links, &validation->sets.bounds.links));
    json_object_set_new(json, "all", summary_to_json(&validation->all));
    if (validation->n_left)
        json_set_flag(json, "complete", false);
    return json;
}
