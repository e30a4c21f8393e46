/* Transports without MPI: cutting messages, and the transport 'local'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport/local_messages.h"
#include "hw/transport/message_chunks.h"
#include "models/base/memory.h"

/* ---- cutting ---- */

/* Chunks that are made of the pieces, in order and whole, each small enough for a 32-bit count. No memory is touched.
 */
static void expect_cut(const struct piece_of_memory *pieces, uint32_t n_pieces, uint32_t n_chunks)
{
    uint64_t bytes = message_bytes(pieces, n_pieces), sum = 0;
    assert_int_equal(message_chunks(bytes), n_chunks);
    uint32_t piece = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < n_chunks; i++) {
        struct piece_of_memory chunk[PIECES_MAX];
        uint32_t n = message_chunk(pieces, n_pieces, i, chunk);
        uint64_t size = message_bytes(chunk, n);
        assert_true(size <= INT32_MAX && (size > 0 || bytes == 0));
        assert_true(i + 1 == n_chunks || size == CHUNK_BYTES_MAX); /* both ends cut alike, however their pieces are */
        for (uint32_t p = 0; p < n; p++) {
            while (at == pieces[piece].bytes) {
                piece++;
                at = 0;
            }
            assert_ptr_equal(chunk[p].memory, (char *)pieces[piece].memory + at);
            at += chunk[p].bytes;
            assert_true(at <= pieces[piece].bytes);
        }
        sum += size;
    }
    assert_true(sum == bytes);
}

static void messages_beyond_32_bits_are_cut_into_chunks(void **state)
{
    (void)state;
    char *nowhere = (char *)(uintptr_t)0x1000; /* an address only */
    const struct {
        uint64_t bytes;
        uint32_t chunks;
    } cases[] = {{0, 1},
                 {1, 1},
                 {UINT64_C(1) << 30, 1},
                 {(UINT64_C(1) << 30) + 1, 2},
                 {(UINT64_C(1) << 31) - 1, 2},
                 {UINT64_C(1) << 31, 2},
                 {(UINT64_C(1) << 31) + 1, 3},
                 {(UINT64_C(1) << 32) + 8, 5},
                 {UINT64_C(10) << 30, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t half = cases[i].bytes / 2, third = cases[i].bytes / 3;
        struct piece_of_memory whole = {nowhere, cases[i].bytes};
        struct piece_of_memory two[] = {{nowhere, half}, {nowhere + (UINT64_C(1) << 40), cases[i].bytes - half}};
        struct piece_of_memory three[] = {{nowhere, third},
                                          {nowhere + (UINT64_C(1) << 40), third},
                                          {nowhere + (UINT64_C(1) << 41), cases[i].bytes - 2 * third}};
        expect_cut(&whole, 1, cases[i].chunks);
        expect_cut(two, 2, cases[i].chunks);
        expect_cut(three, 3, cases[i].chunks);
    }
}

/* The same bytes at both ends, in order and whole, however large. No memory is touched. */
static void runs_are_what_is_in_one_piece_at_both_ends(void **state)
{
    (void)state;
    const uint64_t giga = UINT64_C(1) << 30;
    char *nowhere = (char *)(uintptr_t)0x1000, *elsewhere = nowhere + (UINT64_C(1) << 40);
    const struct local_message message = {
        .source = {.pieces = {{nowhere, 5 * giga}, {nowhere + 6 * giga, 0}, {nowhere + 7 * giga, 5 * giga + 1}},
                   .n_pieces = 3},
        .target = {.pieces = {{elsewhere, 1}, {elsewhere + giga, 9 * giga}, {elsewhere + 11 * giga, giga}},
                   .n_pieces = 3}};
    const struct local_run expected[] = {{elsewhere, nowhere, 1},
                                         {elsewhere + giga, nowhere + 1, 5 * giga - 1},
                                         {elsewhere + 6 * giga - 1, nowhere + 7 * giga, 4 * giga + 1},
                                         {elsewhere + 11 * giga, nowhere + 11 * giga + 1, giga}};
    struct local_run runs[LOCAL_RUNS_MAX];
    assert_int_equal(local_message_runs(&message, runs), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_ptr_equal(runs[i].target, expected[i].target);
        assert_ptr_equal(runs[i].source, expected[i].source);
        assert_true(runs[i].bytes == expected[i].bytes);
    }
    assert_int_equal(local_message_runs(&(struct local_message){.source = {.n_pieces = 1}}, runs), 0);
}

/* ---- local ---- */

#define RANKS 3

struct rank {
    struct transport *end;
    uint32_t rank;
    bool good;
    pthread_t thread;
};

static void on_every_rank(void *(*body)(void *rank))
{
    struct transport *ends[RANKS];
    uint32_t n_ends, first;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(transport_local.open(RANKS, NULL, ends, &n_ends, &first, &diag));
    assert_int_equal(n_ends, RANKS);
    struct rank ranks[RANKS] = {0};
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){.end = ends[r], .rank = r};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, body, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(ranks[r].thread, NULL);
    for (uint32_t r = 0; r < RANKS; r++)
        assert_true(ranks[r].good);
    transport_local.close(ends, n_ends);
    diagnostics_fini(&diag);
}

static void wait_all(struct transport *end, const int *requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        while (!transport_local.test(end, requests[i]))
            sched_yield();
}

