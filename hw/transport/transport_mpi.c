/* transport_mpi.c - the transport 'mpi': one rank a process, on any number of hosts. Its collectives are in
 * transport_mpi_calls.c, messages of a device's memory in transport_mpi_queue.c; no other file knows mpi.h.
 *
 * A message is one MPI message (or one a GiB), non-blocking, with the stream as its tag: MPI matches messages of one
 * source, communicator and tag in posting order, which is the order that transport.h asks for. A message in several
 * pieces is a derived datatype, so that the two ends may be cut differently.
 *
 * Failures: a rank that fails tells every other one on a communicator of its own, where each has a receive posted;
 * nobody blocks inside MPI, so everybody sees it. A rank that dies is noticed by mpirun, which ends the job and names
 * it. MPI is initialised when this transport is opened, not before.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "hw/clock.h"
#include "hw/transport/message_chunks.h"
#include "hw/transport/transport_mpi.h"
#include "models/base/memory.h"

#define CLOSE_SECONDS 5

bool mpi_is_simulated(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(version, &length);
    return strstr(version, "SMPI") != NULL;
}

/* Which of this host's processes this one is. All processes of the world come here. */
static int own_place_on_host(int place)
{
    MPI_Comm host;
    int place_on_host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, place, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &place_on_host);
    MPI_Comm_free(&host);
    return place_on_host;
}

/* The rank that sits at `place`. */
static int rank_at(uint32_t ranks, const uint32_t *place_of_rank, int place)
{
    for (uint32_t rank = 0; place_of_rank && rank < ranks; rank++)
        if (place_of_rank[rank] == (uint32_t)place)
            return (int)rank;
    return place;
}

static bool open_mpi(uint32_t ranks, const uint32_t *place_of_rank, struct transport **ends, uint32_t *n_ends,
                     uint32_t *first_rank, struct diagnostics *diag)
{
    int initialised, thread_level, size, rank;
    *n_ends = *first_rank = 0;
    if (mpi_is_simulated())
        return diagnostics_add(diag, "this program was linked with SimGrid's MPI in place of the real one");
    MPI_Initialized(&initialised);
    if (!initialised)
        MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &thread_level);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    *first_rank = (uint32_t)rank;
    const int place_on_host = own_place_on_host(rank);
    if ((uint32_t)size != ranks)
        return diagnostics_add(diag,
                               "the experiment has %u ranks, but %d process%s started, expected one for each rank",
                               ranks, size, size == 1 ? " was" : "es were");
    struct transport *end = memory_zeroed(1, sizeof *end);
    end->ranks = size;
    end->place_on_host = place_on_host;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank_at(ranks, place_of_rank, rank), &end->data);
    MPI_Comm_dup(end->data, &end->control);
    MPI_Comm_rank(end->data, &end->rank);
    *first_rank = (uint32_t)end->rank;
    MPI_Irecv(end->heard, REASON_BYTES, MPI_CHAR, MPI_ANY_SOURCE, 0, end->control, &end->hears);
    ends[0] = end;
    *n_ends = 1;
    return true;
}

/* Everybody comes here in the end; whoever has nothing more to say waits for those that still print. */
static bool all_have_come(void)
{
    MPI_Request meeting;
    int met = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &meeting);
    for (double begin = seconds_now(); !met && seconds_now() < begin + CLOSE_SECONDS; sched_yield())
        MPI_Test(&meeting, &met, MPI_STATUS_IGNORE);
    return met;
}

/* After a failure messages may hang in the air, and MPI_Finalize would wait for them: the processes just end. */
static void close_mpi(struct transport **ends, uint32_t n_ends)
{
    int initialised = 0, finalised = 0;
    if (!mpi_is_simulated()) {
        MPI_Initialized(&initialised);
        MPI_Finalized(&finalised);
    }
    if (!initialised || finalised)
        return;
    bool clean = all_have_come();
    if (n_ends) {
        struct transport *end = ends[0];
        clean = clean && !end->failure && mpi_queue_settled(end);
        if (clean) {
            MPI_Cancel(&end->hears);
            MPI_Wait(&end->hears, MPI_STATUS_IGNORE);
            mpi_calls_close(end);
            mpi_queue_close(end);
            MPI_Comm_free(&end->data);
            MPI_Comm_free(&end->control);
        }
        for (size_t i = 0; i < end->n_requests; i++) {
            free(end->requests[i].chunks);
            free(end->requests[i].queued);
        }
        free(end->requests);
        if (clean) /* else MPI may still write to what was said and heard */
            free(end);
    }
    if (clean)
        MPI_Finalize();
}

/* ---- messages ---- */

int mpi_take_request(struct transport *end, struct mpi_request request)
{
    size_t i = 0;
    while (i < end->n_requests && (end->requests[i].chunks || end->requests[i].queued))
        i++;
    if (i == end->n_requests) {
        memory_grow(end->requests, end->n_requests, end->capacity);
        end->n_requests++;
    }
    end->requests[i] = request;
    return (int)i;
}

