/* How many channels NCCL gives a message, and whether the shipped topologies hold what was measured of links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/statistics.h"
#include "models/input/data_path.h"
#include "tests/link_patterns.h"

#define MIB (UINT64_C(1) << 20)

static void read_shipped(struct topology *topology, const char *name)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    char *path = data_path_find("topologies", name);
    assert_non_null(path);
    bool good = topology_read(topology, path, NULL, 0, &diag);
    diagnostics_print(&diag, stderr, "");
    assert_true(good);
    free(path);
    diagnostics_fini(&diag);
}

static uint32_t count(const struct topology *topology, uint32_t ranks, uint32_t span, uint32_t level, uint64_t bytes)
{
    return channels_of(topology, (struct communicator_size){ranks, span}, level, bytes).count;
}

static void inside_a_node_ranks_give_the_channels_and_size_doubles_them(void **state)
{
    (void)state;
    struct topology t;
    read_shipped(&t, "dgx-h100-4");
    static const struct {
        uint32_t ranks;
        uint64_t bytes;
        uint32_t channels;
    } cases[] = {
        {8, MIB, 4},
        {4, MIB, 8},
        {2, MIB, 16},
        {32, MIB, 1},
        {3, MIB, 8},
        {8, 16 * MIB, 4},
        {8, 64 * MIB, 4},
        {8, 64 * MIB + 4, 8},
        {8, 128 * MIB, 8},
        {8, 256 * MIB, 16},
        {8, 512 * MIB, 32},
        {8, 1024 * MIB, 32},
        {2, 256 * MIB, 16},
        {2, 257 * MIB, 32},
        {32, 16 * MIB, 1},
        {32, 32 * MIB, 2},
        {32, 512 * MIB, 32},
        /* small ones: a part is at least 8 KiB (LL) and more than 512 KiB are not small */
        {8, 1, 1},
        {8, 0, 1},
        {8, 8192, 1},
        {8, 8193, 2},
        {8, 24577, 4},
        {8, 65536, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t n = count(&t, cases[i].ranks, 0, 0, cases[i].bytes);
        if (n != cases[i].channels)
            fail_msg("%u ranks, %llu bytes: %u channels, not %u", cases[i].ranks, (unsigned long long)cases[i].bytes, n,
                     cases[i].channels);
    }
    const struct communicator_size eight = {8, 0};
    assert_true(channels_of(&t, eight, 0, 512 * 1024).small);
    assert_false(channels_of(&t, eight, 0, 512 * 1024 + 1).small);
    topology_fini(&t);
}

static void a_communicator_that_spans_nodes_has_what_the_network_gives_inside_them_too(void **state)
{
    (void)state;
    struct topology t;
    read_shipped(&t, "dgx-h100-4");
    for (uint32_t level = 0; level < 2; level++) {
        assert_int_equal(count(&t, 16, 1, level, 16 * MIB), 2); /* of 16 p2p channels: 1 each, doubled at 128 KiB */
        assert_int_equal(count(&t, 8, 1, level, 64 * MIB), 2);
        assert_int_equal(count(&t, 32, 1, level, 64 * MIB), 2);
    }
    assert_int_equal(count(&t, 16, 1, 1, 128 * 1024), 1);
    assert_int_equal(count(&t, 16, 1, 1, 128 * 1024 + 1), 2);
    /* Beyond 32 ranks the network's 2 would be more than 4 messages a channel. */
    assert_int_equal(channels_of(&t, (struct communicator_size){32, 1}, 1, 64 * MIB).per_peer, 2);
    assert_int_equal(channels_of(&t, (struct communicator_size){33, 1}, 1, 64 * MIB).per_peer, 1);
    topology_fini(&t);
}

static void fewer_nvlinks_fewer_channels(void **state)
{
    (void)state;
    struct topology t;
    read_shipped(&t, "hgx-h800-1");
    assert_int_equal(count(&t, 8, 0, 0, 16 * MIB), 2);
    assert_int_equal(count(&t, 2, 0, 0, 16 * MIB), 8);
    assert_int_equal(count(&t, 8, 0, 0, 1024 * MIB), 16);
    topology_fini(&t);
}

static double ring_shift(const struct cost *cost, uint64_t bytes)
{
    return link_pattern_seconds(cost, PATTERN_RING_SHIFT, 8, bytes);
}

