/* What a ring order makes of the links: steps that cross nodes, the load of the hottest link, and the time of the step,
 * against closed forms on nodes that share one uplink. All groups of a layout run at once and contend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "tests/sim/scene.h"

/* Nodes of four; what leaves a node goes over its one uplink. No latencies: times are bytes over bandwidths. */
#define NODES "4"
static const char shared_uplinks[] =
    "[cluster]\ndevice = toy\n"
    "[level node]\nsize = 4\nkind = switch\nbandwidth = 400 GB/s\nlatency = 0 s\n"
    "[level cluster]\nsize = " NODES "\nkind = switch\nattach = node\nbandwidth = 10 GB/s\nlatency = 0 s\n";

#define UPLINK_BYTES_PER_S 10e9

/* A ring's forward pass over a full mask, `parallel` its keys. */
static void ask(struct scene *scene, const char *parallel)
{
    char *text = memory_format("[model]\nq_heads = 4\nkv_heads = 4\nhead_dim = 64\ndtype = bf16\n"
                               "[workload]\nseq_len = 65536\nmask = full\npass = forward\n"
                               "[parallel]\n%s\n[schedule]\nalgorithm = ring\n",
                               parallel);
    scene_ask(scene, shared_uplinks, text);
    scene->device.launch_seconds = 0; /* of each pair: messages alone take time */
    free(text);
}

static uint64_t block_bytes(const struct scene *scene)
{
    for (uint32_t i = 0; i < scene->programs[0].n_ops; i++)
        if (scene->programs[0].ops[i].kind == OP_SEND)
            return scene->programs[0].ops[i].bytes;
    return 0;
}

/* Steps of all rings, the last to the first too, between GPUs of different nodes. */
static uint32_t steps_across(const struct scene *scene)
{
    uint32_t across = 0, cp = scene->placement.cp;
    for (uint32_t g = 0; g < scene->placement.groups; g++)
        for (uint32_t r = 0; r < cp; r++)
            across +=
                placement_gpu(&scene->placement, g, r) / 4 != placement_gpu(&scene->placement, g, (r + 1) % cp) / 4;
    return across;
}

/* Bytes over the hottest link between nodes. */
static uint64_t hottest_bytes(const struct scene *scene)
{
    const struct topology *topology = &scene->topology;
    uint64_t *bytes = memory_zeroed(topology->n_links, sizeof *bytes), hottest = 0;
    struct route route;
    route_init(&route);
    for (uint32_t g = 0; g < scene->placement.groups; g++)
        for (uint32_t r = 0; r < scene->ranks; r++)
            for (uint32_t i = 0; i < scene->programs[r].n_ops; i++) {
                const struct op *op = &scene->programs[r].ops[i];
                if (op->kind != OP_SEND)
                    continue;
                assert_true(topology_route(topology, placement_gpu(&scene->placement, g, r),
                                           placement_gpu(&scene->placement, g, op->peer), &route, NULL));
                for (size_t l = 0; l < route.n_links; l++)
                    bytes[route.links[l]] += op->bytes;
            }
    for (uint64_t l = 0; l < topology->n_links; l++)
        if (topology_link(topology, l).level == 1 && bytes[l] > hottest)
            hottest = bytes[l];
    route_fini(&route);
    free(bytes);
    return hottest;
}

/* In every step of the rings each uplink carries `flows` blocks, and all rings wait for it: cp - 1 steps of that. */
static void expect(const char *parallel, uint32_t across, uint32_t flows)
{
    struct scene scene;
    ask(&scene, parallel);
    uint64_t block = block_bytes(&scene), steps = scene.ranks - 1;
    if (steps_across(&scene) != across)
        fail_msg("%s: %u steps cross nodes, expected %u", parallel, steps_across(&scene), across);
    assert_int_equal(hottest_bytes(&scene), steps * flows * block);
    double seconds = (double)(steps * flows * block) / UPLINK_BYTES_PER_S;
    if (flows)
        assert_near(scene_seconds(&engine_simgrid, &scene), seconds, 1e-6);
    scene_fini(&scene);
}

/* m ranks of each group in each of its n nodes: a ring that goes node after node leaves each once, n steps; one that
 * goes lane after lane leaves with every step, m n. `order` decides m and n: the cp ranks of a group are as far apart
 * as all that is inside of cp. */
static void rings_cross_as_often_as_they_must(void **state)
{
    (void)state;
    /* tp 2 inside: two lanes of each node a group, two groups over all four nodes */
    expect("cp = 8\ntp = 2\norder = tp,cp,dp", 2 * 4, 2);
    expect("cp = 8\ntp = 2\norder = tp,cp,dp\nring = snake", 2 * 4, 2);
    expect("cp = 8\ntp = 2\norder = tp,cp,dp\nring = rail", 2 * 8, 4);
    /* cp inside: a group fills two nodes, and the other the other two */
    expect("cp = 8\ntp = 2\norder = cp,tp,dp", 2 * 2, 1);
    expect("cp = 8\ntp = 2\norder = cp,tp,dp\nring = rail", 2 * 8, 4);
    /* one ring over all */
    expect("cp = 16", 4, 1);
    expect("cp = 16\nring = snake", 4, 1);
    expect("cp = 16\nring = rail", 16, 4);
    /* four lanes, four groups: each has a GPU of each node, whatever its ring */
    expect("cp = 4\ntp = 4\norder = tp,cp,dp", 4 * 4, 4);
    expect("cp = 4\ntp = 4\norder = tp,cp,dp\nring = 0,2,1,3", 4 * 4, 4);
    /* inside a node nothing crosses */
    expect("cp = 4\ntp = 4\norder = cp,tp,dp", 0, 0);
    /* a list that goes to and fro between two nodes */
    expect("cp = 8\nring = 0,4,1,5,2,6,3,7", 8, 4);
}

/* Rings of two dp groups leave the nodes over one uplink. Alone, one has it to itself. */
static void rings_of_all_groups_contend(void **state)
{
    (void)state;
    struct scene scene;
    double seconds[2];
    for (uint32_t groups = 1; groups <= 2; groups++) {
        ask(&scene, "cp = 8\ndp = 2\norder = dp,cp,tp");
        scene.placement.groups = groups;
        seconds[groups - 1] = scene_seconds(&engine_simgrid, &scene);
        scene_fini(&scene);
    }
    assert_near(seconds[1], 2 * seconds[0], 1e-6);
    ask(&scene, "cp = 8\ndp = 2\norder = cp,dp,tp"); /* in nodes of their own they do not meet */
    assert_near(scene_seconds(&engine_simgrid, &scene), seconds[0], 1e-6);
    scene_fini(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_cross_as_often_as_they_must),
        cmocka_unit_test(rings_of_all_groups_contend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
