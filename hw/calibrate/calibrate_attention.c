/* calibrate_attention.c - times of attention blocks on CPUs: square ones, full and causal, which become tables of
 * rates, and others, which show how well the tables foretell what they do not contain.
 */
#include "hw/calibrate/attention_case.h"
#include "hw/calibrate/calibrate_blocks.h"

#define HEADS 2
#define ROUNDS 4
#define REPEATS_MAX 12 /* of a block in a round */

static const uint32_t sizes[] = {64, 128, 256, 512, 1024, 2048}, quick_sizes[] = {64, 256, 512};
static const uint32_t head_dims[] = {64, 128};
static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void add_blocks(struct measured_table *table, bool quick)
{
    const uint32_t *of = quick ? quick_sizes : sizes;
    size_t n = quick ? COUNT_OF(quick_sizes) : COUNT_OF(sizes);
    for (size_t i = 0; i < n; i++) {
        measured_table_add(table, BLOCK_FULL, of[i], of[i], HEADS, HEADS);
        measured_table_add(table, BLOCK_CAUSAL, of[i], of[i], HEADS, HEADS);
    }
    const uint32_t probes[] = {192, 768};
    for (size_t i = 0; i < (quick ? 1 : COUNT_OF(probes)); i++) {
        uint32_t n_rows = probes[i];
        measured_table_add(table, BLOCK_WIDE, n_rows, 2 * n_rows, HEADS, HEADS);
        measured_table_add(table, BLOCK_TALL, 2 * n_rows, n_rows, HEADS, HEADS);
        measured_table_add(table, BLOCK_STRIPED, n_rows, n_rows, HEADS, HEADS);
        measured_table_add(table, BLOCK_GROUPED, n_rows, n_rows, 4 * HEADS, HEADS);
    }
}

struct cpu_bench {
    struct block_bench bench; /* first: it is all that others know of */
    struct attention_case c;
};

static bool set_block(struct block_bench *bench, struct measured_block *block)
{
    attention_case_set(&((struct cpu_bench *)bench)->c, block);
    return true;
}

static bool time_block(struct block_bench *bench, enum attention_pass pass, uint32_t repeats, struct samples *samples)
{
    struct attention_case *c = &((struct cpu_bench *)bench)->c;
    attention_case_run(c, pass); /* brings its tensors into the caches */
    for (uint32_t i = 0; i < repeats; i++) {
        struct stopwatch watch = stopwatch_start();
        attention_case_run(c, pass);
        samples_add(samples, watch);
    }
    return true;
}

static bool measure_tables(struct calibration_part *part, enum dtype dtype, uint32_t head_dim, double from, double to)
{
    static const uint32_t quick_rows = 2 * 512, rows = 2 * 2048;
    struct calibration *calibration = part->calibration;
    struct measured_table *tables[PASS_COUNT];
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        tables[pass] = &calibration->tables[calibration->n_tables++];
        *tables[pass] =
            (struct measured_table){.pass = (enum attention_pass)pass, .dtype = dtype, .head_dim = head_dim};
        add_blocks(tables[pass], part->quick);
    }
    const struct block_plan plan = {.rounds = part->quick ? 1 : ROUNDS,
                                    .repeats_max = REPEATS_MAX,
                                    .seconds = part->seconds * (to - from),
                                    .from = from,
                                    .to = to};
    struct cpu_bench cpu = {.bench = {set_block, time_block}};
    size_t heads = 4 * HEADS, elements = (size_t)(part->quick ? quick_rows : rows) * heads * head_dim;
    attention_case_init(&cpu.c, dtype, head_dim, elements, elements / head_dim);
    bool good = calibrate_blocks(part, tables, &cpu.bench, &plan);
    attention_case_fini(&cpu.c);
    return good;
}

bool calibrate_attention(struct calibration_part *part)
{
    const size_t tables = COUNT_OF(dtypes) * COUNT_OF(head_dims);
    const double share = 1.0 / (double)tables;
    double from = 0;
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        for (size_t d = 0; d < COUNT_OF(head_dims); d++, from += share)
            if (!measure_tables(part, dtypes[t], head_dims[d], from, from + share))
                return false;
    }
    return true;
}
