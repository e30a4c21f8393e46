/* Messages to ranks of other groups, on layouts of tp x cp x dp ranks: closed forms of rings over tp and over dp x cp,
 * on links that are alike and with one that is not; replicas that begin a phase at different times; what does not fit.
 * By both engines, which agree where no two messages share a link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "tests/sim/scene.h"

#define ALPHA 2e-6
#define RATE 100e6
#define BYTES 1000000
#define TIME (ALPHA + BYTES / RATE) /* of a message */

/* Any GPU sends to any other at RATE. */
static char *cluster(uint32_t gpus, const char *overrides)
{
    return memory_format("[cluster]\ndevice = toy\n[level net]\nsize = %u\nkind = switch\nbandwidth = 100 MB/s\n"
                         "latency = 2 us\n%s",
                         gpus, overrides);
}

static void begin(struct scene *scene, struct layout layout, const char *overrides)
{
    char *text = cluster(layout.cp * layout.tp * layout.dp, overrides);
    scene_init_layout(scene, text, layout);
    free(text);
}

static void near(double actual, double expected)
{
    if (fabs(actual - expected) > 1e-9 * expected)
        fail_msg("%.12g s, expected %.12g", actual, expected);
}

/* Sends `out` to one peer and gets `in` from another, at once. */
static void shift(struct scene *scene, uint32_t rank, enum stream stream, uint32_t out, uint32_t to, uint32_t in,
                  uint32_t from)
{
    struct program *program = &scene->programs[rank];
    struct op op = {
        .stream = (uint8_t)stream, .part = PART_ALL, .group = program_new_group(program), .bytes = BYTES, .peer = to};
    op.kind = OP_SEND;
    program_add_op(program, op, &out, 1, NULL, 0);
    op.kind = OP_RECEIVE;
    op.peer = from;
    program_add_op(program, op, NULL, 0, &in, 1);
}

static void end_phases(struct scene *scene)
{
    end_phase(scene, PHASE_FORWARD);
    end_phase(scene, PHASE_BACKWARD);
}

/* Each rank sends to the next of its tp ring, then works on what came. With the link up from one GPU at half its rate,
 * it is that GPU's message which takes longer, and the next rank of its tp ring which ends later. */
static void a_ring_over_tp(void **state)
{
    (void)state;
    const struct layout layout = {.cp = 2, .tp = 3, .dp = 2};
    static const char *const overrides[] = {"", "[override slow]\nlink = net: gpu 9 up\nfactor = 0.5\n"};
    for (int slow = 0; slow < 2; slow++) {
        for (int e = 0; engines[e]; e++) {
            struct scene scene;
            struct outcome outcome;
            begin(&scene, layout, overrides[slow]);
            for (uint32_t r = 0; r < layout.cp; r++) {
                uint32_t out = new_buffer(&scene, r), in = new_buffer(&scene, r);
                shift(&scene, r, STREAM_TENSOR, out, peer_number(&layout, (struct peer_place){r, 1, 0}), in,
                      peer_number(&layout, (struct peer_place){r, layout.tp - 1, 0}));
                add_work(&scene, r, STREAM_COMPUTE, in, 5000);
            }
            end_phases(&scene);
            run_scene(&outcome, engines[e], &scene);
            assert_string_equal(outcome.messages, "");
            for (uint32_t gpu = 0; gpu < 12; gpu++) {
                /* GPU 9: rank 1, tp 1, dp 1; after it in the ring comes tp 2, GPU 11. */
                double sent = slow && gpu == 9 ? TIME + BYTES / RATE : TIME;
                double received = slow && gpu == 11 ? TIME + BYTES / RATE : TIME;
                near(moment_of(&outcome, gpu, 0).end, sent);
                near(moment_of(&outcome, gpu, 1).end, received);
                near(moment_of(&outcome, gpu, 2).end, fmax(sent, received) + 5e-6);
            }
            outcome_fini(&outcome);
            scene_fini(&scene);
        }
    }
}

/* The block of each of N = dp x cp ranks goes round their ring, w = dp * cp degree + cp, in N - 1 steps, while each
 * works on what it has; each tp rank has a ring of its own. A slow link makes every step of its ring as long as one
 * over it, from the rank behind it on: that one has N - 1 such steps. */
static void a_ring_over_dp_and_cp(void **state)
{
    (void)state;
    const struct layout layout = {.cp = 2, .tp = 2, .dp = 3};
    const uint32_t n = layout.cp * layout.dp;
    static const char *const overrides[] = {"", "[override slow]\nlink = net: gpu 5 up\nfactor = 0.25\n"};
    for (int slow = 0; slow < 2; slow++) {
        for (int e = 0; engines[e]; e++) {
            struct scene scene;
            struct outcome outcome;
            begin(&scene, layout, overrides[slow]);
            for (uint32_t r = 0; r < layout.cp; r++) {
                uint32_t last = layout.cp - 1, held = new_buffer(&scene, r);
                uint32_t next = peer_number(&layout, (struct peer_place){(r + 1) % layout.cp, 0, r == last});
                uint32_t before = peer_number(&layout, (struct peer_place){r ? r - 1 : last, 0, r ? 0 : layout.dp - 1});
                for (uint32_t step = 0; step + 1 < n; step++) {
                    uint32_t in = new_buffer(&scene, r);
                    shift(&scene, r, STREAM_REDUCTION, held, next, in, before);
                    add_work(&scene, r, STREAM_COMPUTE, held, 1000);
                    held = in;
                }
                add_work(&scene, r, STREAM_COMPUTE, held, 1000);
            }
            end_phases(&scene);
            run_scene(&outcome, engines[e], &scene);
            assert_string_equal(outcome.messages, "");
            double slow_time = ALPHA + 4 * BYTES / RATE;
            near(seconds_of(&outcome), (n - 1) * (slow ? slow_time : TIME) + 2e-6);
            for (uint32_t i = 0; i < n * layout.tp; i++) {
                /* GPU 5 is rank 1, tp 0, dp 1: w = 3; those of tp 1 have nothing to do with it. */
                uint32_t group = i / layout.cp, w = group / layout.tp * layout.cp + i % layout.cp;
                double end = moment_of(&outcome, i, scene.programs[i % layout.cp].n_ops - 1).end;
                if (!slow || group % layout.tp != 0)
                    near(end, (n - 1) * TIME + 2e-6);
                else if (w == 4)
                    near(end, (n - 1) * slow_time + 2e-6);
                else
                    assert_true(end > (n - 1) * TIME + 2.1e-6);
            }
            outcome_fini(&outcome);
            scene_fini(&scene);
        }
    }
}

