/* slowdown.h - compute that slows down while the rank's transfers move.
 *
 * Two things slow a rank's local operations while at least one of its messages moves: the device's transfer_slowdown s
 * (0 for a copy engine, 1 where the same core does both), whatever the operation; and the SMs that the transfers hold,
 * which an attention kernel has then less of (cost_sms_share). Its speed is the product of what each leaves of it.
 *
 * All messages of one stream are one kernel of NCCL's at a time: they share its SMs, as many as the one that needs
 * most, until the last of them has ended. Streams are kernels of their own, whose SMs add up. Where each two ranks have
 * a communicator (cost_has_pair_communicators), what a rank sends and what it receives are kernels of their own too,
 * for a communicator's messages go by a stream of its own.
 *
 * That a transfer may have to wait for its SMs: sm_queue.h.
 *
 * An operation of w seconds alone takes t with t - s M(t) = w, M being the time out of t in which messages moved and s
 * the share that it loses then, at the mean of the SMs that were held. Engines let it run w, ask what it is owed, and
 * let it run on by that, until nothing is owed.
 */
#ifndef CPSIM_SIM_SLOWDOWN_H
#define CPSIM_SIM_SLOWDOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "models/cost/cost.h"

struct slowdown {
    const struct cost *cost;
    double share; /* the device's transfer_slowdown */
    bool apart;   /* sending and receiving are kernels of their own */
    struct transfer_meter {
        uint32_t moving;    /* messages on the way to or from the instance */
        double since;       /* when that was last known to change */
        double total;       /* seconds before that in which any moved */
        double sms_seconds; /* SMs held, added up over them */
        struct transfer_kernel {
            uint32_t moving, sms;
        } kernels[STREAM_COUNT][2]; /* [1]: of messages that are received, where those have a kernel of their own */
    } * meters;                     /* [instance] */
};

/* A local operation under way. */
struct slowed {
    const struct op *op;
    double moved_before, sms_before; /* the meter when it began */
    double stood;                    /* seconds that it was held up by so far */
};

void slowdown_init(struct slowdown *slowdown, const struct cost *cost, uint32_t instances);
void slowdown_fini(struct slowdown *slowdown);

/* Whether a message that holds `sms` slows anything. If not, nobody need be told that it moves. */
bool slowdown_counts(const struct slowdown *slowdown, uint32_t sms);

/* A message of `stream` from `sender` to `receiver` begins, or ceases, to move; it holds `sms` at either. */
void slowdown_move(struct slowdown *slowdown, uint32_t sender, uint32_t receiver, enum stream stream, uint32_t sms,
                   double now);
void slowdown_stop(struct slowdown *slowdown, uint32_t sender, uint32_t receiver, enum stream stream, double now);

struct slowed slowdown_begin(const struct slowdown *slowdown, uint32_t instance, const struct op *op, double now);

/* Seconds by which the operation must run on beyond `now`, at which all it was told to run so far has passed; 0: it is
 * done. */
double slowdown_owed(const struct slowdown *slowdown, uint32_t instance, struct slowed *slowed, double now);

#endif
