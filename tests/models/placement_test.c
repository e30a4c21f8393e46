/* Placement: every rank on its own GPU, numbered by the order; a layout that does not fit is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "models/input/ini_document.h"
#include "models/input/placement.h"

static const enum parallel_dimension orders[6][PARALLEL_DIMENSIONS] = {
    {PARALLEL_TP, PARALLEL_CP, PARALLEL_DP}, {PARALLEL_TP, PARALLEL_DP, PARALLEL_CP},
    {PARALLEL_CP, PARALLEL_TP, PARALLEL_DP}, {PARALLEL_CP, PARALLEL_DP, PARALLEL_TP},
    {PARALLEL_DP, PARALLEL_TP, PARALLEL_CP}, {PARALLEL_DP, PARALLEL_CP, PARALLEL_TP},
};

static struct experiment layout(uint32_t tp, uint32_t cp, uint32_t dp, const enum parallel_dimension *order)
{
    struct experiment experiment = {.degree = {[PARALLEL_TP] = tp, [PARALLEL_CP] = cp, [PARALLEL_DP] = dp}};
    memcpy(experiment.order, order, sizeof experiment.order);
    return experiment;
}

static void every_rank_has_a_gpu_of_its_own(void **state)
{
    (void)state;
    struct topology topology = {.n_gpus = 30};
    for (int i = 0; i < 6; i++) {
        struct experiment experiment = layout(3, 5, 2, orders[i]);
        struct placement placement;
        struct diagnostics diag;
        diagnostics_init(&diag);
        assert_true(placement_init(&placement, &experiment, &topology, &diag));
        assert_int_equal(placement.groups, 6);
        assert_int_equal(placement.cp, 5);
        bool taken[30] = {false};
        for (uint32_t group = 0; group < placement.groups; group++) {
            for (uint32_t rank = 0; rank < placement.cp; rank++) {
                uint64_t gpu = placement_gpu(&placement, group, rank);
                assert_true(gpu < 30);
                assert_false(taken[gpu]);
                taken[gpu] = true;
            }
        }
        diagnostics_fini(&diag);
    }
}

static void the_first_of_the_order_is_innermost(void **state)
{
    (void)state;
    struct topology topology = {.n_gpus = 64};
    struct placement placement;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct experiment experiment = layout(2, 4, 2, orders[0]);
    assert_true(placement_init(&placement, &experiment, &topology, &diag));
    assert_int_equal(placement_gpu(&placement, 0, 0), 0);
    assert_int_equal(placement_gpu(&placement, 0, 1), 2);
    assert_int_equal(placement_gpu(&placement, 1, 1), 3);     /* tp index 1 */
    assert_int_equal(placement_gpu(&placement, 2, 3), 8 + 6); /* dp index 1 */
    experiment = layout(2, 4, 2, orders[5]);
    assert_true(placement_init(&placement, &experiment, &topology, &diag));
    assert_int_equal(placement_gpu(&placement, 0, 1), 2);
    assert_int_equal(placement_gpu(&placement, 1, 0), 8);
    assert_int_equal(placement_gpu(&placement, 2, 3), 1 + 6);
    diagnostics_fini(&diag);
}

/* Said without strides: the dimensions outside of one count in lumps of all that is inside. */
static void all_six_orders_are_mixed_radix_numbers(void **state)
{
    (void)state;
    struct topology topology = {.n_gpus = 30};
    for (int o = 0; o < 6; o++) {
        struct experiment experiment = layout(3, 5, 2, orders[o]);
        struct placement placement;
        assert_true(placement_init(&placement, &experiment, &topology, NULL));
        for (uint64_t gpu = 0; gpu < 30; gpu++) {
            uint32_t index[PARALLEL_DIMENSIONS];
            uint64_t rest = gpu;
            for (int i = 0; i < PARALLEL_DIMENSIONS; i++) {
                uint32_t degree = experiment.degree[orders[o][i]];
                index[orders[o][i]] = (uint32_t)(rest % degree);
                rest /= degree;
            }
            uint32_t group = index[PARALLEL_DP] * 3 + index[PARALLEL_TP];
            assert_int_equal(placement_gpu(&placement, group, index[PARALLEL_CP]), gpu);
        }
    }
}

static void a_layout_that_does_not_fit_names_both_numbers(void **state)
{
    (void)state;
    struct topology topology = {.n_gpus = 32};
    char path[] = "topologies/x.ini";
    topology.path = path;
    struct placement placement;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct ini_document *document = ini_document_read_text("x.ini", "[parallel]\ntp = 3\ncp = 11\n", &diag);
    struct experiment experiment = layout(1, 32, 1, orders[0]);
    assert_true(placement_init(&placement, &experiment, &topology, &diag));
    experiment = layout(3, 11, 1, orders[0]);
    experiment.document = document;
    assert_false(placement_init(&placement, &experiment, &topology, &diag));
    experiment = layout(UINT32_MAX, UINT32_MAX, UINT32_MAX, orders[0]);
    experiment.document = document;
    assert_false(placement_init(&placement, &experiment, &topology, &diag));
    assert_int_equal(diag.count, 2);
    assert_string_equal(
        diag.lines[0], "x.ini:3: the layout tp 3 x cp 11 x dp 1 needs 33 GPUs, but topology 'topologies/x.ini' has 32");
    ini_document_destroy(document);
    diagnostics_fini(&diag);
}

/* Only the cp index moves: tp and dp neighbours stay what they were. */
static void a_schedule_may_seat_its_ranks_otherwise(void **state)
{
    (void)state;
    static const uint32_t places[] = {0, 2, 1, 3};
    struct topology topology = {.n_gpus = 16};
    struct placement placement;
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct experiment experiment = layout(2, 4, 2, orders[0]);
    assert_true(placement_init(&placement, &experiment, &topology, &diag));
    placement_permute(&placement, places);
    for (uint32_t group = 0; group < 4; group++)
        for (uint32_t rank = 0; rank < 4; rank++)
            assert_int_equal(placement_gpu(&placement, group, rank), group % 2 + 2 * places[rank] + 8 * (group / 2));
    placement_permute(&placement, NULL);
    assert_int_equal(placement_gpu(&placement, 0, 1), 2);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schedule_may_seat_its_ranks_otherwise),
        cmocka_unit_test(every_rank_has_a_gpu_of_its_own),
        cmocka_unit_test(all_six_orders_are_mixed_radix_numbers),
        cmocka_unit_test(the_first_of_the_order_is_innermost),
        cmocka_unit_test(a_layout_that_does_not_fit_names_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
