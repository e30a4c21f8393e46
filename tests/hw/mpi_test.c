/* The transport 'mpi': this program starts itself under mpirun, as workers. Skipped, visibly, where mpirun is missing
 * or the build has no MPI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "models/schedule/algorithms/algorithm.h"
#include "sim/engine.h"
#include "tests/hw/collective_cases.h"
#include "tests/hw/layer_scene.h"
#include "tests/hw/scene.h"
#include "tests/hw/workers.h"

/* A job in which a rank fails ends within 10 s on a machine of its own (2 to 4 s were seen); without notice of the
 * failure it would wait for STALL_SECONDS, 600. The bound tells these apart on a machine that is busy, too. */
#define ENDS_SECONDS 90

/* SimGrid has an MPI of its own. It is in this program too, as it is in cpsim: the real one must win. */
const struct engine_ops *const both_are_linked = &engine_simgrid;

/* ---- workers: one process each ---- */

static uint32_t own_rank(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    return text ? (uint32_t)atoi(text) : 0;
}

/* What goes wrong on rank 1. */
static struct compute *refuse(const struct schedule *schedule, uint32_t rank, const struct compute_settings *settings,
                              struct diagnostics *diag)
{
    if (rank != 1)
        return compute_cpu.open(schedule, rank, settings, diag);
    diagnostics_add(diag, "backend 'cpu' is out of order");
    return NULL;
}

static void *have_no_memory(struct compute *compute, uint64_t bytes)
{
    return own_rank() == 1 && bytes > 6000 ? NULL : compute_cpu.allocate(compute, bytes);
}

static void die(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                const struct between_tiles *between_tiles)
{
    if (own_rank() == 1 && program->ops[op].kind == OP_ATTEND_BACKWARD)
        raise(SIGKILL);
    compute_cpu.run(compute, program, op, memory, between_tiles);
}

static bool out_of_memory; /* rank 1, from its first kernel on */

static void *have_no_memory_later(struct compute *compute, uint64_t bytes)
{
    return out_of_memory ? NULL : compute_cpu.allocate(compute, bytes);
}

/* Rank 2 computes on while rank 0 has heard of the failure; between tiles then it sends what rank 0 was waiting for. */
static void compute_late(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                         const struct between_tiles *between_tiles)
{
    out_of_memory = own_rank() == 1;
    usleep(own_rank() * 500000);
    compute_cpu.run(compute, program, op, memory, between_tiles);
}

static int run_worker(const char *what, const char *algorithm, uint32_t cp, bool narrow)
{
    struct experiment experiment = make_experiment_for(algorithm_find(algorithm), cp, 24 * cp + (cp > 1));
    experiment.model.head_dim = 12;
    experiment.batch = 3;
    if (strcmp(algorithm, "ulysses") == 0) { /* heads for every rank */
        experiment.model.q_heads = 2 * cp;
        experiment.model.kv_heads = cp;
    }
    experiment.kv_block = narrow ? 7 : 0;
    experiment.split_kv = narrow;
    experiment.inner = strcmp(what, "inner") == 0 ? INNER_RING : INNER_ALL_TO_ALL;
    experiment.overlap = cp != 3 || strcmp(what, "late") == 0;
    if (strcmp(what, "differ") == 0 && own_rank() == 1)
        experiment.mask.kind = MASK_FULL;
    struct compute_ops ops = compute_cpu;
    ops.open = strcmp(what, "refuse") == 0 ? refuse : ops.open;
    ops.allocate = strcmp(what, "memory") == 0 ? have_no_memory : ops.allocate;
    ops.run = strcmp(what, "die") == 0 ? die : ops.run;
    if (strcmp(what, "late") == 0) {
        ops.allocate = have_no_memory_later;
        ops.run = compute_late;
    }
    if (strcmp(what, "layer") == 0) /* of two ranks each way */
        experiment = make_layer(algorithm, 2, cp / 2, 1);
    experiment.dtype = narrow ? DTYPE_BF16 : DTYPE_FP32;
    struct scene scene;
    scene_open_as(&scene, &experiment, &ops, strcmp(what, "alone") == 0 ? "mpi" : NULL,
                  strcmp(what, "messages") == 0 ? COLLECTIVES_MESSAGES : COLLECTIVES_DEFAULT);
    for (uint64_t seed = 1; seed <= 2 && scene.opened && (seed == 1 || scene.passed); seed++) {
        scene_step(&scene, RUN_ALL, seed);
        for (uint32_t r = 0; r < cp && scene.passed; r++) {
            uint64_t bytes = 0;
            for (int t = 0; t < TRAFFIC_COUNT; t++)
                bytes += scene.run.ranks[r].wire.sent_bytes[t];
            if (hardware_speaks(scene.hardware) && seed == 2)
                printf("rank %u sent %llu bytes, peak %llu\n", r, (unsigned long long)bytes,
                       (unsigned long long)scene.run.ranks[r].peak_bytes);
        }
    }
    if (hardware_speaks(scene.hardware) && scene.passed)
        printf("%s check passed, collectives: %s\n", check_kind_name(scene.run.verification.kind),
               hardware_collectives(scene.hardware));
    if (hardware_speaks(scene.hardware))
        diagnostics_print(&scene.diag, stdout, "");
    fflush(stdout);
    int status = !scene.opened ? 2 : !scene.passed;
    scene_close(&scene);
    return status;
}

