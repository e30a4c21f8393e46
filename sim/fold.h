/* fold.h - ranks that behave alike are simulated once.
 *
 * Ranks, the ways between them (from an instance to one of its peers) and links are coloured by what they are, then
 * again and again by their neighbours' colours, until nothing changes: the coarsest equitable partition (colour
 * refinement, partition.h). Two ranks of one class run the same program on equal devices, and their messages go to
 * ranks of the same classes over links of the same classes, which carry as many messages of every class. Max-min fair
 * rates are unique, so they respect such a partition, and so does all that follows from them: a simulation of one rank
 * a class, in which a message weighs on a link as many times as its class crosses each of the links that this one
 * stands for, gives what all ranks would have had; exactly, not about.
 *
 * Ranks are coloured by shape, by surroundings (how far their peers and communicators are: what the costs of their
 * messages follow from, sim/plan.h), and by their GPU's speed; ways by their latency, bandwidth and level; links by
 * their bandwidth and level. What nothing crosses does not matter.
 *
 * Ranks of a replica wait for each other between the phases, so they are alike only if their replicas are.
 *
 * Ranks that share a device are not folded: whose kernel comes first is nothing that classes know of.
 */
#ifndef CPSIM_SIM_FOLD_H
#define CPSIM_SIM_FOLD_H

#include "models/base/diagnostics.h"
#include "models/result/folding.h"
#include "models/schedule/ensemble.h"

struct plan;

/* Folds `ensemble` (all ranks of all groups), whose `plan` has been made. The result borrows the ensemble's shapes. */
void fold_init(struct folding *folding, const struct ensemble *ensemble, const struct plan *plan);

#endif
