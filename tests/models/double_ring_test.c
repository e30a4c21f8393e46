/* The algorithm double-ring against closed forms: what travels inside windows and between them; and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

static const char *const shardings[] = {"contiguous", "zigzag", "striped"};

static void check_case(uint32_t u, uint32_t width, uint32_t windows, bool fp32, unsigned sharding)
{
    uint32_t p = u * width * windows;
    char keys[200];
    snprintf(keys, sizeof keys,
             "algorithm = double-ring\nsharding = %s\nulysses_degree = %u\nring_window = %u\ngradients = %s",
             shardings[sharding], u, width, fp32 ? "fp32" : "model");
    struct question question = {p, 8, 4, 16, 2, 12 * p, "full", "train", NULL, keys};
    struct asked a;
    ask(&a, &question);
    uint64_t kv = UINT64_C(2) * 12 * 2 * 4 * 16 * 2;
    kv *= u > 4 ? u / 4 : 1;
    uint64_t dkv = fp32 ? 2 * kv : kv, inside = windows * (width - 1), between = windows - 1;
    for (uint32_t r = 0; r < p; r++) {
        struct sent outer = sent_in(&a.programs[r], STREAM_OUTER);
        struct sent sums = sent_in(&a.programs[r], STREAM_GRADIENT);
        assert_int_equal(outer.bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV], between * kv);
        assert_int_equal(outer.messages[PHASE_FORWARD][TRAFFIC_FORWARD_KV], between);
        assert_int_equal(outer.bytes[PHASE_BACKWARD][TRAFFIC_REPLAY_KV], between * kv);
        assert_int_equal(outer.bytes[PHASE_BACKWARD][TRAFFIC_GRADIENT], windows > 1 ? windows * dkv : 0);
        assert_int_equal(outer.messages[PHASE_BACKWARD][TRAFFIC_GRADIENT], windows > 1 ? windows : 0);
        assert_int_equal(sums.bytes[PHASE_BACKWARD][TRAFFIC_GRADIENT], width > 1 ? windows * width * dkv : 0);
        assert_int_equal(sums.messages[PHASE_BACKWARD][TRAFFIC_GRADIENT], width > 1 ? windows * width : 0);
        uint64_t slots = (between < 2 ? between : 2) + (inside < 2 ? inside : 2);
        uint64_t traded = u > 1 ? (2 * u - 1) * kv / u + kv : 0;
        assert_int_equal(bytes_held(&a.programs[r], ROLE_RECEIVED, TENSOR_KV) +
                             bytes_held(&a.programs[r], ROLE_WORKSPACE, TENSOR_KV),
                         traded + slots * kv);
    }
    asked_fini(&a);
}

static void what_moves_between_windows_and_inside_them(void **state)
{
    (void)state;
    for (uint32_t u = 1; u <= 8; u *= 2)
        for (uint32_t width = 1; width <= 4; width++)
            for (uint32_t windows = 1; windows <= 4; windows++)
                check_case(u, width, windows, (width + windows) % 2, (u + width) % 3);
}

/* What leaves a window goes to the like place of the next one; all else stays in the window. */
static void only_the_outer_stream_leaves_a_window(void **state)
{
    (void)state;
    struct question q = {12, 4, 2, 8, 1, 96, "causal", "train", NULL, "algorithm = double-ring\nring_window = 3"};
    struct asked a;
    ask(&a, &q);
    for (uint32_t r = 0; r < 12; r++) {
        for (uint32_t i = 0; i < a.programs[r].n_ops; i++) {
            const struct op *op = &a.programs[r].ops[i];
            if (op->kind == OP_SEND && op->stream == STREAM_OUTER)
                assert_int_equal(op->peer, (r + 3) % 12);
            else if (op->kind == OP_SEND)
                assert_int_equal(op->peer, r / 3 * 3 + (r + 1) % 3);
        }
    }
    asked_fini(&a);
}

