/* walk_ops.c - each kind of operation as program.h defines it, in double precision. Formulas: the online softmax and
 * its backward pass of FlashAttention (Dao et al., 2022, arXiv:2205.14135); a block that shows nothing is neutral (l =
 * 0). */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "hw/verify/walk.h"
#include "kernels/rows.h"
#include "models/schedule/mask.h"

/* ---- rows and keys ---- */

/* What an operation of queries works on: each row of each lane, and there the numbers of its buffers. */
struct cell {
    const struct walk *walk;
    const struct view *any; /* one of the operation's buffers of queries */
    size_t row;
    uint32_t lane;
};

static struct cell first_cell(const struct walk *walk, const struct view *any)
{
    return (struct cell){.walk = walk, .any = any};
}

static bool is_cell(const struct cell *cell)
{
    return cell->row < cell->any->count && lanes_count(cell->any->lanes) > 0;
}

static void next_cell(struct cell *cell)
{
    cell->lane = (cell->lane + 1) % lanes_count(cell->any->lanes);
    cell->row += cell->lane == 0;
}

static double *at(const struct cell *cell, const struct view *view)
{
    return walk_lane(cell->walk, view, cell->row, cell->lane);
}

static struct view find(const struct walk *walk, uint32_t rank, const struct op *op, bool write, enum tensor tensor)
{
    struct view view = {0};
    bool found = walk_find(walk, rank, op, write, tensor, &view);
    assert(found);
    (void)found;
    return view;
}

/* The rows of a block of keys, perhaps in several buffers. */
struct key_rows {
    size_t count;
    uint64_t positions[EVENTS_SEQ_LEN_MAX];
    struct view views[EVENTS_SEQ_LEN_MAX];
    uint32_t view_of[EVENTS_SEQ_LEN_MAX], row_of[EVENTS_SEQ_LEN_MAX];
};

static void find_keys(const struct walk *walk, uint32_t rank, const struct op *op, bool write, enum tensor tensor,
                      struct key_rows *keys)
{
    struct access_walk accesses;
    struct access access;
    uint32_t n_views = 0;
    keys->count = 0;
    accesses_begin(&accesses, walk->schedule, &walk->programs[rank], op);
    while (accesses_next(&accesses, &access)) {
        if (access.write != write || walk->programs[rank].buffers[access.buffer].tensor != tensor ||
            access.block.count == 0)
            continue;
        assert(n_views < EVENTS_SEQ_LEN_MAX && keys->count + access.block.count <= EVENTS_SEQ_LEN_MAX);
        struct view *view = &keys->views[n_views++];
        *view = walk_view(walk, rank, &access);
        for (uint32_t i = 0; i < view->count; i++) {
            keys->positions[keys->count] = view->positions[i];
            keys->view_of[keys->count] = n_views - 1;
            keys->row_of[keys->count++] = i;
        }
    }
}

/* Key j's numbers (K, then V) for the query head of a cell. */
static double *key_at(const struct cell *cell, const struct key_rows *keys, size_t j)
{
    const struct lanes lanes = cell->any->lanes;
    uint32_t item = lanes.item + cell->lane / lanes.heads, head = lanes.head + cell->lane % lanes.heads;
    return walk_at(cell->walk, &keys->views[keys->view_of[j]], keys->row_of[j], item, walk_kv_head(cell->walk, head));
}

/* ---- arithmetic ---- */

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

/* O = a / l, LSE = m + ln l. */
static void finish(const double *state, size_t dim, double *o, double *lse)
{
    for (size_t d = 0; d < dim; d++)
        o[d] = state[1] == 0 ? 0 : state[2 + d] / state[1];
    *lse = state[0] + log(state[1]);
}

static double lse_of(const double *state)
{
    return state[0] + log(state[1]);
}

/* e^(a - b); 0 of what saw nothing, whatever b is. */
static double weight_of(double a, double b)
{
    return isinf(a) ? 0 : exp(a - b);
}

