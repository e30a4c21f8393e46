/* Messages that wait for the SMs of an attention kernel: closed forms that both engines must give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};

#define ALPHA 7000.0 /* ns; bytes are ns too */

static void init_ranks(struct scene *scene, uint32_t ranks)
{
    scene_init(scene,
               "[cluster]\ndevice = toy\n[level node]\nsize = 3\nkind = switch\nbandwidth = 1 GB/s\nlatency = 7 us\n",
               ranks, 1);
    scene->device.processors = 8;
    scene_waits = true;
}

static uint32_t add_kernel(struct scene *scene, uint32_t rank, enum op_kind kind, enum stream stream, uint32_t buffer,
                           uint64_t nanoseconds, uint32_t last_wave)
{
    struct op op = {.kind = (uint8_t)kind, .stream = (uint8_t)stream, .k = {0, 0, last_wave}, .pairs = nanoseconds};
    return program_add_op(&scene->programs[rank], op, NULL, 0, &buffer, 1);
}

static uint32_t add_attention(struct scene *scene, uint32_t rank, uint64_t nanoseconds, uint32_t last_wave)
{
    return add_kernel(scene, rank, OP_ATTEND, STREAM_COMPUTE, new_buffer(scene, rank), nanoseconds, last_wave);
}

/* The send, in the program of rank 0. */
static uint32_t add_message_there(struct scene *scene, uint64_t bytes)
{
    add_message(scene, STREAM_EXCHANGE, 0, 1, bytes);
    return scene->programs[0].n_ops - 1;
}

/* When the message `send` of rank 0 begins, moves and ends, in ns, by both engines. */
static void expect_message(struct scene *scene, uint32_t send, double begin, double move, double end)
{
    for (int e = 0; e < 2; e++) {
        struct outcome outcome;
        run_scene(&outcome, both[e], scene);
        assert_string_equal(outcome.messages, "");
        assert_true(outcome.good);
        struct moment moment = moment_of(&outcome, 0, send);
        assert_near(moment.begin * 1e9 + 1, begin + 1, 1e-8);
        assert_near(moment.move * 1e9, move, 1e-8);
        assert_near(moment.end * 1e9, end, 1e-8);
        outcome_fini(&outcome);
    }
}

static void end_both(struct scene *scene)
{
    end_phase(scene, PHASE_FORWARD);
    end_phase(scene, PHASE_BACKWARD);
}

static void expect_and_end(struct scene *scene, uint32_t send, double begin, double move, double bytes)
{
    end_both(scene);
    expect_message(scene, send, begin, move, move + bytes);
    scene_fini(scene);
    scene_waits = false;
}

/* Ready together with attention: until that has handed out its tiles, w before its end, at the later of both ends. */
static void a_transfer_waits_until_the_tiles_are_handed_out(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (uint32_t w = 0; w <= 9000; w += 3000) { /* all in one wave: nothing to wait for; 0: persistent */
            for (int waits = 0; waits < 2; waits++) {
                struct scene scene;
                init_ranks(&scene, 2);
                scene_waits = waits;
                uint32_t send = add_message_there(&scene, 400);
                add_attention(&scene, rank, 9000, w);
                add_attention(&scene, 1 - rank, 5000, 4000);
                double handed_out = w < 8000 ? 9000.0 - w : 1000.0;
                expect_and_end(&scene, send, 0, (waits ? handed_out : 0) + ALPHA, 400);
            }
        }
    }
}

static void it_waits_for_one_kernel_only(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    uint32_t send = add_message_there(&scene, 400);
    for (int i = 0; i < 3; i++)
        add_attention(&scene, 0, 5000, i == 0 ? 1000 : 0);
    expect_and_end(&scene, send, 0, 4000 + ALPHA, 400);
}

/* The first kernel's end lets the message be called, and the next kernel begin; that wins. */
static void it_is_called_behind_the_kernels_before_it(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    add_kernel(&scene, 1, OP_MERGE, STREAM_COMPUTE, new_buffer(&scene, 1), 300, 0);
    uint32_t send = add_message_there(&scene, 400);
    add_attention(&scene, 1, 5000, 1000);
    expect_and_end(&scene, send, 300, 300 + 4000 + ALPHA, 400);
}

