/* Device profiles: what is refused and in which words, and that everything shipped is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/device.h"
#include "models/input/key_table.h"
#include "tests/models/expect_lines.h"

#define PROFILE "device_test_profile.ini"

static const char device_section[] = "[device]\n"
                                     "name = X 1\n"
                                     "memory = 80 GiB\n"
                                     "memory_bandwidth = 3 TB/s\n"
                                     "memory_efficiency = 0.9\n"
                                     "peak = 1000 TFLOP/s\n"
                                     "launch = 3 us\n"
                                     "processors = 132\n"
                                     "tile_rows = 128\n"
                                     "kernel = k\n"; /* 10 lines */

static const char table_section[] = "[attention k forward 128]\n"
                                    "dtype = bf16, fp16\n"
                                    "heads = 64\n"
                                    "batch = 1\n"
                                    "full = 1024: 300 TFLOP/s, 2Ki: 350.5 TFLOP/s\n"
                                    "source = a paper\n"; /* lines 11 to 16 */

static bool read_text(struct device *device, struct diagnostics *diag, const char *first, const char *second)
{
    FILE *file = fopen(PROFILE, "w");
    assert_non_null(file);
    fputs(first, file);
    fputs(second, file);
    fclose(file);
    diagnostics_init(diag);
    bool good = device_read(device, PROFILE, diag);
    unlink(PROFILE);
    return good;
}

/* `first` followed by `second` is refused with these messages and no other, NULL-terminated. */
static void assert_refused(const char *first, const char *second, const char *const *messages)
{
    struct device device;
    struct diagnostics diag;
    assert_false(read_text(&device, &diag, first, second));
    expect_lines(&diag, messages);
}

#define REFUSED(first, second, ...) assert_refused(first, second, (const char *const[]){__VA_ARGS__, NULL})

