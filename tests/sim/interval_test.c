/* The interval of a prediction: what one constant's spread makes of a step, and that independent ones add as squares.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "sim/interval.h"
#include "tests/predict.h"

static void assert_share(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9))
        fail_msg("%.12g is not %.12g", value, expected);
}

/* A ring on two ranks without overlap, so that its parts add up: forward, backward, messages. */
static struct interval_seconds interval(double forward, double backward, double steps, double level, double *seconds)
{
    struct prediction prediction;
    const struct toy toy = {8, 8, 128, 8192, "full", "train", 2, "algorithm = ring\noverlap = no"};
    assert_int_equal(predict_toy(&prediction, &toy, "50 GB/s", "3 us"), PREDICTION_DONE);
    for (size_t i = 0; i < prediction.device.n_tables; i++)
        prediction.device.tables[i].spread = prediction.device.tables[i].pass == PASS_FORWARD ? forward : backward;
    prediction.device.steps_spread = steps;
    prediction.topology.levels[0].spread = level;
    struct simulation simulation = {
        .ensemble = &prediction.whole, .cost = &prediction.cost, .placement = &prediction.placement};
    struct interval_seconds result;
    struct diagnostics diag;
    diagnostics_init(&diag);
    *seconds = prediction.report.seconds;
    assert_true(interval_of(&simulation, *seconds, &result, &diag));
    diagnostics_fini(&diag);
    prediction_fini(&prediction);
    return result;
}

static void without_spread_there_is_none(void **state)
{
    (void)state;
    double seconds;
    struct interval_seconds none = interval(0, 0, 0, 0, &seconds);
    assert_true(none.low == 0 && none.high == 0);
}

/* If everything is slower by a tenth, so is the step: each constant's part of it is what it moves. */
static void independent_constants_add_as_squares(void **state)
{
    (void)state;
    const double spread = 0.1;
    double seconds, part[4], sum = 0, squares = 0;
    for (int c = 0; c < 4; c++) {
        struct interval_seconds one =
            interval(c == 0 ? spread : 0, c == 1 ? spread : 0, c == 2 ? spread : 0, c == 3 ? spread : 0, &seconds);
        part[c] = one.high / seconds - 1;
        assert_true(part[c] > 1e-4);
        assert_share(one.low / seconds, 1 - part[c] / (1 + spread)); /* 1 / 1.1 of it instead of 1.1 */
        sum += part[c];
        squares += part[c] * part[c];
    }
    assert_share(sum, spread);
    struct interval_seconds all = interval(spread, spread, spread, spread, &seconds);
    assert_share(all.high / seconds - 1, sqrt(squares));
    assert_share(1 - all.low / seconds, sqrt(squares) / (1 + spread));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_spread_there_is_none),
        cmocka_unit_test(independent_constants_add_as_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
