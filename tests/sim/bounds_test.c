/* What holds for any program: random programs and schedules (fixed seeds) over random clusters, against the bounds that
 * no machine can beat, against the engine without contention, against a faster network, and against themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/scene.h"

#define SLACK 1e-9 /* relative: what floating point may lose */

static uint32_t below(uint64_t *random, uint32_t bound)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*random >> 33) % bound);
}

static const char *one_of(uint64_t *random, const char *const *words, uint32_t n)
{
    return words[below(random, n)];
}

/* Two levels of random kinds and speeds; `factor` scales every bandwidth. At least 4 GPUs, at most 16. */
static void random_topology(uint64_t *random, uint32_t factor, char *text, size_t size)
{
    static const char *const kinds[] = {"switch", "mesh", "ring"};
    uint32_t inner = 2 + below(random, 3), outer = 2 + below(random, 3);
    const char *inner_kind = one_of(random, kinds, 3), *outer_kind = one_of(random, kinds, 3);
    uint32_t inner_speed = 100 + below(random, 400), outer_speed = 10 + below(random, 100);
    const char *attach = below(random, 2) ? "rail" : "node", *duplex = below(random, 3) ? "full" : "half";
    snprintf(text, size,
             "[cluster]\ndevice = toy\n"
             "[level node]\nsize = %u\nkind = %s\nbandwidth = %u MB/s\nlatency = 1 us\nduplex = %s\n"
             "[level cluster]\nsize = %u\nkind = %s\nattach = %s\nbandwidth = %u MB/s\nlatency = 5 us\n",
             inner, inner_kind, inner_speed * factor, duplex, outer, outer_kind, attach, outer_speed * factor);
}

/* Messages between random pairs of ranks and random work, appended to all programs in one order, so that nothing can
 * deadlock; buffers are shared now and then, so that streams wait for each other. */
static void random_programs(struct scene *scene, uint64_t *random, bool one_stream_a_pair)
{
    uint32_t ranks = scene->ranks;
    for (uint32_t r = 0; r < ranks; r++)
        for (int i = 0; i < 4; i++)
            new_buffer(scene, r);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        uint32_t n = 10 + below(random, 60);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t from = below(random, ranks), to = (from + 1 + below(random, ranks - 1)) % ranks;
            if (below(random, 2)) {
                uint32_t buffer = below(random, 4);
                add_work(scene, from, STREAM_COMPUTE, buffer, below(random, 400) * 1000);
                continue;
            }
            enum stream stream = (enum stream)below(random, STREAM_COUNT);
            if (one_stream_a_pair)
                stream = (enum stream)((from + to) % STREAM_COUNT);
            uint64_t bytes = 1 + below(random, 4000000);
            add_send(scene, from, stream, below(random, 4), to, bytes);
            add_receive(scene, to, stream, below(random, 4), from, bytes);
        }
        end_phase(scene, (enum phase)phase);
    }
}

static double work_seconds(const struct scene *scene, const struct program *program, enum stream stream)
{
    double seconds = 0;
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].stream == stream && !op_is_message(&program->ops[i]))
            seconds += (double)program->ops[i].pairs * scene->device.launch_seconds;
    return seconds;
}

/* The longest that a stream computes, and the longest that a link transfers at its full bandwidth. */
static double lower_bound(const struct scene *scene)
{
    double bound = 0;
    for (uint32_t r = 0; r < scene->ranks; r++)
        for (int s = 0; s < STREAM_COUNT; s++) {
            double seconds = work_seconds(scene, &scene->programs[r], (enum stream)s);
            bound = bound < seconds ? seconds : bound;
        }
    double *busy = memory_zeroed(scene->topology.n_links, sizeof *busy);
    struct route route;
    route_init(&route);
    for (uint32_t i = 0; i < scene->ranks * scene->placement.groups; i++) {
        const struct program *program = &scene->programs[i % scene->ranks];
        uint32_t group = i / scene->ranks;
        for (uint32_t o = 0; o < program->n_ops; o++) {
            if (program->ops[o].kind != OP_SEND)
                continue;
            assert_true(topology_route(&scene->topology, placement_gpu(&scene->placement, group, i % scene->ranks),
                                       placement_gpu(&scene->placement, group, program->ops[o].peer), &route, NULL));
            for (size_t l = 0; l < route.n_links; l++) {
                double *link = &busy[route.links[l]];
                *link += (double)program->ops[o].bytes / topology_link(&scene->topology, route.links[l]).bytes_per_s;
                bound = bound < *link ? *link : bound;
            }
        }
    }
    route_fini(&route);
    free(busy);
    return bound;
}

/* No operation ends earlier in `late` than in `early`; with `equal`, nor later. */
static void assert_not_earlier(const struct scene *scene, const struct outcome *late, const struct outcome *early,
                               bool equal)
{
    for (uint32_t i = 0; i < late->timeline.n_instances; i++)
        for (uint32_t o = 0; o < scene->programs[i % scene->ranks].n_ops; o++) {
            double a = moment_of(late, i, o).end, b = moment_of(early, i, o).end;
            if (a < b * (1 - SLACK) || (equal && a > b * (1 + SLACK)))
                fail_msg("operation %u of instance %u ends at %.12g and at %.12g", o, i, a, b);
        }
}

