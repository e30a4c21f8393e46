/* Workers: every task is done once, by processes that stay, whatever becomes of some of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/workers.h"

#define TASKS 500

struct bench {
    size_t n_tasks, next, taken;
    unsigned times[TASKS];
    int wait_status[TASKS];
    char *texts[TASKS];
    long pids[TASKS]; /* of the worker that did it */
    /* In workers: these end the process, the first only when no such file is there yet. */
    size_t kills_once, kills_always, exits;
    char marker[64];
};

#define NONE SIZE_MAX

static void bench_init(struct bench *bench, size_t n_tasks)
{
    *bench = (struct bench){.n_tasks = n_tasks, .kills_once = NONE, .kills_always = NONE, .exits = NONE};
    snprintf(bench->marker, sizeof bench->marker, "/tmp/cpsim-workers-%ld", (long)getpid());
    unlink(bench->marker);
}

static void bench_fini(struct bench *bench)
{
    unlink(bench->marker);
    for (size_t i = 0; i < TASKS; i++)
        free(bench->texts[i]);
}

static void work(void *context, size_t task, FILE *stream)
{
    struct bench *bench = context;
    fprintf(stream, "%ld half of ", (long)getpid());
    if (task == bench->kills_always)
        raise(SIGKILL);
    if (task == bench->exits)
        _exit(3);
    if (task == bench->kills_once && access(bench->marker, F_OK) != 0) {
        FILE *marker = fopen(bench->marker, "w");
        fclose(marker);
        raise(SIGKILL);
    }
    for (size_t i = 0; i < task % 7 * 1000; i++) /* results of any length, with zeros in them */
        fputc(0, stream);
    fprintf(stream, "%zu", task);
}

static void take(void *taker, size_t task, struct worker_result *result)
{
    struct bench *bench = taker;
    assert_true(task < bench->n_tasks);
    bench->times[task]++;
    bench->taken++;
    bench->wait_status[task] = result->wait_status;
    bench->texts[task] = result->text;
    if (result->wait_status)
        return;
    char expected[64], head[64];
    bench->pids[task] = strtol(result->text, NULL, 10);
    int n = snprintf(head, sizeof head, "%ld half of ", bench->pids[task]);
    int tail = snprintf(expected, sizeof expected, "%zu", task);
    assert_int_equal(result->size, (size_t)n + task % 7 * 1000 + (size_t)tail);
    assert_memory_equal(result->text, head, (size_t)n);
    assert_string_equal(result->text + result->size - tail, expected);
}

static void run(struct bench *bench, uint32_t jobs, bool once)
{
    const struct workers_settings settings = {
        .jobs = jobs, .once = once, .work = work, .context = bench, .take = take, .taker = bench};
    struct workers *workers = workers_create(&settings);
    while (bench->taken < bench->n_tasks) {
        for (size_t room = workers_room(workers); room > 0 && bench->next < bench->n_tasks; room--)
            workers_add(workers, bench->next++);
        assert_true(workers_pending(workers) > 0);
        assert_int_equal(workers_wait(workers, -1), 0);
    }
    assert_int_equal(workers_pending(workers), 0);
    workers_destroy(workers);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left behind */
    for (size_t i = 0; i < bench->n_tasks; i++)
        assert_int_equal(bench->times[i], 1);
}

static size_t count_processes(const struct bench *bench)
{
    size_t count = 0;
    for (size_t i = 0; i < bench->n_tasks; i++) {
        bool new = true;
        for (size_t k = 0; k < i; k++)
            new = new && bench->pids[k] != bench->pids[i];
        count += new;
    }
    return count;
}

static void workers_stay_unless_they_may_run_only_once(void **state)
{
    (void)state;
    for (uint32_t jobs = 1; jobs <= 5; jobs += 2) {
        struct bench bench;
        bench_init(&bench, TASKS);
        run(&bench, jobs, false);
        assert_true(count_processes(&bench) <= jobs);
        bench_fini(&bench);
        bench_init(&bench, 20);
        run(&bench, jobs, true);
        assert_int_equal(count_processes(&bench), 20);
        bench_fini(&bench);
    }
}

