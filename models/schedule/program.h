/* program.h - a schedule as data: what one rank does.
 *
 * A program is a list of operations on buffers, each in one of the rank's streams. Nothing lists dependencies:
 * operations of one stream run in list order; across streams, an operation waits for earlier ones (in list order) that
 * it conflicts with on a buffer (read after write, write after read, write after write), and for its message's other
 * end. Consecutive messages of one stream with the same non-zero group are posted together and finish together (NCCL's
 * group call).
 *
 * Phases (forward, backward) are separated by a barrier over all ranks of a replica (ensemble.h): other layers run
 * between them.
 *
 * A buffer holds one block at a time; one with room for a whole shard (the rank's own resident tensors, a sum over all
 * its keys) keeps every row in its place. Gathered keys are one buffer per owner, and an operation on a block of
 * BLOCK_ALL reads (or writes) all of them, in the order of their owners; an owner without such rows has none. An
 * attention operation that is the first to fill a state or gradient covers all of its rows: a row that sees nothing
 * gives the neutral element (O = 0, LSE = -inf, gradient 0), so nothing need be cleared.
 *
 * Attention runs in each lane (a query head of a batch item) alone, so lanes can be dealt out like rows. A buffer holds
 * the same lanes of all its rows; an operation works on some of them: those that it names, which every buffer that it
 * touches must hold. Only layout copies deal with buffers that differ in lanes or in whose rows they hold:
 *   SPLIT_LANES, JOIN_LANES  one buffer with all of the operation's lanes, and buffers with some of them each, for the
 *                            same rows
 *   SPLIT_ROWS, JOIN_ROWS    one buffer with joined rows, in their order, and a buffer per rank of the group, with that
 *                            rank's rows; the block is the joined one, and ranks without rows of it have no buffer
 * A key-side tensor of lanes holds the KV heads that those query heads read. Where several slices of a gradient are of
 * one KV head, JOIN_LANES adds them.
 *
 * A collective is a run of messages and sums in one stream that together do what a communication library has one call
 * for; it is written out, so that it can be simulated and proved, and entered in a table, so that hardware can make
 * that call instead.
 *
 * What an operation computes is fixed by its kind, its blocks (which queries, which keys), its lanes and its buffers;
 * the checker, the cost model, the simulators and the hardware mode all read the same fields.
 *
 * A program of whole layers (models/schedule/layers) has operations beside attention, on whole buffers: what they
 * compute stands in the program's table of works. Their tensors have rows of tokens (positions of all batch items) and
 * columns; weights have inputs and outputs. Messages of theirs go to ranks of other CP groups too (peers.h).
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
    TENSOR_DKV,         /* dK, then dV */
    TENSOR_TOP,         /* the largest LSE so far, over keys that several ranks hold */
    TENSOR_NUMERATOR,   /* O e^(LSE - TOP), to be summed over these ranks */
    TENSOR_DENOMINATOR, /* e^(LSE - TOP), likewise */
    /* of layers: rows x columns */
    TENSOR_HIDDEN,          /* tokens x hidden, or a gradient of such */
    TENSOR_WIDE,            /* tokens x columns of the MLP, or a gradient of such */
    TENSOR_LOGITS,          /* tokens x vocabulary, or the loss's gradient by them */
    TENSOR_WEIGHT,          /* a matrix, or the scales (and shifts) of norms */
    TENSOR_WEIGHT_GRADIENT, /* of such */
    TENSOR_OPTIMIZER,       /* what the optimizer keeps for them */
    TENSOR_COUNT,
};

/* What a buffer is for: the split of the memory report. */
enum buffer_role {
    ROLE_RESIDENT, /* the rank's own Q, K, V, O, LSE, dO, and the gradients it must end with: lives for a whole phase */
    ROLE_RECEIVED, /* other ranks' K and V, or queries with what goes with them; rows and heads that were traded */
    ROLE_ACCUMULATOR, /* online softmax state, gradients being summed, travelling or not */
    ROLE_WORKSPACE,   /* what one kernel leaves for the next: partial outputs, block gradients, delta */
    /* of layers */
    ROLE_WEIGHTS,     /* kept, or gathered for a while */
    ROLE_GRADIENTS,   /* of weights, likewise */
    ROLE_OPTIMIZER,   /* what the optimizer keeps */
    ROLE_ACTIVATIONS, /* what layers pass on and keep for their backward pass, attention's own tensors among them */
    ROLE_COUNT,
};