/* Attention that becomes ready a nanosecond later finds the transfer there; a transfer ready later finds attention. */
static void who_is_ready_first_is_first(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        struct scene scene;
        init_ranks(&scene, 2);
        uint32_t buffer = new_buffer(&scene, 0);
        if (late)
            add_work(&scene, 0, STREAM_GRADIENT, buffer, 1);
        uint32_t send = add_message_there(&scene, 400);
        add_kernel(&scene, 0, OP_ATTEND, STREAM_COMPUTE, buffer, 5000, 1000);
        expect_and_end(&scene, send, 0, (late ? 0 : 4000) + ALPHA, 400);
    }
    struct scene scene;
    init_ranks(&scene, 2);
    uint32_t buffer = new_buffer(&scene, 0);
    add_work(&scene, 0, STREAM_GRADIENT, buffer, 1500);
    add_send(&scene, 0, STREAM_EXCHANGE, buffer, 1, 400);
    add_receive(&scene, 1, STREAM_EXCHANGE, new_buffer(&scene, 1), 0, 400);
    uint32_t send = scene.programs[0].n_ops - 1;
    add_attention(&scene, 0, 5000, 1000);
    expect_and_end(&scene, send, 1500, 4000 + ALPHA, 400);
}

/* What only streams memory hands out its blocks at once. */
static void only_attention_fills_the_device(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    uint32_t send = add_message_there(&scene, 400);
    add_kernel(&scene, 0, OP_MERGE, STREAM_COMPUTE, new_buffer(&scene, 0), 5000, 0);
    expect_and_end(&scene, send, 0, ALPHA, 400);
}

/* Called in the stream of the kernel that follows, a message does not wait for the other stream's end. */
static void it_is_called_in_the_stream_of_the_next_kernel(void **state)
{
    (void)state;
    struct scene scene;
    init_ranks(&scene, 2);
    add_attention(&scene, 0, 9000, 2000);
    uint32_t send = add_message_there(&scene, 400);
    add_kernel(&scene, 0, OP_ATTEND, STREAM_COMPUTE_2, new_buffer(&scene, 0), 9000, 2000);
    expect_and_end(&scene, send, 0, 7000 + ALPHA, 400);
}

/* Two messages posted together are one kernel: the second, whose peer is ready while attention fills the device, has
 * its SMs, from the begin or since the first got them; posted apart, it waits. */
static void messages_of_a_group_have_their_sms_together(void **state)
{
    (void)state;
    static const struct {
        uint32_t kernel, peer; /* ready at */
        double first, second[2];
    } cases[] = {{100, 500, 0, {8100, 500}}, {0, 10000, 8000, {17000, 10000}}};
    for (uint32_t c = 0; c < 4; c++) {
        bool together = c % 2;
        struct scene scene;
        init_ranks(&scene, 3);
        struct program *program = &scene.programs[0];
        uint32_t late = new_buffer(&scene, 2), kernel_buffer = new_buffer(&scene, 0);
        add_work(&scene, 0, STREAM_GRADIENT, kernel_buffer, cases[c / 2].kernel);
        add_work(&scene, 2, STREAM_GRADIENT, late, cases[c / 2].peer);
        uint32_t group = program_new_group(program), first = add_message_there(&scene, 400);
        enum stream stream = together ? STREAM_EXCHANGE : STREAM_GRADIENT;
        add_send(&scene, 0, stream, new_buffer(&scene, 0), 2, 400);
        add_receive(&scene, 2, stream, late, 0, 400);
        uint32_t second = program->n_ops - 1;
        if (together)
            program->ops[first].group = program->ops[second].group = group;
        for (int kernel = 0; kernel < 2; kernel++)
            add_kernel(&scene, 0, OP_ATTEND, STREAM_COMPUTE, kernel_buffer, 9000, 1000);
        end_both(&scene);
        for (int e = 0; e < 2; e++) {
            struct outcome outcome;
            run_scene(&outcome, both[e], &scene);
            assert_near(moment_of(&outcome, 0, first).move * 1e9, cases[c / 2].first + ALPHA, 1e-8);
            assert_near(moment_of(&outcome, 0, second).move * 1e9, cases[c / 2].second[together] + ALPHA, 1e-8);
            outcome_fini(&outcome);
        }
        scene_fini(&scene);
        scene_waits = false;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_waits_until_the_tiles_are_handed_out),
        cmocka_unit_test(it_waits_for_one_kernel_only),
        cmocka_unit_test(it_is_called_behind_the_kernels_before_it),
        cmocka_unit_test(who_is_ready_first_is_first),
        cmocka_unit_test(only_attention_fills_the_device),
        cmocka_unit_test(it_is_called_in_the_stream_of_the_next_kernel),
        cmocka_unit_test(messages_of_a_group_have_their_sms_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
