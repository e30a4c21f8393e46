/* transport.h - a transport: how messages get from rank to rank.
 *
 * One `const struct transport_ops` per transport, registered in one array. `local`: all ranks in this process, a thread
 * each. `mpi`: one rank a process, any number of hosts; only its files know mpi.h, and it is there only when the build
 * found MPI. `nccl-threads` and `nccl`: the same two with a GPU for each rank, between which NCCL moves memory; only
 * when the build found CUDA. Messages of one (source, destination, stream) match in the order in which they are posted.
 *
 * A transport may know collectives: then a program's are handed to it as one call each, in place of the messages and
 * sums that they are written out as. Calls of one team match in the order in which its members post them.
 *
 * Memory is the host's, unless the transport says that it can carry an asynchronous backend's (`attach`). Its messages
 * and collectives are then queued in the rank's queues (compute.h) behind what is there already, and requests are done
 * as soon as everything is queued that the rank's part takes: what is queued behind is ordered after the transfer.
 */
#ifndef CPSIM_HW_TRANSPORT_H
#define CPSIM_HW_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/schedule/program.h"

struct transport; /* one rank's end of it */

/* A message is a few pieces of memory (K rows and V rows), each of any size (more than 2 GiB too). The two ends may cut
 * the same bytes differently. */
#define PIECES_MAX 3

struct piece_of_memory {
    void *memory;
    uint64_t bytes;
};

/* What one member of a team gives or gets; no pieces: nothing. */
struct share_of_memory {
    struct piece_of_memory pieces[PIECES_MAX];
    uint32_t n_pieces;
};

/* This rank's part in a collective; program.h says what each call does. Arrays have an element for each member of the
 * team, in its order; what they point to is read before the call that posts it returns, the memory until it is done. */
struct collective_part {
    enum collective_call call;
    const struct share_of_memory *sources, *targets;
    /* What member i gives (ALL_GATHER), or gets the sum of (REDUCE_SCATTER, ALL_REDUCE): the same on all ranks. */
    const uint64_t *bytes;
    enum dtype dtype; /* of what is summed: fp32 or bf16, accumulated at least as wide */
    bool largest;     /* ALL_REDUCE: the largest of all in place of the sum */
};

/* How a transport moves a device's memory; what a transport has no use for must be 0. */
struct transport_settings {
    const char *library;  /* path of the communication library; NULL: as the system finds it */
    uint32_t max_ctas;    /* thread blocks that the library may use for each operation; 0: its own choice */
    bool zero_cta;        /* copy engines rather than thread blocks, where the library can */
    bool registered;      /* buffers are registered with the library */
    bool through_library; /* (one process, one GPU) messages by the library's send and receive to oneself */
};

/* Whether anything is asked for. */
bool transport_settings_are_set(const struct transport_settings *settings);

struct compute_ops;
struct compute;
struct mark;

/* A message between buffers of an asynchronous backend. */
struct queued_message {
    bool send;
    uint32_t peer;
    enum stream stream;
    const struct piece_of_memory *pieces;
    uint32_t n_pieces;
    struct mark *moves; /* set where bytes begin to move, as far as the transport can tell; NULL: nobody asks */
    /* The bytes of each array of the message (layout_cargo_arrays): both ends say the same, however their pieces are
     * cut. n_arrays 0: all is one array. */
    const uint64_t *arrays;
    uint32_t n_arrays;
};

