/* How links are shared: the rules that make a fluid model fit NVLink and RDMA, each in its smallest case. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

#define EXACT 1e-12

static const char one_switch[] = "[cluster]\ndevice = toy\n"
                                 "[level node]\nsize = 2\nkind = switch\nbandwidth = 1 GB/s\nlatency = 2 us\n";

static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};

static void one_message_takes_alpha_and_bytes_over_bandwidth(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        scene_init(&scene, one_switch, 2, 1);
        add_message(&scene, STREAM_EXCHANGE, 0, 1, 123456789);
        end_phase(&scene, PHASE_FORWARD);
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_true(outcome.good);
        assert_near(seconds_of(&outcome), 2e-6 + 0.123456789, EXACT);
        for (uint32_t end = 0; end < 2; end++) { /* both ends carry the message's moments */
            struct moment moment = moment_of(&outcome, end, 0);
            assert_true(moment.begin <= 0);
            assert_near(moment.move, 2e-6, EXACT);
            assert_near(moment.end, 2e-6 + 0.123456789, EXACT);
        }
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void opposite_transfers_of_a_full_duplex_link_do_not_meet(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, one_switch, 2, 1);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 100000000);
    add_message(&scene, STREAM_GRADIENT, 1, 0, 100000000);
    end_phase(&scene, PHASE_FORWARD);
    assert_near(scene_seconds(&engine_simgrid, &scene), 2e-6 + 0.1, EXACT);
    scene_fini(&scene);
}

static void opposite_transfers_of_a_half_duplex_link_take_twice_as_long(void **state)
{
    (void)state;
    static const char *const kinds[] = {"switch", "mesh", "ring"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char topology[256];
        snprintf(topology, sizeof topology,
                 "[cluster]\ndevice = toy\n"
                 "[level node]\nsize = 2\nkind = %s\nbandwidth = 1 GB/s\nlatency = 2 us\nduplex = half\n",
                 kinds[k]);
        struct scene scene;
        scene_init(&scene, topology, 2, 1);
        add_message(&scene, STREAM_EXCHANGE, 0, 1, 100000000);
        add_message(&scene, STREAM_GRADIENT, 1, 0, 100000000);
        end_phase(&scene, PHASE_FORWARD);
        assert_near(scene_seconds(&engine_simgrid, &scene), 2e-6 + 0.2, EXACT);
        assert_near(scene_seconds(&engine_analytic, &scene), 2e-6 + 0.1, EXACT);
        scene_fini(&scene);
    }
}

/* Two nodes of two; all that leaves a node shares its port, and passes the GPU's own link first. */
#define TWO_NODES(gpu_bandwidth, node_bandwidth)                                                                       \
    "[cluster]\ndevice = toy\n"                                                                                        \
    "[level node]\nsize = 4\nkind = switch\nbandwidth = " gpu_bandwidth "\nlatency = 1 us\n"                           \
    "[level cluster]\nsize = 2\nkind = switch\nattach = node\nbandwidth = " node_bandwidth "\nlatency = 500 us\n"

