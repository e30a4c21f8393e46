/* transport_mpi_processes.c - processes.h over MPI: a message is one non-blocking send of bytes on a communicator of
 * its own, and is taken when a probe finds it.
 *
 * Errors do not end the job here: a process that is gone is for the caller to notice by its silence. Open MPI 4 ends
 * all processes when one has died, unless it was started with --enable-recovery; messages to a dead process then stay
 * where they are.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hw/clock.h"
#include "hw/processes.h"
#include "hw/transport/transport_mpi.h"
#include "models/base/memory.h"

#define CLOSE_SECONDS 5

struct sent {
    MPI_Request request;
    char *bytes;
};

/* A message that a probe has found. It may never be through: its sender may die before. */
struct coming {
    MPI_Request request;
    int from;
    char *bytes;
    size_t size;
};

/* Where a process can be asked for by its number: a machine, and there a space of numbers (of a container). */
struct address {
    char machine[128], numbers[64];
    pid_t pid;
};

struct processes {
    struct address *addresses; /* of all */
    MPI_Comm comm;
    int count, here, on_host;
    struct sent *sent; /* under way */
    size_t n_sent, capacity;
    struct coming *coming; /* in the order in which they were found */
    size_t n_coming, coming_capacity;
};

static int count_on_host(void)
{
    MPI_Comm host;
    int count;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &count);
    MPI_Comm_free(&host);
    return count;
}

static void exchange_addresses(struct processes *processes)
{
    struct address mine;
    memset(&mine, 0, sizeof mine);
    mine.pid = getpid();
    if (gethostname(mine.machine, sizeof mine.machine - 1) != 0 ||
        readlink("/proc/self/ns/pid", mine.numbers, sizeof mine.numbers - 1) < 0)
        mine.machine[0] = '\0'; /* nobody can ask */
    processes->addresses = memory_zeroed((size_t)processes->count, sizeof mine);
    MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, processes->addresses, (int)sizeof mine, MPI_BYTE, processes->comm);
}

bool processes_has_ended(const struct processes *processes, uint32_t other)
{
    const struct address *mine = &processes->addresses[processes->here], *theirs = &processes->addresses[other];
    bool can_ask =
        *mine->machine && strcmp(mine->machine, theirs->machine) == 0 && strcmp(mine->numbers, theirs->numbers) == 0;
    return can_ask && kill(theirs->pid, 0) != 0 && errno == ESRCH;
}

/* MPI's own threads must not be the ones that a signal ends this process through: it is for the caller to take. And
 * nobody may read a message out of the memory of its sender: if that has died, Open MPI ends the reader too. */
