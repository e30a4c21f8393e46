/* Whole schedules against formulas: with equal blocks and one flow a link, both engines must give them exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

#define ROWS 64                     /* of a rank */
#define BLOCK_BYTES (ROWS * 4096.0) /* K and V of 8 heads of 128 in bf16 */
#define ALPHA 3e-6
#define BANDWIDTH 50e9
#define MESSAGE (ALPHA + BLOCK_BYTES / BANDWIDTH)

static const uint32_t rank_counts[] = {2, 3, 4, 8, 48};
static const struct engine_ops *const both[] = {&engine_simgrid, &engine_analytic};

static void ask_pass(struct scene *scene, uint32_t ranks, const char *pass, const char *schedule)
{
    char topology[256], experiment[512];
    snprintf(topology, sizeof topology,
             "[cluster]\ndevice = toy\n"
             "[level node]\nsize = %u\nkind = switch\nbandwidth = 50 GB/s\nlatency = 3 us\n",
             ranks);
    snprintf(experiment, sizeof experiment,
             "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n"
             "[workload]\nseq_len = %u\nbatch = 1\nmask = full\npass = %s\n"
             "[parallel]\ncp = %u\n"
             "[schedule]\nsharding = contiguous\n%s\n",
             ranks * ROWS, pass, ranks, schedule);
    scene_ask(scene, topology, experiment);
}

static void ask_switch(struct scene *scene, uint32_t ranks, const char *schedule)
{
    ask_pass(scene, ranks, "forward", schedule);
}

/* Lets the attention of one block take `seconds`. */
static void set_block_seconds(struct scene *scene, double seconds)
{
    scene->device.launch_seconds = seconds / ((double)ROWS * ROWS);
}

static void ring_takes_steps_times_the_slower_of_block_and_message(void **state)
{
    (void)state;
    static const double block_seconds[] = {0, 0.3 * MESSAGE, MESSAGE, 3 * MESSAGE};
    for (size_t p = 0; p < sizeof rank_counts / sizeof *rank_counts; p++) {
        uint32_t ranks = rank_counts[p];
        struct scene scene;
        ask_switch(&scene, ranks, "algorithm = ring\noverlap = yes\nbuffers = 2");
        for (size_t t = 0; t < sizeof block_seconds / sizeof *block_seconds; t++) {
            double block = block_seconds[t], step = block > MESSAGE ? block : MESSAGE;
            set_block_seconds(&scene, block);
            for (int e = 0; e < 2; e++)
                assert_near(scene_seconds(both[e], &scene), (ranks - 1) * step + block, 1e-9);
        }
        scene_fini(&scene);
    }
}

static void ring_without_overlap_takes_both(void **state)
{
    (void)state;
    struct scene scene;
    ask_switch(&scene, 8, "algorithm = ring\noverlap = no\nbuffers = 2");
    set_block_seconds(&scene, 2 * MESSAGE);
    for (int e = 0; e < 2; e++)
        assert_near(scene_seconds(both[e], &scene), 7 * MESSAGE + 8 * 2 * MESSAGE, 1e-9);
    scene_fini(&scene);
}

static void all_gather_by_ring_takes_all_messages_then_all_blocks(void **state)
{
    (void)state;
    for (size_t p = 0; p < sizeof rank_counts / sizeof *rank_counts; p++) {
        uint32_t ranks = rank_counts[p];
        struct scene scene;
        ask_switch(&scene, ranks, "algorithm = all-gather\ncollective = ring");
        set_block_seconds(&scene, 0.7 * MESSAGE);
        for (int e = 0; e < 2; e++)
            assert_near(scene_seconds(both[e], &scene), (ranks - 1) * MESSAGE + ranks * 0.7 * MESSAGE, 1e-9);
        scene_fini(&scene);
    }
}

/* Blocks that take longer than what moves meanwhile hide all of it, but for the last gradient's way home. In the
 * model's dtype a gradient is as large as its block. */
