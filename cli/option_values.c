/* option_values.c - see option_values.h. */
#include "cli/option_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport.h"
#include "models/base/memory.h"
#include "models/input/key_table.h"
#include "models/input/units.h"

void option_take_text(struct option_state *state, const char **target, const char *name, const char *value)
{
    if (*target)
        diagnostics_add(state->diag, "--%s is given twice", name);
    if (*value == '\0')
        diagnostics_add(state->diag, "--%s has an empty argument, expected a file or '-'", name);
    *target = value;
}

static void note_once(struct option_state *state, bool *given, const char *name)
{
    if (*given)
        diagnostics_add(state->diag, "--%s is given twice", name);
    *given = true;
}

uint64_t option_take_number(struct option_state *state, const char *name, bool *given, const char *text, uint64_t least,
                            uint64_t most)
{
    note_once(state, given, name);
    uint64_t number;
    if (units_parse_count(text, &number) && number >= least && number <= most)
        return number;
    diagnostics_add(state->diag, "--%s '%s', expected a whole number from %" PRIu64 " to %" PRIu64, name, text, least,
                    most);
    return least;
}

void option_take_engine(struct option_state *state, const char *text)
{
    note_once(state, &state->given.engine, "engine");
    const struct engine_ops *engine = engine_find(text);
    if (engine)
        state->options->engine = engine;
    else
        diagnostics_add(state->diag, "no engine '%s' (see cpsim --list engines)", text);
}

void option_take_without(struct option_state *state, const char *text)
{
    enum mechanism mechanism;
    state->given.without = true;
    if (mechanism_find(text, &mechanism)) {
        if (!mechanism_counts(state->options->without, mechanism))
            diagnostics_add(state->diag, "--without %s is given twice", text);
        state->options->without |= (mechanism_set)1 << mechanism;
        return;
    }
    const char *names[MECHANISM_COUNT + 1] = {NULL};
    for (int m = 0; m < MECHANISM_COUNT; m++)
        names[m] = mechanism_name((enum mechanism)m);
    char *hint = key_table_suggestion(text, names);
    diagnostics_add(state->diag, "no mechanism '%s'%s (see cpsim --list mechanisms)", text, hint);
    free(hint);
}

void option_take_compute(struct option_state *state, const char *text)
{
    note_once(state, &state->given.compute, "compute");
    const struct compute_ops *compute = compute_find(text);
    if (compute)
        state->options->hardware.compute = compute;
    else
        diagnostics_add(state->diag, "no compute backend '%s'%s (see cpsim --list computes)", text,
                        strcmp(text, "cuda") == 0 ? " in this build, which was made without CUDA" : "");
}

void option_take_collectives(struct option_state *state, const char *text)
{
    bool given = state->options->hardware.collectives != COLLECTIVES_DEFAULT;
    note_once(state, &given, "collectives");
    if (strcmp(text, "library") == 0)
        state->options->hardware.collectives = COLLECTIVES_LIBRARY;
    else if (strcmp(text, "messages") == 0)
        state->options->hardware.collectives = COLLECTIVES_MESSAGES;
    else
        diagnostics_add(state->diag, "--collectives '%s', expected library or messages", text);
}

void option_take_transport(struct option_state *state, const char *text)
{
    bool given = state->options->hardware.transport;
    note_once(state, &given, "transport");
    state->options->hardware.transport = text;
    if (!transport_find(text))
        diagnostics_add(state->diag, "no transport '%s' in this build (see cpsim --list transports)", text);
}

void option_take_points(struct option_state *state, const char *text)
{
    note_once(state, &state->given.points, "points");
    state->options->summary_points = strcmp(text, "summary") == 0;
    if (!state->options->summary_points && strcmp(text, "full") != 0)
        diagnostics_add(state->diag, "--points '%s', expected full or summary", text);
}

void option_take_kernels(struct option_state *state, const char *text)
{
    bool given = state->options->hardware.kernels.kernels;
    note_once(state, &given, "kernels");
    state->options->hardware.kernels.kernels = text;
}

void option_take_plot(struct option_state *state, const char *text)
{
    struct options *options = state->options;
    struct plot_target target;
    if (!plot_target_parse(text, &target, state->diag))
        return;
    memory_grow(options->plots, options->n_plots, options->plot_capacity);
    options->plots[options->n_plots++] = target;
}

void option_take_path(struct option_state *state, const char *text)
{
    struct options *options = state->options;
    struct gpu_pair pair;
    state->given.path = true;
    if (!gpu_pair_parse(text, &pair, state->diag))
        return;
    memory_grow(options->paths, options->n_paths, options->path_capacity);
    options->paths[options->n_paths++] = pair;
}
