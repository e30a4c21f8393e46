/* shape_facts.c - counts over a program's operations and buffers; its reach and its high-water mark. */
#include "models/result/shape_facts.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

/* Elements that a message carries: K and V parts share their buffer's type; partial results have two types, so theirs
 * are counted by rows; weights travel in the type of those that they become, also from the optimizer's, which are
 * wider. */
static uint64_t message_elements(const struct schedule *schedule, const struct program *program, const struct op *op)
{
    bool sent = op->kind == OP_SEND && op->traffic != TRAFFIC_WEIGHTS;
    uint32_t index = sent ? program_reads(program, op)[0] : program_writes(program, op)[0];
    const struct buffer *buffer = &program->buffers[index];
    if (buffer->tensor == TENSOR_PARTIAL)
        return schedule_tensor_elements(schedule, TENSOR_PARTIAL, op->q.count, op->lanes);
    return op->bytes / dtype_bytes((enum dtype)buffer->dtype);
}

static void count_messages(struct rank_report *rank, const struct schedule *schedule, const struct program *program)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (!op_is_message(op))
            continue;
        uint64_t elements = message_elements(schedule, program, op);
        if (op->kind == OP_SEND) {
            rank->bytes_sent += op->bytes;
            rank->messages_sent++;
            rank->sent_bytes_by_kind[op->traffic] += op->bytes;
            rank->sent_elements_by_kind[op->traffic] += elements;
        } else {
            rank->bytes_received += op->bytes;
            rank->messages_received++;
            rank->received_bytes_by_kind[op->traffic] += op->bytes;
            rank->received_elements_by_kind[op->traffic] += elements;
        }
    }
}

/* Adds `pairs` of some of the lanes as pairs of one lane, exactly: whole ones, and a rest in units of 1 / lanes. */
static void add_pairs(struct rank_report *rank, const struct schedule *schedule, const struct op *op)
{
    uint64_t all = (uint64_t)schedule->lanes.heads * schedule->lanes.items;
    uint64_t some = (uint64_t)op->lanes.heads * op->lanes.items;
    uint64_t rest = op->pairs % all * some + rank->visible_pairs_rest;
    rank->visible_pairs += op->pairs / all * some + rest / all;
    rank->visible_pairs_rest = rest % all;
}

static void count_work(struct rank_report *rank, const struct schedule *schedule, const struct program *program)
{
    const struct cost cost = {.schedule = schedule}; /* FLOPs depend on nothing else */
    uint32_t layer = 0;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op_is_message(op))
            continue;
        if (op_is_of_layer(op))
            layer = program_work(program, op)->layer;
        rank->flops += cost_op_flops(&cost, program, op);
        /* All layers see the same, so the first one's pairs say it. */
        if (op->kind == OP_ATTEND && i < program->phase_end[PHASE_FORWARD] && layer == 0)
            add_pairs(rank, schedule, op);
    }
}

/* The sizes that the accounting table names. Of received blocks and states there may be several: the largest. */
static void count_buffers(struct rank_report *rank, const struct schedule *schedule, const struct program *program)
{
    for (uint32_t b = 0; b < program->n_buffers; b++) {
        const struct buffer *buffer = &program->buffers[b];
        enum tensor tensor = (enum tensor)buffer->tensor;
        bool resident = buffer->role == ROLE_RESIDENT;
        if (resident && (tensor == TENSOR_Q || tensor == TENSOR_KV || tensor == TENSOR_O || tensor == TENSOR_LSE))
            rank->resident_bytes += buffer->bytes;
        uint64_t elements = schedule_tensor_elements(schedule, tensor, buffer->rows, buffer->lanes);
        if (resident && tensor == TENSOR_Q) {
            rank->q_elements += elements;
            rank->q_bytes += buffer->bytes;
        } else if (resident && tensor == TENSOR_KV) {
            rank->kv_elements += elements;
            rank->kv_bytes += buffer->bytes;
        } else if (buffer->role == ROLE_RECEIVED && buffer->bytes > rank->block_bytes) {
            rank->block_elements = elements;
            rank->block_bytes = buffer->bytes;
        } else if (tensor == TENSOR_STATE && buffer->bytes > rank->state_bytes) {
            rank->state_elements = elements;
            rank->state_bytes = buffer->bytes;
        }
    }
}

const struct shape_facts *shape_facts_of(struct shape_facts *facts, const struct shape *shape,
                                         const struct schedule *schedule)
{
    if (facts->known)
        return facts;
    facts->known = true;
    count_messages(&facts->counts, schedule, shape->program);
    count_work(&facts->counts, schedule, shape->program);
    count_buffers(&facts->counts, schedule, shape->program);
    rank_ops_init(&facts->ops, &shape->order);
    high_water_init(&facts->water, &shape->order);
    facts->counts.peak_bytes = facts->water.bytes;
    memcpy(facts->counts.peak_by_role, facts->water.by_role, sizeof facts->counts.peak_by_role);
    facts->counts.peak_moment = high_water_moment(&facts->water, shape->program);
    return facts;
}

struct shape_facts *shape_facts_create(uint32_t n_shapes)
{
    return memory_zeroed(n_shapes, sizeof(struct shape_facts));
}

void shape_facts_destroy(struct shape_facts *facts, uint32_t n_shapes)
{
    for (uint32_t s = 0; facts && s < n_shapes; s++) {
        if (!facts[s].known)
            continue;
        rank_ops_fini(&facts[s].ops);
        high_water_fini(&facts[s].water);
    }
    free(facts);
}