/* Twice the channels for a part that has become too large: the same time from 64 to 128 MiB, half of it in between. */
static void time_grows_with_size_while_the_channels_stay(void **state)
{
    (void)state;
    struct topology t;
    read_shipped(&t, "dgx-h100-4");
    const struct cost cost = {.topology = &t};
    double before = 0;
    struct channels last = {0};
    for (double size = 1; size < 4e9; size = size * 1.07 + 1) {
        uint64_t bytes = (uint64_t)size;
        struct channels now = channels_of(&t, (struct communicator_size){8, 0}, 0, bytes);
        double seconds = ring_shift(&cost, bytes);
        if (now.count == last.count && now.small == last.small)
            assert_true(seconds >= before);
        assert_true(seconds >= t.levels[0].latency_seconds + (double)bytes / t.levels[0].message_bytes_per_s);
        before = seconds;
        last = now;
    }
    assert_true(fabs(ring_shift(&cost, 128 * MIB) - ring_shift(&cost, 64 * MIB)) < 1e-9);
    assert_true(ring_shift(&cost, 64 * MIB + 64) < 0.55 * ring_shift(&cost, 64 * MIB));
    topology_fini(&t);
}

static void without_channels_and_collectives_there_is_alpha_and_bandwidth(void **state)
{
    (void)state;
    struct topology t;
    read_shipped(&t, "dgx-h100-4");
    const struct cost cost = {.topology = &t, .without = 1U << MECHANISM_CHANNELS | 1U << MECHANISM_COLLECTIVES};
    double alpha = t.levels[0].latency_seconds;
    assert_true(fabs(ring_shift(&cost, 64 * MIB) - (alpha + 64.0 * MIB / 450e9)) < 1e-12);
    assert_true(fabs(link_pattern_seconds(&cost, PATTERN_ALL_GATHER, 8, 64 * MIB) - (alpha + 8.0 * MIB / 450e9)) <
                1e-12);
    /* A curve counts again, unless it is left out as well. */
    struct curve_point curve[] = {{64.0 * MIB, 76.5e9}};
    t.levels[0].curve = curve;
    t.levels[0].n_curve = 1;
    assert_true(fabs(ring_shift(&cost, 64 * MIB) - 64.0 * MIB / 76.5e9) < 1e-12);
    const struct cost bare = {.topology = &t, .without = cost.without | 1U << MECHANISM_CURVES};
    assert_true(fabs(ring_shift(&bare, 64 * MIB) - (alpha + 64.0 * MIB / 450e9)) < 1e-12);
    t.levels[0].curve = NULL;
    topology_fini(&t);
}

/* Messages of one group: two to one peer take turns on its channels, eight peers have channels of their own. */
static void what_is_posted_together_shares_channels(void **state)
{
    (void)state;
    struct topology t;
    read_shipped(&t, "dgx-h100-4");
    const struct cost cost = {.topology = &t};
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct route route;
    route_init(&route);
    assert_true(topology_route(&t, 0, 1, &route, &diag));
    struct transfer transfer = {.bytes = 16 * MIB,
                                .communicator = {8, 0},
                                .peer_bytes = 16 * MIB,
                                .posted_bytes = 16 * MIB,
                                .call = CALL_COUNT};
    assert_true(cost_transfer(&cost, &route, &transfer).bytes_per_s == 4 * 19.5e9);
    transfer.posted_bytes = 4 * transfer.bytes;
    assert_true(cost_transfer(&cost, &route, &transfer).bytes_per_s == 4 * 19.5e9);
    transfer.posted_bytes = 16 * transfer.bytes; /* 64 channels there are not; and no more than in a collective */
    const struct cost channels_alone = {.topology = &t, .without = 1U << MECHANISM_COLLECTIVES};
    assert_true(cost_transfer(&channels_alone, &route, &transfer).bytes_per_s == 2 * 19.5e9);
    assert_true(cost_transfer(&cost, &route, &transfer).bytes_per_s == 339e9 / 16);
    transfer.peer_bytes = transfer.posted_bytes = 2 * transfer.bytes;
    assert_true(cost_transfer(&cost, &route, &transfer).bytes_per_s == 2 * 19.5e9);
    transfer.communicator.ranks = 2;
    transfer.peer_bytes = transfer.posted_bytes = transfer.bytes;
    assert_true(cost_transfer(&cost, &route, &transfer).bytes_per_s == 292e9); /* 16 channels would be 312 */
    route_fini(&route);
    topology_fini(&t);
}

/* --- measured ----------------------------------------------------------------------------------------------------- */

struct errors {
    double all[PATTERN_COUNT][512];
    size_t n[PATTERN_COUNT];
};

