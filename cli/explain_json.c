/* explain_json.c - an explanation as cpsim.explanation/1, and its changes as comma-separated values. */
#include <stdlib.h>

#include "cli/explain.h"
#include "cli/json_set.h"
#include "cli/writers.h"

/* Seconds by kind, those that are not 0. */
static json_t *kinds_to_json(const double seconds[PATH_KIND_COUNT])
{
    json_t *json = json_object();
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
        if (seconds[kind] > 0)
            json_set_real(json, path_kind_name((enum path_kind)kind), seconds[kind]);
    return json;
}

static void set_rank(json_t *json, const struct prediction *prediction, uint32_t place)
{
    const struct instance *rank = &prediction->whole.instances[place];
    json_set_count(json, "rank", rank->rank);
    json_set_count(json, "group", rank->group);
}

static json_t *piece_to_json(const struct explanation *explanation, size_t i)
{
    const struct prediction *prediction = &explanation->prediction;
    const struct path_piece *piece = &explanation->path.pieces[i];
    const struct piece_way *way = &explanation->ways[i];
    const struct op *op = piece_op(prediction, piece);
    json_t *json = json_object();
    json_set_real(json, "begin", piece->begin);
    json_set_real(json, "end", piece->end);
    json_set_text(json, "phase", phase_name(piece->phase));
    set_rank(json, prediction, piece->activity.instance);
    json_set_text(json, "operation", op ? op_kind_name((enum op_kind)op->kind) : "host");
    if (op)
        json_set_count(json, "op", piece->activity.op);
    json_set_text(json, "cause", path_cause_name(piece->cause));
    json_object_set_new(json, "seconds", kinds_to_json(piece->seconds));
    if (way->is_message) {
        char name[LINK_NAME_SIZE];
        topology_link_name(&prediction->topology, way->link, name, sizeof name);
        json_set_count(json, "from", prediction->whole.instances[way->from].rank);
        json_set_count(json, "to", prediction->whole.instances[way->to].rank);
        json_set_text(json, "level", prediction->topology.levels[way->level].name);
        json_set_text(json, "link", name);
        json_set_count(json, "bytes", op->bytes);
    }
    return json;
}

static json_t *row_to_json(const struct explanation *explanation, const struct chain_row *row)
{
    json_t *json = json_object();
    json_set_text(json, "phase", phase_name(explanation->path.pieces[row->first].phase));
    json_set_count(json, "first", row->first);
    json_set_count(json, "pieces", row->period);
    json_set_count(json, "times", row->times);
    json_set_real(json, "seconds", row->seconds);
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream) {
        chain_describe(row, &explanation->path, explanation->ways, &explanation->prediction, stream);
        fclose(stream);
    }
    json_set_text(json, "text", text);
    free(text);
    return json;
}

static const char *outcome_of(const struct explanation *explanation, const struct change *change)
{
    if (change->refused)
        return "refused";
    double gain = explanation_gain(explanation, change);
    return gain >= EXPLAIN_GAIN ? "shorter" : gain <= -EXPLAIN_GAIN ? "longer" : "same";
}

static json_t *change_to_json(const struct explanation *explanation, const struct change *change)
{
    json_t *json = json_object();
    json_set_text(json, "change", change->name);
    if (change->options)
        json_set_text(json, "options", change->options);
    json_set_text(json, "outcome", outcome_of(explanation, change));
    if (change->refused) {
        json_set_text(json, "why", change->why);
    } else {
        json_set_real(json, "seconds", change->seconds);
        json_set_real(json, "gain", explanation_gain(explanation, change));
        json_set_flag(json, "fits", change->fits);
    }
    return json;
}

/* Those that ran, the shortest step first, then the others. */
static const struct change *change_at(const struct explanation *explanation, size_t i)
{
    const struct changes *changes = &explanation->changes;
    if (i < explanation->n_ran)
        return &changes->items[explanation->order[i]];
    size_t left = i - explanation->n_ran, k = 0;
    for (;; k++)
        if (changes->items[k].refused && left-- == 0)
            return &changes->items[k];
}

static void set_question(json_t *json, const struct prediction *prediction)
{
    json_set_asked(json, "cpsim.explanation/1", "--explain", prediction);
    json_set_real(json, "seconds", prediction->report.seconds);
    json_set_real(json, "forward_seconds", prediction->report.forward_seconds);
    json_set_real(json, "backward_seconds", prediction->report.backward_seconds);
}

json_t *explanation_to_json(const struct explanation *explanation)
{
    const struct prediction *prediction = &explanation->prediction;
    json_t *json = json_object(), *phases = json_object(), *levels = json_object(), *ranks = json_array(),
           *chain = json_array(), *path = json_array(), *changes = json_array();
    set_question(json, prediction);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        json_object_set_new(phases, phase_name((enum phase)phase), kinds_to_json(explanation->seconds[phase]));
    for (uint32_t k = 0; k < prediction->topology.n_levels; k++)
        json_set_real(levels, prediction->topology.levels[k].name, explanation->level_seconds[k]);
    for (uint32_t i = 0; i < prediction->whole.n_instances; i++) {
        if (!(explanation->rank_seconds[i] > 0))
            continue;
        json_t *rank = json_object();
        set_rank(rank, prediction, i);
        json_set_real(rank, "seconds", explanation->rank_seconds[i]);
        json_array_append_new(ranks, rank);
    }
    for (size_t i = 0; i < explanation->chain.count; i++)
        json_array_append_new(chain, row_to_json(explanation, &explanation->chain.rows[i]));
    for (size_t i = 0; i < explanation->path.count; i++)
        json_array_append_new(path, piece_to_json(explanation, i));
    for (size_t i = 0; i < explanation->changes.count; i++)
        json_array_append_new(changes, change_to_json(explanation, change_at(explanation, i)));
    json_t *idle = json_array();
    for (uint32_t k = 0; k < prediction->topology.n_levels; k++)
        if (!explanation->changes.crosses[k])
            json_array_append_new(idle, json_text(prediction->topology.levels[k].name));
    json_object_set_new(json, "idle_levels", idle);
    json_object_set_new(json, "phases", phases);
    json_object_set_new(json, "message_seconds_by_level", levels);
    json_object_set_new(json, "ranks", ranks);
    json_object_set_new(json, "chain", chain);
    json_object_set_new(json, "changes", changes);
    json_object_set_new(json, "path", path);
    return json;
}

bool explanation_csv_write(const struct explanation *explanation, FILE *stream)
{
    fputs("change,options,outcome,seconds,gain,fits,why\n", stream);
    for (size_t i = 0; i < explanation->changes.count; i++) {
        const struct change *change = change_at(explanation, i);
        csv_write_text(change->name, stream);
        fputc(',', stream);
        csv_write_text(change->options ? change->options : "", stream);
        fprintf(stream, ",%s,", outcome_of(explanation, change));
        if (change->refused)
            fputs(",,,", stream);
        else
            fprintf(stream, "%.17g,%.17g,%s,", change->seconds, explanation_gain(explanation, change),
                    change->fits ? "yes" : "no");
        csv_write_text(change->why ? change->why : "", stream);
        fputc('\n', stream);
    }
    return fflush(stream) == 0 && !ferror(stream);
}
