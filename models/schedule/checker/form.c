/* form.c - each program by itself, before anything is walked.
 *
 * Which tensors an operation reads and writes is a table, the one in program.h.
 */
#include <inttypes.h>

#include "models/schedule/checker/internal.h"

#define BIT(tensor) (1u << (tensor))

/* Local operations: sets of tensors, each once (keys of all ranks: one buffer per owner). ACCUMULATE and CAST work on
 * one tensor, of `reads`. */
static const struct operands {
    unsigned reads, may_read, writes, or_writes;
} operands[OP_KIND_COUNT] = {
    [OP_ATTEND] = {BIT(TENSOR_Q) | BIT(TENSOR_KV), 0, BIT(TENSOR_PARTIAL), BIT(TENSOR_O) | BIT(TENSOR_LSE)},
    [OP_MERGE] = {BIT(TENSOR_PARTIAL), BIT(TENSOR_STATE), BIT(TENSOR_STATE), 0},
    [OP_FINISH] = {BIT(TENSOR_STATE), 0, BIT(TENSOR_O) | BIT(TENSOR_LSE), 0},
    [OP_DELTA] = {BIT(TENSOR_O) | BIT(TENSOR_DO), 0, BIT(TENSOR_DELTA), 0},
    [OP_ATTEND_BACKWARD] = {BIT(TENSOR_Q) | BIT(TENSOR_KV) | BIT(TENSOR_DO) | BIT(TENSOR_LSE) | BIT(TENSOR_DELTA), 0,
                            BIT(TENSOR_DQ) | BIT(TENSOR_DKV), 0},
    [OP_ACCUMULATE] = {.reads = BIT(TENSOR_DQ) | BIT(TENSOR_DKV)},
    [OP_CAST] = {.reads = BIT(TENSOR_COUNT) - 1},
};

/* What is being looked at: the subject of every complaint. */
struct subject {
    struct check *check;
    const struct program *program;
    uint32_t index;
    const struct op *op;
};

/* Complains about an operation that may be too broken to be described. */
static bool complain(const struct subject *s, const char *text)
{
    findings_add(&s->check->findings, "rank %" PRIu32 ", operation %" PRIu32 ": %s", s->program->rank, s->index, text);
    return false;
}

struct block check_next_block(const struct check *check, const struct op *op, enum tensor tensor, uint32_t *owner)
{
    struct block block = op_block_for(op, tensor);
    if (block.owner != BLOCK_ALL)
        return block;
    while (*owner < check->ranks && check->rows[*owner] <= block.first)
        ++*owner;
    if (*owner == check->ranks)
        return (struct block){0, 0, 0};
    uint64_t rest = check->rows[*owner] - block.first;
    return (struct block){(*owner)++, block.first, block.count < rest ? block.count : (uint32_t)rest};
}

static uint32_t owners_with_rows(const struct check *check, struct block block)
{
    if (block.owner != BLOCK_ALL)
        return 1;
    uint32_t owners = 0;
    for (uint32_t owner = 0; owner < check->ranks; owner++)
        owners += check->rows[owner] > block.first;
    return owners;
}

/* ---- operands ---- */

static bool check_accesses(const struct subject *s)
{
    const struct op *op = s->op;
    if ((uint64_t)op->access + op->n_reads + op->n_writes > s->program->n_accesses)
        return complain(s, "its accesses lie outside the program");
    const uint32_t *accesses = program_reads(s->program, op);
    for (uint32_t i = 0; i < (uint32_t)op->n_reads + op->n_writes; i++)
        if (accesses[i] >= s->program->n_buffers)
            return complain(s, "it names a buffer that does not exist");
    return true;
}

static bool check_block(const struct subject *s, struct block block, const char *what)
{
    if (block.count == 0)
        return true;
    if (block.owner == BLOCK_ALL && block.first < s->check->rows_max && block.count <= UINT32_MAX - block.first)
        return true; /* of each shard as many rows as it has */
    uint64_t rows = block.owner < s->check->ranks ? s->check->rows[block.owner] : 0;
    if ((uint64_t)block.first + block.count <= rows)
        return true;
    char text[64];
    block_describe(block, text, sizeof text);
    findings_add(&s->check->findings,
                 "rank %" PRIu32 ", operation %" PRIu32 ": its %s are of %s, which has %" PRIu64 " rows",
                 s->program->rank, s->index, what, text, rows);
    return false;
}

static bool check_blocks(const struct subject *s)
{
    if (s->op->q.count && s->op->q.owner == BLOCK_ALL)
        return complain(s, "its queries are of all ranks, expected one rank's");
    if (s->op->k.count && s->op->k.owner == BLOCK_ALL && !op_is_attention(s->op))
        return complain(s, "its keys are of all ranks, expected one rank's");
    return check_block(s, s->op->q, "queries") && check_block(s, s->op->k, "keys");
}

