/* advice_table.c - an advice for people: the best few, why the next one lost, and what was looked at. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/advice.h"
#include "cli/advice_difference.h"
#include "cli/advice_names.h"
#include "cli/advice_overrides.h"
#include "cli/quantity.h"
#include "cli/summary.h"
#include "cli/text_table.h"
#include "models/base/memory.h"

static const struct advice_answer *answer_of(const struct advice *advice, size_t candidate)
{
    const struct advice_entry *entry = &advice->entries[candidate];
    bool tried = entry->answer[ADVICE_TRIAL].status != ADVICE_NOT_SEEN;
    return &entry->answer[tried ? ADVICE_TRIAL : ADVICE_SCREENING];
}

static const char *or_dash(const char *value)
{
    return value ? value : "-";
}

/* ---- head ---- */

static void write_head(const struct advice *advice, FILE *stream)
{
    const struct advice_space *space = &advice->space;
    const struct experiment *base = &space->base;
    static const char *const scopes[] = {"attention of one layer", "one layer", "a step of the whole model"};
    char shape[160], tokens[96], mask[64];
    summary_transformer(&base->model, shape, sizeof shape);
    summary_tokens(base, tokens, sizeof tokens);
    summary_mask(&base->mask, mask, sizeof mask);
    char *layers =
        base->step.scope == SCOPE_MODEL ? memory_format(", %" PRIu32 " layers", base->model.layers) : memory_text("");
    fprintf(stream, "model     %s: %s%s, %s\n", base->model.name, shape, layers, dtype_name(base->dtype));
    fprintf(stream, "workload  %s sequence%s a step, each of %s, %s, %s\n", text_of_count(space->sequences).text,
            space->sequences == 1 ? "" : "s", tokens, mask, base->train ? "forward and backward" : "forward");
    fprintf(stream, "asked     %s on %s of %s GPUs of %s; %s engine\n\n", scopes[base->step.scope],
            text_of_count(space->gpus).text, text_of_count(space->topology.n_gpus).text, advice->question.topology_path,
            advice->question.engine->name);
    free(layers);
}

/* What a device must have: what a run's table calls its memory. */
static double needed_bytes(const struct advice_answer *answer)
{
    return answer->peak_bytes + answer->reserve_bytes;
}

/* ---- the best ---- */

static bool any_writes(const struct advice *advice, size_t knob)
{
    for (size_t i = 0; i < advice->n_best; i++)
        if (advice_value(&advice->space, advice->best[i], knob))
            return true;
    return false;
}

/* Whether candidates of the list have something there that does not go without saying. */
static bool any_differs(const struct advice *advice, size_t knob, const char *silent)
{
    for (size_t i = 0; i < advice->n_best; i++) {
        const char *value = advice_value(&advice->space, advice->best[i], knob);
        if (value && strcmp(value, silent) != 0)
            return true;
    }
    return false;
}

struct column {
    const char *name;
    size_t knob;
    bool shown;
};

static size_t knob_columns(const struct advice *advice, struct column columns[ADVICE_KNOBS_MAX])
{
    const struct column fixed[] = {
        {"tp", KNOB_TP, true},
        {"cp", KNOB_CP, true},
        {"dp", KNOB_DP, true},
        {"batch", KNOB_BATCH, any_differs(advice, KNOB_BATCH, "1")},
        {"micro\nbatches", KNOB_MICRO_BATCHES, any_differs(advice, KNOB_MICRO_BATCHES, "1")},
        {"order", KNOB_ORDER, any_differs(advice, KNOB_ORDER, "tp,cp,dp")},
        {"ring", KNOB_RING, any_differs(advice, KNOB_RING, "natural")},
        {"algorithm", KNOB_ALGORITHM, true},
        {"sharding", KNOB_SHARDING, true},
        {"ZeRO", KNOB_ZERO, any_writes(advice, KNOB_ZERO)},
        {"recompute", KNOB_RECOMPUTE, any_writes(advice, KNOB_RECOMPUTE)},
        {"sequence\nparallel", KNOB_SEQUENCE_PARALLEL, any_differs(advice, KNOB_SEQUENCE_PARALLEL, "yes")},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fixed[i].shown)
            columns[n++] = fixed[i];
    for (size_t k = KNOB_KINDS; k < advice->space.n_knobs; k++)
        columns[n++] = (struct column){strrchr(advice->space.knobs[k].key, '.') + 1, k, true};
    return n;
}

