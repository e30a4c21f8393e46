/* cost.c - seconds and FLOPs of a program's operations.
 *
 * Everything follows from an operation's kind, blocks and buffers. Attention goes to the fitted kernel (and its
 * implementation's copies, step_cost.c); the other local operations are steps (step_cost.c).
 */
#include "models/cost/cost_parts.h"

#include <math.h>

#include "models/schedule/accesses.h"
#include "models/schedule/mask.h"

void cost_init_transfers(struct cost *cost, const struct device *device, const struct topology *topology,
                         const struct schedule *schedule)
{
    *cost = (struct cost){.device = device, .topology = topology, .schedule = schedule};
}

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
    if (!*cost->topology->kernel && *experiment->implementation.kernel)
        return experiment_complain(experiment, "schedule", "implementation", diag,
                                   "%s, unless [cluster] kernel names one", why);
    return topology_complain(cost->topology, *cost->topology->kernel ? "kernel" : "device", diag, "%s", why);
}

bool cost_init_kept(struct cost *cost, const struct device *device, const struct topology *topology,
                    const struct schedule *schedule, struct kernel_memo *memo, struct diagnostics *diag)
{
    const struct experiment *experiment = schedule->experiment;
    *cost = (struct cost){.device = device, .topology = topology, .schedule = schedule, .memo = memo};
    const char *kernel = *topology->kernel ? topology->kernel : experiment->implementation.kernel;
    bool good = true;
    for (int pass = 0; pass < (experiment->train ? PASS_COUNT : PASS_BACKWARD); pass++) {
        struct kernel_fit *fit = &cost->fit[pass];
        struct diagnostics why;
        diagnostics_init(&why);
        if (!kernel_fit_init_kept(fit, device, kernel, (enum attention_pass)pass, experiment->dtype,
                                  experiment->model.head_dim, memo, &why))
            good = report_lack(cost, fit->lack, why.lines[0], diag);
        diagnostics_fini(&why);
        if (fit->lack == LACKS_KERNEL) /* then it is lacking in both passes */
            break;
    }
    if (experiment->step.scope != SCOPE_ATTENTION)
        good = cost_layers_check(cost, diag) && good;
    return good;
}

bool cost_init(struct cost *cost, const struct device *device, const struct topology *topology,
               const struct schedule *schedule, struct diagnostics *diag)
{
    return cost_init_kept(cost, device, topology, schedule, NULL, diag);
}

static enum attention_pass pass_of(const struct op *op)
{
    return op->kind == OP_ATTEND ? PASS_FORWARD : PASS_BACKWARD;
}

/* --- attention ------------------------------------------------------------------------------------------------------
 */

/* Slanting edges of what a block sees: a window's lower one too, where it cuts the block. */
static int edges(const struct schedule *schedule, const struct op *op)
{
    const struct mask *mask = &schedule->experiment->mask;
    if (mask->kind != MASK_WINDOW || op->pairs == 0)
        return 1;
    const struct mask causal = {.kind = MASK_CAUSAL, .seq_len = mask->seq_len};
    uint64_t below = mask_block_pairs(&causal, &schedule->sharding, op->q, op->k);
    bool upper = (double)below < op->q.count * cost_block_rows(&schedule->sharding, op->k), lower = op->pairs < below;
    return upper && lower ? 2 : 1;
}

static struct kernel_block block_of(const struct cost *cost, const struct op *op)
{
    return (struct kernel_block){.heads = cost_lanes(op->lanes),
                                 .query_rows = op->q.count,
                                 .key_rows = cost_key_rows(cost->schedule, op),
                                 .pairs = (double)op->pairs,
                                 .edges = edges(cost->schedule, op),
                                 .without = cost->without,
                                 .memo = cost->memo ? &cost->memo->tiles : NULL};
}

/* The rates that a kernel was fitted to are those of squares, which arithmetic limits. Few queries on many keys, or
 * rows that see little, are limited by the memory that Q, K, V and the results pass through. */