/* (m, l, a) of one query row of one head over the keys that it sees. */
static void attend_cell(const struct cell *cell, const double *q, const struct key_rows *keys, double *state)
{
    const struct walk *walk = cell->walk;
    const struct mask *mask = &walk->schedule->experiment->mask;
    size_t dim = walk->head_dim;
    uint64_t position = cell->any->positions[cell->row];
    set_neutral(state, dim);
    for (size_t j = 0; j < keys->count; j++)
        if (mask_visible(mask, position, keys->positions[j]))
            state[0] = fmax(state[0], walk->scale * row_dot(q, key_at(cell, keys, j), dim));
    for (size_t j = 0; j < keys->count; j++) {
        if (!mask_visible(mask, position, keys->positions[j]))
            continue;
        const double *k = key_at(cell, keys, j), *v = k + dim;
        double weight = exp(walk->scale * row_dot(q, k, dim) - state[0]);
        state[1] += weight;
        row_add_scaled(state + 2, weight, v, dim);
    }
}

/* ---- attention ---- */

static void do_attend(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t dim = walk->head_dim;
    struct key_rows keys;
    struct view partial, o, lse;
    const struct view q = find(walk, rank, op, false, TENSOR_Q);
    find_keys(walk, rank, op, false, TENSOR_KV, &keys);
    bool is_partial = walk_find(walk, rank, op, true, TENSOR_PARTIAL, &partial);
    if (is_partial) {
        walk->holdings[rank][partial.buffer].attended = op->k;
    } else {
        o = find(walk, rank, op, true, TENSOR_O);
        lse = find(walk, rank, op, true, TENSOR_LSE);
    }
    double *state = walk->attended;
    for (struct cell cell = first_cell(walk, &q); is_cell(&cell); next_cell(&cell), state += 2 + dim) {
        attend_cell(&cell, at(&cell, &q), &keys, state);
        if (is_partial)
            memcpy(at(&cell, &partial), state, (2 + dim) * sizeof *state);
        else
            finish(state, dim, at(&cell, &o), at(&cell, &lse));
    }
}

static void do_attend_backward(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t dim = walk->head_dim;
    const struct mask *mask = &walk->schedule->experiment->mask;
    const struct view q = find(walk, rank, op, false, TENSOR_Q), d_o = find(walk, rank, op, false, TENSOR_DO);
    const struct view lse = find(walk, rank, op, false, TENSOR_LSE), dq = find(walk, rank, op, true, TENSOR_DQ);
    const struct view delta = find(walk, rank, op, false, TENSOR_DELTA);
    struct key_rows keys, gradients;
    find_keys(walk, rank, op, false, TENSOR_KV, &keys);
    find_keys(walk, rank, op, true, TENSOR_DKV, &gradients);
    assert(gradients.count == keys.count);
    for (size_t j = 0; j < gradients.count; j++) {
        const struct view *view = &gradients.views[gradients.view_of[j]];
        for (uint32_t lane = 0; lane < lanes_count(view->lanes); lane++)
            memset(walk_lane(walk, view, gradients.row_of[j], lane), 0, 2 * dim * sizeof(double));
    }
    for (struct cell cell = first_cell(walk, &q); is_cell(&cell); next_cell(&cell)) {
        double *dq_row = at(&cell, &dq);
        const double *q_row = at(&cell, &q), *d_o_row = at(&cell, &d_o);
        memset(dq_row, 0, dim * sizeof *dq_row);
        for (size_t j = 0; j < keys.count; j++) {
            if (!mask_visible(mask, q.positions[cell.row], keys.positions[j]))
                continue;
            const double *k = key_at(&cell, &keys, j), *v = k + dim;
            double *dk = key_at(&cell, &gradients, j), *dv = dk + dim;
            double p = exp(walk->scale * row_dot(q_row, k, dim) - *at(&cell, &lse));
            double ds = walk->scale * p * (row_dot(d_o_row, v, dim) - *at(&cell, &delta));
            row_add_scaled(dv, p, d_o_row, dim);
            row_add_scaled(dq_row, ds, k, dim);
            row_add_scaled(dk, ds, q_row, dim);
        }
    }
}

