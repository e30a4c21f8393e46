/* The transport 'nccl', one rank a process: this program starts itself under mpirun, as workers. Ranks of several
 * processes would take a real NCCL and a GPU each; here is what needs neither. Skipped, visibly, where mpirun is
 * missing or the build has no MPI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdio.h>

#include "tests/gpu/message_cases.h"
#include "tests/hw/workers.h"

/* ---- workers: one process each ---- */

/* The only rank sends to itself, in a group. */
static bool send_to_itself(const struct transport_ops *nccl, struct transport *end, struct compute *compute)
{
    char *memory = compute_cuda.allocate(compute, 16), text[16] = "itself", host[16];
    const struct piece_of_memory from = {memory, 8}, to = {memory + 8, 8};
    compute_cuda.write(compute, memory, text, sizeof text);
    nccl->group_begin(end);
    struct queued_message message = {.send = true, .stream = STREAM_EXCHANGE, .pieces = &from, .n_pieces = 1};
    int requests[2];
    requests[0] = nccl->queue_message(end, &message);
    message.send = false;
    message.pieces = &to;
    requests[1] = nccl->queue_message(end, &message);
    nccl->group_end(end);
    for (int i = 0; i < 2; i++)
        while (!nccl->test(end, requests[i]) && !nccl->failed(end))
            sched_yield();
    struct mark *mark = compute_cuda.queues->mark_create(compute, false);
    compute_cuda.queues->mark(compute, STREAM_EXCHANGE, mark);
    while (!compute_cuda.queues->passed(compute, mark))
        sched_yield();
    compute_cuda.queues->mark_destroy(compute, mark);
    compute_cuda.read(compute, host, memory, sizeof host);
    return strcmp(host + 8, "itself") == 0;
}

static int worker(const char *what, uint32_t ranks)
{
    const struct transport_ops *nccl = transport_find("nccl");
    struct transport_settings settings = {.library = FAKE_NCCL};
    const struct compute_settings compute_settings = {0};
    struct experiment experiment;
    struct schedule schedule;
    struct transport *ends[8];
    uint32_t n_ends, rank;
    struct diagnostics diag;
    diagnostics_init(&diag);
    schedule_for_gpus(&schedule, &experiment, ranks);
    if (!nccl->open(ranks, NULL, ends, &n_ends, &rank, &diag)) {
        nccl->close(ends, n_ends);
        return 2;
    }
    if (strcmp(what, "missing") == 0 && rank == 1)
        settings.library = "/nowhere/libnccl.so";
    if (strcmp(what, "real") == 0)
        settings.library = NULL;
    struct compute *compute = compute_cuda.open(&schedule, rank, &compute_settings, &diag);
    bool good = nccl->attach(ends[0], &compute_cuda, compute, 1u << STREAM_EXCHANGE, &settings, &diag);
    if (diag.count)
        printf("process %u of %u on its host: %s\n", nccl->place_on_host(ends[0]), ranks, diag.lines[0]);
    if (good && ranks == 1)
        printf("%s\n", send_to_itself(nccl, ends[0], compute) ? "it came" : "it did not come");
    fflush(stdout);
    nccl->close(ends, n_ends);
    compute_cuda.close(compute);
    schedule_fini(&schedule);
    diagnostics_fini(&diag);
    return !good;
}

/* ---- the tests: start workers, look at what they say ---- */

static void expect(uint32_t ranks, const char *what, bool passes, const char *text, const char *more)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s %u", what, ranks);
    const struct outcome outcome = start(ranks, arguments);
    if (!strstr(outcome.text, text) || !strstr(outcome.text, more) || (outcome.status == 0) != passes)
        fail_msg("expected '%s' and '%s', got status %d:\n%s", text, more, outcome.status, outcome.text);
}

static void a_rank_alone_sends_to_itself(void **state)
{
    (void)state;
    expect(1, "alone", true, "it came", "it came");
}

static void all_ranks_say_why_one_of_them_has_no_library(void **state)
{
    (void)state;
    expect(2, "missing", false, "process 0 of 2 on its host: rank 1: NCCL cannot be opened: /nowhere/libnccl.so",
           "process 1 of 2 on its host: rank 1: NCCL cannot be opened: /nowhere/libnccl.so");
}

/* Without a GPU, or because both have the same; or because there is none. */
static void the_real_library_is_refused_with_its_reason(void **state)
{
    (void)state;
    expect(2, "real", false, "process 0 of 2 on its host: rank ", ": NCCL ");
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return worker(argv[1], (uint32_t)atoi(argv[2]));
    if (!can_start("nccl"))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_alone_sends_to_itself),
        cmocka_unit_test(all_ranks_say_why_one_of_them_has_no_library),
        cmocka_unit_test(the_real_library_is_refused_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
