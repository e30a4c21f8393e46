/* walk.c - follows what every buffer holds, in one legal order of all ranks' operations.
 *
 * One order is enough: conflicting accesses of a rank are ordered by the program form itself, messages pair up first to
 * first, and form_check excludes conflicts inside a group; so every legal order gives every operation the same inputs,
 * and ends in deadlock if this one does. A read that finds something else is reported and then taken for right, so that
 * one mistake is not reported by everything that follows from it.
 */
#include <inttypes.h>

#include "models/base/memory.h"
#include "models/schedule/checker/internal.h"
#include "models/schedule/execution.h"
#include "models/schedule/mask.h"

/* One operation being applied, and room for runs of pieces. */
struct walk {
    struct check *check;
    uint32_t rank, op;
    struct contents source, target, sum, final;
};

static void turn_to(struct walk *w, struct activity activity)
{
    w->rank = activity.instance; /* one group: an instance is a rank */
    w->op = activity.op;
}

static const struct op *current(const struct walk *w)
{
    return &w->check->programs[w->rank].ops[w->op];
}

static const struct buffer *buffer_of(const struct walk *w, uint32_t buffer)
{
    return &w->check->programs[w->rank].buffers[buffer];
}

static struct contents *contents_of(struct walk *w, uint32_t buffer, unsigned part)
{
    return &w->check->contents[w->rank][2 * (size_t)buffer + part];
}

static bool is_held(struct walk *w, uint32_t buffer, unsigned part, struct block want)
{
    struct contents run = {0};
    bool held = contents_read(contents_of(w, buffer, part), want, &run);
    contents_fini(&run);
    return held;
}

static void report_unheld(struct walk *w, uint32_t index, unsigned part, struct block want)
{
    const struct buffer *buffer = buffer_of(w, index);
    enum tensor tensor = (enum tensor)buffer->tensor;
    const char *what = "";
    if (op_parts_for(current(w), tensor) == PART_ALL && !is_held(w, index, !part, want)) {
        if (part == 1)
            return; /* said of the other part */
    } else if (tensor_goes_by_keys(tensor)) {
        what = part ? " (V part)" : " (K part)";
    }
    char wanted[96], held[320];
    findings_describe_block(tensor, want, wanted, sizeof wanted);
    contents_describe(contents_of(w, index, part), tensor, held, sizeof held);
    findings_add_op(&w->check->findings, &w->check->programs[w->rank], w->op, "reads %s in '%s'%s, which holds %s",
                    wanted, buffer->name, what, held);
}

/* Reads `want` from one part of a buffer into `run`; complains unless all of it is held. */
static bool read_part(struct walk *w, uint32_t buffer, unsigned part, struct block want, struct contents *run)
{
    if (contents_read(contents_of(w, buffer, part), want, run))
        return true;
    report_unheld(w, buffer, part, want);
    return false;
}

static bool reads_buffer(const struct walk *w, uint32_t buffer)
{
    const struct op *op = current(w);
    const uint32_t *reads = program_reads(&w->check->programs[w->rank], op);
    for (uint32_t i = 0; i < op->n_reads; i++)
        if (reads[i] == buffer)
            return true;
    return false;
}

/* Whether a write to `buffer` leaves other rows of the same owner in place: a resident tensor and a sum over a whole
 * shard have every row in its place, and an operation that adds to a buffer keeps the rest of it. Elsewhere a buffer
 * holds one block, and a write replaces it. */
static bool keeps_other_rows(const struct walk *w, uint32_t index, uint32_t owner)
{
    const struct buffer *buffer = buffer_of(w, index);
    if (buffer->role == ROLE_RESIDENT || reads_buffer(w, index))
        return true;
    return buffer->role == ROLE_ACCUMULATOR && buffer->rows >= w->check->rows[owner];
}

static void write_part(struct walk *w, uint32_t buffer, unsigned part, struct block rows, const struct contents *run)
{
    struct contents *contents = contents_of(w, buffer, part);
    if (!keeps_other_rows(w, buffer, rows.owner) || (contents->count && contents->pieces->owner != rows.owner))
        contents->count = 0;
    contents_write(contents, rows, run);
}

static unsigned parts_of(const struct walk *w, uint32_t buffer)
{
    return op_parts_for(current(w), (enum tensor)buffer_of(w, buffer)->tensor);
}

