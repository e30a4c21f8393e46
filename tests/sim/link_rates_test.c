/* What messages take in a whole prediction, by both engines: a ring's by their channels, a collective's as the
 * library's call, however it is written out; and who shares a communicator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <sys/wait.h>

#include "models/cost/communicators.h"
#include "tests/link_patterns.h"
#include "tests/predict.h"

/* Links as those of 8 x H100, and so wide that flows which stand for one call do not fill them. */
static char *cluster(uint32_t gpus)
{
    return memory_format("[cluster]\ndevice = toy\n[level node]\nsize = %u\nkind = switch\nbandwidth = 450 GB/s\n"
                         "latency = 11 us\nchannels = 32\nchannel_bandwidth = 20 GB/s\nchannel_latency = 20 us\n"
                         "ll_bandwidth = 5 GB/s\nmessage_bandwidth = 300 GB/s\n"
                         "collectives = 10 us + 1 us: 120 GB/s, 30 us + 2 us: 340 GB/s\n",
                         gpus);
}

static const struct toy shape = {
    .q_heads = 8, .kv_heads = 8, .head_dim = 128, .seq_len = 65536, .mask = "full", .pass = "train", .cp = 8};

/* Seconds from the first begin to the last end of rank 0's messages of the `traffic`, sent in phase `phase`; 0: none.
 * Of one message if `first` is set. */
static double span_of(const struct prediction *p, enum phase phase, enum traffic traffic, bool first, uint64_t *bytes)
{
    const struct program *program = &p->programs[0];
    double begin = INFINITY, end = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind != OP_SEND || op->traffic != traffic || program_phase(program, i) != phase || (first && *bytes))
            continue;
        struct moment moment = p->timeline.moments[0][i];
        begin = fmin(begin, moment.begin);
        end = fmax(end, moment.end);
        *bytes += op->bytes;
    }
    return *bytes ? end - begin : 0;
}

/* Runs `judge` on a prediction, in a process of its own since SimGrid runs once in one. */
static void judge_predictions(const char *schedule, void (*judge)(const struct prediction *prediction))
{
    for (int e = 0; engines[e]; e++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct toy toy = shape;
            toy.schedule = schedule;
            struct prediction prediction;
            assert_int_equal(predict(&prediction, engines[e], cluster(8), toy_experiment(&toy)), PREDICTION_DONE);
            judge(&prediction);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("%s by %s", schedule, engines[e]->name);
    }
}

static void expect(double seconds, double expected)
{
    if (fabs(seconds - expected) <= 1e-6 * expected)
        return;
    fprintf(stderr, "%.9g s, expected %.9g\n", seconds, expected);
    _exit(1);
}

static void expect_a_ring_shift(const struct prediction *p)
{
    uint64_t bytes;
    double seconds = span_of(p, PHASE_FORWARD, TRAFFIC_FORWARD_KV, true, &bytes);
    expect(seconds, link_pattern_seconds(&p->cost, PATTERN_RING_SHIFT, 8, bytes));
    expect(seconds, 20e-6 + (double)bytes / (4 * 20e9));
}

static void a_ring_sends_by_its_channels(void **state)
{
    (void)state;
    judge_predictions("algorithm = ring", expect_a_ring_shift);
}

static void expect_calls(const struct prediction *p)
{
    uint64_t bytes;
    double seconds = span_of(p, PHASE_FORWARD, TRAFFIC_FORWARD_KV, false, &bytes);
    expect(seconds, link_pattern_seconds(&p->cost, PATTERN_ALL_GATHER, 8, bytes / 7 * 8));
    expect(seconds, 30e-6 + 7 * 2e-6 + (double)bytes / 340e9);
    seconds = span_of(p, PHASE_BACKWARD, TRAFFIC_GRADIENT, false, &bytes);
    expect(seconds, link_pattern_seconds(&p->cost, PATTERN_REDUCE_SCATTER, 8, bytes / 7 * 8));
}

static void a_collective_takes_what_the_librarys_call_takes_however_it_is_written_out(void **state)
{
    (void)state;
    judge_predictions("algorithm = all-gather\ncollective = direct", expect_calls);
    judge_predictions("algorithm = all-gather\ncollective = ring", expect_calls);
}

/* Members of the communicators of rank 0's messages in `stream` that are in no collective. */
static uint32_t members_in(const struct prediction *p, enum stream stream)
{
    struct communicators communicators;
    communicators_init(&communicators, &p->whole);
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->programs[0].n_ops; i++) {
        const struct op *op = &p->programs[0].ops[i];
        if (op->kind == OP_SEND && !op->collective && op->stream == stream)
            count = communicator_of_stream(&communicators, 0, stream).count;
    }
    communicators_fini(&communicators);
    return count;
}

static void each_ring_has_a_communicator(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        uint32_t exchange, outer;
    } cases[] = {
        {"algorithm = ring", 8, 0},
        {"algorithm = usp\nulysses_degree = 4", 2, 0},
        {"algorithm = usp\nulysses_degree = 2", 4, 0},
        {"algorithm = double-ring\nring_window = 4", 4, 2},
        {"algorithm = double-ring\nring_window = 2", 2, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct toy toy = shape;
        toy.schedule = cases[i].schedule;
        struct prediction prediction;
        assert_int_equal(predict(&prediction, &engine_analytic, cluster(8), toy_experiment(&toy)), PREDICTION_DONE);
        assert_int_equal(members_in(&prediction, STREAM_EXCHANGE), cases[i].exchange);
        assert_int_equal(members_in(&prediction, STREAM_OUTER), cases[i].outer);
        prediction_fini(&prediction);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_sends_by_its_channels),
        cmocka_unit_test(a_collective_takes_what_the_librarys_call_takes_however_it_is_written_out),
        cmocka_unit_test(each_ring_has_a_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
