/* The transport 'mpi' between queues of emulated GPUs, one a process: this program starts itself under mpirun, as
 * workers. Skipped, visibly, where mpirun is missing or the build has no MPI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdio.h>

#include "hw/transport/mpi_staging.h"
#include "tests/gpu/emulation.h"
#include "tests/gpu/message_cases.h"
#include "tests/hw/workers.h"

/* ---- workers: one process each ---- */

static void *stage_nothing(struct compute *compute, uint64_t bytes)
{
    (void)compute;
    (void)bytes;
    return NULL;
}

/* Rank 0 sends to rank 1, and is at the barrier before its bytes are. */
static bool send_before_barrier(const struct transport_ops *mpi, struct transport *end, uint32_t rank,
                                const struct compute_ops *ops, struct compute *compute)
{
    if (rank > 1)
        return mpi->barrier(end);
    char *memory = ops->allocate(compute, 64), bytes[64];
    const struct piece_of_memory piece = {memory, sizeof bytes};
    const struct queued_message message = {
        .send = rank == 0, .peer = 1 - rank, .stream = STREAM_OUTER, .pieces = &piece, .n_pieces = 1};
    ops->queues->fill(compute, STREAM_OUTER, memory, 3 + (int)rank, sizeof bytes);
    const int request = mpi->queue_message(end, &message);
    while (!mpi->test(end, request))
        sched_yield();
    const bool good = mpi->barrier(end);
    while (!mpi->settled(end))
        sched_yield();
    ops->read(compute, bytes, memory, sizeof bytes);
    ops->release(compute, memory);
    return good && bytes[0] == 3 && bytes[sizeof bytes - 1] == 3;
}

/* Rank 1 fails while everybody waits for bytes that nobody sends. */
static bool fail_while_waiting(const struct transport_ops *mpi, struct transport *end, uint32_t rank,
                               const struct compute_ops *ops, struct compute *compute)
{
    const struct piece_of_memory piece = {ops->allocate(compute, 9 << 20), 9 << 20};
    const struct queued_message message = {
        .send = false, .peer = 1 - rank, .stream = STREAM_EXCHANGE, .pieces = &piece, .n_pieces = 1};
    const int request = mpi->queue_message(end, &message);
    if (rank == 1)
        (mpi->fail)(end, "rank 1: has had enough"); /* not the macro of cmocka */
    while (!mpi->failed(end))
        if (mpi->test(end, request))
            return true;
    return false;
}

static bool exchange_all(const char *what, const struct transport_ops *mpi, struct transport *end, uint32_t rank,
                         uint32_t ranks, const struct compute_ops *ops, struct compute *compute)
{
    bool good = true;
    if (strcmp(what, "large") == 0) { /* more chunks than may be under way */
        const struct exchange large = {.seed = 3,
                                       .bytes_max = 70 << 20,
                                       .ranks = ranks,
                                       .rounds = 1,
                                       .streams = 1,
                                       .messages_max = 1,
                                       .all_largest = true};
        return exchange_messages(&large, mpi, end, rank, ops, compute);
    }
    if (strcmp(what, "fail") == 0)
        return fail_while_waiting(mpi, end, rank, ops, compute);
    for (uint64_t seed = 1; seed <= 4 && good; seed++) {
        const struct exchange exchange = {.seed = seed,
                                          .bytes_max = 3000,
                                          .ranks = ranks,
                                          .rounds = 20,
                                          .streams = STREAM_COUNT,
                                          .messages_max = MESSAGES_MAX};
        emulation_stream_order((uint32_t)seed * 8 + rank);
        good = exchange_messages(&exchange, mpi, end, rank, ops, compute) &&
               send_before_barrier(mpi, end, rank, ops, compute);
    }
    const struct exchange chunks = {
        .seed = 9, .bytes_max = 9 << 20, .ranks = ranks, .rounds = 2, .streams = 2, .messages_max = 2};
    return good && exchange_messages(&chunks, mpi, end, rank, ops, compute);
}

