/* The transport 'nccl-threads' on emulated GPUs, over an NCCL that is emulated too (fake_nccl.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hw/nccl/nccl_end.h"
#include "kernels/cuda/runtime.h"
#include "tests/gpu/emulation.h"
#include "tests/gpu/fake_nccl.h"
#include "tests/gpu/message_cases.h"
#include "tests/gpu/queued_calls.h"
#include "tests/hw/collective_cases.h"

#define NCCL (&transport_nccl_threads)
#define RANKS 4
#define TWO_STREAMS (1u << STREAM_EXCHANGE | 1u << STREAM_GRADIENT)

static struct fake_nccl_counts take_counts(void)
{
    void *handle = dlopen(FAKE_NCCL, RTLD_NOW);
    fake_nccl_take_counts_function *take;
    void *symbol = dlsym(handle, "fake_nccl_take_counts");
    memcpy(&take, &symbol, sizeof take);
    return take();
}

/* ---- ranks ---- */

struct rank {
    uint32_t rank, ranks;
    struct transport *end;
    struct compute *compute;
    const struct schedule *schedule;
    const struct transport_settings *settings;
    uint32_t streams;
    double seconds_to_come; /* rank 1's, if not 0: rank 0 must hear of it from rank 1 */
    bool lost;              /* rank 1 fails in place of attaching */
    bool (*body)(struct rank *me);
    bool attached, good;
    struct diagnostics diag;
    pthread_t thread;
};

static void *run_rank(void *context)
{
    struct rank *me = context;
    const struct compute_settings compute_settings = {.device = (int)me->rank % cuda_devices(NULL, 0)};
    if (me->seconds_to_come > 0)
        me->end->seconds_to_come = me->rank == 0 ? 1000 : me->seconds_to_come;
    me->compute = compute_cuda.open(me->schedule, me->rank, &compute_settings, &me->diag);
    cuda_use(0); /* whatever it was: the GPU is the backend's */
    if (me->lost && me->rank == 1) {
        diagnostics_add(&me->diag, "rank 1: lost its way");
        (NCCL->fail)(me->end, me->diag.lines[0]);
        return NULL;
    }
    me->attached = NCCL->attach(me->end, &compute_cuda, me->compute, me->streams, me->settings, &me->diag);
    me->good = me->body && me->attached && me->body(me);
    if (me->good)
        NCCL->barrier(me->end); /* buffers stay until everybody is through */
    return NULL;
}

/* What a test looks at after all ranks have come to their end. */
struct run {
    struct rank ranks[RANKS];
    struct fake_nccl_counts counts; /* of all that the ranks did, and what is left behind it */
};

/* The machine has `gpus` GPUs. Whatever is left in the streams at the end must come to an end too. */
static void run_on(struct run *run, uint32_t gpus, uint32_t ranks, const struct rank *like)
{
    struct experiment experiment;
    struct schedule schedule;
    struct transport *ends[RANKS];
    uint32_t n_ends, first;
    char text[8];
    const struct transport_settings settings = {.library = FAKE_NCCL};
    struct diagnostics diag;
    diagnostics_init(&diag);
    snprintf(text, sizeof text, "%u", gpus % 100);
    setenv("CPSIM_EMULATED_GPUS", text, 1);
    emulation_reset();
    take_counts();
    schedule_for_gpus(&schedule, &experiment, ranks);
    assert_true(NCCL->open(ranks, NULL, ends, &n_ends, &first, &diag));
    assert_int_equal(n_ends, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        struct rank *rank = &run->ranks[r];
        *rank = *like;
        rank->rank = r;
        rank->ranks = ranks;
        rank->end = ends[r];
        rank->schedule = &schedule;
        rank->settings = like->settings ? like->settings : &settings;
        rank->streams = like->streams ? like->streams : TWO_STREAMS;
        diagnostics_init(&rank->diag);
        assert_int_equal(pthread_create(&rank->thread, NULL, run_rank, rank), 0);
    }
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(run->ranks[r].thread, NULL);
    for (uint32_t r = 0; r < ranks; r++)
        compute_cuda.close(run->ranks[r].compute);
    for (uint32_t device = 0; device < gpus; device++) {
        cuda_use((int)device);
        assert_int_equal(cuda_wait(), 0);
    }
    NCCL->close(ends, n_ends);
    run->counts = take_counts();
    assert_int_equal(run->counts.comms, 0);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

static void run_fini(struct run *run, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++)
        diagnostics_fini(&run->ranks[r].diag);
}

