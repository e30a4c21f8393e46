/* What --explain writes: pieces that add up to the step, what is known to be the bottleneck, and changes that give what
 * the command with their options gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "tests/cli/expect.h"

#define PRINT_EXPERIMENT                                                                                               \
    "printf '[model]\\npreset = llama3-8b\\n[workload]\\nseq_len = 64Ki\\n[parallel]\\ncp = "                          \
    "16\\n[schedule]\\nsharding "                                                                                      \
    "= zigzag\\nalgorithm = ring\\n' > $DIR/e.ini; "
#define ASKED PRINT_EXPERIMENT "$CPSIM dgx-h100-4 $DIR/e.ini "

static double number(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

static const char *text(const json_t *json, const char *key)
{
    return json_string_value(json_object_get(json, key));
}

static double sum_of(const json_t *numbers)
{
    double sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)numbers, key, value) sum += json_number_value(value);
    return sum;
}

/* The pieces meet and make up the step, and so do the chain's rows, the phases, the ranks. */
static void expect_sums(const json_t *json)
{
    double step = number(json, "seconds"), at = 0, chain = 0, ranks = 0;
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(json, "path"), i, item)
    {
        assert_true(fabs(number(item, "begin") - at) <= 0);
        at = number(item, "end");
        assert_true(fabs(sum_of(json_object_get(item, "seconds")) - (at - number(item, "begin"))) < 1e-9 * step);
    }
    assert_true(fabs(at - step) <= 0);
    json_array_foreach(json_object_get(json, "chain"), i, item) chain += number(item, "seconds");
    json_array_foreach(json_object_get(json, "ranks"), i, item) ranks += number(item, "seconds");
    const json_t *phases = json_object_get(json, "phases");
    double forward = sum_of(json_object_get(phases, "forward")), backward = sum_of(json_object_get(phases, "backward"));
    assert_true(fabs(chain - step) < 1e-9 * step && fabs(ranks - step) < 1e-9 * step);
    assert_true(fabs(forward - number(json, "forward_seconds")) < 1e-9 * step);
    assert_true(fabs(backward - number(json, "backward_seconds")) < 1e-9 * step);
}

#ifdef __SANITIZE_ADDRESS__
#define SETTINGS_TRIED 2
#define ASKED_APART 3
#define QUICK_ENGINE "--engine analytic " /* SimGrid runs what pieces add up of */
#else
#define SETTINGS_TRIED 6
#define ASKED_APART 1
#define QUICK_ENGINE
#endif

static void pieces_add_up_to_the_step(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "--set schedule.implementation=ring-flash-attention-eager --set workload.seq_len=8Ki",
        "--set schedule.algorithm=ulysses --set parallel.cp=8 --set parallel.dp=2 --engine analytic",
        "--set schedule.algorithm=all-gather --without sms --no-fold",
        "--set schedule.algorithm=usp --set schedule.implementation=yunchang",
        "--set schedule.algorithm=double-ring --set parallel.tp=2",
        "--set schedule.algorithm=ring-te --set schedule.implementation=transformer-engine",
    };
    for (int i = 0; i < SETTINGS_TRIED; i++) {
        char *command = memory_format(ASKED "%s --explain --json -", settings[i]);
        json_t *json = json_of(command);
        assert_string_equal(text(json, "schema"), "cpsim.explanation/1");
        expect_sums(json);
        json_decref(json);
        free(command);
    }
}

/* Ranks that stand for others are told as those that they stand for. */
static void folding_changes_nothing(void **state)
{
    (void)state;
    json_t *folded = json_of(ASKED QUICK_ENGINE "--set schedule.algorithm=usp --set parallel.dp=2 --explain --json -"),
           *whole = json_of(ASKED QUICK_ENGINE
                            "--set schedule.algorithm=usp --set parallel.dp=2 --no-fold --explain --json -");
    static const char *const members[] = {"ranks", "chain", "message_seconds_by_level"};
    assert_true(number(folded, "seconds") > 0);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        assert_int_equal(json_array_size(json_object_get(folded, members[i])),
                         json_array_size(json_object_get(whole, members[i])));
    size_t i;
    json_t *piece;
    json_array_foreach(json_object_get(folded, "path"), i, piece)
    {
        const json_t *other = json_array_get(json_object_get(whole, "path"), i);
        assert_non_null(other);
        assert_true(number(piece, "rank") == number(other, "rank") && number(piece, "op") == number(other, "op"));
        assert_string_equal(text(piece, "cause"), text(other, "cause"));
        assert_true(fabs(number(piece, "end") - number(other, "end")) < 1e-9 * number(folded, "seconds"));
    }
    json_decref(folded);
    json_decref(whole);
}

/* Each change that options ask for (under the sanitizers one of three) gives the step of the command with these
 * options. */