static void write_best(const struct advice *advice, FILE *stream)
{
    struct column columns[ADVICE_KNOBS_MAX];
    size_t n_columns = knob_columns(advice, columns);
    double slowest = 0, most = 0;
    for (size_t i = 0; i < advice->n_best; i++) {
        slowest = fmax(slowest, advice_times_of(advice, advice->best[i])->seconds);
        most = fmax(most, answer_of(advice, advice->best[i])->device_bytes);
        most = fmax(most, needed_bytes(answer_of(advice, advice->best[i])));
    }
    struct unit seconds = unit_of_seconds(slowest), bytes = unit_of_memory(most);
    bool mfu = advice_mfu(advice, advice->best[0]) > 0, device = answer_of(advice, advice->best[0])->device_bytes > 0;
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, false, " ");
    for (size_t c = 0; c < n_columns; c++)
        text_table_column(&table, columns[c].knob >= KNOB_ORDER && columns[c].knob != KNOB_ZERO, "%s", columns[c].name);
    text_table_column(&table, false, "step\n%s", seconds.name);
    text_table_column(&table, true, "interval\n");
    text_table_column(&table, false, "tokens\n/s/GPU");
    if (mfu)
        text_table_column(&table, false, "MFU\n%%");
    text_table_column(&table, false, "exposed\n%%");
    text_table_column(&table, false, "memory\n%s", bytes.name);
    if (device)
        text_table_column(&table, false, "left\n%s", bytes.name);
    for (size_t i = 0; i < advice->n_best; i++) {
        size_t candidate = advice->best[i];
        const struct advice_times *times = advice_times_of(advice, candidate);
        const struct advice_answer *answer = answer_of(advice, candidate);
        text_table_cell(&table, "%zu", i + 1);
        for (size_t c = 0; c < n_columns; c++) {
            char *algorithm = advice_algorithm(&advice->space, candidate);
            bool alone = strcmp(algorithm, "-") == 0;
            const char *value = columns[c].knob == KNOB_ALGORITHM ? algorithm
                                : columns[c].knob == KNOB_SHARDING && alone
                                    ? NULL
                                    : advice_value(&advice->space, candidate, columns[c].knob);
            text_table_cell(&table, "%s", or_dash(value));
            free(algorithm);
        }
        text_table_number(&table, times->seconds, seconds);
        if (times->high > times->low)
            text_table_cell(&table, "%s to %s", text_of_number(times->low / seconds.size).text,
                            text_of_number(times->high / seconds.size).text);
        else
            text_table_cell(&table, "-");
        text_table_cell(&table, "%s", text_of_number(advice_tokens_per_s(advice, times)).text);
        if (mfu)
            text_table_cell(&table, "%.1f", 100 * advice_mfu(advice, candidate));
        text_table_cell(&table, "%.1f", 100 * times->exposed / times->seconds);
        text_table_number(&table, needed_bytes(answer), bytes);
        if (device)
            text_table_number(&table, answer->device_bytes - needed_bytes(answer), bytes);
    }
    text_table_print(&table, stream);
    text_table_fini(&table);
}

/* ---- why ---- */

static void write_parts(const struct advice_times *best, const struct advice_times *other, FILE *stream)
{
    struct advice_part parts[ADVICE_PARTS_MAX];
    size_t n = advice_difference(best, other, parts);
    for (size_t i = 0; i < n && (i == 0 || fabs(parts[i].seconds) >= 0.05 * fabs(parts[0].seconds)); i++)
        fprintf(stream, "%s%c%s %s", i ? ", " : "", parts[i].seconds < 0 ? '-' : '+',
                text_of_seconds(fabs(parts[i].seconds)).text, parts[i].name);
}

static void write_why(const struct advice *advice, FILE *stream)
{
    size_t second = advice_runner_up(advice);
    if (second == 0)
        return;
    const struct advice_times *best = advice_times_of(advice, advice->tried[0]);
    const struct advice_times *other = advice_times_of(advice, advice->tried[second]);
    char *name = advice_name(&advice->space, advice->tried[second]);
    fprintf(stream, "\nrunner-up %s\n", name);
    fprintf(stream, "          takes %s longer (%+.1f%%): ", text_of_seconds(other->seconds - best->seconds).text,
            100 * (other->seconds / best->seconds - 1));
    write_parts(best, other, stream);
    fputc('\n', stream);
    if (advice_is_unsure(best, other))
        fputs("          their intervals overlap: which of them is faster is not sure; what is told apart is what the "
              "model knows of both\n",
              stream);
    else if (best->high > best->low)
        fputs("          even at the ends of their intervals it is slower\n", stream);
    free(name);
}