/* All is well on every rank, and the communicators are taken down as they should be. */
static struct fake_nccl_counts expect_good(uint32_t ranks, const struct rank *like)
{
    struct run run;
    run_on(&run, ranks, ranks, like);
    for (uint32_t r = 0; r < ranks; r++) {
        if (run.ranks[r].diag.count)
            print_error("rank %u: %s\n", r, run.ranks[r].diag.lines[0]);
        assert_true(run.ranks[r].good);
    }
    assert_int_equal(run.counts.aborts, 0);
    assert_int_equal(run.counts.registrations, 0);
    run_fini(&run, ranks);
    return run.counts;
}

static void synchronise(struct rank *me, enum stream stream)
{
    struct mark *mark = compute_cuda.queues->mark_create(me->compute, false);
    compute_cuda.queues->mark(me->compute, stream, mark);
    while (!compute_cuda.queues->passed(me->compute, mark) && !NCCL->failed(me->end))
        sched_yield();
    compute_cuda.queues->mark_destroy(me->compute, mark);
}

static bool wait_for(struct rank *me, int request)
{
    while (!NCCL->failed(me->end)) {
        if (NCCL->test(me->end, request))
            return true;
        sched_yield();
    }
    return false;
}

/* ---- messages ---- */

static bool exchange_random(struct rank *me)
{
    bool good = true;
    for (uint64_t seed = 1; seed <= 6 && good; seed++) {
        const struct exchange exchange = {.seed = seed,
                                          .bytes_max = 3000,
                                          .ranks = me->ranks,
                                          .rounds = 20,
                                          .streams = STREAM_COUNT,
                                          .messages_max = MESSAGES_MAX};
        good = exchange_messages(&exchange, NCCL, me->end, me->rank, &compute_cuda, me->compute);
        good = NCCL->barrier(me->end) && good;
    }
    return good;
}

/* Groups of messages in all streams, cut differently at both ends, between what is queued around them. */
static void messages_keep_the_order_of_their_queues(void **state)
{
    (void)state;
    const struct rank like = {.body = exchange_random, .streams = ~0u};
    expect_good(2, &like);
    expect_good(3, &like);
}

static char *bytes_of(struct rank *me, const char *text, uint64_t bytes)
{
    char *memory = compute_cuda.allocate(me->compute, bytes);
    compute_cuda.fill(me->compute, memory, '.', bytes);
    if (text)
        compute_cuda.write(me->compute, memory, text, strlen(text));
    return memory;
}

static bool holds(struct rank *me, const char *memory, const char *text)
{
    char host[64] = "";
    compute_cuda.read(me->compute, host, memory, strlen(text));
    return memcmp(host, text, strlen(text)) == 0;
}

/* Six bytes and two, which touch at one end and are apart at the other: no copies are made at either. */
static bool send_arrays(struct rank *me)
{
    const uint64_t arrays[] = {6, 0, 2};
    char *memory = bytes_of(me, me->rank == 0 ? "abcdefgh" : NULL, 16);
    const struct piece_of_memory together[] = {{memory, 8}}, apart[] = {{memory, 6}, {memory + 10, 2}};
    const struct queued_message message = {.send = me->rank == 0,
                                           .peer = 1 - me->rank,
                                           .stream = STREAM_EXCHANGE,
                                           .pieces = me->rank == 0 ? together : apart,
                                           .n_pieces = me->rank == 0 ? 1 : 2,
                                           .arrays = arrays,
                                           .n_arrays = 3};
    bool good =
        wait_for(me, NCCL->queue_message(me->end, &message)) && me->end->streams[STREAM_EXCHANGE].n_scratches == 0;
    synchronise(me, STREAM_EXCHANGE);
    return good && (me->rank == 0 || holds(me, memory, "abcdef....gh...."));
}

