/* Rings and messages that meet on a node's way out, against closed forms.
 *
 * A ring of P ranks, one a node, with c seconds of compute a step: when k such rings run at once and all leave a node
 * by one uplink of bandwidth W, a step's message takes alpha + k B / W, so each ring takes (P - 1) max(c, alpha + k B /
 * W)
 * + c. Where links are their own, k is 1. The analytic engine knows no sharing and takes k = 1 always.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "tests/sim/scene.h"

#define EXACT 1e-9
#define NODES 4
#define GPUS 8 /* of a node */
#define ROWS 64
#define BLOCK_BYTES (ROWS * 4096.0) /* K and V of 8 heads of 128 in bf16 */
#define UPLINK 10e9
#define ALPHA 3e-6 /* from node to node: 1 us to the node's port, 2 us beyond */

/* Nodes whose GPUs have fast links inside and, outside, one uplink for all (`attach` = node) or one each (rail). */
static void write_nodes(char *text, size_t size, uint32_t nodes, const char *attach, const char *bandwidth,
                        const char *duplex)
{
    snprintf(text, size,
             "[cluster]\ndevice = toy\n"
             "[level node]\nsize = %d\nkind = switch\nbandwidth = 1 TB/s\nlatency = 1 us\n"
             "[level cluster]\nsize = %u\nkind = switch\nattach = %s\nbandwidth = %s\nlatency = 2 us\nduplex = %s\n",
             GPUS, nodes, attach, bandwidth, duplex);
}

/* k rings, the i-th of the i-th GPUs of all nodes. */
static void ask_rings(struct scene *scene, const char *attach, uint32_t k)
{
    char topology[600], experiment[400];
    write_nodes(topology, sizeof topology, NODES, attach, "10 GB/s", "full");
    snprintf(experiment, sizeof experiment,
             "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n"
             "[workload]\nseq_len = %d\nbatch = 1\nmask = full\npass = forward\n"
             "[parallel]\ncp = %d\ndp = %d\norder = tp,dp,cp\n"
             "[schedule]\nalgorithm = ring\nsharding = contiguous\noverlap = yes\nbuffers = 2\n",
             NODES * ROWS, NODES, GPUS);
    scene_ask(scene, topology, experiment);
    scene->placement.groups = k;
}

static void set_step_seconds(struct scene *scene, double seconds)
{
    scene->device.launch_seconds = seconds / ((double)ROWS * ROWS);
}

static double ring_seconds(double step, double message)
{
    return (NODES - 1) * fmax(step, message) + step;
}

static void k_rings_through_one_uplink_take_k_times_their_bytes(void **state)
{
    (void)state;
    static const double steps[] = {0, 50e-6, 1e-3};
    for (uint32_t k = 1; k <= GPUS; k *= 2) {
        struct scene scene;
        ask_rings(&scene, "node", k);
        for (int s = 0; s < 3; s++) {
            set_step_seconds(&scene, steps[s]);
            assert_near(scene_seconds(&engine_simgrid, &scene),
                        ring_seconds(steps[s], ALPHA + k * BLOCK_BYTES / UPLINK), EXACT);
            assert_near(scene_seconds(&engine_analytic, &scene), ring_seconds(steps[s], ALPHA + BLOCK_BYTES / UPLINK),
                        EXACT);
        }
        scene_fini(&scene);
    }
}

/* A GPU's own NIC is reached without a link inside the node. */
static void k_rings_each_with_its_nic_do_not_meet(void **state)
{
    (void)state;
    static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};
    for (uint32_t k = 1; k <= GPUS; k *= 2) {
        struct scene scene;
        ask_rings(&scene, "rail", k);
        set_step_seconds(&scene, 10e-6);
        for (int e = 0; e < 2; e++)
            assert_near(scene_seconds(both[e], &scene), ring_seconds(10e-6, 2e-6 + BLOCK_BYTES / UPLINK), EXACT);
        scene_fini(&scene);
    }
}

#define MESSAGE_BYTES UINT64_C(100000000)

