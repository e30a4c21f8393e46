/* device_keys.c - the key tables of a device profile, and the values that only it has: dtypes, rates over lengths.
 *
 * Every table names its source: a figure without one is worth nothing in a comparison.
 */
#include "models/input/device_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/device_values.h"
#include "models/input/units.h"

#define TFLOP 1e12

static const char rates_form[] = "SEQ_LEN: RATE, ... such as 2048: 360 TFLOP/s, 4096: 376 TFLOP/s (lengths ascending)";

static bool parse_dtypes(void *target, const char *text, const char **expected)
{
    struct attention_table *table = target;
    return device_parse_dtypes(&table->dtypes, text, expected);
}

static void print_dtypes(const void *target, char *text, size_t size)
{
    const struct attention_table *table = target;
    device_print_dtypes(table->dtypes, text, size);
}

/* Reads "1024: 315.2 TFLOP/s, 2048: 359.7 TFLOP/s" into at most RATE_POINTS_MAX points; the number of points, 0 if it
 * is not that. */
static size_t parse_rate_list(char *text, struct rate_point points[RATE_POINTS_MAX])
{
    size_t count = 0;
    for (char *item; (item = device_next_item(&text, ','));) {
        char *rate_text = item;
        char *length_text = device_next_item(&rate_text, ':');
        rate_text = device_next_item(&rate_text, '\0');
        uint64_t seq_len;
        double rate;
        if (count == RATE_POINTS_MAX || !rate_text || !units_parse_count(length_text, &seq_len) || seq_len == 0 ||
            seq_len > UINT32_MAX || !units_parse(rate_text, DIMENSION_FLOPS, &rate) || rate < 1e6 || rate > 1e18)
            return 0;
        if (count && (double)seq_len <= points[count - 1].seq_len)
            return 0;
        points[count++] = (struct rate_point){.seq_len = (double)seq_len, .flops_per_s = rate};
    }
    return count;
}

static bool parse_rates(struct rate_point **points, size_t *count, const char *text, const char **expected)
{
    struct rate_point list[RATE_POINTS_MAX];
    char *copy = memory_text(text);
    size_t n = parse_rate_list(copy, list);
    free(copy);
    *expected = rates_form;
    if (n == 0)
        return false;
    free(*points);
    *points = memory_zeroed(n, sizeof **points);
    memcpy(*points, list, n * sizeof *list);
    *count = n;
    return true;
}

static bool parse_full(void *target, const char *text, const char **expected)
{
    struct attention_table *table = target;
    return parse_rates(&table->full, &table->n_full, text, expected);
}

static bool parse_causal(void *target, const char *text, const char **expected)
{
    struct attention_table *table = target;
    return parse_rates(&table->causal, &table->n_causal, text, expected);
}

static void print_rates(const struct rate_point *points, size_t count, char *text, size_t size)
{
    size_t length = 0;
    if (size)
        text[0] = '\0';
    for (size_t i = 0; i < count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%.0f: %.10g TFLOP/s", i ? ", " : "",
                                   points[i].seq_len, points[i].flops_per_s / TFLOP);
}

static void print_full(const void *target, char *text, size_t size)
{
    const struct attention_table *table = target;
    print_rates(table->full, table->n_full, text, size);
}

static void print_causal(const void *target, char *text, size_t size)
{
    const struct attention_table *table = target;
    print_rates(table->causal, table->n_causal, text, size);
}

static const struct key_spec device_keys[] = {
    {.name = "name",
     .type = KEY_TEXT,
     .offset = offsetof(struct device, name),
     .size = sizeof(((struct device *)0)->name),
     .form = "text",
     .help = "what people call it"},
    {.name = "memory",
     .form = "a size such as 80 GiB",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_BYTES,
     .offset = offsetof(struct device, memory_bytes),
     .minimum = 1e6,
     .maximum = 1e15,
     .help = "capacity"},
    {.name = "memory_bandwidth",
     .form = "a rate such as 3.35 TB/s",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct device, memory_bytes_per_s),
     .minimum = 1e6,
     .maximum = 1e15,
     .help = "as the datasheet has it"},
    {.name = "memory_efficiency",
     .form = "a share such as 0.9",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct device, memory_efficiency),
     .minimum = 0.01,
     .maximum = 1.0,
     .help = "share of memory_bandwidth that merges, sums and casts reach"},
    {.name = "peak",
     .form = "a rate such as 989 TFLOP/s",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_FLOPS,
     .offset = offsetof(struct device, peak_flops_per_s),
     .fallback = "",
     .minimum = 1e6,
     .maximum = 1e18,
     .help = "dense peak of 16-bit types, which no rate exceeds; absent: no bound"},
    {.name = "launch",
     .form = "a time such as 3 us",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = offsetof(struct device, launch_seconds),
     .minimum = 0.0,
     .maximum = 1.0,
     .help = "from the end of one kernel to the start of the next"},
    {.name = "transfer_slowdown",
     .form = "a share such as 0.1",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct device, transfer_slowdown),
     .fallback = "0",
     .minimum = 0,
     .maximum = 1,
     .help = "how much slower a rank computes while one of its messages moves: 0 not at all, 1 it stands still"},
    {.name = "processors",
     .form = "a number",
     .type = KEY_COUNT32,
     .offset = offsetof(struct device, processors),
     .minimum = 1,
     .maximum = 1000000,
     .help = "SMs, or cores"},
    {.name = "tile_rows",
     .form = "a number such as 128",
     .type = KEY_COUNT32,
     .offset = offsetof(struct device, tile_rows),
     .minimum = 1,
     .maximum = 1000000,
     .help = "rows that an attention kernel gives to one processor at a time"},
    {.name = "kernel",
     .type = KEY_TEXT,
     .offset = offsetof(struct device, default_kernel),
     .size = sizeof(((struct device *)0)->default_kernel),
     .form = "a KERNEL of the [attention] sections",
     .help = "the attention kernel used unless the topology names another"},
};