static void an_array_is_one_send_however_its_ends_are_cut(void **state)
{
    (void)state;
    const struct fake_nccl_counts counts = expect_good(2, &(struct rank){.body = send_arrays});
    assert_int_equal(counts.sends, 2);
    assert_int_equal(counts.receives, 2);
    assert_int_equal(counts.groups, 2);
}

/* Ends within an array at one end: it goes through memory of that end's. */
static bool send_cut_array(struct rank *me)
{
    const uint64_t arrays[] = {3, 5};
    char *memory = bytes_of(me, me->rank == 0 ? "abcdefgh" : NULL, 16);
    const struct piece_of_memory two[] = {{memory, 3}, {memory + 3, 5}}, cut_up[] = {{memory, 5}, {memory + 8, 3}};
    const struct queued_message message = {.send = me->rank == 0,
                                           .peer = 1 - me->rank,
                                           .stream = STREAM_EXCHANGE,
                                           .pieces = me->rank == 0 ? two : cut_up,
                                           .n_pieces = 2,
                                           .arrays = arrays,
                                           .n_arrays = 2};
    bool good = wait_for(me, NCCL->queue_message(me->end, &message)) &&
                me->end->streams[STREAM_EXCHANGE].n_scratches == me->rank;
    synchronise(me, STREAM_EXCHANGE);
    return good && (me->rank == 0 || holds(me, memory, "abcde...fgh....."));
}

static void an_array_that_is_cut_up_goes_through_scratch_memory(void **state)
{
    (void)state;
    const struct fake_nccl_counts counts = expect_good(2, &(struct rank){.body = send_cut_array});
    assert_int_equal(counts.sends, 2);
}

/* Left and right neighbour are one rank: both send first, right then left, and receive in that order. */
static bool pass_both_ways(struct rank *me)
{
    char *memory = bytes_of(me, me->rank == 0 ? "0r0l" : "1r1l", 16);
    int requests[4];
    NCCL->group_begin(me->end);
    for (uint32_t i = 0; i < 4; i++) {
        const struct piece_of_memory piece = {memory + 2 * i, 2};
        requests[i] = NCCL->queue_message(
            me->end,
            &(struct queued_message){
                .send = i < 2, .peer = 1 - me->rank, .stream = STREAM_EXCHANGE, .pieces = &piece, .n_pieces = 1});
    }
    NCCL->group_end(me->end);
    bool good = true;
    for (uint32_t i = 0; i < 4; i++)
        good = wait_for(me, requests[i]) && good;
    synchronise(me, STREAM_EXCHANGE);
    return good && holds(me, memory, me->rank == 0 ? "0r0l1r1l" : "1r1l0r0l");
}

static void two_ranks_that_are_each_others_both_neighbours_exchange_in_one_group(void **state)
{
    (void)state;
    const struct fake_nccl_counts counts = expect_good(2, &(struct rank){.body = pass_both_ways});
    assert_int_equal(counts.groups, 2);
    assert_int_equal(counts.sends, 4);
}