/* The first of the operation's reads that is of `tensor`; form_check has seen that there is one. */
static uint32_t find_read(const struct walk *w, enum tensor tensor)
{
    const struct program *program = &w->check->programs[w->rank];
    const uint32_t *reads = program_reads(program, current(w));
    while (program->buffers[*reads].tensor != tensor)
        reads++;
    return *reads;
}

/* Complains unless `run`, of the rows `rows`, is derived from the final O or LSE of their owner. */
static void require_final(struct walk *w, uint32_t buffer, struct block rows, const struct contents *finals,
                          const struct contents *run)
{
    contents_read(&finals[rows.owner], rows, &w->final);
    for (uint32_t i = 0, j = 0; i < run->count && j < w->final.count;) {
        const struct piece *a = &run->pieces[i], *b = &w->final.pieces[j];
        if (a->sum != b->sum) {
            findings_add_op(&w->check->findings, &w->check->programs[w->rank], w->op,
                            "reads '%s' with less or other keys in it than the final one of rank %" PRIu32,
                            buffer_of(w, buffer)->name, rows.owner);
            return;
        }
        uint32_t a_end = a->first + a->count, b_end = b->first + b->count;
        i += a_end <= b_end;
        j += b_end <= a_end;
    }
}

/* Every read of an attention operation must be held, and in the backward pass be of the final O. */
static void read_operands(struct walk *w)
{
    const struct program *program = &w->check->programs[w->rank];
    const struct op *op = current(w);
    const uint32_t *reads = program_reads(program, op);
    uint32_t next_owner = 0;
    for (uint32_t i = 0; i < op->n_reads; i++) {
        enum tensor tensor = tensor_of(program, reads[i]);
        struct block rows = check_next_block(w->check, op, tensor, &next_owner);
        unsigned parts = parts_of(w, reads[i]);
        for (unsigned part = 0; part < 2; part++) {
            if (!(parts >> part & 1) || !read_part(w, reads[i], part, rows, &w->source))
                continue;
            if (tensor == TENSOR_LSE)
                require_final(w, reads[i], rows, w->check->final_lse, &w->source);
            else if (tensor == TENSOR_DELTA || tensor == TENSOR_O)
                require_final(w, reads[i], rows, w->check->final_o, &w->source);
        }
    }
}

/* Writes the same sum to all rows of every result of an attention operation. */
static void write_sum(struct walk *w, uint32_t sum)
{
    const struct program *program = &w->check->programs[w->rank];
    const struct op *op = current(w);
    const uint32_t *writes = program_writes(program, op);
    uint32_t next_owner = 0;
    for (uint32_t i = 0; i < op->n_writes; i++) {
        struct block rows = check_next_block(w->check, op, tensor_of(program, writes[i]), &next_owner);
        unsigned parts = parts_of(w, writes[i]);
        contents_set(&w->sum, rows, sum);
        for (unsigned part = 0; part < 2; part++)
            if (parts >> part & 1)
                write_part(w, writes[i], part, rows, &w->sum);
    }
}

