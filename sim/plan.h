/* plan.h - what every operation of a simulation takes: seconds of a local one, the path of a message.
 *
 * Computed and checked before anything runs, so that an engine meets no surprise half way. What a local operation takes
 * is its shape's. What a message takes follows from its program and from its *surroundings*: how far, in levels, the
 * peers and the members of the communicators are. Most instances of a shape have the same surroundings, so this is
 * computed once for each of them (struct outlook) and not for each rank. Only the ways themselves, from an instance to
 * a peer over these and those links, are each instance's own.
 */
#ifndef CPSIM_SIM_PLAN_H
#define CPSIM_SIM_PLAN_H

#include "sim/engine.h"
#include "sim/local_times.h"

/* From one instance to one of its peers. */
struct plan_way {
    struct route route;     /* that of the ranks that the two stand for first */
    const struct hop *hops; /* folded: what its messages load; NULL: each link of the route once */
    size_t n_hops;
};

/* Messages of one program to one peer that are alike in what their time depends on. */
struct kind_of_message {
    uint32_t peer; /* index among the program's peers */
    struct transfer transfer;
};

/* One shape in one kind of surroundings. */
struct outlook {
    uint32_t shape;
    struct kind_of_message *kinds;
    uint32_t n_kinds;
    uint32_t *kind_of; /* [op]: of a send */
    bool borrowed;     /* kinds and kind_of are a memo's (plan_memo.h), or the plan's of all ranks */
    bool kept;         /* they are a memo's, which has them as long as it lives */
};

void outlook_fini(struct outlook *outlook);

/* What a message takes on its way: [first_path of the instance + kind]. */
struct path {
    struct transfer_cost cost;
    double factor;   /* of all its seconds (cost_message_factor) */
    uint32_t sms;    /* that it holds at each end while it moves */
    uint32_t way;    /* index in ways */
    uint32_t lane;   /* which of the different rates from this instance to that one: 0, 1, ... (platform_xml.h) */
    bool opens_lane; /* it is the first path of that lane */
    bool solitary;   /* its messages meet no other (solitary.h); false until somebody has looked */
};

struct plan {
    const struct simulation *simulation; /* outlives the plan */
    struct local_times *locals;
    struct outlook *outlooks;
    uint32_t n_outlooks;
    uint32_t *outlook_of;  /* [instance] */
    double *speed;         /* [instance]: of its GPU; NULL: all 1 */
    struct plan_way *ways; /* [index in ensemble.peers]; without a route where nothing is sent */
    size_t n_ways;
    struct path *paths;
    size_t *first_path; /* [instance]; one more for the end of the last */
};

/* Needs of `simulation`: ensemble, cost, placement, folding, whole, memo. False, with a message for each of the first
 * few pairs of ranks that have no path; the plan is then empty. */
bool plan_init(struct plan *plan, const struct simulation *simulation, struct diagnostics *diag);
void plan_fini(struct plan *plan);

static inline const struct op *plan_op(const struct plan *plan, struct activity activity)
{
    return &ensemble_program(plan->simulation->ensemble, activity.instance)->ops[activity.op];
}

/* How fast the GPU of an instance is: 1, or what an override says. */
static inline double plan_speed(const struct plan *plan, uint32_t instance)
{
    return plan->speed ? plan->speed[instance] : 1;
}

/* Seconds of a local operation. A GPU of another speed than its profile's (an override's) takes 1 / speed as long for
 * all that it does locally, launches among them; the host's times and the links' are as without. */
static inline double plan_seconds(const struct plan *plan, struct activity local)
{
    uint32_t shape = plan->simulation->ensemble->instances[local.instance].shape;
    double seconds = plan->locals->seconds[shape][local.op];
    return plan->speed ? seconds / plan->speed[local.instance] : seconds;
}

/* Those of them that its launch takes: asked for only where two compute streams meet, so not kept. */
double plan_fixed_seconds(const struct plan *plan, struct activity local);

/* Those in which it leaves transfers no SM (cost_fill_seconds). */
double plan_fill_seconds(const struct plan *plan, struct activity local);

/* When, at the earliest, an activity may begin for the host's sake, counted from the step's start; a message for both
 * its ends'. The host issues a program's operations in their order, each taking it cost_host_seconds. It runs ahead of
 * the device: by what its operations of the step before took longer to compute than to issue, if they did; not at all
 * when an iteration synchronises. */
double plan_issued(const struct plan *plan, struct activity activity);

/* The same of a local operation, or of one end of a message. */
double plan_issued_at(const struct plan *plan, struct activity end);

/* The path of a message, and its way. */
static inline const struct path *plan_path(const struct plan *plan, struct activity send)
{
    const struct outlook *outlook = &plan->outlooks[plan->outlook_of[send.instance]];
    return &plan->paths[plan->first_path[send.instance] + outlook->kind_of[send.op]];
}

static inline const struct plan_way *plan_way_of(const struct plan *plan, const struct path *path)
{
    return &plan->ways[path->way];
}

#endif