static void do_delta(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct view o = find(walk, rank, op, false, TENSOR_O), d_o = find(walk, rank, op, false, TENSOR_DO);
    const struct view delta = find(walk, rank, op, true, TENSOR_DELTA);
    for (struct cell cell = first_cell(walk, &o); is_cell(&cell); next_cell(&cell))
        *at(&cell, &delta) = row_dot(at(&cell, &o), at(&cell, &d_o), walk->head_dim);
}

/* ---- partial results become whole ---- */

static void do_merge(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct view partial = find(walk, rank, op, false, TENSOR_PARTIAL);
    struct view state, before;
    state = find(walk, rank, op, true, TENSOR_STATE);
    bool first = !walk_find(walk, rank, op, false, TENSOR_STATE, &before);
    for (struct cell cell = first_cell(walk, &partial); is_cell(&cell); next_cell(&cell)) {
        if (first)
            set_neutral(at(&cell, &state), walk->head_dim);
        merge(at(&cell, &state), at(&cell, &partial), walk->head_dim);
    }
}

static void do_finish(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct view state = find(walk, rank, op, false, TENSOR_STATE);
    const struct view o = find(walk, rank, op, true, TENSOR_O), lse = find(walk, rank, op, true, TENSOR_LSE);
    for (struct cell cell = first_cell(walk, &state); is_cell(&cell); next_cell(&cell))
        finish(at(&cell, &state), walk->head_dim, at(&cell, &o), at(&cell, &lse));
}

/* ln(e^LSE + e^LSE_partial), without large powers. */
static void do_sum_lse(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct view partial = find(walk, rank, op, false, TENSOR_PARTIAL);
    const struct view lse = find(walk, rank, op, true, TENSOR_LSE);
    struct view before;
    bool first = !walk_find(walk, rank, op, false, TENSOR_LSE, &before);
    for (struct cell cell = first_cell(walk, &partial); is_cell(&cell); next_cell(&cell)) {
        double *sum = at(&cell, &lse), part = lse_of(at(&cell, &partial)), old = first ? -HUGE_VAL : *sum;
        double most = fmax(old, part);
        *sum = isinf(most) ? most : most + log(weight_of(old, most) + weight_of(part, most));
    }
}

/* O += O_partial e^(LSE_partial - LSE), or = without an O to add to. */
static void do_correct(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t dim = walk->head_dim;
    const struct view partial = find(walk, rank, op, false, TENSOR_PARTIAL);
    const struct view lse = find(walk, rank, op, false, TENSOR_LSE), o = find(walk, rank, op, true, TENSOR_O);
    struct view before;
    bool first = !walk_find(walk, rank, op, false, TENSOR_O, &before);
    for (struct cell cell = first_cell(walk, &partial); is_cell(&cell); next_cell(&cell)) {
        const double *state = at(&cell, &partial);
        double *out = at(&cell, &o), weight = weight_of(lse_of(state), *at(&cell, &lse));
        for (size_t d = 0; d < dim; d++)
            out[d] = (first ? 0 : out[d]) + (weight == 0 ? 0 : weight * state[2 + d] / state[1]);
    }
}

/* ---- one softmax over keys of several ranks ---- */

static void do_top(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct view partial = find(walk, rank, op, false, TENSOR_PARTIAL);
    const struct view top = find(walk, rank, op, true, TENSOR_TOP);
    for (struct cell cell = first_cell(walk, &partial); is_cell(&cell); next_cell(&cell))
        *at(&cell, &top) = lse_of(at(&cell, &partial));
}

static void do_raise(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct access source = access_of(walk->schedule, &walk->programs[rank], op, false, 0);
    const struct view other = walk_view(walk, rank, &source), top = find(walk, rank, op, true, TENSOR_TOP);
    for (struct cell cell = first_cell(walk, &top); is_cell(&cell); next_cell(&cell))
        *at(&cell, &top) = fmax(*at(&cell, &top), *at(&cell, &other));
}

