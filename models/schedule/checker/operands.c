/* operands.c - which tensors an operation reads and writes: a table, the one in program.h. */
#include <inttypes.h>

#include "models/schedule/accesses.h"
#include "models/schedule/checker/form.h"

#define BIT(tensor) (1u << (tensor))

/* Sets of tensors, each once (keys of all ranks: one buffer per owner). A tensor that may be read as well as written is
 * added to: the same buffer. Copies and sums work on one tensor, any of `reads`. */
static const struct operands {
    unsigned reads, may_read, writes, or_writes;
} operands[OP_KIND_COUNT] = {
    [OP_ATTEND] = {BIT(TENSOR_Q) | BIT(TENSOR_KV), 0, BIT(TENSOR_PARTIAL), BIT(TENSOR_O) | BIT(TENSOR_LSE)},
    [OP_MERGE] = {BIT(TENSOR_PARTIAL), BIT(TENSOR_STATE), BIT(TENSOR_STATE), 0},
    [OP_FINISH] = {BIT(TENSOR_STATE), 0, BIT(TENSOR_O) | BIT(TENSOR_LSE), 0},
    [OP_DELTA] = {BIT(TENSOR_O) | BIT(TENSOR_DO), 0, BIT(TENSOR_DELTA), 0},
    [OP_ATTEND_BACKWARD] = {BIT(TENSOR_Q) | BIT(TENSOR_KV) | BIT(TENSOR_DO) | BIT(TENSOR_LSE) | BIT(TENSOR_DELTA), 0,
                            BIT(TENSOR_DQ) | BIT(TENSOR_DKV), 0},
    [OP_SUM_LSE] = {BIT(TENSOR_PARTIAL), BIT(TENSOR_LSE), BIT(TENSOR_LSE), 0},
    [OP_CORRECT] = {BIT(TENSOR_PARTIAL) | BIT(TENSOR_LSE), BIT(TENSOR_O), BIT(TENSOR_O), 0},
    [OP_TOP] = {BIT(TENSOR_PARTIAL), 0, BIT(TENSOR_TOP), 0},
    [OP_WEIGH] = {BIT(TENSOR_PARTIAL) | BIT(TENSOR_TOP), 0, BIT(TENSOR_NUMERATOR) | BIT(TENSOR_DENOMINATOR), 0},
    [OP_NORMALIZE] = {BIT(TENSOR_NUMERATOR) | BIT(TENSOR_DENOMINATOR) | BIT(TENSOR_TOP), 0,
                      BIT(TENSOR_O) | BIT(TENSOR_LSE), 0},
    [OP_ACCUMULATE] = {.reads = BIT(TENSOR_DQ) | BIT(TENSOR_DKV) | BIT(TENSOR_NUMERATOR) | BIT(TENSOR_DENOMINATOR)},
    [OP_RAISE] = {.reads = BIT(TENSOR_TOP)},
    [OP_CAST] = {.reads = BIT(TENSOR_COUNT) - 1},
};

/* The tensors among `buffers` as a set; true when each is there once, or once per owner. */
static bool tensor_set(const struct subject *s, bool write, unsigned *set)
{
    const uint32_t *buffers = write ? program_writes(s->program, s->op) : program_reads(s->program, s->op);
    uint32_t count = write ? s->op->n_writes : s->op->n_reads, counts[TENSOR_COUNT] = {0};
    for (uint32_t i = 0; i < count; i++)
        counts[tensor_of(s->program, buffers[i])]++;
    *set = 0;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        if (!counts[t])
            continue;
        *set |= BIT(t);
        if (counts[t] != access_count(s->check->schedule, s->op, write, (enum tensor)t))
            return false;
    }
    return true;
}

/* What is both read and written is added to, in place. */
static bool check_targets(const struct subject *s)
{
    const uint32_t *reads = program_reads(s->program, s->op), *writes = program_writes(s->program, s->op);
    unsigned added = operands[s->op->kind].may_read;
    for (uint32_t i = 0; i < s->op->n_reads; i++)
        for (uint32_t j = 0; j < s->op->n_writes; j++) {
            enum tensor tensor = tensor_of(s->program, reads[i]);
            if ((added & BIT(tensor)) && tensor == tensor_of(s->program, writes[j]) && reads[i] != writes[j]) {
                char text[64];
                snprintf(text, sizeof text, "it reads one %s and writes another", tensor_name(tensor));
                return form_complain(s, text);
            }
        }
    return true;
}

static bool check_kernel(const struct subject *s)
{
    const struct operands *expected = &operands[s->op->kind];
    unsigned reads, writes;
    if (!tensor_set(s, false, &reads) || !tensor_set(s, true, &writes))
        return form_complain(s, "it has not one buffer of each tensor (of keys of all ranks, one per owner)");
    if ((reads & expected->reads) != expected->reads || (reads & ~(expected->reads | expected->may_read)))
        return form_complain(s, "its kind does not read these tensors");
    if (writes != expected->writes && (writes != expected->or_writes || !writes))
        return form_complain(s, "its kind does not write these tensors");
    return !expected->may_read || check_targets(s);
}