/* Of the message that rank `rank` of group `group` sends first. */
static double end_of_first_send(const struct scene *scene, const struct outcome *outcome, uint32_t group, uint32_t rank)
{
    const struct program *program = &scene->programs[rank];
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].kind == OP_SEND)
            return moment_of(outcome, group * scene->ranks + rank, i).end;
    }
    fail_msg("rank %u sends nothing", rank);
    return 0;
}

/* Every GPU of a node of 8 sends to its counterpart through the node's port; a GPU's own link takes 50 GB/s. */
static void oversubscription_divides_what_leaves_a_node(void **state)
{
    (void)state;
    static const struct {
        const char *uplink;
        uint32_t ratio;
    } trees[] = {{"400 GB/s", 1}, {"200 GB/s", 2}, {"100 GB/s", 4}};
    for (size_t t = 0; t < sizeof trees / sizeof *trees; t++) {
        char topology[600];
        snprintf(topology, sizeof topology,
                 "[cluster]\ndevice = toy\n"
                 "[level node]\nsize = 8\nkind = switch\nbandwidth = 50 GB/s\nlatency = 1 us\n"
                 "[level cluster]\nsize = 2\nkind = switch\nattach = node\nbandwidth = %s\nlatency = 2 us\n",
                 trees[t].uplink);
        struct scene scene;
        struct outcome outcome;
        scene_init(&scene, topology, 2 * GPUS, 1);
        for (uint32_t i = 0; i < GPUS; i++)
            add_message(&scene, STREAM_EXCHANGE, i, GPUS + i, MESSAGE_BYTES);
        end_phase(&scene, PHASE_FORWARD);
        run_scene(&outcome, &engine_simgrid, &scene);
        for (uint32_t i = 0; i < GPUS; i++)
            assert_near(end_of_first_send(&scene, &outcome, 0, i), ALPHA + trees[t].ratio * 2e-3, EXACT);
        outcome_fini(&outcome);
        assert_near(scene_seconds(&engine_analytic, &scene), ALPHA + 2e-3, EXACT);
        scene_fini(&scene);
    }
}

/* Two levels of oversubscription, 2:1 to a pod and 2:1 beyond: between pods a quarter is left of a GPU's bandwidth,
 * inside a pod half. */
static void oversubscription_of_levels_multiplies(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene,
               "[cluster]\ndevice = toy\n"
               "[level node]\nsize = 4\nkind = switch\nbandwidth = 50 GB/s\nlatency = 1 us\n"
               "[level pod]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 100 GB/s\nlatency = 1 us\n"
               "[level cluster]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 100 GB/s\nlatency = 1 us\n",
               16, 1);
    for (uint32_t i = 0; i < 8; i++)
        add_message(&scene, STREAM_EXCHANGE, i, 8 + i, MESSAGE_BYTES);
    end_phase(&scene, PHASE_FORWARD);
    assert_near(scene_seconds(&engine_simgrid, &scene), 3e-6 + 4 * 2e-3, EXACT);
    assert_near(scene_seconds(&engine_analytic, &scene), 3e-6 + 2e-3, EXACT);
    scene_fini(&scene);
    scene_init(&scene,
               "[cluster]\ndevice = toy\n"
               "[level node]\nsize = 4\nkind = switch\nbandwidth = 50 GB/s\nlatency = 1 us\n"
               "[level pod]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 100 GB/s\nlatency = 1 us\n"
               "[level cluster]\nsize = 2\nkind = switch\nattach = node\nbandwidth = 100 GB/s\nlatency = 1 us\n",
               16, 1);
    for (uint32_t i = 0; i < 4; i++)
        add_message(&scene, STREAM_EXCHANGE, i, 4 + i, MESSAGE_BYTES);
    end_phase(&scene, PHASE_FORWARD);
    assert_near(scene_seconds(&engine_simgrid, &scene), 2e-6 + 2 * 2e-3, EXACT);
    scene_fini(&scene);
}