/* The first of those that layers alone have. */
#define ROLE_ATTENTION_COUNT ROLE_WEIGHTS

/* Query heads [head, head + heads) of batch items [item, item + items). Heads count from the first of the rank (of the
 * tp ranks that share a layer's heads, each has its own). */
struct lanes {
    uint32_t head, heads;
    uint32_t item, items;
};

static inline bool lanes_equal(struct lanes a, struct lanes b)
{
    return a.head == b.head && a.heads == b.heads && a.item == b.item && a.items == b.items;
}

static inline bool lanes_within(struct lanes inner, struct lanes outer)
{
    return inner.head >= outer.head && inner.head + inner.heads <= outer.head + outer.heads &&
           inner.item >= outer.item && inner.item + inner.items <= outer.item + outer.items;
}

struct buffer {
    char name[16];
    uint8_t tensor; /* enum tensor */
    uint8_t dtype;  /* enum dtype */
    uint8_t role;   /* enum buffer_role */
    bool kept;      /* of a layer: its memory is needed from the step's begin to its end */
    uint32_t first; /* the row in its first place: row r of a block is in place (r - first) mod rows */
    uint32_t array; /* buffers with the same number, not 0, are one piece of memory, in the order of their indices */
    uint64_t rows;  /* sequence rows of one lane; of a layer's tensor all its rows */
    uint64_t bytes; /* of all lanes */
    union {
        struct lanes lanes;
        uint64_t columns; /* of a layer's tensor (tensor_is_of_layer) */
    };
};

enum op_kind {
    OP_ATTEND,          /* reads Q, KV; writes PARTIAL, or O and LSE when nothing is to be merged */
    OP_MERGE,           /* reads PARTIAL (and STATE unless it is the first); writes STATE */
    OP_FINISH,          /* reads STATE; writes O, LSE: O = a / l, LSE = m + ln l */
    OP_DELTA,           /* reads O, DO; writes DELTA */
    OP_ATTEND_BACKWARD, /* reads Q, KV, DO, LSE, DELTA; writes DQ and DKV of this block */
    OP_ACCUMULATE,      /* reads source (and target unless it is the first); writes target: target += source */
    OP_CAST,            /* reads source; writes target: same values, other type */
    OP_SPLIT_LANES,     /* reads one buffer; writes slices of its lanes */
    OP_JOIN_LANES,      /* the reverse */
    OP_SPLIT_ROWS,      /* reads joined rows; writes them rank by rank */
    OP_JOIN_ROWS,       /* the reverse */
    OP_SUM_LSE,         /* reads PARTIAL (and LSE unless it is the first); writes LSE: ln(e^LSE + e^LSE_partial) */
    OP_CORRECT, /* reads PARTIAL, LSE (and O unless it is the first); writes O: O += O_partial e^(LSE_partial - LSE) */
    OP_TOP,     /* reads PARTIAL; writes TOP: its LSE */
    OP_RAISE,   /* reads source and target; writes target (TOP): the larger */
    OP_WEIGH,   /* reads PARTIAL and TOP (the largest of all); writes NUMERATOR and DENOMINATOR */
    OP_NORMALIZE, /* reads NUMERATOR, DENOMINATOR, TOP; writes O, LSE: O = N / D, LSE = TOP + ln D */
    /* of layers, op.work says which: on whole buffers. A gradient that is also among the reads is added to */
    OP_PRODUCT,           /* reads two operands; writes their product, which may lie in several buffers: Q and KV */
    OP_NORM,              /* reads X and the norm's weights; writes Y */
    OP_NORM_BACKWARD,     /* reads dY, X and the weights; writes dX and the weights' gradient */
    OP_ACTIVATE,          /* reads up (gated: gate, then up, side by side); writes what goes down */
    OP_ACTIVATE_BACKWARD, /* reads the gradient of that, and up; writes the gradient of up */
    OP_ADD,               /* reads two; writes their sum */
    OP_EMBED,             /* reads the embedding; writes X */
    OP_EMBED_BACKWARD,    /* reads dX; writes the embedding's gradient */
    OP_LOSS,              /* reads logits; writes their gradient in their place, and a few numbers a row */
    OP_OPTIMIZE,          /* reads gradients and what the optimizer keeps; writes the latter and weights */
    OP_SEND,
    OP_RECEIVE,
    OP_KIND_COUNT,
};