static void post_chunk(struct transport *end, bool send, int peer, int tag, const struct piece_of_memory *pieces,
                       uint32_t n_pieces, MPI_Request *request)
{
    void *memory = n_pieces ? pieces[0].memory : NULL;
    int count = n_pieces ? (int)pieces[0].bytes : 0;
    MPI_Datatype type = MPI_BYTE;
    if (n_pieces > 1) {
        int lengths[PIECES_MAX];
        MPI_Aint addresses[PIECES_MAX];
        for (uint32_t i = 0; i < n_pieces; i++) {
            lengths[i] = (int)pieces[i].bytes;
            MPI_Get_address(pieces[i].memory, &addresses[i]);
        }
        MPI_Type_create_hindexed((int)n_pieces, lengths, addresses, MPI_BYTE, &type);
        MPI_Type_commit(&type);
        memory = MPI_BOTTOM;
        count = 1;
    }
    if (send)
        MPI_Isend(memory, count, type, peer, tag, end->data, request);
    else
        MPI_Irecv(memory, count, type, peer, tag, end->data, request);
    if (n_pieces > 1)
        MPI_Type_free(&type); /* MPI keeps it until the message is through */
}

static int post(struct transport *end, bool send, uint32_t peer, enum stream stream,
                const struct piece_of_memory *pieces, uint32_t n_pieces)
{
    uint32_t n_chunks = message_chunks(message_bytes(pieces, n_pieces));
    struct mpi_request request = {memory_zeroed(n_chunks, sizeof *request.chunks), (int)n_chunks, NULL, NULL};
    for (uint32_t i = 0; i < n_chunks; i++) {
        struct piece_of_memory chunk[PIECES_MAX];
        uint32_t n = message_chunk(pieces, n_pieces, i, chunk);
        post_chunk(end, send, (int)peer, (int)stream, chunk, n, &request.chunks[i]);
    }
    return mpi_take_request(end, request);
}

static bool test(struct transport *end, int index)
{
    struct mpi_request *request = &end->requests[index];
    int done = 0;
    if (request->queued)
        done = mpi_queue_test(end, request->queued);
    else
        MPI_Testall(request->n_chunks, request->chunks, &done, MPI_STATUSES_IGNORE);
    if (!done)
        return false;
    if (request->call)
        mpi_call_finish(request->call);
    free(request->chunks);
    free(request->queued);
    *request = (struct mpi_request){.chunks = NULL};
    return true;
}

static uint32_t place_on_host(struct transport *end)
{
    return (uint32_t)end->place_on_host;
}

/* ---- all ranks ---- */

static const char *failed(struct transport *end)
{
    int heard = 0;
    if (!end->failure)
        MPI_Test(&end->hears, &heard, MPI_STATUS_IGNORE);
    if (heard) {
        end->heard[REASON_BYTES - 1] = '\0';
        end->failure = end->heard;
    }
    return end->failure;
}

/* Waits without blocking inside MPI, so that a failure elsewhere is seen. Others may wait for what is queued here. */
static bool wait_for(struct transport *end, MPI_Request *request)
{
    int done = 0;
    while (!done && !failed(end)) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        mpi_queue_settled(end);
        if (!done)
            sched_yield();
    }
    return done;
}

static bool barrier(struct transport *end)
{
    MPI_Request request;
    MPI_Ibarrier(end->data, &request);
    return wait_for(end, &request);
}

/* In lines, whose number fits an int for longer than that of bytes. */
#define LINE_BYTES 64

/* Through memory of its own: after a failure MPI may still write to it, and then it is not freed. */
static bool all_gather(struct transport *end, const void *mine, uint64_t bytes, void *all)
{
    uint64_t lines = (bytes + LINE_BYTES - 1) / LINE_BYTES, stride = lines * LINE_BYTES;
    char *memory = memory_zeroed((size_t)end->ranks + 1, stride), *sent = memory + (size_t)end->ranks * stride;
    MPI_Datatype line;
    MPI_Request request;
    memcpy(sent, mine, bytes);
    MPI_Type_contiguous(LINE_BYTES, MPI_BYTE, &line);
    MPI_Type_commit(&line);
    MPI_Iallgather(sent, (int)lines, line, memory, (int)lines, line, end->data, &request);
    MPI_Type_free(&line);
    if (!wait_for(end, &request))
        return false;
    for (int r = 0; r < end->ranks; r++)
        memcpy((char *)all + (uint64_t)r * bytes, memory + (uint64_t)r * stride, bytes);
    free(memory);
    return true;
}

void mpi_fail(struct transport *end, const char *reason)
{
    if (failed(end))
        return;
    strncpy(end->said, reason, REASON_BYTES - 1);
    end->failure = end->said;
    for (int peer = 0; peer < end->ranks; peer++) {
        MPI_Request request;
        if (peer == end->rank)
            continue;
        MPI_Isend(end->said, REASON_BYTES, MPI_CHAR, peer, 0, end->control, &request);
        MPI_Request_free(&request);
    }
}

const struct transport_ops transport_mpi = {
    .name = "mpi",
    .summary = "one rank a process, started by mpirun, on any number of hosts",
    .one_rank_a_process = true,
    .open = open_mpi,
    .close = close_mpi,
    .post = post,
    .open_team = mpi_open_team,
    .post_collective = mpi_post_collective,
    .test = test,
    .place_on_host = place_on_host,
    .attach = mpi_attach,
    .queue_message = mpi_queue_message,
    .settled = mpi_queue_settled,
    .barrier = barrier,
    .all_gather = all_gather,
    .fail = mpi_fail,
    .failed = failed,
};
