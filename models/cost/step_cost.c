/* step_cost.c - seconds of the steps around attention, and of the copies that an implementation makes around the
 * attention kernel itself; what the host takes to issue them.
 *
 * As cpsim does it, a step is one kernel that streams each of its operands once. An implementation may do it in its own
 * way (models/implementations): so many kernels, so many bytes an element and a row.
 */
#include "models/cost/cost_parts.h"

#include "models/schedule/accesses.h"

static double rate_of(const struct device *device, enum op_kind kind)
{
    static const enum device_step steps[OP_KIND_COUNT] = {
        [OP_MERGE] = STEP_MERGE,           [OP_FINISH] = STEP_FINISH,   [OP_DELTA] = STEP_DELTA,
        [OP_ACCUMULATE] = STEP_ACCUMULATE, [OP_CAST] = STEP_CAST,       [OP_SPLIT_LANES] = STEP_CAST,
        [OP_JOIN_LANES] = STEP_CAST,       [OP_SPLIT_ROWS] = STEP_CAST, [OP_JOIN_ROWS] = STEP_CAST,
        [OP_SUM_LSE] = STEP_MERGE,         [OP_CORRECT] = STEP_MERGE,   [OP_TOP] = STEP_CAST,
        [OP_RAISE] = STEP_ACCUMULATE,      [OP_WEIGH] = STEP_MERGE,     [OP_NORMALIZE] = STEP_FINISH,
    };
    double rate = device->step_bytes_per_s[steps[kind]];
    return rate > 0.0 ? rate : cost_memory_bytes_per_s(device);
}

double cost_launch_seconds(const struct cost *cost)
{
    return mechanism_counts(cost->without, MECHANISM_LAUNCH) ? cost->device->launch_seconds : 0.0;
}

const struct implementation *cost_implementation(const struct cost *cost)
{
    return &cost->schedule->experiment->implementation;
}

/* Of the rows that a buffer holds an operation may touch some. */
static bool touches_part(const struct program *program, const struct op *op)
{
    return op->n_writes > 0 && op->q.count < program->buffers[program_writes(program, op)[0]].rows;
}

static enum implementation_step accumulation(const struct program *program, const struct op *op)
{
    bool first = op->n_reads == 1;
    switch (op->n_writes ? (enum tensor)program->buffers[program_writes(program, op)[0]].tensor : TENSOR_COUNT) {
    case TENSOR_DQ:
        return first ? IMPLEMENTATION_ADD_DQ_FIRST : IMPLEMENTATION_ADD_DQ;
    case TENSOR_DKV:
        return first ? IMPLEMENTATION_ADD_DKV_FIRST : IMPLEMENTATION_ADD_DKV;
    default:
        return IMPLEMENTATION_STEPS;
    }
}

static enum implementation_step step_of(const struct program *program, const struct op *op)
{
    switch ((enum op_kind)op->kind) {
    case OP_MERGE:
        return op->n_reads == 1            ? IMPLEMENTATION_MERGE_FIRST
               : touches_part(program, op) ? IMPLEMENTATION_MERGE_PART
                                           : IMPLEMENTATION_MERGE;
    case OP_FINISH:
        return IMPLEMENTATION_FINISH;
    case OP_SUM_LSE:
        return IMPLEMENTATION_SUM_LSE;
    case OP_CORRECT:
        return IMPLEMENTATION_CORRECT;
    case OP_DELTA:
        return IMPLEMENTATION_DELTA;
    case OP_ACCUMULATE:
        return accumulation(program, op);
    case OP_CAST:
        return IMPLEMENTATION_CAST;
    default:
        return op_is_layout(op) ? IMPLEMENTATION_LAYOUT : IMPLEMENTATION_STEPS;
    }
}

/* The passes of one step of the implementation; NULL: as cpsim does it. */
static const struct passes *passes_of(const struct cost *cost, enum implementation_step step)
{
    if (step == IMPLEMENTATION_STEPS || !mechanism_counts(cost->without, MECHANISM_IMPLEMENTATION))
        return NULL;
    const struct passes *passes = &cost_implementation(cost)->steps[step];
    return passes->given ? passes : NULL;
}

/* Elements of the tensor that a step's passes are counted in. */
static double pass_elements(const struct cost *cost, const struct program *program, const struct op *op)
{
    if (op->kind != OP_ACCUMULATE && op->kind != OP_CAST && !op_is_layout(op))
        return (double)schedule_tensor_elements(cost->schedule, TENSOR_O, op->q.count, op->lanes);
    struct access_walk walk;
    struct access access;
    double elements = 0.0;
    accesses_begin(&walk, cost->schedule, program, op);
    while (accesses_next(&walk, &access)) {
        bool counts = op_is_layout(op) ? !access.write : access.write; /* all that is copied; the sum, or the copy */
        if (counts)
            elements += (double)schedule_tensor_elements(
                cost->schedule, (enum tensor)program->buffers[access.buffer].tensor, access.block.count, access.lanes);
    }
    return elements;
}

static double pass_seconds(const struct cost *cost, const struct passes *passes, double elements, double rows,
                           double bytes_per_s)
{
    double seconds = passes->kernels * cost_launch_seconds(cost);
    if (mechanism_counts(cost->without, MECHANISM_STEPS))
        seconds += (passes->bytes_per_element * elements + passes->bytes_per_row * rows) / bytes_per_s;
    return seconds;
}

/* A step around attention. */
double cost_step_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    double bytes_per_s = rate_of(cost->device, (enum op_kind)op->kind);
    const struct passes *passes = passes_of(cost, step_of(program, op));
    if (passes)
        return pass_seconds(cost, passes, pass_elements(cost, program, op), op->q.count * cost_lanes(op->lanes),
                            bytes_per_s);
    double bytes = mechanism_counts(cost->without, MECHANISM_STEPS) ? cost_moved_bytes(cost, program, op, 1.0) : 0.0;
    return cost_launch_seconds(cost) + bytes / bytes_per_s;
}

