/* transfers.c - two passes over a program: first sums over what is posted together and over collectives, by level of
 * the cluster, then each message's own.
 */
#include "sim/transfers.h"

#include <stdlib.h>

#include "models/base/memory.h"

/* What one program sends over one level: in a group of messages, or in a collective. */
struct sent {
    uint64_t bytes;
    uint32_t rounds, members; /* collectives */
};

/* One program under way. */
struct walk {
    const struct transfers *transfers;
    const struct program *program;
    uint32_t group; /* of the layout */
    uint32_t n_levels;
    struct sent *posted;     /* [group of messages * n_levels + level] */
    struct sent *collective; /* [op.collective * n_levels + level] */
    uint32_t *first, *end;   /* [group of messages]: its operations are within these */
    /* Outermost levels of communicators, UINT32_MAX where not yet known: of collectives [op.collective], of others. */
    uint32_t *span, span_of_stream[STREAM_COUNT];
    uint64_t senders[LEVELS_MAX]; /* GPUs of the rank's instance of a level with a fan_bandwidth that are in use */
};

void transfers_init(struct transfers *transfers, const struct simulation *simulation)
{
    transfers->simulation = simulation;
    communicators_init(&transfers->communicators, simulation->programs, simulation->placement->cp);
}

void transfers_fini(struct transfers *transfers)
{
    communicators_fini(&transfers->communicators);
}

static uint64_t gpu_of(const struct walk *walk, uint32_t rank)
{
    return placement_gpu(walk->transfers->simulation->placement, walk->group, rank);
}

static uint32_t level_to(const struct walk *walk, uint32_t rank)
{
    return topology_level_between(walk->transfers->simulation->cost->topology, gpu_of(walk, walk->program->rank),
                                  gpu_of(walk, rank));
}

static struct sent *of_group(const struct walk *walk, const struct op *op, uint32_t level)
{
    return &walk->posted[(size_t)op->group * walk->n_levels + level];
}

static struct sent *of_collective(const struct walk *walk, const struct op *op, uint32_t level)
{
    return &walk->collective[(size_t)op->collective * walk->n_levels + level];
}

/* Levels nest, so the lowest GPU and the highest are as far apart as any two. */
static uint32_t span_of(const struct walk *walk, struct members members)
{
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (uint32_t i = 0; i < members.count; i++) {
        uint64_t gpu = gpu_of(walk, members.ranks[i]);
        lowest = gpu < lowest ? gpu : lowest;
        highest = gpu > highest ? gpu : highest;
    }
    return topology_level_between(walk->transfers->simulation->cost->topology, lowest, highest);
}

/* Members as a level sees them: groups of those that are nearer to each other. */
static void count_members(struct walk *walk, uint32_t index)
{
    const struct collective *collective = &walk->program->collectives[index];
    struct sent *sent = &walk->collective[(size_t)(index + 1) * walk->n_levels];
    uint32_t *within = memory_zeroed(walk->n_levels, sizeof *within);
    for (uint32_t i = 0; i < collective->n_members; i++)
        within[level_to(walk, walk->program->lists[collective->members + i])]++;
    for (uint32_t k = 0, nearer = 1; k < walk->n_levels; k++) {
        uint32_t together = within[k] + (k ? nearer : 0);
        sent[k].members = (together + nearer - 1) / nearer;
        nearer = together;
    }
    free(within);
}

static void sum_up(struct walk *walk)
{
    const struct program *program = walk->program;
    for (uint32_t i = 0; i < program->n_collectives; i++)
        count_members(walk, i);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind != OP_SEND)
            continue;
        uint32_t level = level_to(walk, op->peer);
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

