/* slowdown.h - compute that slows down while the rank's transfers move.
 *
 * A device's transfer_slowdown s says how much slower a rank computes while at least one of its messages moves: 0 for a
 * copy engine, 1 where the same core does both. An operation of w seconds alone then takes t with t - s M(t) = w, M
 * being the time out of t in which messages moved. Engines let it run w, ask what it is owed, and let it run on by
 * that, until nothing is owed.
 */
#ifndef CPSIM_SIM_SLOWDOWN_H
#define CPSIM_SIM_SLOWDOWN_H

#include <stdbool.h>
#include <stdint.h>

struct slowdown {
    double share; /* s */
    struct transfer_meter {
        uint32_t moving; /* messages on the way to or from the instance */
        double since;    /* when the first of them began to move */
        double total;    /* seconds before that in which any moved */
    } * meters;          /* [instance] */
};

/* A local operation under way. */
struct slowed {
    double moved_before; /* the meter's total when it began */
    double stood;        /* seconds that it was held up by so far */
};

void slowdown_init(struct slowdown *slowdown, double share, uint32_t instances);
void slowdown_fini(struct slowdown *slowdown);

/* A message to or from `instance` begins, or ceases, to move. */
void slowdown_move(struct slowdown *slowdown, uint32_t instance, double now);
void slowdown_stop(struct slowdown *slowdown, uint32_t instance, double now);

struct slowed slowdown_begin(const struct slowdown *slowdown, uint32_t instance, double now);

/* Seconds by which the operation must run on beyond `now`, at which all it was told to run so far has passed; 0: it is
 * done. */
double slowdown_owed(const struct slowdown *slowdown, uint32_t instance, struct slowed *slowed, double now);

#endif
