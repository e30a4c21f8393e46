/* random_experiment.h - for tests: experiments drawn at random, of any algorithm, legal or not.
 *
 * Every key that some algorithm looks at takes every kind of value. Nothing here knows an algorithm, so that a new one
 * is tried as hard as the others without a line. What an experiment demands by itself (zigzag's divisor, no training on
 * a cached prefix) is kept; what algorithms demand is not.
 */
#ifndef CPSIM_TESTS_RANDOM_EXPERIMENT_H
#define CPSIM_TESTS_RANDOM_EXPERIMENT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/experiment.h"
#include "models/input/ini_document.h"

/* A stream of random numbers of its own: the same on every machine. */
struct dice {
    uint64_t state;
};

static inline uint32_t dice_below(struct dice *dice, uint32_t n)
{
    dice->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = dice->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

static inline bool dice_chance(struct dice *dice, uint32_t one_in)
{
    return dice_below(dice, one_in) == 0;
}

/* How large the experiments may get. */
struct random_bounds {
    uint32_t ranks_max;
    uint32_t rows_max; /* about so many new positions a rank */
    enum dtype dtype;
};

static inline struct mask random_mask(struct dice *dice, uint64_t seq_len)
{
    struct mask mask = {.kind = (enum mask_kind)dice_below(dice, 4), .seq_len = seq_len};
    if (mask.kind == MASK_WINDOW)
        mask.window = 1 + dice_below(dice, (uint32_t)seq_len + 3);
    if (mask.kind == MASK_DOCUMENTS) {
        mask.document_starts = memory_zeroed(seq_len + 1, sizeof *mask.document_starts);
        while (mask.document_starts[mask.n_documents] < seq_len) {
            uint64_t left = seq_len - mask.document_starts[mask.n_documents];
            uint64_t length = 1 + dice_below(dice, (uint32_t)(left < 40 ? left : 40));
            mask.document_starts[mask.n_documents + 1] = mask.document_starts[mask.n_documents] + length;
            mask.n_documents++;
        }
    }
    return mask;
}

static inline void random_shape(struct dice *dice, struct transformer *model)
{
    static const uint32_t heads[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4},  {6, 3},
                                        {8, 2}, {8, 8}, {8, 1}, {8, 4}, {12, 4}, {16, 16}};
    uint32_t pick = dice_below(dice, sizeof heads / sizeof *heads);
    *model = (struct transformer){.name = "custom",
                                  .q_heads = heads[pick][0],
                                  .kv_heads = heads[pick][1],
                                  .head_dim = 2 * (1 + dice_below(dice, 4))};
}

static inline uint64_t random_length(struct dice *dice, struct experiment *e, const struct random_bounds *bounds)
{
    uint32_t cp = e->degree[PARALLEL_CP], rows = 1 + dice_below(dice, bounds->rows_max);
    if (e->sharding == SHARDING_ZIGZAG)
        return 2 * (uint64_t)cp * ((rows + 1) / 2);
    uint64_t length = (uint64_t)cp * rows;
    if (dice_chance(dice, 3)) /* uneven, perhaps fewer than ranks */
        length = 1 + dice_below(dice, (uint32_t)length);
    return length;
}

/* Shards of any lengths, empty ones among them. */
static inline void random_counts(struct dice *dice, struct experiment *e)
{
    uint32_t cp = e->degree[PARALLEL_CP];
    uint64_t left = e->seq_len;
    e->sharding = SHARDING_EXPLICIT;
    e->shard_counts = memory_zeroed(cp, sizeof *e->shard_counts);
    for (uint32_t rank = 0; rank < cp; rank++) {
        uint64_t rows = dice_below(dice, 2 * (uint32_t)(e->seq_len / cp) + 2);
        e->shard_counts[rank] = rank + 1 == cp || rows > left ? left : rows;
        left -= e->shard_counts[rank];
    }
}

