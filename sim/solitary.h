/* solitary.h - ways whose messages can meet no other message on any link.
 *
 * A stream runs its operations one after the other, but for those of a group. So where all messages over a link are of
 * one stream of one rank, and this stream posts no two sends together, at most one of them is under way at any time:
 * each has the link to itself. If that is so of every link of a way, what its messages take is known beforehand, and
 * sharing need not be asked about. A ring over one switch is all of that kind.
 *
 * Folded, a message must also weigh once on the link, as it does where each of the links that this one stands for
 * carries the messages of one rank.
 */
#ifndef CPSIM_SIM_SOLITARY_H
#define CPSIM_SIM_SOLITARY_H

#include "sim/plan.h"

/* Says of each path of the plan whether its messages are (path.solitary). */
void solitary_find(struct plan *plan);

#endif