/* Two messages to the next rank in each of two streams, posted sends first; their pieces are cut differently. */
static void *pass_round(void *context)
{
    struct rank *me = context;
    me->good = true;
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t next = (me->rank + 1) % RANKS, previous = (me->rank + RANKS - 1) % RANKS;
        uint32_t out[2][2][6], in[2][2][6] = {0};
        int requests[8];
        size_t n = 0;
        for (uint32_t s = 0; s < 2; s++) {
            for (uint32_t m = 0; m < 2; m++) {
                for (uint32_t i = 0; i < 6; i++)
                    out[s][m][i] = round * 1000 + me->rank * 100 + s * 20 + m * 10 + i;
                const struct piece_of_memory pieces[] = {{out[s][m], 2 * sizeof(uint32_t)},
                                                         {out[s][m] + 2, 4 * sizeof(uint32_t)}};
                requests[n++] =
                    transport_local.post(me->end, true, next, s ? STREAM_GRADIENT : STREAM_EXCHANGE, pieces, 2);
            }
        }
        for (uint32_t s = 2; s-- > 0;) { /* the other stream first: streams do not mix */
            for (uint32_t m = 0; m < 2; m++) {
                const struct piece_of_memory pieces[] = {
                    {in[s][m], 3 * sizeof(uint32_t)}, {in[s][m] + 3, 0}, {in[s][m] + 3, 3 * sizeof(uint32_t)}};
                requests[n++] =
                    transport_local.post(me->end, false, previous, s ? STREAM_GRADIENT : STREAM_EXCHANGE, pieces, 3);
            }
        }
        wait_all(me->end, requests, n);
        for (uint32_t s = 0; s < 2; s++)
            for (uint32_t m = 0; m < 2; m++)
                for (uint32_t i = 0; i < 6; i++)
                    me->good = me->good && in[s][m][i] == round * 1000 + previous * 100 + s * 20 + m * 10 + i;
    }
    return NULL;
}

static void messages_match_in_posting_order_stream_by_stream(void **state)
{
    (void)state;
    on_every_rank(pass_round);
}

static void *gather(void *context)
{
    struct rank *me = context;
    me->good = true;
    for (uint32_t round = 0; round < 50; round++) {
        uint64_t mine = round * 10 + me->rank, all[RANKS] = {0};
        me->good = transport_local.all_gather(me->end, &mine, sizeof mine, all) && me->good;
        for (uint32_t r = 0; r < RANKS; r++)
            me->good = me->good && all[r] == round * 10 + r;
    }
    me->good = transport_local.barrier(me->end) && me->good;
    return NULL;
}

static void what_is_gathered_is_in_rank_order(void **state)
{
    (void)state;
    on_every_rank(gather);
}

/* Rank 1 fails in place of the barrier that the others are at; a message stays half-way. */
static void *fail_once(void *context)
{
    struct rank *me = context;
    uint64_t number = 0;
    const struct piece_of_memory piece = {&number, sizeof number};
    if (me->rank == 1) {
        transport_local.post(me->end, true, 2, STREAM_EXCHANGE, &piece, 1);
        (transport_local.fail)(me->end, "rank 1: the first reason"); /* not the macro of cmocka */
        (transport_local.fail)(me->end, "rank 1: another");
        me->good = true;
    } else {
        me->good = !transport_local.barrier(me->end);
    }
    const char *reason = transport_local.failed(me->end);
    me->good = me->good && reason && strcmp(reason, "rank 1: the first reason") == 0;
    return NULL;
}

static void a_failure_ends_every_wait_with_its_first_reason(void **state)
{
    (void)state;
    on_every_rank(fail_once);
}

/* ---- choosing ---- */

static void the_launcher_decides_when_nobody_says(void **state)
{
    (void)state;
    struct diagnostics diag;
    diagnostics_init(&diag);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_SIZE");
    unsetenv("PMIX_SIZE");
    unsetenv("SLURM_STEP_NUM_TASKS");
    assert_int_equal(transport_launched(), 0);
    assert_ptr_equal(transport_choose(NULL, 4, &diag), &transport_local);
    assert_int_equal(setenv("OMPI_COMM_WORLD_SIZE", "2", 1), 0);
    assert_int_equal(transport_launched(), 2);
    const struct transport_ops *mpi = transport_find("mpi");
    assert_ptr_equal(transport_choose(NULL, 4, &diag), mpi);
    if (!mpi)
        assert_string_equal(diag.lines[0], "started as 2 processes by an MPI launcher for 4 ranks, but this cpsim was "
                                           "built without MPI");
    assert_null(transport_choose("local", 4, &diag));
    assert_string_equal(diag.lines[diag.count - 1], "transport 'local' runs all 4 ranks in one process, but 2 "
                                                    "processes were started");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    assert_int_equal(setenv("SLURM_STEP_NUM_TASKS", "1", 1), 0); /* an interactive shell: nobody else was started */
    assert_int_equal(transport_launched(), 0);
    assert_int_equal(setenv("SLURM_STEP_NUM_TASKS", "3", 1), 0);
    assert_int_equal(transport_launched(), 3);
    unsetenv("SLURM_STEP_NUM_TASKS");
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_beyond_32_bits_are_cut_into_chunks),
        cmocka_unit_test(runs_are_what_is_in_one_piece_at_both_ends),
        cmocka_unit_test(messages_match_in_posting_order_stream_by_stream),
        cmocka_unit_test(what_is_gathered_is_in_rank_order),
        cmocka_unit_test(a_failure_ends_every_wait_with_its_first_reason),
        cmocka_unit_test(the_launcher_decides_when_nobody_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
