/* cost.h - seconds of everything a program does, from a device profile and a topology.
 *
 * Attention: t = max(a, launch) + max(heads (b rows + c pairs head_dim), longest tile), with a, b and c fitted to the
 * profile's table of published or measured rates (kernel_fit.h); but never less than its bytes take through memory.
 * Layers' operations: layer_cost.c. Merge, finish, delta, accumulate, cast: bytes read and written at the step's rate,
 * or at the achievable memory bandwidth, plus a launch: each operand once, unless the experiment's implementation has
 * its own passes. Messages: a delay, then bytes at the (shared) bandwidth of the links, or at what the message alone
 * reaches where that is less: that of its channels (channels.h), or its part of a collective's.
 */
#ifndef CPSIM_MODELS_COST_COST_H
#define CPSIM_MODELS_COST_COST_H

#include "models/base/diagnostics.h"
#include "models/cost/channels.h"
#include "models/cost/kernel_fit.h"
#include "models/cost/mechanisms.h"
#include "models/input/device.h"
#include "models/input/topology.h"
#include "models/schedule/schedule.h"

/* Which end of their spread the constants are taken at: measured ones vary. */
enum cost_end { COST_MIDDLE, COST_FAST, COST_SLOW };

struct cost {
    const struct device *device;
    const struct topology *topology;
    const struct schedule *schedule;
    struct kernel_fit fit[PASS_COUNT];
    enum cost_end end;
    uint32_t moved;           /* bit i: constant i (below) is at `end`, the others in the middle */
    mechanism_set without;    /* none, unless the caller sets it after cost_init */
    struct kernel_memo *memo; /* spares time where many blocks are alike; NULL, unless the caller sets it */
};

/* False, with a message that names what the profile has, when it lacks the kernel, dtype, head dim or pass. */
bool cost_init(struct cost *cost, const struct device *device, const struct topology *topology,
               const struct schedule *schedule, struct diagnostics *diag);

/* The same with a memo, which outlives the costs. */
bool cost_init_kept(struct cost *cost, const struct device *device, const struct topology *topology,
                    const struct schedule *schedule, struct kernel_memo *memo, struct diagnostics *diag);

/* The costs of messages and of everything local but attention, which no kernel of the device is looked up for. */
void cost_init_transfers(struct cost *cost, const struct device *device, const struct topology *topology,
                         const struct schedule *schedule);

/* Seconds of a local operation of `program`; 0 for a message. */
double cost_op_seconds(const struct cost *cost, const struct program *program, const struct op *op);

/* The same at the costs' end, from what it is in the middle. */
double cost_op_moved_seconds(const struct cost *cost, const struct program *program, const struct op *op,
                             double middle);

/* Seconds of those that its launch takes, whatever its size: what another kernel of the device may hide. */
double cost_op_fixed_seconds(const struct cost *cost, const struct program *program, const struct op *op);

/* FLOPs of a local operation: 4 * computed pairs * query heads * head_dim * batch for attention, 2.5 times that
 * backward; 2 * rows * columns * depth for a matrix product; 0 otherwise. */
double cost_op_flops(const struct cost *cost, const struct program *program, const struct op *op);

/* Messages of one level whose times vary together, and apart from those of the others. */
enum message_class { MESSAGE_LONE, MESSAGE_OF_COLLECTIVE, MESSAGE_OF_SMALL_COLLECTIVE, MESSAGE_CLASSES };

/* What a message's time depends on beside its route. */
struct transfer {
    uint64_t bytes;
    struct communicator_size communicator; /* that carries it */
    uint64_t peer_bytes;   /* of those posted together with it to the same peer, itself included: they share
                            * its channels */
    uint64_t posted_bytes; /* of those posted together with it by its sender over the same level, likewise */
    uint32_t call;         /* enum collective_call that it is a part of; CALL_COUNT: of none */
    /* Of a collective, what its sender sends over the same level (of a flowing one, over all levels): bytes, in how
     * many groups; and among how many at this level. */
    uint64_t level_bytes;
    uint32_t rounds, members;
    /* Of a flowing collective, how many steps of a ring the one message stands for (0 and 1: it is a message), and
     * among how many the outermost level is that any two members have between them. */
    uint32_t steps, span_members;
    double fan_bytes_per_s; /* the most it reaches as one of a fan (sim/transfers.h); 0: any */
    uint32_t fan_level;     /* that allows no more */
};