/* Which product of a matrix W [inputs x outputs] an OP_PRODUCT is. */
enum product_form {
    PRODUCT_OUTPUT,          /* Y = X W: reads X, W */
    PRODUCT_INPUT_GRADIENT,  /* dX = dY W^T: reads dY, W */
    PRODUCT_WEIGHT_GRADIENT, /* dW = X^T dY: reads X, dY */
};

/* What an operation of a layer computes. Of a product: rows x columns of the result, summed over depth; of others: rows
 * x columns of what is written, depth 0. */
struct layer_work {
    uint8_t form;  /* enum product_form */
    uint8_t part;  /* enum model_part (models/input/experiment.h) */
    uint8_t dtype; /* enum dtype that a product is computed in */
    uint32_t layer;
    uint64_t rows, columns, depth;
};

enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_COUNT };

enum traffic {
    TRAFFIC_FORWARD_KV,
    TRAFFIC_REPLAY_KV,
    TRAFFIC_GRADIENT,
    TRAFFIC_OTHER,
    /* of layers */
    TRAFFIC_TENSOR,          /* activations and their gradients, among the ranks that share a layer's columns (tp) */
    TRAFFIC_WEIGHTS,         /* weights that are gathered (dp x cp) */
    TRAFFIC_WEIGHT_GRADIENT, /* summed over dp x cp */
    TRAFFIC_COUNT
};

/* The first of those that layers alone have. */
#define TRAFFIC_ATTENTION_COUNT TRAFFIC_TENSOR

/* Which part of a KV or dKV buffer a message carries. */
enum part { PART_K = 1, PART_V = 2, PART_ALL = 3 };

/* Streams by convention; without overlap everything is in the compute stream. Kernels of the second compute stream take
 * turns with those of the first on the rank's one device, in the order in which they become ready: only what a launch
 * takes is hidden. The outer stream is for messages beside those of exchange and gradient: between windows of a ring.
 * Layers have three more for messages: of activations among tp ranks; of weights being gathered; of gradients of
 * weights being summed. */
enum stream {
    STREAM_COMPUTE,
    STREAM_EXCHANGE,
    STREAM_GRADIENT,
    STREAM_COMPUTE_2,
    STREAM_OUTER,
    STREAM_TENSOR,
    STREAM_WEIGHTS,
    STREAM_REDUCTION,
    STREAM_COUNT
};

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
    struct lanes lanes;
    union {
        uint32_t peer; /* messages: CP rank of the other end, or a number of peers.h */
        uint32_t work; /* of a layer's local operation: index in program.works */
    };
    uint32_t collective; /* 1 + index in program.collectives; 0: of none */
    union {
        uint64_t
            pairs; /* attention: visible pairs of one head, one batch item; 0: an invisible block, computed whole */
        uint64_t bytes; /* messages */
    };
};

enum collective_call { CALL_ALL_GATHER, CALL_REDUCE_SCATTER, CALL_ALL_TO_ALL, CALL_ALL_REDUCE, CALL_COUNT };

/* What a run of operations does, in the words of a library's one call. Each of the `members` contributes or gets a
 * block: the arrays have one buffer per member, in the order of their numbers in the collective, NO_BUFFER where that
 * member has nothing to give or get. Blocks are those of the operations, each buffer's whole.
 *   ALL_GATHER      sources[me] is this rank's block; targets[i] gets member i's
 *   REDUCE_SCATTER  sources[i] is this rank's share of member i's block; targets[me] gets the sum of all shares of its
 *   ALL_TO_ALL      sources[i] is for member i, targets[i] comes from it; [me] is not touched
 *   ALL_REDUCE      sources[me] = targets[me] becomes the sum of all (TENSOR_TOP: the largest of all)
 * A *flowing* collective is not written out step by step: its messages carry in one piece what all steps of a ring (or
 * of several rings beside each other) send to a neighbour, and have whole lists of buffers. Time, bytes and links are
 * those of a pipelined ring; nothing can be run by it. It has no lists of buffers: those are its messages'. */
