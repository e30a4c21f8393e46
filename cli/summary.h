/* summary.h - a file in one line, and the words for its parts: for tables, --check and the titles of plots. */
#ifndef CPSIM_CLI_SUMMARY_H
#define CPSIM_CLI_SUMMARY_H

#include <stddef.h>

#include "models/input/device.h"
#include "models/input/experiment.h"
#include "models/input/topology.h"

/* "llama3-8b bf16, 1,048,576 tokens, causal mask, train, cp 32, ring, zigzag" */
void summary_experiment(const struct experiment *experiment, char *text, size_t size);
/* "32 x h100-sxm: 8 per node (switch, 450 GB/s), 4 per cluster (switch, 50 GB/s)" */
void summary_topology(const struct topology *topology, char *text, size_t size);
/* "H100 SXM5 80 GB, 80 GiB, attention by fa3, fa2" */
void summary_device(const struct device *device, char *text, size_t size);

/* "64 query heads, 8 KV heads, head dim 128" */
void summary_transformer(const struct transformer *transformer, char *text, size_t size);

/* "131,072 tokens"; on a cached prefix "131,072 tokens, 32,768 of them new" */
void summary_tokens(const struct experiment *experiment, char *text, size_t size);

/* "causal mask", "window of 4096", "7 documents" */
void summary_mask(const struct mask *mask, char *text, size_t size);
/* How ranks go over the GPUs of their group: a word, "" for the natural order. */
const char *summary_ring(enum ring_kind kind);
const char *summary_sharding(enum sharding_kind kind);

/* A path's file name without folders and ".ini". */
void summary_name(const char *path, char *text, size_t size);

#endif
