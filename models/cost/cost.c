/* cost.c - seconds and FLOPs of a program's operations.
 *
 * Everything follows from an operation's kind, blocks and buffers. Attention goes to the fitted kernel; the other local
 * operations stream their buffers through memory once, in proportion to the rows they touch.
 */
#include "models/cost/cost.h"

#include <math.h>

#include "models/schedule/accesses.h"
#include "models/schedule/mask.h"

/* Passes on what the profile lacks, at the key that asks for it. */
static bool report_lack(const struct cost *cost, enum kernel_lack lack, const char *why, struct diagnostics *diag)
{
    const struct experiment *experiment = cost->schedule->experiment;
    if (lack == LACKS_DTYPE)
        return experiment_complain(experiment, "model", "dtype", diag, "%s", why);
    if (lack == LACKS_HEAD_DIM)
        return experiment_complain(experiment, "model",
                                   experiment_key_line(experiment, "model", "preset") ? "preset" : "head_dim", diag,
                                   "%s", why);
    return topology_complain(cost->topology, *cost->topology->kernel ? "kernel" : "device", diag, "%s", why);
}

bool cost_init(struct cost *cost, const struct device *device, const struct topology *topology,
               const struct schedule *schedule, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    *cost = (struct cost){.device = device, .topology = topology, .schedule = schedule};
    bool good = true;
    for (int pass = 0; pass < (experiment->train ? PASS_COUNT : PASS_BACKWARD); pass++) {
        struct kernel_fit *fit = &cost->fit[pass];
        struct diagnostics why;
        diagnostics_init(&why);
        if (!kernel_fit_init(fit, device, topology->kernel, (enum attention_pass)pass, experiment->dtype,
                             experiment->model.head_dim, &why))
            good = report_lack(cost, fit->lack, why.lines[0], diag);
        diagnostics_fini(&why);
        if (fit->lack == LACKS_KERNEL) /* then it is lacking in both passes */
            break;
    }
    return good;
}

/* `block` cut to the rows that the shard of `owner` has. */
static struct block block_of_owner(const struct sharding *sharding, struct block block, uint32_t owner)
{
    uint64_t rows = sharding_rows(sharding, owner);
    uint64_t left = rows > block.first ? rows - block.first : 0;
    return (struct block){
        .owner = owner, .first = block.first, .count = left < block.count ? (uint32_t)left : block.count};
}

static double block_rows(const struct sharding *sharding, struct block block)
{
    if (block.owner != BLOCK_ALL)
        return block.count;
    double rows = 0.0;
    for (uint32_t owner = 0; owner < sharding->ranks; owner++)
        rows += block_of_owner(sharding, block, owner).count;
    return rows;
}

/* Key rows that a kernel goes through: of gathered keys, those that the queries see anything of. */
static double visible_key_rows(const struct schedule *schedule, const struct op *op)
{
    if (op->k.owner != BLOCK_ALL || op->pairs == 0)
        return block_rows(&schedule->sharding, op->k);
    double rows = 0.0;
    for (uint32_t owner = 0; owner < schedule->sharding.ranks; owner++) {
        struct block queries = op->q, keys = block_of_owner(&schedule->sharding, op->k, owner);
        if (keys.count && mask_trim(&schedule->experiment->mask, &schedule->sharding, &queries, &keys))
            rows += keys.count;
    }
    return rows;
}

static double lanes_count(struct lanes lanes)
{
    return (double)lanes.heads * lanes.items;
}

static enum attention_pass pass_of(const struct op *op)
{
    return op->kind == OP_ATTEND ? PASS_FORWARD : PASS_BACKWARD;
}

/* Bytes of the buffer that an access touches. Of a partial result, some operations look at the LSE alone. */
static double accessed_bytes(const struct cost *cost, const struct program *program, const struct op *op,
                             const struct access *access)
{
    const struct buffer *buffer = &program->buffers[access->buffer];
    enum tensor tensor = (enum tensor)buffer->tensor;
    if (tensor == TENSOR_PARTIAL && (op->kind == OP_SUM_LSE || op->kind == OP_TOP))
        return (double)schedule_tensor_bytes(cost->schedule, TENSOR_LSE, dtype_accumulator((enum dtype)buffer->dtype),
                                             access->block.count, access->lanes);
    double all = (double)schedule_tensor_elements(cost->schedule, tensor, buffer->rows, buffer->lanes);
    double some = (double)schedule_tensor_elements(cost->schedule, tensor, access->block.count, access->lanes);
    return some < all ? (double)buffer->bytes * (some / all) : (double)buffer->bytes;
}

/* Bytes that `op` reads and writes once; of key-side buffers only the share `keys`. */
static double moved_bytes(const struct cost *cost, const struct program *program, const struct op *op, double keys)
{
    struct access_walk walk;
    struct access access;
    double bytes = 0.0;
    accesses_begin(&walk, cost->schedule, program, op);
    while (accesses_next(&walk, &access)) {
        bool by_keys = tensor_goes_by_keys((enum tensor)program->buffers[access.buffer].tensor);
        bytes += (by_keys ? keys : 1.0) * accessed_bytes(cost, program, op, &access);
    }
    return bytes;
}

