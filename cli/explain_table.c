/* explain_table.c - an explanation for people: one sentence, then what it stands on, from the whole to the parts. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/explain.h"
#include "cli/summary.h"
#include "cli/text_table.h"
#include "models/base/memory.h"

#define ROWS_SHOWN 12  /* of the chain, without details */
#define PARTS_NAMED 3  /* in the first sentence, */
#define PART_MIN 0.005 /* of the step each at least */
#define WIDTH 100

static double step_seconds(const struct explanation *explanation)
{
    return explanation->prediction.report.seconds;
}

/* ---- the first sentence ---- */

struct share {
    char *text; /* of the step "is attention" */
    double seconds;
};

static int compare_parts(const void *a, const void *b)
{
    const struct share *first = a, *second = b;
    return (first->seconds < second->seconds) - (first->seconds > second->seconds);
}

static double kind_seconds(const struct explanation *explanation, enum path_kind kind)
{
    return explanation->seconds[PHASE_FORWARD][kind] + explanation->seconds[PHASE_BACKWARD][kind];
}

/* Messages by the level that they go over, all else by kind. The caller frees the texts. */
static size_t list_parts(const struct explanation *explanation, struct share *parts)
{
    static const char *const texts[PATH_KIND_COUNT] = {
        [PATH_ATTENTION] = "is attention",
        [PATH_MERGE] = "merges and sums",
        [PATH_OTHER] = "other kernels",
        [PATH_START] = "starts kernels",
        [PATH_SLOWED] = "is kernels that transfers slow down",
        [PATH_WAITING] = "waits for SMs that attention has",
        [PATH_HOST] = "is the host, issuing",
        [PATH_PRODUCT] = "is matrix products",
    };
    const struct topology *topology = &explanation->prediction.topology;
    size_t count = 0;
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
        if (texts[kind])
            parts[count++] = (struct share){memory_text(texts[kind]), kind_seconds(explanation, (enum path_kind)kind)};
    for (uint32_t k = 0; k < topology->n_levels; k++)
        parts[count++] = (struct share){memory_format("waits for messages over `%s`", topology->levels[k].name),
                                        explanation->level_seconds[k]};
    qsort(parts, count, sizeof *parts, compare_parts);
    return count;
}

/* "rank 31 sets the pace" if most of the path is on it. */
static void write_pace(const struct explanation *explanation, FILE *stream)
{
    const struct prediction *prediction = &explanation->prediction;
    uint32_t slowest = 0, on_path = 0;
    for (uint32_t i = 0; i < prediction->whole.n_instances; i++) {
        on_path += explanation->rank_seconds[i] > 0;
        if (explanation->rank_seconds[i] > explanation->rank_seconds[slowest])
            slowest = i;
    }
    if (explanation->rank_seconds[slowest] > step_seconds(explanation) / 2) {
        chain_print_rank(prediction, slowest, stream);
        fputs(" sets the pace", stream);
    } else {
        fprintf(stream, "%" PRIu32 " ranks set the pace, none for half of the step", on_path);
    }
}

void explanation_sentence_write(const struct explanation *explanation, FILE *stream)
{
    double step = step_seconds(explanation), backward = 0;
    write_pace(explanation, stream);
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++)
        backward += explanation->seconds[PHASE_BACKWARD][kind];
    if (backward > 0)
        fprintf(stream, "; %.1f%% of the step is %s", 100 * (backward > step / 2 ? backward : step - backward) / step,
                phase_name(backward > step / 2 ? PHASE_BACKWARD : PHASE_FORWARD));
    struct share parts[PATH_KIND_COUNT + LEVELS_MAX];
    size_t count = list_parts(explanation, parts);
    for (size_t i = 0; i < count; i++) {
        if (i < PARTS_NAMED && parts[i].seconds > PART_MIN * step)
            fprintf(stream, "%s %.1f%% %s%s", i ? "," : ":", 100 * parts[i].seconds / step,
                    i || backward > 0 ? "" : "of the step ", parts[i].text);
        free(parts[i].text);
    }
}

