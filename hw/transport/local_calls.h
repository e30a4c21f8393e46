/* local_calls.h - collectives among the threads of one process: memory that all of them can reach.
 *
 * A call is one object that all members share: who posts first makes it, who posts last opens it. Then it is a few
 * parts, each done by whichever member asks next, so that an idle rank moves what a computing one waits for: what one
 * member gets, or of a sum for all a stretch of its numbers (no two parts write to one place, nor to what another
 * reads). It has finished for everybody when all parts are done: until then, everybody's memory is in use.
 *
 * Threads: who has posted is under the team's mutex; a part's writes happen before the count of parts that are done.
 */
#ifndef CPSIM_HW_TRANSPORT_LOCAL_CALLS_H
#define CPSIM_HW_TRANSPORT_LOCAL_CALLS_H

#include "hw/transport.h"

struct local_team;
struct local_call;

struct local_team *local_team_create(enum stream stream, const uint32_t *members, uint32_t n);
void local_team_destroy(struct local_team *team); /* no member holds a call any more */
bool local_team_is(const struct local_team *team, enum stream stream, const uint32_t *members, uint32_t n);

/* Posts the part of rank `rank`, one of the members, in its next call. */
struct local_call *local_call_post(struct local_team *team, uint32_t rank, const struct collective_part *part);
/* Does what can be done; true when the call has finished. The member then calls local_call_drop, once. */
bool local_call_test(struct local_call *call);
void local_call_drop(struct local_call *call);

#endif