struct transport_ops {
    const char *name, *summary;
    bool one_rank_a_process; /* else all ranks are threads of this process */
    bool one_rank_a_device;  /* ranks of one machine need a device each */
    bool in_graphs;          /* what it queues can be recorded: nothing of it is left to the host */
    /* Prepares for `ranks` ranks, of which rank r wants to sit at place_of_rank[r] of the machine (NULL: at the r-th;
     * processes are its places, in the launcher's order; threads have none); `ends` (room for all ranks) gets one end
     * per rank that lives in this process, *n_ends their number, *first_rank the first of them. False with messages,
     * for example when the world has another size; *first_rank is then this process's place in it. Whatever it
     * returned, `close` follows. */
    bool (*open)(uint32_t ranks, const uint32_t *place_of_rank, struct transport **ends, uint32_t *n_ends,
                 uint32_t *first_rank, struct diagnostics *diag);
    /* Waits a few seconds until every process is here, so that none tears down what another still needs. */
    void (*close)(struct transport **ends, uint32_t n_ends);
    /* Posts one end of a message and returns its request (>= 0). Does not block. */
    int (*post)(struct transport *end, bool send, uint32_t peer, enum stream stream,
                const struct piece_of_memory *pieces, uint32_t n_pieces);
    /* (optional: both or neither) A team of ranks in one stream, this one among them; returns its number on this end.
     * Every member opens its teams in one order that is the same on all ranks, while nothing else is under way. */
    int (*open_team)(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members);
    /* Posts this rank's part in a team's next collective and returns its request (>= 0). Does not block. */
    int (*post_collective)(struct transport *end, int team, const struct collective_part *part);
    /* Progresses messages and collectives; true when `request` has finished (if queued: is queued), which frees it. */
    bool (*test)(struct transport *end, int request);

    /* (optional) Which of the ranks on this rank's host it is, counting from 0. NULL: all ranks share one device. */
    uint32_t (*place_on_host)(struct transport *end);
    /* (optional) Prepares to carry the memory of an asynchronous backend; `streams`: bit s is set if any rank has
     * messages in stream s. All ranks call it, after `open` and before anything is queued. False with messages. NULL:
     * the transport moves host memory only. */
    bool (*attach)(struct transport *end, const struct compute_ops *ops, struct compute *compute, uint32_t streams,
                   const struct transport_settings *settings, struct diagnostics *diag);
    /* (optional: both or neither) With `attach`, settings.registered: memory for the rank's buffers that the library
     * knows and moves without copies of its own; NULL when there is not enough. `close` releases what is left of it. */
    void *(*allocate)(struct transport *end, uint64_t bytes);
    void (*release)(struct transport *end, void *memory);
    /* With `attach`: queues one end of a message and returns its request (>= 0). Does not block. Messages between
     * group_begin and group_end (optional: both or neither) are queued together at its end. */
    int (*queue_message)(struct transport *end, const struct queued_message *message);
    void (*group_begin)(struct transport *end);
    void (*group_end)(struct transport *end);
    /* (optional) The same as open_team and post_collective, of the backend's memory. */
    int (*queue_team)(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members);
    int (*queue_collective)(struct transport *end, int team, const struct collective_part *part);
    /* (optional) With `attach`: version of the library that messages go through, such as "2.28.9"; NULL: none. */
    const char *(*library)(struct transport *end);
    /* (optional) With `attach`: progresses what the host still has to do for what was queued; true when nothing is
     * left. */
    bool (*settled)(struct transport *end);

    /* All ranks meet. False when another rank has failed. */
    bool (*barrier)(struct transport *end);
    /* `bytes` from every rank into `all` (of ranks x bytes) on every rank, in rank order. False as above. */
    bool (*all_gather)(struct transport *end, const void *mine, uint64_t bytes, void *all);
    /* Tells all ranks that this one has failed, with its reason; they stop within seconds. The first reason counts. */
    void (*fail)(struct transport *end, const char *reason);
    /* What a rank that failed said, or NULL. Notices too when the library under the transport has. */
    const char *(*failed)(struct transport *end);
};

extern const struct transport_ops transport_local, transport_mpi;         /* transport_mpi only if built with MPI */
extern const struct transport_ops transport_nccl, transport_nccl_threads; /* if built with CUDA; the first: and MPI */
extern const struct transport_ops *const transports[]; /* NULL-terminated; the first is the default */
const struct transport_ops *transport_find(const char *name);

/* Processes that an MPI launcher says it has started, this one among them; 0 without a launcher. */
uint32_t transport_launched(void);

/* Adds what a rank that failed said. Always returns false. */
bool transport_complain(const struct transport_ops *transport, struct transport *end, struct diagnostics *diag);

/* The transport `name`, or with NULL the one that fits how this process was started. NULL with a message when there is
 * none, or when `ranks` ranks cannot run so. */
const struct transport_ops *transport_choose(const char *name, uint32_t ranks, struct diagnostics *diag);

#endif
