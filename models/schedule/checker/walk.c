/* walk.c - follows what every buffer holds, in one legal order of all ranks' operations.
 *
 * One order is enough: conflicting accesses of a rank are ordered by the program form itself, messages pair up first to
 * first, and form_check excludes conflicts inside a group; so every legal order gives every operation the same inputs,
 * and ends in deadlock if this one does.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"
#include "models/schedule/checker/rows.h"
#include "models/schedule/checker/walk.h"

static void turn_to(struct walk *w, struct activity activity)
{
    w->rank = activity.instance; /* one group: an instance is a rank */
    w->op = activity.op;
}

/* ---- one cell of an operation ---- */

/* The same sum for all rows of every result of an attention operation. */
static void attend(struct walk *w)
{
    struct access_walk accesses;
    struct access access;
    walk_read_operands(w);
    uint64_t pairs = check_pairs(w->check, walk_op(w)->q, walk_op(w)->k);
    if (pairs != walk_op(w)->pairs && !w->quiet)
        findings_add_op(&w->check->findings, walk_program(w), w->op,
                        "counts %" PRIu64 " visible pairs, but its blocks have %" PRIu64, walk_op(w)->pairs, pairs);
    uint32_t sum = sums_add_leaf(&w->check->sums, w->rank, w->op, w->cell, pairs);
    accesses_begin(&accesses, w->check->schedule, walk_program(w), walk_op(w));
    while (walk_next_write(&accesses, &access)) {
        unsigned parts = walk_parts(w, access.buffer);
        contents_set(&w->sum, access.block, sum);
        for (unsigned part = 0; part < 2; part++)
            if (parts >> part & 1)
                walk_write(w, access.buffer, part, access.block, &w->sum);
    }
}

/* Writes target + source, row by row, into `w->sum`. */
static void unite_runs(struct walk *w, const struct contents *source, const struct contents *target)
{
    w->sum.count = 0;
    for (uint32_t i = 0, j = 0; i < source->count && j < target->count;) {
        const struct piece *a = &source->pieces[i], *b = &target->pieces[j];
        uint32_t first = a->first > b->first ? a->first : b->first;
        uint32_t a_end = a->first + a->count, b_end = b->first + b->count, end = a_end < b_end ? a_end : b_end;
        memory_grow(w->sum.pieces, w->sum.count, w->sum.capacity);
        w->sum.pieces[w->sum.count++] =
            (struct piece){a->owner, first, end - first, sums_unite(&w->check->sums, b->sum, a->sum)};
        i += a_end == end;
        j += b_end == end;
    }
}

/* Moves rows of `source` into `target`, added to what is there when the operation also reads that. */
static void move(struct walk *w, uint32_t source, uint32_t target, struct block rows)
{
    bool adds = walk_reads(w, target);
    unsigned parts = walk_parts(w, target);
    for (unsigned part = 0; part < 2; part++) {
        if (!(parts >> part & 1))
            continue;
        walk_read(w, source, part, rows, &w->source);
        if (adds) {
            walk_read(w, target, part, rows, &w->target);
            unite_runs(w, &w->source, &w->target);
        }
        walk_write(w, target, part, rows, adds ? &w->sum : &w->source);
    }
}

static void move_to_all(struct walk *w, uint32_t source)
{
    const uint32_t *writes = program_writes(walk_program(w), walk_op(w));
    for (uint32_t i = 0; i < walk_op(w)->n_writes; i++)
        move(w, source, writes[i], op_block_for(walk_op(w), tensor_of(walk_program(w), writes[i])));
}

/* The read of a copy or sum that is not the target. */
static uint32_t source_of(const struct walk *w)
{
    const uint32_t *reads = program_reads(walk_program(w), walk_op(w));
    return reads[0] != *program_writes(walk_program(w), walk_op(w)) ? reads[0] : reads[1];
}

