/* walk_ops.c - each kind of operation as program.h defines it, in double precision. Formulas: the online softmax and
 * its backward pass of FlashAttention (Dao et al., 2022, arXiv:2205.14135); a block that shows nothing is neutral (l =
 * 0). */
#include "hw/walk.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/rows.h"
#include "models/base/memory.h"
#include "models/schedule/mask.h"

/* ---- what a buffer holds ---- */

static bool is_among(const uint32_t *buffers, uint32_t count, uint32_t buffer)
{
    for (uint32_t i = 0; i < count; i++)
        if (buffers[i] == buffer)
            return true;
    return false;
}

static bool complain(const struct walk *walk, uint32_t rank, const struct op *op, const char *verb, uint32_t buffer,
                     struct diagnostics *diag)
{
    const struct program *program = &walk->programs[rank];
    char text[256];
    program_describe_op(program, (uint32_t)(op - program->ops), text, sizeof text);
    return diagnostics_add(diag, "rank %" PRIu32 ": '%s' %s rows that buffer '%s' does not hold", rank, text, verb,
                           program->buffers[buffer].name);
}

static bool check_reads(const struct walk *walk, uint32_t rank, const struct op *op, struct diagnostics *diag)
{
    const uint32_t *reads = program_reads(&walk->programs[rank], op);
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (!walk_rows(walk, rank, reads[i], walk_block(walk, rank, op, false, i)))
            return complain(walk, rank, op, "reads", reads[i], diag);
    return true;
}

/* Lets a buffer hold `block`: beside the rows that it holds already, if there is room for both (a sum that is filled
 * piece by piece); else in their place. */
static void hold(struct holding *holding, uint64_t rows_max, struct block block)
{
    struct block held = holding->block;
    uint64_t first = held.first < block.first ? held.first : block.first;
    uint64_t held_end = (uint64_t)held.first + held.count, block_end = (uint64_t)block.first + block.count;
    uint64_t end = held_end > block_end ? held_end : block_end;
    bool keeps = holding->data && held.owner == block.owner && end - first <= rows_max;
    struct block both = keeps ? (struct block){block.owner, (uint32_t)first, (uint32_t)(end - first)} : block;
    double *data = walk_make_nan(both.count * holding->width);
    if (keeps)
        memcpy(data + (held.first - both.first) * holding->width, holding->data,
               held.count * holding->width * sizeof *data);
    free(holding->data);
    holding->data = data;
    holding->block = both;
}

/* Makes the written buffers hold what `op` writes. */
static bool claim_writes(struct walk *walk, uint32_t rank, const struct op *op, struct diagnostics *diag)
{
    const struct program *program = &walk->programs[rank];
    const uint32_t *reads = program_reads(program, op), *writes = program_writes(program, op);
    for (uint32_t i = 0; i < op->n_writes; i++) {
        struct block block = walk_block(walk, rank, op, true, i);
        const struct buffer *buffer = &program->buffers[writes[i]];
        bool adds = is_among(reads, op->n_reads, writes[i]);
        if (!adds && buffer->role != ROLE_RESIDENT && block.count <= buffer->rows)
            hold(&walk->holdings[rank][writes[i]], buffer->rows, block);
        if (!walk_rows(walk, rank, writes[i], block))
            return complain(walk, rank, op, "writes", writes[i], diag);
    }
    return true;
}

/* ---- arithmetic ---- */

/* The first of the buffers of `tensor` that `op` reads (or writes), at op's rows; NULL when there is none. */
static double *find_rows(const struct walk *walk, uint32_t rank, const struct op *op, bool write, enum tensor tensor)
{
    const struct program *program = &walk->programs[rank];
    const uint32_t *buffers = write ? program_writes(program, op) : program_reads(program, op);
    for (uint32_t i = 0; i < (write ? op->n_writes : op->n_reads); i++)
        if (program->buffers[buffers[i]].tensor == tensor)
            return walk_rows(walk, rank, buffers[i], walk_block(walk, rank, op, write, i));
    return NULL;
}

/* The rows of a block of keys, perhaps in several buffers. */
struct key_rows {
    size_t count;
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    double *rows[EVENTS_SEQ_LEN_MAX];
};

static void find_keys(const struct walk *walk, uint32_t rank, const struct op *op, bool write, enum tensor tensor,
                      struct key_rows *keys)
{
    const struct program *program = &walk->programs[rank];
    const uint32_t *buffers = write ? program_writes(program, op) : program_reads(program, op);
    keys->count = 0;
    for (uint32_t i = 0; i < (write ? op->n_writes : op->n_reads); i++) {
        if (program->buffers[buffers[i]].tensor != tensor)
            continue;
        struct block block = walk_block(walk, rank, op, write, i);
        double *rows = walk_rows(walk, rank, buffers[i], block);
        size_t n = walk_positions(walk, block, keys->positions + keys->count);
        for (size_t j = 0; j < n; j++)
            keys->rows[keys->count++] = rows + j * walk->holdings[rank][buffers[i]].width;
    }
}

