/* sweep_point.c - a point predicted and written; an answer is a head with the sizes of its parts, and these. */
#include "cli/sweep_point.h"

#include <stdlib.h>
#include <string.h>

#include "cli/json_set.h"
#include "cli/json_writer.h"
#include "cli/writers.h"
#include "models/base/memory.h"

#define PRECISION JSON_REAL_PRECISION(17)

struct answer_head {
    uint64_t status, sizes[SWEEP_TEXTS];
};

/* ---- names ---- */

json_t *sweep_point_settings(const struct sweep *sweep, size_t point)
{
    json_t *settings = json_object();
    for (size_t i = 0; i < sweep->n_keys; i++)
        json_set_text(settings, sweep->keys[i].name, sweep_value(sweep, point, i));
    return settings;
}

char *sweep_point_name(const struct sweep *sweep, size_t point)
{
    char *name = memory_text("");
    for (size_t i = 0; i < sweep->n_keys; i++) {
        char *longer =
            memory_format("%s%s%s=%s", name, i ? ", " : "", sweep->keys[i].name, sweep_value(sweep, point, i));
        free(name);
        name = longer;
    }
    return name;
}

/* ---- the parts of an answer ---- */

/* What is being written: each part goes to `body`, its size to `head`. */
struct draft {
    struct answer_head head;
    char *bytes;
    size_t size;
    FILE *body;
    long begin; /* of the part that is being written */
};

static bool draft_init(struct draft *draft, enum prediction_status status)
{
    *draft = (struct draft){.head.status = (uint64_t)status};
    draft->body = open_memstream(&draft->bytes, &draft->size);
    return draft->body;
}

static void end_part(struct draft *draft, enum sweep_text which)
{
    long end = ftell(draft->body);
    draft->head.sizes[which] = (uint64_t)(end - draft->begin);
    draft->begin = end;
}

static void draft_send(struct draft *draft, FILE *stream)
{
    fclose(draft->body);
    fwrite(&draft->head, sizeof draft->head, 1, stream);
    fwrite(draft->bytes, 1, draft->size, stream);
    free(draft->bytes);
}

/* Points stand in an array of the document. */
#define POINT_DEPTH 2

static void begin_point(struct json_writer *writer, FILE *stream)
{
    fprintf(stream, "%*s", 2 * POINT_DEPTH, "");
    json_writer_init(writer, stream, POINT_DEPTH);
}

static void write_point(json_t *point, FILE *stream)
{
    struct json_writer writer;
    begin_point(&writer, stream);
    json_writer_tree(&writer, NULL, json_incref(point));
}

static json_t *lines_to_json(const struct diagnostics *diag)
{
    json_t *lines = json_array();
    for (size_t i = 0; diag && i < diag->count; i++)
        json_array_append_new(lines, json_text(diag->lines[i]));
    return lines;
}

static void write_lines(const json_t *lines, struct draft *draft, enum sweep_text which)
{
    json_dumpf(lines, draft->body, JSON_COMPACT);
    end_part(draft, which);
}

/* Ends an answer whose first part, what stands in the file, has been written; `kept` is what tables and plots are made
 * of. */
static void end_answer(struct draft *draft, const struct sweep_point_wish *wish, const json_t *kept,
                       const struct diagnostics *notes, FILE *stream)
{
    end_part(draft, SWEEP_POINT);
    if (wish->row)
        csv_write_sweep_point(kept, wish->layers, draft->body);
    end_part(draft, SWEEP_ROW);
    if (wish->kept)
        json_dumpf(kept, draft->body, JSON_COMPACT | PRECISION);
    end_part(draft, SWEEP_KEPT);
    json_t *lines = lines_to_json(notes);
    write_lines(lines, draft, SWEEP_NOTES);
    json_decref(lines);
    json_t *none = json_array(), *errors = json_object_get(kept, "error");
    write_lines(errors ? errors : none, draft, SWEEP_ERRORS);
    json_decref(none);
    draft_send(draft, stream);
}

