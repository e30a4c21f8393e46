/* collectives.h - the collectives of all ranks' programs as the calls of a transport that has its own.
 *
 * A program says of its n-th collective what this rank gives and gets; a call needs the same view on every member. So
 * the plan is made from all programs, alike in every process: the n-th collective of each member among the same members
 * in the same stream are one call. Members that have nothing to do in it (no operations: nothing of theirs is sent or
 * received) are left out, so that nobody is waited for that never comes. Teams are numbered in one order everywhere.
 */
#ifndef CPSIM_HW_RUN_COLLECTIVES_H
#define CPSIM_HW_RUN_COLLECTIVES_H

#include "hw/transport.h"
#include "models/base/diagnostics.h"
#include "models/schedule/schedule.h"

/* Rows of a buffer, in all its lanes; count 0: nothing. */
struct planned_share {
    uint32_t buffer;
    struct block block;
};

struct planned_call {
    uint32_t team; /* in collective_plan.teams; NO_TEAM: no rank has anything to do */
    uint32_t n_members, me;
    struct planned_share *sources, *targets; /* [n_members] */
    uint64_t *bytes;                         /* [n_members]; this and the next as in struct collective_part */
    enum dtype dtype;
    bool largest;
};

#define NO_TEAM UINT32_MAX

struct planned_team {
    enum stream stream;
    uint32_t n_members, *members; /* CP ranks */
};

struct collective_plan {
    const struct schedule *schedule;
    const struct program *programs;
    struct planned_team *teams;
    size_t n_teams, team_capacity;
    struct planned_call **calls; /* [rank][collective] */
};

/* `programs` of all ranks outlive the plan. False, with messages, when members do not agree on a call. The caller calls
 * collective_plan_fini in any case. */
bool collective_plan_init(struct collective_plan *plan, const struct schedule *schedule, const struct program *programs,
                          struct diagnostics *diag);
void collective_plan_fini(struct collective_plan *plan);

/* Whether no program has a collective. */
bool collective_plan_is_empty(const struct collective_plan *plan);

/* Where a share is, of a buffer of `program` at `memory`. */
struct share_of_memory planned_share_memory(const struct collective_plan *plan, const struct program *program,
                                            const struct planned_share *share, void *memory);

#endif
