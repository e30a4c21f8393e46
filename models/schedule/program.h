/* program.h - a schedule as data: what one rank does.
 *
 * A program is a list of operations on buffers, each in one of the rank's streams. Nothing lists dependencies:
 * operations of one stream run in list order; across streams, an operation waits for earlier ones (in list order) that
 * it conflicts with on a buffer (read after write, write after read, write after write), and for its message's other
 * end. Consecutive messages of one stream with the same non-zero group are posted together and finish together (NCCL's
 * group call).
 *
 * Phases (forward, backward) are separated by a barrier over all ranks: other layers run between them.
 *
 * A buffer holds one block at a time; one with room for a whole shard (the rank's own resident tensors, a sum over all
 * its keys) keeps every row in its place. Gathered keys are one buffer per owner, and an operation on a block of
 * BLOCK_ALL reads (or writes) all of them, in the order of their owners; an owner without such rows has none. An
 * attention operation that is the first to fill a state or gradient covers all of its rows: a row that sees nothing
 * gives the neutral element (O = 0, LSE = -inf, gradient 0), so nothing need be cleared.
 *
 * What an operation computes is fixed by its kind, its blocks (which queries, which keys) and its buffers; the checker,
 * the cost model, the simulators and the hardware mode all read the same fields.
 */
#ifndef CPSIM_MODELS_SCHEDULE_PROGRAM_H
#define CPSIM_MODELS_SCHEDULE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/dtype.h"
#include "models/schedule/sharding.h"

enum tensor {
    TENSOR_Q,
    TENSOR_KV, /* K, then V */
    TENSOR_O,
    TENSOR_LSE,
    TENSOR_PARTIAL, /* one block's O and LSE, not yet merged */
    TENSOR_STATE,   /* the online softmax state m, l, a of merged blocks */
    TENSOR_DO,
    TENSOR_DELTA,
    TENSOR_DQ,
    TENSOR_DKV, /* dK, then dV */
    TENSOR_COUNT,
};

/* What a buffer is for: the split of the memory report. */
enum buffer_role {
    ROLE_RESIDENT, /* the rank's own Q, K, V, O, LSE, dO, and the gradients it must end with: lives for a whole phase */
    ROLE_RECEIVED, /* blocks of other ranks' K and V */
    ROLE_ACCUMULATOR, /* online softmax state, gradients being summed, travelling or not */
    ROLE_WORKSPACE,   /* what one kernel leaves for the next: partial outputs, block gradients, delta */
    ROLE_COUNT,
};

struct buffer {
    char name[16];
    uint8_t tensor; /* enum tensor */
    uint8_t dtype;  /* enum dtype */
    uint8_t role;   /* enum buffer_role */
    uint64_t rows;  /* sequence rows of one batch item */
    uint64_t bytes; /* all batch items and heads */
};

enum op_kind {
    OP_ATTEND,          /* reads Q, KV; writes PARTIAL, or O and LSE when nothing is to be merged */
    OP_MERGE,           /* reads PARTIAL (and STATE unless it is the first); writes STATE */
    OP_FINISH,          /* reads STATE; writes O, LSE: O = a / l, LSE = m + ln l */
    OP_DELTA,           /* reads O, DO; writes DELTA */
    OP_ATTEND_BACKWARD, /* reads Q, KV, DO, LSE, DELTA; writes DQ and DKV of this block */
    OP_ACCUMULATE,      /* reads source (and target unless it is the first); writes target: target += source */
    OP_CAST,            /* reads source; writes target: same values, other type */
    OP_SEND,
    OP_RECEIVE,
    OP_KIND_COUNT,
};

enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_COUNT };

enum traffic { TRAFFIC_FORWARD_KV, TRAFFIC_REPLAY_KV, TRAFFIC_GRADIENT, TRAFFIC_OTHER, TRAFFIC_COUNT };

/* Which part of a KV or dKV buffer a message carries. */
enum part { PART_K = 1, PART_V = 2, PART_ALL = 3 };

