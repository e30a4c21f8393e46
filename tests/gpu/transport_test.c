/* The transport 'local' between queues of an emulated GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <pthread.h>

#include "hw/transport/local_queue.h"
#include "tests/gpu/emulation.h"
#include "tests/gpu/message_cases.h"

#define RANKS_MAX 3

struct rank {
    const struct exchange *exchange;
    const struct schedule *schedule;
    struct transport *end;
    struct compute *compute;
    uint32_t rank;
    bool good;
    pthread_t thread;
};

static void *exchange_on_rank(void *context)
{
    struct rank *me = context;
    const struct transport_settings settings = {0};
    const struct compute_settings compute_settings = {0};
    struct diagnostics diag;
    diagnostics_init(&diag);
    me->compute = compute_cuda.open(me->schedule, me->rank, &compute_settings, &diag);
    me->good = me->compute && transport_local.attach(me->end, &compute_cuda, me->compute, ~0u, &settings, &diag);
    me->good = transport_local.barrier(me->end) && me->good;
    me->good =
        me->good && exchange_messages(me->exchange, &transport_local, me->end, me->rank, &compute_cuda, me->compute);
    transport_local.barrier(me->end); /* buffers stay until everybody is through */
    diagnostics_fini(&diag);
    return NULL;
}

static void exchange_locally(const struct exchange *exchange)
{
    struct experiment experiment;
    struct schedule schedule;
    struct transport *ends[RANKS_MAX];
    struct rank ranks[RANKS_MAX];
    uint32_t n_ends, first;
    struct diagnostics diag;
    diagnostics_init(&diag);
    schedule_for_gpus(&schedule, &experiment, exchange->ranks);
    assert_true(transport_local.open(exchange->ranks, NULL, ends, &n_ends, &first, &diag));
    for (uint32_t r = 0; r < exchange->ranks; r++) {
        ranks[r] = (struct rank){.exchange = exchange, .schedule = &schedule, .end = ends[r], .rank = r};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, exchange_on_rank, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < exchange->ranks; r++)
        pthread_join(ranks[r].thread, NULL);
    transport_local.close(ends, n_ends);
    for (uint32_t r = 0; r < exchange->ranks; r++) {
        assert_true(ranks[r].good);
        compute_cuda.close(ranks[r].compute);
    }
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void messages_keep_the_order_of_their_queues(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        emulation_stream_order((uint32_t)seed);
        exchange_locally(&(struct exchange){.seed = seed,
                                            .bytes_max = 3000,
                                            .ranks = 2 + (uint32_t)seed % 2,
                                            .rounds = 30,
                                            .streams = STREAM_COUNT,
                                            .messages_max = MESSAGES_MAX});
    }
}

/* ---- two ends on one thread ---- */

struct pair {
    struct experiment experiment;
    struct schedule schedule;
    struct local_board *board;
    struct compute *computes[2];
    struct local_queue *queues[2];
    char *memory[2];
};

static void pair_init(struct pair *pair)
{
    const struct compute_settings settings = {0};
    struct diagnostics diag;
    diagnostics_init(&diag);
    schedule_for_gpus(&pair->schedule, &pair->experiment, 2);
    pair->board = local_board_create(2);
    for (uint32_t r = 0; r < 2; r++) {
        pair->computes[r] = compute_cuda.open(&pair->schedule, r, &settings, &diag);
        assert_non_null(pair->computes[r]);
        pair->queues[r] = local_queue_create(pair->board, r, &compute_cuda, pair->computes[r]);
        pair->memory[r] = compute_cuda.allocate(pair->computes[r], 64);
        compute_cuda.fill(pair->computes[r], pair->memory[r], 10 + (int)r, 64);
    }
    diagnostics_fini(&diag);
}

static void pair_fini(struct pair *pair)
{
    local_board_forget(pair->board);
    for (uint32_t r = 0; r < 2; r++)
        local_queue_destroy(pair->queues[r]);
    local_board_destroy(pair->board);
    for (uint32_t r = 0; r < 2; r++)
        compute_cuda.close(pair->computes[r]);
    schedule_fini(&pair->schedule);
}

