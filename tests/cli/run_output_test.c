/* A prediction as table, JSON, CSV and trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <malloc.h>
#include <math.h>

#include "cli/writers.h"
#include "tests/cli/run_tree.h"
#include "tests/predict.h"

static void predict_two(struct prediction *p)
{
    const struct toy toy = {.q_heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .seq_len = 4096,
                            .mask = "causal",
                            .pass = "train",
                            .cp = 2,
                            .schedule = "algorithm = ring\nsharding = zigzag"};
    assert_int_equal(predict_toy(p, &toy, "100 GB/s", "1 us"), PREDICTION_DONE);
}

static char *text_of(bool (*write)(const struct prediction *prediction, FILE *stream), const struct prediction *p)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(write(p, stream));
    fclose(stream);
    return text;
}

static bool write_json(const struct prediction *p, FILE *stream)
{
    return run_json_write(p, false, stream);
}

static bool write_table(const struct prediction *p, FILE *stream)
{
    return table_write(p, 1, stream);
}

static bool write_short_table(const struct prediction *p, FILE *stream)
{
    return table_write(p, 0, stream);
}

static size_t memory_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* How much memory was in use at most while something was written. */
static ssize_t note_memory(void *cookie, const char *bytes, size_t size)
{
    size_t *most = cookie, now = memory_in_use();
    (void)bytes;
    *most = now > *most ? now : *most;
    return (ssize_t)size;
}

/* Twenty thousand ranks as a tree would be 140 MB. */
static void json_of_many_ranks_takes_no_memory(void **state)
{
    (void)state;
    struct prediction p;
    predict_two(&p);
    struct rank_report *two = p.report.ranks;
    const uint32_t many = 20000;
    p.report.ranks = memory_zeroed(many, sizeof *p.report.ranks);
    p.report.n_ranks = many;
    size_t before = memory_in_use(), most = 0;
    const cookie_io_functions_t functions = {.write = note_memory};
    FILE *stream = fopencookie(&most, "w", functions);
    assert_true(run_json_write(&p, false, stream));
    fclose(stream);
    assert_true(most < before + (1 << 20));
    free(p.report.ranks);
    p.report.ranks = two;
    p.report.n_ranks = 2;
    prediction_fini(&p);
}

static void require(const json_t *object, const char *const *names)
{
    for (; *names; names++)
        if (!json_object_get(object, *names))
            fail_msg("'%s' is missing", *names);
}

static void json_has_every_name_of_the_schema(void **state)
{
    (void)state;
    static const char *const run[] = {"schema",     "kind", "cpsim_version", "command", "engine", "topology",
                                      "experiment", "step", "ranks",         "links",   NULL};
    static const char *const step[] = {"seconds",
                                       "forward_seconds",
                                       "backward_seconds",
                                       "compute_seconds",
                                       "communication_seconds",
                                       "exposed_seconds",
                                       "idle_seconds",
                                       "overlap_efficiency",
                                       "tflops_per_rank",
                                       "imbalance",
                                       "critical_rank",
                                       "compute_bound_seconds",
                                       "wire_bound_seconds",
                                       "peak_bytes",
                                       "peak_rank",
                                       "fits",
                                       "device_bytes",
                                       "visible_pairs",
                                       "flops",
                                       "bytes_sent",
                                       "messages_sent",
                                       NULL};
    static const char *const rank[] = {"rank",
                                       "seconds",
                                       "compute_seconds",
                                       "communication_seconds",
                                       "exposed_seconds",
                                       "idle_seconds",
                                       "bytes_sent",
                                       "bytes_received",
                                       "messages_sent",
                                       "messages_received",
                                       "visible_pairs",
                                       "flops",
                                       "peak_bytes",
                                       "resident_bytes",
                                       "sent_bytes_by_kind",
                                       "received_bytes_by_kind",
                                       "peak_bytes_by_role",
                                       NULL};
    static const char *const kinds[] = {"forward_kv", "replay_kv", "gradient", "other", NULL};
    static const char *const roles[] = {"resident", "received", "accumulators", "workspace", NULL};
    static const char *const link[] = {"class", "bytes", "busy_seconds", "utilization", NULL};
    struct prediction p;
    predict_two(&p);
    json_t *json = run_tree(&p, false);
    const json_t *first = json_array_get(json_object_get(json, "ranks"), 0);
    require(json, run);
    require(json_object_get(json, "step"), step);
    require(first, rank);
    require(json_object_get(first, "sent_bytes_by_kind"), kinds);
    require(json_object_get(first, "peak_bytes_by_role"), roles);
    require(json_array_get(json_object_get(json, "links"), 0), link);
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "cpsim.run/1");
    assert_string_equal(json_string_value(json_object_get(json, "kind")), "simulated");
    assert_int_equal(json_array_size(json_object_get(json, "ranks")), 2);
    json_decref(json);
    prediction_fini(&p);
}