static inline void random_schedule(struct dice *dice, struct experiment *e)
{
    uint32_t cp = e->degree[PARALLEL_CP], divisor = 1 + dice_below(dice, cp);
    while (cp % divisor)
        divisor--;
    e->overlap = !dice_chance(dice, 4);
    e->buffers = 1 + dice_below(dice, 4);
    e->kv_block = dice_chance(dice, 3) ? 1 + dice_below(dice, 12) : 0;
    e->skip = (enum skip_kind)dice_below(dice, 3);
    e->split_kv = dice_chance(dice, 3);
    e->gradient_accumulator = !dice_chance(dice, 3);
    e->collective = (enum collective_kind)dice_below(dice, 3);
    e->collective_node = divisor;
    e->ulysses_degree = dice_chance(dice, 2) ? 0 : 1 + dice_below(dice, cp);
    e->ring_window = dice_chance(dice, 2) ? 0 : 1 + dice_below(dice, cp);
    e->gather_heads = dice_below(dice, 4);
    e->inner = (enum inner_kind)dice_below(dice, 2);
}

/* The caller calls random_experiment_fini. */
static inline struct experiment random_experiment(struct dice *dice, const char *algorithm,
                                                  const struct random_bounds *bounds)
{
    static struct ini_document no_document; /* every key is as if it were a default */
    struct experiment e = {.path = (char *)"test.ini",
                           .dtype = bounds->dtype,
                           .batch = 1 + (dice_chance(dice, 3) ? dice_below(dice, 5) : 0),
                           .degree = {1, 1 + dice_below(dice, bounds->ranks_max), 1},
                           .order = {PARALLEL_TP, PARALLEL_CP, PARALLEL_DP},
                           .document = &no_document};
    snprintf(e.algorithm, sizeof e.algorithm, "%s", algorithm);
    random_shape(dice, &e.model);
    e.sharding = (enum sharding_kind)dice_below(dice, 3);
    e.train = dice_chance(dice, 2);
    e.seq_len = random_length(dice, &e, bounds);
    if (!e.train && dice_chance(dice, 2)) { /* a cached prefix; sometimes hardly anything but that */
        uint64_t cached = 1 + dice_below(dice, 4 * bounds->rows_max);
        if (e.sharding != SHARDING_ZIGZAG && dice_chance(dice, 2))
            e.seq_len = 1 + dice_below(dice, 3);
        e.new_tokens = e.seq_len;
        e.seq_len += cached;
    }
    e.mask = random_mask(dice, e.seq_len);
    if (e.mask.kind == MASK_DOCUMENTS && e.mask.n_documents <= SHARDING_DOCUMENTS_MAX && !e.new_tokens &&
        dice_chance(dice, 2))
        e.sharding = SHARDING_PER_DOCUMENT;
    if (!e.new_tokens && e.sharding != SHARDING_ZIGZAG && e.sharding != SHARDING_PER_DOCUMENT && dice_chance(dice, 4))
        random_counts(dice, &e);
    random_schedule(dice, &e);
    return e;
}

static inline void random_experiment_fini(struct experiment *e)
{
    free(e->mask.document_starts);
    e->mask.document_starts = NULL;
    free(e->shard_counts);
    e->shard_counts = NULL;
}

/* One line that says which it was. */
static inline void random_experiment_describe(const struct experiment *e, char *text, size_t size)
{
    static const char *const shardings[] = {"contiguous", "zigzag", "striped", "per document", "explicit"};
    static const char *const masks[] = {"full", "causal", "window", "documents"};
    snprintf(text, size,
             "%s cp %u, %u/%u heads of %u, seq_len %llu, new %llu, batch %u, %s, %s(%llu), %s, overlap %d, buffers %u, "
             "kv_block %llu, skip %d, split %d, fp32 gradients %d, collective %d:%u, ulysses %u, window %u, heads %u, "
             "inner %d",
             e->algorithm, e->degree[PARALLEL_CP], e->model.q_heads, e->model.kv_heads, e->model.head_dim,
             (unsigned long long)e->seq_len, (unsigned long long)e->new_tokens, e->batch, shardings[e->sharding],
             masks[e->mask.kind], (unsigned long long)e->mask.window, e->train ? "train" : "forward", e->overlap,
             e->buffers, (unsigned long long)e->kv_block, (int)e->skip, e->split_kv, e->gradient_accumulator,
             (int)e->collective, e->collective_node, e->ulysses_degree, e->ring_window, e->gather_heads, (int)e->inner);
}

#endif