/* `text` with its first `from` replaced. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    return memory_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void refused_device(const char *from, const char *to, const char *message)
{
    char *text = replaced(device_section, from, to);
    REFUSED(text, table_section, message);
    free(text);
}

static void refused_table(const char *from, const char *to, const char *message)
{
    char *text = replaced(table_section, from, to);
    REFUSED(device_section, text, message);
    free(text);
}

static void every_figure_arrives_in_base_units(void **state)
{
    (void)state;
    struct device device;
    struct diagnostics diag;
    const char second[] = "\n[attention k backward any]\ndtype = any\nheads = 8\ntokens = 16384\nrate_scale = 0.5\n"
                          "causal = 512:100TFLOP/s\nsource = b\n";
    char *text = memory_format("%s%s", table_section, second);
    assert_true(read_text(&device, &diag, device_section, text));
    free(text);
    assert_string_equal(device.name, "X 1");
    assert_true(device.memory_bytes == 80.0 * 1024 * 1024 * 1024);
    assert_true(device.memory_bytes_per_s == 3e12 && device.memory_efficiency == 0.9);
    assert_true(device.peak_flops_per_s == 1e15 && device.launch_seconds == 3e-6);
    assert_int_equal(device.processors, 132);
    assert_int_equal(device.tile_rows, 128);
    assert_string_equal(device.default_kernel, "k");
    assert_int_equal(device.n_tables, 2);

    const struct attention_table *table = &device.tables[0];
    assert_string_equal(table->kernel, "k");
    assert_int_equal(table->pass, PASS_FORWARD);
    assert_int_equal(table->head_dim, 128);
    assert_int_equal(table->dtypes, 1U << DTYPE_BF16 | 1U << DTYPE_FP16);
    assert_true(table->heads == 64 && table->batch == 1 && table->tokens == 0 && table->rate_scale == 1);
    assert_int_equal(table->n_full, 2);
    assert_int_equal(table->n_causal, 0);
    assert_true(table->full[1].seq_len == 2048 && table->full[1].flops_per_s == 350.5e12);
    assert_int_equal(table->line, 11);

    table = &device.tables[1];
    assert_int_equal(table->pass, PASS_BACKWARD);
    assert_int_equal(table->head_dim, 0);
    assert_int_equal(table->dtypes, (1U << DTYPE_COUNT) - 1);
    assert_true(table->batch == 0 && table->tokens == 16384 && table->rate_scale == 0.5);
    assert_true(table->n_causal == 1 && table->causal[0].seq_len == 512);
    device_fini(&device);
}

static void bad_values_are_refused_where_they_stand(void **state)
{
    (void)state;
    refused_device("80 GiB", "80",
                   PROFILE ":3: 'memory' is '80', expected a size such as 80 GiB or 512 kB (k M G T P, Ki Mi Gi Ti)");
    refused_device("0.9", "90", PROFILE ":5: 'memory_efficiency' is '90', expected 0.01 to 1");
    refused_device("tile_rows = 128\n", "tile_rows = 128\ntile_row = 1\n",
                   PROFILE ":10: unknown key 'tile_row' in [device], did you mean 'tile_rows'?");
    refused_device("kernel = k", "kernel = q",
                   PROFILE ":10: kernel 'q' has no [attention q ...] section, expected one");
    refused_table("bf16, fp16", "bf16, bf16",
                  PROFILE ":12: 'dtype' is 'bf16, bf16', expected any, or a list of fp64, "
                          "fp32, bf16, fp16, fp8");
    refused_table("batch = 1\n", "", PROFILE ":11: neither 'batch' nor 'tokens', expected one of them");
    refused_table("batch = 1\n", "batch = 1\ntokens = 4096\n",
                  PROFILE ":11: both 'batch' and 'tokens', expected one of them");
    refused_table("full = 1024: 300 TFLOP/s, 2Ki: 350.5 TFLOP/s\n", "",
                  PROFILE ":11: neither 'full' nor 'causal', expected rates for one");
    refused_table("source = a paper\n", "",
                  PROFILE ":11: [attention k forward 128] has no key 'source', expected text");
    refused_table("300 TFLOP/s", "1001 TFLOP/s",
                  PROFILE ":11: full rate '1001' TFLOP/s (with rate_scale) at seq_len 1024, expected at "
                          "most the device's peak of 1000 TFLOP/s");
}

static void bad_rate_lists_are_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "300",
        "1024",
        "1024:",
        "1024: 300",
        "1024: 300 TB/s",
        "1024: 300 TFLOP/s,",
        "1024: 300 TFLOP/s; 2048: 350 TFLOP/s",
        "1024: 300 350 TFLOP/s",
        "1024: 300 TFLOP/s: 350 TFLOP/s",
        "0: 300 TFLOP/s",
        "1024: 0 TFLOP/s",
        "1024: -5 TFLOP/s",
        "1024: nan TFLOP/s",
        "2048: 1 TFLOP/s, 1024: 2 TFLOP/s",
        "1024: 1 TFLOP/s, 1024: 2 TFLOP/s",
        ", 1024: 300 TFLOP/s",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *message = memory_format(PROFILE ":15: 'full' is '%s', expected SEQ_LEN: RATE, ... such as "
                                              "2048: 360 TFLOP/s, 4096: 376 TFLOP/s (lengths ascending)",
                                      lists[i]);
        refused_table("1024: 300 TFLOP/s, 2Ki: 350.5 TFLOP/s", lists[i], message);
        free(message);
    }
}

static void more_points_than_a_table_holds_are_refused(void **state)
{
    (void)state;
    char list[RATE_POINTS_MAX * 16 + 16] = "1:1TFLOP/s";
    for (int i = 2; i <= RATE_POINTS_MAX + 1; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), ",%d:1TFLOP/s", i);
    char *message = memory_format(PROFILE ":15: 'full' is '%s', expected SEQ_LEN: RATE, ... such as "
                                          "2048: 360 TFLOP/s, 4096: 376 TFLOP/s (lengths ascending)",
                                  list);
    refused_table("1024: 300 TFLOP/s, 2Ki: 350.5 TFLOP/s", list, message);
    free(message);
}

static void bad_section_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "attention k forward",      "attention k sideways 128", "attention k forward 128 x", "attention k forward 0",
        "attention k forward 4097", "attention k forward -1",   "attention k forward all",   "attention forward 128",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *message = memory_format(PROFILE ":11: section '[%s]', expected [attention KERNEL forward|backward "
                                              "HEAD_DIM] with HEAD_DIM 1 to 4096 or any, such as [attention fa2 "
                                              "forward 128]",
                                      names[i]);
        refused_table("attention k forward 128", names[i], message);
        free(message);
    }
}

static void all_problems_are_reported_at_once(void **state)
{
    (void)state;
    char *device = replaced(device_section, "3 us", "3");
    char *table = replaced(table_section, "64", "0");
    REFUSED(device, table, PROFILE ":7: 'launch' is '3', expected a time such as 2 us (s, ms, us, ns)",
            PROFILE ":13: 'heads' is '0', expected 1 to 1e+06");
    free(device);
    free(table);
    REFUSED("", table_section, PROFILE ": no section [device], expected one");
    REFUSED(device_section, "", PROFILE ": no section [attention NAME], expected one");
}

static void a_table_stands_once(void **state)
{
    (void)state;
    char *again = replaced(table_section, "k forward 128", "k forward 0128");
    char *both = memory_format("%s%s", table_section, again);
    REFUSED(device_section, both,
            PROFILE ":17: kernel 'k', pass and head dim are those of line 11, expected one table of each");
    free(both);
    char *refused = replaced(again, "dtype = bf16, fp16", "dtype = fp23"); /* so it is not known of which it is */
    both = memory_format("%s%s", refused, table_section);
    REFUSED(device_section, both,
            PROFILE ":12: 'dtype' is 'fp23', expected any, or a list of fp64, fp32, bf16, fp16, fp8");
    free(both);
    both = memory_format("%s%s", table_section, refused);
    REFUSED(device_section, both,
            PROFILE ":18: 'dtype' is 'fp23', expected any, or a list of fp64, fp32, bf16, fp16, fp8");
    free(refused);
    free(again);
    free(both);
}