/* Memory of the host, for what ranks tell each other beside. */
static bool tell_by_the_host(struct rank *me)
{
    char text[4] = "abc", got[4] = "";
    const struct piece_of_memory out = {text, 4}, in = {got, 4};
    uint32_t peer = 1 - me->rank;
    int requests[] = {NCCL->post(me->end, true, peer, STREAM_EXCHANGE, &out, 1),
                      NCCL->post(me->end, false, peer, STREAM_EXCHANGE, &in, 1)};
    uint32_t mine = me->rank + 10, all[2];
    return wait_for(me, requests[0]) && wait_for(me, requests[1]) && strcmp(got, "abc") == 0 &&
           NCCL->all_gather(me->end, &mine, sizeof mine, all) && all[0] == 10 && all[1] == 11 &&
           NCCL->place_on_host(me->end) == me->rank && pass_both_ways(me);
}

static void ranks_also_tell_each_other_what_the_host_holds(void **state)
{
    (void)state;
    expect_good(2, &(struct rank){.body = tell_by_the_host});
}

/* ---- collectives ---- */

static bool collect_random(struct rank *me)
{
    struct transport_ops bridge = *NCCL;
    queued_calls = (struct queued_calls){.transport = NCCL, .ops = &compute_cuda, .compute = me->compute};
    bridge.open_team = bridge_open_team;
    bridge.post_collective = bridge_post;
    bridge.test = bridge_test;
    return run_cases(&bridge, me->end, me->rank, me->ranks, 150) && !compute_cuda.failure(me->compute);
}

static void collectives_of_all_teams_give_what_they_should(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
        const struct fake_nccl_counts counts = expect_good(ranks, &(struct rank){.body = collect_random});
        assert_true(counts.all_reduces > 0);
        assert_true(ranks == 1 || (counts.broadcasts > 0 && counts.reduces > 0 && counts.sends > 0));
    }
}

/* Equal blocks of so many fp32 numbers: rank r's are all r + 1; all of it is one run of memory, or not; members are in
 * the order of ranks, or against it. */
static bool gather_and_scatter(struct rank *me, uint64_t numbers, bool one_run, bool backwards)
{
    enum { ALL = RANKS };
    uint64_t bytes[ALL], size = numbers * sizeof(float), stride = size + (one_run ? 0 : 256);
    uint32_t members[ALL];
    struct share_of_memory given[ALL] = {0}, got[ALL] = {0};
    float *host = malloc(size);
    char *memory = compute_cuda.allocate(me->compute, ALL * stride), *own = compute_cuda.allocate(me->compute, size);
    for (uint64_t i = 0; i < numbers; i++)
        host[i] = (float)me->rank + 1;
    compute_cuda.write(me->compute, own, host, size);
    for (uint32_t i = 0; i < me->ranks; i++) {
        members[i] = backwards ? me->ranks - 1 - i : i;
        bytes[i] = size;
        got[i] = (struct share_of_memory){{{memory + i * stride, size}}, 1};
    }
    given[members[me->rank]] = (struct share_of_memory){{{own, size}}, 1}; /* my number: backwards is its own inverse */
    int team = NCCL->queue_team(me->end, STREAM_GRADIENT, members, me->ranks);
    struct collective_part part = {CALL_ALL_GATHER, given, got, bytes, DTYPE_FP32, false};
    bool good = wait_for(me, NCCL->queue_collective(me->end, team, &part));
    synchronise(me, STREAM_GRADIENT);
    for (uint32_t i = 0; i < me->ranks; i++) {
        compute_cuda.read(me->compute, host, memory + i * stride, size);
        good = good && host[0] == (float)members[i] + 1 && host[numbers - 1] == (float)members[i] + 1;
    }
    part = (struct collective_part){CALL_REDUCE_SCATTER, got, given, bytes, DTYPE_FP32, false};
    good = wait_for(me, NCCL->queue_collective(me->end, team, &part)) && good;
    synchronise(me, STREAM_GRADIENT);
    compute_cuda.read(me->compute, host, own, size);
    for (uint64_t i = 0; i < numbers; i++)
        good = good && host[i] == (float)(me->ranks * (me->rank + 1));
    free(host);
    return good;
}