static size_t kv_head_of(const struct walk *walk, size_t q_head)
{
    return q_head / (walk->q_heads / walk->kv_heads);
}

static void set_neutral(double *state, size_t dim)
{
    state[0] = -INFINITY;
    memset(state + 1, 0, (1 + dim) * sizeof *state);
}

/* Folds a block's (m, l, a) into `state`; nothing seen, nothing changed. */
static void merge(double *state, const double *block, size_t dim)
{
    if (block[1] == 0)
        return;
    double max = fmax(state[0], block[0]), keep = exp(state[0] - max), add = exp(block[0] - max);
    state[0] = max;
    for (size_t i = 1; i < 2 + dim; i++)
        state[i] = keep * state[i] + add * block[i];
}

/* O = a / l, LSE = m + ln l, for `count` rows of all heads. */
static void finish(const struct walk *walk, const double *states, size_t count, double *o, double *lse)
{
    size_t dim = walk->head_dim;
    for (size_t i = 0; i < count * walk->q_heads; i++) {
        const double *state = states + i * (2 + dim);
        for (size_t d = 0; d < dim; d++)
            o[i * dim + d] = state[1] == 0 ? 0 : state[2 + d] / state[1];
        lse[i] = state[0] + log(state[1]);
    }
}

/* (m, l, a) of one query row of one head over the keys that it sees. */
static void attend_row(const struct walk *walk, uint64_t position, const double *q, size_t kv_head,
                       const struct key_rows *keys, double *state)
{
    size_t dim = walk->head_dim;
    const struct mask *mask = &walk->schedule->experiment->mask;
    set_neutral(state, dim);
    for (size_t j = 0; j < keys->count; j++)
        if (mask_visible(mask, position, keys->positions[j]))
            state[0] = fmax(state[0], walk->scale * row_dot(q, keys->rows[j] + kv_head * dim, dim));
    for (size_t j = 0; j < keys->count; j++) {
        if (!mask_visible(mask, position, keys->positions[j]))
            continue;
        const double *k = keys->rows[j] + kv_head * dim, *v = k + walk->kv_heads * dim;
        double weight = exp(walk->scale * row_dot(q, k, dim) - state[0]);
        state[1] += weight;
        row_add_scaled(state + 2, weight, v, dim);
    }
}

/* ---- operations ---- */

static void do_attend(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t dim = walk->head_dim, heads = walk->q_heads;
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    size_t rows = walk_positions(walk, op->q, positions);
    const double *q = find_rows(walk, rank, op, false, TENSOR_Q);
    struct key_rows keys;
    find_keys(walk, rank, op, false, TENSOR_KV, &keys);
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < heads; h++)
            attend_row(walk, positions[i], q + (i * heads + h) * dim, kv_head_of(walk, h), &keys,
                       walk->attended + (i * heads + h) * (2 + dim));

    double *partial = find_rows(walk, rank, op, true, TENSOR_PARTIAL);
    if (partial) {
        memcpy(partial, walk->attended, rows * walk_row_width(walk, TENSOR_PARTIAL) * sizeof *partial);
        walk->holdings[rank][*program_writes(&walk->programs[rank], op)].attended = op->k;
    } else {
        finish(walk, walk->attended, rows, find_rows(walk, rank, op, true, TENSOR_O),
               find_rows(walk, rank, op, true, TENSOR_LSE));
    }
}

static void do_merge(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t width = 2 + walk->head_dim;
    const double *partial = find_rows(walk, rank, op, false, TENSOR_PARTIAL);
    double *state = find_rows(walk, rank, op, true, TENSOR_STATE);
    bool first = !find_rows(walk, rank, op, false, TENSOR_STATE);
    for (size_t i = 0; i < op->q.count * walk->q_heads; i++) {
        if (first)
            set_neutral(state + i * width, walk->head_dim);
        merge(state + i * width, partial + i * width, walk->head_dim);
    }
}

static void do_delta(struct walk *walk, uint32_t rank, const struct op *op)
{
    const double *o = find_rows(walk, rank, op, false, TENSOR_O), *d_o = find_rows(walk, rank, op, false, TENSOR_DO);
    double *delta = find_rows(walk, rank, op, true, TENSOR_DELTA);
    for (size_t i = 0; i < op->q.count * walk->q_heads; i++)
        delta[i] = row_dot(o + i * walk->head_dim, d_o + i * walk->head_dim, walk->head_dim);
}