static void write_command(const struct advice *advice, FILE *stream)
{
    char *command = advice_command(&advice->space, &advice->question, advice->best[0]);
    fprintf(stream, "\nto see it %s\n", command);
    free(command);
}

/* ---- nothing fits ---- */

static void write_nearest(const struct advice *advice, FILE *stream)
{
    fprintf(stream, "none of the candidates fits. Those that need least:\n");
    for (size_t i = 0; i < advice->n_nearest; i++) {
        const struct advice_answer *answer = answer_of(advice, advice->nearest[i]);
        char *name = advice_name(&advice->space, advice->nearest[i]);
        double over = needed_bytes(answer) - answer->device_bytes;
        fprintf(stream, "  %s: needs %s of %s, %s too much\n", name, text_of_memory(needed_bytes(answer)).text,
                text_of_memory(answer->device_bytes).text, text_of_memory(over).text);
        free(name);
    }
    if (advice->longest)
        fprintf(stream, "\nthe first of them has room for sequences of %s tokens\n",
                text_of_count(advice->longest).text);
    fputs(
        "\nmore GPUs (with the same sequences: a larger cp or tp), fewer sequences a step, or a smaller dtype of what "
        "is kept may help\n",
        stream);
}

/* ---- what was looked at ---- */

static void write_refusals(const struct advice *advice, FILE *stream)
{
    enum { SHOWN = 8, LINES_MAX = 64 };
    const char *lines[LINES_MAX];
    size_t counts[LINES_MAX], n = 0;
    for (size_t i = 0; i < advice->space.n_candidates; i++) {
        const char *line = answer_of(advice, i)->line;
        size_t k = 0;
        while (line && k < n && strcmp(lines[k], line) != 0)
            k++;
        if (!line || k == LINES_MAX)
            continue;
        if (k == n) {
            lines[n] = line;
            counts[n++] = 0;
        }
        counts[k]++;
    }
    for (size_t k = 0; k < n && k < SHOWN; k++)
        fprintf(stream, "          %zu refused: %s\n", counts[k], lines[k]);
    if (n > SHOWN)
        fprintf(stream, "          and for %zu other reasons\n", n - SHOWN);
}

static void write_counts(const struct advice *advice, bool details, FILE *stream)
{
    const struct advice_space *space = &advice->space;
    fprintf(stream, "\nlooked at %s candidates: ", text_of_count(space->n_candidates).text);
    fprintf(stream, "%s refused, %s do not fit, ", text_of_count(advice->n_refused).text,
            text_of_count(advice->n_no_room).text);
    if (advice->n_failed)
        fprintf(stream, "%s failed, ", text_of_count(advice->n_failed).text);
    fprintf(stream, "%s were timed and %s of them simulated", text_of_count(advice->n_screened).text,
            text_of_count(advice->n_tried).text);
    if (advice->n_skipped)
        fprintf(stream, "; %s cannot be among the best by what was seen of others%s",
                text_of_count(advice->n_skipped).text, advice->signal ? ", or nobody got to them" : "");
    fputc('\n', stream);
    if (space->n_undivided)
        fprintf(stream, "          %zu layout%s a dp that does not divide the %" PRIu64 " sequences of a step\n",
                space->n_undivided, space->n_undivided == 1 ? " has" : "s have", space->sequences);
    if (advice->trials_ran_out)
        fputs("          more candidates than were simulated may be as good: --fix or --vary fewer keys\n", stream);
    if (details)
        write_refusals(advice, stream);
}

bool advice_table_write(const struct advice *advice, bool details, FILE *stream)
{
    write_head(advice, stream);
    if (advice->n_best) {
        write_best(advice, stream);
        write_why(advice, stream);
    } else {
        write_nearest(advice, stream);
    }
    write_counts(advice, details, stream);
    if (advice->n_best)
        write_command(advice, stream);
    return !ferror(stream);
}
