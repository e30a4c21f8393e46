/* sharding_of.h - a sharding without an experiment file. */
#ifndef CPSIM_TESTS_MODELS_SHARDING_OF_H
#define CPSIM_TESTS_MODELS_SHARDING_OF_H

#include "models/schedule/sharding.h"

/* `counts`: of SHARDING_EXPLICIT, else NULL. The caller calls sharding_fini. */
static inline struct sharding sharding_of(enum sharding_kind kind, uint64_t seq_len, uint32_t ranks, uint64_t *counts)
{
    struct experiment experiment = {.sharding = kind, .seq_len = seq_len, .shard_counts = counts};
    experiment.degree[PARALLEL_CP] = ranks;
    struct sharding sharding;
    sharding_init(&sharding, &experiment, 1);
    sharding.mask = NULL;
    return sharding;
}

/* Per document of `mask`, which the sharding refers to; in groups of `joined` ranks. */
static inline struct sharding sharding_of_documents(const struct mask *mask, uint32_t ranks, uint32_t joined)
{
    struct sharding sharding = sharding_of(SHARDING_PER_DOCUMENT, mask->seq_len, ranks, NULL);
    sharding.joined = joined;
    sharding.mask = mask;
    return sharding;
}

#endif
