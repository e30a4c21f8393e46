/* Which messages are found to meet no other, on hand-made programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "sim/solitary.h"
#include "tests/sim/scene.h"

static const char one_switch[] = "[cluster]\ndevice = toy\n[level node]\nsize = 4\nkind = switch\n"
                                 "bandwidth = 10 GB/s\nlatency = 1 us\n";
static const char two_nodes[] = "[cluster]\ndevice = toy\n[level node]\nsize = 2\nkind = switch\n"
                                "bandwidth = 10 GB/s\nlatency = 1 us\n"
                                "[level net]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 10 GB/s\n"
                                "latency = 1 us\n";
static const char half_duplex[] = "[cluster]\ndevice = toy\n[level bus]\nsize = 2\nkind = mesh\n"
                                  "bandwidth = 10 GB/s\nlatency = 1 us\nduplex = half\n";

struct wish {
    enum stream stream;
    uint32_t from, to;
    uint32_t group; /* of the sender's messages that are posted together; 0: alone */
};

/* Whether the message from rank `from` to rank `to` is solitary among these. */
static bool is_solitary(const char *topology, uint32_t ranks, const struct wish *wishes, size_t n, uint32_t from,
                        uint32_t to)
{
    struct scene scene;
    struct diagnostics diag;
    scene_init(&scene, topology, ranks, 1);
    for (size_t i = 0; i < n; i++) {
        struct program *sender = &scene.programs[wishes[i].from];
        add_message(&scene, wishes[i].stream, wishes[i].from, wishes[i].to, 1000);
        while (sender->n_groups < wishes[i].group)
            program_new_group(sender);
        sender->ops[sender->n_ops - 1].group = wishes[i].group;
    }
    end_phase(&scene, PHASE_FORWARD);
    scene.cost = (struct cost){.device = &scene.device, .topology = &scene.topology};
    diagnostics_init(&diag);
    struct execution *execution = execution_create(scene.programs, ranks, 1, &diag);
    assert_non_null(execution);
    const struct simulation simulation = {.ensemble = execution_ensemble(execution),
                                          .cost = &scene.cost,
                                          .placement = &scene.placement};
    struct plan plan;
    expect_good(plan_init(&plan, &simulation, &diag), &diag);
    solitary_find(&plan);
    bool found = false, solitary = true;
    for (size_t p = plan.first_path[from]; p < plan.first_path[from + 1]; p++) {
        if (simulation.ensemble->peers[plan.paths[p].way].instance != to)
            continue;
        found = true;
        solitary = solitary && plan.paths[p].solitary;
    }
    assert_true(found);
    plan_fini(&plan);
    execution_destroy(execution);
    scene_fini(&scene);
    return solitary;
}

#define WISHES(...) (const struct wish[]){__VA_ARGS__}, sizeof(const struct wish[]){__VA_ARGS__} / sizeof(struct wish)
#define KV STREAM_EXCHANGE
#define DKV STREAM_GRADIENT

static void a_ring_on_a_switch_is(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < 4; from++)
        assert_true(is_solitary(one_switch, 4, WISHES({KV, 0, 1, 0}, {KV, 1, 2, 0}, {KV, 2, 3, 0}, {KV, 3, 0, 0}), from,
                                (from + 1) % 4));
}

static void messages_of_one_stream_follow_each_other(void **state)
{
    (void)state;
    assert_true(is_solitary(one_switch, 4, WISHES({KV, 0, 1, 0}, {KV, 0, 2, 0}, {KV, 0, 1, 0}), 0, 1));
    assert_true(is_solitary(one_switch, 4, WISHES({KV, 0, 1, 1}, {KV, 0, 1, 2}), 0, 1));
}

static void those_posted_together_meet(void **state)
{
    (void)state;
    assert_false(is_solitary(one_switch, 4, WISHES({KV, 0, 1, 1}, {KV, 0, 2, 1}), 0, 1));
    assert_false(is_solitary(one_switch, 4, WISHES({KV, 0, 1, 1}, {KV, 0, 1, 1}), 0, 1));
}

static void two_streams_meet_where_they_leave(void **state)
{
    (void)state;
    assert_false(is_solitary(one_switch, 4, WISHES({KV, 0, 1, 0}, {DKV, 0, 2, 0}), 0, 1));
    assert_false(is_solitary(one_switch, 4, WISHES({KV, 0, 1, 0}, {DKV, 0, 1, 0}), 0, 1));
}

static void two_senders_meet_where_they_arrive(void **state)
{
    (void)state;
    assert_false(is_solitary(one_switch, 4, WISHES({KV, 0, 2, 0}, {KV, 1, 2, 0}), 0, 2));
    assert_false(is_solitary(one_switch, 4, WISHES({KV, 0, 2, 0}, {KV, 1, 2, 0}), 1, 2));
    assert_true(is_solitary(one_switch, 4, WISHES({KV, 0, 2, 0}, {KV, 1, 2, 0}, {KV, 2, 3, 0}), 2, 3));
}

static void ways_over_one_uplink_meet(void **state)
{
    (void)state;
    assert_false(is_solitary(two_nodes, 4, WISHES({KV, 0, 2, 0}, {KV, 1, 3, 0}), 0, 2));
    assert_true(is_solitary(two_nodes, 4, WISHES({KV, 0, 2, 0}, {KV, 1, 0, 0}, {KV, 2, 1, 0}), 0, 2));
}

static void opposite_ways_meet_under_half_duplex(void **state)
{
    (void)state;
    assert_false(is_solitary(half_duplex, 2, WISHES({KV, 0, 1, 0}, {KV, 1, 0, 0}), 0, 1));
    assert_true(is_solitary(half_duplex, 2, WISHES({KV, 0, 1, 0}), 0, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_on_a_switch_is),
        cmocka_unit_test(messages_of_one_stream_follow_each_other),
        cmocka_unit_test(those_posted_together_meet),
        cmocka_unit_test(two_streams_meet_where_they_leave),
        cmocka_unit_test(two_senders_meet_where_they_arrive),
        cmocka_unit_test(ways_over_one_uplink_meet),
        cmocka_unit_test(opposite_ways_meet_under_half_duplex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