static void do_attend_backward(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t dim = walk->head_dim, heads = walk->q_heads, v_offset = walk->kv_heads * dim;
    const struct mask *mask = &walk->schedule->experiment->mask;
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    size_t rows = walk_positions(walk, op->q, positions);
    const double *q = find_rows(walk, rank, op, false, TENSOR_Q), *d_o = find_rows(walk, rank, op, false, TENSOR_DO);
    const double *lse = find_rows(walk, rank, op, false, TENSOR_LSE);
    const double *delta = find_rows(walk, rank, op, false, TENSOR_DELTA);
    double *dq = find_rows(walk, rank, op, true, TENSOR_DQ);
    struct key_rows keys, gradients;
    find_keys(walk, rank, op, false, TENSOR_KV, &keys);
    find_keys(walk, rank, op, true, TENSOR_DKV, &gradients);
    memset(dq, 0, rows * heads * dim * sizeof *dq);
    for (size_t j = 0; j < keys.count; j++)
        memset(gradients.rows[j], 0, walk_row_width(walk, TENSOR_DKV) * sizeof **gradients.rows);
    for (size_t i = 0; i < rows * heads; i++) {
        for (size_t j = 0; j < keys.count; j++) {
            if (!mask_visible(mask, positions[i / heads], keys.positions[j]))
                continue;
            size_t offset = kv_head_of(walk, i % heads) * dim;
            const double *k = keys.rows[j] + offset, *v = k + v_offset;
            double *dk = gradients.rows[j] + offset, *dv = dk + v_offset;
            double p = exp(walk->scale * row_dot(q + i * dim, k, dim) - lse[i]);
            double ds = walk->scale * p * (row_dot(d_o + i * dim, v, dim) - delta[i]);
            row_add_scaled(dv, p, d_o + i * dim, dim);
            row_add_scaled(dq + i * dim, ds, k, dim);
            row_add_scaled(dk, ds, q + i * dim, dim);
        }
    }
}

/* For each target: target = (target, if it is among the reads) + source. The sources are the first reads. A cast is the
 * same without target: everything here is double. */
static void do_accumulate(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct program *program = &walk->programs[rank];
    const uint32_t *reads = program_reads(program, op), *targets = program_writes(program, op);
    for (uint32_t i = 0; i < op->n_writes; i++) {
        struct block block = walk_block(walk, rank, op, true, i);
        double *target = walk_rows(walk, rank, targets[i], block);
        const double *source = walk_rows(walk, rank, reads[i], walk_block(walk, rank, op, false, i));
        size_t count = block.count * walk->holdings[rank][targets[i]].width;
        if (is_among(reads, op->n_reads, targets[i]))
            row_add_scaled(target, 1, source, count);
        else
            memcpy(target, source, count * sizeof *target);
    }
}

static bool do_message(struct walk *walk, uint32_t rank, const struct op *send, uint32_t receive_index,
                       struct diagnostics *diag)
{
    const struct program *from = &walk->programs[rank], *to = &walk->programs[send->peer];
    const struct op *receive = &to->ops[receive_index];
    if (!claim_writes(walk, send->peer, receive, diag))
        return false;
    for (uint32_t i = 0; i < send->n_reads && i < receive->n_writes; i++) {
        uint32_t source = program_reads(from, send)[i], target = program_writes(to, receive)[i];
        struct block sent = walk_block(walk, rank, send, false, i);
        struct block received = walk_block(walk, send->peer, receive, true, i);
        if (memcmp(&sent, &received, sizeof sent) != 0 || from->buffers[source].tensor != to->buffers[target].tensor)
            return diagnostics_add(diag,
                                   "rank %" PRIu32 " sends other rows than rank %" PRIu32 " expects in buffer '%s'",
                                   rank, send->peer, to->buffers[target].name);
        size_t width = walk->holdings[rank][source].width, first = 0, count = width;
        if (tensor_goes_by_keys((enum tensor)from->buffers[source].tensor)) {
            first = send->part == PART_V ? width / 2 : 0;
            count = send->part == PART_ALL ? width : width / 2;
        }
        const double *out = walk_rows(walk, rank, source, sent);
        double *in = walk_rows(walk, send->peer, target, received);
        for (size_t row = 0; row < sent.count; row++)
            memcpy(in + row * width + first, out + row * width + first, count * sizeof *in);
        walk->holdings[send->peer][target].attended = walk->holdings[rank][source].attended;
    }
    return true;
}

bool walk_do(struct walk *walk, uint32_t rank, uint32_t index, uint32_t receive, struct diagnostics *diag)
{
    const struct op *op = &walk->programs[rank].ops[index];
    if (!check_reads(walk, rank, op, diag) || !claim_writes(walk, rank, op, diag))
        return false;
    switch ((enum op_kind)op->kind) {
    case OP_ATTEND:
        do_attend(walk, rank, op);
        break;
    case OP_MERGE:
        do_merge(walk, rank, op);
        break;
    case OP_FINISH:
        finish(walk, find_rows(walk, rank, op, false, TENSOR_STATE), op->q.count,
               find_rows(walk, rank, op, true, TENSOR_O), find_rows(walk, rank, op, true, TENSOR_LSE));
        break;
    case OP_DELTA:
        do_delta(walk, rank, op);
        break;
    case OP_ATTEND_BACKWARD:
        do_attend_backward(walk, rank, op);
        break;
    case OP_ACCUMULATE:
    case OP_CAST:
        do_accumulate(walk, rank, op);
        break;
    case OP_SEND:
        return do_message(walk, rank, op, receive, diag);
    case OP_RECEIVE:
    case OP_KIND_COUNT:
        assert(!"a receive is carried out by its send");
        break;
    }
    return true;
}