static void do_weigh(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t dim = walk->head_dim;
    const struct view partial = find(walk, rank, op, false, TENSOR_PARTIAL);
    const struct view top = find(walk, rank, op, false, TENSOR_TOP);
    const struct view numerator = find(walk, rank, op, true, TENSOR_NUMERATOR);
    const struct view denominator = find(walk, rank, op, true, TENSOR_DENOMINATOR);
    for (struct cell cell = first_cell(walk, &partial); is_cell(&cell); next_cell(&cell)) {
        const double *state = at(&cell, &partial);
        double weight = weight_of(lse_of(state), *at(&cell, &top));
        for (size_t d = 0; d < dim; d++)
            at(&cell, &numerator)[d] = weight == 0 ? 0 : weight * state[2 + d] / state[1];
        *at(&cell, &denominator) = weight;
    }
}

static void do_normalize(struct walk *walk, uint32_t rank, const struct op *op)
{
    size_t dim = walk->head_dim;
    const struct view numerator = find(walk, rank, op, false, TENSOR_NUMERATOR);
    const struct view denominator = find(walk, rank, op, false, TENSOR_DENOMINATOR);
    const struct view top = find(walk, rank, op, false, TENSOR_TOP);
    const struct view o = find(walk, rank, op, true, TENSOR_O), lse = find(walk, rank, op, true, TENSOR_LSE);
    for (struct cell cell = first_cell(walk, &o); is_cell(&cell); next_cell(&cell)) {
        double sum = *at(&cell, &denominator);
        for (size_t d = 0; d < dim; d++)
            at(&cell, &o)[d] = sum == 0 ? 0 : at(&cell, &numerator)[d] / sum;
        *at(&cell, &lse) = sum == 0 ? -HUGE_VAL : *at(&cell, &top) + log(sum);
    }
}

/* ---- sums ---- */

/* For each target: target = (target, if it is among the reads) + source. The sources are the first reads. A cast is the
 * same without target: everything here is double. */
static void do_accumulate(struct walk *walk, uint32_t rank, const struct op *op)
{
    const struct program *program = &walk->programs[rank];
    for (uint32_t i = 0; i < op->n_writes; i++) {
        const struct access to = access_of(walk->schedule, program, op, true, i);
        const struct access from = access_of(walk->schedule, program, op, false, i);
        const struct view target = walk_view(walk, rank, &to), source = walk_view(walk, rank, &from);
        size_t numbers = walk->holdings[rank][to.buffer].numbers;
        bool adds = false;
        for (uint32_t j = op->n_writes; j < op->n_reads; j++)
            adds = adds || program_reads(program, op)[j] == to.buffer;
        for (struct cell cell = first_cell(walk, &target); is_cell(&cell); next_cell(&cell)) {
            if (adds)
                row_add_scaled(at(&cell, &target), 1, at(&cell, &source), numbers);
            else
                memcpy(at(&cell, &target), at(&cell, &source), numbers * sizeof(double));
        }
    }
}

bool walk_do(struct walk *walk, uint32_t rank, uint32_t index, uint32_t receive, struct diagnostics *diag)
{
    static void (*const local[OP_KIND_COUNT])(struct walk * walk, uint32_t rank, const struct op *op) = {
        [OP_ATTEND] = do_attend,
        [OP_MERGE] = do_merge,
        [OP_FINISH] = do_finish,
        [OP_DELTA] = do_delta,
        [OP_ATTEND_BACKWARD] = do_attend_backward,
        [OP_ACCUMULATE] = do_accumulate,
        [OP_CAST] = do_accumulate,
        [OP_SPLIT_LANES] = walk_layout,
        [OP_JOIN_LANES] = walk_layout,
        [OP_SPLIT_ROWS] = walk_layout,
        [OP_JOIN_ROWS] = walk_layout,
        [OP_SUM_LSE] = do_sum_lse,
        [OP_CORRECT] = do_correct,
        [OP_TOP] = do_top,
        [OP_RAISE] = do_raise,
        [OP_WEIGH] = do_weigh,
        [OP_NORMALIZE] = do_normalize,
    };
    const struct op *op = &walk->programs[rank].ops[index];
    if (!walk_claim(walk, rank, op, diag))
        return false;
    if (op->kind == OP_SEND)
        return walk_message(walk, rank, op, receive, diag);
    assert(local[op->kind]); /* a receive is carried out by its send */
    local[op->kind](walk, rank, op);
    return true;
}