static void check_bounds(struct scene *scene)
{
    struct outcome shared, alone;
    run_scene(&shared, &engine_simgrid, scene);
    run_scene(&alone, &engine_analytic, scene);
    assert_string_equal(shared.messages, "");
    assert_true(shared.good && alone.good);
    assert_not_earlier(scene, &shared, &alone, false);
    assert_true(seconds_of(&shared) >= lower_bound(scene) * (1 - SLACK));
    outcome_fini(&shared);
    outcome_fini(&alone);
}

static void contention_only_delays_and_no_bound_is_beaten(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t random = seed;
        char topology[512];
        random_topology(&random, 1, topology, sizeof topology);
        struct scene scene;
        scene_init(&scene, topology, 2 + below(&random, 3), 1);
        if (scene.topology.n_gpus >= 2 * scene.ranks)
            scene.placement.groups = 1 + below(&random, 2);
        random_programs(&scene, &random, false);
        check_bounds(&scene);
        scene_fini(&scene);
    }
}

static void engines_agree_where_nothing_is_shared(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t random = seed;
        struct scene scene; /* a cable for each pair, and each pair's messages one after the other */
        scene_init(&scene,
                   "[cluster]\ndevice = toy\n"
                   "[level node]\nsize = 5\nkind = mesh\nbandwidth = 3 GB/s\nlatency = 7 us\n",
                   5, 1);
        random_programs(&scene, &random, true);
        struct outcome shared, alone;
        run_scene(&shared, &engine_simgrid, &scene);
        run_scene(&alone, &engine_analytic, &scene);
        assert_true(shared.good && alone.good);
        assert_not_earlier(&scene, &shared, &alone, true);
        outcome_fini(&shared);
        outcome_fini(&alone);
        scene_fini(&scene);
    }
}

static void equal_input_gives_equal_bytes(void **state)
{
    (void)state;
    uint64_t random = 42;
    char topology[512];
    random_topology(&random, 1, topology, sizeof topology);
    struct scene scene;
    scene_init(&scene, topology, 4, 1);
    random_programs(&scene, &random, false);
    for (size_t e = 0; engines[e]; e++) {
        struct outcome first, second;
        run_scene(&first, engines[e], &scene);
        run_scene(&second, engines[e], &scene);
        assert_true(first.good && second.good);
        for (uint32_t r = 0; r < 4; r++)
            assert_memory_equal(first.timeline.moments[r], second.timeline.moments[r],
                                scene.programs[r].n_ops * sizeof(struct moment));
        outcome_fini(&first);
        outcome_fini(&second);
    }
    scene_fini(&scene);
}

static void random_experiment(uint64_t *random, char *text, size_t size)
{
    static const char *const algorithm_names[] = {"all-gather", "ring", "direct"};
    static const char *const masks[] = {"full", "causal", "window:700"};
    static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
    static const char *const skips[] = {"none", "compute", "transfer"};
    static const char *const passes[] = {"forward", "train"}, *const collectives[] = {"ring", "direct"};
    uint32_t algorithm = below(random, 3), ranks = 2 + below(random, 3), kv_block = 150 * below(random, 2);
    bool gathers = algorithm == 0, overlap = below(random, 4) > 0;
    uint32_t buffers = (gathers ? 1 : 2) + below(random, 2);
    const char *mask = one_of(random, masks, 3), *pass = one_of(random, passes, 2);
    const char *sharding = one_of(random, shardings, 3), *skip = one_of(random, skips, gathers ? 2 : 3);
    snprintf(text, size,
             "[model]\nq_heads = 8\nkv_heads = 4\nhead_dim = 64\ndtype = bf16\n"
             "[workload]\nseq_len = 1920\nbatch = 1\nmask = %s\npass = %s\n"
             "[parallel]\ncp = %u\n"
             "[schedule]\nalgorithm = %s\nsharding = %s\noverlap = %s\nbuffers = %u\nskip = %s\nkv_block = %u\n"
             "collective = %s\n",
             mask, pass, ranks, algorithm_names[algorithm], sharding, overlap ? "yes" : "no", buffers, skip, kv_block,
             one_of(random, collectives, 2));
}

/* Random experiments; under the sanitizers one of three. */
#ifdef __SANITIZE_ADDRESS__
#define SEEDS_APART 3
#else
#define SEEDS_APART 1
#endif

static void schedules_keep_the_bounds_and_a_faster_network_never_slows_them(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed += SEEDS_APART) {
        double before = 0;
        for (uint32_t factor = 1; factor <= 4; factor *= 2) {
            uint64_t random = seed;
            char topology[512], experiment[512];
            random_topology(&random, factor, topology, sizeof topology);
            random_experiment(&random, experiment, sizeof experiment);
            struct scene scene;
            scene_ask(&scene, topology, experiment);
            scene.device.launch_seconds = 1e-9 * (1 + below(&random, 20));
            check_bounds(&scene);
            double seconds = scene_seconds(&engine_simgrid, &scene);
            if (factor > 1 && seconds > before * (1 + SLACK))
                fail_msg("seed %u: %.12g s become %.12g s at twice the bandwidth:\n%s%s", (unsigned)seed, before,
                         seconds, topology, experiment);
            before = seconds;
            scene_fini(&scene);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contention_only_delays_and_no_bound_is_beaten),
        cmocka_unit_test(engines_agree_where_nothing_is_shared),
        cmocka_unit_test(equal_input_gives_equal_bytes),
        cmocka_unit_test(schedules_keep_the_bounds_and_a_faster_network_never_slows_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