static void start_mpi(void)
{
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", false);
    int thread_level;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &thread_level);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct processes *processes_open(struct diagnostics *diag)
{
    int count;
    if (mpi_is_simulated()) {
        diagnostics_add(diag, "this program was linked with SimGrid's MPI in place of the real one");
        return NULL;
    }
    start_mpi();
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    uint32_t launched = transport_launched();
    if ((uint32_t)count != launched) {
        MPI_Finalize();
        diagnostics_add(diag,
                        "started as %" PRIu32 " processes, but MPI finds %d: the launcher is not that of the MPI that "
                        "this cpsim was built with",
                        launched, count);
        return NULL;
    }
    struct processes *processes = memory_zeroed(1, sizeof *processes);
    processes->count = count;
    processes->on_host = count_on_host();
    MPI_Comm_dup(MPI_COMM_WORLD, &processes->comm);
    MPI_Comm_set_errhandler(processes->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(processes->comm, &processes->here);
    exchange_addresses(processes);
    return processes;
}

uint32_t processes_count(const struct processes *processes)
{
    return (uint32_t)processes->count;
}

uint32_t processes_here(const struct processes *processes)
{
    return (uint32_t)processes->here;
}

uint32_t processes_on_host(const struct processes *processes)
{
    return (uint32_t)processes->on_host;
}

/* Frees what has been sent; returns whether nothing is under way. */
static bool progress_sends(struct processes *processes)
{
    for (size_t i = processes->n_sent; i-- > 0;) {
        int done = 1;
        MPI_Test(&processes->sent[i].request, &done, MPI_STATUS_IGNORE);
        if (!done)
            continue;
        free(processes->sent[i].bytes);
        processes->sent[i] = processes->sent[--processes->n_sent];
    }
    return processes->n_sent == 0;
}

void processes_send(struct processes *processes, uint32_t to, char *bytes, size_t size)
{
    memory_grow(processes->sent, processes->n_sent, processes->capacity);
    struct sent *sent = &processes->sent[processes->n_sent++];
    *sent = (struct sent){MPI_REQUEST_NULL, bytes};
    if (size <= INT_MAX) /* a longer one is lost, as if its sender had died */
        MPI_Isend(bytes, (int)size, MPI_BYTE, (int)to, 0, processes->comm, &sent->request);
}

/* Begins to receive what has been sent here. */
static void find_coming(struct processes *processes)
{
    int arrived, length;
    MPI_Status status;
    MPI_Message message;
    for (;;) {
        int found = MPI_Improbe(MPI_ANY_SOURCE, 0, processes->comm, &arrived, &message, &status);
        if (found != MPI_SUCCESS || !arrived)
            return;
        MPI_Get_count(&status, MPI_BYTE, &length);
        memory_grow(processes->coming, processes->n_coming, processes->coming_capacity);
        struct coming *coming = &processes->coming[processes->n_coming++];
        *coming = (struct coming){.from = status.MPI_SOURCE, .size = (size_t)length};
        coming->bytes = memory_zeroed(coming->size + 1, 1);
        MPI_Imrecv(coming->bytes, length, MPI_BYTE, &message, &coming->request);
    }
}

/* Whether one of the same sender, found earlier, is not through. */
static bool must_wait(const struct processes *processes, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (processes->coming[i].from == processes->coming[index].from)
            return true;
    return false;
}

bool processes_receive(struct processes *processes, uint32_t *from, char **bytes, size_t *size)
{
    progress_sends(processes);
    find_coming(processes);
    for (size_t i = 0; i < processes->n_coming; i++) {
        struct coming *coming = &processes->coming[i];
        int done = 0;
        if (must_wait(processes, i))
            continue;
        bool fine = MPI_Test(&coming->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS;
        if (!fine || !done)
            continue;
        *from = (uint32_t)coming->from;
        *bytes = coming->bytes;
        *size = coming->size;
        memmove(coming, coming + 1, (--processes->n_coming - i) * sizeof *coming);
        return true;
    }
    return false;
}

/* Everybody comes here in the end. Messages that nobody will take are taken, or their senders would wait for ever. */
static bool all_have_come(struct processes *processes)
{
    MPI_Request meeting;
    int met = 0;
    double begin = seconds_now();
    bool sent = false, entered = false;
    while ((!sent || !met) && seconds_now() < begin + CLOSE_SECONDS) {
        uint32_t from;
        char *bytes;
        size_t size;
        while (processes_receive(processes, &from, &bytes, &size))
            free(bytes);
        sent = progress_sends(processes);
        if (sent && !entered) {
            MPI_Ibarrier(processes->comm, &meeting);
            entered = true;
        }
        if (entered)
            MPI_Test(&meeting, &met, MPI_STATUS_IGNORE);
        sched_yield();
    }
    return met;
}

void processes_close(struct processes *processes, bool complete)
{
    if (!processes)
        return;
    bool clean = complete && all_have_come(processes);
    if (!clean)
        return; /* MPI_Finalize might wait for ever, and what is under way keeps its memory */
    MPI_Comm_free(&processes->comm);
    MPI_Finalize();
    free(processes->addresses);
    free(processes->coming);
    free(processes->sent);
    free(processes);
}