/* A source, for sums perhaps the target, and the target. */
static bool check_copy(const struct subject *s)
{
    const uint32_t *reads = program_reads(s->program, s->op), *writes = program_writes(s->program, s->op);
    uint32_t most = s->op->kind == OP_CAST ? 1 : 2;
    if (s->op->n_writes != 1 || s->op->n_reads < 1 || s->op->n_reads > most)
        return form_complain(s, "it needs one source and one target");
    uint32_t sources = 0;
    for (uint32_t i = 0; i < s->op->n_reads; i++) {
        sources += reads[i] != writes[0];
        if (tensor_of(s->program, reads[i]) != tensor_of(s->program, writes[0]))
            return form_complain(s, "its source and its target are different tensors");
    }
    if (sources != 1)
        return form_complain(s, "it needs one source and one target");
    if (!(BIT(tensor_of(s->program, writes[0])) & operands[s->op->kind].reads))
        return form_complain(s, "its kind is not for this tensor");
    return true;
}

/* ---- layout copies ---- */

/* One whole, and parts of it; all of one tensor and type, the targets none of the sources. */
static bool check_whole_and_parts(const struct subject *s)
{
    const struct op *op = s->op;
    const uint32_t *accesses = program_reads(s->program, op);
    bool splits = op->kind == OP_SPLIT_LANES || op->kind == OP_SPLIT_ROWS;
    if ((splits ? op->n_reads : op->n_writes) != 1)
        return form_complain(s, splits ? "it splits more or less than one buffer"
                                       : "it joins into more or less than "
                                         "one buffer");
    const struct buffer *first = &s->program->buffers[accesses[0]];
    for (uint32_t i = 1; i < (uint32_t)op->n_reads + op->n_writes; i++) {
        const struct buffer *buffer = &s->program->buffers[accesses[i]];
        if (buffer->tensor != first->tensor || buffer->dtype != first->dtype)
            return form_complain(s, "its buffers are of different tensors or types");
    }
    for (uint32_t i = 0; i < op->n_reads; i++)
        for (uint32_t j = 0; j < op->n_writes; j++)
            if (program_reads(s->program, op)[i] == program_writes(s->program, op)[j])
                return form_complain(s, "it reads and writes the same buffer");
    return true;
}

static bool check_split_rows(const struct subject *s)
{
    bool splits = s->op->kind == OP_SPLIT_ROWS;
    enum tensor tensor = tensor_of(s->program, splits || s->op->n_reads ? *program_reads(s->program, s->op)
                                                                        : *program_writes(s->program, s->op));
    struct block block = op_block_for(s->op, tensor);
    if (block.count == 0 || !block_is_joined(block.owner))
        return form_complain(s, "its rows are not of a group");
    uint32_t parts = splits ? s->op->n_writes : s->op->n_reads;
    if (parts != access_count(s->check->schedule, s->op, splits, tensor))
        return form_complain(s, "it has not one buffer for each rank of the group that has such rows");
    return true;
}

static uint64_t lanes_area(struct lanes lanes)
{
    return (uint64_t)lanes.heads * lanes.items;
}

/* Slices lie within the operation's lanes and apart from each other; joined, they make up all of them. Of K and V that
 * are joined, and of gradients that are split, no two slices are of one KV head: which would count? */
static bool check_slices(const struct subject *s)
{
    const struct schedule *schedule = s->check->schedule;
    const struct op *op = s->op;
    bool splits = op->kind == OP_SPLIT_LANES;
    const uint32_t *slices = splits ? program_writes(s->program, op) : program_reads(s->program, op);
    uint32_t count = splits ? op->n_writes : op->n_reads;
    if (count == 0)
        return form_complain(s, "it has no slices");
    bool shared = tensor_of(s->program, slices[0]) == (splits ? TENSOR_DKV : TENSOR_KV);
    uint64_t area = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct lanes a = s->program->buffers[slices[i]].lanes;
        area += lanes_area(a);
        if (!lanes_within(a, op->lanes)) {
            findings_add_op(&s->check->findings, s->program, s->index, "has a slice '%s' beyond its own lanes",
                            s->program->buffers[slices[i]].name);
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            struct lanes b = s->program->buffers[slices[j]].lanes;
            struct lanes common = shared ? lanes_common(schedule_kv_lanes(schedule, a), schedule_kv_lanes(schedule, b))
                                         : lanes_common(a, b);
            if (lanes_area(common)) {
                findings_add_op(&s->check->findings, s->program, s->index, "has two slices, '%s' and '%s', of one %s",
                                s->program->buffers[slices[j]].name, s->program->buffers[slices[i]].name,
                                shared ? "KV head" : "head");
                return false;
            }
        }
    }
    if (!splits && area != lanes_area(op->lanes)) {
        findings_add_op(&s->check->findings, s->program, s->index,
                        "joins slices of %" PRIu64 " lanes, expected all %" PRIu64, area, lanes_area(op->lanes));
        return false;
    }
    return true;
}

bool operands_check(const struct subject *s)
{
    switch ((enum op_kind)s->op->kind) {
    case OP_SEND:
        return (s->op->n_reads == 1 && s->op->n_writes == 0) ||
               form_complain(s, "a send reads one buffer and writes none");
    case OP_RECEIVE:
        return (s->op->n_reads == 0 && s->op->n_writes == 1) ||
               form_complain(s, "a receive writes one buffer and reads none");
    case OP_ACCUMULATE:
    case OP_RAISE:
    case OP_CAST:
        return check_copy(s);
    case OP_SPLIT_LANES:
    case OP_JOIN_LANES:
        return check_whole_and_parts(s) && check_slices(s);
    case OP_SPLIT_ROWS:
    case OP_JOIN_ROWS:
        return check_whole_and_parts(s) && check_split_rows(s);
    default:
        return check_kernel(s);
    }
}