static bool gather_small(struct rank *me)
{
    bool good = gather_and_scatter(me, 1000, true, false) && me->end->streams[STREAM_GRADIENT].n_scratches == 0;
    return gather_and_scatter(me, 1000, false, false) && me->end->streams[STREAM_GRADIENT].n_scratches == 1 && good;
}

static bool gather_backwards(struct rank *me)
{
    return gather_and_scatter(me, 1000, true, true);
}

static bool gather_large(struct rank *me)
{
    return gather_and_scatter(me, 300000, false, false);
}

static void small_equal_blocks_go_in_one_call_and_large_ones_to_where_they_belong(void **state)
{
    (void)state;
    struct fake_nccl_counts counts = expect_good(3, &(struct rank){.body = gather_small});
    assert_int_equal(counts.all_gathers, 6);
    assert_int_equal(counts.reduce_scatters, 6);
    assert_int_equal(counts.broadcasts + counts.reduces, 0);
    counts = expect_good(3, &(struct rank){.body = gather_backwards});
    assert_int_equal(counts.all_gathers + counts.reduce_scatters, 0);
    counts = expect_good(3, &(struct rank){.body = gather_large});
    assert_int_equal(counts.all_gathers + counts.reduce_scatters, 0);
    assert_int_equal(counts.broadcasts, 9);
    assert_int_equal(counts.reduces, 9);
    const struct transport_settings settings = {.library = FAKE_NCCL, .zero_cta = true};
    counts = expect_good(3, &(struct rank){.body = gather_large, .settings = &settings});
    assert_int_equal(counts.all_gathers, 3);
}

/* ---- settings ---- */

static bool nothing(struct rank *me)
{
    (void)me;
    return true;
}

static void settings_reach_the_communicators(void **state)
{
    (void)state;
    const struct transport_settings plain = {.library = FAKE_NCCL}, few = {.library = FAKE_NCCL, .max_ctas = 4},
                                    zero = {.library = FAKE_NCCL, .zero_cta = true};
    struct fake_nccl_counts counts = expect_good(2, &(struct rank){.body = nothing, .settings = &plain});
    assert_int_equal(counts.max_ctas, NCCL_UNSET);
    assert_int_equal(counts.cta_policy, NCCL_UNSET);
    counts = expect_good(2, &(struct rank){.body = nothing, .settings = &few});
    assert_int_equal(counts.max_ctas, 4);
    counts = expect_good(2, &(struct rank){.body = nothing, .settings = &zero});
    assert_int_equal(counts.cta_policy, NCCL_POLICY_ZERO_CTA);
}

static bool register_and_send(struct rank *me)
{
    char *memory = NCCL->allocate(me->end, 64), text[] = "registered";
    const struct piece_of_memory piece = {memory, sizeof text};
    if (!memory || me->end->n_registrations != 1)
        return false;
    compute_cuda.fill(me->compute, memory, 0, 64);
    if (me->rank == 0)
        compute_cuda.write(me->compute, memory, text, sizeof text);
    bool good = wait_for(me, NCCL->queue_message(me->end, &(struct queued_message){.send = me->rank == 0,
                                                                                   .peer = 1 - me->rank,
                                                                                   .stream = STREAM_EXCHANGE,
                                                                                   .pieces = &piece,
                                                                                   .n_pieces = 1}));
    synchronise(me, STREAM_EXCHANGE);
    const struct nccl_registration *registration = &me->end->registrations[0];
    good = good && holds(me, memory, text) && registration->n_handles == 1 && registration->handles[0];
    NCCL->release(me->end, memory);
    return good && me->end->n_registrations == 0;
}

static void registered_memory_is_known_to_communicators_that_are_used(void **state)
{
    (void)state;
    const struct transport_settings settings = {.library = FAKE_NCCL, .registered = true};
    expect_good(2, &(struct rank){.body = register_and_send, .settings = &settings});
}

/* ---- failures ---- */