static double step_kernels(const struct cost *cost, const struct program *program, const struct op *op)
{
    const struct passes *passes = passes_of(cost, step_of(program, op));
    return passes ? passes->kernels : 1.0;
}

double cost_step_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    return step_kernels(cost, program, op) * cost_launch_seconds(cost);
}

/* The implementation's copies around an attention kernel: of what goes by queries and of what goes by keys, and what
 * more there is to copy of either when the kernel works on a part of what its buffer holds. NULL: none. */
struct copies {
    const struct passes *queries[2], *keys[2];
};

/* That of an attention operation's read `read`, of which it works on `block`. */
static const struct passes *part_of(const struct cost *cost, const struct program *program, const struct op *op,
                                    uint32_t read, struct block block, enum implementation_step step)
{
    if (op->n_reads <= read)
        return NULL;
    const struct buffer *held = &program->buffers[program_reads(program, op)[read]];
    return block.count < held->rows ? passes_of(cost, step) : NULL;
}

static struct copies copies_of(const struct cost *cost, const struct program *program, const struct op *op)
{
    bool forward = op->kind == OP_ATTEND;
    enum implementation_step queries = forward ? IMPLEMENTATION_ATTEND : IMPLEMENTATION_ATTEND_BACKWARD,
                             keys = forward ? IMPLEMENTATION_ATTEND_KEYS : IMPLEMENTATION_ATTEND_BACKWARD_KEYS,
                             queries_part = forward ? IMPLEMENTATION_ATTEND_PART : IMPLEMENTATION_ATTEND_BACKWARD_PART,
                             keys_part =
                                 forward ? IMPLEMENTATION_ATTEND_KEYS_PART : IMPLEMENTATION_ATTEND_BACKWARD_KEYS_PART;
    return (struct copies){
        .queries = {passes_of(cost, queries), part_of(cost, program, op, 0, op->q, queries_part)},
        .keys = {passes_of(cost, keys), part_of(cost, program, op, 1, op->k, keys_part)},
    };
}

double cost_copies_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    struct copies copies = copies_of(cost, program, op);
    double head_dim = cost->schedule->experiment->model.head_dim, bytes_per_s = rate_of(cost->device, OP_CAST);
    double queries = op->q.count * cost_lanes(op->lanes);
    double keys = cost_key_rows(cost->schedule, op) * cost_lanes(schedule_kv_lanes(cost->schedule, op->lanes));
    double seconds = 0.0;
    for (int i = 0; i < 2; i++) {
        if (copies.queries[i])
            seconds += pass_seconds(cost, copies.queries[i], queries * head_dim, queries, bytes_per_s);
        if (copies.keys[i])
            seconds += pass_seconds(cost, copies.keys[i], 2.0 * keys * head_dim, keys, bytes_per_s);
    }
    return seconds;
}

double cost_copies_kernels(const struct cost *cost, const struct program *program, const struct op *op)
{
    struct copies copies = copies_of(cost, program, op);
    double kernels = 0.0;
    for (int i = 0; i < 2; i++)
        kernels +=
            (copies.queries[i] ? copies.queries[i]->kernels : 0.0) + (copies.keys[i] ? copies.keys[i]->kernels : 0.0);
    return kernels;
}

/* Of a collective the first operation is the one call that the library gets. */
static bool is_call(const struct program *program, const struct op *op)
{
    return !op->collective || op == &program->ops[program->collectives[op->collective - 1].first_op];
}

static double call_seconds(const struct implementation *implementation)
{
    return implementation->host_call_seconds > 0.0 ? implementation->host_call_seconds
                                                   : implementation->host_message_seconds;
}

/* How many calls it takes where rows are traded for heads, which a program does for Q and, together, for K and V. */
static double trades(const struct implementation *implementation, const struct program *program, const struct op *op)
{
    if (!op->collective && !op_is_layout(op))
        return 1.0;
    uint32_t buffer = op->n_reads > 0 ? program_reads(program, op)[0] : program_writes(program, op)[0];
    enum tensor tensor = (enum tensor)program->buffers[buffer].tensor;
    bool by_keys = tensor_goes_by_keys(tensor), packed = by_keys || tensor == TENSOR_Q || tensor == TENSOR_DQ;
    if (implementation->packs_qkv && packed)
        return 0.5;
    return by_keys && implementation->split_kv ? 2.0 : 1.0;
}

double cost_host_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    const struct implementation *implementation = cost_implementation(cost);
    if (!implementation_has_host(implementation) || !mechanism_counts(cost->without, MECHANISM_IMPLEMENTATION) ||
        !mechanism_counts(cost->without, MECHANISM_LAUNCH) || !is_call(program, op))
        return 0.0;
    double kernel = implementation->host_kernel_seconds, seconds;
    if (op->collective)
        seconds = call_seconds(implementation);
    else if (op_is_message(op))
        seconds = implementation->host_message_seconds;
    else if (op_is_attention(op))
        seconds = implementation->host_attention_seconds + cost_copies_kernels(cost, program, op) * kernel;
    else
        seconds = step_kernels(cost, program, op) * kernel;
    return cost_end_factor(cost, CONSTANT_HOST) * trades(implementation, program, op) * seconds;
}

bool cost_has_pair_communicators(const struct cost *cost)
{
    return cost_implementation(cost)->communicator == COMMUNICATOR_PAIR;
}

bool cost_synchronizes(const struct cost *cost)
{
    return cost_implementation(cost)->synchronizes;
}