static struct communicator_size communicator(struct walk *walk, const struct op *op)
{
    const struct cost *cost = walk->transfers->simulation->cost;
    if (!op->collective && cost_has_pair_communicators(cost))
        return (struct communicator_size){2, level_to(walk, op->peer)};
    struct members members = communicator_of(&walk->transfers->communicators, walk->program, op);
    uint32_t *span = op->collective ? &walk->span[op->collective] : &walk->span_of_stream[op->stream];
    if (*span == UINT32_MAX)
        *span = span_of(walk, members);
    return (struct communicator_size){members.count, *span};
}

/* --- fans --------------------------------------------------------------------------------------------------------- */

static void count_senders(struct walk *walk)
{
    const struct simulation *simulation = walk->transfers->simulation;
    const struct topology *topology = simulation->cost->topology;
    uint64_t own = gpu_of(walk, walk->program->rank);
    for (uint32_t k = 0; k < walk->n_levels; k++) {
        for (uint32_t i = 0; topology->levels[k].fan_bytes_per_s > 0 && i < simulation->placement->groups; i++)
            for (uint32_t r = 0; r < simulation->placement->cp; r++)
                walk->senders[k] +=
                    topology_level_between(topology, own, placement_gpu(simulation->placement, i, r)) <= k;
    }
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
    const struct topology *topology = walk->transfers->simulation->cost->topology;
    double beyond = 0;
    for (uint32_t k = walk->n_levels; k-- > 0;) {
        double here = (double)of_group(walk, op, k)->bytes, most = topology->levels[k].fan_bytes_per_s;
        if (most > 0 && k <= level && is_of_fan(walk, op)) {
            double rate = most * (double)op->bytes / ((double)walk->senders[k] * (here + 2 * beyond));
            if (transfer->fan_bytes_per_s <= 0 || rate < transfer->fan_bytes_per_s) {
                transfer->fan_bytes_per_s = rate;
                transfer->fan_level = k;
            }
        }
        beyond += here;
    }
}

static struct transfer transfer_of(struct walk *walk, const struct op *op)
{
    uint32_t level = level_to(walk, op->peer);
    struct transfer transfer = {.bytes = op->bytes,
                                .communicator = communicator(walk, op),
                                .peer_bytes = bytes_to_peer(walk, op),
                                .posted_bytes = op->group ? of_group(walk, op, level)->bytes : op->bytes,
                                .call = CALL_COUNT};
    limit_by_fan(walk, op, level, &transfer);
    if (op->collective) {
        const struct sent *sent = of_collective(walk, op, level);
        transfer.call = walk->program->collectives[op->collective - 1].call;
        transfer.level_bytes = sent->bytes;
        transfer.rounds = sent->rounds;
        transfer.members = sent->members;
    }
    return transfer;
}

void transfers_of(const struct transfers *transfers, uint32_t group, uint32_t rank, struct transfer *results)
{
    const struct simulation *simulation = transfers->simulation;
    const struct program *program = &simulation->programs[rank];
    size_t n_groups = (size_t)program->n_groups + 1, n_collectives = (size_t)program->n_collectives + 1;
    struct walk walk = {
        .transfers = transfers, .program = program, .group = group, .n_levels = simulation->cost->topology->n_levels};
    walk.posted = memory_zeroed(n_groups * walk.n_levels, sizeof *walk.posted);
    walk.collective = memory_zeroed(n_collectives * walk.n_levels, sizeof *walk.collective);
    walk.first = memory_zeroed(n_groups, sizeof *walk.first);
    walk.end = memory_zeroed(n_groups, sizeof *walk.end);
    walk.span = memory_zeroed(n_collectives, sizeof *walk.span);
    for (size_t i = 0; i < n_collectives; i++)
        walk.span[i] = UINT32_MAX;
    for (int s = 0; s < STREAM_COUNT; s++)
        walk.span_of_stream[s] = UINT32_MAX;
    sum_up(&walk);
    count_senders(&walk);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        if (program->ops[i].kind == OP_SEND)
            results[i] = transfer_of(&walk, &program->ops[i]);
    }
    free(walk.posted);
    free(walk.collective);
    free(walk.first);
    free(walk.end);
    free(walk.span);
}