static void flows_of_different_alpha_share_a_link_equally(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, TWO_NODES("1 GB/s", "100 GB/s"), 8, 1);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 100000000); /* in the node: 1 us */
    add_message(&scene, STREAM_GRADIENT, 0, 4, 100000000); /* to the other one: 500 us more */
    end_phase(&scene, PHASE_FORWARD);
    struct outcome outcome;
    run_scene(&outcome, &engine_simgrid, &scene);
    assert_true(outcome.good);
    double near_start = moment_of(&outcome, 0, 0).move, far_start = moment_of(&outcome, 0, 1).move;
    assert_true(far_start - near_start > 400e-6);
    /* Alone until the other comes, then half each until the first has ended; the link is never idle. */
    double ahead = (far_start - near_start) * 1e9;
    assert_near(moment_of(&outcome, 0, 0).end, far_start + 2 * (1e8 - ahead) / 1e9, EXACT);
    assert_near(moment_of(&outcome, 0, 1).end, near_start + 2 * 0.1, EXACT);
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static void k_flows_through_one_uplink_take_k_times_as_long(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= 4; k++) {
        struct scene scene;
        scene_init(&scene, TWO_NODES("1 TB/s", "10 GB/s"), 8, 1);
        for (uint32_t i = 0; i < k; i++)
            add_message(&scene, STREAM_EXCHANGE, i, 4 + i, 1000000000);
        end_phase(&scene, PHASE_FORWARD);
        struct outcome outcome;
        run_scene(&outcome, &engine_simgrid, &scene);
        assert_true(outcome.good);
        for (uint32_t i = 0; i < k; i++)
            assert_near(moment_of(&outcome, i, 0).end, moment_of(&outcome, i, 0).move + 0.1 * k, EXACT);
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void the_groups_of_a_layout_share_links(void **state)
{
    (void)state;
    struct scene scene; /* groups of two ranks: {0, 4}, {1, 5}, {2, 6}, {3, 7} */
    scene_init(&scene, TWO_NODES("1 TB/s", "10 GB/s"), 2, 4);
    scene.placement.stride[PARALLEL_CP] = 4;
    scene.placement.stride[PARALLEL_DP] = 1;
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 1000000000);
    end_phase(&scene, PHASE_FORWARD);
    struct outcome outcome;
    run_scene(&outcome, &engine_simgrid, &scene);
    assert_true(outcome.good);
    for (uint32_t i = 0; i < 8; i++)
        assert_near(moment_of(&outcome, i, 0).end, moment_of(&outcome, i, 0).move + 0.4, EXACT);
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static void a_long_fast_route_gets_its_full_bandwidth(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene,
               "[cluster]\ndevice = toy\n"
               "[level node]\nsize = 2\nkind = switch\nbandwidth = 450 GB/s\nlatency = 1 ms\n",
               2, 1);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, 450000000);
    end_phase(&scene, PHASE_FORWARD);
    assert_near(scene_seconds(&engine_simgrid, &scene), 2e-3, EXACT);
    scene_fini(&scene);
}

static void a_byte_count_beyond_32_bits_travels_whole(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, one_switch, 2, 1);
    add_message(&scene, STREAM_EXCHANGE, 0, 1, UINT64_C(5368709120));
    end_phase(&scene, PHASE_FORWARD);
    for (int e = 0; e < 2; e++)
        assert_near(scene_seconds(both[e], &scene), 2e-6 + 5.36870912, EXACT);
    scene_fini(&scene);
}

static void a_phase_begins_when_the_one_before_has_ended_everywhere(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        scene_init(&scene, one_switch, 2, 1);
        add_work(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 1000000);
        add_work(&scene, 1, STREAM_COMPUTE, new_buffer(&scene, 1), 3000000);
        end_phase(&scene, PHASE_FORWARD);
        add_work(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 1000000);
        end_phase(&scene, PHASE_BACKWARD);
        struct outcome outcome;
        run_scene(&outcome, both[e], &scene);
        assert_true(outcome.good);
        assert_near(outcome.timeline.phase_end[PHASE_FORWARD], 3e-3, EXACT);
        assert_near(outcome.timeline.phase_end[PHASE_BACKWARD], 4e-3, EXACT);
        struct moment moment = moment_of(&outcome, 0, 1);
        assert_near(moment.begin, 3e-3, EXACT);
        assert_near(moment.move, 3e-3, EXACT);
        assert_near(moment.end, 4e-3, EXACT);
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void an_empty_phase_ends_with_the_one_before(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        scene_init(&scene, one_switch, 2, 1);
        struct outcome outcome;
        end_phase(&scene, PHASE_FORWARD); /* nothing at all to do */
        run_scene(&outcome, both[e], &scene);
        assert_true(outcome.good && seconds_of(&outcome) <= 0);
        outcome_fini(&outcome);
        add_work(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 1000);
        end_phase(&scene, PHASE_FORWARD);
        run_scene(&outcome, both[e], &scene);
        assert_near(outcome.timeline.phase_end[PHASE_FORWARD], 1e-6, EXACT);
        assert_near(outcome.timeline.phase_end[PHASE_BACKWARD], 1e-6, EXACT);
        outcome_fini(&outcome);
        scene_fini(&scene);
    }
}