static void attend(struct walk *w)
{
    const struct op *op = current(w);
    const struct schedule *schedule = w->check->schedule;
    read_operands(w);
    uint64_t pairs = op->q.count && op->k.count
                         ? mask_block_pairs(&schedule->experiment->mask, &schedule->sharding, op->q, op->k)
                         : 0;
    if (pairs != op->pairs)
        findings_add_op(&w->check->findings, &w->check->programs[w->rank], w->op,
                        "counts %" PRIu64 " visible pairs, but its blocks have %" PRIu64, op->pairs, pairs);
    write_sum(w, sums_add_leaf(&w->check->sums, w->rank, w->op, pairs));
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

/* MERGE, ACCUMULATE, CAST, FINISH: moves the rows of `source` into every buffer written, added to what is there
 * when the operation also reads that buffer. */
static void transfer(struct walk *w, uint32_t source)
{
    const struct program *program = &w->check->programs[w->rank];
    const struct op *op = current(w);
    const uint32_t *writes = program_writes(program, op);
    for (uint32_t i = 0; i < op->n_writes; i++) {
        uint32_t target = writes[i];
        struct block rows = op_block_for(op, tensor_of(program, target));
        bool adds = reads_buffer(w, target);
        unsigned parts = parts_of(w, target);
        for (unsigned part = 0; part < 2; part++) {
            if (!(parts >> part & 1))
                continue;
            read_part(w, source, part, rows, &w->source);
            if (adds) {
                read_part(w, target, part, rows, &w->target);
                unite_runs(w, &w->source, &w->target);
            }
            write_part(w, target, part, rows, adds ? &w->sum : &w->source);
        }
    }
}

/* The read of MERGE, ACCUMULATE or CAST that is not the target. */
static uint32_t source_of(const struct walk *w)
{
    const struct program *program = &w->check->programs[w->rank];
    const struct op *op = current(w);
    const uint32_t *reads = program_reads(program, op);
    return reads[0] != *program_writes(program, op) ? reads[0] : reads[1];
}

static void delta(struct walk *w)
{
    read_operands(w);
    uint32_t o = find_read(w, TENSOR_O), target = *program_writes(&w->check->programs[w->rank], current(w));
    contents_read(contents_of(w, o, 0), current(w)->q, &w->source);
    write_part(w, target, 0, current(w)->q, &w->source);
}

static bool same_block(struct block a, struct block b)
{
    return a.count == b.count && (a.count == 0 || (a.owner == b.owner && a.first == b.first));
}

/* What the two ends of a message say of it must be the same. */
static void compare_ends(struct walk *w, uint32_t to_rank, uint32_t to_op)
{
    const struct program *from = &w->check->programs[w->rank], *to = &w->check->programs[to_rank];
    const struct op *send = current(w), *receive = &to->ops[to_op];
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

/* What the sender holds of the block that it names arrives, whatever the receiver calls it. */
static void message(struct walk *w, struct activity send, struct activity receive)
{
    const struct program *from = &w->check->programs[send.instance], *to = &w->check->programs[receive.instance];
    const struct op *op = &from->ops[send.op];
    uint32_t source = *program_reads(from, op), target = *program_writes(to, &to->ops[receive.op]);
    enum tensor tensor = (enum tensor)from->buffers[source].tensor;
    struct block sent = op_block_for(op, tensor);
    compare_ends(w, receive.instance, receive.op);
    for (unsigned part = 0; part < 2; part++) {
        if (!(op_parts_for(op, tensor) >> part & 1))
            continue;
        turn_to(w, send);
        read_part(w, source, part, sent, &w->source);
        turn_to(w, receive);
        write_part(w, target, part, sent, &w->source);
    }
}

static void apply(struct walk *w, const struct execution *execution, struct activity activity)
{
    turn_to(w, activity);
    switch ((enum op_kind)current(w)->kind) {
    case OP_ATTEND:
    case OP_ATTEND_BACKWARD:
        attend(w);
        break;
    case OP_MERGE:
    case OP_ACCUMULATE:
    case OP_CAST:
        transfer(w, source_of(w));
        break;
    case OP_FINISH:
        transfer(w, find_read(w, TENSOR_STATE));
        break;
    case OP_DELTA:
        delta(w);
        break;
    case OP_SEND:
        message(w, activity, execution_receive_of(execution, activity));
        break;
    case OP_RECEIVE:
    case OP_KIND_COUNT:
        break;
    }
}

/* The rank's own Q, KV and dO are there from the start. */
static void place_inputs(struct walk *w, uint32_t rank)
{
    static const enum tensor inputs[] = {TENSOR_Q, TENSOR_KV, TENSOR_DO};
    const struct program *program = &w->check->programs[rank];
    struct block rows = {rank, 0, (uint32_t)w->check->rows[rank]};
    contents_set(&w->sum, rows, SUM_EMPTY);
    w->rank = rank;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        uint32_t buffer = check_resident(program, inputs[i]);
        if (buffer == program->n_buffers)
            continue;
        for (unsigned part = 0; part < 2; part++)
            contents_write(contents_of(w, buffer, part), rows, &w->sum);
    }
}

/* Remembers every rank's final O and LSE and judges the forward phase. */
static void end_forward(struct walk *w)
{
    for (uint32_t rank = 0; rank < w->check->ranks; rank++) {
        const struct program *program = &w->check->programs[rank];
        struct block rows = {rank, 0, (uint32_t)w->check->rows[rank]};
        uint32_t o = check_resident(program, TENSOR_O), lse = check_resident(program, TENSOR_LSE);
        if (o < program->n_buffers)
            contents_read(&w->check->contents[rank][2 * (size_t)o], rows, &w->check->final_o[rank]);
        if (lse < program->n_buffers)
            contents_read(&w->check->contents[rank][2 * (size_t)lse], rows, &w->check->final_lse[rank]);
    }
    w->check->forward_leaves = w->check->sums.n_leaves;
    results_check(w->check, PHASE_FORWARD);
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
    contents_fini(&w.final);
}