static void write_head(const struct explanation *explanation, FILE *stream)
{
    const struct prediction *prediction = &explanation->prediction;
    char experiment[512];
    summary_experiment(&prediction->experiment, experiment, sizeof experiment);
    explanation_sentence_write(explanation, stream);
    fprintf(stream, "\n\nquestion  %s\n", experiment);
    fprintf(stream, "cluster   %s, %s; %s engine\n", prediction->topology_name, prediction->device.name,
            prediction->engine->name);
    fprintf(stream, "step      %s", text_of_seconds(step_seconds(explanation)).text);
    if (prediction->experiment.train)
        fprintf(stream, ": forward %s, backward %s", text_of_seconds(prediction->report.forward_seconds).text,
                text_of_seconds(prediction->report.backward_seconds).text);
    fputs("\n\n", stream);
}

/* ---- what the time went for ---- */

static const char *kind_text(enum path_kind kind)
{
    static const char *const texts[PATH_KIND_COUNT] = {
        [PATH_ATTENTION] = "attention",
        [PATH_MERGE] = "merges and sums",
        [PATH_OTHER] = "other kernels",
        [PATH_START] = "kernel starts",
        [PATH_SLOWED] = "kernels slowed by transfers",
        [PATH_LATENCY] = "messages: latency",
        [PATH_TRANSFER] = "messages: transfer",
        [PATH_SHARED] = "messages: slower for sharing links",
        [PATH_WAITING] = "messages: waiting for SMs",
        [PATH_HOST] = "host",
        [PATH_PRODUCT] = "matrix products",
    };
    return texts[kind];
}

static void write_kinds(const struct explanation *explanation, FILE *stream)
{
    double step = step_seconds(explanation);
    struct unit unit = fine_unit_of_seconds(step);
    bool train = explanation->prediction.experiment.train;
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "on the critical path");
    text_table_column(&table, false, "forward\n%s", unit.name);
    if (train)
        text_table_column(&table, false, "backward\n%s", unit.name);
    text_table_column(&table, false, "share\n%%");
    for (int kind = 0; kind < PATH_KIND_COUNT; kind++) {
        double seconds = kind_seconds(explanation, (enum path_kind)kind);
        if (!(seconds > 1e-9 * step))
            continue;
        text_table_cell(&table, "%s", kind_text((enum path_kind)kind));
        text_table_number(&table, explanation->seconds[PHASE_FORWARD][kind], unit);
        if (train)
            text_table_number(&table, explanation->seconds[PHASE_BACKWARD][kind], unit);
        text_table_cell(&table, "%.2f", 100 * seconds / step);
    }
    text_table_print(&table, stream);
    text_table_fini(&table);
}

/* ---- the chain ---- */

/* Marks the rows to show: those that took longest. */
static void choose_rows(const struct chain *chain, bool details, bool *shown)
{
    size_t left = details || chain->count < ROWS_SHOWN ? chain->count : ROWS_SHOWN;
    for (; left > 0; left--) {
        size_t longest = chain->count;
        for (size_t i = 0; i < chain->count; i++)
            if (!shown[i] && (longest == chain->count || chain->rows[i].seconds > chain->rows[longest].seconds))
                longest = i;
        shown[longest] = true;
    }
}

static void add_chain_row(struct text_table *table, const struct explanation *explanation, const struct chain_row *row,
                          struct unit unit)
{
    text_table_cell(table, "%s", phase_name(explanation->path.pieces[row->first].phase));
    text_table_number(table, row->seconds, unit);
    text_table_cell(table, "%.1f", 100 * row->seconds / step_seconds(explanation));
    text_table_cell(table, row->times > 1 ? "%zu x" : "", row->times);
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream) {
        chain_describe(row, &explanation->path, explanation->ways, &explanation->prediction, stream);
        fclose(stream);
    }
    text_table_cell(table, "%s", text ? text : "");
    free(text);
    text_table_end_row(table);
}

static void write_chain(const struct explanation *explanation, bool details, FILE *stream)
{
    const struct chain *chain = &explanation->chain;
    struct unit unit = fine_unit_of_seconds(step_seconds(explanation));
    bool *shown = memory_zeroed(chain->count, sizeof *shown);
    choose_rows(chain, details, shown);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "phase");
    text_table_column(&table, false, "took\n%s", unit.name);
    text_table_column(&table, false, "share\n%%");
    text_table_column(&table, false, "%s", "");
    text_table_column(&table, true, "the chain: each began because the one before had ended");
    size_t hidden = 0;
    double hidden_seconds = 0;
    for (size_t i = 0; i < chain->count; i++) {
        if (shown[i])
            add_chain_row(&table, explanation, &chain->rows[i], unit);
        hidden += !shown[i];
        hidden_seconds += shown[i] ? 0 : chain->rows[i].seconds;
    }
    fputc('\n', stream);
    text_table_print(&table, stream);
    text_table_fini(&table);
    if (hidden)
        fprintf(stream, "(%zu shorter stretches between them, %s in all, with --details)\n", hidden,
                text_of_seconds(hidden_seconds).text);
    free(shown);
}