static void a_change_gives_what_its_options_give(void **state)
{
    (void)state;
#define CHANGED ASKED "--set schedule.buffers=3 --set workload.seq_len=32Ki --engine analytic "
    json_t *json = json_of(CHANGED "--explain --json -");
    size_t i, asked = 0, refused = 0;
    json_t *change;
    double shortest = 0;
    json_array_foreach(json_object_get(json, "changes"), i, change)
    {
        if (strcmp(text(change, "outcome"), "refused") == 0) {
            assert_true(*text(change, "why"));
            refused++;
            continue;
        }
        assert_true(number(change, "seconds") >= shortest);
        assert_int_equal(refused, 0);
        shortest = number(change, "seconds");
        double gain = 1 - shortest / number(json, "seconds");
        assert_true(fabs(gain - number(change, "gain")) < 1e-12);
        const char *options = text(change, "options");
        if (!options || strstr(options, "buffers")) /* which is set already */
            continue;
        if (asked++ % ASKED_APART)
            continue;
        char *command = memory_format(CHANGED "%s --json -", options);
        json_t *run = json_of(command);
        if (fabs(number(json_object_get(run, "step"), "seconds") - shortest) > 0)
            fail_msg("%s: %.17g, expected %.17g", text(change, "change"), shortest,
                     number(json_object_get(run, "step"), "seconds"));
        json_decref(run);
        free(command);
    }
    assert_true(asked >= 6 && refused >= 1);
    json_decref(json);
#undef CHANGED
}

static double gain_of(const json_t *json, const char *name)
{
    size_t i;
    json_t *change;
    json_array_foreach(json_object_get(json, "changes"), i,
                       change) if (strcmp(text(change, "change"), name) == 0) return number(change, "gain");
    fail_msg("there is no change '%s'", name);
    return 0;
}

/* A key that is set is set to something else, and is no change where it is what it is. */
static void a_key_that_was_set_is_changed(void **state)
{
    (void)state;
    json_t *json = json_of(ASKED "--set schedule.sharding=contiguous --set schedule.overlap=no --engine analytic "
                                 "--explain --json -");
    assert_true(gain_of(json, "sharding zigzag") > 0.1);
    assert_true(gain_of(json, "exchanges beside compute") > 0.01);
    size_t i;
    json_t *change;
    json_array_foreach(json_object_get(json, "changes"), i, change)
    {
        assert_string_not_equal(text(change, "change"), "sharding contiguous");
        assert_string_not_equal(text(change, "change"), "a host that takes no time"); /* it takes none */
    }
    json_decref(json);
}

/* Without overlap and without costs of steps, a ring under a full mask is its attention and its messages. */
static void of_a_bare_ring_the_path_is_its_terms(void **state)
{
    (void)state;
    json_t *json = json_of(ASKED "--set workload.mask=full --set workload.pass=forward --set schedule.overlap=no "
                                 "--without steps --without launch --engine analytic --explain --json -");
    const json_t *forward = json_object_get(json_object_get(json, "phases"), "forward");
    double attention = number(forward, "attention"), latency = number(forward, "latency"),
           transfer = number(forward, "transfer"), step = number(json, "seconds");
    assert_true(fabs(attention + latency + transfer - step) < 1e-9 * step);
    size_t i, messages = 0;
    json_t *piece;
    json_array_foreach(json_object_get(json, "path"), i, piece) messages +=
        strcmp(text(piece, "operation"), "attend") != 0;
    assert_int_equal(messages, 15);
    /* Twice as fast, it takes half of what it took on the path, which stays the path. */
    assert_true(fabs(gain_of(json, "attention kernels twice as fast") - attention / 2 / step) < 1e-6);
    json_decref(json);
}

static void the_table_says_who_sets_the_pace(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM dgx-h100-4 llama3-8b-1m --explain --engine analytic");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    assert_memory_equal(outcome.out, "rank 31 sets the pace; 74.", 26);
    const char *sentence = strstr(outcome.out, "% is attention, "),
               *chain = strstr(outcome.out, "32 x  rank 31: attend "),
               *gains = strstr(outcome.out, "attention kernels twice as fast"),
               *none = strstr(outcome.out, "no help: "), *longer = strstr(outcome.out, "longer with: "),
               *refused = strstr(outcome.out, "does not apply here: ring order node-major");
    assert_true(sentence && chain && gains && none && longer && refused);
    assert_true(sentence < chain && chain < gains && gains < none && none < longer && longer < refused);
    assert_non_null(strstr(longer, "sharding contiguous (+"));
    assert_non_null(strstr(chain, "gradients received from rank 31 over `cluster: gpu 31 up`"));
    outcome_fini(&outcome);
}

/* Of eight ranks of one node no message leaves it, and nothing beyond it is tried. */
static void levels_that_nothing_crosses_are_told(void **state)
{
    (void)state;
    struct outcome outcome = shell(ASKED "--set parallel.cp=8 --engine analytic --explain");
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.out, "no message crosses level cluster\n"));
    assert_null(strstr(outcome.out, "of level cluster"));
    assert_non_null(strstr(outcome.out, "twice the bandwidth of level node"));
    outcome_fini(&outcome);
}

