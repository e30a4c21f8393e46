/* nccl_failures.c - errors of the library and of other ranks, and how to get away from them.
 *
 * A kernel that waits for a rank that is gone waits for ever, and so does whoever waits for its stream. So an end that
 * learns of a failure, anybody's, aborts its communicators at once, before anybody takes down queues or memory. An
 * abort may hang itself (the library waits for threads of its own): each has a thread, and a few seconds.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "hw/clock.h"
#include "hw/nccl/nccl_end.h"
#include "models/base/memory.h"

/* ---- giving up ---- */

struct abortion {
    int (*abort)(void *comm);
    void **comms;
    size_t count;
    atomic_size_t next, done;
    atomic_int holders; /* the threads and who started them; the last frees it */
};

static void let_go(struct abortion *abortion)
{
    if (atomic_fetch_sub(&abortion->holders, 1) != 1)
        return;
    free(abortion->comms);
    free(abortion);
}

static void *abort_one(void *context)
{
    struct abortion *abortion = context;
    size_t i = atomic_fetch_add(&abortion->next, 1);
    (void)abortion->abort(abortion->comms[i]); /* an error of it changes nothing: all has failed already */
    atomic_fetch_add(&abortion->done, 1);
    let_go(abortion);
    return NULL;
}

void nccl_give_up(struct transport *end)
{
    if (end->given_up)
        return;
    end->given_up = true;
    struct abortion *abortion = memory_zeroed(1, sizeof *abortion);
    abortion->abort = end->library.comm_abort;
    abortion->comms = end->comms;
    abortion->count = end->n_comms;
    atomic_init(&abortion->holders, 1);
    end->comms = NULL;
    end->n_comms = end->comm_capacity = 0;
    for (size_t i = 0; i < abortion->count; i++) {
        pthread_t thread;
        atomic_fetch_add(&abortion->holders, 1);
        if (pthread_create(&thread, NULL, abort_one, abortion) == 0)
            pthread_detach(thread);
        else
            abort_one(abortion);
    }
    const double limit = seconds_now() + NCCL_SECONDS_TO_GO;
    while (atomic_load(&abortion->done) < abortion->count && seconds_now() < limit)
        sched_yield();
    let_go(abortion);
}

/* ---- failing ---- */

bool nccl_fail(struct transport *end, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *what = memory_vformat(format, arguments);
    va_end(arguments);
    char *reason = memory_format("rank %" PRIu32 ": %s", end->rank, what);
    end->base_ops->fail(end->base, reason);
    free(reason);
    free(what);
    nccl_give_up(end);
    return false;
}

/* What people can do about it. */
static const char *hint(int result)
{
    return result == NCCL_INVALID_USE
               ? "; ranks that share a GPU are refused before NCCL 2.30, and from then on taken with "
                 "NCCL_MULTI_RANK_GPU_ENABLE=1; --transport local runs all ranks on one GPU"
               : "";
}

bool nccl_check(struct transport *end, void *comm, int result, const char *file, int line, const char *what)
{
    if (result == NCCL_DONE || result == NCCL_UNDER_WAY)
        return true;
    char more[512] = ""; /* at once: other threads' errors go to the same place */
    const char *last = end->library.last_error(comm);
    snprintf(more, sizeof more, "%s%s", last && *last ? ": " : "", last ? last : "");
    return nccl_fail(end, "%s (%s:%d): NCCL %s says: %s (error %d)%s%s", what, file, line, end->library.version_text,
                     end->library.error_text(result), result, more, hint(result));
}

const char *nccl_failed(struct transport *end)
{
    for (size_t i = 0; i < end->n_comms; i++) {
        int state = NCCL_DONE;
        void *comm = end->comms[i];
        if (!NCCL_CHECK(end, comm, end->library.comm_state(comm, &state), "asking for errors of a communicator") ||
            !NCCL_CHECK(end, comm, state, "moving data between GPUs"))
            break;
    }
    const char *reason = end->base_ops->failed(end->base);
    if (reason)
        nccl_give_up(end);
    return reason;
}
