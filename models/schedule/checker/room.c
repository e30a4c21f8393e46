/* room.c - whether buffers have the rows and lanes that operations work on. */
#include <inttypes.h>

#include "models/schedule/accesses.h"
#include "models/schedule/checker/form.h"

static bool is_target(const struct subject *s, const struct access *access)
{
    const struct op *op = s->op;
    const uint32_t *others = access->write ? program_reads(s->program, op) : program_writes(s->program, op);
    uint32_t count = access->write ? op->n_reads : op->n_writes;
    for (uint32_t i = 0; i < count; i++)
        if (others[i] == access->buffer)
            return true;
    return false;
}

/* Whether `lanes` have all lanes of the buffer that are of the KV heads they touch. */
static bool covers_kv_heads(const struct schedule *schedule, struct lanes lanes, struct lanes buffer)
{
    uint32_t group = schedule->q_heads / schedule->kv_heads, end = lanes.head + lanes.heads;
    uint32_t first = lanes.head / group * group, last = (end + group - 1) / group * group;
    uint32_t buffer_end = buffer.head + buffer.heads;
    return (first > buffer.head ? first : buffer.head) >= lanes.head && (last < buffer_end ? last : buffer_end) <= end;
}

/* One KV head serves several lanes: what is written for some of them replaces what the others have, and a gradient that
 * is read for some of them has the others in it. Only what is added to may be touched in part. */
static bool check_kv_heads(const struct subject *s, const struct access *access)
{
    const struct buffer *buffer = &s->program->buffers[access->buffer];
    if (!tensor_goes_by_keys((enum tensor)buffer->tensor) || (buffer->tensor == TENSOR_KV && !access->write) ||
        is_target(s, access) || covers_kv_heads(s->check->schedule, access->lanes, buffer->lanes))
        return true;
    char lanes[96];
    findings_describe_lanes(access->lanes, lanes, sizeof lanes);
    findings_add_op(&s->check->findings, s->program, s->index, "%s %s in '%s', but not all that share a KV head there",
                    access->write ? "overwrites" : "reads", lanes, buffer->name);
    return false;
}

/* Slices of lanes lie within the operation's (operands.c); all other buffers have all of these. */
static bool check_lanes(const struct subject *s, const struct access *access)
{
    const struct buffer *buffer = &s->program->buffers[access->buffer];
    bool slice = s->op->kind == (access->write ? OP_SPLIT_LANES : OP_JOIN_LANES);
    if (slice || lanes_within(s->op->lanes, buffer->lanes))
        return check_kv_heads(s, access);
    char wanted[96], held[96];
    findings_describe_lanes(s->op->lanes, wanted, sizeof wanted);
    findings_describe_lanes(buffer->lanes, held, sizeof held);
    findings_add_op(&s->check->findings, s->program, s->index, "works on %s, but '%s' is of %s", wanted, buffer->name,
                    held);
    return false;
}

/* A resident buffer holds its own rank's rows only, each in its place. */
static bool check_rows(const struct subject *s, const struct access *access)
{
    const struct buffer *buffer = &s->program->buffers[access->buffer];
    struct block block = access->block;
    uint64_t needed = block.count;
    if (block.count && buffer->role == ROLE_RESIDENT) {
        struct block own = check_resident_rows(s->check, s->program->rank, (enum tensor)buffer->tensor);
        if (block.owner != own.owner) {
            char owner[32];
            findings_describe_owner(block.owner, owner, sizeof owner);
            findings_add_op(&s->check->findings, s->program, s->index,
                            "uses '%s' for rows of %s, but it is resident: for its own rank's", buffer->name, owner);
            return false;
        }
        if (block.first < buffer->first) {
            findings_add_op(&s->check->findings, s->program, s->index,
                            "needs row %" PRIu32 " in '%s', which begins with row %" PRIu32, block.first, buffer->name,
                            buffer->first);
            return false;
        }
        needed += block.first - buffer->first;
    }
    if (needed <= buffer->rows)
        return true;
    findings_add_op(&s->check->findings, s->program, s->index, "needs %" PRIu64 " rows in '%s', which has %" PRIu64,
                    needed, buffer->name, buffer->rows);
    return false;
}

bool room_check(const struct subject *s)
{
    struct access_walk walk;
    struct access access;
    accesses_begin(&walk, s->check->schedule, s->program, s->op);
    while (accesses_next(&walk, &access))
        if (!check_rows(s, &access) || !check_lanes(s, &access))
            return false;
    return true;
}