/* Replica 1 of three has a slow GPU; backward begins with a message to the replica ahead: it waits for both. */
static void a_message_waits_for_the_phases_of_both_its_ends(void **state)
{
    (void)state;
    const struct layout layout = {.cp = 1, .tp = 2, .dp = 3};
    for (int e = 0; engines[e]; e++) {
        struct scene scene;
        struct outcome outcome;
        begin(&scene, layout, "[override lame]\ngpu = 3\nspeed = 0.5\n");
        scene.replicas = true;
        uint32_t out = new_buffer(&scene, 0), in = new_buffer(&scene, 0);
        add_work(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 10000);
        end_phase(&scene, PHASE_FORWARD);
        shift(&scene, 0, STREAM_REDUCTION, out, peer_number(&layout, (struct peer_place){0, 0, 1}), in,
              peer_number(&layout, (struct peer_place){0, 0, 2}));
        end_phase(&scene, PHASE_BACKWARD);
        run_scene(&outcome, engines[e], &scene);
        assert_string_equal(outcome.messages, "");
        for (uint32_t group = 0; group < 6; group++) { /* GPU and group are one, replica = group / 2 */
            bool lame = group == 3;
            double to = group / 2 < 2 ? 20e-6 : 10e-6, from = group / 2 > 0 ? 20e-6 : 10e-6;
            near(moment_of(&outcome, group, 0).end, lame ? 20e-6 : 10e-6);
            near(moment_of(&outcome, group, 1).begin, to);
            near(moment_of(&outcome, group, 1).end, to + TIME);
            near(moment_of(&outcome, group, 2).begin, from);
            near(moment_of(&outcome, group, 2).end, from + TIME);
        }
        near(seconds_of(&outcome), 20e-6 + TIME);
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

/* What is sent forward is received backward: of no replica does the forward phase end before the next one's. */
static void replicas_that_wait_for_each_others_phases_are_a_deadlock(void **state)
{
    (void)state;
    const struct layout layout = {.cp = 1, .tp = 1, .dp = 2};
    for (int e = 0; engines[e]; e++) {
        struct scene scene;
        struct outcome outcome;
        begin(&scene, layout, "");
        scene.replicas = true;
        add_send(&scene, 0, STREAM_TENSOR, new_buffer(&scene, 0), 1, BYTES);
        end_phase(&scene, PHASE_FORWARD);
        add_receive(&scene, 0, STREAM_TENSOR, new_buffer(&scene, 0), 1, BYTES);
        end_phase(&scene, PHASE_BACKWARD);
        run_scene(&outcome, engines[e], &scene);
        assert_false(outcome.good);
        assert_non_null(
            strstr(outcome.messages, "rank 0 of group 0, tensor stream: 'send b to rank 1, 1000000 bytes,'"));
        assert_non_null(strstr(outcome.messages, "waits for rank 0 of group 1 to post the other end"));
        assert_non_null(strstr(outcome.messages, "waits for rank 0 of group 0 to post the other end"));
        assert_non_null(strstr(outcome.messages, "deadlock in the forward phase: 2 streams wait for each other"));
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void refuse(uint32_t peer, const char *message)
{
    const struct layout layout = {.cp = 2, .tp = 2, .dp = 3};
    struct scene scene;
    struct outcome outcome;
    begin(&scene, layout, "");
    add_send(&scene, 1, STREAM_TENSOR, new_buffer(&scene, 1), peer, BYTES);
    end_phases(&scene);
    run_scene(&outcome, &engine_analytic, &scene);
    assert_false(outcome.good);
    assert_non_null(strstr(outcome.messages, message));
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static void ends_that_meet_none_are_refused(void **state)
{
    (void)state;
    refuse(0,
           "rank 1: no rank posts the other end of 'send b to rank 0, 1000000 bytes,' (operation 0, tensor stream)\n");
    refuse(10, "(operation 0, tensor stream), where rank 10 is rank 0 of the group 1 tp and 2 dp ahead\n");
    refuse(12, "rank 1: operation 0 names rank 12, but there are 12\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_over_tp),
        cmocka_unit_test(a_ring_over_dp_and_cp),
        cmocka_unit_test(a_message_waits_for_the_phases_of_both_its_ends),
        cmocka_unit_test(replicas_that_wait_for_each_others_phases_are_a_deadlock),
        cmocka_unit_test(ends_that_meet_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