static double memory_bytes_per_s(const struct device *device)
{
    return device->memory_bytes_per_s * device->memory_efficiency;
}

static double step_bytes_per_s(const struct device *device, enum op_kind kind)
{
    static const enum device_step step_of[OP_KIND_COUNT] = {
        [OP_MERGE] = STEP_MERGE,           [OP_FINISH] = STEP_FINISH,   [OP_DELTA] = STEP_DELTA,
        [OP_ACCUMULATE] = STEP_ACCUMULATE, [OP_CAST] = STEP_CAST,       [OP_SPLIT_LANES] = STEP_CAST,
        [OP_JOIN_LANES] = STEP_CAST,       [OP_SPLIT_ROWS] = STEP_CAST, [OP_JOIN_ROWS] = STEP_CAST,
        [OP_SUM_LSE] = STEP_MERGE,         [OP_CORRECT] = STEP_MERGE,   [OP_TOP] = STEP_CAST,
        [OP_RAISE] = STEP_ACCUMULATE,      [OP_WEIGH] = STEP_MERGE,     [OP_NORMALIZE] = STEP_FINISH,
    };
    double rate = device->step_bytes_per_s[step_of[kind]];
    return rate > 0.0 ? rate : memory_bytes_per_s(device);
}

/* Slanting edges of what a block sees: a window's lower one too, where it cuts the block. */
static int edges(const struct schedule *schedule, const struct op *op)
{
    const struct mask *mask = &schedule->experiment->mask;
    if (mask->kind != MASK_WINDOW || op->pairs == 0)
        return 1;
    const struct mask causal = {.kind = MASK_CAUSAL, .seq_len = mask->seq_len};
    uint64_t below = mask_block_pairs(&causal, &schedule->sharding, op->q, op->k);
    bool upper = (double)below < op->q.count * block_rows(&schedule->sharding, op->k), lower = op->pairs < below;
    return upper && lower ? 2 : 1;
}

/* The rates that a kernel was fitted to are those of squares, which arithmetic limits. Few queries on many keys, or
 * rows that see little, are limited by the memory that Q, K, V and the results pass through. */
static double attention_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    double key_rows = visible_key_rows(cost->schedule, op);
    double share = key_rows > 0.0 ? key_rows / block_rows(&cost->schedule->sharding, op->k) : 1.0;
    double passed = moved_bytes(cost, program, op, share) / memory_bytes_per_s(cost->device);
    return fmax(kernel_fit_seconds_edged(&cost->fit[pass_of(op)], lanes_count(op->lanes), op->q.count, key_rows,
                                         (double)op->pairs, edges(cost->schedule, op)),
                cost->device->launch_seconds + passed);
}

/* What a time is to be multiplied with at the costs' end of a spread. */
static double end_factor(const struct cost *cost, double spread)
{
    if (cost->end == COST_MIDDLE)
        return 1.0;
    return cost->end == COST_FAST ? 1.0 / (1.0 + spread) : 1.0 + spread;
}

double cost_op_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    if (op_is_message(op))
        return 0.0;
    if (op_is_attention(op))
        return end_factor(cost, cost->fit[pass_of(op)].table->spread) * attention_seconds(cost, program, op);
    double bytes_per_s = step_bytes_per_s(cost->device, (enum op_kind)op->kind);
    return end_factor(cost, cost->device->steps_spread) *
           (cost->device->launch_seconds + moved_bytes(cost, program, op, 1.0) / bytes_per_s);
}

double cost_op_fixed_seconds(const struct cost *cost, const struct op *op)
{
    if (op_is_message(op))
        return 0.0;
    if (!op_is_attention(op))
        return end_factor(cost, cost->device->steps_spread) * cost->device->launch_seconds;
    const struct kernel_fit *fit = &cost->fit[pass_of(op)];
    return end_factor(cost, fit->table->spread) *
           kernel_fit_fixed_seconds(fit, lanes_count(op->lanes), op->q.count, visible_key_rows(cost->schedule, op),
                                    (double)op->pairs, edges(cost->schedule, op));
}

double cost_message_factor(const struct cost *cost, const struct route *route)
{
    return end_factor(cost, cost->topology->levels[route->level].spread);
}

bool cost_has_spread(const struct cost *cost)
{
    bool has = cost->device->steps_spread > 0.0;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        has = has || (cost->fit[pass].table && cost->fit[pass].table->spread > 0.0);
    for (uint32_t k = 0; k < cost->topology->n_levels; k++)
        has = has || cost->topology->levels[k].spread > 0.0;
    return has;
}

double cost_op_flops(const struct cost *cost, const struct op *op)
{
    if (!op_is_attention(op))
        return 0.0;
    double pairs = op->pairs ? (double)op->pairs : op->q.count * block_rows(&cost->schedule->sharding, op->k);
    return pairs * lanes_count(op->lanes) * (op->kind == OP_ATTEND ? 4.0 : 10.0) *
           cost->schedule->experiment->model.head_dim;
}
