/* The command line: what is accepted, what is bad usage, and where each goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/expect.h"

static void help_and_version_go_to_standard_output(void **state)
{
    (void)state;
    static const char *const ways[] = {"--help", "-h", "-?"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *text = memory_format("$CPSIM %s", ways[i]);
        struct outcome outcome = shell(text);
        assert_int_equal(outcome.status, 0);
        assert_string_equal(outcome.err, "");
        assert_non_null(strstr(outcome.out, "Usage: cpsim [OPTION...] TOPOLOGY.ini EXPERIMENT.ini"));
        assert_non_null(strstr(outcome.out, "--sweep"));
        assert_non_null(strstr(outcome.out, "Examples:"));
        assert_non_null(strstr(outcome.out, "[schedule] algorithm sharding"));
        outcome_fini(&outcome);
        free(text);
    }
    struct outcome version = shell("$CPSIM --version");
    assert_int_equal(version.status, 0);
    assert_memory_equal(version.out, "cpsim ", 6);
    outcome_fini(&version);
}

static void help_offers_nothing_that_does_not_exist(void **state)
{
    (void)state;
    expect_misuse("--frobnicate x.ini", "unrecognized option");
    expect_misuse("--verify experiments", "unrecognized option");
    expect_misuse("--sweep", "requires an argument");
}

static void wrong_number_of_files_is_misuse(void **state)
{
    (void)state;
    expect_misuse("", "0 files given, expected two: a topology and an experiment");
    expect_misuse("toy-2", "1 file given");
    expect_misuse("toy-2 two-owners two-owners", "3 files given");
    expect_misuse("--check", "--check needs a file");
    expect_misuse("--events", "0 files given");
    expect_misuse("--list devices toy-2", "a file has no effect with --list");
}

static void options_without_effect_are_misuse(void **state)
{
    (void)state;
    expect_misuse("toy-2 two-owners -j 2", "--jobs has no effect with a single prediction");
    expect_misuse("toy-2 two-owners --sweep parallel.cp=1,2 --trace x", "--trace has no effect with --sweep");
    expect_misuse("toy-2 two-owners --sweep parallel.cp=1,2 --details", "--details has no effect with --sweep");
    expect_misuse("--check toy-2 --csv -", "--csv has no effect with --check");
    expect_misuse("--check toy-2 --details", "--details has no effect with --check");
    expect_misuse("--check toy-2 --plot time=-", "a check has no time plot, expected topology");
    expect_misuse("toy-2 two-owners --plot topology=-", "a topology plot needs --check");
    expect_misuse("toy-2 two-owners --path 0:1", "--path has no effect with anything but --check");
    expect_misuse("toy-2 two-owners --path 0", "--path has no effect with anything but --check");
    expect_misuse("--compare a.json b.json --path 0:1", "--path has no effect with anything but --check");
    expect_misuse("--check toy-2 --quiet", "--quiet has no effect with --check");
    expect_misuse("--events two-owners --plot -", "--plot has no effect with --events");
    expect_misuse("--collectives messages toy-2 two-owners", "--collectives has no effect without --hw");
    expect_misuse("--hw two-owners --collectives both", "--collectives 'both', expected library or messages");
    expect_misuse("--hw two-owners --collectives library --collectives messages", "--collectives is given twice");
    expect_misuse("--hw --calibrate p.ini --collectives library", "--collectives has no effect with --calibrate");
    expect_misuse("--events two-owners --engine analytic", "--engine has no effect with --events");
    expect_misuse("--list devices --set a.b=c", "--set has no effect with --list");
    expect_misuse("toy-2 two-owners --script x", "--script needs --plot");
    expect_misuse("toy-2 two-owners --quiet --details", "--details and --quiet exclude each other");
    expect_misuse("toy-2 two-owners --details --json -", "--details has no effect");
    expect_misuse("--check --events toy-2", "exclude each other");
    expect_misuse("--calibrate $DIR/x.ini", "--calibrate has no effect without --hw");
    expect_misuse("--hw --calibrate $DIR/x.ini two-owners", "a file has no effect with --calibrate");
    expect_misuse("--hw --calibrate $DIR/x.ini --json -", "--json has no effect with --calibrate");
    expect_misuse("--hw --calibrate $DIR/x.ini --ranks 0", "--ranks '0', expected a whole number from 1 to 1024");
    expect_misuse("--hw --calibrate -", "--calibrate '-', expected a file");
    expect_misuse("--hw cpu-small --quick", "--quick has no effect with anything but --calibrate");
    expect_misuse("--hw cpu-small --kernel-times x.ini", "--kernel-times has no effect with anything but --calibrate");
    expect_misuse("--hw --calibrate $DIR/x.ini --compute cpu --kernels mma",
                  "--kernels has no effect with compute 'cpu'");
    expect_misuse("--hw --calibrate $DIR/x.ini --graph", "--graph has no effect with --calibrate");
    expect_misuse("--hw --calibrate $DIR/x.ini --compute cpu --kernel-times $DIR/none.ini", "none.ini");
    expect_misuse("--hw --calibrate $DIR/none/x.ini", "cannot write '");
    expect_misuse("--hw cpu-small --ranks 2", "--ranks has no effect with anything but --calibrate");
}

static void arguments_are_checked_and_reported_together(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM toy-2 --jobs 0 --engine ns3 --plot x.gif --plot pie=x.png --list worlds");
    assert_int_equal(outcome.status, 2);
    assert_non_null(strstr(outcome.err, "--jobs '0', expected a whole number from 1 to 1024"));
    assert_non_null(strstr(outcome.err, "no engine 'ns3' (see cpsim --list engines)"));
    assert_non_null(strstr(outcome.err, "plot 'x.gif', expected a file ending in .png, .svg or .pdf, or '-'"));
    assert_non_null(strstr(outcome.err, "plot 'pie=x.png': no kind 'pie'"));
    assert_non_null(strstr(outcome.err, "--list 'worlds', expected one of: algorithms"));
    outcome_fini(&outcome);
}

static void results_never_share_a_place(void **state)
{
    (void)state;
    expect_misuse("toy-2 two-owners --json - --csv -", "--json and --csv both write to '-'");
    expect_misuse("toy-2 two-owners --json - --plot -", "--json and --plot both write to '-'");
    expect_misuse("toy-2 two-owners --json x --json y", "--json is given twice");
    expect_misuse("toy-2 two-owners --trace x --csv x", "both write to 'x'");
    expect_misuse("toy-2 two-owners --plot x.png --plot time=x.png", "both write to 'x.png'");
    expect_misuse("toy-2 ./e.ini --json ./e.ini", "--json would overwrite './e.ini', which is read");
    expect_misuse("toy-2 two-owners --json $DIR/new --csv $DIR/../$(basename $DIR)/new", "--json and --csv both write");
    expect_misuse("toy-2 two-owners --json $(touch $DIR/a; ln -s a $DIR/b; echo $DIR/a) --csv $DIR/b", "both write to");
    expect_misuse("toy-2 two-owners --json ./experiments/two-owners.ini",
                  "would overwrite 'two-owners', which is read");
    expect_misuse("toy-2 two-owners --csv experiments/../topologies/toy-2.ini", "would overwrite 'toy-2'");
    expect_misuse("toy-2 two-owners --json $DIR/stdout", "--json and the table both write to '");
    expect_misuse("toy-2 two-owners --json /dev/stdout", "--json and the table both write to '/dev/stdout'");
    expect_misuse("toy-2 two-owners --json ''", "--json has an empty argument");
}

static void plot_kinds_belong_to_their_mode(void **state)
{
    (void)state;
    expect_misuse("toy-2 two-owners --plot scaling=x.png", "a scaling plot needs --sweep");
    expect_misuse("toy-2 two-owners --sweep schedule.overlap=yes,no --plot memory=x.png", "a sweep has no memory plot");
}

static void arguments_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    expect_misuse("toy-2 \"$(printf 'a\\377b')\"", "argument 2 is not UTF-8 text");
}

static void every_list_lists(void **state)
{
    (void)state;
    static const char *const lists[][2] = {
        {"algorithms", "ring "},
        {"devices", "h100-sxm "},
        {"transformers", "  Llama 3 8B (3.1 has the same shape)\n"},
        {"topologies", "dgx-h100-4 "},
        {"engines", "simgrid "},
        {"experiments", "two-owners "},
        {"keys", "  kv_block        at most"},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *text = memory_format("$CPSIM --list %s", lists[i][0]);
        struct outcome outcome = shell(text);
        assert_int_equal(outcome.status, 0);
        assert_string_equal(outcome.err, "");
        assert_non_null(strstr(outcome.out, lists[i][1]));
        outcome_fini(&outcome);
        free(text);
    }
}

/* Whole models in numbers; of a file that leaves some out, its name; a bad file is said to be one. */
static void transformers_are_listed_with_what_they_count(void **state)
{
    (void)state;
    expect("$CPSIM --list transformers", 0,
           "llama3-8b           8.030     8192        17.16        34.31           136.1  Llama 3 8B", "");
    expect(
        "mkdir -p $DIR/data/transformers; printf '; x.ini - Heads.\n[transformer]\nname = x\nq_heads = 4\n"
        "kv_heads = 2\nhead_dim = 8\n' >$DIR/data/transformers/x.ini; CPSIM_DATA=$DIR/data $CPSIM --list transformers",
        0, "x               -        -            -            -               -  Heads\n", "");
    expect("printf '[transformer]\nmlp = wide\n' >$DIR/data/transformers/a.ini; "
           "CPSIM_DATA=$DIR/data $CPSIM --list transformers",
           1, "x               -  ", "a.ini:2: 'mlp' is 'wide', expected gated or plain");
    expect("rm $DIR/data/transformers/x.ini; CPSIM_DATA=$DIR/data $CPSIM --list transformers; exit 3", 3, "", "wide");
}

static void every_key_is_in_the_reference_with_a_meaning(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM --list keys");
    assert_null(strstr(outcome.out, " \n"));  /* no meaning */
    assert_null(strstr(outcome.out, "  ; ")); /* no form */
    assert_non_null(strstr(outcome.out, "full | causal"));
    outcome_fini(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_version_go_to_standard_output),
        cmocka_unit_test(help_offers_nothing_that_does_not_exist),
        cmocka_unit_test(wrong_number_of_files_is_misuse),
        cmocka_unit_test(options_without_effect_are_misuse),
        cmocka_unit_test(arguments_are_checked_and_reported_together),
        cmocka_unit_test(results_never_share_a_place),
        cmocka_unit_test(plot_kinds_belong_to_their_mode),
        cmocka_unit_test(arguments_that_are_not_utf8_are_refused),
        cmocka_unit_test(every_list_lists),
        cmocka_unit_test(transformers_are_listed_with_what_they_count),
        cmocka_unit_test(every_key_is_in_the_reference_with_a_meaning),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_test_folder();
    return failed;
}
