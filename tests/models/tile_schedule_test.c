/* Tiles on slots: waves of equal ones, the end of a list of triangles, what grows with more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "models/cost/tile_schedule.h"

static void assert_near(double value, double expected, double relative)
{
    if (!(fabs(value - expected) <= relative * fabs(expected)))
        fail_msg("%.17g is not within %g of %.17g", value, relative, expected);
}

static struct tile_schedule full(double heads, double rows, double keys, double slots)
{
    return (struct tile_schedule){
        .heads = heads, .rows = rows, .tile_rows = 128, .slots = slots, .first_row = keys, .length = keys};
}

static struct tile_schedule triangle(double heads, double rows, double slots)
{
    return (struct tile_schedule){
        .heads = heads, .rows = rows, .tile_rows = 128, .slots = slots, .first_row = 1, .length = rows};
}

static double share(const struct tile_schedule *schedule)
{
    double pairs = schedule->heads * schedule->rows * (schedule->first_row + schedule->length) / 2;
    return tile_schedule_work(schedule) / pairs;
}

static void equal_tiles_are_waves(void **state)
{
    (void)state;
    /* Llama 3 405B's 16 heads a GPU, 3200 queries: 16 x 25 tiles on 132 SMs are 4 waves, 400 of 528. */
    struct tile_schedule schedule = full(16, 3200, 32000, 132);
    assert_near(share(&schedule), 528.0 / 400, 1e-12);
    assert_near(tile_schedule_rows(&schedule), 528 * 128.0, 1e-12);
    /* 800: the seventh tile of a head is computed whole, and 112 of 132 SMs have one. */
    schedule = full(16, 800, 32000, 132);
    assert_near(share(&schedule), 132 * 128.0 / (16 * 800), 1e-12);
    /* However the list runs; but what is less than a tile is no more than it is. */
    schedule.descending = true;
    assert_near(share(&schedule), 132 * 128.0 / (16 * 800), 1e-12);
    schedule = full(8, 32, 1000, 8);
    assert_near(share(&schedule), 1, 1e-12);
    schedule = full(4, 256, 1000, 8);
    assert_near(share(&schedule), 1, 1e-12);
    schedule = full(4.5, 256, 1000, 8); /* a head begun is a head */
    assert_near(tile_schedule_work(&schedule), 2 * 8 * 128 * 1000.0, 1e-12);
}

static void triangles_end_with_their_longest_tile(void **state)
{
    (void)state;
    const double longest = 128 * (4096 - 63.5);
    struct tile_schedule schedule = triangle(1, 4096, 100); /* a slot for each: that of the longest is last */
    assert_near(tile_schedule_work(&schedule), 100 * longest, 1e-12);
    schedule = triangle(5, 4096, 1); /* one slot: all the work, exactly */
    assert_near(share(&schedule), 1, 1e-12);
    /* Two slots, lengths 1 2 3 4 in halves of tiles: 1 + 3 and 2 + 4; from the longest 4 + 1 and 3 + 2. */
    schedule = triangle(1, 512, 2);
    double each[4];
    for (int i = 0; i < 4; i++)
        each[i] = 128 * (128 * i + 64.5);
    assert_near(tile_schedule_work(&schedule), 2 * (each[1] + each[3]), 1e-12);
    schedule.descending = true;
    assert_near(tile_schedule_work(&schedule), 2 * (each[3] + each[0]), 1e-12);
    schedule.longest_first = true;
    assert_near(tile_schedule_work(&schedule), each[0] + each[1] + each[2] + each[3], 1e-12);
}

/* Long lists of triangles from short to long end 2/3 of the longest tile after the mean: slots x 4 / 3 of all tiles. */
static void a_list_of_triangles_idles_for_two_thirds_of_its_longest(void **state)
{
    (void)state;
    for (double heads = 32; heads <= 512; heads *= 2) {
        struct tile_schedule schedule = triangle(heads, 16384, 264);
        assert_near(share(&schedule), 1 + 4.0 / 3 * 264 / (heads * 128), 0.006);
        double up = share(&schedule);
        schedule.descending = true;
        assert_true(share(&schedule) < up && share(&schedule) >= 1);
        schedule.longest_first = true;
        assert_near(share(&schedule), 1, 1e-12);
    }
}