static void normalize(struct walk *w)
{
    uint32_t numerator = walk_find_read(w, TENSOR_NUMERATOR), denominator = walk_find_read(w, TENSOR_DENOMINATOR);
    const uint32_t *writes = program_writes(walk_program(w), walk_op(w));
    walk_require_all_keys(w, walk_find_read(w, TENSOR_TOP));
    walk_require_same_keys(w, numerator, denominator);
    for (uint32_t i = 0; i < 2; i++)
        move(w, tensor_of(walk_program(w), writes[i]) == TENSOR_O ? numerator : denominator, writes[i], walk_op(w)->q);
}

/* SPLIT_LANES, JOIN_LANES: the cell is in one of the slices, or in none. */
static void copy_lanes(struct walk *w)
{
    const struct op *op = walk_op(w);
    bool splits = op->kind == OP_SPLIT_LANES;
    const uint32_t *reads = program_reads(walk_program(w), op), *writes = program_writes(walk_program(w), op);
    struct lanes cell = cells_lanes(&w->check->cells, w->cell);
    for (uint32_t i = 0; i < (uint32_t)(splits ? op->n_writes : op->n_reads); i++) {
        uint32_t slice = splits ? writes[i] : reads[i];
        if (lanes_within(cell, walk_buffer(w, slice)->lanes))
            move(w, splits ? *reads : slice, splits ? slice : *writes,
                 op_block_for(op, tensor_of(walk_program(w), slice)));
    }
}

/* One part of SPLIT_ROWS. */
static void split_rows(struct walk *w, unsigned part)
{
    struct access_walk accesses;
    struct access access;
    uint32_t whole = *program_reads(walk_program(w), walk_op(w));
    walk_read(w, whole, part, op_block_for(walk_op(w), tensor_of(walk_program(w), whole)), &w->source);
    accesses_begin(&accesses, w->check->schedule, walk_program(w), walk_op(w));
    while (walk_next_write(&accesses, &access)) {
        rows_split(&w->check->schedule->sharding, &w->source, access.block.owner, &w->target);
        walk_write(w, access.buffer, part, access.block, &w->target);
    }
}

/* One part of JOIN_ROWS. */
static void join_rows(struct walk *w, unsigned part)
{
    struct access_walk accesses;
    struct access access;
    uint32_t whole = *program_writes(walk_program(w), walk_op(w));
    struct block rows = op_block_for(walk_op(w), tensor_of(walk_program(w), whole));
    w->parts.count = 0;
    accesses_begin(&accesses, w->check->schedule, walk_program(w), walk_op(w));
    while (accesses_next(&accesses, &access) && !access.write) {
        walk_read(w, access.buffer, part, access.block, &w->source);
        contents_extend(&w->parts, &w->source);
    }
    rows_join(&w->check->schedule->sharding, rows, &w->parts, &w->target);
    walk_write(w, whole, part, rows, &w->target);
}

static void copy_rows(struct walk *w)
{
    unsigned parts = walk_parts(w, *program_reads(walk_program(w), walk_op(w)));
    for (unsigned part = 0; part < 2; part++)
        if (parts >> part & 1)
            walk_op(w)->kind == OP_SPLIT_ROWS ? split_rows(w, part) : join_rows(w, part);
}