static void a_worker_that_dies_takes_nothing_along(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        for (uint32_t jobs = 1; jobs < 4; jobs++) {
            struct bench bench;
            bench_init(&bench, 60);
            bench.kills_once = 23;
            run(&bench, jobs, once);
            for (size_t i = 0; i < bench.n_tasks; i++)
                assert_int_equal(bench.wait_status[i], 0);
            bench_fini(&bench);
        }
    }
}

static void a_task_that_ends_two_workers_has_failed_and_no_other(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        struct bench bench;
        bench_init(&bench, 60);
        bench.kills_always = 0;
        bench.exits = 41;
        run(&bench, 2, once);
        for (size_t i = 0; i < bench.n_tasks; i++)
            assert_true((bench.wait_status[i] == 0) == (i != 0 && i != 41));
        assert_true(WIFSIGNALED(bench.wait_status[0]) && WTERMSIG(bench.wait_status[0]) == SIGKILL);
        assert_true(WIFEXITED(bench.wait_status[41]) && WEXITSTATUS(bench.wait_status[41]) == 3);
        bench_fini(&bench);
    }
}

static void sleep_for_ever(void *context, size_t task, FILE *stream)
{
    (void)context, (void)task, (void)stream;
    for (;;)
        pause();
}

static void a_signal_is_told_and_workers_end_with_their_owner(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 4);
    const struct workers_settings settings = {
        .jobs = 2, .work = sleep_for_ever, .context = &bench, .take = take, .taker = &bench};
    struct workers *workers = workers_create(&settings);
    for (size_t i = 0; i < 4; i++)
        workers_add(workers, i);
    assert_int_equal(workers_wait(workers, 1), 0);
    kill(getpid(), SIGTERM);
    assert_int_equal(workers_wait(workers, -1), SIGTERM);
    kill(getpid(), SIGHUP);
    assert_int_equal(workers_wait(workers, -1), SIGHUP);
    workers_destroy(workers);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    bench_fini(&bench);
}

#define KINDS 10

static size_t kind_of(void *context, size_t task)
{
    (void)context;
    return task % KINDS;
}

/* Tasks of ten kinds wait, in turn, and two workers: each does those of one kind after the other. Neither changes to a
 * kind that the other is at while there are others, so only the first and the last kinds may have been done by both. */
static void a_worker_keeps_to_a_kind_while_there_is_a_choice(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 30 * KINDS);
    const struct workers_settings settings = {
        .jobs = 2, .work = work, .context = &bench, .kind = kind_of, .take = take, .taker = &bench};
    struct workers *workers = workers_create(&settings);
    while (bench.next < bench.n_tasks)
        workers_add(workers, bench.next++);
    while (bench.taken < bench.n_tasks)
        assert_int_equal(workers_wait(workers, -1), 0);
    workers_destroy(workers);
    size_t shared = 0;
    for (size_t kind = 0; kind < KINDS; kind++) {
        bool by_both = false;
        for (size_t i = kind; i < bench.n_tasks; i += KINDS) {
            assert_int_equal(bench.times[i], 1);
            by_both = by_both || bench.pids[i] != bench.pids[kind];
        }
        shared += by_both;
    }
    assert_true(shared <= 2);
    bench_fini(&bench);
}

static void what_the_caller_ignores_does_not_end_it(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 1);
    signal(SIGHUP, SIG_IGN);
    const struct workers_settings settings = {
        .jobs = 1, .work = sleep_for_ever, .context = &bench, .take = take, .taker = &bench};
    struct workers *workers = workers_create(&settings);
    workers_add(workers, 0);
    kill(getpid(), SIGHUP);
    assert_int_equal(workers_wait(workers, 1), 0);
    kill(getpid(), SIGINT);
    assert_int_equal(workers_wait(workers, -1), SIGINT);
    workers_destroy(workers);
    signal(SIGHUP, SIG_DFL);
    bench_fini(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_stay_unless_they_may_run_only_once),
        cmocka_unit_test(a_worker_that_dies_takes_nothing_along),
        cmocka_unit_test(a_task_that_ends_two_workers_has_failed_and_no_other),
        cmocka_unit_test(a_signal_is_told_and_workers_end_with_their_owner),
        cmocka_unit_test(a_worker_keeps_to_a_kind_while_there_is_a_choice),
        cmocka_unit_test(what_the_caller_ignores_does_not_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