/* Adds the relative errors of the rows of a published set, by pattern. */
static void add_errors(const char *set, const char *topology, struct errors *errors)
{
    struct topology t;
    read_shipped(&t, topology);
    const struct cost cost = {.topology = &t};
    char line[512];
    char *path = data_path_find("experiments/published", set);
    assert_non_null(path);
    memcpy(path + strlen(path) - 3, "csv", 3); /* beside the .ini */
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    assert_true(fgets(line, sizeof line, stream) && fgets(line, sizeof line, stream));
    while (fgets(line, sizeof line, stream)) {
        char word[40];
        unsigned ranks;
        unsigned long long bytes;
        double seconds;
        enum link_pattern pattern = PATTERN_COUNT;
        assert_int_equal(sscanf(line, "%39[^,],%u,%llu,seconds,%lf", word, &ranks, &bytes, &seconds), 4);
        assert_true(link_pattern_find(word, &pattern));
        double predicted = link_pattern_seconds(&cost, pattern, ranks, bytes);
        errors->all[pattern][errors->n[pattern]++] = fabs(predicted / seconds - 1);
    }
    fclose(stream);
    free(path);
    topology_fini(&t);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_error(struct errors *errors, enum link_pattern pattern)
{
    assert_true(errors->n[pattern] > 0);
    qsort(errors->all[pattern], errors->n[pattern], sizeof(double), compare);
    return errors->all[pattern][errors->n[pattern] / 2];
}

static void measured_ring_shifts_and_collectives_are_predicted(void **state)
{
    (void)state;
    static const struct {
        const char *sets[2], *topology;
        double median[PATTERN_COUNT];
    } cases[] = {
        {{"xla-h100", "xla-h100-others"}, "dgx-h100-4", {0.05, 0.10, 0.20, 0.25, 0.20}},
        {{"xla-b200", "xla-b200-others"}, "dgx-b200-4", {0.05, 0.13, 0.16, 0.13, 0.20}},
        {{"xla-gb200", "xla-gb200-others"}, "gb200-nvl72", {0.05, 0.08, 0.08, 0.15, 0.13}},
        {{"nccl-tests-a100"}, "dgx-a100-4", {0.05}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct errors errors;
        memset(&errors, 0, sizeof errors);
        for (size_t k = 0; k < 2 && cases[i].sets[k]; k++)
            add_errors(cases[i].sets[k], cases[i].topology, &errors);
        for (int p = 0; p < PATTERN_COUNT && cases[i].median[p] > 0; p++) {
            double median = median_error(&errors, (enum link_pattern)p);
            if (median > cases[i].median[p])
                fail_msg("%s, %s: median error %.3f, more than %.3f", cases[i].sets[0],
                         link_pattern_name((enum link_pattern)p), median, cases[i].median[p]);
        }
    }
}

/* The rate of its part of a fan, and the spread of a collective; less than that of its links only. */
static void a_message_of_a_fan_is_no_faster_than_its_part(void **state)
{
    (void)state;
    struct topology topology = {.n_levels = 2, .levels = {{.size = 4, .bytes_per_s = 20e9}, {.bytes_per_s = 20e9}}};
    struct cost cost = {.topology = &topology};
    const struct route route = {.bytes_per_s = 20e9, .alpha_seconds = 2e-6, .level = 1};
    struct transfer transfer = {.bytes = MIB, .peer_bytes = MIB, .posted_bytes = 7 * MIB, .call = CALL_ALL_TO_ALL};
    static const double fans[] = {0, 1e9, 30e9}, expected[] = {20e9, 1e9, 20e9};
    for (size_t i = 0; i < 3; i++) {
        transfer.fan_bytes_per_s = fans[i];
        cost.without = 0;
        struct transfer_cost result = cost_transfer(&cost, &route, &transfer);
        assert_true(result.bytes_per_s == expected[i] && result.delay_seconds == 2e-6);
        assert_int_equal(result.class, fans[i] < 2e9 && fans[i] > 0 ? MESSAGE_OF_COLLECTIVE : MESSAGE_LONE);
        assert_int_equal(result.level, fans[i] < 2e9 && fans[i] > 0 ? 0 : 1);
        cost.without = 1U << MECHANISM_FANS;
        result = cost_transfer(&cost, &route, &transfer);
        assert_true(result.bytes_per_s == 20e9 && result.class == MESSAGE_LONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside_a_node_ranks_give_the_channels_and_size_doubles_them),
        cmocka_unit_test(a_communicator_that_spans_nodes_has_what_the_network_gives_inside_them_too),
        cmocka_unit_test(fewer_nvlinks_fewer_channels),
        cmocka_unit_test(time_grows_with_size_while_the_channels_stay),
        cmocka_unit_test(without_channels_and_collectives_there_is_alpha_and_bandwidth),
        cmocka_unit_test(what_is_posted_together_shares_channels),
        cmocka_unit_test(measured_ring_shifts_and_collectives_are_predicted),
        cmocka_unit_test(a_message_of_a_fan_is_no_faster_than_its_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
