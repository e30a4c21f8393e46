/* hardware.h - runs a schedule on real hardware: every rank's program, as timelines, traffic, memory and a verdict.
 *
 * With the transports 'local' and 'nccl-threads' one process holds all ranks, a thread each; with 'mpi' and 'nccl' each
 * process is a rank and all of them call these functions alike. Every process gets every result; hardware_speaks says
 * which of them is to print.
 */
#ifndef CPSIM_HW_HARDWARE_H
#define CPSIM_HW_HARDWARE_H

#include "hw/run/executor.h"
#include "hw/verify/verify.h"
#include "models/result/timeline.h"
#include "models/schedule/execution.h"

/* How collectives run. */
enum collective_mode {
    COLLECTIVES_DEFAULT,  /* as calls where the transport has them */
    COLLECTIVES_LIBRARY,  /* as calls of the transport */
    COLLECTIVES_MESSAGES, /* as the messages and sums that are simulated */
};

struct hardware_settings {
    const struct schedule *schedule;    /* outlives the hardware; who of it runs: rank_programs.h */
    const struct compute_ops *compute;  /* NULL: the last that is able, as compute_choose says */
    const char *transport;              /* NULL: 'mpi' under an MPI launcher, else 'local' */
    enum collective_mode collectives;   /* anything but the default must have an effect */
    struct compute_settings kernels;    /* device below 0: each rank takes the one of its place on its host */
    struct transport_settings carrying; /* of an asynchronous backend's memory */
    bool serial;                        /* (one device, asynchronous) one rank's kernels at a time: see executor.h */
    bool graph;                         /* (asynchronous) each phase is one launch, but in traced steps */
    double stall_seconds;               /* a rank gives up when it waits for others so long; 0: STALL_SECONDS */
};

#define STALL_SECONDS 600.0

struct hardware;

/* Opens transport and backend, builds and checks the programs, and makes sure that all ranks are asked the same. False
 * with messages. Whatever it returned, the messages are printed (by the process that speaks) and then hardware_close is
 * called: it waits a few seconds for the other processes, so that none is ended before it has spoken. A process that
 * has failed exits with a status other than 0 soon after. */
bool hardware_open(struct hardware **hardware, const struct hardware_settings *settings, struct diagnostics *diag);
void hardware_close(struct hardware *hw);

/* For a process that cannot open the hardware, because it cannot even tell what to run: `diag` holds why. Tells the
 * other processes of the launcher, which are opening theirs, and hears what keeps them, so that one of them speaks for
 * all. `hardware` stays NULL when there are no others; else it is good for hardware_speaks and hardware_close only. */
void hardware_refuse(struct hardware **hardware, struct diagnostics *diag);

/* Whether this process is to print: it has rank 0, or knows nothing of others. */
bool hardware_speaks(const struct hardware *hw);

struct hardware_step {
    enum run_mode mode;
    uint64_t seed; /* of the inputs; kept from step to step as long as it is the same */
    bool verify;   /* RUN_ALL only: poisons buffers before and checks outputs after */
    bool bare;     /* asynchronous backends: no clock on operations, only on phases; the run has no moments. A serial
                      run is never bare */
};

struct rank_result {
    uint64_t peak_bytes; /* the executor's own count */
    struct wire_count wire;
    double clock_error_seconds; /* this rank's moments may be off by so much against rank 0's */
};

struct hardware_run {
    struct timeline timeline; /* an instance for each rank; phases joined without the pause between them */
    bool composed;            /* of a serial run: composed_timeline.h */
    struct rank_result *ranks;
    uint32_t n_ranks;
    struct verification verification;
};

/* Runs the programs once. False, with messages, when a rank failed or the verification did (`run` is then still filled,
 * with verification.kind other than CHECK_NONE). The caller calls hardware_run_fini in any case. */
bool hardware_run(struct hardware *hw, const struct hardware_step *step, struct hardware_run *run,
                  struct diagnostics *diag);
void hardware_run_fini(struct hardware_run *run);

/* `bytes` of every rank's process into `all` [ranks], in rank order. Every process calls it. False with a message. */
bool hardware_gather(struct hardware *hw, const void *mine, size_t bytes, void *all, struct diagnostics *diag);

/* How many ranks run. */
uint32_t hardware_ranks(const struct hardware *hw);
/* For reports: all ranks' programs, and an execution of them that was only prepared. */
const struct program *hardware_programs(const struct hardware *hw);
const struct execution *hardware_execution(const struct hardware *hw);
const struct transport_ops *hardware_transport(const struct hardware *hw);
const struct compute_ops *hardware_compute(const struct hardware *hw);
/* The first rank of this process. */
uint32_t hardware_first_rank(const struct hardware *hw);
/* Version of the library that messages go through, as transport.h says; NULL: none. */
const char *hardware_library(const struct hardware *hw);
/* The device that a rank of this process computes on, below 0: the backend has none. */
int hardware_device(const struct hardware *hw, uint32_t rank);
bool hardware_is_serial(const struct hardware *hw);
/* How collectives run: "library", "messages", or "none" when the programs have none. */
const char *hardware_collectives(const struct hardware *hw);

#endif