static void apply_local(struct walk *w)
{
    switch ((enum op_kind)walk_op(w)->kind) {
    case OP_ATTEND:
    case OP_ATTEND_BACKWARD:
        attend(w);
        break;
    case OP_MERGE:
    case OP_SUM_LSE:
    case OP_TOP:
        move_to_all(w, walk_find_read(w, TENSOR_PARTIAL));
        break;
    case OP_CORRECT:
        walk_require_all_keys(w, walk_find_read(w, TENSOR_LSE));
        move_to_all(w, walk_find_read(w, TENSOR_PARTIAL));
        break;
    case OP_WEIGH:
        walk_require_all_keys(w, walk_find_read(w, TENSOR_TOP));
        move_to_all(w, walk_find_read(w, TENSOR_PARTIAL));
        break;
    case OP_ACCUMULATE:
    case OP_RAISE:
    case OP_CAST:
        move_to_all(w, source_of(w));
        break;
    case OP_FINISH:
        move_to_all(w, walk_find_read(w, TENSOR_STATE));
        break;
    case OP_NORMALIZE:
        normalize(w);
        break;
    case OP_DELTA:
        walk_delta(w);
        break;
    case OP_SPLIT_LANES:
    case OP_JOIN_LANES:
        copy_lanes(w);
        break;
    case OP_SPLIT_ROWS:
    case OP_JOIN_ROWS:
        copy_rows(w);
        break;
    case OP_PRODUCT:
    case OP_NORM:
    case OP_NORM_BACKWARD:
    case OP_ACTIVATE:
    case OP_ACTIVATE_BACKWARD:
    case OP_ADD:
    case OP_EMBED:
    case OP_EMBED_BACKWARD:
    case OP_LOSS:
    case OP_OPTIMIZE: /* of layers: not attention's */
    case OP_SEND:
    case OP_RECEIVE:
    case OP_KIND_COUNT:
        break;
    }
}

/* ---- messages ---- */

static bool same_block(struct block a, struct block b)
{
    return a.count == b.count && (a.count == 0 || (a.owner == b.owner && a.first == b.first));
}

/* What the two ends of a message say of it must be the same. */
static void compare_ends(struct walk *w, uint32_t to_rank, uint32_t to_op)
{
    const struct program *from = walk_program(w), *to = &w->check->programs[to_rank];
    const struct op *send = walk_op(w), *receive = &to->ops[to_op];
    const struct buffer *source = &from->buffers[*program_reads(from, send)];
    const struct buffer *target = &to->buffers[*program_writes(to, receive)];
    enum tensor tensor = (enum tensor)source->tensor;
    const char *what = NULL;
    if (source->tensor != target->tensor || source->dtype != target->dtype)
        what = "another tensor or type";
    else if (send->bytes != receive->bytes)
        what = "other bytes";
    else if (!same_block(op_block_for(send, tensor), op_block_for(receive, tensor)))
        what = "another block";
    else if (!lanes_equal(send->lanes, receive->lanes))
        what = "other lanes";
    else if (op_parts_for(send, tensor) != op_parts_for(receive, tensor))
        what = "another part";
    else if (send->traffic != receive->traffic)
        what = "another kind of traffic";
    if (!what)
        return;
    char text[256];
    program_describe_op(to, to_op, text, sizeof text);
    findings_add_op(&w->check->findings, from, w->op, "meets %s at rank %" PRIu32 ", operation %" PRIu32 " (%s)", what,
                    to_rank, to_op, text);
}

/* What the sender holds of the block that it names arrives, whatever the receiver calls it: one cell. */
static void deliver(struct walk *w, struct activity send, struct activity receive)
{
    const struct program *from = &w->check->programs[send.instance], *to = &w->check->programs[receive.instance];
    const struct op *op = &from->ops[send.op];
    uint32_t source = *program_reads(from, op), target = *program_writes(to, &to->ops[receive.op]);
    enum tensor tensor = tensor_of(from, source);
    struct block sent = op_block_for(op, tensor);
    for (unsigned part = 0; part < 2; part++) {
        if (!(op_parts_for(op, tensor) >> part & 1))
            continue;
        turn_to(w, send);
        walk_read(w, source, part, sent, &w->source);
        turn_to(w, receive);
        walk_write(w, target, part, sent, &w->source);
    }
}

/* ---- all of it ---- */