static double attention_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    const struct kernel_block block = block_of(cost, op);
    double share = block.key_rows > 0.0 ? block.key_rows / cost_block_rows(&cost->schedule->sharding, op->k) : 1.0;
    double passed = cost_moved_bytes(cost, program, op, share) / cost_memory_bytes_per_s(cost->device);
    return fmax(kernel_fit_block_seconds(&cost->fit[pass_of(op)], &block), cost_launch_seconds(cost) + passed);
}

double cost_sms_share(const struct cost *cost, const struct op *op, double sms)
{
    if (!op_is_attention(op) || sms <= 0.0 || !mechanism_counts(cost->without, MECHANISM_SMS))
        return 0.0;
    const struct kernel_fit *fit = &cost->fit[pass_of(op)];
    const struct kernel_block block = block_of(cost, op);
    double processors = cost->device->processors, left = fmax(1.0, processors - sms);
    bool equal = block.pairs <= 0.0 || block.pairs >= block.query_rows * block.key_rows;
    if (fit->table->persistent != PERSISTENT_NO || !equal)
        return 1.0 - left / processors;
    double rows = fit->table->pass == PASS_FORWARD ? block.query_rows : block.key_rows;
    double tiles = block.heads * ceil(rows / kernel_fit_tile_rows(fit)), slots = kernel_fit_slots(fit);
    return tiles > 0.0 ? 1.0 - ceil(tiles / slots) / ceil(tiles / (slots * left / processors)) : 0.0;
}

/* --- the ends of spreads --------------------------------------------------------------------------------------------
 */

double cost_end_factor(const struct cost *cost, uint32_t constant)
{
    if (cost->end == COST_MIDDLE || !(cost->moved >> constant & 1U))
        return 1.0;
    double spread = cost_spread(cost, constant);
    return cost->end == COST_FAST ? 1.0 / (1.0 + spread) : 1.0 + spread;
}

/* Sums and copies of a collective are the library's own, and part of what its collective takes. */
static bool is_in_library(const struct cost *cost, const struct op *op)
{
    return op->collective && cost->topology->levels[0].n_protocols &&
           mechanism_counts(cost->without, MECHANISM_COLLECTIVES);
}

/* The constant that an operation's rate is. */
static uint32_t constant_of(const struct op *op)
{
    if (!op_is_attention(op))
        return op->kind == OP_PRODUCT ? CONSTANT_PRODUCTS : CONSTANT_STEPS;
    return pass_of(op) == PASS_FORWARD ? CONSTANT_FORWARD : CONSTANT_BACKWARD;
}

uint32_t cost_constants(const struct cost *cost)
{
    return CONSTANT_LEVELS + cost->topology->n_levels * MESSAGE_CLASSES;
}

static double message_spread(const struct level *level, enum message_class class)
{
    if (class == MESSAGE_OF_SMALL_COLLECTIVE && level->small_collectives_spread > 0)
        return level->small_collectives_spread;
    return class != MESSAGE_LONE && level->collectives_spread > 0 ? level->collectives_spread : level->spread;
}

double cost_spread(const struct cost *cost, uint32_t constant)
{
    if (constant >= CONSTANT_LEVELS) {
        uint32_t of_level = constant - CONSTANT_LEVELS;
        return message_spread(&cost->topology->levels[of_level / MESSAGE_CLASSES],
                              (enum message_class)(of_level % MESSAGE_CLASSES));
    }
    if (constant == CONSTANT_STEPS)
        return cost->device->steps_spread;
    if (constant == CONSTANT_PRODUCTS)
        return cost_products_spread(cost);
    if (constant == CONSTANT_HOST)
        return cost_implementation(cost)->host_spread;
    const struct attention_table *table = cost->fit[constant == CONSTANT_FORWARD ? PASS_FORWARD : PASS_BACKWARD].table;
    return table ? table->spread : 0.0;
}

/* --- operations -----------------------------------------------------------------------------------------------------
 */