static void json_reads_back_to_the_same_numbers(void **state)
{
    (void)state;
    struct prediction p;
    predict_two(&p);
    p.report.peak_bytes = UINT64_C(9007199254740993); /* no double is this number */
    char *text = text_of(write_json, &p);
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    assert_non_null(json);
    const json_t *step = json_object_get(json, "step");
    assert_true(json_real_value(json_object_get(step, "seconds")) == p.report.seconds);
    assert_true(json_real_value(json_object_get(step, "flops")) == p.report.flops);
    assert_true(json_integer_value(json_object_get(step, "peak_bytes")) == 9007199254740993);
    const json_t *experiment = json_object_get(json, "experiment");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(experiment, "workload"), "seq_len")), 4096);
    const json_t *mask = json_object_get(json_object_get(experiment, "workload"), "mask");
    assert_string_equal(json_string_value(mask), "causal");
    json_decref(json);
    free(text);
    prediction_fini(&p);
}

static void numbers_that_are_none_are_null(void **state)
{
    (void)state;
    struct prediction p;
    predict_two(&p);
    p.report.imbalance = NAN;
    json_t *json = run_tree(&p, false);
    assert_true(json_is_null(json_object_get(json_object_get(json, "step"), "imbalance")));
    json_decref(json);
    prediction_fini(&p);
}

static void the_same_question_gives_the_same_bytes(void **state)
{
    (void)state;
    bool (*const writers[])(const struct prediction *, FILE *) = {write_json, write_table, csv_write_run, trace_write};
    struct prediction p, q;
    predict_two(&p);
    predict_two(&q);
    /* the files have other names */
    free(q.experiment_name);
    free(q.topology_name);
    free(q.command);
    q.experiment_name = memory_text(p.experiment_name);
    q.topology_name = memory_text(p.topology_name);
    q.command = memory_text(p.command);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        char *a = text_of(writers[i], &p), *b = text_of(writers[i], &q);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
    prediction_fini(&p);
    prediction_fini(&q);
}

static void csv_rows_have_as_many_fields_as_the_header(void **state)
{
    (void)state;
    struct prediction p;
    predict_two(&p);
    char *text = text_of(csv_write_run, &p);
    size_t lines = 0, commas = 0, expected = 0;
    for (const char *c = text; *c; c++) {
        commas += *c == ',';
        if (*c == '\n') {
            if (lines++ == 0)
                expected = commas;
            assert_int_equal(commas, expected);
            commas = 0;
        }
    }
    assert_int_equal(lines, 3);
    assert_true(expected > 20);
    free(text);
    prediction_fini(&p);
}

/* One event an operation; those of a thread follow one another. */
static void trace_events_are_all_operations_and_never_overlap_in_a_thread(void **state)
{
    (void)state;
    struct prediction p;
    predict_two(&p);
    char *text = text_of(trace_write, &p);
    json_error_t error;
    json_t *trace = json_loads(text, 0, &error);
    assert_non_null(trace);
    const json_t *events = json_object_get(trace, "traceEvents");
    size_t complete = 0, named = 0, i, k;
    json_t *event, *other;
    json_array_foreach(events, i, event)
    {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        named += strcmp(kind, "M") == 0;
        if (strcmp(kind, "X") != 0)
            continue;
        complete++;
        double begin = json_number_value(json_object_get(event, "ts"));
        double end = begin + json_number_value(json_object_get(event, "dur"));
        assert_true(begin >= 0 && end >= begin && end <= p.report.seconds * 1e6 * (1 + 1e-12));
        json_array_foreach(events, k, other)
        {
            double from = json_number_value(json_object_get(other, "ts"));
            double to = from + json_number_value(json_object_get(other, "dur"));
            if (k != i && json_equal(json_object_get(event, "pid"), json_object_get(other, "pid")) &&
                json_equal(json_object_get(event, "tid"), json_object_get(other, "tid")) &&
                strcmp(json_string_value(json_object_get(other, "ph")), "X") == 0)
                assert_true((from > begin ? from : begin) >= (to < end ? to : end) * (1 - 1e-12));
        }
    }
    assert_int_equal(complete, p.programs[0].n_ops + p.programs[1].n_ops);
    assert_true(named >= 2 * (1 + 2)); /* each rank and its streams */
    json_decref(trace);
    free(text);
    prediction_fini(&p);
}

