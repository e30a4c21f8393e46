/* transport.h - a transport: how messages get from rank to rank.
 *
 * One `const struct transport_ops` per transport, registered in one array. `local`: all ranks in this process, a thread
 * each. `mpi`: one rank a process, any number of hosts; only its file knows mpi.h, and it is there only when the build
 * found MPI. Messages of one (source, destination, stream) match in the order in which they are posted.
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

struct transport_ops {
    const char *name, *summary;
    bool one_rank_a_process; /* else all ranks are threads of this process */
    /* Prepares for `ranks` ranks; `ends` (room for all ranks) gets one end per rank that lives in this process,
     * *n_ends their number, *first_rank the first of them. False with messages, for example when the world has another
     * size; *first_rank is then this process's place in it. Whatever it returned, `close` follows. */
    bool (*open)(uint32_t ranks, struct transport **ends, uint32_t *n_ends, uint32_t *first_rank,
                 struct diagnostics *diag);
    /* Waits a few seconds until every process is here, so that none tears down what another still needs. */
    void (*close)(struct transport **ends, uint32_t n_ends);
    /* Posts one end of a message and returns its request (>= 0). Does not block. */
    int (*post)(struct transport *end, bool send, uint32_t peer, enum stream stream,
                const struct piece_of_memory *pieces, uint32_t n_pieces);
    /* Progresses messages; true when `request` has finished, which frees it. */
    bool (*test)(struct transport *end, int request);
    /* All ranks meet. False when another rank has failed. */
    bool (*barrier)(struct transport *end);
    /* `bytes` from every rank into `all` (of ranks x bytes) on every rank, in rank order. False as above. */
    bool (*all_gather)(struct transport *end, const void *mine, uint64_t bytes, void *all);
    /* Tells all ranks that this one has failed, with its reason; they stop within seconds. The first reason counts. */
    void (*fail)(struct transport *end, const char *reason);
    /* What a rank that failed said, or NULL. */
    const char *(*failed)(struct transport *end);
};

extern const struct transport_ops transport_local, transport_mpi; /* transport_mpi only if built with MPI */
extern const struct transport_ops *const transports[];            /* NULL-terminated; the first is the default */
const struct transport_ops *transport_find(const char *name);

/* Processes that an MPI launcher says it has started, this one among them; 0 without a launcher. */
uint32_t transport_launched(void);

/* Adds what a rank that failed said. Always returns false. */
bool transport_complain(const struct transport_ops *transport, struct transport *end, struct diagnostics *diag);

/* The transport `name`, or with NULL the one that fits how this process was started. NULL with a message when there is
 * none, or when `ranks` ranks cannot run so. */
const struct transport_ops *transport_choose(const char *name, uint32_t ranks, struct diagnostics *diag);

#endif
