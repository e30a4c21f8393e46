/* checker.h - proves, before anything runs, that the programs compute attention and nothing else.
 *
 * Walks all ranks' programs in a legal order and follows what every buffer holds: which rows of which tensor, and of
 * which attended blocks a partial result is the sum. Shown, or reported with the ranks and operations concerned:
 *   - every send has a receive with the same bytes and the same contents; nothing deadlocks under rendezvous;
 *   - no operation reads what nobody wrote, or a block other than the one it names, or a buffer that a message of its
 *     own group overwrites;
 *   - every visible (query, key) pair is attended exactly once in every lane, forward and (training) backward, and its
 *     result ends in the query owner's O, LSE and dQ and in the key owner's dK, dV exactly once;
 *   - partial results that are scaled before they are summed are all scaled by the same, of all keys that a query sees;
 *   - a collective is one piece of a stream, and its members make the same calls in the same order.
 *
 * Not shown: that a collective's list of sources and targets says what its operations do.
 */
#ifndef CPSIM_MODELS_SCHEDULE_CHECKER_H
#define CPSIM_MODELS_SCHEDULE_CHECKER_H

#include "models/schedule/schedule.h"

/* Checks `programs` (schedule->ranks of them). False with messages: the first few problems and a count. */
bool checker_check(const struct schedule *schedule, const struct program *programs, struct diagnostics *diag);

#endif
