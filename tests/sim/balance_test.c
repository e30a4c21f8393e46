/* Contiguous shards against zigzag on a device of round numbers (100 TFLOP/s whatever the block) with links so fast
 * that they cost nothing: whole training steps, with all that a step has beside attention. Under the causal mask the
 * last of P contiguous ranks has (2P-1)/P of the mean work, and the others wait for it; zigzag all have the mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/predict.h"

static double step_seconds(const char *mask, const char *sharding, uint32_t cp)
{
    char schedule[64];
    snprintf(schedule, sizeof schedule, "algorithm = ring\nsharding = %s", sharding);
    struct toy toy = {8, 2, 128, UINT64_C(32768) * cp, mask, "train", cp, schedule};
    struct prediction prediction;
    assert_int_equal(predict_toy(&prediction, &toy, "100 TB/s", "0 s"), PREDICTION_DONE);
    double seconds = prediction.report.seconds;
    prediction_fini(&prediction);
    return seconds;
}

static void expect_near(double actual, double expected, double tolerance)
{
    if (!(actual >= expected * (1 - tolerance) && actual <= expected * (1 + tolerance)))
        fail_msg("%.9g is not within %g of %.9g", actual, tolerance, expected);
}

/* Merges and sums of gradients, as many whatever the sharding, are all that is between the ratio and its limit: 1 ms of
 * 100. */
static void causal_steps_differ_by_the_imbalance(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p *= 2)
        expect_near(step_seconds("causal", "contiguous", p) / step_seconds("causal", "zigzag", p), (2.0 * p - 1) / p,
                    0.01);
}

static void full_steps_do_not_differ(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p *= 2)
        expect_near(step_seconds("full", "contiguous", p), step_seconds("full", "zigzag", p), 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_steps_differ_by_the_imbalance),
        cmocka_unit_test(full_steps_do_not_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
