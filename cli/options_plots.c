/* options_plots.c - see options_plots.h. */
#include "cli/options_plots.h"

void options_judge_plots(struct options *options, struct diagnostics *diag)
{
    bool algorithms = options->mode == COMMAND_ALGORITHMS, sweep = options->mode == COMMAND_SWEEP || algorithms;
    bool sensitivity = options->mode == COMMAND_SENSITIVITY, explain = options->mode == COMMAND_EXPLAIN;
    bool compare = options->mode == COMMAND_COMPARE, validate = options->mode == COMMAND_VALIDATE;
    bool check = options->mode == COMMAND_CHECK, advise = options->mode == COMMAND_ADVISE;
    for (size_t i = 0; i < options->n_plots; i++) {
        struct plot_target *target = &options->plots[i];
        if (!target->kind_given)
            target->kind = algorithms            ? PLOT_ALGORITHMS
                           : sweep               ? PLOT_SCALING
                           : sensitivity         ? PLOT_TORNADO
                           : explain             ? PLOT_PATH
                           : advise              ? PLOT_PARETO
                           : compare || validate ? PLOT_SCATTER
                           : check               ? PLOT_TOPOLOGY
                                                 : PLOT_TIMELINE;
        bool compares = target->kind == PLOT_SCATTER || target->kind == PLOT_PHASES || target->kind == PLOT_TIMELINES;
        if (sensitivity && target->kind != PLOT_TORNADO)
            diagnostics_add(diag, "a sensitivity has no %s plot, expected tornado", plot_kind_name(target->kind));
        else if (target->kind == PLOT_TORNADO && !sensitivity)
            diagnostics_add(diag, "a tornado plot needs --sensitivity");
        else if (explain && target->kind != PLOT_PATH)
            diagnostics_add(diag, "an explanation has no %s plot, expected path", plot_kind_name(target->kind));
        else if (target->kind == PLOT_PATH && !explain)
            diagnostics_add(diag, "a path plot needs --explain");
        else if (advise && target->kind != PLOT_PARETO)
            diagnostics_add(diag, "an advice has no %s plot, expected pareto", plot_kind_name(target->kind));
        else if (target->kind == PLOT_PARETO && !advise)
            diagnostics_add(diag, "a pareto plot needs --advise");
        else if (compare && !compares)
            diagnostics_add(diag, "a comparison has no %s plot, expected scatter, phases or timelines",
                            plot_kind_name(target->kind));
        else if (validate && target->kind != PLOT_SCATTER)
            diagnostics_add(diag, "a validation has no %s plot, expected scatter", plot_kind_name(target->kind));
        else if (check && target->kind != PLOT_TOPOLOGY)
            diagnostics_add(diag, "a check has no %s plot, expected topology", plot_kind_name(target->kind));
        else if (!compare && !validate && compares && !sweep)
            diagnostics_add(diag, "a %s plot needs --compare", plot_kind_name(target->kind));
        else if (target->kind == PLOT_ALGORITHMS && !algorithms)
            diagnostics_add(diag, "an algorithms plot needs --compare-algorithms");
        else if (algorithms && target->kind != PLOT_ALGORITHMS && target->kind != PLOT_SCALING)
            diagnostics_add(diag, "a comparison of algorithms has no %s plot, expected algorithms or scaling",
                            plot_kind_name(target->kind));
        else if (sweep && target->kind != PLOT_SCALING && target->kind != PLOT_ALGORITHMS)
            diagnostics_add(diag, "a sweep has no %s plot, expected scaling", plot_kind_name(target->kind));
        else if (!sweep && !compare && !validate && target->kind == PLOT_SCALING)
            diagnostics_add(diag, "a scaling plot needs --sweep");
        else if (!check && !sweep && !compare && !validate && target->kind == PLOT_TOPOLOGY)
            diagnostics_add(diag, "a topology plot needs --check");
    }
    if (options->script && !options->n_plots)
        diagnostics_add(diag, "--script needs --plot, which says what the script draws");
}