#define STEP_KEY(NAME, STEP, HELP)                                                                                     \
    {                                                                                                                  \
        .name = (NAME), .type = KEY_QUANTITY, .dimension = DIMENSION_RATE,                                             \
        .offset = offsetof(struct device, step_bytes_per_s) + (STEP) * sizeof(double), .fallback = "", .minimum = 1e3, \
        .maximum = 1e15, .form = "a rate such as 8.5 GB/s", .help = (HELP)                                             \
    }
static const struct key_spec steps_keys[] = {
    STEP_KEY("merge", STEP_MERGE, "joining a partial result to the online softmax state, in bytes read and written"),
    STEP_KEY("finish", STEP_FINISH, "the output from that state"),
    STEP_KEY("delta", STEP_DELTA, "the backward pass's sums over dO and O"),
    STEP_KEY("accumulate", STEP_ACCUMULATE, "adding a block's gradient to a sum"),
    STEP_KEY("cast", STEP_CAST, "copying to another type"),
    STEP_KEY("elementwise", STEP_ELEMENTWISE,
             "a layer's norms, activations, residuals, embeddings, loss and optimizer"),
    SPREAD_KEY(struct device, steps_spread, "how far these rates vary, relative: gives predictions an interval"),
    SOURCE_KEY,
};

static const char *const persistent_words[] = {"unknown", "no", "yes", NULL}; /* as enum persistence */

static const struct key_spec attention_keys[] = {
    {.name = "dtype",
     .type = KEY_CUSTOM,
     .form = device_dtypes_form,
     .parse = parse_dtypes,
     .print = print_dtypes,
     .help = "the dtypes that the rates hold for"},
    {.name = "heads",
     .form = "a number",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct attention_table, heads),
     .minimum = 1.0,
     .maximum = 1e6,
     .help = "query heads of the runs that gave the rates"},
    {.name = "batch",
     .form = "a number",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct attention_table, batch),
     .fallback = "",
     .minimum = 1.0,
     .maximum = 1e9,
     .help = "sequences of these runs; or give tokens"},
    {.name = "tokens",
     .form = "a number",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct attention_table, tokens),
     .fallback = "",
     .minimum = 1.0,
     .maximum = 1e12,
     .help = "batch x sequence length, when that was held constant over the runs"},
    {.name = "rate_scale",
     .form = "a number",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct attention_table, rate_scale),
     .fallback = "1",
     .minimum = 0.001,
     .maximum = 1000.0,
     .help = "multiplies the rates: for a device known by those of a relative"},
    {.name = "persistent",
     .type = KEY_CHOICE,
     .offset = offsetof(struct attention_table, persistent),
     .fallback = "unknown",
     .choices = persistent_words,
     .help = "whether its workers stay for all tiles (yes), or each tile is a block of its own (no), so that few SMs "
             "less may mean a wave more"},
    {.name = "tile_rows",
     .form = "a number such as 192",
     .type = KEY_COUNT32,
     .offset = offsetof(struct attention_table, tile_rows),
     .fallback = "",
     .minimum = 1,
     .maximum = 1000000,
     .help = "rows of this kernel's tiles; absent: the device's"},
    {.name = "blocks",
     .form = "a number",
     .type = KEY_COUNT32,
     .offset = offsetof(struct attention_table, blocks),
     .fallback = "1",
     .minimum = 1,
     .maximum = 32,
     .help = "tiles that one processor works on at the same time"},
    SPREAD_KEY(struct attention_table, spread, "how far the rates vary, relative: gives predictions an interval"),
    {.name = "full",
     .type = KEY_CUSTOM,
     .fallback = "",
     .form = rates_form,
     .parse = parse_full,
     .print = print_full,
     .help = "rates without a mask, FLOPs = 4 x heads x head dim x pairs (x 2.5 backward)"},
    {.name = "causal",
     .type = KEY_CUSTOM,
     .fallback = "",
     .form = rates_form,
     .parse = parse_causal,
     .print = print_causal,
     .help = "rates under the causal mask, counted over pairs = SEQ_LEN^2 / 2"},
    SOURCE_KEY,
};

const struct section_spec device_section = {
    .name = "device",
    .required = true,
    .help = "what the device is",
    .keys = device_keys,
    .n_keys = sizeof device_keys / sizeof *device_keys,
};

const struct section_spec device_steps_section = {
    .name = "steps",
    .help = "rates of the steps around attention; one not given moves memory_bandwidth x memory_efficiency",
    .keys = steps_keys,
    .n_keys = sizeof steps_keys / sizeof *steps_keys,
};

const struct section_spec device_attention_section = {
    .name = "attention",
    .named = true,
    .required = true,
    .help = "[attention KERNEL forward|backward HEAD_DIM]: how fast a kernel is; HEAD_DIM may be any; behind it may "
            "stand the dtype",
    .keys = attention_keys,
    .n_keys = sizeof attention_keys / sizeof *attention_keys,
};

static const struct section_spec *const device_sections[] = {&device_section, &device_steps_section,
                                                             &device_attention_section, &device_product_section, NULL};

const struct file_spec device_file = {.name = "device profile", .sections = device_sections};