/* From rank 0 to rank 1: 3 and 5 bytes, received as 6 and 2. */
static struct local_message *post_end(struct pair *pair, bool send, struct mark *moves)
{
    char *memory = pair->memory[send ? 0 : 1];
    const struct piece_of_memory pieces[] = {{memory, send ? 3 : 6}, {memory + 16, send ? 5 : 2}};
    const struct queued_message message = {send, send ? 1 : 0, STREAM_EXCHANGE, pieces, 2, moves, NULL, 0};
    return local_queue_post(pair->queues[send ? 0 : 1], &message);
}

static void wait_for(struct pair *pair, uint32_t rank, const struct mark *mark)
{
    while (!compute_cuda.queues->passed(pair->computes[rank], mark))
        sched_yield();
}

static char byte_of_rank_1(struct pair *pair, uint64_t at)
{
    struct mark *mark = compute_cuda.queues->mark_create(pair->computes[1], false);
    char byte;
    compute_cuda.queues->mark(pair->computes[1], STREAM_EXCHANGE, mark);
    wait_for(pair, 1, mark);
    compute_cuda.queues->mark_destroy(pair->computes[1], mark);
    compute_cuda.read(pair->computes[1], &byte, pair->memory[1] + at, 1);
    return byte;
}

static void the_receiver_queues_the_copy_and_the_sender_follows(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    for (int round = 0; round < 3; round++) {
        struct local_message *sent = post_end(&pair, true, NULL);
        assert_false(local_queue_test(pair.queues[0], sent, true));
        struct local_message *received = post_end(&pair, false, NULL);
        assert_false(local_queue_test(pair.queues[0], sent, true));
        assert_true(local_queue_test(pair.queues[1], received, false));
        assert_true(local_queue_test(pair.queues[0], sent, true));
        assert_int_equal(byte_of_rank_1(&pair, 5), 10);
        assert_int_equal(byte_of_rank_1(&pair, 6), 11); /* between the pieces */
        assert_int_equal(byte_of_rank_1(&pair, 17), 10);
    }
    pair_fini(&pair);
}

/* Also on the sender's side, however long the receiver's queue keeps its bytes waiting. */
static void bytes_move_when_both_ends_are_there(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct mark *moves[2];
    for (uint32_t r = 0; r < 2; r++)
        moves[r] = compute_cuda.queues->mark_create(pair.computes[r], true);
    for (int round = 0; round < 40; round++) {
        struct local_message *sent = post_end(&pair, true, moves[0]);
        for (int i = 0; i < 20; i++)
            compute_cuda.queues->fill(pair.computes[1], STREAM_EXCHANGE, pair.memory[1], i, 64);
        struct local_message *received = post_end(&pair, false, moves[1]);
        assert_true(local_queue_test(pair.queues[1], received, false));
        assert_true(local_queue_test(pair.queues[0], sent, true));
        assert_int_equal(byte_of_rank_1(&pair, 0), 10);
        for (uint32_t r = 0; r < 2; r++)
            wait_for(&pair, r, moves[r]);
        assert_true(compute_cuda.queues->seconds(pair.computes[0], moves[1], moves[0]) >= 0);
    }
    for (uint32_t r = 0; r < 2; r++)
        compute_cuda.queues->mark_destroy(pair.computes[r], moves[r]);
    pair_fini(&pair);
}

struct moved {
    struct pair *pair;
    uint32_t calls, closes;
    uint64_t bytes;
};

static const char *move_or_complain(void *context, enum stream stream, const struct local_run *runs, uint32_t n_runs)
{
    struct moved *moved = context;
    for (uint32_t i = 0; i < n_runs; i++) {
        compute_cuda.queues->copy(moved->pair->computes[1], stream, runs[i].target, runs[i].source, runs[i].bytes);
        moved->bytes += runs[i].bytes;
    }
    return ++moved->calls == 1 ? NULL : "the library is out of order";
}

static void count_close(void *context)
{
    ((struct moved *)context)->closes++;
}