/* The tensors among `buffers` as a set; true when each is there once, or once per owner. */
static bool tensor_set(const struct subject *s, const uint32_t *buffers, uint32_t count, unsigned *set)
{
    uint32_t counts[TENSOR_COUNT] = {0};
    for (uint32_t i = 0; i < count; i++)
        counts[tensor_of(s->program, buffers[i])]++;
    *set = 0;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        if (!counts[t])
            continue;
        *set |= BIT(t);
        if (counts[t] != owners_with_rows(s->check, op_block_for(s->op, (enum tensor)t)))
            return false;
    }
    return true;
}

static bool check_attention_operands(const struct subject *s)
{
    const struct operands *expected = &operands[s->op->kind];
    unsigned reads, writes;
    if (!tensor_set(s, program_reads(s->program, s->op), s->op->n_reads, &reads) ||
        !tensor_set(s, program_writes(s->program, s->op), s->op->n_writes, &writes))
        return complain(s, "it has not one buffer of each tensor (of keys of all ranks, one per owner)");
    if ((reads & expected->reads) != expected->reads || (reads & ~(expected->reads | expected->may_read)))
        return complain(s, "its kind does not read these tensors");
    if (writes != expected->writes && (writes != expected->or_writes || !writes))
        return complain(s, "its kind does not write these tensors");
    return true;
}

/* CAST and ACCUMULATE: a source, for ACCUMULATE perhaps the target, and the target. MERGE has its own tensors. */
static bool check_copy_operands(const struct subject *s)
{
    const uint32_t *reads = program_reads(s->program, s->op), *writes = program_writes(s->program, s->op);
    uint32_t most = s->op->kind == OP_ACCUMULATE ? 2 : 1;
    if (s->op->n_writes != 1 || s->op->n_reads < 1 || s->op->n_reads > most)
        return complain(s, "it needs one source and one target");
    uint32_t sources = 0;
    for (uint32_t i = 0; i < s->op->n_reads; i++) {
        sources += reads[i] != writes[0];
        if (tensor_of(s->program, reads[i]) != tensor_of(s->program, writes[0]))
            return complain(s, "its source and its target are different tensors");
    }
    if (sources != 1)
        return complain(s, "it needs one source and one target");
    if (!(BIT(tensor_of(s->program, writes[0])) & operands[s->op->kind].reads))
        return complain(s, "its kind is not for this tensor");
    return true;
}

static bool check_merge_target(const struct subject *s)
{
    const uint32_t *reads = program_reads(s->program, s->op), *writes = program_writes(s->program, s->op);
    for (uint32_t i = 0; i < s->op->n_reads; i++)
        if (tensor_of(s->program, reads[i]) == TENSOR_STATE && reads[i] != writes[0])
            return complain(s, "it reads one state and writes another");
    return true;
}

static bool check_operands(const struct subject *s)
{
    switch (s->op->kind) {
    case OP_SEND:
        return (s->op->n_reads == 1 && s->op->n_writes == 0) || complain(s, "a send reads one buffer and writes none");
    case OP_RECEIVE:
        return (s->op->n_reads == 0 && s->op->n_writes == 1) ||
               complain(s, "a receive writes one buffer and reads none");
    case OP_ACCUMULATE:
    case OP_CAST:
        return check_copy_operands(s);
    case OP_MERGE:
        return check_attention_operands(s) && check_merge_target(s);
    default:
        return check_attention_operands(s);
    }
}

/* Every buffer must have room for its block, and a resident one holds its own rank's rows only. */
static bool check_room(const struct subject *s)
{
    const uint32_t *accesses = program_reads(s->program, s->op);
    uint32_t next_owner[2][TENSOR_COUNT] = {{0}};
    for (uint32_t i = 0; i < (uint32_t)s->op->n_reads + s->op->n_writes; i++) {
        const struct buffer *buffer = &s->program->buffers[accesses[i]];
        enum tensor tensor = (enum tensor)buffer->tensor;
        struct block block = check_next_block(s->check, s->op, tensor, &next_owner[i >= s->op->n_reads][tensor]);
        uint64_t needed = buffer->role == ROLE_RESIDENT ? (uint64_t)block.first + block.count : block.count;
        if (block.count && buffer->role == ROLE_RESIDENT && block.owner != s->program->rank) {
            findings_add_op(&s->check->findings, s->program, s->index,
                            "uses '%s' for rows of rank %" PRIu32 ", but it is resident: for its own rank's",
                            buffer->name, block.owner);
            return false;
        }
        if (needed > buffer->rows) {
            findings_add_op(&s->check->findings, s->program, s->index,
                            "needs %" PRIu64 " rows in '%s', which has %" PRIu64, needed, buffer->name, buffer->rows);
            return false;
        }
    }
    return true;
}

/* ---- messages ---- */

static bool check_traffic(const struct subject *s, enum tensor tensor)
{
    bool backward = program_phase(s->program, s->index) == PHASE_BACKWARD;
    enum traffic traffic = (enum traffic)s->op->traffic;
    if (tensor == TENSOR_KV)
        return traffic == (backward ? TRAFFIC_REPLAY_KV : TRAFFIC_FORWARD_KV);
    if (tensor == TENSOR_DKV)
        return traffic == TRAFFIC_GRADIENT;
    return traffic == TRAFFIC_OTHER || (tensor == TENSOR_DQ && traffic == TRAFFIC_GRADIENT);
}