/* ---- what would help ---- */

static void write_gains(const struct explanation *explanation, FILE *stream)
{
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "what would help, one at a time");
    text_table_column(&table, false, "step");
    text_table_column(&table, false, "shorter\n%%");
    text_table_column(&table, true, "%s", "");
    size_t rows = 0;
    for (size_t i = 0; i < explanation->n_ran; i++) {
        const struct change *change = &explanation->changes.items[explanation->order[i]];
        double gain = explanation_gain(explanation, change);
        if (gain < EXPLAIN_GAIN)
            break;
        text_table_cell(&table, "%s", change->name);
        text_table_cell(&table, "%s", text_of_seconds(change->seconds).text);
        text_table_cell(&table, "%.1f", 100 * gain);
        bool too_large = explanation->prediction.report.fits && !change->fits;
        text_table_cell(&table, "%s%s%s", change->options ? change->options : "",
                        too_large && change->options ? "; " : "", too_large ? "DOES NOT FIT the device" : "");
        text_table_end_row(&table);
        rows++;
    }
    fputc('\n', stream);
    if (rows)
        text_table_print(&table, stream);
    else
        fputs("nothing that was tried makes the step shorter\n", stream);
    text_table_fini(&table);
}

/* Changes in a few lines. */
struct listing {
    FILE *stream;
    const char *head;
    size_t column;
};

static void list_change(struct listing *listing, const char *text)
{
    if (listing->column == 0)
        listing->column = (size_t)fprintf(listing->stream, "%s", listing->head);
    else
        listing->column += (size_t)fprintf(listing->stream, ",");
    if (listing->column + 2 + strlen(text) > WIDTH)
        listing->column = (size_t)fprintf(listing->stream, "\n ") - 1;
    listing->column += (size_t)fprintf(listing->stream, " %s", text);
}

static void end_list(const struct listing *listing)
{
    if (listing->column)
        fputc('\n', listing->stream);
}

static void write_idle_levels(const struct explanation *explanation, FILE *stream)
{
    const struct topology *topology = &explanation->prediction.topology;
    for (uint32_t k = 0; k < topology->n_levels; k++)
        if (!explanation->changes.crosses[k])
            fprintf(stream, "no message crosses %s %s\n", topology->graph ? "links" : "level",
                    topology->levels[k].name);
}

static void write_others(const struct explanation *explanation, FILE *stream)
{
    struct listing nothing = {stream, "no help:", 0}, longer = {stream, "longer with:", 0},
                   refused = {stream, "does not apply here:", 0};
    for (size_t i = 0; i < explanation->n_ran; i++) {
        const struct change *change = &explanation->changes.items[explanation->order[i]];
        double gain = explanation_gain(explanation, change);
        if (gain < EXPLAIN_GAIN && gain > -EXPLAIN_GAIN)
            list_change(&nothing, change->name);
    }
    end_list(&nothing);
    for (size_t i = 0; i < explanation->n_ran; i++) {
        const struct change *change = &explanation->changes.items[explanation->order[i]];
        double gain = explanation_gain(explanation, change);
        char *text = memory_format("%s (+%.1f%%)", change->name, -100 * gain);
        if (gain <= -EXPLAIN_GAIN)
            list_change(&longer, text);
        free(text);
    }
    end_list(&longer);
    for (size_t i = 0; i < explanation->changes.count; i++)
        if (explanation->changes.items[i].refused)
            list_change(&refused, explanation->changes.items[i].name);
    end_list(&refused);
}

bool explanation_table_write(const struct explanation *explanation, bool details, FILE *stream)
{
    write_head(explanation, stream);
    write_kinds(explanation, stream);
    write_chain(explanation, details, stream);
    write_gains(explanation, stream);
    write_others(explanation, stream);
    write_idle_levels(explanation, stream);
    return fflush(stream) == 0 && !ferror(stream);
}
