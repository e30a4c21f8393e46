/* advice_json.c - schema cpsim.advice/1, and a row for each candidate.
 *
 *   { schema, cpsim_version, command, gpus, sequences, engine, layers: [simulated] | null, candidates, refused,
 *     does_not_fit, timed, simulated, skipped, complete, best: [ candidate... ], runner_up: {...}, nearest: [...],
 *     points: [ candidate... ] }
 *
 * A candidate is { set: {key: value}, command, status, seconds, ... }; `points` are all that were looked at.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/advice.h"
#include "cli/advice_difference.h"
#include "cli/advice_overrides.h"
#include "cli/json_set.h"
#include "cli/writers.h"

static const char *const status_words[] = {"not looked at", "ran", "does not fit", "refused", "failed"};

static const struct advice_answer *deepest(const struct advice *advice, size_t candidate)
{
    const struct advice_entry *entry = &advice->entries[candidate];
    bool tried = entry->answer[ADVICE_TRIAL].status != ADVICE_NOT_SEEN;
    return &entry->answer[tried ? ADVICE_TRIAL : ADVICE_SCREENING];
}

static bool is_tried(const struct advice *advice, size_t candidate)
{
    return advice->entries[candidate].answer[ADVICE_TRIAL].status != ADVICE_NOT_SEEN;
}

static json_t *settings_of(const struct advice *advice, size_t candidate)
{
    json_t *json = json_object();
    for (size_t k = 0; k < advice->space.n_knobs; k++) {
        const char *value = advice_value(&advice->space, candidate, k);
        if (value)
            json_set_text(json, advice->space.knobs[k].key, value);
    }
    return json;
}

static json_t *candidate_to_json(const struct advice *advice, size_t candidate, bool command)
{
    const struct advice_answer *answer = deepest(advice, candidate);
    json_t *json = json_object();
    json_object_set_new(json, "set", settings_of(advice, candidate));
    if (command) {
        char *text = advice_command(&advice->space, &advice->question, candidate);
        json_set_text(json, "command", text);
        free(text);
    }
    json_set_text(json, "status", status_words[answer->status]);
    json_set_flag(json, "simulated", is_tried(advice, candidate));
    if (answer->line)
        json_set_text(json, "why", answer->line);
    if (answer->device_bytes > 0 || answer->peak_bytes > 0) {
        json_set_real(json, "peak_bytes", answer->peak_bytes);
        json_set_real(json, "device_bytes", answer->device_bytes);
        json_set_real(json, "reserve_bytes", answer->reserve_bytes);
    }
    const struct advice_times *times = answer->status == ADVICE_RAN ? &answer->times : NULL;
    if (!times)
        return json;
    const struct {
        const char *key;
        double value;
    } members[] = {{"seconds", times->seconds},
                   {"seconds_low", times->low},
                   {"seconds_high", times->high},
                   {"compute_bound_seconds", times->bound},
                   {"compute_seconds", times->compute},
                   {"exposed_seconds", times->exposed},
                   {"exposed_cp_seconds", times->waits[WAIT_CP]},
                   {"exposed_tp_seconds", times->waits[WAIT_TP]},
                   {"exposed_dp_seconds", times->waits[WAIT_DP]},
                   {"idle_seconds", times->idle},
                   {"recomputed_seconds", times->recomputed},
                   {"tokens_per_s_per_gpu", advice_tokens_per_s(advice, times)},
                   {"mfu", advice_mfu(advice, candidate)}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        json_set_real(json, members[i].key, members[i].value);
    return json;
}

static json_t *list_to_json(const struct advice *advice, const size_t *candidates, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, candidate_to_json(advice, candidates[i], true));
    return list;
}

static json_t *runner_up_to_json(const struct advice *advice)
{
    size_t second = advice->n_best ? advice_runner_up(advice) : 0;
    if (second == 0)
        return json_null();
    const struct advice_times *best = advice_times_of(advice, advice->tried[0]);
    const struct advice_times *other = advice_times_of(advice, advice->tried[second]);
    struct advice_part parts[ADVICE_PARTS_MAX];
    size_t n = advice_difference(best, other, parts);
    json_t *json = candidate_to_json(advice, advice->tried[second], true), *difference = json_object();
    json_set_count(json, "place", second + 1);
    for (size_t i = 0; i < n; i++)
        json_set_real(difference, parts[i].key, parts[i].seconds);
    json_object_set_new(json, "longer_by_seconds", difference);
    json_set_flag(json, "intervals_overlap", advice_is_unsure(best, other));
    return json;
}

json_t *advice_to_json(const struct advice *advice)
{
    const struct advice_space *space = &advice->space;
    json_t *json = json_object(), *points = json_array();
    json_set_text(json, "schema", "cpsim.advice/1");
    json_set_text(json, "cpsim_version", CPSIM_VERSION);
    json_set_text(json, "command", advice->command);
    json_set_text(json, "engine", advice->question.engine->name);
    json_set_count(json, "gpus", space->gpus);
    json_set_count(json, "sequences", space->sequences);
    uint32_t a = advice_layers(&space->base, 0), b = advice_layers(&space->base, 1);
    json_object_set_new(json, "layers_run", a ? json_pack("[i, i]", (int)a, (int)b) : json_null());
    json_set_count(json, "candidates", space->n_candidates);
    json_set_count(json, "refused", advice->n_refused);
    json_set_count(json, "does_not_fit", advice->n_no_room);
    json_set_count(json, "failed", advice->n_failed);
    json_set_count(json, "timed", advice->n_screened);
    json_set_count(json, "simulated", advice->n_tried);
    json_set_count(json, "not_looked_at", advice->n_skipped);
    json_set_flag(json, "complete", advice->signal == 0);
    json_object_set_new(json, "best", list_to_json(advice, advice->best, advice->n_best));
    json_object_set_new(json, "runner_up", runner_up_to_json(advice));
    json_object_set_new(json, "nearest", list_to_json(advice, advice->nearest, advice->n_nearest));
    if (advice->longest)
        json_set_count(json, "longest_seq_len", advice->longest);
    for (size_t i = 0; i < space->n_candidates; i++)
        if (deepest(advice, i)->status != ADVICE_NOT_SEEN)
            json_array_append_new(points, candidate_to_json(advice, i, false));
    json_object_set_new(json, "points", points);
    return json;
}

bool advice_csv_write(const struct advice *advice, FILE *stream)
{
    const struct advice_space *space = &advice->space;
    for (size_t k = 0; k < space->n_knobs; k++) {
        csv_write_text(space->knobs[k].key, stream);
        fputc(',', stream);
    }
    fputs("status,simulated,seconds,seconds_low,seconds_high,compute_seconds,exposed_cp_seconds,exposed_tp_seconds,"
          "exposed_dp_seconds,idle_seconds,tokens_per_s_per_gpu,mfu,peak_bytes\n",
          stream);
    for (size_t i = 0; i < space->n_candidates; i++) {
        const struct advice_answer *answer = deepest(advice, i);
        if (answer->status == ADVICE_NOT_SEEN)
            continue;
        for (size_t k = 0; k < space->n_knobs; k++) {
            const char *value = advice_value(space, i, k);
            csv_write_text(value ? value : "", stream);
            fputc(',', stream);
        }
        fprintf(stream, "%s,%s", status_words[answer->status], is_tried(advice, i) ? "yes" : "no");
        const struct advice_times *t = &answer->times;
        if (answer->status == ADVICE_RAN)
            fprintf(stream, ",%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g", t->seconds, t->low, t->high,
                    t->compute, t->waits[WAIT_CP], t->waits[WAIT_TP], t->waits[WAIT_DP], t->idle,
                    advice_tokens_per_s(advice, t), advice_mfu(advice, i));
        else
            fputs(",,,,,,,,,,", stream);
        if (answer->peak_bytes > 0)
            fprintf(stream, ",%.17g\n", answer->peak_bytes);
        else
            fputs(",\n", stream);
    }
    return !ferror(stream);
}