/* No rank gets through, and each says `text` (or what is behind it in the list, NULL at its end). */
static void expect_bad(uint32_t gpus, const struct rank *like, const char *const *texts)
{
    struct run run;
    run_on(&run, gpus, 2, like);
    for (uint32_t r = 0; r < 2; r++) {
        assert_false(run.ranks[r].good);
        if (!like->body)
            assert_int_equal(run.ranks[r].diag.count, 1);
        for (size_t i = 0; texts[i] && run.ranks[r].diag.count; i++) {
            if (!strstr(run.ranks[r].diag.lines[0], texts[i]))
                print_error("'%s' is not in '%s'\n", texts[i], run.ranks[r].diag.lines[0]);
            assert_non_null(strstr(run.ranks[r].diag.lines[0], texts[i]));
        }
    }
    run_fini(&run, 2);
}

static void a_library_that_cannot_be_used_is_refused_with_the_reason(void **state)
{
    (void)state;
    const struct transport_settings missing = {.library = "/nowhere/libnccl.so.2"}, other = {.library = "libm.so.6"},
                                    fake = {.library = FAKE_NCCL}, zero = {.library = FAKE_NCCL, .zero_cta = true},
                                    through = {.library = FAKE_NCCL, .through_library = true};
    expect_bad(
        2, &(struct rank){.settings = &missing},
        (const char *const[]){"rank ", "NCCL cannot be opened: /nowhere/libnccl.so.2: cannot open", "--nccl", NULL});
    expect_bad(2, &(struct rank){.settings = &other},
               (const char *const[]){"'libm.so.6' has no ncclGetVersion (", "expected NCCL 2.18 or later", NULL});
    expect_bad(2, &(struct rank){.settings = &through},
               (const char *const[]){"all messages are sent through NCCL here", NULL});
    setenv("FAKE_NCCL_VERSION", "21703", 1);
    expect_bad(2, &(struct rank){.settings = &fake},
               (const char *const[]){"NCCL is version 2.17.3, expected 2.18 or later", NULL});
    setenv("FAKE_NCCL_VERSION", "22705", 1);
    expect_bad(2, &(struct rank){.settings = &zero},
               (const char *const[]){"NCCL 2.27.5 cannot use copy engines", NULL});
    expect_good(2, &(struct rank){.body = nothing});
    unsetenv("FAKE_NCCL_VERSION");
}

static void ranks_that_share_a_gpu_are_refused_with_a_hint(void **state)
{
    (void)state;
    expect_bad(1, &(struct rank){0},
               (const char *const[]){
                   "making a communicator of 2 ranks for stream 'exchange' (",
                   "nccl_communicators.c:", "NCCL 2.28.9 says: invalid usage (error 5): Duplicate GPU detected",
                   "NCCL_MULTI_RANK_GPU_ENABLE=1", "--transport local", NULL});
}

static void a_rank_that_never_comes_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    setenv("FAKE_NCCL_NEVER", "1", 1);
    expect_bad(2, &(struct rank){.seconds_to_come = 0.2},
               (const char *const[]){"making a communicator of 2 ranks", "a rank did not come within", NULL});
    unsetenv("FAKE_NCCL_NEVER");
}

/* Rank 0's stream waits for rank 1, which fails. */
static bool wait_for_what_never_comes(struct rank *me)
{
    char *memory = bytes_of(me, NULL, 64);
    const struct piece_of_memory piece = {memory, 64};
    const struct queued_message message = {.peer = 1, .stream = STREAM_EXCHANGE, .pieces = &piece, .n_pieces = 1};
    if (me->rank == 1) {
        (NCCL->fail)(me->end, "rank 1: lost its way");
        return false;
    }
    wait_for(me, NCCL->queue_message(me->end, &message));
    synchronise(me, STREAM_EXCHANGE);
    return strcmp(NCCL->failed(me->end), "rank 1: lost its way") != 0;
}

