/* Implementations: the files that are shipped, what is refused, and that an experiment's own keys come first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/experiment.h"

static char *file_of(const char *text)
{
    char *path = memory_text("/tmp/cpsim-test-XXXXXX.ini");
    int fd = mkstemps(path, 4);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void every_shipped_one_is_read_and_bears_its_files_name(void **state)
{
    (void)state;
    char **names = data_path_list("implementations");
    size_t n = 0;
    for (; names[n]; n++) {
        struct implementation implementation;
        struct diagnostics diag;
        diagnostics_init(&diag);
        bool good = implementation_read(&implementation, names[n], &diag);
        diagnostics_print(&diag, stderr, "  ");
        assert_true(good);
        assert_string_equal(implementation.name, names[n]);
        diagnostics_fini(&diag);
        free(names[n]);
    }
    assert_true(n >= 8);
    free(names);
}

/* What predictions stand on unless another one is named: a struct of zeroes but for the name. */
static void cpsim_leaves_everything_as_it_is(void **state)
{
    (void)state;
    struct implementation implementation, nothing = {.name = "cpsim"};
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(implementation_read(&implementation, "cpsim", &diag));
    assert_memory_equal(&implementation, &nothing, sizeof nothing);
    diagnostics_fini(&diag);
}

/* The merge of ring-flash-attention as its utils.py has it: fp32 out read and written, the bf16 block's read. */
static void passes_are_read_as_written(void **state)
{
    (void)state;
    struct implementation implementation;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(implementation_read(&implementation, "ring-flash-attention", &diag));
    const struct passes merge = implementation.steps[IMPLEMENTATION_MERGE];
    assert_true(merge.given && merge.kernels == 1 && merge.bytes_per_element == 10 && merge.bytes_per_row == 12);
    const struct passes delta = implementation.steps[IMPLEMENTATION_DELTA];
    assert_true(delta.given && delta.kernels == 0 && delta.bytes_per_element == 0);
    assert_false(implementation.steps[IMPLEMENTATION_LAYOUT].given);
    assert_true(implementation.split_kv && !implementation.gradients_model && !implementation.synchronizes);
    assert_int_equal(implementation.communicator, COMMUNICATOR_GROUP);
    assert_false(implementation.one_stream);
    assert_true(implementation_read(&implementation, "magiattention-baselines", &diag));
    assert_true(implementation.one_stream);
    assert_int_equal(implementation.communicator, COMMUNICATOR_PAIR);
    diagnostics_fini(&diag);
}

static void bad_files_say_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[steps]\nmerge = 1 kernels\nsource = x\n", "expected KERNELS kernels, BYTES B/element, BYTES B/row"},
        {"[steps]\nmerge = 1 kernels, 10 B/element, 12 B/row, 3\nsource = x\n", "'merge'"},
        {"[steps]\nmerge = -1 kernels, 10 B/element, 12 B/row\nsource = x\n", "'merge'"},
        {"[steps]\nmerge = none\n", "'source'"},
        {"[host]\nattention = 5\nsource = x\n", "'attention' is '5', expected a time"},
        {"[host]\ncollective = 114\nsource = x\n", "'collective' is '114', expected a time"},
        {"[host]\nkernel = 8 us\nspread = -1\nsource = x\n", "'spread' is '-1', expected 0 to 10"},
        {"[host]\nspread = 0.5\nsource = x\n", "'spread' has no effect without a time that the host takes"},
        {"packs_qkv = maybe\n", "'packs_qkv' is 'maybe', expected no or yes"},
        {"[steps]\nmegre = none\nsource = x\n", "did you mean 'merge'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = memory_format("[implementation]\nname = test\nsource = here\n%s", cases[i].text);
        char *path = file_of(text);
        struct implementation implementation;
        struct diagnostics diag;
        diagnostics_init(&diag);
        assert_false(implementation_read(&implementation, path, &diag));
        if (diag.count == 0 || !strstr(diag.lines[0], cases[i].message))
            fail_msg("'%s' said '%s'", cases[i].text, diag.count ? diag.lines[0] : "nothing");
        diagnostics_fini(&diag);
        unlink(path);
        free(path);
        free(text);
    }
}

static const char base[] = "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\n[workload]\nseq_len = 8192\n"
                           "[parallel]\ncp = 2\n[schedule]\nalgorithm = ring\n";

static bool read_experiment(struct experiment *experiment, const char *schedule, struct diagnostics *diag)
{
    char *text = memory_format("%s%s", base, schedule), *path = file_of(text);
    diagnostics_init(diag);
    bool good = experiment_read(experiment, path, NULL, 0, diag);
    unlink(path);
    free(path);
    free(text);
    return good;
}

static void its_choices_hold_where_the_experiment_makes_none(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        bool split_kv, accumulator;
    } cases[] = {
        {"", false, true},
        {"implementation = ring-flash-attention\n", true, true},
        {"implementation = transformer-engine\n", false, false},
        {"implementation = ring-flash-attention\nkv_messages = 1\n", false, true},
        {"implementation = transformer-engine\ngradients = fp32\nkv_messages = 2\n", true, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct experiment experiment;
        struct diagnostics diag;
        assert_true(read_experiment(&experiment, cases[i].schedule, &diag));
        assert_int_equal(experiment.split_kv, cases[i].split_kv);
        assert_int_equal(experiment.gradient_accumulator, cases[i].accumulator);
        experiment_fini(&experiment);
        diagnostics_fini(&diag);
    }
}

static void an_unknown_one_is_named_where_it_was_written(void **state)
{
    (void)state;
    struct experiment experiment;
    struct diagnostics diag;
    assert_false(read_experiment(&experiment, "implementation = yunchan\n", &diag));
    assert_int_equal(diag.count, 1);
    assert_non_null(strstr(diag.lines[0], ":11: unknown implementation 'yunchan', did you mean 'yunchang'?"));
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shipped_one_is_read_and_bears_its_files_name),
        cmocka_unit_test(cpsim_leaves_everything_as_it_is),
        cmocka_unit_test(passes_are_read_as_written),
        cmocka_unit_test(bad_files_say_what_was_expected),
        cmocka_unit_test(its_choices_hold_where_the_experiment_makes_none),
        cmocka_unit_test(an_unknown_one_is_named_where_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
