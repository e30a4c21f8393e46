/* calibrate_blocks.c - rounds of visits to the blocks of two tables. */
#include "hw/calibrate/calibrate_blocks.h"

const char *block_kind_name(enum block_kind kind)
{
    static const char *const names[BLOCK_KIND_COUNT] = {"full", "causal", "wide", "tall", "striped", "grouped"};
    return names[kind];
}

void measured_table_add(struct measured_table *table, enum block_kind kind, uint32_t queries, uint32_t keys,
                        uint32_t heads, uint32_t kv_heads)
{
    table->blocks[table->n_blocks++] =
        (struct measured_block){.kind = kind, .queries = queries, .keys = keys, .heads = heads, .kv_heads = kv_heads};
}

/* The two tables, and what was sampled for them. */
struct session {
    struct calibration_part *part;
    struct measured_table *const *tables;
    struct block_bench *bench;
    const struct block_plan *plan;
    struct samples samples[BLOCKS_MAX][PASS_COUNT];
    double reference_seconds[PASS_COUNT]; /* of the block that others are guessed from, on the slowest rank */
};

/* Counts the blocks' pairs, and times the reference. */
static bool warm_up(struct session *s)
{
    struct measured_table *first = s->tables[0];
    bool good = true;
    for (uint32_t b = 0; b < first->n_blocks && good; b++) {
        good = s->bench->set(s->bench, &first->blocks[b]);
        s->tables[1]->blocks[b].pairs = first->blocks[b].pairs;
    }
    good = good && s->bench->set(s->bench, &first->blocks[s->plan->reference]);
    for (int pass = 0; pass < PASS_COUNT && good; pass++) { /* the very first call pays for fresh memory */
        struct samples samples = {0};
        good = s->bench->time(s->bench, (enum attention_pass)pass, 1, &samples);
        s->reference_seconds[pass] = samples_result(&samples).value;
        samples_fini(&samples);
    }
    return good;
}

/* Seconds that a call may take, from its work: a guess, but the same on every rank, so that all repeat equally often.
 */
static double guess(const struct session *s, uint32_t b, int pass)
{
    const struct measured_block *block = &s->tables[0]->blocks[b];
    const struct measured_block *reference = &s->tables[0]->blocks[s->plan->reference];
    return s->reference_seconds[pass] * (block->heads * block->pairs) / (reference->heads * reference->pairs);
}

static bool visit(struct session *s, uint32_t b, double seconds_per_visit)
{
    if (!crew_meet(s->part->crew) || !s->bench->set(s->bench, &s->tables[0]->blocks[b]))
        return false;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        double some = seconds_per_visit / PASS_COUNT / guess(s, b, pass);
        uint32_t repeats = some < s->plan->repeats_max ? (uint32_t)some : s->plan->repeats_max;
        if (!s->bench->time(s->bench, (enum attention_pass)pass, repeats ? repeats : 1, &s->samples[b][pass]))
            return false;
    }
    return true;
}

static bool collect(struct session *s)
{
    double spreads[BLOCKS_MAX];
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        for (uint32_t b = 0; b < s->tables[0]->n_blocks; b++) {
            struct samples *samples = &s->samples[b][pass];
            struct measured *time = &s->tables[pass]->blocks[b].time;
            *time = samples_result(samples);
            s->part->samples += samples->count;
            s->part->disturbed += samples->disturbed;
            if (!calibration_agree(s->part->crew, time))
                return false;
            spreads[b] = time->spread;
        }
        s->tables[pass]->spread = measured_of(spreads, s->tables[pass]->n_blocks).value;
    }
    return true;
}

bool calibrate_blocks(struct calibration_part *part, struct measured_table *const tables[PASS_COUNT],
                      struct block_bench *bench, const struct block_plan *plan)
{
    struct session s = {.part = part, .tables = tables, .bench = bench, .plan = plan};
    uint32_t n = tables[0]->n_blocks;
    bool good = warm_up(&s) && crew_largest(part->crew, s.reference_seconds, PASS_COUNT);
    for (uint32_t round = 0; round < plan->rounds && good; round++) {
        for (uint32_t b = 0; b < n && good; b++)
            good = visit(&s, b, plan->seconds / plan->rounds / n);
        part->progress(part, plan->from + (plan->to - plan->from) * (round + 1) / plan->rounds);
    }
    good = good && collect(&s);
    for (uint32_t b = 0; b < n; b++)
        for (int pass = 0; pass < PASS_COUNT; pass++)
            samples_fini(&s.samples[b][pass]);
    return good;
}
