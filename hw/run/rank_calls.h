/* rank_calls.h - one rank's collectives as calls on its transport, as planned (hw/run/collectives.h).
 *
 * A call is posted when every one of its operations could start as far as other streams are concerned, and finishes all
 * of them at once. A collective that is interleaved with other work (something in the middle waits for what its own
 * beginning delivers) can therefore not be a call, and is refused.
 */
#ifndef CPSIM_HW_RUN_RANK_CALLS_H
#define CPSIM_HW_RUN_RANK_CALLS_H

#include "hw/run/collectives.h"
#include "models/schedule/streams.h"

struct rank_calls;

/* `order` is that of the rank's program. NULL, with a message, when a collective cannot be one call. */
struct rank_calls *rank_calls_create(const struct collective_plan *plan, uint32_t rank,
                                     const struct stream_order *order, struct diagnostics *diag);
void rank_calls_destroy(struct rank_calls *calls);

/* Opens the rank's teams: every rank does, after all have been created and before anything runs. `queued`: the calls
 * are queued behind what an asynchronous backend has been given. */
void rank_calls_open(struct rank_calls *calls, const struct transport_ops *ops, struct transport *end, bool queued);

/* Whether no other stream holds up any operation of `collective` (an index in the program's table). */
bool rank_calls_may_post(const struct rank_calls *calls, const struct stream_progress *progress, uint32_t collective);

/* Posts it and returns the request. `memory`: [buffer]. */
int rank_calls_post(const struct rank_calls *calls, uint32_t collective, void *const *memory);

#endif