struct collective {
    uint8_t call;   /* enum collective_call */
    uint8_t stream; /* enum stream */
    uint8_t phase;  /* enum phase: a member may have nothing to send or receive, and no operations */
    uint8_t flowing;
    uint32_t n_members, me;
    uint32_t members, sources, targets; /* indices in program.lists: peers; buffers; buffers; n_members each */
    uint32_t first_op, end_op;          /* its operations: those of [first_op, end_op) in its stream */
};

#define NO_BUFFER UINT32_MAX

struct program {
    uint32_t rank;
    struct buffer *buffers;
    uint32_t n_buffers, buffer_capacity;
    struct op *ops;
    uint32_t n_ops, op_capacity;
    uint32_t *accesses; /* buffer indices */
    uint32_t n_accesses, access_capacity;
    struct collective *collectives;
    uint32_t n_collectives, collective_capacity;
    uint32_t *lists; /* of collectives */
    uint32_t n_lists, list_capacity;
    struct layer_work *works;
    uint32_t n_works, work_capacity;
    uint32_t phase_end[PHASE_COUNT]; /* ops [phase_end[p-1], phase_end[p]) are phase p */
    uint8_t phase;                   /* being appended to */
    uint32_t n_groups, n_arrays;
    uint32_t open_collective; /* being appended to: as op.collective */
};

static inline bool op_is_message(const struct op *op)
{
    return op->kind == OP_SEND || op->kind == OP_RECEIVE;
}

/* A local operation of a layer, beside attention. */
static inline bool op_is_of_layer(const struct op *op)
{
    return op->kind >= OP_PRODUCT && op->kind <= OP_OPTIMIZE;
}

static inline bool tensor_is_of_layer(enum tensor tensor)
{
    return tensor >= TENSOR_HIDDEN && tensor <= TENSOR_OPTIMIZER;
}

/* Copies that change where values lie, not what they are. */
static inline bool op_is_layout(const struct op *op)
{
    return op->kind >= OP_SPLIT_LANES && op->kind <= OP_JOIN_ROWS;
}

/* In a stream of kernels: those of both compute streams share the device. */
static inline bool stream_computes(enum stream stream)
{
    return stream == STREAM_COMPUTE || stream == STREAM_COMPUTE_2;
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

/* Adds a buffer and returns its index. */
uint32_t program_add_buffer(struct program *program, const char *name, struct buffer buffer);

/* A number for buffers that are one piece of memory. */
uint32_t program_new_array(struct program *program);

/* Enters a collective of `n` members; its operations are those appended from now on until program_end_collective, and
 * their `collective` is filled in. The arrays have n elements. */
void program_begin_collective(struct program *program, enum collective_call call, enum stream stream, uint32_t n,
                              uint32_t me, const uint32_t *members, const uint32_t *sources, const uint32_t *targets);
void program_end_collective(struct program *program);

/* The same for a flowing one. `list` keeps where the members are, 0 before the first of several collectives of the same
 * ones. */
void program_begin_flow(struct program *program, enum collective_call call, enum stream stream, uint32_t n, uint32_t me,
                        const uint32_t *members, uint32_t *list);

/* Appends `op` (its access fields are filled in here) with its buffers, which are not the program's own lists; returns
 * its index. */
uint32_t program_add_op(struct program *program, struct op op, const uint32_t *reads, size_t n_reads,
                        const uint32_t *writes, size_t n_writes);

/* Adds a work and returns its number for op.work. */
uint32_t program_add_work(struct program *program, struct layer_work work);

/* The work of an operation of a layer. */
static inline const struct layer_work *program_work(const struct program *program, const struct op *op)
{
    return &program->works[op->work];
}

/* Starts a group of messages posted together; returns the number to put into op.group. */
uint32_t program_new_group(struct program *program);

/* Ends the present phase (call once per phase, in order). */
void program_end_phase(struct program *program, enum phase phase);

/* Gives back the room for more: call it last, for there are as many programs as ranks. */
void program_trim(struct program *program);

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
/* "forward_kv", "replay_kv", "gradient", "other"; "tensor", "weights", "weight_gradient" */
const char *traffic_name(enum traffic traffic);
const char *buffer_role_name(enum buffer_role role);
const char *collective_call_name(enum collective_call call);

/* One line that says what operation `index` is, such as
 * "attend into partial: queries of rank 0, rows 0-4095, keys of rank 3, rows 0-4095". */
void program_describe_op(const struct program *program, uint32_t index, char *text, size_t size);

#endif