static void training_hides_replay_and_gradients_behind_long_blocks(void **state)
{
    (void)state;
    static const char *const schedules[] = {"algorithm = ring\ngradients = model",
                                            "algorithm = direct\ngradients = model"};
    for (size_t s = 0; s < 2; s++) {
        for (uint32_t ranks = 2; ranks <= 5; ranks++) {
            struct scene scene;
            ask_pass(&scene, ranks, "train", schedules[s]);
            double block = 3 * MESSAGE;
            set_block_seconds(&scene, block);
            for (int e = 0; e < 2; e++)
                assert_near(scene_seconds(both[e], &scene), 2 * ranks * block + MESSAGE, 1e-9);
            scene_fini(&scene);
        }
    }
}

/* Every rank sends P-1 blocks at once through its one port: a bandwidth that only an engine with contention sees. */
static void all_gather_direct_pays_alpha_once(void **state)
{
    (void)state;
    for (size_t p = 0; p < sizeof rank_counts / sizeof *rank_counts; p++) {
        uint32_t ranks = rank_counts[p];
        struct scene scene;
        ask_switch(&scene, ranks, "algorithm = all-gather\ncollective = direct");
        set_block_seconds(&scene, 0.7 * MESSAGE);
        double compute = ranks * 0.7 * MESSAGE;
        assert_near(scene_seconds(&engine_simgrid, &scene), ALPHA + (ranks - 1) * BLOCK_BYTES / BANDWIDTH + compute,
                    1e-9);
        assert_near(scene_seconds(&engine_analytic, &scene), MESSAGE + compute, 1e-9);
        scene_fini(&scene);
    }
}

/* Two ranks: the first block's attention runs beside the one message and takes s of its moving time longer; the second
 * runs alone. */
static void transfers_slow_compute_by_their_share(void **state)
{
    (void)state;
    static const double shares[] = {0, 0.25, 0.5, 1}, moving = BLOCK_BYTES / BANDWIDTH;
    const double blocks[] = {ALPHA + 0.75 * moving, 3 * MESSAGE};
    struct scene scene;
    ask_switch(&scene, 2, "algorithm = ring");
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        for (size_t t = 0; t < 2; t++) {
            scene.device.transfer_slowdown = shares[s];
            set_block_seconds(&scene, blocks[t]);
            double first = blocks[t] + shares[s] * moving;
            if (shares[s] < 0.25 && t == 0) /* done before the message is */
                first = MESSAGE;
            for (int e = 0; e < 2; e++)
                assert_near(scene_seconds(both[e], &scene), first + blocks[t], 1e-9);
        }
    }
    scene_fini(&scene);
}

/* Worked by hand: 31 steps of 2 us + 32 MiB / 50 GiB/s through the slowest hop, and one block of compute. */
static void a_ring_over_nodes_goes_at_the_pace_of_the_links_between_them(void **state)
{
    (void)state;
    static const struct {
        double block_seconds, expected;
    } cases[] = {{50e-6, 19.487e-3}, {500e-6, 19.937e-3}};
    struct scene scene;
    scene_ask(&scene,
              "[cluster]\ndevice = toy\n"
              "[level node]\nsize = 8\nkind = switch\nbandwidth = 400 GiB/s\nlatency = 0.5 us\n"
              "[level cluster]\nsize = 4\nkind = switch\nattach = rail\nbandwidth = 50 GiB/s\nlatency = 2 us\n",
              "[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 128\ndtype = bf16\n"
              "[workload]\nseq_len = 262144\nbatch = 1\nmask = full\npass = forward\n"
              "[parallel]\ncp = 32\n"
              "[schedule]\nalgorithm = ring\nsharding = contiguous\noverlap = yes\nbuffers = 2\n");
    for (int c = 0; c < 2; c++) {
        scene.device.launch_seconds = cases[c].block_seconds / (8192.0 * 8192.0);
        for (int e = 0; e < 2; e++)
            assert_near(scene_seconds(both[e], &scene), cases[c].expected, 1e-3);
    }
    scene_fini(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_takes_steps_times_the_slower_of_block_and_message),
        cmocka_unit_test(ring_without_overlap_takes_both),
        cmocka_unit_test(all_gather_by_ring_takes_all_messages_then_all_blocks),
        cmocka_unit_test(training_hides_replay_and_gradients_behind_long_blocks),
        cmocka_unit_test(all_gather_direct_pays_alpha_once),
        cmocka_unit_test(transfers_slow_compute_by_their_share),
        cmocka_unit_test(a_ring_over_nodes_goes_at_the_pace_of_the_links_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
