/* experiment.h - what the user asks: a model (its attention, a layer, or all of it), a workload, a parallel layout, a
 * schedule.
 *
 * Read from an experiment INI (design: [model], [workload], [parallel], [schedule]) and constant afterwards. Everything
 * that can be judged from these keys alone has been judged when reading succeeds: ranges, divisibility of heads by tp,
 * of the sequence by the sharding, overflow. What an algorithm demands is the algorithm's to check.
 */
#ifndef CPSIM_MODELS_INPUT_EXPERIMENT_H
#define CPSIM_MODELS_INPUT_EXPERIMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/base/dtype.h"
#include "models/input/implementation.h"
#include "models/input/step.h"

struct ini_document;

/* Positions are 32-bit inside a block of rows, so a sequence has at most 2^31 of them; pair counts then fit 64 bits. */
#define SEQ_LEN_MAX (UINT64_C(1) << 31)

enum mlp_kind {
    MLP_GATED, /* three matrices: down(act(gate(x)) * up(x)), as SwiGLU */
    MLP_PLAIN, /* two: down(act(up(x))) */
};

enum norm_kind {
    NORM_RMS,   /* a scale per element */
    NORM_LAYER, /* a scale and a shift */
};

/* Which matrix products of a layer add a bias; the head never does. */
enum bias_kind { BIAS_NONE, BIAS_QKV, BIAS_ALL };

/* The shape of a dense transformer (no mixture of experts): per layer a norm, attention, a norm, an MLP; a norm and the
 * head behind the last. Attention uses q_heads, kv_heads and head_dim alone; models/layer counts with all of it. */
struct transformer {
    char name[48]; /* the preset's name, or "custom" */
    uint32_t q_heads, kv_heads, head_dim;
    uint32_t layers, hidden, ffn, vocab; /* 0 when a custom model does not give them */
    enum mlp_kind mlp;
    enum norm_kind norm;
    enum bias_kind bias;
    bool tied_embeddings; /* the head's matrix is the embedding's */
    uint32_t positions;   /* learned position embeddings; 0: none, rotary ones have no parameters */
    bool dropout;         /* trained with dropout on attention's probabilities and behind both blocks */
    uint64_t window;      /* sliding window the model was trained with; 0 = none; a run has its workload's mask */
};

enum mask_kind {
    MASK_FULL,      /* every query sees every key */
    MASK_CAUSAL,    /* key <= query */
    MASK_WINDOW,    /* query - window < key <= query: `window` keys, the query's own position included */
    MASK_DOCUMENTS, /* key <= query, both in the same document */
};

struct mask {
    enum mask_kind kind;
    uint64_t seq_len;
    uint64_t window;           /* MASK_WINDOW */
    uint64_t *document_starts; /* MASK_DOCUMENTS: n_documents + 1 ascending positions, from 0 to seq_len */
    size_t n_documents;
};

enum sharding_kind {
    SHARDING_CONTIGUOUS,   /* rank r owns one run of positions */
    SHARDING_ZIGZAG,       /* rank r owns chunks r and 2P-1-r of 2P */
    SHARDING_STRIPED,      /* rank r owns positions r, r+P, ... */
    SHARDING_PER_DOCUMENT, /* zigzag inside every document of the mask: as long as its pieces may be, all ranks see as
                              much of each document */
    SHARDING_EXPLICIT,     /* contiguous runs of the given, possibly uneven, lengths */
};

enum skip_kind {
    SKIP_NONE,     /* blocks with no visible pair are computed like any other */
    SKIP_COMPUTE,  /* they are received (and relayed) but not computed */
    SKIP_TRANSFER, /* nor are they sent to ranks that see nothing of them */
};

enum collective_kind {
    COLLECTIVE_RING,         /* P-1 steps to the neighbour */
    COLLECTIVE_DIRECT,       /* every rank to every other at once */
    COLLECTIVE_HIERARCHICAL, /* among the nodes first, each rank with its like; then inside the node; or the reverse */
};

/* Which ranks of a two-level algorithm are neighbours: consecutive in the layout. */
enum inner_kind {
    INNER_ALL_TO_ALL, /* those that exchange heads for rows */
    INNER_RING,       /* those of a ring */
};

/* Documents that a sharding per document may have: every one of them is two runs of positions in each shard. */
#define SHARDING_DOCUMENTS_MAX 64

