/* A sweep as table and as CSV, from JSON made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/writers.h"

static const char sweep_text[] =
    "{\"schema\":\"cpsim.sweep/1\",\"keys\":[\"parallel.cp\",\"schedule.sharding\"],\"points\":["
    "{\"set\":{\"parallel.cp\":\"1\",\"schedule.sharding\":\"zigzag\"},\"run\":{\"step\":{\"seconds\":8.0,"
    "\"forward_seconds\":3.0,\"backward_seconds\":5.0,\"exposed_seconds\":0.0,\"overlap_efficiency\":0.0,"
    "\"tflops_per_rank\":400.0,\"imbalance\":1.0,\"peak_bytes\":107374182400,\"fits\":false}}},"
    "{\"set\":{\"parallel.cp\":\"4\",\"schedule.sharding\":\"zigzag\"},\"run\":{\"step\":{\"seconds\":2.5,"
    "\"forward_seconds\":1.0,\"backward_seconds\":1.5,\"exposed_seconds\":0.5,\"overlap_efficiency\":0.8,"
    "\"tflops_per_rank\":320.0,\"imbalance\":1.0,\"peak_bytes\":26843545600,\"fits\":true}}},"
    "{\"set\":{\"parallel.cp\":\"4\",\"schedule.sharding\":\"striped\"},\"run\":{\"step\":{\"seconds\":3.0,"
    "\"forward_seconds\":1.0,\"backward_seconds\":2.0,\"exposed_seconds\":0.5,\"overlap_efficiency\":0.8,"
    "\"tflops_per_rank\":320.0,\"imbalance\":1.0,\"peak_bytes\":26843545600,\"fits\":true}}},"
    "{\"set\":{\"parallel.cp\":\"8\",\"schedule.sharding\":\"explicit,1\"},\"error\":[\"no such \\\"thing\\\"\",\"nor "
    "that\"]}"
    "]}";

/* A model, of which something is reserved, and attention alone. */
static const char scopes_text[] =
    "{\"schema\":\"cpsim.sweep/1\",\"keys\":[\"workload.scope\"],\"points\":["
    "{\"set\":{\"workload.scope\":\"model\"},\"run\":{\"step\":{\"seconds\":2.0,\"tokens_per_second_per_gpu\":1500.0,"
    "\"mfu\":0.5,\"peak_bytes\":21474836480,\"fits\":true},\"memory\":{\"peak_bytes\":21474836480,"
    "\"reserve\":4294967296.0}}},"
    "{\"set\":{\"workload.scope\":\"attention\"},\"run\":{\"step\":{\"seconds\":1.0,\"peak_bytes\":10737418240,"
    "\"fits\":true}}}]}";

static char *written_of(const char *json, bool (*write)(const json_t *sweep, FILE *stream))
{
    json_error_t error;
    json_t *sweep = json_loads(json, 0, &error);
    assert_non_null(sweep);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_true(write(sweep, stream));
    fclose(stream);
    json_decref(sweep);
    return text;
}

static char *written(bool (*write)(const json_t *sweep, FILE *stream))
{
    return written_of(sweep_text, write);
}

static void the_table_compares_with_the_smallest_cp_of_the_same_setting(void **state)
{
    (void)state;
    char *text = written(sweep_table_write);
    assert_string_equal(
        text, "parallel.cp  schedule.sharding       step  forward  backward  TFLOP/s  exposed  overlap  imbalance  "
              "speed-up  efficiency  memory  fits\n"
              "                                       ms       ms        ms  per GPU        %        %             "
              "                   %     GiB\n"
              "-----------  -----------------  -  ------  -------  --------  -------  -------  -------  ---------  "
              "--------  ----------  ------  ----\n"
              "1            zigzag                  8000     3000      5000    400.0      0.0      0.0      1.000  "
              "   1.000       100.0   100.0  NO\n"
              "4            zigzag             *    2500     1000      1500    320.0     20.0     80.0      1.000  "
              "   3.200        80.0   25.00  yes\n"
              "4            striped                 3000     1000      2000    320.0     16.7     80.0      1.000  "
              "   1.000       100.0   25.00  yes\n"
              "8            explicit,1            no run\n"
              "* the fastest that fits\n"
              "speed-up and efficiency: against the smallest cp of the same setting\n"
              "no run: the messages say why\n");
    free(text);
}

static void memory_has_the_reserve_and_attention_no_tokens(void **state)
{
    (void)state;
    char *text = written_of(scopes_text, sweep_table_write);
    const char *model = strstr(text, "\nmodel "), *attention = strstr(text, "\nattention ");
    assert_non_null(model);
    assert_non_null(attention);
    assert_non_null(strstr(model, "    1500  50.0 "));
    assert_non_null(strstr(model, "  24.00  yes"));
    assert_non_null(strstr(attention, "       -     - "));
    assert_non_null(strstr(attention, "  10.00  yes"));
    free(text);
}

static bool write_csv(const json_t *sweep, FILE *stream)
{
    static const char *const keys[] = {"parallel.cp", "schedule.sharding"};
    csv_write_sweep_head(keys, 2, false, stream);
    size_t i;
    json_t *point;
    json_array_foreach(json_object_get(sweep, "points"), i, point)
    {
        csv_write_sweep_point(point, false, stream);
    }
    return true;
}

static void csv_has_a_row_a_point_and_quotes_what_needs_it(void **state)
{
    (void)state;
    char *text = written(write_csv);
    assert_string_equal(
        text, "parallel.cp,schedule.sharding,seconds,forward_seconds,backward_seconds,compute_seconds,"
              "communication_seconds,exposed_seconds,idle_seconds,overlap_efficiency,tflops_per_rank,imbalance,"
              "compute_bound_seconds,wire_bound_seconds,bytes_sent,messages_sent,peak_bytes,device_bytes,fits,error\n"
              "1,zigzag,8,3,5,,,0,,0,400,1,,,,,107374182400,,no,\n"
              "4,zigzag,2.5,1,1.5,,,0.5,,0.80000000000000004,320,1,,,,,26843545600,,yes,\n"
              "4,striped,3,1,2,,,0.5,,0.80000000000000004,320,1,,,,,26843545600,,yes,\n"
              "8,\"explicit,1\",,,,,,,,,,,,,,,,,,\"no such \"\"thing\"\"; nor that\"\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_compares_with_the_smallest_cp_of_the_same_setting),
        cmocka_unit_test(memory_has_the_reserve_and_attention_no_tokens),
        cmocka_unit_test(csv_has_a_row_a_point_and_quotes_what_needs_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