double cost_op_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    if (op_is_message(op) || is_in_library(cost, op))
        return 0.0;
    if (op_is_attention(op))
        return cost_end_factor(cost, constant_of(op)) * attention_seconds(cost, program, op) +
               cost_end_factor(cost, CONSTANT_STEPS) * cost_copies_seconds(cost, program, op);
    if (op_is_of_layer(op))
        return cost_end_factor(cost, constant_of(op)) * cost_layer_seconds(cost, program, op);
    return cost_end_factor(cost, CONSTANT_STEPS) * cost_step_seconds(cost, program, op);
}

double cost_op_moved_seconds(const struct cost *cost, const struct program *program, const struct op *op, double middle)
{
    if (op_is_attention(op) && cost_copies_kernels(cost, program, op) > 0.0)
        return cost_op_seconds(cost, program, op); /* of two constants */
    return cost_end_factor(cost, constant_of(op)) * middle;
}

double cost_op_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    if (op_is_message(op) || is_in_library(cost, op))
        return 0.0;
    if (op_is_of_layer(op))
        return cost_end_factor(cost, constant_of(op)) * cost_layer_fixed_seconds(cost, program, op);
    if (!op_is_attention(op))
        return cost_end_factor(cost, CONSTANT_STEPS) * cost_step_fixed_seconds(cost, program, op);
    const struct kernel_block block = block_of(cost, op);
    return cost_end_factor(cost, constant_of(op)) * kernel_fit_fixed_seconds(&cost->fit[pass_of(op)], &block);
}

double cost_message_factor(const struct cost *cost, const struct transfer_cost *transfer)
{
    return cost_end_factor(cost, CONSTANT_LEVELS + transfer->level * MESSAGE_CLASSES + (uint32_t)transfer->class);
}

bool cost_waits(const struct cost *cost)
{
    const struct implementation *implementation = cost_implementation(cost);
    bool by_copy_engines = implementation->fixed_sms && implementation->sms == 0;
    return implementation->waits && !by_copy_engines && mechanism_counts(cost->without, MECHANISM_WAITING);
}

/* What the last tile takes, as a share of a kernel's work. */
static double last_wave(const struct cost *cost, const struct op *op)
{
    const struct kernel_fit *fit = &cost->fit[pass_of(op)];
    const struct kernel_block block = block_of(cost, op);
    bool forward = fit->table->pass == PASS_FORWARD;
    double split = forward ? block.query_rows : block.key_rows, across = forward ? block.key_rows : block.query_rows;
    double tiles = block.heads * ceil(split / kernel_fit_tile_rows(fit));
    double at_once = kernel_fit_slots(fit);
    if (tiles <= at_once)
        return 1.0;
    double longest = block.pairs > 0.0 ? fmin(2.0, split * across / block.pairs) : 1.0;
    return fmin(1.0, longest / ceil(tiles / at_once));
}

double cost_fill_seconds(const struct cost *cost, const struct program *program, const struct op *op)
{
    if (!op_is_attention(op) || cost_copies_kernels(cost, program, op) > 0.0)
        return 0.0;
    double seconds = cost_op_seconds(cost, program, op);
    if (cost->fit[pass_of(op)].table->persistent == PERSISTENT_YES)
        return seconds;
    double last = last_wave(cost, op), work = seconds - cost_op_fixed_seconds(cost, program, op);
    return last < 1.0 ? seconds - last * work : 0.0;
}

uint32_t cost_message_sms(const struct cost *cost, const struct transfer_cost *transfer)
{
    const struct implementation *implementation = cost_implementation(cost);
    if (!mechanism_counts(cost->without, MECHANISM_SMS))
        return 0;
    return implementation->fixed_sms ? implementation->sms : transfer->channels;
}

double cost_op_flops(const struct cost *cost, const struct program *program, const struct op *op)
{
    if (op->kind == OP_PRODUCT) {
        const struct layer_work *work = program_work(program, op);
        return 2.0 * (double)work->rows * (double)work->columns * (double)work->depth;
    }
    if (!op_is_attention(op))
        return 0.0;
    double pairs = op->pairs ? (double)op->pairs : op->q.count * cost_block_rows(&cost->schedule->sharding, op->k);
    return pairs * cost_lanes(op->lanes) * (op->kind == OP_ATTEND ? 4.0 : 10.0) *
           cost->schedule->experiment->model.head_dim;
}
