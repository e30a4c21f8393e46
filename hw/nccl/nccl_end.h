/* nccl_end.h - what the files of the transports 'nccl' and 'nccl-threads' share; for them (and their tests) only.
 *
 * An end wraps one of another transport (`base`), by which ranks meet, fail and move host memory. What NCCL moves is
 * cut into batches: what is queued at once, with one communicator, in one stream. A stream's batches are queued one
 * after the other; the library may take its time for one (it connects to a peer when it is first used, which takes the
 * peer's part too), and the host does not wait for it: `test` asks again.
 */
#ifndef CPSIM_HW_NCCL_NCCL_END_H
#define CPSIM_HW_NCCL_NCCL_END_H

#include "hw/compute.h"
#include "hw/nccl/nccl_library.h"
#include "hw/transport.h"

#define NCCL_SECONDS_TO_COME 60 /* for ranks that still start */
#define NCCL_SECONDS_TO_GO 5    /* for what is taken down */

struct nccl_batch;

/* Memory of the device that a stream's batches pass through; free for the next as soon as one is queued. */
struct nccl_scratch {
    void *memory;
    uint64_t bytes;
    const struct nccl_batch *user; /* NULL: free */
};

struct nccl_stream {
    void *comm;                      /* of all ranks; NULL: no rank has messages here */
    struct nccl_batch *first, *last; /* not yet queued, or not wholly */
    struct nccl_batch *open;         /* of messages between group_begin and group_end */
    struct nccl_scratch *scratches;
    size_t n_scratches, scratch_capacity;
};

struct nccl_team {
    void *comm;
    enum stream stream;
    uint32_t n, me;
    int *peers;    /* [n]: members' ranks in the communicator */
    bool in_order; /* which are 0, 1, 2, ... */
};

struct nccl_registration {
    void *memory;
    uint64_t bytes;
    void **handles; /* by communicator; NULL: not yet */
    size_t n_handles;
};

struct transport {
    const struct transport_ops *base_ops;
    struct transport *base;
    uint32_t rank, ranks;
    double seconds_to_come;

    /* from attach on */
    struct nccl_library library;
    const struct compute_ops *ops;
    struct compute *compute;
    struct transport_settings settings;
    struct nccl_stream streams[STREAM_COUNT];
    void **comms; /* all of them */
    size_t n_comms, comm_capacity;
    struct nccl_team *teams;
    size_t n_teams, team_capacity;
    struct nccl_registration *registrations;
    size_t n_registrations, registration_capacity;
    struct nccl_request {
        bool used, done;
    } * requests;
    size_t n_requests, request_capacity;
    bool grouping;
    bool given_up; /* communicators are aborted, nothing more is queued */
};

/* ---- nccl_failures.c ---- */

/* Fails for all ranks, and gives up. `format` does not name the rank. Always returns false. */
bool nccl_fail(struct transport *end, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* False, after failing, if the library's `result` is an error; `what` was being done with `comm` (may be NULL). */
bool nccl_check(struct transport *end, void *comm, int result, const char *file, int line, const char *what);
#define NCCL_CHECK(end, comm, call, what) nccl_check(end, comm, call, __FILE__, __LINE__, what)

/* The reason if any rank or communicator has failed; gives up then. */
const char *nccl_failed(struct transport *end);

/* Aborts all communicators, so that what waits on the device for a rank that will not come ends. */
void nccl_give_up(struct transport *end);

/* ---- nccl_communicators.c ---- */

/* Makes a communicator with the ranks that have the same id. NULL after failing. `name` is for people. */
void *nccl_comm_create(struct transport *end, struct nccl_id id, uint32_t ranks, uint32_t rank, const char *name);
/* Waits until the library is through with what it has begun; false after failing. */
bool nccl_comm_wait(struct transport *end, void *comm, double seconds, const char *what);
/* Takes down all communicators of ends that have finished well. */
void nccl_comms_close(struct transport **ends, uint32_t n_ends);

/* ---- nccl_batch.c ---- */

/* Something that a batch does: before the library's part, as part of it, or after it. */
enum nccl_act_kind {
    NCCL_ACT_COPY,  /* before: `count` bytes */
    NCCL_ACT_CLEAR, /* before */
    NCCL_ACT_SEND,
    NCCL_ACT_RECEIVE,
    NCCL_ACT_BROADCAST,
    NCCL_ACT_REDUCE,
    NCCL_ACT_ALL_REDUCE,
    NCCL_ACT_ALL_GATHER,
    NCCL_ACT_REDUCE_SCATTER,
    NCCL_ACT_COPY_AFTER,
};

struct nccl_act {
    enum nccl_act_kind kind;
    const void *from;
    void *to;
    uint64_t count; /* of `type`; copies: of bytes */
    int type, fold, peer;
};

struct nccl_batch *nccl_batch_create(void *comm);
void nccl_batch_add(struct nccl_batch *batch, struct nccl_act act);
/* `mark` is set as the library's part is queued. */
void nccl_batch_mark(struct nccl_batch *batch, struct mark *mark);
/* A request that is done when the batch is queued. */
int nccl_batch_request(struct transport *end, struct nccl_batch *batch);
/* Memory of the device for the batch; NULL after failing. */
char *nccl_batch_scratch(struct transport *end, enum stream stream, const struct nccl_batch *batch, uint64_t bytes);
/* The batch is complete: it is queued when its turn comes, and frees itself. */
void nccl_batch_push(struct transport *end, enum stream stream, struct nccl_batch *batch);

/* Queues what can be; true when nothing is left. */
bool nccl_progress(struct transport *end);
void nccl_batches_close(struct transport *end);

/* The memory of a share as one run, to be read or written by the library's part: where it is, if that is one piece,
 * else scratch memory that is copied to or from it. A source that has no pieces counts as zeros. NULL after failing. */
const void *nccl_source(struct transport *end, enum stream stream, struct nccl_batch *batch,
                        const struct piece_of_memory *pieces, uint32_t n_pieces, uint64_t bytes);
void *nccl_target(struct transport *end, enum stream stream, struct nccl_batch *batch,
                  const struct piece_of_memory *pieces, uint32_t n_pieces, uint64_t bytes);

/* ---- nccl_messages.c, nccl_collectives.c ---- */

int nccl_queue_message(struct transport *end, const struct queued_message *message);
void nccl_group_begin(struct transport *end);
void nccl_group_end(struct transport *end);

int nccl_queue_team(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members);
int nccl_queue_collective(struct transport *end, int team, const struct collective_part *part);

/* ---- nccl_registered.c ---- */

void *nccl_allocate(struct transport *end, uint64_t bytes);
void nccl_release(struct transport *end, void *memory);
/* Makes all memory known to a communicator that is not busy. */
void nccl_register_all(struct transport *end, void *comm);

#endif
