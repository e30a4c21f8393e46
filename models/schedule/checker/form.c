/* form.c - each program by itself, before anything is walked: its buffers, its operations one by one. */
#include "models/schedule/checker/form.h"

#include <inttypes.h>

bool form_complain(const struct subject *s, const char *text)
{
    findings_add(&s->check->findings, "rank %" PRIu32 ", operation %" PRIu32 ": %s", s->program->rank, s->index, text);
    return false;
}

/* ---- blocks and lanes ---- */

static bool check_accesses(const struct subject *s)
{
    const struct op *op = s->op;
    if ((uint64_t)op->access + op->n_reads + op->n_writes > s->program->n_accesses)
        return form_complain(s, "its accesses lie outside the program");
    const uint32_t *accesses = program_reads(s->program, op);
    for (uint32_t i = 0; i < (uint32_t)op->n_reads + op->n_writes; i++)
        if (accesses[i] >= s->program->n_buffers)
            return form_complain(s, "it names a buffer that does not exist");
    return true;
}

static bool check_block(const struct subject *s, struct block block, const char *what)
{
    if (block.count == 0)
        return true;
    if (block.owner == BLOCK_ALL && block.first < s->check->rows_max && block.count <= UINT32_MAX - block.first)
        return true; /* of each shard as many rows as it has */
    uint64_t rows = check_owner_exists(s->check, block.owner) ? check_rows_of(s->check, block.owner) : 0;
    if ((uint64_t)block.first + block.count <= rows)
        return true;
    char text[64];
    block_describe(block, text, sizeof text);
    findings_add(&s->check->findings,
                 "rank %" PRIu32 ", operation %" PRIu32 ": its %s are of %s, which has %" PRIu64 " rows",
                 s->program->rank, s->index, what, text, rows);
    return false;
}

/* The first rows of a shard may have keys only. */
static bool check_queries(const struct subject *s)
{
    struct block q = s->op->q;
    if (q.count == 0 || !s->check->schedule->sharding.cached)
        return true;
    struct block all = sharding_queries(&s->check->schedule->sharding, q.owner);
    if (q.first >= all.first)
        return true;
    char text[64];
    block_describe(q, text, sizeof text);
    findings_add(&s->check->findings,
                 "rank %" PRIu32 ", operation %" PRIu32 ": its queries are of %s, but queries begin with row %" PRIu32,
                 s->program->rank, s->index, text, all.first);
    return false;
}

static bool check_blocks(const struct subject *s)
{
    if (s->op->q.count && s->op->q.owner == BLOCK_ALL)
        return form_complain(s, "its queries are of all ranks, expected one rank's");
    if (s->op->k.count && s->op->k.owner == BLOCK_ALL && !op_is_attention(s->op))
        return form_complain(s, "its keys are of all ranks, expected one rank's");
    return check_block(s, s->op->q, "queries") && check_block(s, s->op->k, "keys") && check_queries(s);
}

/* Ends do not overflow: what lies within the schedule's lanes is small. */
static bool lanes_exist(const struct check *check, struct lanes lanes)
{
    struct lanes all = check->schedule->lanes;
    return lanes.heads <= all.heads && lanes.items <= all.items && lanes.head <= all.heads && lanes.item <= all.items &&
           lanes_within(lanes, all);
}