static void trace_names_say_what_a_message_carries(void **state)
{
    (void)state;
    struct toy toy = {.q_heads = 4,
                      .kv_heads = 2,
                      .head_dim = 64,
                      .seq_len = 4096,
                      .mask = "full",
                      .pass = "train",
                      .cp = 2,
                      .schedule = "algorithm = ring\nsharding = contiguous"};
    static const char *const together[] = {"\"send KV to 1\"", "\"receive dKV from 0\""};
    static const char *const apart[] = {"\"send K to 1\"", "\"send V to 1\"", "\"receive dK from 0\"",
                                        "\"receive dV from 0\""};
    struct prediction p;
    assert_int_equal(predict_toy(&p, &toy, "100 GB/s", "1 us"), PREDICTION_DONE);
    char *text = text_of(trace_write, &p);
    for (size_t i = 0; i < sizeof together / sizeof *together; i++)
        assert_non_null(strstr(text, together[i]));
    free(text);
    prediction_fini(&p);
    toy.schedule = "algorithm = ring\nsharding = contiguous\nkv_messages = 2";
    assert_int_equal(predict_toy(&p, &toy, "100 GB/s", "1 us"), PREDICTION_DONE);
    text = text_of(trace_write, &p);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        assert_non_null(strstr(text, apart[i]));
    free(text);
    prediction_fini(&p);
}

/* A prediction of four ranks with 8 query and 4 KV heads, under whatever schedule. */
static void predict_four(struct prediction *p, const char *pass, const char *schedule)
{
    const struct toy toy = {.q_heads = 8,
                            .kv_heads = 4,
                            .head_dim = 64,
                            .seq_len = 4096,
                            .mask = "causal",
                            .pass = pass,
                            .cp = 4,
                            .schedule = schedule};
    assert_int_equal(predict_toy(p, &toy, "100 GB/s", "1 us"), PREDICTION_DONE);
}

static void assert_has(const char *text, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is not in\n%.3000s", parts[i], text);
}

