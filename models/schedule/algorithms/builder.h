/* builder.h - what the algorithms share when they build a program: the rank's own tensors, attention on one block with
 * its merge or accumulation, and messages that carry blocks.
 *
 * An algorithm decides which blocks come when, through which buffers, and in which stream; the builder writes the
 * operations that follow from that. Forward: attend into a partial result, merge into the online softmax state, finish;
 * if the rank attends only once, straight into O and LSE. Backward: delta, attend into this block's dQ and dKV,
 * accumulate dQ; if only once, straight into dQ. Where dKV goes is the algorithm's.
 *
 * The first half of this interface writes single operations, whatever the algorithm; the second half is that pattern,
 * on the working tensors: at first the rank's resident ones, or what they were traded for (heads.h).
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_BUILDER_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_BUILDER_H

#include "models/schedule/algorithms/circle.h"
#include "models/schedule/schedule.h"

struct builder {
    const struct schedule *schedule;
    struct program *program;
    struct circle circle;                  /* among whom keys travel */
    uint32_t place;                        /* of this rank in it */
    uint32_t rank, ranks;                  /* of the CP group */
    struct block queries;                  /* of the working tensors */
    struct lanes lanes;                    /* likewise */
    enum dtype model, output, accumulator; /* of inputs; of O and block gradients; of sums */
    enum dtype gradient;                   /* of dKV that is summed and returned */
    enum stream exchange, returns;         /* streams of KV messages and of gradient messages */
    uint32_t q, kv, o, lse, d_o, dq, dkv;  /* working tensors: resident, unless traded */
    uint32_t partial, state;               /* forward, when there is more than one block */
    uint32_t delta, dq_part, dq_sum;       /* backward, likewise */
    bool once;                             /* the rank attends a single block */
    bool started;                          /* state or dq_sum holds something */
};

/* Starts the program with the rank's resident tensors. */
void builder_init(struct builder *builder, const struct schedule *schedule, struct program *program);

/* The place `steps` ahead of this rank's, or behind it. */
uint32_t builder_ahead(const struct builder *builder, uint32_t steps);
uint32_t builder_back(const struct builder *builder, uint32_t steps);

/* ---- buffers and single operations ---- */

/* Adds a buffer with room for `rows` rows of any owner, of the builder's lanes or of given ones. */
uint32_t builder_buffer(struct builder *builder, const char *name, enum tensor tensor, enum dtype dtype,
                        enum buffer_role role, uint64_t rows);
uint32_t builder_buffer_lanes(struct builder *builder, const char *name, enum tensor tensor, enum dtype dtype,
                              enum buffer_role role, uint64_t rows, struct lanes lanes);
/* The builder's lanes, as far as they are those of `tensor`: where queries are dealt out by batch item, keys still
 * travel with all items, for the next rank needs others. */
struct lanes builder_lanes_of(const struct builder *builder, enum tensor tensor);
/* One for exactly these rows, the first of them in the first place. */
uint32_t builder_buffer_block(struct builder *builder, const char *name, enum tensor tensor, enum dtype dtype,
                              enum buffer_role role, struct block block, struct lanes lanes);
/* "<name> <index>" */
uint32_t builder_buffer_numbered(struct builder *builder, const char *name, uint32_t index, enum tensor tensor,
                                 enum dtype dtype, enum buffer_role role, uint64_t rows);

/* A local operation on rows of queries, or of keys, in the given lanes. A target that is also to be added to is listed
 * among the reads. */
void builder_on_queries(struct builder *builder, enum op_kind kind, enum stream stream, struct block queries,
                        struct lanes lanes, const uint32_t *reads, size_t n_reads, const uint32_t *writes,
                        size_t n_writes);
void builder_on_keys(struct builder *builder, enum op_kind kind, enum stream stream, struct block keys,
                     struct lanes lanes, const uint32_t *reads, size_t n_reads, const uint32_t *writes,
                     size_t n_writes);

/* target += source (target = source when `first`) for `rows` of keys or of queries, as their tensor goes, in all lanes
 * of the source. */
void builder_accumulate(struct builder *builder, enum stream stream, uint32_t target, uint32_t source,
                        struct block rows, bool first);
/* target = source, likewise, another type. */
void builder_cast(struct builder *builder, enum stream stream, uint32_t target, uint32_t source, struct block rows);

/* Which queries attend which keys, and where they are. `kv` has several buffers for keys of BLOCK_ALL. */
struct attention {
    struct block q, k;
    struct lanes lanes;
    enum stream stream;
    uint32_t q_buffer;
    const uint32_t *kv;
    size_t n_kv;
};

/* Forward into a partial result, or into O and LSE (n_writes 2). */
void builder_add_attend(struct builder *builder, const struct attention *attention, const uint32_t *writes,
                        size_t n_writes);
/* Backward from dO, LSE and delta, into dQ and dKV (one buffer per buffer of keys). */
void builder_add_attend_backward(struct builder *builder, const struct attention *attention, uint32_t d_o, uint32_t lse,
                                 uint32_t delta, uint32_t dq, const uint32_t *dkv);

/* One end of a message that carries `block` of `buffer` in all of the buffer's lanes: rows of keys or of queries, as
 * its tensor says. A KV or dKV buffer takes two messages (K, then V) under schedule.kv_messages = 2. `group` from
 * program_new_group, the same for all that is posted together. */
void builder_send(struct builder *builder, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                  uint32_t peer, struct block block);
void builder_receive(struct builder *builder, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                     uint32_t peer, struct block block);
/* The same in some of its lanes. */
void builder_send_lanes(struct builder *builder, enum stream stream, uint32_t group, enum traffic traffic,
                        uint32_t buffer, uint32_t peer, struct block block, struct lanes lanes);
void builder_receive_lanes(struct builder *builder, enum stream stream, uint32_t group, enum traffic traffic,
                           uint32_t buffer, uint32_t peer, struct block block, struct lanes lanes);

/* ---- the pattern, on the working tensors ---- */

/* Call before the first attention operation of a phase, with how many there will be (2 stands for "several"). */
void builder_begin(struct builder *builder, enum phase phase, uint32_t attends);

/* Backward, adds delta and computes it for the working queries: for algorithms that attend in their own way and do not
 * call builder_begin, which does this too. */
void builder_delta(struct builder *builder);

/* Attention of the working queries on `keys`, held in `kv` (several buffers for BLOCK_ALL). Does nothing when there is
 * nothing to compute. */
void builder_attend(struct builder *builder, struct block keys, const uint32_t *kv, size_t n_kv);

/* The same backward, into `dkv` (one buffer per buffer of `kv`). With `whole`, all rows of `keys` get a gradient (zero
 * for keys that nobody sees); without, only those that are seen. Returns the rows that got one (count 0: none). */
struct block builder_attend_backward(struct builder *builder, struct block keys, const uint32_t *kv, size_t n_kv,
                                     const uint32_t *dkv, bool whole);

/* Ends the attention of a phase: the state becomes O and LSE, the sum becomes dQ. The phase itself, program_end_phase
 * ends. */
void builder_end(struct builder *builder, enum phase phase);

#endif
