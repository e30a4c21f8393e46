/* What is recorded of a GPU, as a stand-in for NVML tells it; and that nothing fails where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "hw/gpu_watch.h"

#define BUS "00000000:1B:00.0"

static struct gpu_record record_of(const char *library, const char *bus, int samples)
{
    struct gpu_record record;
    struct gpu_watch *watch = gpu_watch_create(library, bus);
    for (int i = 0; i < samples; i++)
        gpu_watch_sample(watch);
    gpu_watch_record(watch, &record);
    gpu_watch_destroy(watch);
    return record;
}

static void expect_reading(struct gpu_reading reading, double least, double median, double most, uint32_t count)
{
    assert_int_equal(reading.count, count);
    assert_float_equal(reading.least, least, 0);
    assert_float_equal(reading.median, median, 0);
    assert_float_equal(reading.most, most, 0);
}

static void samples_give_least_median_and_most(void **state)
{
    (void)state;
    struct gpu_record record = record_of(FAKE_NVML, BUS, 5);
    assert_string_equal(record.problem, "");
    assert_string_equal(record.driver, "580.95.05");
    assert_int_equal(record.samples, 5);
    expect_reading(record.sm_mhz, 1920, 1950, 1980, 5);
    expect_reading(record.memory_mhz, 3201, 3201, 3201, 5);
    expect_reading(record.power_watts, 650.5, 650.5, 650.5, 5);
    expect_reading(record.temperature_celsius, 41, 43, 45, 5);
    assert_float_equal(record.most_sm_mhz, 1980, 0);
    assert_float_equal(record.power_limit_watts, 700, 0);
}

static void what_held_it_back_in_any_sample_has_a_name(void **state)
{
    (void)state;
    struct gpu_record free_running = record_of(FAKE_NVML, BUS, 1), held = record_of(FAKE_NVML, BUS, 3);
    assert_true(free_running.slowdowns == 0);
    assert_true(held.slowdowns == (1 << 2 | 1 << 7));
    assert_string_equal(gpu_slowdown_name(2), "power cap");
    assert_string_equal(gpu_slowdown_name(7), "power brake");
    assert_null(gpu_slowdown_name(63));
}

static void two_watches_do_not_disturb_each_other(void **state)
{
    (void)state;
    struct gpu_record record;
    struct gpu_watch *first = gpu_watch_create(FAKE_NVML, BUS), *second = gpu_watch_create(FAKE_NVML, BUS);
    gpu_watch_destroy(first);
    gpu_watch_sample(second);
    gpu_watch_record(second, &record);
    gpu_watch_destroy(second);
    assert_string_equal(record.problem, "");
    assert_int_equal(record.samples, 1);
}

/* The problem is "WHAT (FILE:LINE): REASON". */
static void expect_problem(const struct gpu_record *record, const char *what, const char *reason)
{
    if (strncmp(record->problem, what, strlen(what)) != 0 || !strstr(record->problem, "gpu_watch.c:") ||
        !strstr(record->problem, reason))
        fail_msg("'%s', expected '%s' and '%s'", record->problem, what, reason);
}

static void expect_nothing(struct gpu_record record, const char *what, const char *reason)
{
    expect_problem(&record, what, reason);
    assert_int_equal(record.samples, 0);
    assert_int_equal(record.sm_mhz.count, 0);
    assert_string_equal(record.driver, "");
}

static void without_nvml_nothing_is_recorded_and_the_reason_is(void **state)
{
    (void)state;
    expect_nothing(record_of("/nowhere/libnvidia-ml.so.1", BUS, 2), "opening NVML (",
                   "): /nowhere/libnvidia-ml.so.1: ");
    expect_nothing(record_of("libc.so.6", BUS, 2), "opening NVML (", "'libc.so.6' has no nvmlInit_v2");
    expect_nothing(record_of(FAKE_NVML, "00000000:99:00.0", 2), "looking for GPU 00000000:99:00.0 (", "Not Found");
    setenv("FAKE_NVML", "init", 1);
    expect_nothing(record_of(FAKE_NVML, BUS, 2), "initializing NVML (", "NVML says: Not Supported");
    unsetenv("FAKE_NVML");
}

static void what_one_gpu_cannot_tell_leaves_the_rest(void **state)
{
    (void)state;
    setenv("FAKE_NVML", "power", 1);
    struct gpu_record record = record_of(FAKE_NVML, BUS, 3);
    expect_problem(&record, "reading the power (", "NVML says: Not Supported");
    assert_int_equal(record.power_watts.count, 0);
    expect_reading(record.sm_mhz, 1950, 1965, 1980, 3);
    setenv("FAKE_NVML", "version", 1);
    record = record_of(FAKE_NVML, BUS, 1);
    assert_string_equal(record.driver, "");
    expect_reading(record.power_watts, 650.5, 650.5, 650.5, 1);
    unsetenv("FAKE_NVML");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_give_least_median_and_most),
        cmocka_unit_test(what_held_it_back_in_any_sample_has_a_name),
        cmocka_unit_test(two_watches_do_not_disturb_each_other),
        cmocka_unit_test(without_nvml_nothing_is_recorded_and_the_reason_is),
        cmocka_unit_test(what_one_gpu_cannot_tell_leaves_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