bool sweep_answer_read(struct sweep_answer *answer, const char *bytes, size_t size)
{
    struct answer_head head;
    if (size < sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    answer->status = (enum prediction_status)head.status;
    size_t at = sizeof head;
    for (int i = 0; i < SWEEP_TEXTS; i++) {
        if (size - at < head.sizes[i])
            return false;
        answer->texts[i] = bytes + at;
        answer->sizes[i] = (size_t)head.sizes[i];
        at += answer->sizes[i];
    }
    return at == size;
}

/* ---- answers ---- */

/* {set, error, failed}. That a point failed, where others were refused, is worth another try when the sweep is resumed.
 */
static json_t *point_without_run(const struct sweep *sweep, size_t point, const json_t *lines, bool failed)
{
    json_t *json = json_object();
    json_object_set_new(json, "set", sweep_point_settings(sweep, point));
    json_object_set_new(json, "error", json_deep_copy(lines));
    if (failed)
        json_set_flag(json, "failed", true);
    return json;
}

static json_t *point_with_run(const struct sweep *sweep, size_t point, json_t *run)
{
    json_t *json = json_object();
    json_object_set_new(json, "set", sweep_point_settings(sweep, point));
    json_object_set_new(json, "run", run);
    return json;
}

/* What overrides the base question's files at this point; the caller frees it and its texts. */
static char **point_overrides(const struct sweep *sweep, const struct question *base, size_t point)
{
    char **overrides = memory_zeroed(base->n_overrides + sweep->n_keys, sizeof *overrides);
    for (size_t i = 0; i < base->n_overrides; i++)
        overrides[i] = memory_text(base->overrides[i]);
    for (size_t i = 0; i < sweep->n_keys; i++)
        overrides[base->n_overrides + i] = memory_format("%s=%s", sweep->keys[i].name, sweep_value(sweep, point, i));
    return overrides;
}

/* As point_with_run of a whole run, of which there is no tree. */
static void write_full_point(const struct sweep *sweep, size_t point, const struct prediction *prediction, FILE *stream)
{
    struct json_writer writer;
    begin_point(&writer, stream);
    json_writer_object(&writer, NULL);
    json_writer_tree(&writer, "set", sweep_point_settings(sweep, point));
    run_json_write_in(&writer, "run", prediction, false);
    json_writer_end_object(&writer);
}

static void write_run(const struct sweep *sweep, const struct sweep_point_wish *wish, size_t point,
                      const struct prediction *prediction, const struct diagnostics *notes, FILE *stream)
{
    struct draft draft;
    if (!draft_init(&draft, PREDICTION_DONE))
        return; /* an answer that is none: the point failed */
    json_t *summary = point_with_run(sweep, point, run_to_json_summary(prediction, false)), *kept = summary;
    if (wish->common)
        kept = point_with_run(sweep, point, run_to_json_summary(prediction, true));
    if (wish->file && wish->summary)
        write_point(summary, draft.body);
    else if (wish->file)
        write_full_point(sweep, point, prediction, draft.body);
    end_answer(&draft, wish, kept, notes, stream);
    if (kept != summary)
        json_decref(kept);
    json_decref(summary);
}

static void write_no_run(const struct sweep *sweep, const struct sweep_point_wish *wish, size_t point,
                         enum prediction_status status, const json_t *lines, const struct diagnostics *notes,
                         FILE *stream)
{
    struct draft draft;
    if (!draft_init(&draft, status))
        return;
    json_t *json = point_without_run(sweep, point, lines, status == PREDICTION_FAILED);
    write_point(json, draft.body);
    end_answer(&draft, wish, json, notes, stream);
    json_decref(json);
}

void sweep_point_answer(const struct sweep *sweep, const struct question *base, const struct sweep_point_wish *wish,
                        size_t point, FILE *stream)
{
    struct diagnostics errors, notes;
    diagnostics_init(&errors);
    diagnostics_init(&notes);
    char **overrides = point_overrides(sweep, base, point);
    struct question question = *base;
    question.overrides = (const char *const *)overrides;
    question.n_overrides = base->n_overrides + sweep->n_keys;
    question.lenient = &notes;
    question.progress = NULL;
    question.phase = NULL;
    question.spares_interval = question.figures_only = !wish->file;
    struct prediction prediction;
    enum prediction_status status = prediction_prepare(&prediction, &question, &errors);
    if (status == PREDICTION_DONE)
        status = prediction_run(&prediction, &question, &errors);
    if (status == PREDICTION_DONE) {
        write_run(sweep, wish, point, &prediction, &notes, stream);
    } else {
        json_t *lines = lines_to_json(&errors);
        write_no_run(sweep, wish, point, status, lines, &notes, stream);
        json_decref(lines);
    }
    prediction_fini(&prediction);
    diagnostics_fini(&errors);
    diagnostics_fini(&notes);
    for (size_t i = 0; i < question.n_overrides; i++)
        free(overrides[i]);
    free(overrides);
}

void sweep_point_answer_failure(const struct sweep *sweep, const struct sweep_point_wish *wish, size_t point,
                                const char *line, FILE *stream)
{
    json_t *lines = json_pack("[o]", json_text(line));
    write_no_run(sweep, wish, point, PREDICTION_FAILED, lines, NULL, stream);
    json_decref(lines);
}

void sweep_point_drop_common(json_t *point)
{
    json_t *run = json_object_get(point, "run");
    json_t *cp = json_object_get(json_object_get(json_object_get(run, "experiment"), "parallel"), "cp");
    if (cp)
        json_object_set_new(run, "experiment", json_pack("{s:{s:O}}", "parallel", "cp", cp));
    json_object_del(run, "topology");
}

/* The point with a summary for its run. */
static json_t *summarized(const json_t *point, bool common)
{
    json_t *kept = json_deep_copy(point), *run = json_object_get(kept, "run");
    if (!run)
        return kept;
    if (!json_object_get(run, "n_ranks"))
        json_set_count(run, "n_ranks", json_array_size(json_object_get(run, "ranks")));
    json_object_del(run, "ranks");
    if (!common)
        sweep_point_drop_common(kept);
    return kept;
}

void sweep_point_answer_again(const struct sweep_point_wish *wish, const json_t *json, const char *text, FILE *stream)
{
    enum prediction_status status = json_object_get(json, "run") ? PREDICTION_DONE : PREDICTION_BAD_INPUT;
    struct draft draft;
    if (!draft_init(&draft, status))
        return;
    json_t *kept = summarized(json, wish->common);
    fputs(text, draft.body);
    end_answer(&draft, wish, kept, NULL, stream);
    json_decref(kept);
}