static int worker(const char *what, uint32_t ranks)
{
    const struct transport_ops *mpi = transport_find("mpi");
    const struct compute_settings compute_settings = {0};
    const struct transport_settings settings = {0}, refused = {.max_ctas = 2};
    struct queue_ops queues = *compute_cuda.queues;
    struct compute_ops ops = compute_cuda;
    struct experiment experiment;
    struct schedule schedule;
    struct transport *ends[8];
    uint32_t n_ends, rank;
    struct diagnostics diag;
    diagnostics_init(&diag);
    schedule_for_gpus(&schedule, &experiment, ranks);
    if (strcmp(what, "none") == 0)
        queues.stage = stage_nothing;
    ops.queues = &queues;
    if (!mpi->open(ranks, NULL, ends, &n_ends, &rank, &diag)) {
        mpi->close(ends, n_ends);
        return 2;
    }
    struct compute *compute = ops.open(&schedule, rank, &compute_settings, &diag);
    bool good = mpi->place_on_host(ends[0]) == (uint32_t)atoi(getenv("OMPI_COMM_WORLD_LOCAL_RANK"));
    good = !mpi->attach(ends[0], &ops, compute, ~0u, &refused, &diag) && good;
    good = mpi->attach(ends[0], &ops, compute, ~0u, &settings, &diag) && good;
    good = exchange_all(what, mpi, ends[0], rank, ranks, &ops, compute) && good;
    bool *all = memory_zeroed(ranks, sizeof *all);
    if (mpi->all_gather(ends[0], &good, sizeof good, all))
        for (uint32_t r = 0; r < ranks && rank == 0; r++)
            printf("rank %u %s\n", r, all[r] ? "got everything" : "got something else");
    else if (rank == 0)
        printf("%s\n", mpi->failed(ends[0]));
    fflush(stdout);
    free(all);
    mpi->close(ends, n_ends);
    ops.close(compute);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
    return !good;
}

/* ---- the tests: start workers, look at what they say ---- */

static void expect(uint32_t ranks, const char *what, bool passes, const char *text)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s %u", what, ranks);
    const struct outcome outcome = start(ranks, arguments);
    if (!strstr(outcome.text, text) || strstr(outcome.text, "something else") || (outcome.status == 0) != passes)
        fail_msg("expected '%s', got status %d:\n%s", text, outcome.status, outcome.text);
}

static void messages_come_through_the_memory_of_the_host(void **state)
{
    (void)state;
    expect(2, "exchange", true, "rank 1 got everything");
    expect(3, "exchange", true, "rank 2 got everything");
}

static void large_messages_go_in_chunks_one_after_the_other(void **state)
{
    (void)state;
    expect(2, "large", true, "rank 1 got everything");
}

static void no_memory_of_the_host_is_an_error(void **state)
{
    (void)state;
    expect(2, "none", false, ": no memory of the host that the GPU reaches for ");
}

static void a_failure_ends_what_waits_for_bytes(void **state)
{
    (void)state;
    expect(2, "fail", false, "rank 1: has had enough");
}

/* ---- staging ---- */

#define HOST_BYTES (1 << 20)

static uint64_t staged_bytes, sizes_staged[64];
static void *memory_staged[64];

static void *stage_some(struct compute *compute, uint64_t bytes)
{
    (void)compute;
    size_t i = 0;
    while (memory_staged[i])
        i++;
    if (staged_bytes + bytes > HOST_BYTES)
        return NULL;
    staged_bytes += sizes_staged[i] = bytes;
    return memory_staged[i] = memory_zeroed(bytes, 1);
}

static void unstage_some(struct compute *compute, void *memory)
{
    (void)compute;
    size_t i = 0;
    while (memory_staged[i] != memory)
        i++;
    staged_bytes -= sizes_staged[i];
    memory_staged[i] = NULL;
    free(memory);
}

static void memory_that_messages_go_through_is_used_again(void **state)
{
    (void)state;
    const struct queue_ops queues = {.stage = stage_some, .unstage = unstage_some};
    struct staging staging = {.ops = &queues};
    assert_null(staging_take(&staging, 0));
    void *first = staging_take(&staging, 5000), *second = staging_take(&staging, 5000);
    assert_true(first && second && first != second);
    memset(first, 1, 5000);
    staging_give(&staging, first, 5000);
    assert_ptr_equal(staging_take(&staging, 8000), first);
    staging_give(&staging, first, 8000);
    staging_give(&staging, NULL, 0);
    assert_int_equal(staged_bytes, 2 * 8192);
    assert_null(staging_take(&staging, HOST_BYTES)); /* not beside what is in use */
    staging_give(&staging, second, 5000);
    void *all = staging_take(&staging, HOST_BYTES);
    assert_non_null(all); /* in place of what is not */
    staging_give(&staging, all, HOST_BYTES);
    staging_fini(&staging);
    assert_int_equal(staged_bytes, 0);
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return worker(argv[1], (uint32_t)atoi(argv[2]));
    if (!can_start("mpi"))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_messages_go_through_is_used_again),
        cmocka_unit_test(messages_come_through_the_memory_of_the_host),
        cmocka_unit_test(large_messages_go_in_chunks_one_after_the_other),
        cmocka_unit_test(a_failure_ends_what_waits_for_bytes),
        cmocka_unit_test(no_memory_of_the_host_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