/* How the CP ranks of a group are laid over its GPUs (models/input/ring_order.h). */
enum ring_kind {
    RING_NATURAL,    /* in the order of the GPUs' numbers */
    RING_NODE_MAJOR, /* node after node */
    RING_RAIL,       /* lane after lane: each over all nodes */
    RING_SNAKE,      /* to and fro: a step from node to node goes to a neighbour */
    RING_EXPLICIT,   /* as listed */
};

/* The three dimensions of a parallel layout. */
enum parallel_dimension { PARALLEL_TP, PARALLEL_CP, PARALLEL_DP, PARALLEL_DIMENSIONS };

struct experiment {
    char *path; /* as the user named it */

    struct transformer model;
    enum dtype dtype;

    uint64_t seq_len;    /* of the whole CP group */
    uint64_t new_tokens; /* the last positions, those that have queries, on a cached prefix; 0: all of seq_len */
    uint32_t batch;      /* sequences per CP group */
    struct mask mask;
    bool train; /* forward and backward; false: forward only */

    uint32_t degree[PARALLEL_DIMENSIONS];               /* tp, cp, dp */
    enum parallel_dimension order[PARALLEL_DIMENSIONS]; /* innermost first */
    enum ring_kind ring;
    uint64_t *ring_indices; /* RING_EXPLICIT: the cp indices in the order of the ring; else NULL */

    struct step_setting step; /* scope, and how what surrounds attention is done */

    char algorithm[32];
    enum sharding_kind sharding;
    uint64_t *shard_counts; /* SHARDING_EXPLICIT: cp lengths that sum to seq_len; else NULL */
    bool overlap;           /* exchanges on their own stream(s) */
    uint32_t buffers;       /* received KV blocks that may be held at once */
    uint64_t kv_block;      /* at most so many positions travel in one message; 0: the whole shard */
    enum skip_kind skip;
    bool split_kv;             /* K and V in two messages instead of one */
    bool gradient_accumulator; /* dK, dV accumulated and returned in fp32 (or wider) instead of the model's dtype */
    enum collective_kind collective;
    uint32_t collective_node; /* COLLECTIVE_HIERARCHICAL: consecutive ranks of a node */
    uint32_t ulysses_degree;  /* ranks that exchange heads for rows; 0: as many as the heads allow */
    uint32_t ring_window;     /* ranks of an inner ring of a double ring; 0: the algorithm's choice */
    uint32_t gather_heads;    /* KV heads gathered at once; 0: one */
    enum inner_kind inner;
    char implementation_name[200]; /* models/implementations/NAME.ini, or the path of a file */
    struct implementation implementation;

    struct ini_document *document; /* what was written, for experiment_key_line and the report */
};

/* Reads `path` and applies `overrides` ("section.key=value", those whose section belongs to an experiment; the caller
 * has sorted out the others). False with every problem in `diag`. On success the caller calls experiment_fini. */
bool experiment_read(struct experiment *experiment, const char *path, const char *const *overrides, size_t n_overrides,
                     struct diagnostics *diag);
void experiment_fini(struct experiment *experiment);

/* The line on which "section.key" was written, 0 if it was not (a default), -1 if it came from an override. */
int experiment_key_line(const struct experiment *experiment, const char *section, const char *key);

/* Whether the value of "section.key" may be judged by: false where what the file says of it was refused, which has been
 * reported. Judgements between keys ask, so that one mistake draws one message. */
bool experiment_knows(const struct experiment *experiment, const char *section, const char *key);

/* A message about "section.key", at the line or override that wrote it; about the section where none did. An
 * experiment that was not read has no such places. Returns false. */
bool experiment_complain(const struct experiment *experiment, const char *section, const char *key,
                         struct diagnostics *diag, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Query and KV heads of one rank: the model's, divided by tp. */
uint32_t experiment_q_heads(const struct experiment *experiment);
uint32_t experiment_kv_heads(const struct experiment *experiment);

/* Positions of the cached prefix, which have keys and no queries: 0 without one. */
uint64_t experiment_cached(const struct experiment *experiment);

/* Calls `visit` for every key with its effective value as text in INI syntax ("131072", "causal", "bf16"), in the order
 * of the key tables: what a report records as "experiment". */
void experiment_each_value(const struct experiment *experiment,
                           void (*visit)(void *context, const char *section, const char *key, const char *value),
                           void *context);

#endif