/* The same 10 GB/s as one NIC for eight GPUs, or as a NIC for each. */
static void a_shared_nic_takes_eight_times_what_a_nic_per_gpu_takes(void **state)
{
    (void)state;
    static const struct {
        const char *attach;
        double seconds;
    } nics[] = {{"node", ALPHA + GPUS * 0.01}, {"rail", 2e-6 + 0.01}};
    for (int n = 0; n < 2; n++) {
        char topology[600];
        struct scene scene;
        write_nodes(topology, sizeof topology, 2, nics[n].attach, "10 GB/s", "full");
        scene_init(&scene, topology, 2 * GPUS, 1);
        for (uint32_t i = 0; i < GPUS; i++)
            add_message(&scene, STREAM_EXCHANGE, i, GPUS + i, MESSAGE_BYTES);
        end_phase(&scene, PHASE_FORWARD);
        assert_near(scene_seconds(&engine_simgrid, &scene), nics[n].seconds, EXACT);
        scene_fini(&scene);
    }
}

/* k messages out of a node and k into it. */
static void two_directions_meet_under_half_duplex_only(void **state)
{
    (void)state;
    static const char *const attaches[] = {"node", "rail"};
    for (uint32_t k = 1; k <= GPUS; k *= 2) {
        for (int half = 0; half < 2; half++) {
            for (int rail = 0; rail < 2; rail++) {
                char topology[600];
                struct scene scene;
                write_nodes(topology, sizeof topology, 2, attaches[rail], "10 GB/s", half ? "half" : "full");
                scene_init(&scene, topology, 2 * GPUS, 1);
                for (uint32_t i = 0; i < k; i++) {
                    add_message(&scene, STREAM_EXCHANGE, i, GPUS + i, MESSAGE_BYTES);
                    add_message(&scene, STREAM_GRADIENT, GPUS + i, i, MESSAGE_BYTES);
                }
                end_phase(&scene, PHASE_FORWARD);
                double flows = (rail ? 1 : k) * (half ? 2 : 1), alpha = rail ? 2e-6 : ALPHA;
                assert_near(scene_seconds(&engine_simgrid, &scene), alpha + flows * 0.01, EXACT);
                assert_near(scene_seconds(&engine_analytic, &scene), alpha + 0.01, EXACT);
                scene_fini(&scene);
            }
        }
    }
}

/* Groups of two ranks: group g is GPUs 2g and 2g + 1 (`stride` 1: inside nodes), or g and g + 8 (across them). The end
 * of each group's message, of `groups` groups. */
static void group_ends(const char *attach, uint64_t stride, uint32_t groups, double ends[GPUS])
{
    char topology[600];
    struct scene scene;
    struct outcome outcome;
    write_nodes(topology, sizeof topology, 2, attach, "10 GB/s", "full");
    scene_init(&scene, topology, 2, groups);
    scene.placement.stride[PARALLEL_CP] = stride;
    scene.placement.stride[PARALLEL_DP] = stride == 1 ? 2 : 1;
    add_message(&scene, STREAM_EXCHANGE, 0, 1, MESSAGE_BYTES);
    end_phase(&scene, PHASE_FORWARD);
    run_scene(&outcome, &engine_simgrid, &scene);
    assert_true(outcome.good);
    for (uint32_t g = 0; g < groups; g++)
        ends[g] = end_of_first_send(&scene, &outcome, g, 0);
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static void groups_that_share_no_link_do_not_slow_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *attach;
        uint64_t stride;
        bool share;
    } layouts[] = {{"node", 1, false}, {"rail", GPUS, false}, {"node", GPUS, true}};
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        double alone[GPUS], together[GPUS];
        group_ends(layouts[l].attach, layouts[l].stride, 1, alone);
        group_ends(layouts[l].attach, layouts[l].stride, GPUS, together);
        for (uint32_t g = 0; g < GPUS; g++) {
            if (layouts[l].share)
                assert_near(together[g], ALPHA + GPUS * (alone[0] - ALPHA), EXACT);
            else
                assert_near(together[g], alone[0], 1e-12);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k_rings_through_one_uplink_take_k_times_their_bytes),
        cmocka_unit_test(k_rings_each_with_its_nic_do_not_meet),
        cmocka_unit_test(oversubscription_divides_what_leaves_a_node),
        cmocka_unit_test(oversubscription_of_levels_multiplies),
        cmocka_unit_test(a_shared_nic_takes_eight_times_what_a_nic_per_gpu_takes),
        cmocka_unit_test(two_directions_meet_under_half_duplex_only),
        cmocka_unit_test(groups_that_share_no_link_do_not_slow_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