static void products_are_tried_where_there_are_some(void **state)
{
    (void)state;
    struct outcome outcome = shell(ASKED "--engine analytic --explain");
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.out, "attention kernels twice as fast"));
    assert_null(strstr(outcome.out, "matrix products"));
    outcome_fini(&outcome);
    expect(ASKED "--engine analytic --explain --set workload.scope=layer", 0, "matrix products twice as fast", "");
}

static void long_chains_are_cut_unless_details_are_wanted(void **state)
{
    (void)state;
#define LONG ASKED "--set schedule.algorithm=dist-flash --set schedule.sharding=contiguous --engine analytic --explain "
    expect(LONG, 0, "shorter stretches between them", "");
    struct outcome details = shell(LONG "--details");
    assert_int_equal(details.status, 0);
    assert_non_null(strstr(details.out, "does not apply here"));
    assert_null(strstr(details.out, "shorter stretches"));
    outcome_fini(&details);
#undef LONG
}

/* With boxes of the kinds that are there. */
static void the_path_is_drawn(void **state)
{
    (void)state;
#define DRAWN ASKED "--engine analytic --explain "
    expect(DRAWN "--plot $DIR/p.svg --script - --quiet | grep -c boxxyerror", 0, "7\n", "");
    expect(DRAWN "--plot $DIR/p.svg --quiet && grep -c 'merges and sums' $DIR/p.svg", 0, NULL, "");
    struct outcome drawing = shell(DRAWN "--plot -");
    assert_int_equal(drawing.status, 0);
    assert_non_null(strstr(drawing.out, "since the phase began"));
    assert_non_null(strstr(drawing.out, "####"));
    outcome_fini(&drawing);
#undef DRAWN
}

static void csv_has_a_row_a_change(void **state)
{
    (void)state;
    json_t *json = json_of(ASKED "--engine analytic --explain --json - --csv $DIR/e.csv");
    char *csv = made_file("e.csv");
    size_t lines = 0;
    for (const char *c = csv; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, json_array_size(json_object_get(json, "changes")) + 1);
    assert_memory_equal(csv, "change,options,outcome,seconds,gain,fits,why\n", 45);
    free(csv);
    json_decref(json);
}

static void the_result_is_the_same_whatever_runs_at_once(void **state)
{
    (void)state;
    struct outcome one = shell(ASKED QUICK_ENGINE "--explain -j 1 --json -"),
                   many = shell(ASKED QUICK_ENGINE "--explain -j 7 --json -");
    assert_int_equal(one.status, 0);
    assert_string_equal(one.out, many.out);
    outcome_fini(&one);
    outcome_fini(&many);
}

static void misuse_is_told(void **state)
{
    (void)state;
    expect_misuse("--explain toy-2", "1 file given, expected two: a topology and an experiment");
    expect_misuse("toy-2 two-owners --explain --trace x", "--trace has no effect with --explain");
    expect_misuse("toy-2 two-owners --explain --operations --json -", "--operations has no effect with --explain");
    expect_misuse("toy-2 two-owners --explain --plot memory=x.png", "an explanation has no memory plot");
    expect_misuse("toy-2 two-owners --plot path=x.png", "a path plot needs --explain");
    expect_misuse("toy-2 two-owners --explain --sweep parallel.cp=1,2", "--sweep has no effect with --explain");
    expect_misuse("toy-2 two-owners --explain --sensitivity", "exclude each other");
    expect_misuse("toy-2 two-owners --explain --hw", "exclude each other");
    expect_misuse("toy-2 two-owners --explain --seed 1", "--seed has no effect without --hw");
    expect_misuse("toy-2 two-owners --explain --points full", "--points has no effect without --sweep");
    expect_misuse("toy-2 llama3-8b-1m --explain", "needs 32 GPUs, but topology");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_add_up_to_the_step),
        cmocka_unit_test(folding_changes_nothing),
        cmocka_unit_test(a_change_gives_what_its_options_give),
        cmocka_unit_test(a_key_that_was_set_is_changed),
        cmocka_unit_test(of_a_bare_ring_the_path_is_its_terms),
        cmocka_unit_test(the_table_says_who_sets_the_pace),
        cmocka_unit_test(levels_that_nothing_crosses_are_told),
        cmocka_unit_test(products_are_tried_where_there_are_some),
        cmocka_unit_test(long_chains_are_cut_unless_details_are_wanted),
        cmocka_unit_test(the_path_is_drawn),
        cmocka_unit_test(csv_has_a_row_a_change),
        cmocka_unit_test(the_result_is_the_same_whatever_runs_at_once),
        cmocka_unit_test(misuse_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
