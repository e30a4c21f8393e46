/* builder.h - what the algorithms share when they build a program: the rank's own tensors, attention on one block with
 * its merge or accumulation, and messages that carry blocks.
 *
 * An algorithm decides which blocks come when, through which buffers, and in which stream; the builder writes the
 * operations that follow from that. Forward: attend into a partial result, merge into the online softmax state, finish;
 * if the rank attends only once, straight into O and LSE. Backward: delta, attend into this block's dQ and dKV,
 * accumulate dQ; if only once, straight into dQ. Where dKV goes is the algorithm's.
 */
#ifndef CPSIM_MODELS_SCHEDULE_ALGORITHMS_BUILDER_H
#define CPSIM_MODELS_SCHEDULE_ALGORITHMS_BUILDER_H

#include "models/schedule/schedule.h"

#define NO_BUFFER UINT32_MAX

struct builder {
    const struct schedule *schedule;
    struct program *program;
    uint32_t rank, ranks;
    struct block queries;                  /* the rank's own rows */
    enum dtype model, output, accumulator; /* of inputs; of O and block gradients; of sums */
    enum dtype gradient;                   /* of dKV that is summed and returned */
    enum stream exchange, returns;         /* streams of KV messages and of gradient messages */
    uint32_t q, kv, o, lse, d_o, dq, dkv;  /* resident */
    uint32_t partial, state;               /* forward, when there is more than one block */
    uint32_t delta, dq_part, dq_sum;       /* backward, likewise */
    bool once;                             /* the rank attends a single block */
    bool started;                          /* state or dq_sum holds something */
};

/* Starts the program with the rank's resident tensors. */
void builder_init(struct builder *builder, const struct schedule *schedule, struct program *program);

/* Adds a buffer for `rows` rows of `tensor`. */
uint32_t builder_buffer(struct builder *builder, const char *name, enum tensor tensor, enum dtype dtype,
                        enum buffer_role role, uint64_t rows);

/* Blocks that the shard of `owner` travels in (at most schedule.kv_block rows each): their number, and the j-th; a
 * block beyond the last has count 0. */
uint32_t builder_blocks(const struct schedule *schedule, uint32_t owner);
struct block builder_block(const struct schedule *schedule, uint32_t owner, uint32_t j);
/* The largest number of blocks of any shard, and the most rows that a block has. */
uint32_t builder_blocks_max(const struct schedule *schedule);
uint64_t builder_block_rows_max(const struct schedule *schedule);

/* Whether rank `rank` computes on `keys`: it sees some of them, or invisible blocks are computed too. */
bool builder_computes(const struct schedule *schedule, uint32_t rank, struct block keys);
/* Whether `keys` must reach `rank` at all under schedule.skip. */
bool builder_needs(const struct schedule *schedule, uint32_t rank, struct block keys);

/* Call before the first attention operation of a phase, with how many there will be (2 stands for "several"). */
void builder_begin(struct builder *builder, enum phase phase, uint32_t attends);

/* Attention of the rank's queries on `keys`, held in `kv` (several buffers for BLOCK_ALL). Does nothing when there is
 * nothing to compute. */
void builder_attend(struct builder *builder, struct block keys, const uint32_t *kv, size_t n_kv);

/* The same backward, into `dkv` (one buffer per buffer of `kv`). With `whole`, all rows of `keys` get a gradient (zero
 * for keys that nobody sees); without, only those that are seen. Returns the rows that got one (count 0: none). */
struct block builder_attend_backward(struct builder *builder, struct block keys, const uint32_t *kv, size_t n_kv,
                                     const uint32_t *dkv, bool whole);

/* Ends the phase: the state becomes O and LSE, the sum becomes dQ. */
void builder_end(struct builder *builder, enum phase phase);

/* target += source (target = source when `first`) for the rows of `keys`, in `stream`. */
void builder_accumulate(struct builder *builder, enum stream stream, uint32_t target, uint32_t source,
                        struct block keys, bool first);
/* target = source, another type. */
void builder_cast(struct builder *builder, enum stream stream, uint32_t target, uint32_t source, struct block keys);

/* One end of a message that carries `keys` of a KV or dKV buffer: two messages (K, then V) under schedule.kv_messages
 * = 2. `group` from program_new_group, the same for all that is posted together. */
void builder_send(struct builder *builder, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                  uint32_t peer, struct block keys);
void builder_receive(struct builder *builder, enum stream stream, uint32_t group, enum traffic traffic, uint32_t buffer,
                     uint32_t peer, struct block keys);

#endif