/* A window's message out is posted before any of its kernels, and nothing of the window waits for what it brings. */
static void messages_between_windows_are_hidden_behind_a_whole_window(void **state)
{
    (void)state;
    struct question q = {16, 4, 2, 8, 1, 128, "full", "forward", NULL, "algorithm = double-ring\nring_window = 4"};
    struct asked a;
    ask(&a, &q);
    for (uint32_t r = 0; r < 16; r++) {
        uint32_t kernels = 0, received = 0, buffer = NO_BUFFER;
        for (uint32_t i = 0; i < a.programs[r].n_ops; i++) {
            const struct op *op = &a.programs[r].ops[i];
            if (op->kind == OP_RECEIVE && op->stream == STREAM_OUTER) {
                assert_int_equal(kernels, 4 * received);
                buffer = *program_writes(&a.programs[r], op);
                received++;
            } else if (op->kind == OP_ATTEND) {
                bool reads = program_reads(&a.programs[r], op)[1] == buffer;
                assert_int_equal(reads, received == 3 && kernels == 12); /* the last one; earlier ones are replaced */
                kernels++;
            }
        }
        assert_int_equal(received, 3);
    }
    asked_fini(&a);
}

static void the_default_window_is_the_longer_of_two_most_equal_factors(void **state)
{
    (void)state;
    static const struct {
        uint32_t cp, messages; /* windows - 1 */
    } cases[] = {{1, 0}, {2, 0}, {4, 1}, {6, 1}, {7, 0}, {8, 1}, {9, 2}, {12, 2}, {16, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct question q = {cases[i].cp,      4,    2,         8,    1,
                             16 * cases[i].cp, NULL, "forward", NULL, "algorithm = double-ring"};
        struct asked a;
        ask(&a, &q);
        struct sent sent = sent_in(&a.programs[0], STREAM_OUTER);
        assert_int_equal(sent.messages[PHASE_FORWARD][TRAFFIC_FORWARD_KV], cases[i].messages);
        asked_fini(&a);
    }
}

static void uneven_and_empty_shards_are_proved(void **state)
{
    (void)state;
    static const char *const shards[] = {"3,2,7,4,1,3", "0,9,0,7,4,0", "20,0,0,0,0,0", "0,0,1,15,0,4"};
    for (unsigned i = 0; i < 4; i++) {
        for (uint32_t w = 1; w <= 6; w += w == 3 ? 3 : 1) {
            char keys[96];
            snprintf(keys, sizeof keys, "algorithm = double-ring\nring_window = %u\nsharding = %s", w, shards[i]);
            struct question q = {6, 8, 2, 4, 2, 20, "causal", "train", NULL, keys};
            struct asked a;
            ask(&a, &q);
            expect_proved(&a, keys);
            asked_fini(&a);
        }
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct question q = {16, 8, 4, 8, 1, 96, NULL, NULL, NULL, "algorithm = double-ring\nring_window = 3"};
    expect_refused(&q,
                   "'ring_window' = 3 does not divide the ring of 16 (cp = 16, ulysses_degree = 1), nearest: 2 or 4");
    q.schedule = "algorithm = double-ring\nring_window = 16\nulysses_degree = 2";
    expect_refused(&q, "'ring_window' = 16 does not divide the ring of 8 (cp = 16, ulysses_degree = 2), nearest: 8");
    q.schedule = "algorithm = double-ring\nulysses_degree = 16";
    expect_refused(&q, "cannot share out 8 query and 4 KV heads");
    q.schedule = "algorithm = double-ring\nring_window = 4\nbuffers = 1";
    expect_refused(&q, "in a window of 4 a rank passes one block on while it receives the next, so buffers = 1");
    q.schedule = "algorithm = double-ring\nskip = transfer";
    expect_refused(&q, "cannot do skip = transfer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_moves_between_windows_and_inside_them),
        cmocka_unit_test(only_the_outer_stream_leaves_a_window),
        cmocka_unit_test(messages_between_windows_are_hidden_behind_a_whole_window),
        cmocka_unit_test(the_default_window_is_the_longer_of_two_most_equal_factors),
        cmocka_unit_test(uneven_and_empty_shards_are_proved),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