/* A ring of messages in two streams, and gradients the other way; all sends are posted first. Two ranks are each
 * other's next and previous. */
static bool exchange_round(const struct transport_ops *mpi, struct transport *end, uint32_t rank, uint32_t ranks,
                           uint32_t *memory[6], uint64_t count)
{
    static const enum stream streams[] = {STREAM_EXCHANGE, STREAM_EXCHANGE, STREAM_GRADIENT};
    int requests[6];
    for (uint32_t m = 0; m < 3; m++)
        for (uint64_t i = 0; i < count; i++)
            memory[m][i] = (uint32_t)(i * 64 + rank * 4 + m);
    static const int order[] = {0, 1, 2, 5, 3, 4}; /* the receiver comes to its streams in another order */
    for (int i = 0; i < 6; i++) {
        int m = order[i];
        bool sends = m < 3, ahead = (m % 3 < 2) == sends;
        uint64_t cut = sends ? count / 3 : count / 2;
        const struct piece_of_memory pieces[] = {{memory[m], cut * 4}, {memory[m] + cut, (count - cut) * 4}};
        requests[m] = mpi->post(end, sends, (rank + (ahead ? 1 : ranks - 1)) % ranks, streams[m % 3], pieces, 2);
    }
    for (int m = 0; m < 6; m++)
        while (!mpi->test(end, requests[m]))
            sched_yield();
    for (uint32_t m = 0; m < 3; m++) {
        uint32_t source = (rank + (m < 2 ? ranks - 1 : 1)) % ranks;
        for (uint64_t i = 0; i < count; i++)
            if (memory[3 + m][i] != (uint32_t)(i * 64 + source * 4 + m))
                return false;
    }
    return true;
}