/* Uncontended, a message takes delay_seconds + bytes / bytes_per_s; contended, longer. */
struct transfer_cost {
    double delay_seconds;
    double bytes_per_s; /* at most the route's */
    uint32_t channels;  /* of NCCL that it takes, a thread block each; 0: not known, or a collective's */
    enum message_class class;
    uint32_t level; /* whose constants, of that class, it goes by */
};

/* Of a message of one of a library's collectives: its part of start and rate of the protocol that the library takes. Of
 * another one, or of an all-to-all, which is messages to the library too: by its channels. Where the level of its route
 * says nothing of these: alpha, or, where the size curve says that the message takes longer than alpha and its bytes at
 * the level's bandwidth, that much more. A message that stands for steps of a ring: their delays, one after the other,
 * and their rate, that of a step's bytes, at the pace of the outermost level of the ring. */
struct transfer_cost cost_transfer(const struct cost *cost, const struct route *route, const struct transfer *transfer);

/* SMs that a message holds on the device of either end while it moves: one for each of its channels, unless the
 * experiment's implementation says how many. */
uint32_t cost_message_sms(const struct cost *cost, const struct transfer_cost *transfer);

/* Whether transfers wait for SMs that an attention kernel before them has (sim/sm_queue.h). */
bool cost_waits(const struct cost *cost);

/* Seconds from the begin of an attention operation, its launch among them, in which it leaves a transfer no SM: until
 * it has handed out its last tile. A persistent kernel has when it ends; another, or one of which that is not known,
 * when its last wave of tiles begins, all S processors being given as many tiles at a time as they hold. Where a mask
 * makes tiles unequal the last is taken to be the longest. 0 when all tiles find room at once, and when the
 * implementation copies before the kernel: transfers then slip in behind the first copy. */
double cost_fill_seconds(const struct cost *cost, const struct program *program, const struct op *op);

/* How much slower `op` runs while transfers hold `sms` of its device's SMs: 0 not at all, 1 it stands still. A
 * persistent attention kernel has as many of its workers less; one of T equal tiles, a slot each, goes through more
 * waves of them, ceil(T / (S - sms)) for ceil(T / S); where a mask makes tiles unequal, or nothing is known of the
 * kernel, it is taken to lose in proportion. What only streams memory loses nothing. */
double cost_sms_share(const struct cost *cost, const struct op *op, double sms);

/* Seconds that the host takes to issue the operation `op` of `program`, by the experiment's implementation. */
double cost_host_seconds(const struct cost *cost, const struct program *program, const struct op *op);

/* Whether the experiment's implementation has a communicator for each two ranks that exchange messages, in place of one
 * for all of the group. */
bool cost_has_pair_communicators(const struct cost *cost);

/* Whether the host waits for the device at the end of every step. */
bool cost_synchronizes(const struct cost *cost);

/* What a message's time is to be multiplied with at the costs' end of the spread of its class on its level. */
double cost_message_factor(const struct cost *cost, const struct transfer_cost *transfer);

/* The constants that the costs stand on and that vary independently: the rates of forward and of backward kernels,
 * those of the steps, of matrix products, the host's times, the message times of each class on each level. */
enum { CONSTANT_FORWARD, CONSTANT_BACKWARD, CONSTANT_STEPS, CONSTANT_PRODUCTS, CONSTANT_HOST, CONSTANT_LEVELS };
uint32_t cost_constants(const struct cost *cost);
/* How far constant `constant` varies, relative; 0: not known. */
double cost_spread(const struct cost *cost, uint32_t constant);

#endif