static bool check_message(const struct subject *s)
{
    struct check *check = s->check;
    const struct op *op = s->op;
    const struct buffer *buffer = &s->program->buffers[*program_reads(s->program, op)];
    enum tensor tensor = (enum tensor)buffer->tensor;
    if (op->peer >= check->ranks || op->peer == s->program->rank)
        return complain(s, "its peer is its own rank, or no rank");
    if (tensor_goes_by_keys(tensor) ? op->part < PART_K || op->part > PART_ALL : op->part && op->part != PART_ALL)
        return complain(s, "its part is none of K, V and all");
    uint64_t bytes =
        schedule_tensor_bytes(check->schedule, tensor, (enum dtype)buffer->dtype, op_block_for(op, tensor).count);
    if (tensor_goes_by_keys(tensor) && op->part != PART_ALL)
        bytes /= 2;
    if (op->bytes != bytes)
        findings_add_op(&check->findings, s->program, s->index,
                        "has another size than its block: %" PRIu64 " rows of %s in %s are %" PRIu64 " bytes",
                        (uint64_t)op_block_for(op, tensor).count, tensor_name(tensor),
                        dtype_name((enum dtype)buffer->dtype), bytes);
    if (!check_traffic(s, tensor))
        findings_add_op(&check->findings, s->program, s->index, "counts %s of the %s phase as '%s' traffic",
                        tensor_name(tensor), phase_name(program_phase(s->program, s->index)),
                        op->traffic < TRAFFIC_COUNT ? traffic_name((enum traffic)op->traffic) : "?");
    return true;
}

/* ---- programs ---- */

static bool check_buffers(struct check *check, const struct program *program)
{
    uint64_t before = check->findings.count;
    unsigned resident = 0;
    for (uint32_t i = 0; i < program->n_buffers; i++) {
        const struct buffer *buffer = &program->buffers[i];
        if (buffer->tensor >= TENSOR_COUNT || buffer->dtype >= DTYPE_COUNT || buffer->role >= ROLE_COUNT) {
            findings_add(&check->findings, "rank %" PRIu32 ": buffer '%s' is of no tensor, type or role", program->rank,
                         buffer->name);
            continue;
        }
        uint64_t bytes = schedule_tensor_bytes(check->schedule, (enum tensor)buffer->tensor, (enum dtype)buffer->dtype,
                                               buffer->rows);
        if (buffer->bytes != bytes)
            findings_add(&check->findings,
                         "rank %" PRIu32 ": buffer '%s' has %" PRIu64 " bytes, but %" PRIu64
                         " rows of %s in %s are %" PRIu64,
                         program->rank, buffer->name, buffer->bytes, buffer->rows,
                         tensor_name((enum tensor)buffer->tensor), dtype_name((enum dtype)buffer->dtype), bytes);
        if (buffer->role != ROLE_RESIDENT)
            continue;
        if (resident & BIT(buffer->tensor))
            findings_add(&check->findings, "rank %" PRIu32 ": '%s' is its second resident %s, expected one",
                         program->rank, buffer->name, tensor_name((enum tensor)buffer->tensor));
        resident |= BIT(buffer->tensor);
    }
    return check->findings.count == before;
}

static bool check_op(const struct subject *s)
{
    const struct op *op = s->op;
    if (op->kind >= OP_KIND_COUNT || op->stream >= STREAM_COUNT || op->group > s->program->n_groups)
        return complain(s, "it is of no kind, stream or group");
    bool backward = program_phase(s->program, s->index) == PHASE_BACKWARD;
    if (backward && !s->check->schedule->experiment->train)
        return complain(s, "it is in the backward phase of a forward-only schedule");
    if ((op->kind == OP_ATTEND && backward) || (op->kind == OP_ATTEND_BACKWARD && !backward))
        return complain(s, "it attends in the wrong phase");
    return check_accesses(s) && check_blocks(s) && check_operands(s) && check_room(s) &&
           (!op_is_message(op) || check_message(s));
}

static void check_program(struct check *check, uint32_t rank)
{
    const struct program *program = &check->programs[rank];
    uint64_t before = check->findings.count;
    uint32_t forward = program->phase_end[PHASE_FORWARD], all = program->phase_end[PHASE_BACKWARD];
    if (program->rank != rank || forward > all || all != program->n_ops) {
        findings_add(&check->findings,
                     "rank %" PRIu32 ": its program is another rank's, or its phases are not its operations", rank);
        return;
    }
    if (!check_buffers(check, program))
        return;
    for (uint32_t i = 0; i < program->n_ops; i++)
        check_op(&(struct subject){check, program, i, &program->ops[i]});
    if (check->findings.count > before)
        return;
    groups_check(check, program);
}

bool form_check(struct check *check)
{
    for (uint32_t rank = 0; rank < check->ranks; rank++)
        check_program(check, rank);
    return check->findings.count == 0;
}