static void a_rank_that_fails_is_not_waited_for_while_communicators_are_made(void **state)
{
    (void)state;
    expect_bad(2, &(struct rank){.lost = true}, (const char *const[]){"rank 1: lost its way", NULL});
}

static void a_failure_of_one_rank_ends_what_others_have_queued(void **state)
{
    (void)state;
    expect_bad(2, &(struct rank){.body = wait_for_what_never_comes}, (const char *const[]){NULL});
}

/* An error that the library tells of later stops everybody, and their streams. */
static bool exchange_until_it_fails(struct rank *me)
{
    while (!NCCL->failed(me->end))
        pass_both_ways(me);
    const char *reason = NCCL->failed(me->end);
    if (!strstr(reason, "rank 1: ") || !strstr(reason, "says: remote process exited or there was a network error"))
        print_error("reason: %s\n", reason);
    else
        diagnostics_add(&me->diag, "as expected");
    return false;
}

static void an_error_of_a_communicator_stops_all_ranks(void **state)
{
    (void)state;
    setenv("FAKE_NCCL_FAIL_AFTER", "3", 1);
    expect_bad(2, &(struct rank){.body = exchange_until_it_fails}, (const char *const[]){"as expected", NULL});
    unsetenv("FAKE_NCCL_FAIL_AFTER");
}

/* Sizes differ: the library notices, or would hang. */
static bool send_other_sizes(struct rank *me)
{
    char *memory = bytes_of(me, NULL, 64);
    const struct piece_of_memory piece = {memory, 32 + me->rank};
    const struct queued_message message = {
        .send = me->rank == 0, .peer = 1 - me->rank, .stream = STREAM_EXCHANGE, .pieces = &piece, .n_pieces = 1};
    wait_for(me, NCCL->queue_message(me->end, &message));
    synchronise(me, STREAM_EXCHANGE);
    while (!NCCL->failed(me->end))
        sched_yield();
    if (strstr(NCCL->failed(me->end), "moving data between GPUs (") &&
        strstr(NCCL->failed(me->end), "invalid argument"))
        diagnostics_add(&me->diag, "as expected");
    return false;
}

static void what_the_library_complains_of_is_the_reason(void **state)
{
    (void)state;
    expect_bad(2, &(struct rank){.body = send_other_sizes}, (const char *const[]){"as expected", NULL});
}

/* An abort that hangs is left behind. */
static void a_library_that_does_not_let_go_holds_up_nobody_for_long(void **state)
{
    (void)state;
    struct diagnostics diag;
    struct transport *end;
    uint32_t n_ends, first;
    diagnostics_init(&diag);
    assert_true(NCCL->open(1, NULL, &end, &n_ends, &first, &diag));
    assert_true(nccl_library_open(&end->library, FAKE_NCCL, &diag));
    setenv("FAKE_NCCL_ABORT_HANGS", "1", 1);
    memory_grow(end->comms, end->n_comms, end->comm_capacity);
    end->comms[end->n_comms++] = NULL; /* it never comes to look at it */
    assert_string_equal(((NCCL->fail)(end, "rank 0: lost its way"), NCCL->failed(end)), "rank 0: lost its way");
    NCCL->close(&end, 1);
    diagnostics_fini(&diag);
}

/* On a machine without GPUs the real library says so; two ranks of a machine with one are refused. */
static void the_real_library_says_why_it_makes_no_communicator(void **state)
{
    (void)state;
    const struct transport_settings settings = {.library = NULL};
    struct nccl_library nccl;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool opened = nccl_library_open(&nccl, NULL, &diag);
    diagnostics_fini(&diag);
    if (!opened)
        skip();
    expect_bad(1, &(struct rank){.settings = &settings},
               (const char *const[]){"rank ", ".c:", ": NCCL ", " says: ", NULL});
}

/* ---- to oneself ---- */