/* Streams by convention; without overlap everything is in the compute stream. */
enum stream { STREAM_COMPUTE, STREAM_EXCHANGE, STREAM_GRADIENT, STREAM_COUNT };

struct op {
    uint8_t kind;    /* enum op_kind */
    uint8_t stream;  /* enum stream */
    uint8_t traffic; /* enum traffic; messages */
    uint8_t part;    /* enum part; messages */
    uint16_t n_reads, n_writes;
    uint32_t group;  /* messages posted together; 0: alone */
    uint32_t access; /* index in program.accesses of its reads, then its writes */
    struct block q;  /* queries: the rows computed, merged, accumulated (dQ) or carried (Q, O) */
    struct block k;  /* keys: the block attended, accumulated (dKV) or carried (KV, dKV) */
    uint32_t peer;   /* messages: CP rank of the other end */
    union {
        uint64_t
            pairs; /* attention: visible pairs of one head, one batch item; 0: an invisible block, computed whole */
        uint64_t bytes; /* messages */
    };
};

struct program {
    uint32_t rank;
    struct buffer *buffers;
    uint32_t n_buffers, buffer_capacity;
    struct op *ops;
    uint32_t n_ops, op_capacity;
    uint32_t *accesses; /* buffer indices */
    uint32_t n_accesses, access_capacity;
    uint32_t phase_end[PHASE_COUNT]; /* ops [phase_end[p-1], phase_end[p]) are phase p */
    uint32_t n_groups;
};

static inline bool op_is_message(const struct op *op)
{
    return op->kind == OP_SEND || op->kind == OP_RECEIVE;
}

static inline bool op_is_attention(const struct op *op)
{
    return op->kind == OP_ATTEND || op->kind == OP_ATTEND_BACKWARD;
}

/* Rows of keys (KV, dKV) rather than of queries; such buffers have two parts. */
static inline bool tensor_goes_by_keys(enum tensor tensor)
{
    return tensor == TENSOR_KV || tensor == TENSOR_DKV;
}

/* Which of an operation's two blocks the rows of one of its buffers are. */
static inline struct block op_block_for(const struct op *op, enum tensor tensor)
{
    return tensor_goes_by_keys(tensor) ? op->k : op->q;
}

void program_init(struct program *program, uint32_t rank);
void program_fini(struct program *program);

/* Adds a buffer and returns its index. `bytes` is the whole buffer's size. */
uint32_t program_add_buffer(struct program *program, const char *name, enum tensor tensor, enum dtype dtype,
                            enum buffer_role role, uint64_t rows, uint64_t bytes);

/* Appends `op` (its access fields are filled in here) with its buffers; returns its index. */
uint32_t program_add_op(struct program *program, struct op op, const uint32_t *reads, size_t n_reads,
                        const uint32_t *writes, size_t n_writes);

/* Starts a group of messages posted together; returns the number to put into op.group. */
uint32_t program_new_group(struct program *program);

/* Ends the present phase (call once per phase, in order). */
void program_end_phase(struct program *program, enum phase phase);
enum phase program_phase(const struct program *program, uint32_t op);

static inline const uint32_t *program_reads(const struct program *program, const struct op *op)
{
    return program->accesses + op->access;
}

static inline const uint32_t *program_writes(const struct program *program, const struct op *op)
{
    return program->accesses + op->access + op->n_reads;
}

/* Words for reports, messages and traces. */
const char *tensor_name(enum tensor tensor);
const char *op_kind_name(enum op_kind kind);
const char *stream_name(enum stream stream);
const char *phase_name(enum phase phase);
const char *traffic_name(enum traffic traffic); /* "forward_kv", "replay_kv", "gradient", "other" */
const char *buffer_role_name(enum buffer_role role);

/* One line that says what operation `index` is, such as
 * "attend into partial: queries of rank 0, rows 0-4095, keys of rank 3, rows 0-4095". */
void program_describe_op(const struct program *program, uint32_t index, char *text, size_t size);

#endif