static void trace_names_groups_lanes_and_collectives(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *parts[5];
    } cases[] = {
        {"algorithm = usp\nulysses_degree = 2",
         {"\"attend kg1 h0-3\"", "\"split-rows O", "\"collective\":\"all-to-all\"", "\"send KV to 1", "\"exchange\""}},
        {"algorithm = all-gather\ncollective = direct",
         {"\"collective\":\"all-gather\"", "\"attend\"", "\"receive KV from 1\"", "\"compute\"", "\"exchange\""}},
        {"algorithm = pass-q",
         {"\"attend q1 k0\"", "\"attend k0\"", "\"collective\":\"all-to-all\"", "\"send partial to 1\"",
          "\"send Q to 1\""}},
        {"algorithm = ring-te",
         {"{\"name\":\"compute 2\"}", "\"correct\"", "\"sum-lse\"", "\"attend k3\"", "\"tid\":5000"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prediction p;
        predict_four(&p, "forward", cases[i].schedule);
        char *text = text_of(trace_write, &p);
        assert_has(text, cases[i].parts, 5);
        free(text);
        prediction_fini(&p);
    }
}

/* Kernels of two streams: each slice begins when its kernel has its turn, so their works do not overlap. */
static void kernels_that_wait_for_their_turn_are_shown_from_it(void **state)
{
    (void)state;
    struct prediction p;
    predict_four(&p, "train", "algorithm = ring-te");
    json_t *run = run_tree(&p, true), *operation;
    size_t i, waited = 0;
    double attention = 0;
    json_array_foreach(json_object_get(run, "operations"), i, operation)
    {
        const json_t *move = json_object_get(operation, "move"), *peer = json_object_get(operation, "peer");
        double begin = json_number_value(json_object_get(operation, "begin"));
        double end = json_number_value(json_object_get(operation, "end"));
        if (move && !peer) {
            waited++;
            assert_true(json_number_value(move) > begin && json_number_value(move) <= end);
            begin = json_number_value(move);
        }
        if (!peer && json_integer_value(json_object_get(operation, "rank")) == 0)
            attention += end - begin;
    }
    assert_true(waited > 0);
    /* launches are free on this device: nothing is hidden, and what works is the compute time */
    assert_true(fabs(attention - p.report.ranks[0].compute_seconds) <= 1e-9 * attention);
    json_decref(run);
    char *text = text_of(trace_write, &p);
    assert_non_null(strstr(text, "\"ready_at\":"));
    free(text);
    prediction_fini(&p);
}

static void steps_name_the_group_whose_keys_are_attended(void **state)
{
    (void)state;
    struct prediction p;
    predict_four(&p, "forward", "algorithm = usp\nulysses_degree = 2");
    char *text = text_of(write_table, &p);
    static const char *const parts[] = {"  group 0  ", "  group 1  ", "usp, heads traded in groups of 2, "};
    assert_has(text, parts, 3);
    free(text);
    prediction_fini(&p);
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        count++;
    return count;
}

static void the_table_gives_question_answer_and_accounting(void **state)
{
    (void)state;
    struct prediction p;
    predict_two(&p);
    char *text = text_of(write_table, &p);
    static const char *const parts[] = {
        "4 query heads, 2 KV heads, head dim 64, bf16\n",
        "4,096 tokens, batch 1, causal mask, attention of one layer forward and backward\n",
        "ring, zigzag, overlap on; cp 2, tp 1, dp 1\n",
        "fits the device's",
        /* K and V of 2048 positions, 2 heads of 64 */
        "sent: forward KV                524,288  1,048,576\n",
        "sent: replayed KV               524,288  1,048,576\n",
        "resident Q                      524,288  1,048,576\n",
        "\nSteps",
        "Links\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is not in\n%s", parts[i], text);
    free(text);
    prediction_fini(&p);
}

static void many_ranks_are_cut_to_the_telling_ones(void **state)
{
    (void)state;
    const struct toy toy = {.q_heads = 4,
                            .kv_heads = 2,
                            .head_dim = 64,
                            .seq_len = 4096,
                            .mask = "causal",
                            .pass = "forward",
                            .cp = 16,
                            .schedule = "algorithm = ring\nsharding = contiguous"};
    struct prediction p;
    assert_int_equal(predict_toy(&p, &toy, "100 GB/s", "1 us"), PREDICTION_DONE);
    char *brief = text_of(write_short_table, &p), *whole = text_of(write_table, &p);
    assert_int_equal(count_of(brief, "  critical\n"), 1);
    assert_int_equal(count_of(brief, "more ranks not shown)\n"), 2);
    assert_int_equal(count_of(brief, "highest\n"), 1);
    assert_null(strstr(brief, "\nSteps"));
    assert_null(strstr(whole, "not shown"));
    assert_non_null(strstr(whole, "\nSteps"));
    free(brief);
    free(whole);
    prediction_fini(&p);
}

static void a_stream_that_cannot_be_written_is_reported(void **state)
{
    (void)state;
    bool (*const writers[])(const struct prediction *, FILE *) = {write_json, write_table, csv_write_run, trace_write};
    struct prediction p;
    predict_two(&p);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        FILE *full = fopen("/dev/full", "w");
        assert_non_null(full);
        assert_false(writers[i](&p, full));
        fclose(full);
    }
    prediction_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_every_name_of_the_schema),
        cmocka_unit_test(json_of_many_ranks_takes_no_memory),
        cmocka_unit_test(json_reads_back_to_the_same_numbers),
        cmocka_unit_test(numbers_that_are_none_are_null),
        cmocka_unit_test(the_same_question_gives_the_same_bytes),
        cmocka_unit_test(csv_rows_have_as_many_fields_as_the_header),
        cmocka_unit_test(trace_events_are_all_operations_and_never_overlap_in_a_thread),
        cmocka_unit_test(trace_names_say_what_a_message_carries),
        cmocka_unit_test(trace_names_groups_lanes_and_collectives),
        cmocka_unit_test(kernels_that_wait_for_their_turn_are_shown_from_it),
        cmocka_unit_test(steps_name_the_group_whose_keys_are_attended),
        cmocka_unit_test(the_table_gives_question_answer_and_accounting),
        cmocka_unit_test(many_ranks_are_cut_to_the_telling_ones),
        cmocka_unit_test(a_stream_that_cannot_be_written_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