static void a_missing_profile_is_named(void **state)
{
    (void)state;
    struct device device;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_false(device_read(&device, "h1000", &diag));
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.lines[0], "no device profile 'h1000', expected a file or one of models/devices");
    diagnostics_fini(&diag);
}

static void every_shipped_profile_is_read(void **state)
{
    (void)state;
    static const char *const expected[] = {"a100-sxm-80gb", "b200",     "gb200", "h100-sxm",
                                           "h200-sxm",      "h800-sxm", "l20",   "toy"};
    char **names = data_path_list("models/devices");
    size_t found = 0;
    for (size_t i = 0; names[i]; i++) {
        struct device device;
        struct diagnostics diag;
        diagnostics_init(&diag);
        if (!device_read(&device, names[i], &diag)) {
            diagnostics_print(&diag, stderr, "");
            fail_msg("%s", names[i]);
        }
        for (size_t k = 0; k < sizeof expected / sizeof *expected; k++)
            found += strcmp(names[i], expected[k]) == 0;
        device_fini(&device);
        free(names[i]);
    }
    free(names);
    assert_int_equal(found, sizeof expected / sizeof *expected);
}

static void tables_print_as_they_are_written(void **state)
{
    (void)state;
    struct device device;
    struct diagnostics diag;
    assert_true(read_text(&device, &diag, device_section, table_section));
    char text[200] = "";
    for (size_t s = 0; device_file.sections[s]; s++) {
        const struct section_spec *section = device_file.sections[s];
        if (strcmp(section->name, "attention") != 0)
            continue;
        for (size_t k = 0; k < section->n_keys; k++) {
            key_table_print_value(&section->keys[k], &device.tables[0], text, sizeof text);
            if (strcmp(section->keys[k].name, "dtype") == 0)
                assert_string_equal(text, "bf16, fp16");
            if (strcmp(section->keys[k].name, "full") == 0)
                assert_string_equal(text, "1024: 300 TFLOP/s, 2048: 350.5 TFLOP/s");
        }
    }
    device_fini(&device);
}

static void steps_and_spreads_arrive(void **state)
{
    (void)state;
    struct device device;
    struct diagnostics diag;
    char *table = replaced(table_section, "batch = 1\n", "batch = 1\nspread = 0.05\n");
    char *text = memory_format("%s[steps]\nmerge = 8 GB/s\ncast = 2 GB/s\nspread = 0.5\nsource = a paper\n", table);
    assert_true(read_text(&device, &diag, device_section, text));
    assert_true(device.step_bytes_per_s[STEP_MERGE] == 8e9 && device.step_bytes_per_s[STEP_CAST] == 2e9);
    assert_true(device.step_bytes_per_s[STEP_FINISH] == 0 && device.steps_spread == 0.5);
    assert_true(device.tables[0].spread == 0.05);
    device_fini(&device);
    free(text);
    free(table);
    assert_true(read_text(&device, &diag, device_section, table_section));
    assert_true(device.step_bytes_per_s[STEP_MERGE] == 0 && device.steps_spread == 0 && device.tables[0].spread == 0);
    device_fini(&device);
}

