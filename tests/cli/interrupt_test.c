/* Interrupts: what was computed is shown and written and says that it is not all, the exit status says why, and nobody
 * is left behind.
 *
 * Signals are sent from the progress callback, so that what has come by then does not hang on the machine's speed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <jansson.h>
#include <math.h>
#include <signal.h>

#include "cli/outputs.h"
#include "cli/sweep_run.h"
#include "cli/writers.h"
#include "tests/cli/expect.h"
#include "tests/predict.h"

/* Sends the signal once so much is done. */
struct interrupt {
    int signal;
    double share;
    bool sent;
};

static void interrupt_at(void *context, double share)
{
    struct interrupt *interrupt = context;
    if (interrupt->sent || share < interrupt->share - 1e-9)
        return;
    interrupt->sent = true;
    kill(getpid(), interrupt->signal);
}

static void expect_no_children(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void expect_line(const struct diagnostics *diag, const char *part)
{
    for (size_t i = 0; i < diag->count; i++)
        if (strstr(diag->lines[i], part))
            return;
    fail_msg("nobody said '%s', but '%s'", part, diag->count ? diag->lines[0] : "nothing");
}

/* A text that a writer leaves in memory. */
struct text {
    char *bytes;
    size_t size;
};

static FILE *text_open(struct text *text)
{
    *text = (struct text){NULL, 0};
    FILE *stream = open_memstream(&text->bytes, &text->size);
    assert_non_null(stream);
    return stream;
}

static void expect_in(struct text *text, FILE *stream, const char *part)
{
    fclose(stream);
    if (!strstr(text->bytes, part))
        fail_msg("no '%s' in: %s", part, text->bytes);
    free(text->bytes);
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* ---- a validation ---- */

static const char set_text[] =
    "[published]\ntitle = made up\ntopology = toy-2\nrows = %s\nsource = made up\nmedian_bound = 0.001\n"
    "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n"
    "[workload]\nseq_len = 65536\nmask = full\npass = forward\n[parallel]\ncp = 2\n"
    "[schedule]\nalgorithm = all-gather\noverlap = no\n";

static char *write_text(const char *name, const char *text)
{
    char *path = memory_format("%s/%s", test_folder(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static char *write_set(void)
{
    free(write_text("rows.csv", "# made up\nmetric,value\nstep_seconds,1\nstep_seconds,2\nstep_seconds,3\n"
                                "step_seconds,4\nstep_seconds,5\n"));
    char *text = memory_format(set_text, "rows.csv"), *path = write_text("set.ini", text);
    free(text);
    return path;
}

static void validate(struct validation *validation, const char *path, struct interrupt *interrupt,
                     enum validation_status expected, struct diagnostics *diag)
{
    const struct row_settings settings = {.engine = engine_find("analytic")};
    if (!validation_init(validation, path, &settings, diag))
        fail_msg("%s", diag->lines[0]);
    assert_int_equal(validation_run(validation, 1, interrupt_at, interrupt, diag), expected);
    expect_no_children();
}

/* A drawing cannot say that it is of a part. */
static void expect_no_plot(const struct validation *validation, struct diagnostics *diag)
{
    char *path = memory_format("%s/part.png", test_folder());
    struct plot_target target = {.kind = PLOT_SCATTER, .path = path};
    const struct options options = {.plots = &target, .n_plots = 1};
    assert_true(outputs_write_validation(&options, validation, diag));
    expect_line(diag, "no plot is drawn of an incomplete result");
    assert_false(made_file_exists("part.png"));
    free(path);
}

static void a_validation_keeps_the_rows_that_are_done(void **state)
{
    (void)state;
    char *path = write_set();
    for (size_t done = 1; done < 5; done++) {
        struct diagnostics diag;
        diagnostics_init(&diag);
        struct interrupt interrupt = {done % 2 ? SIGINT : SIGTERM, (double)done / 5, false};
        struct validation validation;
        validate(&validation, path, &interrupt, VALIDATION_STOPPED, &diag);
        assert_int_equal(validation.signal, interrupt.signal);
        assert_int_equal(validation.n_left, 5 - done);
        char *line = memory_format("after %zu of 5 rows", done);
        expect_line(&diag, line);
        free(line);

        json_t *json = validation_to_json(&validation), *set = json_array_get(json_object_get(json, "sets"), 0);
        assert_true(json_is_false(json_object_get(json, "complete")));
        assert_int_equal(json_integer_value(json_object_get(json_object_get(set, "summary"), "n_left")), 5 - done);
        for (size_t i = 0; i < 5; i++) {
            const json_t *row = json_array_get(json_object_get(set, "rows"), i);
            assert_true(json_is_true(json_object_get(row, "done")) == (i < done));
            assert_true(json_is_true(json_object_get(row, "left")) == (i >= done));
        }
        const json_t *bound = json_object_get(json_object_get(set, "bounds"), "median_error");
        assert_non_null(bound);
        assert_true(json_is_null(json_object_get(bound, "kept"))); /* half of the rows break no bound */
        assert_true(validation_check_bounds(&validation, &diag));
        json_decref(json);

        struct text text;
        FILE *stream = text_open(&text);
        assert_true(validation_table_write(&validation, false, stream));
        line = memory_format("Incomplete: %zu of 5 rows were not reached", 5 - done);
        expect_in(&text, stream, line);
        free(line);
        expect_no_plot(&validation, &diag);
        validation_fini(&validation);
        diagnostics_fini(&diag);
    }
    free(path);
}

/* Everything is there, and is shown before the process ends as the signal wants. */
static void an_interrupt_behind_the_last_row_loses_none(void **state)
{
    (void)state;
    char *path = write_set();
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct interrupt interrupt = {SIGTERM, 1, false};
    struct validation validation;
    validate(&validation, path, &interrupt, VALIDATION_STOPPED, &diag);
    assert_int_equal(validation.signal, SIGTERM);
    assert_int_equal(validation.n_left, 0);
    assert_int_equal(validation.summaries[0].n_rows, 5);
    validation_fini(&validation);
    diagnostics_fini(&diag);
    free(path);
}

static void a_validation_that_is_not_interrupted_is_complete(void **state)
{
    (void)state;
    char *path = write_set();
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct interrupt never = {SIGINT, 2, false};
    struct validation validation;
    validate(&validation, path, &never, VALIDATION_DONE, &diag);
    json_t *json = validation_to_json(&validation);
    assert_null(json_object_get(json, "complete"));
    assert_false(validation_check_bounds(&validation, &diag));
    json_decref(json);
    validation_fini(&validation);
    diagnostics_fini(&diag);
    free(path);
}

/* ---- a sensitivity ---- */

static void ask_toy(struct question *question, char **topology_path, char **experiment_path)
{
    const struct toy toy = {8, 8, 64, 4096, "full", "forward", 4, "algorithm = ring\nsharding = contiguous"};
    char *topology = toy_cluster(4, "100 GB/s", "1 us"), *experiment = toy_experiment(&toy);
    *topology_path = temporary_file(topology);
    *experiment_path = temporary_file(experiment);
    free(topology);
    free(experiment);
    *question = (struct question){.topology_path = *topology_path,
                                  .experiment_path = *experiment_path,
                                  .engine = engine_find("analytic"),
                                  .progress = interrupt_at};
}

/* Stops after `n_runs`, of which three are not about one constant. */
static void stop_sensitivity(size_t n_runs, struct sensitivity *sensitivity, enum prediction_status expected,
                             struct diagnostics *diag)
{
    char *topology, *experiment;
    struct question question;
    ask_toy(&question, &topology, &experiment);
    struct interrupt never = {SIGINT, 2, false};
    struct sensitivity whole;
    question.progress_context = &never;
    assert_int_equal(sensitivity_run(&whole, &question, 1, diag), PREDICTION_DONE);
    assert_int_equal(whole.n_left, 0);
    struct interrupt interrupt = {SIGTERM, (double)n_runs / (double)(3 + 2 * whole.n_rows), false};
    question.progress_context = &interrupt;
    assert_int_equal(sensitivity_run(sensitivity, &question, 1, diag), expected);
    assert_int_equal(sensitivity->signal, SIGTERM);
    expect_no_children();
    for (size_t i = 0; i < sensitivity->n_rows; i++) { /* what is there is as it would have been */
        const struct sensitivity_row *row = &sensitivity->rows[i], *other = whole.rows;
        while (strcmp(other->constant->name, row->constant->name) != 0)
            other++;
        assert_true(row->left || row->elasticity.both == other->elasticity.both);
    }
    sensitivity_fini(&whole);
    unlink(topology);
    unlink(experiment);
    free(topology);
    free(experiment);
}

static void a_sensitivity_keeps_the_constants_that_are_done(void **state)
{
    (void)state;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct sensitivity sensitivity;
    stop_sensitivity(3 + 2 * 2 + 1, &sensitivity, PREDICTION_DONE, &diag);
    assert_int_equal(sensitivity.n_rows - sensitivity.n_left, 2);
    expect_line(&diag, "stopped by signal 15 (Terminated) after 8 of ");
    json_t *json = sensitivity_to_json(&sensitivity);
    assert_true(json_is_false(json_object_get(json, "complete")));
    assert_true(json_is_null(json_object_get(json, "sum")));
    assert_true(json_is_real(json_object_get(json, "all_at_once")));
    size_t left = 0, i;
    json_t *row;
    json_array_foreach(json_object_get(json, "constants"), i, row)
    {
        bool is_left = json_is_true(json_object_get(row, "left"));
        left += is_left;
        assert_true(is_left == !json_object_get(row, "elasticity"));
    }
    assert_int_equal(left, sensitivity.n_left);
    json_decref(json);
    struct text text;
    FILE *stream = text_open(&text);
    assert_true(sensitivity_table_write(&sensitivity, stream));
    char *line = memory_format("incomplete: %zu of %zu constants were not reached", left, sensitivity.n_rows);
    expect_in(&text, stream, line);
    free(line);
    stream = text_open(&text);
    assert_true(sensitivity_csv_write(&sensitivity, stream));
    fflush(stream);
    assert_int_equal(count_lines(text.bytes), 1 + sensitivity.n_rows);
    expect_in(&text, stream, ",,,,,,,\n");
    sensitivity_fini(&sensitivity);
    diagnostics_fini(&diag);
}

/* The step is known, and no slope. */
static void a_sensitivity_of_its_first_run_alone_names_what_is_left(void **state)
{
    (void)state;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct sensitivity sensitivity;
    stop_sensitivity(0, &sensitivity, PREDICTION_DONE, &diag); /* the first callback comes with the first run */
    assert_int_equal(sensitivity.n_left, sensitivity.n_rows);
    assert_true(isnan(sensitivity.all.both));
    struct text text;
    FILE *stream = text_open(&text);
    assert_true(sensitivity_table_write(&sensitivity, stream));
    expect_in(&text, stream, "not reached: ");
    sensitivity_fini(&sensitivity);
    diagnostics_fini(&diag);
}

/* ---- a sweep ---- */

static void a_sweep_shows_the_points_that_are_done(void **state)
{
    (void)state;
    char *topology, *experiment, *json_path = memory_format("%s/sweep.json", test_folder());
    struct question question;
    ask_toy(&question, &topology, &experiment);
    question.engine = engine_find("simgrid"); /* a process a point: none is done ahead */
    struct interrupt interrupt = {SIGINT, 3.0 / 6, false};
    question.progress_context = &interrupt;
    static const char *const texts[] = {"workload.batch=1,2,3,4,5,6"};
    struct diagnostics notes, diag;
    diagnostics_init(&notes);
    diagnostics_init(&diag);
    struct sweep sweep;
    assert_true(sweep_init(&sweep, texts, 1, &question, &diag));
    const struct sweep_settings settings = {.jobs = 1, .json = json_path, .kept = true};
    struct sweep_result result;
    sweep_run(&sweep, &question, &settings, &result, &notes, &diag);
    expect_no_children();
    assert_int_equal(result.signal, SIGINT);
    assert_int_equal(result.done, 3);
    expect_line(&diag, "after 3 of 6 points");
    struct text text;
    FILE *stream = text_open(&text);
    assert_true(sweep_table_write(result.json, stream));
    expect_in(&text, stream, "incomplete: stopped before all points were predicted");
    json_t *file = json_load_file(json_path, 0, NULL);
    assert_true(json_is_false(json_object_get(file, "complete")));
    assert_int_equal(json_array_size(json_object_get(file, "points")), 3);
    assert_int_equal(json_array_size(json_object_get(result.json, "points")), 3);
    json_decref(file);
    sweep_result_fini(&result);
    sweep_fini(&sweep);
    diagnostics_fini(&notes);
    diagnostics_fini(&diag);
    unlink(topology);
    unlink(experiment);
    free(topology);
    free(experiment);
    free(json_path);
}

/* ---- the command ---- */

/* Waits for the first child of the command, interrupts it, and waits for its end and for that child's. */
#define INTERRUPT(signal)                                                                                              \
    " & P=$!; while kill -0 $P; do C=$(cat /proc/$P/task/$P/children); [ -n \"$C\" ] && break; done; "                 \
    "kill -" signal " $P; wait $P; S=$?; for c in $C; do kill -0 $c && exit 99; done; exit $S"

/* Each would take minutes. */
#define LONG "gb200-nvl72 llama3-8b-1m --set parallel.cp=64 --set workload.seq_len=8Mi --set schedule.kv_block=16Ki"

static void the_command_ends_with_the_signals_status_and_no_children(void **state)
{
    (void)state;
    char *path = write_set();
    free(path);
    expect("$CPSIM " LONG " --sensitivity -j1" INTERRUPT("INT"), 130, NULL,
           "stopped by signal 2 (Interrupt) after 0 of ");
    expect("$CPSIM " LONG " --compare-algorithms -j1 --json $DIR/none.json" INTERRUPT("TERM"), 143, NULL,
           "stopped by signal 15 (Terminated) after ");
    expect("cd $DIR && for i in $(seq 2000); do echo step_seconds,$i; done >>rows.csv; "
           "$CPSIM --validate set.ini -j1 --json $DIR/v.json --quiet" INTERRUPT("INT"),
           130, NULL, "stopped by signal 2 (Interrupt) after ");
}

/* Nothing is computed yet, so nothing is kept: neither a file nor a part of one. */
static void a_single_run_leaves_nothing(void **state)
{
    (void)state;
    struct outcome outcome =
        shell("mkdir $DIR/single; cd $DIR/single; $CPSIM " LONG " --no-fold --json x.json --csv x.csv & P=$!; "
              "until grep -q VmRSS /proc/$P/status; do :; done; kill -TERM $P; wait $P; S=$?; ls -A; exit $S");
    assert_int_equal(outcome.status, 143);
    assert_string_equal(outcome.out, "");
    outcome_fini(&outcome);
}

static int remove_folder(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_validation_keeps_the_rows_that_are_done),
        cmocka_unit_test(an_interrupt_behind_the_last_row_loses_none),
        cmocka_unit_test(a_validation_that_is_not_interrupted_is_complete),
        cmocka_unit_test(a_sensitivity_keeps_the_constants_that_are_done),
        cmocka_unit_test(a_sensitivity_of_its_first_run_alone_names_what_is_left),
        cmocka_unit_test(a_sweep_shows_the_points_that_are_done),
        cmocka_unit_test(the_command_ends_with_the_signals_status_and_no_children),
        cmocka_unit_test(a_single_run_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
