/* transfers.c - two passes over a program: first sums over what is posted together and over collectives, by level of
 * the cluster, then each message's own.
 */
#include "sim/transfers.h"

#include <stdlib.h>

#include "models/base/memory.h"

/* What one program sends over one level: in a group of messages, or in a collective. */
struct sent {
    uint64_t bytes;
    uint32_t rounds; /* collectives */
};

/* One program under way. */
struct walk {
    const struct simulation *simulation;
    const struct surroundings *surroundings;
    const struct program *program;
    const struct messages *messages;
    uint32_t n_levels;
    struct sent *posted;     /* [group of messages * n_levels + level] */
    struct sent *collective; /* [op.collective * n_levels + level] */
    uint32_t *first, *end;   /* [group of messages]: its operations are within these */
};

static uint32_t level_of(const struct walk *walk, uint32_t op)
{
    return surroundings_level(walk->surroundings, walk->messages->peer_of[op]);
}

static struct sent *of_group(const struct walk *walk, const struct op *op, uint32_t level)
{
    return &walk->posted[(size_t)op->group * walk->n_levels + level];
}

static struct sent *of_collective(const struct walk *walk, const struct op *op, uint32_t level)
{
    return &walk->collective[(size_t)op->collective * walk->n_levels + level];
}

static void sum_up(struct walk *walk)
{
    const struct program *program = walk->program;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind != OP_SEND)
            continue;
        uint32_t level = level_of(walk, i);
        bool begins = op->group == 0 || of_group(walk, op, level)->bytes == 0;
        if (op->group) {
            if (walk->end[op->group] == 0)
                walk->first[op->group] = i;
            walk->end[op->group] = i + 1;
            of_group(walk, op, level)->bytes += op->bytes;
        }
        if (op->collective) {
            of_collective(walk, op, level)->bytes += op->bytes;
            of_collective(walk, op, level)->rounds += begins;
        }
    }
}

static uint64_t bytes_to_peer(const struct walk *walk, const struct op *op)
{
    uint64_t bytes = 0;
    if (!op->group || op->collective)
        return op->bytes;
    for (uint32_t i = walk->first[op->group]; i < walk->end[op->group]; i++) {
        const struct op *other = &walk->program->ops[i];
        if (other->kind == OP_SEND && other->group == op->group && other->peer == op->peer)
            bytes += other->bytes;
    }
    return bytes;
}

static struct communicator_size communicator(const struct walk *walk, uint32_t i)
{
    const struct op *op = &walk->program->ops[i];
    if (op->collective)
        return surroundings_of_collective(walk->surroundings, op->collective - 1);
    if (cost_has_pair_communicators(walk->simulation->cost))
        return (struct communicator_size){2, level_of(walk, i)};
    return surroundings_of_stream(walk->surroundings, (enum stream)op->stream);
}

/* Whether `op` is posted together with a message to another peer. */
static bool is_of_fan(const struct walk *walk, const struct op *op)
{
    for (uint32_t i = walk->first[op->group]; op->group && i < walk->end[op->group]; i++) {
        const struct op *other = &walk->program->ops[i];
        if (other->kind == OP_SEND && other->group == op->group && other->peer != op->peer)
            return true;
    }
    return false;
}

/* The most that `op` reaches through the levels that its fan passes. */
static void limit_by_fan(const struct walk *walk, const struct op *op, uint32_t level, struct transfer *transfer)
{
    const struct topology *topology = walk->simulation->cost->topology;
    double beyond = 0;
    for (uint32_t k = walk->n_levels; k-- > 0;) {
        double here = (double)of_group(walk, op, k)->bytes, most = topology->levels[k].fan_bytes_per_s;
        if (most > 0 && k <= level && is_of_fan(walk, op)) {
            double rate =
                most * (double)op->bytes / ((double)surroundings_senders(walk->surroundings, k) * (here + 2 * beyond));
            if (transfer->fan_bytes_per_s <= 0 || rate < transfer->fan_bytes_per_s) {
                transfer->fan_bytes_per_s = rate;
                transfer->fan_level = k;
            }
        }
        beyond += here;
    }
}

/* How many steps of a ring a message of the collective stands for. */
static uint32_t steps_of(const struct collective *collective)
{
    uint32_t round = collective->n_members - 1;
    if (!collective->flowing || collective->call == CALL_ALL_TO_ALL)
        return 1;
    return collective->call == CALL_ALL_REDUCE ? 2 * round : round;
}

/* Rings beside each other leave an instance of a level at different members, but are one call of all bytes. */
static void count_all_levels(const struct walk *walk, const struct op *op, struct transfer *transfer)
{
    transfer->level_bytes = 0;
    for (uint32_t k = 0; k < walk->n_levels; k++) {
        const struct sent *sent = of_collective(walk, op, k);
        transfer->level_bytes += sent->bytes;
        transfer->rounds = sent->rounds > transfer->rounds ? sent->rounds : transfer->rounds;
    }
}

static struct transfer transfer_of(const struct walk *walk, uint32_t i)
{
    const struct op *op = &walk->program->ops[i];
    uint32_t level = level_of(walk, i);
    struct transfer transfer = {.bytes = op->bytes,
                                .communicator = communicator(walk, i),
                                .peer_bytes = bytes_to_peer(walk, op),
                                .posted_bytes = op->group ? of_group(walk, op, level)->bytes : op->bytes,
                                .call = CALL_COUNT};
    limit_by_fan(walk, op, level, &transfer);
    if (op->collective) {
        const struct sent *sent = of_collective(walk, op, level);
        const struct collective *collective = &walk->program->collectives[op->collective - 1];
        transfer.call = collective->call;
        transfer.level_bytes = sent->bytes;
        transfer.rounds = sent->rounds;
        transfer.members = surroundings_members(walk->surroundings, op->collective - 1, level);
        transfer.steps = steps_of(collective);
        transfer.span_members =
            surroundings_members(walk->surroundings, op->collective - 1, transfer.communicator.span);
        if (collective->flowing)
            count_all_levels(walk, op, &transfer);
    }
    return transfer;
}

void transfers_of(const struct simulation *simulation, const struct surroundings *surroundings,
                  struct transfer *results)
{
    const struct shape *shape = &simulation->ensemble->shapes[surroundings_shape(surroundings)];
    const struct program *program = shape->program;
    size_t n_groups = (size_t)program->n_groups + 1, n_collectives = (size_t)program->n_collectives + 1;
    struct walk walk = {.simulation = simulation,
                        .surroundings = surroundings,
                        .program = program,
                        .messages = &shape->messages,
                        .n_levels = surroundings->n_levels};
    walk.posted = memory_zeroed(n_groups * walk.n_levels, sizeof *walk.posted);
    walk.collective = memory_zeroed(n_collectives * walk.n_levels, sizeof *walk.collective);
    walk.first = memory_zeroed(n_groups, sizeof *walk.first);
    walk.end = memory_zeroed(n_groups, sizeof *walk.end);
    sum_up(&walk);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].kind == OP_SEND)
            results[i] = transfer_of(&walk, i);
    }
    free(walk.posted);
    free(walk.collective);
    free(walk.first);
    free(walk.end);
}
