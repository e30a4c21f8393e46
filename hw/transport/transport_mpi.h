/* transport_mpi.h - what the files of the transport 'mpi' share. Nobody else includes it, for it includes mpi.h. */
#ifndef CPSIM_HW_TRANSPORT_TRANSPORT_MPI_H
#define CPSIM_HW_TRANSPORT_TRANSPORT_MPI_H

#include <mpi.h>

#include "hw/transport.h"

#define REASON_BYTES 1024

struct mpi_queue;  /* what is under way of a device's memory */
struct mpi_queued; /* one end of such a message */
struct mpi_call;   /* what a collective under way holds, and what is left to do when MPI is through with it */

struct mpi_request {
    MPI_Request *chunks; /* NULL: free, or queued */
    int n_chunks;
    struct mpi_call *call;     /* NULL: a message */
    struct mpi_queued *queued; /* NULL: not queued */
};

struct mpi_team {
    MPI_Comm comm;
    int me, n;
};

struct transport {
    int rank, ranks;
    int place_on_host;
    MPI_Comm data, control;
    struct mpi_request *requests;
    size_t n_requests, capacity;
    struct mpi_queue *queue; /* NULL: not attached */
    struct mpi_team *teams;
    size_t n_teams, team_capacity;
    MPI_Op add_bf16, max_bf16; /* MPI_OP_NULL until a team is opened */
    MPI_Request hears;         /* a failure of another rank */
    char heard[REASON_BYTES], said[REASON_BYTES];
    const char *failure; /* heard or said, or NULL */
};

/* SimGrid has functions of the same names, for simulated programs; a program linked in the wrong order gets those. */
bool mpi_is_simulated(void);

int mpi_take_request(struct transport *end, struct mpi_request request);

int mpi_open_team(struct transport *end, enum stream stream, const uint32_t *members, uint32_t n_members);
int mpi_post_collective(struct transport *end, int team, const struct collective_part *part);
/* Brings what MPI left in memory of its own to where it belongs. Frees the call. */
void mpi_call_finish(struct mpi_call *call);
void mpi_calls_close(struct transport *end);

void mpi_fail(struct transport *end, const char *reason);

bool mpi_attach(struct transport *end, const struct compute_ops *ops, struct compute *compute, uint32_t streams,
                const struct transport_settings *settings, struct diagnostics *diag);
int mpi_queue_message(struct transport *end, const struct queued_message *message);
/* Progresses all; true when all that the message's end takes is queued. */
bool mpi_queue_test(struct transport *end, const struct mpi_queued *message);
bool mpi_queue_settled(struct transport *end);
/* Nothing is under way any more. */
void mpi_queue_close(struct transport *end);

#endif