static void a_library_may_move_in_place_of_copies(void **state)
{
    (void)state;
    struct pair pair;
    pair_init(&pair);
    struct moved moved = {.pair = &pair};
    local_queue_set_mover(pair.queues[1],
                          &(struct local_mover){.move = move_or_complain, .close = count_close, .context = &moved});
    for (uint32_t round = 0; round < 2; round++) {
        struct local_message *sent = post_end(&pair, true, NULL), *received = post_end(&pair, false, NULL);
        assert_true(local_queue_test(pair.queues[1], received, false));
        assert_true(local_queue_test(pair.queues[0], sent, true));
        assert_int_equal(moved.calls, round + 1);
        assert_int_equal(moved.bytes, 8 * (round + 1));
        assert_int_equal(byte_of_rank_1(&pair, 17), 10);
        assert_true(round == 0 ? !local_queue_failure(pair.queues[1])
                               : strcmp(local_queue_failure(pair.queues[1]), "the library is out of order") == 0);
    }
    pair_fini(&pair);
    assert_int_equal(moved.closes, 1);
}

static int queue_end(struct transport *end, char *memory, bool send, uint32_t peer)
{
    const struct piece_of_memory piece = {memory, 8};
    const struct queued_message message = {
        .send = send, .peer = peer, .stream = STREAM_GRADIENT, .pieces = &piece, .n_pieces = 1};
    return transport_local.queue_message(end, &message);
}

/* Of three messages one end is posted, both are, one end is done with it. */
static void messages_that_are_half_way_end_with_the_transport(void **state)
{
    (void)state;
    const struct compute_settings compute_settings = {0};
    const struct transport_settings settings = {0};
    struct experiment experiment;
    struct schedule schedule;
    struct transport *ends[2];
    struct compute *of_rank[2];
    char *memory[2];
    uint32_t n_ends, first;
    struct diagnostics diag;
    diagnostics_init(&diag);
    schedule_for_gpus(&schedule, &experiment, 2);
    assert_true(transport_local.open(2, NULL, ends, &n_ends, &first, &diag));
    for (uint32_t r = 0; r < 2; r++) {
        of_rank[r] = compute_cuda.open(&schedule, r, &compute_settings, &diag);
        memory[r] = compute_cuda.allocate(of_rank[r], 8);
        assert_true(transport_local.attach(ends[r], &compute_cuda, of_rank[r], ~0u, &settings, &diag));
    }
    queue_end(ends[0], memory[0], true, 1);
    assert_true(transport_local.test(ends[1], queue_end(ends[1], memory[1], false, 0)));
    queue_end(ends[1], memory[1], true, 0);
    queue_end(ends[0], memory[0], false, 1);
    queue_end(ends[1], memory[1], false, 0);
    (transport_local.fail)(ends[0], "rank 0: enough"); /* not the macro of cmocka */
    transport_local.close(ends, n_ends);
    for (uint32_t r = 0; r < 2; r++)
        compute_cuda.close(of_rank[r]);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void what_is_said_of_a_library_is_refused(void **state)
{
    (void)state;
    const struct transport_settings settings[] = {
        {.library = "libnccl.so"}, {.max_ctas = 4}, {.zero_cta = true}, {.registered = true}};
    struct transport *end;
    uint32_t n_ends, first;
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(transport_local.open(1, NULL, &end, &n_ends, &first, &diag));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        assert_false(transport_local.attach(end, &compute_cuda, NULL, ~0u, &settings[i], &diag));
        assert_string_equal(diag.lines[i], "transport 'local' copies within one device: what is said of a "
                                           "communication library has no effect");
    }
    transport_local.close(&end, n_ends);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_the_order_of_their_queues),
        cmocka_unit_test(the_receiver_queues_the_copy_and_the_sender_follows),
        cmocka_unit_test(bytes_move_when_both_ends_are_there),
        cmocka_unit_test(a_library_may_move_in_place_of_copies),
        cmocka_unit_test(messages_that_are_half_way_end_with_the_transport),
        cmocka_unit_test(what_is_said_of_a_library_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