/* A mistake usually shows in every cell, and is said of the first. */
static void apply(struct walk *w, const struct execution *execution, struct activity activity)
{
    turn_to(w, activity);
    struct lanes lanes = walk_op(w)->lanes;
    bool sends = walk_op(w)->kind == OP_SEND;
    struct activity receive = activity;
    uint64_t before = w->check->findings.count;
    w->quiet = false;
    if (sends) {
        receive = execution_receive_of(execution, activity);
        const struct program *to = &w->check->programs[receive.instance];
        compare_ends(w, receive.instance, receive.op);
        lanes = lanes_common(lanes, to->buffers[*program_writes(to, &to->ops[receive.op])].lanes);
    }
    struct cell_range range = cells_range(&w->check->cells, lanes);
    for (uint32_t n = 0; n < cell_range_count(range); n++) {
        w->cell = cells_at(&w->check->cells, range, n);
        w->quiet = n && w->check->findings.count > before;
        if (sends)
            deliver(w, activity, receive);
        else
            apply_local(w);
    }
}

/* The rank's own Q, KV and dO are there from the start. */
static void place_inputs(struct walk *w, uint32_t rank)
{
    static const enum tensor inputs[] = {TENSOR_Q, TENSOR_KV, TENSOR_DO};
    const struct program *program = &w->check->programs[rank];
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        uint32_t buffer = check_resident(program, inputs[i]);
        if (buffer == program->n_buffers)
            continue;
        struct block rows = check_resident_rows(w->check, rank, inputs[i]);
        const struct holding *holding = &w->check->holdings[rank][buffer];
        contents_set(&w->sum, rows, SUM_EMPTY);
        for (uint32_t c = 0; c < 2 * cell_range_count(holding->cells); c++)
            contents_write(&holding->contents[c], rows, &w->sum);
    }
}

/* Remembers what a rank's resident buffer of O or LSE holds. */
static void keep_final(struct check *check, uint32_t rank, enum tensor tensor, struct contents *finals)
{
    uint32_t buffer = check_resident(&check->programs[rank], tensor);
    if (buffer == check->programs[rank].n_buffers)
        return;
    const struct holding *holding = &check->holdings[rank][buffer];
    for (uint32_t n = 0; n < cell_range_count(holding->cells); n++)
        contents_read(&holding->contents[2 * (size_t)n], check_resident_rows(check, rank, tensor),
                      &finals[(size_t)rank * check->cells.count + cells_at(&check->cells, holding->cells, n)]);
}

/* Remembers every rank's final O and LSE, if they are needed, and judges the forward phase. */
static void end_forward(struct walk *w)
{
    struct check *check = w->check;
    for (uint32_t rank = 0; check->schedule->experiment->train && rank < check->ranks; rank++) {
        keep_final(check, rank, TENSOR_O, check->final_o);
        keep_final(check, rank, TENSOR_LSE, check->final_lse);
    }
    check->forward_leaves = check->sums.n_leaves;
    results_check(check, PHASE_FORWARD);
}

/* Runs all programs to their end, or to a deadlock. */
static void run(struct walk *w)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct execution *execution = execution_create(w->check->programs, w->check->ranks, 1, &diag);
    bool backward = false;
    struct activity activity;
    while (execution && execution_next(execution, &activity)) {
        if (!backward && program_phase(&w->check->programs[activity.instance], activity.op) == PHASE_BACKWARD) {
            backward = true;
            end_forward(w);
        }
        apply(w, execution, activity);
        execution_finish(execution, activity);
    }
    if (execution && !execution_done(execution)) {
        execution_explain(execution, &diag);
    } else if (execution) {
        if (!backward)
            end_forward(w);
        if (w->check->schedule->experiment->train)
            results_check(w->check, PHASE_BACKWARD);
    }
    findings_add_all(&w->check->findings, &diag);
    execution_destroy(execution);
    diagnostics_fini(&diag);
}

void walk_programs(struct check *check)
{
    struct walk w = {.check = check};
    for (uint32_t rank = 0; rank < check->ranks; rank++)
        place_inputs(&w, rank);
    run(&w);
    contents_fini(&w.source);
    contents_fini(&w.target);
    contents_fini(&w.sum);
    contents_fini(&w.other);
    contents_fini(&w.parts);
    contents_fini(&w.final);
    free(w.once.leaves);
    free(w.twice.leaves);
    free(w.leaves.leaves);
    free(w.complete);
}
