/* nccl_communicators.c - communicators from their ids to their end.
 *
 * They are non-blocking ones: a blocking call would wait for ranks that have failed, for ever.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "hw/clock.h"
#include "hw/nccl/nccl_end.h"
#include "models/base/memory.h"

bool nccl_comm_wait(struct transport *end, void *comm, double seconds, const char *what)
{
    const double limit = seconds_now() + seconds;
    for (;;) {
        int state = NCCL_DONE;
        if (!NCCL_CHECK(end, comm, end->library.comm_state(comm, &state), what) || !NCCL_CHECK(end, comm, state, what))
            return false;
        if (state == NCCL_DONE)
            return true;
        if (end->base_ops->failed(end->base)) {
            nccl_give_up(end);
            return false;
        }
        if (seconds_now() > limit)
            return nccl_fail(end, "%s: a rank did not come within %g s", what, seconds);
        sched_yield();
    }
}

void *nccl_comm_create(struct transport *end, struct nccl_id id, uint32_t ranks, uint32_t rank, const char *name)
{
    struct nccl_config config = nccl_config_of(&end->settings);
    void *comm = NULL;
    char what[96];
    snprintf(what, sizeof what, "making a communicator of %" PRIu32 " ranks for %s", ranks, name);
    if (end->given_up)
        return NULL;
    nccl_choose_device(end->ops, end->compute);
    int result = end->library.comm_init(&comm, (int)ranks, id, (int)rank, &config);
    if (comm) { /* one that is still being made can be aborted too */
        memory_grow(end->comms, end->n_comms, end->comm_capacity);
        end->comms[end->n_comms++] = comm;
    }
    return NCCL_CHECK(end, comm, result, what) && nccl_comm_wait(end, comm, end->seconds_to_come, what) ? comm : NULL;
}

/* Whether all of the ends' communicators are through before `limit`. */
static bool are_through(struct transport **ends, uint32_t n_ends, double limit)
{
    for (uint32_t e = 0; e < n_ends; e++) {
        struct transport *end = ends[e];
        for (size_t i = 0; i < end->n_comms; i++) {
            int state = NCCL_UNDER_WAY, result = NCCL_DONE;
            while (result == NCCL_DONE && state == NCCL_UNDER_WAY && seconds_now() < limit) {
                result = end->library.comm_state(end->comms[i], &state);
                sched_yield();
            }
            if (result != NCCL_DONE || state != NCCL_DONE)
                return false;
        }
    }
    return true;
}

void nccl_comms_close(struct transport **ends, uint32_t n_ends)
{
    bool good = true;
    for (uint32_t e = 0; e < n_ends; e++) /* all are told first: each waits for the others */
        for (size_t i = 0; i < ends[e]->n_comms; i++) {
            int result = ends[e]->library.comm_finalize(ends[e]->comms[i]);
            good = good && (result == NCCL_DONE || result == NCCL_UNDER_WAY);
        }
    good = good && are_through(ends, n_ends, seconds_now() + NCCL_SECONDS_TO_GO);
    for (uint32_t e = 0; e < n_ends; e++) {
        struct transport *end = ends[e];
        while (good && end->n_comms) { /* one that is gone must not be aborted */
            int result = end->library.comm_destroy(end->comms[--end->n_comms]);
            good = result == NCCL_DONE || result == NCCL_UNDER_WAY;
        }
    }
    for (uint32_t e = 0; e < n_ends; e++) /* what has been measured stands: whoever cannot be taken down is aborted */
        nccl_give_up(ends[e]);
}