/* FlashAttention-2 forward on the H100, 64 heads (MagiAttention's figure, models/devices/h100-sxm.ini): how much longer
 * a causal pair takes than a full one. The rest is the half tile of the diagonal. */
static void the_end_of_the_list_is_what_causal_kernels_were_measured_to_lose(void **state)
{
    (void)state;
    static const struct {
        double rows, full_rate, causal_rate;
    } measured[] = {{1024, 315.2, 187.7}, {2048, 359.7, 271.4},  {4096, 375.8, 327.4},
                    {8192, 371.7, 350.3}, {16384, 371.9, 362.9}, {32768, 375.8, 366}};
    for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
        struct tile_schedule causal = triangle(64, measured[i].rows, 264);
        struct tile_schedule all = full(64, measured[i].rows, measured[i].rows, 264);
        double diagonal = 1 + 64 / measured[i].rows;
        assert_near(share(&causal) / share(&all) * diagonal, measured[i].full_rate / measured[i].causal_rate, 0.04);
    }
}

static void more_is_never_done_sooner(void **state)
{
    (void)state;
    for (int order = 0; order < 4; order++) {
        for (double slots = 1; slots <= 1100; slots = slots * 3 + 5) {
            double before = 0;
            for (double rows = 1; rows <= 20000; rows += rows < 1500 ? 7 : 128) {
                struct tile_schedule schedule = triangle(9, rows, slots);
                schedule.descending = order & 1;
                schedule.longest_first = order >> 1 & 1;
                double work = tile_schedule_work(&schedule);
                assert_true(work >= before && work >= 9 * rows * (rows + 1) / 2 * (1 - 1e-12));
                before = work;
            }
            before = 0;
            for (double heads = 1; heads <= 70; heads++) {
                struct tile_schedule schedule = triangle(heads, 3000, slots);
                schedule.descending = order & 1;
                schedule.longest_first = order >> 1 & 1;
                assert_true(tile_schedule_work(&schedule) >= before);
                before = tile_schedule_work(&schedule);
            }
            before = 0;
            for (double mean = 8; mean <= 4096; mean += 8) { /* from few pairs to all */
                double length = fmin(4096, 2 * mean);
                struct tile_schedule schedule = triangle(9, 3000, slots);
                schedule.length = length;
                schedule.first_row = 2 * mean - length;
                schedule.descending = order & 1;
                schedule.longest_first = order >> 1 & 1;
                assert_true(tile_schedule_work(&schedule) >= before);
                before = tile_schedule_work(&schedule);
            }
        }
    }
}

static void a_memo_gives_what_was_asked(void **state)
{
    (void)state;
    struct tile_memo memo = {0};
    for (int round = 0; round < 2; round++) {
        for (double heads = 1; heads <= 40; heads++) {
            for (double rows = 500; rows <= 2000; rows += 500) { /* more than there are entries */
                struct tile_schedule schedule = triangle(heads, rows, 20);
                assert_true(tile_schedule_work_kept(&schedule, &memo) == tile_schedule_work(&schedule));
                assert_true(tile_schedule_work_kept(&schedule, &memo) == tile_schedule_work(&schedule));
                schedule.descending = true;
                assert_true(tile_schedule_work_kept(&schedule, &memo) == tile_schedule_work(&schedule));
                assert_true(tile_schedule_work_kept(&schedule, NULL) == tile_schedule_work(&schedule));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_tiles_are_waves),
        cmocka_unit_test(triangles_end_with_their_longest_tile),
        cmocka_unit_test(a_list_of_triangles_idles_for_two_thirds_of_its_longest),
        cmocka_unit_test(the_end_of_the_list_is_what_causal_kernels_were_measured_to_lose),
        cmocka_unit_test(more_is_never_done_sooner),
        cmocka_unit_test(a_memo_gives_what_was_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