struct local_rank {
    struct transport *end;
    const struct schedule *schedule;
    uint32_t rank;
    bool good;
    pthread_t thread;
};

static void *exchange_through_nccl(void *context)
{
    struct local_rank *me = context;
    const struct transport_settings settings = {.library = FAKE_NCCL, .through_library = true};
    const struct compute_settings compute_settings = {0};
    const struct exchange exchange = {
        .seed = 5, .bytes_max = 3000, .ranks = 2, .rounds = 20, .streams = 2, .messages_max = MESSAGES_MAX};
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct compute *compute = compute_cuda.open(me->schedule, me->rank, &compute_settings, &diag);
    me->good = transport_local.attach(me->end, &compute_cuda, compute, ~0u, &settings, &diag) &&
               transport_local.barrier(me->end) &&
               exchange_messages(&exchange, &transport_local, me->end, me->rank, &compute_cuda, compute);
    if (me->good)
        transport_local.barrier(me->end);
    compute_cuda.close(compute);
    diagnostics_fini(&diag);
    return NULL;
}

static void one_gpus_messages_may_go_through_the_library_to_oneself(void **state)
{
    (void)state;
    struct experiment experiment;
    struct schedule schedule;
    struct transport *ends[2];
    struct local_rank ranks[2];
    uint32_t n_ends, first;
    struct diagnostics diag;
    diagnostics_init(&diag);
    setenv("CPSIM_EMULATED_GPUS", "1", 1);
    emulation_reset();
    take_counts();
    schedule_for_gpus(&schedule, &experiment, 2);
    assert_true(transport_local.open(2, NULL, ends, &n_ends, &first, &diag));
    for (uint32_t r = 0; r < 2; r++) {
        ranks[r] = (struct local_rank){ends[r], &schedule, r, false, 0};
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, exchange_through_nccl, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < 2; r++)
        pthread_join(ranks[r].thread, NULL);
    transport_local.close(ends, n_ends);
    assert_true(ranks[0].good && ranks[1].good);
    const struct fake_nccl_counts counts = take_counts();
    assert_true(counts.sends > 0 && counts.sends == counts.receives);
    assert_int_equal(counts.comms, 0);
    assert_int_equal(counts.aborts, 0);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_keep_the_order_of_their_queues),
        cmocka_unit_test(an_array_is_one_send_however_its_ends_are_cut),
        cmocka_unit_test(an_array_that_is_cut_up_goes_through_scratch_memory),
        cmocka_unit_test(two_ranks_that_are_each_others_both_neighbours_exchange_in_one_group),
        cmocka_unit_test(ranks_also_tell_each_other_what_the_host_holds),
        cmocka_unit_test(collectives_of_all_teams_give_what_they_should),
        cmocka_unit_test(small_equal_blocks_go_in_one_call_and_large_ones_to_where_they_belong),
        cmocka_unit_test(settings_reach_the_communicators),
        cmocka_unit_test(registered_memory_is_known_to_communicators_that_are_used),
        cmocka_unit_test(a_library_that_cannot_be_used_is_refused_with_the_reason),
        cmocka_unit_test(ranks_that_share_a_gpu_are_refused_with_a_hint),
        cmocka_unit_test(a_rank_that_never_comes_is_not_waited_for_for_ever),
        cmocka_unit_test(a_rank_that_fails_is_not_waited_for_while_communicators_are_made),
        cmocka_unit_test(a_failure_of_one_rank_ends_what_others_have_queued),
        cmocka_unit_test(an_error_of_a_communicator_stops_all_ranks),
        cmocka_unit_test(what_the_library_complains_of_is_the_reason),
        cmocka_unit_test(the_real_library_says_why_it_makes_no_communicator),
        cmocka_unit_test(one_gpus_messages_may_go_through_the_library_to_oneself),
        cmocka_unit_test(a_library_that_does_not_let_go_holds_up_nobody_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
