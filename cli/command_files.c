/* command_files.c - commands about files that are there: check them, list what is shipped, lay results side by side,
 * hold predictions against published measurements.
 */
#include <stdio.h>

#include "cli/algorithms.h"
#include "cli/check.h"
#include "cli/command.h"
#include "cli/compare_operations.h"
#include "cli/list.h"
#include "cli/outputs.h"
#include "cli/result_places.h"
#include "cli/validation.h"

int command_check(const struct options *options, struct diagnostics *diag)
{
    const struct check_request request = {
        .files = options->files.items,
        .n_files = options->files.count,
        .overrides = options->overrides.items,
        .n_overrides = options->overrides.count,
        .pairs = options->paths,
        .n_pairs = options->n_paths,
        .one_topology = options->n_paths || options->json || options->n_plots,
        .stream = options->table ? stdout : NULL,
    };
    struct check_result result;
    int exit_status = exit_status_of(check_files(&request, &result, diag));
    if (exit_status == EXIT_DONE && !outputs_write_check(options, &result, diag))
        exit_status = EXIT_FAILED;
    check_result_fini(&result);
    return exit_status;
}

int command_list(const struct options *options, struct diagnostics *diag)
{
    if (options->files.count) {
        struct question question = question_of(options);
        return algorithms_list(&question, stdout, diag) ? EXIT_DONE : EXIT_BAD_INPUT;
    }
    return list_print(options->list, stdout, diag) ? EXIT_DONE : EXIT_FAILED;
}

static bool draws_timelines(const struct options *options)
{
    for (size_t i = 0; i < options->n_plots; i++)
        if (options->plots[i].kind == PLOT_TIMELINES)
            return true;
    return false;
}

int command_compare(const struct options *options, struct diagnostics *diag)
{
    struct diagnostics notes;
    diagnostics_init(&notes);
    struct comparison comparison;
    int exit_status = EXIT_BAD_INPUT;
    bool fine = comparison_init(&comparison, options->files.items, options->files.count, &notes, diag);
    diagnostics_print(&notes, stderr, "cpsim: note: ");
    diagnostics_fini(&notes);
    if (fine && (!draws_timelines(options) || compare_check_timelines(&comparison, diag)))
        exit_status = outputs_write_comparison(options, &comparison, diag) ? EXIT_DONE : EXIT_FAILED;
    comparison_fini(&comparison);
    return exit_status;
}

/* What sets are made of must not be written over either. */
static bool spare_sets(const struct options *options, const struct validation_sets *sets, struct diagnostics *diag)
{
    bool fine = true;
    for (size_t i = 0; i < sets->count; i++) {
        fine &= result_places_spare(options, sets->sets[i].path, diag);
        fine &= result_places_spare(options, sets->sets[i].rows_path, diag);
    }
    if (sets->bounds_path)
        fine &= result_places_spare(options, sets->bounds_path, diag);
    return fine;
}

static int run_validation(struct validation *validation, const struct options *options, struct diagnostics *diag)
{
    struct progress progress;
    progress_init(&progress, stderr, "validating");
    progress_count(&progress, "rows", validation->sets.n_rows);
    enum validation_status status =
        validation_run(validation, options->jobs, progress.stream ? progress_show : NULL, &progress, diag);
    progress_clear(&progress);
    bool fine = status == VALIDATION_DONE;
    if (status != VALIDATION_BAD_INPUT && validation->n_left < validation->sets.n_rows) {
        fine &= outputs_write_validation(options, validation, diag);
        fine &= validation_check_bounds(validation, diag);
    }
    if (validation->signal)
        return EXIT_SIGNAL + validation->signal;
    return status == VALIDATION_BAD_INPUT ? EXIT_BAD_INPUT : fine ? EXIT_DONE : EXIT_FAILED;
}

int command_validate(const struct options *options, struct diagnostics *diag)
{
    const struct row_settings settings = {.engine = options->engine, .without = options->without};
    struct validation validation;
    int exit_status = EXIT_BAD_INPUT;
    if (validation_init(&validation, options->files.items[0], &settings, diag) &&
        spare_sets(options, &validation.sets, diag))
        exit_status = run_validation(&validation, options, diag);
    validation_fini(&validation);
    return exit_status;
}