/* `moved`: the ranks of two rows of places are numbered column by column. */
static int exchange_worker(uint32_t ranks, bool moved)
{
    static const uint64_t sizes[] = {1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20};
    const struct transport_ops *mpi = transport_find("mpi");
    struct transport *ends[16];
    uint32_t n_ends, rank, place_of_rank[16];
    for (uint32_t r = 0; r < ranks; r++)
        place_of_rank[r] = r % 2 * (ranks / 2) + r / 2;
    struct diagnostics diag;
    diagnostics_init(&diag);
    if (!mpi->open(ranks, moved ? place_of_rank : NULL, ends, &n_ends, &rank, &diag))
        return 2;
    bool good = own_rank() == (moved ? place_of_rank[rank] : rank);
    uint32_t *memory[6];
    for (int m = 0; m < 6; m++)
        memory[m] = memory_zeroed(1, sizes[4]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        good = exchange_round(mpi, ends[0], rank, ranks, memory, sizes[i] / 4) && good;
    for (int m = 0; m < 6; m++)
        free(memory[m]);

    struct clock_offset offsets[16]; /* all on one host: the clocks agree, within the stated error */
    good = clock_offsets(mpi, ends[0], rank, ranks, true, offsets) && good;
    for (uint32_t r = 0; r < ranks; r++)
        good = good && fabs(offsets[r].seconds) <= offsets[r].error_seconds + 1e-9 &&
               (r == 0) == (offsets[r].error_seconds == 0);
    good = clock_offsets(mpi, ends[0], rank, ranks, false, offsets) && good;
    for (uint32_t r = 0; r < ranks; r++)
        good = good && offsets[r].seconds == 0;

    bool *all = memory_zeroed(ranks, sizeof *all);
    good = mpi->all_gather(ends[0], &good, sizeof good, all) && good;
    for (uint32_t r = 0; r < ranks && rank == 0; r++)
        printf("rank %u %s\n", r, all[r] ? "got everything" : "got something else");
    fflush(stdout);
    free(all);
    mpi->close(ends, n_ends);
    diagnostics_fini(&diag);
    return !good;
}

static int calls_worker(uint32_t ranks)
{
    const struct transport_ops *mpi = transport_find("mpi");
    struct transport *ends[16];
    uint32_t n_ends, rank;
    struct diagnostics diag;
    diagnostics_init(&diag);
    if (!mpi->open(ranks, NULL, ends, &n_ends, &rank, &diag))
        return 2;
    bool good = run_cases(mpi, ends[0], rank, ranks, 150), *all = memory_zeroed(ranks, sizeof *all);
    good = mpi->all_gather(ends[0], &good, sizeof good, all) && good;
    for (uint32_t r = 0; r < ranks && rank == 0; r++)
        printf("rank %u %s\n", r, all[r] ? "got everything" : "got something else");
    fflush(stdout);
    free(all);
    mpi->close(ends, n_ends);
    diagnostics_fini(&diag);
    return !good;
}

/* ---- the tests: start workers, look at what they say ---- */

static void expect(const struct outcome *outcome, int status, const char *text)
{
    if (!strstr(outcome->text, text) || (status >= 0 ? outcome->status != status : outcome->status == 0))
        fail_msg("expected status %d and '%s', got %d:\n%s", status, text, outcome->status, outcome->text);
}

/* Under the sanitizers half of the degrees, from the first or from the second on, and half of the schedules: starting
 * the processes takes longest. */
#ifdef __SANITIZE_ADDRESS__
#define APART 2
#else
#define APART 1
#endif

static void expect_everything(const char *worker, size_t first)
{
    const uint32_t degrees[] = {1, 2, 5, 3};
    for (size_t i = first % APART; i < sizeof degrees / sizeof *degrees; i += APART) {
        char arguments[64], last[64];
        snprintf(arguments, sizeof arguments, "%s %u", worker, degrees[i]);
        snprintf(last, sizeof last, "rank %u got everything", degrees[i] - 1);
        struct outcome outcome = start(degrees[i], arguments);
        expect(&outcome, 0, last);
        assert_null(strstr(outcome.text, "something else"));
    }
}

static void messages_of_all_sizes_arrive_between_any_number_of_ranks(void **state)
{
    (void)state;
    expect_everything("exchange", 1);
}

static void collectives_bring_what_members_expect(void **state)
{
    (void)state;
    expect_everything("calls", 0);
}

static void ranks_sit_where_the_schedule_wants_them(void **state)
{
    (void)state;
    struct outcome outcome = start(6, "exchange 6 moved");
    for (unsigned r = 0; r < 6; r++) {
        char line[64];
        snprintf(line, sizeof line, "rank %u got everything", r);
        expect(&outcome, 0, line);
    }
    struct outcome run = start(6, "inner usp 6 0"); /* groups of two, rings of three */
    expect(&run, 0, "full check passed");
#ifndef __SANITIZE_ADDRESS__ /* under which usp runs below */
    run = start(6, "run usp 6 0");
    expect(&run, 0, "full check passed");
#endif
}

static struct outcome run_schedule(const char *what, const char *algorithm, uint32_t cp, int narrow)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s %s %u %d", what, algorithm, cp, narrow);
    return start(cp, arguments);
}

/* Those with collectives both with MPI's own and as messages. */
static void schedules_give_the_reference_under_mpi(void **state)
{
    (void)state;
    unsigned calls = 0;
    size_t n = 0;
    while (algorithms[n])
        n++;
    for (size_t a = 0; a < n; a += APART) {
        const char *name = algorithms[a]->name;
        uint32_t cp = 2 + (uint32_t)(a / APART) % 3;
        int narrow = a / APART % 2; /* every algorithm in every type: random_runs_test.c */
        struct outcome outcome = run_schedule("run", name, cp, narrow);
        expect(&outcome, 0, "full check passed");
        if (!strstr(outcome.text, "collectives: library"))
            continue;
        calls++;
        struct outcome messages = run_schedule("messages", name, cp, narrow);
        expect(&messages, 0, "full check passed, collectives: messages");
    }
    struct outcome alone = run_schedule("run", "ring", 1, 1);
    expect(&alone, 0, "full check passed");
    assert_true(calls > 0);
    struct outcome outcome = start(2, "run ring 2 0");
    /* 24 + 25 rows x batch 3 x (K, V) of 2 heads x 12 x 4 bytes: K/V once each way, replayed, dK/dV there and back */
    expect(&outcome, 0, "rank 0 sent 57024 bytes");
}