static void operations_of_no_duration_take_none(void **state)
{
    (void)state;
    for (int e = 0; e < 2; e++) {
        struct scene scene;
        scene_init(&scene, one_switch, 2, 1);
        uint32_t buffer = new_buffer(&scene, 0);
        for (int i = 0; i < 20000; i++)
            add_work(&scene, 0, (enum stream)(i % STREAM_COUNT), buffer, 0);
        add_work(&scene, 0, STREAM_COMPUTE, buffer, 7);
        end_phase(&scene, PHASE_FORWARD);
        assert_near(scene_seconds(both[e], &scene), 7e-9, EXACT);
        scene_fini(&scene);
    }
}

struct shares {
    int calls;
    double last;
};

static void take_share(void *context, double share)
{
    struct shares *shares = context;
    assert_true(share > shares->last && share <= 1);
    shares->calls++;
    shares->last = share;
}

static void progress_grows_from_nothing_to_one(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, one_switch, 2, 1);
    for (int i = 0; i < 1000; i++) {
        add_message(&scene, STREAM_EXCHANGE, 0, 1, 1000);
        add_work(&scene, 0, STREAM_COMPUTE, new_buffer(&scene, 0), 1);
    }
    end_phase(&scene, PHASE_FORWARD);
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct shares shares = {0};
    struct timeline timeline;
    timeline_init(&timeline, scene.programs, 2, 1);
    scene.cost = (struct cost){.device = &scene.device, .topology = &scene.topology};
    struct execution *execution = execution_create(scene.programs, 2, 1, &diag);
    assert_non_null(execution);
    struct simulation simulation = {.ensemble = execution_ensemble(execution),
                                    .cost = &scene.cost,
                                    .placement = &scene.placement,
                                    .progress = take_share,
                                    .progress_context = &shares};
    assert_true(engine_analytic.run(&simulation, &timeline, &diag));
    assert_true(shares.last >= 1);
    assert_in_range(shares.calls, 90, 110);
    execution_destroy(execution);
    timeline_fini(&timeline);
    diagnostics_fini(&diag);
    scene_fini(&scene);
}

static void engines_are_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; engines[i]; i++)
        assert_ptr_equal(engine_find(engines[i]->name), engines[i]);
    assert_null(engine_find("SimGrid"));
    assert_null(engine_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_message_takes_alpha_and_bytes_over_bandwidth),
        cmocka_unit_test(opposite_transfers_of_a_full_duplex_link_do_not_meet),
        cmocka_unit_test(opposite_transfers_of_a_half_duplex_link_take_twice_as_long),
        cmocka_unit_test(flows_of_different_alpha_share_a_link_equally),
        cmocka_unit_test(k_flows_through_one_uplink_take_k_times_as_long),
        cmocka_unit_test(the_groups_of_a_layout_share_links),
        cmocka_unit_test(a_long_fast_route_gets_its_full_bandwidth),
        cmocka_unit_test(a_byte_count_beyond_32_bits_travels_whole),
        cmocka_unit_test(a_phase_begins_when_the_one_before_has_ended_everywhere),
        cmocka_unit_test(an_empty_phase_ends_with_the_one_before),
        cmocka_unit_test(operations_of_no_duration_take_none),
        cmocka_unit_test(progress_grows_from_nothing_to_one),
        cmocka_unit_test(engines_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