static bool check_lanes(const struct subject *s)
{
    struct lanes lanes = s->op->lanes;
    if (lanes.heads == 0 || lanes.items == 0)
        return form_complain(s, "it works on no lanes");
    return lanes_exist(s->check, lanes) || form_complain(s, "it works on lanes that do not exist");
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
        return form_complain(s, "its peer is its own rank, or no rank");
    if (tensor_goes_by_keys(tensor) ? op->part < PART_K || op->part > PART_ALL : op->part && op->part != PART_ALL)
        return form_complain(s, "its part is none of K, V and all");
    uint64_t bytes = schedule_tensor_bytes(check->schedule, tensor, (enum dtype)buffer->dtype,
                                           op_block_for(op, tensor).count, op->lanes);
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

/* The rank's own tensors are of the rows and lanes that the schedule deals out to it. */
static void check_resident_buffer(struct check *check, const struct program *program, const struct buffer *buffer)
{
    enum tensor tensor = (enum tensor)buffer->tensor;
    struct lanes own = check_resident_lanes(check, program->rank, tensor);
    struct block rows = check_resident_rows(check, program->rank, tensor);
    if (!lanes_equal(buffer->lanes, own)) {
        char held[96], expected[96];
        findings_describe_lanes(buffer->lanes, held, sizeof held);
        findings_describe_lanes(own, expected, sizeof expected);
        findings_add(&check->findings, "rank %" PRIu32 ": resident '%s' is of %s, expected %s", program->rank,
                     buffer->name, held, expected);
    }
    if (rows.count && buffer->first != rows.first)
        findings_add(&check->findings, "rank %" PRIu32 ": resident '%s' begins with row %" PRIu32 ", expected %" PRIu32,
                     program->rank, buffer->name, buffer->first, rows.first);
}

/* A rank that no queries were dealt out to has tensors of no lanes. */
static bool check_buffer_lanes(struct check *check, const struct program *program, const struct buffer *buffer)
{
    struct lanes own = schedule_query_lanes(check->schedule, program->rank);
    bool some = buffer->lanes.heads && buffer->lanes.items;
    if (some ? lanes_exist(check, buffer->lanes) : !own.items)
        return true;
    findings_add(&check->findings, "rank %" PRIu32 ": buffer '%s' is of no lanes, or of lanes that do not exist",
                 program->rank, buffer->name);
    return false;
}

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
        if (!check_buffer_lanes(check, program, buffer))
            continue;
        uint64_t bytes = schedule_tensor_bytes(check->schedule, (enum tensor)buffer->tensor, (enum dtype)buffer->dtype,
                                               buffer->rows, buffer->lanes);
        if (buffer->bytes != bytes)
            findings_add(&check->findings,
                         "rank %" PRIu32 ": buffer '%s' has %" PRIu64 " bytes, but %" PRIu64
                         " rows of %s in %s are %" PRIu64,
                         program->rank, buffer->name, buffer->bytes, buffer->rows,
                         tensor_name((enum tensor)buffer->tensor), dtype_name((enum dtype)buffer->dtype), bytes);
        if (buffer->role != ROLE_RESIDENT)
            continue;
        if (resident >> buffer->tensor & 1)
            findings_add(&check->findings, "rank %" PRIu32 ": '%s' is its second resident %s, expected one",
                         program->rank, buffer->name, tensor_name((enum tensor)buffer->tensor));
        resident |= 1u << buffer->tensor;
        check_resident_buffer(check, program, buffer);
    }
    return check->findings.count == before;
}

static bool check_op(const struct subject *s)
{
    const struct op *op = s->op;
    if (op->kind >= OP_KIND_COUNT || op->stream >= STREAM_COUNT || op->group > s->program->n_groups)
        return form_complain(s, "it is of no kind, stream or group");
    bool backward = program_phase(s->program, s->index) == PHASE_BACKWARD;
    if (backward && !s->check->schedule->experiment->train)
        return form_complain(s, "it is in the backward phase of a forward-only schedule");
    if ((op->kind == OP_ATTEND && backward) || (op->kind == OP_ATTEND_BACKWARD && !backward))
        return form_complain(s, "it attends in the wrong phase");
    return check_accesses(s) && check_blocks(s) && check_lanes(s) && operands_check(s) && room_check(s) &&
           (!op_is_message(op) || check_message(s));
}

static void check_program(struct check *check, uint32_t rank)
{
    const struct program *program = &check->programs[rank];
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
}

bool form_check(struct check *check)
{
    for (uint32_t rank = 0; rank < check->ranks; rank++)
        check_program(check, rank);
    return check->findings.count == 0;
}