static void a_layer_of_two_by_two_ranks_is_right(void **state)
{
    (void)state;
    for (int narrow = APART - 1; narrow < 2; narrow++) {
        struct outcome ring = run_schedule("layer", narrow ? "all-gather" : "ring", 4, narrow);
        expect(&ring, 0, "full check passed");
        expect(&ring, 0, "rank 3 sent");
    }
    struct outcome alone = start(2, "layer ring 4 0");
    expect(&alone, -1, "the experiment has 4 ranks, but 2 processes were started");
}

static void another_number_of_processes_is_an_error_naming_both(void **state)
{
    (void)state;
    struct outcome more = start(4, "run ring 2 0"), less = start(1, "run ring 2 0"),
                   none = launch("", "alone ring 4 0");
    expect(&more, -1, "the experiment has 2 ranks, but 4 processes were started, expected one for each rank");
    expect(&less, -1, "the experiment has 2 ranks, but 1 process was started, expected one for each rank");
    expect(&none, 2, "the experiment has 4 ranks, but 1 process was started, expected one for each rank");
}

static void a_rank_that_refuses_ends_the_job_by_name(void **state)
{
    (void)state;
    struct outcome outcome = start(3, "refuse ring 3 0");
    expect(&outcome, -1, "rank 1 on host '");
    expect(&outcome, -1, "': backend 'cpu' is out of order");
    assert_true(outcome.seconds < ENDS_SECONDS);
}

static void ranks_that_were_asked_different_things_are_told(void **state)
{
    (void)state;
    struct outcome outcome = start(3, "differ ring 3 0");
    expect(&outcome, -1, "was given another experiment than rank 0");
}

static void a_rank_that_fails_in_mid_run_ends_the_job_by_name(void **state)
{
    (void)state;
    struct outcome outcome = start(3, "memory ring 3 0");
    expect(&outcome, -1, "rank 1: no memory for buffer '");
    assert_true(outcome.seconds < ENDS_SECONDS);
}

/* Memory that a message may still be written to is not free before messages are over. */
static void a_message_that_comes_after_a_failure_does_no_harm(void **state)
{
    (void)state;
    struct outcome outcome = start(3, "late ring 3 0");
    expect(&outcome, -1, "rank 1: no memory for buffer '");
    assert_null(strstr(outcome.text, "AddressSanitizer"));
    assert_null(strstr(outcome.text, "signal"));
}

static void a_killed_rank_ends_the_job_by_name(void **state)
{
    (void)state;
    struct outcome outcome = start(3, "die ring 3 0");
    expect(&outcome, -1, "rank 1 ");
    expect(&outcome, -1, "signal 9");
    assert_null(strstr(outcome.text, "passed"));
    assert_true(outcome.seconds < ENDS_SECONDS);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "exchange") == 0)
        return exchange_worker((uint32_t)atoi(argv[2]), argc > 3);
    if (argc > 2 && strcmp(argv[1], "calls") == 0)
        return calls_worker((uint32_t)atoi(argv[2]));
    if (argc > 4)
        return run_worker(argv[1], argv[2], (uint32_t)atoi(argv[3]), atoi(argv[4]));
    if (!can_start("mpi"))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_sizes_arrive_between_any_number_of_ranks),
        cmocka_unit_test(collectives_bring_what_members_expect),
        cmocka_unit_test(ranks_sit_where_the_schedule_wants_them),
        cmocka_unit_test(schedules_give_the_reference_under_mpi),
        cmocka_unit_test(a_layer_of_two_by_two_ranks_is_right),
        cmocka_unit_test(another_number_of_processes_is_an_error_naming_both),
        cmocka_unit_test(a_rank_that_refuses_ends_the_job_by_name),
        cmocka_unit_test(ranks_that_were_asked_different_things_are_told),
        cmocka_unit_test(a_rank_that_fails_in_mid_run_ends_the_job_by_name),
        cmocka_unit_test(a_message_that_comes_after_a_failure_does_no_harm),
        cmocka_unit_test(a_killed_rank_ends_the_job_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