static void tables_of_different_dtypes_stand_side_by_side(void **state)
{
    (void)state;
    struct device device;
    struct diagnostics diag;
    char *bf16 = replaced(table_section, "bf16, fp16", "bf16"), *fp32 = replaced(table_section, "bf16, fp16", "fp32");
    char *first = replaced(bf16, "forward 128", "forward 128 bf16"), *second = replaced(fp32, "128", "128 fp32");
    char *both = memory_format("%s%s", first, second), *bad = replaced(fp32, "forward 128", "forward 128 bf16");
    assert_true(read_text(&device, &diag, device_section, both));
    assert_int_equal(device.n_tables, 2);
    device_fini(&device);
    REFUSED(device_section, bad, PROFILE ":11: 'dtype' is not the section's, expected bf16");
    char *texts[] = {bf16, fp32, first, second, both, bad};
    for (size_t i = 0; i < 6; i++)
        free(texts[i]);
}

/* ---- matrix products ---- */

static const char product_section[] = "[product bf16]\n"
                                      "dtype = bf16, fp16\n"
                                      "rate = 2Ki: 600 TFLOP/s, 4096x7168x16384: 700.5 TFLOP/s\n"
                                      "tile = 128x256\n"
                                      "prologue = 64\n"
                                      "rate_scale = 1.1\n"
                                      "spread = 0.1\n"
                                      "source = a paper\n"; /* lines 17 to 24 */

static void products_arrive_and_print_as_they_are_written(void **state)
{
    (void)state;
    struct device device;
    struct diagnostics diag;
    char *second = memory_format("%s%s[product any]\nrate = 16: 1 GFLOP/s\ntile = 1 x 2\nsource = made up\n",
                                 table_section, product_section);
    char *text = replaced(second, "[product any]", "[product fp8]");
    assert_true(read_text(&device, &diag, device_section, text));
    assert_int_equal(device.n_products, 2);
    const struct product_table *first = &device.products[0], *fp8 = &device.products[1];
    assert_int_equal(first->dtypes, 1U << DTYPE_BF16 | 1U << DTYPE_FP16);
    assert_true(first->tile_rows == 128 && first->tile_columns == 256 && first->prologue == 64);
    assert_true(first->rate_scale == 1.1 && first->spread == 0.1 && first->n_rates == 2);
    assert_true(first->rates[0].rows == 2048 && first->rates[0].columns == 2048 && first->rates[0].depth == 2048);
    assert_true(first->rates[1].rows == 4096 && first->rates[1].columns == 7168 && first->rates[1].depth == 16384);
    assert_true(first->rates[0].flops_per_s == 600e12 && first->rates[1].flops_per_s == 700.5e12);
    assert_int_equal(fp8->dtypes, 1U << DTYPE_FP8);
    assert_true(fp8->tile_rows == 1 && fp8->tile_columns == 2 && fp8->prologue == 0 && fp8->rate_scale == 1);
    for (size_t s = 0; device_file.sections[s]; s++) {
        const struct section_spec *section = device_file.sections[s];
        for (size_t k = 0; k < section->n_keys && strcmp(section->name, "product") == 0; k++) {
            char value[200] = "";
            key_table_print_value(&section->keys[k], first, value, sizeof value);
            if (strcmp(section->keys[k].name, "dtype") == 0)
                assert_string_equal(value, "bf16, fp16");
            if (strcmp(section->keys[k].name, "tile") == 0)
                assert_string_equal(value, "128x256");
            if (strcmp(section->keys[k].name, "rate") == 0)
                assert_string_equal(value, "2048x2048x2048: 600 TFLOP/s, 4096x7168x16384: 700.5 TFLOP/s");
        }
    }
    device_fini(&device);
    free(text);
    free(second);
}

/* The profile with `to` in place of `from` in its [product bf16]. */
static void assert_product_refused(const char *from, const char *to, const char *message)
{
    char *changed = replaced(product_section, from, to), *text = memory_format("%s%s", table_section, changed);
    REFUSED(device_section, text, message);
    free(text);
    free(changed);
}

