/* Which ranks of a two-level algorithm are neighbours decides which links carry what: schedule.inner, on two nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "tests/predict.h"

static const char two_nodes[] =
    "[cluster]\ndevice = toy\n"
    "[level node]\nsize = 4\nkind = switch\nbandwidth = 450 GB/s\nlatency = 1 us\n"
    "[level cluster]\nsize = 2\nkind = switch\nattach = rail\nbandwidth = 50 GB/s\nlatency = 4 us\n";

/* Bytes that messages carry from node to node, as the report's links count them, for usp with groups of `degree`. */
static uint64_t bytes_across(const char *sharding, const char *inner, uint32_t degree, const char *algorithm,
                             struct prediction *prediction)
{
    char keys[160];
    snprintf(keys, sizeof keys, "algorithm = %s\nsharding = %s\nulysses_degree = %u\ninner = %s", algorithm, sharding,
             degree, inner);
    struct toy toy = {8, 4, 64, 1024, "full", "forward", 8, keys};
    assert_int_equal(predict(prediction, &engine_analytic, memory_text(two_nodes), toy_experiment(&toy)),
                     PREDICTION_DONE);
    uint64_t across = 0;
    for (uint32_t i = 0; i < prediction->report.n_links; i++)
        if (strncmp(prediction->report.links[i].name, "cluster", 7) == 0)
            across = prediction->report.links[i].bytes;
    return across;
}

/* Bytes of all ranks' messages inside collectives, or outside them. */
static uint64_t bytes_of(const struct prediction *prediction, bool collective)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < prediction->placement.cp; rank++)
        for (uint32_t i = 0; i < prediction->programs[rank].n_ops; i++) {
            const struct op *op = &prediction->programs[rank].ops[i];
            if (op->kind == OP_SEND && (op->collective != 0) == collective)
                bytes += op->bytes;
        }
    return bytes;
}

/* Bytes over the links between nodes: each message that goes there passes one out and one in. */
static void the_inner_level_stays_inside_the_nodes(void **state)
{
    (void)state;
    static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
    for (unsigned s = 0; s < 3; s++) {
        struct prediction prediction;
        uint64_t across = bytes_across(shardings[s], "all-to-all", 4, "usp", &prediction);
        assert_true(bytes_of(&prediction, true) > 0);
        assert_int_equal(across, 2 * bytes_of(&prediction, false)); /* two groups: the ring crosses, and nothing else */
        prediction_fini(&prediction);
        across = bytes_across(shardings[s], "ring", 2, "usp", &prediction);
        assert_true(bytes_of(&prediction, false) > 0);
        assert_int_equal(across, 2 * bytes_of(&prediction, true)); /* groups of two: one in each node */
        prediction_fini(&prediction);
    }
}

/* Windows of four places fill the nodes: only what goes between windows crosses. */
static void a_double_ring_crosses_between_windows_only(void **state)
{
    (void)state;
    struct toy toy = {8, 4, 64, 1024, "full", "train", 8, "algorithm = double-ring\nring_window = 4"};
    struct prediction prediction;
    assert_int_equal(predict(&prediction, &engine_analytic, memory_text(two_nodes), toy_experiment(&toy)),
                     PREDICTION_DONE);
    uint64_t outer = 0, across = 0;
    for (uint32_t rank = 0; rank < 8; rank++)
        for (uint32_t i = 0; i < prediction.programs[rank].n_ops; i++)
            if (prediction.programs[rank].ops[i].kind == OP_SEND &&
                prediction.programs[rank].ops[i].stream == STREAM_OUTER)
                outer += prediction.programs[rank].ops[i].bytes;
    for (uint32_t i = 0; i < prediction.report.n_links; i++)
        if (strncmp(prediction.report.links[i].name, "cluster", 7) == 0)
            across = prediction.report.links[i].bytes;
    assert_true(outer > 0);
    assert_int_equal(across, 2 * outer);
    prediction_fini(&prediction);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_inner_level_stays_inside_the_nodes),
        cmocka_unit_test(a_double_ring_crosses_between_windows_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
