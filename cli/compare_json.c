/* compare_json.c - a comparison as cpsim.compare/1. Names and nesting are the contract, as in run_json.c. */
#include "cli/compare_writers.h"
#include "cli/json_set.h"

static json_t *verdict_to_json(enum verdict verdict)
{
    return verdict == VERDICT_NONE ? json_null() : json_boolean(verdict == VERDICT_INSIDE);
}

/* Where a run is from. */
static json_t *origin_to_json(const struct comparison *comparison, const struct compared_run *run)
{
    json_t *json = json_object();
    json_set_text(json, "file", comparison->runs.files[run->file]);
    if (run->point)
        json_set_count(json, "point", run->point);
    return json;
}

static json_t *run_side_to_json(const struct comparison *comparison, const struct compared_run *run)
{
    json_t *json = origin_to_json(comparison, run), *topology = json_object_get(run->json, "topology");
    if (topology)
        json_object_set(json, "topology", topology);
    json_object_set(json, "step", json_object_get(run->json, "step"));
    return json;
}

static json_t *pair_to_json(const struct comparison *comparison, const struct compared_pair *pair)
{
    json_t *json = json_object(), *settings = json_object(), *errors = json_object();
    for (size_t i = 0; i < comparison->n_columns; i++)
        if (pair->cells[i])
            json_set_text(settings, comparison->columns[i].name, pair->cells[i]);
    json_object_set_new(json, "settings", settings);
    json_object_set_new(json, comparison->subject_name, run_side_to_json(comparison, pair->subject));
    json_object_set_new(json, comparison->reference_name, run_side_to_json(comparison, pair->reference));
    json_object_set(json, "experiment", json_object_get(pair->reference->json, "experiment"));
    for (int quantity = 0; quantity < COMPARE_QUANTITIES; quantity++)
        json_set_real(errors, compare_quantity_key((enum compare_quantity)quantity), pair->values[quantity].error);
    json_object_set_new(json, "errors", errors);
    json_object_set_new(json, "in_spread", verdict_to_json(pair->in_spread));
    json_object_set_new(json, "in_interval", verdict_to_json(pair->in_interval));
    return json;
}

static json_t *summary_to_json(const struct compare_summary *summary)
{
    json_t *json = json_object();
    json_set_count(json, "pairs", summary->count);
    json_set_real(json, "median", summary->median);
    json_set_real(json, "percentile90", summary->percentile90);
    json_set_real(json, "worst", summary->worst);
    if (summary->count)
        json_set_count(json, "worst_pair", summary->worst_pair + 1);
    else
        json_object_set_new(json, "worst_pair", json_null());
    json_set_real(json, "bias", summary->bias);
    return json;
}

static json_t *verdicts_to_json(const struct verdict_count *count)
{
    json_t *json = json_object();
    json_set_count(json, "inside", count->inside);
    json_set_count(json, "all", count->all);
    return json;
}

static json_t *summaries_to_json(const struct comparison *comparison)
{
    json_t *json = json_object();
    for (int quantity = 0; quantity < COMPARE_QUANTITIES; quantity++)
        json_object_set_new(json, compare_quantity_key((enum compare_quantity)quantity),
                            summary_to_json(&comparison->summaries[quantity]));
    json_object_set_new(json, "in_spread", verdicts_to_json(&comparison->in_spread));
    json_object_set_new(json, "in_interval", verdicts_to_json(&comparison->in_interval));
    return json;
}

static json_t *unpaired_to_json(const struct comparison *comparison)
{
    json_t *json = json_array();
    for (size_t i = 0; i < comparison->n_unpaired; i++) {
        json_t *run = origin_to_json(comparison, comparison->unpaired[i]);
        json_set_text(run, "kind", comparison->unpaired[i]->measured ? "measured" : "simulated");
        json_array_append_new(json, run);
    }
    return json;
}

json_t *compare_to_json(const struct comparison *comparison)
{
    json_t *json = json_object(), *files = json_array(), *pairs = json_array();
    json_set_text(json, "schema", "cpsim.compare/1");
    json_set_text(json, "cpsim_version", CPSIM_VERSION);
    for (size_t i = 0; i < comparison->runs.n_files; i++)
        json_array_append_new(files, json_text(comparison->runs.files[i]));
    json_object_set_new(json, "files", files);
    json_set_text(json, "subject", comparison->subject_name);
    json_set_text(json, "reference", comparison->reference_name);
    for (size_t i = 0; i < comparison->n_pairs; i++)
        json_array_append_new(pairs, pair_to_json(comparison, &comparison->pairs[i]));
    json_object_set_new(json, "pairs", pairs);
    json_object_set_new(json, "summary", summaries_to_json(comparison));
    json_object_set_new(json, "unpaired", unpaired_to_json(comparison));
    return json;
}