#define RATES_EXPECTED                                                                                                 \
    "expected PRODUCT: RATE, ... such as 2048: 676 TFLOP/s, 4096x7168x16384: 760 TFLOP/s (a square's size, or rows x " \
    "columns x depth)"

static void bad_products_are_refused(void **state)
{
    (void)state;
    static const char *const rates[] = {"2Ki",
                                        "2Ki: 600",
                                        "2Ki: 600 GB/s",
                                        "2Ki: 600 TFLOP/s,",
                                        "0: 600 TFLOP/s",
                                        "2x2: 600 TFLOP/s",
                                        "2x2x2x2: 600 TFLOP/s",
                                        "2x2x: 600 TFLOP/s",
                                        "-2: 600 TFLOP/s",
                                        "2e3: 600 TFLOP/s",
                                        "99999999999: 600 TFLOP/s",
                                        "2: 1 kFLOP/s",
                                        ": 600 TFLOP/s",
                                        "nothing"};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        char *message = memory_format(PROFILE ":19: 'rate' is '%s', " RATES_EXPECTED, rates[i]);
        assert_product_refused("2Ki: 600 TFLOP/s, 4096x7168x16384: 700.5 TFLOP/s", rates[i], message);
        free(message);
    }
    static const char *const tiles[] = {"128", "128x", "x256", "0x256", "128x256x64", "128 by 256"};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        char *message = memory_format(PROFILE ":20: 'tile' is '%s', expected ROWSxCOLUMNS such as 128x256", tiles[i]);
        assert_product_refused("128x256", tiles[i], message);
        free(message);
    }
    assert_product_refused("[product bf16]", "[product bf17]",
                           PROFILE ":17: section '[product bf17]', expected [product DTYPE] with DTYPE fp64, fp32, "
                                   "bf16, fp16, fp8 or any");
    assert_product_refused("dtype = bf16, fp16", "dtype = fp16",
                           PROFILE ":17: 'dtype' lacks the section's, expected bf16 among them");
    assert_product_refused("rate_scale = 1.1", "rate_scale = 1.6",
                           PROFILE ":17: rate '1121' TFLOP/s (with rate_scale) of 4096x7168x16384, expected at most "
                                   "the peak of 1000 TFLOP/s");
    assert_product_refused("rate_scale = 1.1", "peak = 650 TFLOP/s",
                           PROFILE ":17: rate '700.5' TFLOP/s (with rate_scale) of 4096x7168x16384, expected at most "
                                   "the peak of 650 TFLOP/s");
    assert_product_refused("4096x7168x16384", "2048x2048x2047",
                           PROFILE ":17: 'rate' has 2048x2048x2047 in 24.51 us after 2048x2048x2048 in 28.63 us, "
                                   "expected more work that takes longer");
    assert_product_refused("4096x7168x16384", "2048x2048x2049",
                           PROFILE ":17: 'rate' has 2048x2048x2049 in 24.54 us after 2048x2048x2048 in 28.63 us, "
                                   "expected more work that takes longer");
    char *twice = memory_format("%s%s[product fp16]\nrate = 16: 1 GFLOP/s\ntile = 1x1\nsource = made up\n",
                                table_section, product_section);
    REFUSED(device_section, twice,
            PROFILE ":25: products of a dtype of this table are in that of line 17, expected one table of each");
    free(twice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_arrives_in_base_units),
        cmocka_unit_test(bad_values_are_refused_where_they_stand),
        cmocka_unit_test(bad_rate_lists_are_refused),
        cmocka_unit_test(more_points_than_a_table_holds_are_refused),
        cmocka_unit_test(bad_section_names_are_refused),
        cmocka_unit_test(all_problems_are_reported_at_once),
        cmocka_unit_test(a_table_stands_once),
        cmocka_unit_test(a_missing_profile_is_named),
        cmocka_unit_test(every_shipped_profile_is_read),
        cmocka_unit_test(tables_print_as_they_are_written),
        cmocka_unit_test(steps_and_spreads_arrive),
        cmocka_unit_test(tables_of_different_dtypes_stand_side_by_side),
        cmocka_unit_test(products_arrive_and_print_as_they_are_written),
        cmocka_unit_test(bad_products_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
