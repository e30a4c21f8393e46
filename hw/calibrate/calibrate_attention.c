/* calibrate_attention.c - times of attention blocks: square ones, full and causal, which become tables of rates, and
 * others, which show how well the tables foretell what they do not contain.
 *
 * Each block is visited in several rounds, so that a slow minute of the machine does not fall on one of them; within a
 * visit forward and backward follow each other, since backward takes forward's results.
 */
#include <math.h>

#include "hw/calibrate/attention_case.h"

#define HEADS 2
#define ROUNDS 4
#define REPEATS_MAX 12 /* of a block in a round */

static const uint32_t sizes[] = {64, 128, 256, 512, 1024, 2048}, quick_sizes[] = {64, 256, 512};
static const uint32_t head_dims[] = {64, 128};
static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_BF16};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

const char *block_kind_name(enum block_kind kind)
{
    static const char *const names[BLOCK_KIND_COUNT] = {"full", "causal", "wide", "tall", "striped", "grouped"};
    return names[kind];
}

static void add_block(struct measured_table *table, enum block_kind kind, uint32_t queries, uint32_t keys,
                      uint32_t heads, uint32_t kv_heads)
{
    table->blocks[table->n_blocks++] =
        (struct measured_block){.kind = kind, .queries = queries, .keys = keys, .heads = heads, .kv_heads = kv_heads};
}

static void add_blocks(struct measured_table *table, bool quick)
{
    const uint32_t *of = quick ? quick_sizes : sizes;
    size_t n = quick ? COUNT_OF(quick_sizes) : COUNT_OF(sizes);
    for (size_t i = 0; i < n; i++) {
        add_block(table, BLOCK_FULL, of[i], of[i], HEADS, HEADS);
        add_block(table, BLOCK_CAUSAL, of[i], of[i], HEADS, HEADS);
    }
    const uint32_t probes[] = {192, 768};
    for (size_t i = 0; i < (quick ? 1 : COUNT_OF(probes)); i++) {
        uint32_t n_rows = probes[i];
        add_block(table, BLOCK_WIDE, n_rows, 2 * n_rows, HEADS, HEADS);
        add_block(table, BLOCK_TALL, 2 * n_rows, n_rows, HEADS, HEADS);
        add_block(table, BLOCK_STRIPED, n_rows, n_rows, HEADS, HEADS);
        add_block(table, BLOCK_GROUPED, n_rows, n_rows, 4 * HEADS, HEADS);
    }
}

/* The two tables of one dtype and head dim, and what was sampled for them. */
struct session {
    struct calibration_part *part;
    struct measured_table *tables[PASS_COUNT];
    struct samples samples[BLOCKS_MAX][PASS_COUNT];
    double smallest_seconds[PASS_COUNT]; /* of the first block, on the slowest rank */
    struct attention_case c;
    double seconds;
};

/* Counts the blocks' pairs, and times the smallest block. */
static void warm_up(struct session *s)
{
    for (uint32_t b = s->tables[0]->n_blocks; b-- > 0;) {
        attention_case_set(&s->c, &s->tables[0]->blocks[b]);
        s->tables[1]->blocks[b].pairs = s->tables[0]->blocks[b].pairs;
    }
    for (int i = 0; i < 3; i++) { /* the very first call pays for fresh memory */
        for (int pass = 0; pass < PASS_COUNT; pass++) {
            double start = cpu_seconds_now();
            attention_case_run(&s->c, (enum attention_pass)pass);
            s->smallest_seconds[pass] = cpu_seconds_now() - start;
        }
    }
}

/* Seconds that a call may take, from its work: a guess, but the same on every rank, so that all repeat equally often.
 */
static double guess(const struct session *s, uint32_t b, int pass)
{
    const struct measured_block *block = &s->tables[0]->blocks[b], *smallest = &s->tables[0]->blocks[0];
    return s->smallest_seconds[pass] * (block->heads * block->pairs) / (smallest->heads * smallest->pairs);
}

static bool visit(struct session *s, uint32_t b, double seconds_per_visit)
{
    if (!crew_meet(s->part->crew))
        return false;
    attention_case_set(&s->c, &s->tables[0]->blocks[b]);
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        double repeats = seconds_per_visit / PASS_COUNT / guess(s, b, pass);
        attention_case_run(&s->c, (enum attention_pass)pass); /* brings its tensors into the caches */
        for (int i = 0; i < REPEATS_MAX && (i == 0 || i < (int)repeats); i++) {
            struct stopwatch watch = stopwatch_start();
            attention_case_run(&s->c, (enum attention_pass)pass);
            samples_add(&s->samples[b][pass], watch);
        }
    }
    return true;
}

static bool collect(struct session *s)
{
    double spreads[BLOCKS_MAX];
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        for (uint32_t b = 0; b < s->tables[0]->n_blocks; b++) {
            struct samples *samples = &s->samples[b][pass];
            struct measured time = samples_result(samples);
            s->part->samples += samples->count;
            s->part->disturbed += samples->disturbed;
            samples_fini(samples);
            double values[2] = {time.value, time.spread};
            if (!crew_mean(s->part->crew, values, 2))
                return false;
            s->tables[pass]->blocks[b].time = (struct measured){values[0], values[1]};
            spreads[b] = values[1];
        }
        s->tables[pass]->spread = measured_of(spreads, s->tables[pass]->n_blocks).value;
    }
    return true;
}

static bool measure_tables(struct calibration_part *part, enum dtype dtype, uint32_t head_dim, double from, double to)
{
    static const uint32_t quick_rows = 2 * 512, rows = 2 * 2048;
    struct session s = {.part = part, .seconds = part->seconds * (to - from)};
    struct calibration *calibration = part->calibration;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        s.tables[pass] = &calibration->tables[calibration->n_tables++];
        *s.tables[pass] =
            (struct measured_table){.pass = (enum attention_pass)pass, .dtype = dtype, .head_dim = head_dim};
        add_blocks(s.tables[pass], part->quick);
    }
    size_t heads = 4 * HEADS, elements = (size_t)(part->quick ? quick_rows : rows) * heads * head_dim;
    attention_case_init(&s.c, dtype, head_dim, elements, elements / head_dim);
    int rounds = part->quick ? 1 : ROUNDS;
    uint32_t n = s.tables[0]->n_blocks;
    warm_up(&s);
    bool good = crew_largest(part->crew, s.smallest_seconds, PASS_COUNT);
    for (int round = 0; round < rounds && good; round++) {
        for (uint32_t b = 0; b < n && good; b++)
            good = visit(&s, b, s.seconds / rounds / n);
        part->progress(part, from + (to - from) * (round + 1) / rounds);
    }
    good = good && collect(&s);
    attention_case_fini(&s.c);
    return good;
}

bool calibrate_attention(struct calibration_part *part)
{
    const double share = 1.0 / (COUNT_OF(dtypes) * COUNT_OF(head_dims));
    double from = 0;
    for (size_t t = 0; t < COUNT_OF(dtypes); t++) {
        for (size_t d = 0; d < COUNT_OF(head_dims); d++, from += share)
            if (!measure_tables(part, dtypes[t], head_dims[d], from, from + share))
                return false;
    }
    return true;
}
