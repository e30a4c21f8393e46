/* cpsim --hw as a command: statuses, results in every form, one voice under mpirun, and nothing but times that differs
 * between two runs of one seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "cli/measured.h"
#include "cli/writers.h"
#include "hw/transport.h"
#include "tests/cli/expect.h"
#include "tests/cli/run_tree.h"

/* Small enough to be quick; messages may not be all that is measured on a busy machine. */
#define SMALL "cpu-small --compute cpu --set workload.seq_len=256 --iterations 3 --warmup 1"
#define ALONE "$CPSIM --hw " SMALL
/* Of any user, on any number of cores; OpenMPI itself leaks, which address sanitizers would make a failure. */
#define MPI_ENVIRONMENT                                                                                                \
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS; "
#define MPIRUN MPI_ENVIRONMENT "timeout 50 mpirun --oversubscribe --quiet -n "

/* The value at "a.b.c", which must be there. */
static json_t *at(json_t *json, const char *path)
{
    char *names = memory_text(path), *rest = names;
    for (char *name; (name = strsep(&rest, "."));)
        json = json_object_get(json, name);
    free(names);
    if (!json)
        fail_msg("no '%s'", path);
    return json;
}

static double number(json_t *json, const char *path)
{
    json_t *value = at(json, path);
    if (!json_is_number(value))
        fail_msg("'%s' is no number", path);
    return json_number_value(value);
}

static bool can_mpirun(void)
{
    struct outcome outcome = shell("mpirun --version");
    bool can = outcome.status == 0 && transport_find("mpi");
    outcome_fini(&outcome);
    if (!can)
        print_message("skipped: there is no mpirun, or this build has no MPI\n");
    return can;
}

/* ---- one process ---- */

static void a_run_prints_its_table(void **state)
{
    (void)state;
    struct outcome outcome = shell(ALONE " --seed 3 --details");
    assert_int_equal(outcome.status, 0);
    assert_non_null(strstr(outcome.out, "verified  yes: O, LSE, dQ, dK, dV against the reference"));
    assert_non_null(strstr(outcome.out, "Timing of 3 iterations after 1 to warm up"));
    assert_non_null(strstr(outcome.out, "Steps (exposed"));
    outcome_fini(&outcome);
    struct outcome quiet = shell(ALONE " --quiet");
    assert_string_equal(quiet.out, "");
    assert_string_equal(quiet.err, "");
    assert_int_equal(quiet.status, 0);
    outcome_fini(&quiet);
}

static void the_json_has_what_a_prediction_has_and_more(void **state)
{
    (void)state;
    json_t *run = json_of(ALONE " --seed 3 --json - --operations");
    assert_string_equal(json_string_value(at(run, "schema")), "cpsim.run/1");
    assert_string_equal(json_string_value(at(run, "kind")), "measured");
    assert_string_equal(
        json_string_value(at(run, "command")),
        "cpsim --hw cpu-small --set workload.seq_len=256 --seed 3 --compute cpu --iterations 3 --warmup 1");
    assert_string_equal(json_string_value(at(run, "topology.path")), "(this machine)");
    assert_string_equal(json_string_value(at(run, "topology.transport")), "local");
    assert_string_equal(json_string_value(at(run, "topology.collectives")), "none");
    assert_true(number(run, "topology.n_gpus") == 2 && number(run, "topology.cores") >= 1);
    assert_int_equal(json_array_size(at(run, "topology.hosts")), 1);
    assert_true(number(run, "experiment.workload.seq_len") == 256);
    assert_true(number(run, "step.seconds") == number(run, "timing.step.seconds"));
    assert_true(number(run, "step.seconds_low") <= number(run, "step.seconds") &&
                number(run, "step.seconds") <= number(run, "step.seconds_high"));
    assert_true(number(run, "step.flops") == 256.0 * 257 / 2 * 4 * 64 * (4 + 10));
    assert_int_equal(json_array_size(at(run, "ranks")), 2);
    assert_int_equal(json_array_size(at(run, "links")), 0);
    assert_true(json_array_size(at(run, "operations")) > 0);
    static const char *const timing[] = {"iterations",
                                         "warmup",
                                         "forward.seconds_low",
                                         "backward.seconds_high",
                                         "compute_only_seconds",
                                         "communication_only_seconds",
                                         "contention",
                                         "skew_seconds.forward",
                                         "skew_seconds.backward",
                                         "clock_error_seconds"};
    for (size_t i = 0; i < sizeof timing / sizeof *timing; i++)
        assert_true(number(at(run, "timing"), timing[i]) >= 0);
    assert_true(json_is_boolean(at(run, "timing.oversubscribed")));
    json_decref(run);
}

static void the_json_states_the_verification(void **state)
{
    (void)state;
    json_t *run = json_of(ALONE " --json -"), *verification = at(run, "verification");
    assert_true(json_is_true(at(verification, "passed")));
    assert_string_equal(json_string_value(at(verification, "check")), "full");
    static const char *const tensors[] = {"O", "LSE", "dQ", "dK", "dV"};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        json_t *tensor = at(verification, tensors[i]);
        assert_true(number(tensor, "max_error") <= number(tensor, "tolerance") && number(tensor, "non_finite") == 0);
    }
    json_decref(run);
    run = json_of(ALONE " --set workload.pass=forward --json -");
    assert_null(json_object_get(at(run, "verification"), "dQ"));
    json_decref(run);
}

/* Takes away what is a time or follows from times. */
static void remove_times(json_t *run)
{
    static const char *const top[] = {"timing", "command"}; /* the command names the transport */
    static const char *const derived[] = {
        "overlap_efficiency", "tflops_per_rank",      "imbalance", "critical_rank", "exposed_by_kind",
        "compute_by_part",    "model_tflops_per_gpu", "mfu",       "hfu",           "tokens_per_second_per_gpu"};
    for (size_t i = 0; i < sizeof top / sizeof *top; i++)
        json_object_del(run, top[i]);
    if (json_object_get(run, "memory"))
        json_object_del(json_object_get(run, "memory"), "at_seconds");
    const size_t n_ranks = json_array_size(at(run, "ranks"));
    for (size_t o = 0; o <= n_ranks; o++) {
        json_t *object = o == n_ranks ? at(run, "step") : json_array_get(at(run, "ranks"), o);
        void *next;
        const char *key;
        json_t *value;
        json_object_foreach_safe(object, next, key, value)
        {
            bool time = strstr(key, "seconds");
            for (size_t i = 0; i < sizeof derived / sizeof *derived; i++)
                time = time || strcmp(key, derived[i]) == 0;
            if (time)
                json_object_del(object, key);
        }
    }
}

static void only_times_differ_between_two_runs_of_a_seed(void **state)
{
    (void)state;
    json_t *first = json_of(ALONE " --seed 3 --json -"), *second = json_of(ALONE " --seed 3 --json -"),
           *other = json_of(ALONE " --seed 4 --json -");
    remove_times(first);
    remove_times(second);
    remove_times(other);
    assert_true(json_equal(first, second));
    assert_false(json_equal(first, other));
    json_decref(first);
    json_decref(second);
    json_decref(other);
}

static void a_drawn_seed_is_stated_and_another_every_time(void **state)
{
    (void)state;
    json_t *first = json_of(ALONE " --json -"), *second = json_of(ALONE " --json -");
    assert_true(number(first, "verification.seed") != number(second, "verification.seed"));
    char *stated = memory_format(" --seed %.0f", number(first, "verification.seed"));
    assert_non_null(strstr(json_string_value(at(first, "command")), stated));
    free(stated);
    json_decref(first);
    json_decref(second);
}

static void csv_trace_and_plots_are_made_as_of_predictions(void **state)
{
    (void)state;
    expect(ALONE " --csv $DIR/run.csv --trace $DIR/run.json --plot $DIR/a.svg --plot memory=$DIR/b.svg "
                 "--plot time=$DIR/c.svg --script $DIR/run.gp --quiet",
           0, NULL, NULL);
    char *csv = made_file("run.csv"), *trace = made_file("run.json"), *script = made_file("run.gp");
    assert_memory_equal(csv, "rank,group,gpu,seconds,", 23);
    json_t *events = json_loads(trace, 0, NULL);
    assert_true(json_array_size(json_object_get(events, "traceEvents")) > 0);
    assert_non_null(strstr(script, "a.svg"));
    json_decref(events);
    free(csv);
    free(trace);
    free(script);
}

static void more_ranks_than_cores_are_said_to_be_not_for_calibration(void **state)
{
    (void)state;
    const char *many = "taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//') " ALONE;
    char *with_json = memory_format("%s --json $DIR/many.json", many);
    expect(with_json, 0, "NOT FOR CALIBRATION", NULL);
    json_t *run = json_of("cat $DIR/many.json");
    assert_true(json_is_true(at(run, "timing.oversubscribed")));
    assert_true(json_is_false(at(run, "timing.fit_for_calibration")));
    assert_true(number(run, "topology.cores") == 1);
    json_decref(run);
    free(with_json);
}

static void one_rank_runs_too(void **state)
{
    (void)state;
    expect(ALONE " --set parallel.cp=1 --iterations 1 --warmup 0 2>&1", 2, "--iterations is given twice", NULL);
    expect(
        "$CPSIM --hw cpu-small --compute cpu --set workload.seq_len=64 --set parallel.cp=1 --iterations 1 --warmup 0",
        0, "nothing to hide", NULL);
}

static void overlap_of_one_iteration_is_said_not_to_be_resolved(void **state)
{
    (void)state;
    expect("$CPSIM --hw cpu-small --compute cpu --set workload.seq_len=64 --iterations 1 --warmup 0 --json "
           "$DIR/once.json",
           0, "overlap   not resolved: one iteration", NULL);
    json_t *run = json_of("cat $DIR/once.json");
    assert_true(json_is_null(at(run, "step.overlap_efficiency")));
    assert_true(json_is_false(at(run, "timing.overlap_resolved")));
    json_decref(run);
}

static void what_cannot_run_is_refused_before_anything_runs(void **state)
{
    (void)state;
    expect("$CPSIM --hw nothere.ini", 2, NULL, "cpsim: nothere.ini: cannot be read");
    expect(ALONE " --set model.dtype=fp8", 2, NULL, "backend 'cpu' cannot run dtype 'fp8', expected fp32 or bf16");
    expect("$CPSIM --hw cpu-small --set workload.seq_len=1Gi", 2, NULL, "GiB are available");
    expect(ALONE " --set 'level node.bandwidth=1 GB/s'", 2, NULL, "has no effect without a topology");
}

static void misuse_is_refused(void **state)
{
    (void)state;
    expect("$CPSIM --hw", 2, NULL, "0 files given, expected one: an experiment");
    expect("$CPSIM --hw toy-2 cpu-small", 2, NULL, "2 files given, expected one: an experiment");
    expect(ALONE " --sweep parallel.cp=1,2", 2, NULL, "--hw cannot --sweep yet");
    expect(ALONE " --engine analytic", 2, NULL, "--engine has no effect with --hw");
    expect(ALONE " --jobs 2", 2, NULL, "--jobs has no effect with --hw");
    expect(ALONE " --operations", 2, NULL, "--operations has no effect without --json");
    expect(ALONE " --events", 2, NULL, "exclude each other");
    expect(ALONE " --plot scaling=x.svg", 2, NULL, "a scaling plot needs --sweep");
    expect("$CPSIM --hw cpu-small --iterations 0", 2, NULL, "--iterations '0', expected a whole number from 1 to");
    expect("$CPSIM --hw cpu-small --warmup -1", 2, NULL, "--warmup '-1', expected a whole number from 0 to");
    expect(ALONE " --seed x", 2, NULL, "--seed 'x', expected a whole number");
    expect(ALONE " --compute abacus", 2, NULL, "no compute backend 'abacus' (see cpsim --list computes)");
    expect(ALONE " --transport pigeon", 2, NULL, "no transport 'pigeon' in this build (see cpsim --list transports)");
    expect("$CPSIM toy-2 two-owners --seed 1 --transport local", 2, NULL, "--seed has no effect without --hw");
}

/* Each in one of three commands under the sanitizers, in all of them elsewhere. */
static bool is_tried(size_t option, size_t command)
{
#ifdef __SANITIZE_ADDRESS__
    return option % 3 == command;
#else
    (void)option, (void)command;
    return true;
#endif
}

static void options_for_gpus_are_refused_on_a_cpu(void **state)
{
    (void)state;
    static const char *const options[] = {"--gpu 1",     "--kernels mma",    "--deterministic", "--serial",
                                          "--graph",     "--nccl x.so",      "--nccl-ctas 4",   "--nccl-zero-cta",
                                          "--nccl-self", "--nccl-registered"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *name_end = strchr(options[i], ' ');
        int length = name_end ? (int)(name_end - options[i]) : (int)strlen(options[i]);
        static const char *const refusals[][2] = {
            {ALONE, "with compute 'cpu': it is for GPUs\n"},
            {"$CPSIM toy-2 two-owners", "without --hw\n"},
            {"$CPSIM --hw --calibrate $DIR/p.ini", "with "}, /* a CPU, or calibration */
        };
        for (size_t c = 0; c < sizeof refusals / sizeof *refusals; c++) {
            if (!is_tried(i, c))
                continue;
            char *command = memory_format("%s %s", refusals[c][0], options[i]);
            char *message = memory_format("cpsim: %.*s has no effect %s", length, options[i], refusals[c][1]);
            expect(command, 2, NULL, message);
            free(command);
            free(message);
        }
    }
    /* also when nobody said that it is to be the CPU: fp32 is nothing for GPUs */
    expect("$CPSIM --hw cpu-small --graph", 2, NULL, "cpsim: --graph has no effect with compute 'cpu': it is for GPUs");
}

static void options_for_nccl_are_refused_with_transports_that_do_without(void **state)
{
    (void)state;
    expect("$CPSIM --hw cpu-small --transport local --nccl-ctas 4", 2, NULL,
           "cpsim: --nccl-ctas has no effect with transport 'local': it does not use NCCL\n");
    expect("$CPSIM --hw cpu-small --nccl-ctas 0", 2, NULL, "--nccl-ctas '0', expected a whole number from 1 to 1024");
    expect("$CPSIM --hw cpu-small --gpu -1", 2, NULL, "--gpu '-1', expected a whole number from 0 to 1023");
    expect("$CPSIM --hw cpu-small --kernels mma --kernels mma", 2, NULL, "--kernels is given twice");
    expect("$CPSIM --hw cpu-small --nccl a --nccl b", 2, NULL, "--nccl is given twice");
    if (transport_find("mpi")) {
        expect("$CPSIM --hw cpu-small --transport mpi --serial", 2, NULL,
               "cpsim: --serial has no effect with transport 'mpi': each rank has a GPU, or a process, of its own\n");
        expect("$CPSIM --hw cpu-small --transport mpi --nccl-self", 2, NULL,
               "cpsim: --nccl-self has no effect with transport 'mpi': it is for ranks that share one GPU\n");
    }
}

static void a_build_without_cuda_says_so(void **state)
{
    (void)state;
    if (compute_find("cuda"))
        skip();
    expect("$CPSIM --hw cpu-small --compute cuda", 2, NULL,
           "cpsim: no compute backend 'cuda' in this build, which was made without CUDA (see cpsim --list computes)\n");
    struct outcome outcome = shell("$CPSIM --hw cpu-small --set workload.seq_len=64 --iterations 1 --quiet");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, ""); /* there is nothing to choose from */
    outcome_fini(&outcome);
    expect("$CPSIM --list gpus", 0, "none: this cpsim was built without CUDA\n", NULL);
}

static void gpus_or_the_reason_for_none_are_listed(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM --list gpus");
    assert_int_equal(outcome.status, 0);
    assert_true(strncmp(outcome.out, "none: ", 6) == 0 || strstr(outcome.out, "capability"));
    outcome_fini(&outcome);
}

static void backends_and_transports_are_listed(void **state)
{
    (void)state;
    expect("$CPSIM --list computes", 0, "cpu ", NULL);
    expect("$CPSIM --list transports", 0, "local ", NULL);
}

/* ---- a wrong result, in this process: a backend that the command does not have ---- */

static void forget_a_sum(struct compute *compute, const struct program *program, uint32_t op, void *const *memory,
                         const struct between_tiles *between_tiles)
{
    if (program->rank == 1 && program->ops[op].kind == OP_ACCUMULATE)
        return;
    compute_cpu.run(compute, program, op, memory, between_tiles);
}

static void a_wrong_result_fails_and_is_reported(void **state)
{
    (void)state;
    static const char *const overrides[] = {"workload.seq_len=64"};
    struct compute_ops faulty = compute_cpu;
    faulty.run = forget_a_sum;
    const struct measured_question question = {
        .question = {.experiment_path = "cpu-small", .overrides = overrides, .n_overrides = 1},
        .hardware = {.transport = "local", .compute = &faulty, .kernels.device = -1},
        .iterations = 1,
    };
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct measured_run run;
    assert_int_equal(measured_run_make(&run, &question, &diag), PREDICTION_FAILED);
    assert_true(measured_run_speaks(&run) && run.reported);
    assert_true(diag.count > 0);
    assert_memory_equal(diag.lines[0], "verification failed: ", 21);
    json_t *json = run_tree(&run.prediction, false);
    assert_true(json_is_false(at(json, "verification.passed")));
    assert_true(json_is_false(at(json, "timing.fit_for_calibration")));
    json_decref(json);
    char *table = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&table, &size);
    table_write(&run.prediction, 0, stream);
    fclose(stream);
    assert_non_null(strstr(table, "verified  NO, THE RESULT IS WRONG: "));
    free(table);
    measured_run_fini(&run);
    diagnostics_fini(&diag);
}

static void expect_collectives(const char *command, const char *how)
{
    json_t *run = json_of(command);
    assert_string_equal(json_string_value(at(run, "topology.collectives")), how);
    assert_true(json_is_true(at(run, "verification.passed")));
    json_decref(run);
}

static void collectives_are_calls_or_messages(void **state)
{
    (void)state;
    expect_collectives(ALONE " --json - --set schedule.algorithm=all-gather", "library");
#ifndef __SANITIZE_ADDRESS__ /* which make the same run take seconds */
    expect_collectives(ALONE " --json - --set schedule.algorithm=all-gather --collectives library", "library");
#endif
    expect_collectives(ALONE " --json - --set schedule.algorithm=all-gather --collectives messages", "messages");
    expect(ALONE " --collectives library", 2, NULL,
           "--collectives has no effect: the programs of 'ring' have no collectives");
}

/* ---- a process for each rank ---- */

/* Lines of `text` that begin with "cpsim: ". */
static size_t count_messages(const char *text)
{
    size_t count = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, "cpsim: ", 7) == 0;
    }
    return count;
}

static void expect_one_message(const char *text, int status, const char *message)
{
    struct outcome outcome = shell(text);
    if (outcome.status != status || count_messages(outcome.err) != 1 || !strstr(outcome.err, message) || *outcome.out)
        fail_msg("'%s' ended with %d, expected %d and once '%s':\n%s%s", text, outcome.status, status, message,
                 outcome.out, outcome.err);
    outcome_fini(&outcome);
}

static void under_mpirun_each_process_is_a_rank(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    json_t *alone = json_of(ALONE " --seed 3 --json -"), *apart = json_of(MPIRUN "2 " ALONE " --seed 3 --json -");
    assert_string_equal(json_string_value(at(apart, "topology.transport")), "mpi");
    static const char *const places[] = {"topology", "device"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        json_object_del(at(alone, places[i]), "transport");
        json_object_del(at(apart, places[i]), "transport");
    }
    remove_times(alone);
    remove_times(apart);
    assert_true(json_equal(alone, apart)); /* the same bits, traffic and memory */
    json_decref(alone);
    json_decref(apart);
}

/* ---- a whole layer ---- */

#define LAYER "cpu-layer --compute cpu --set workload.seq_len=128 --iterations 2 --warmup 0"

static void a_layer_runs_on_all_ranks_of_its_layout(void **state)
{
    (void)state;
    expect("$CPSIM --hw " LAYER " --seed 3 --json $DIR/layer.json", 0,
           "verified  yes: y, dx, dnorm_1, dW_q, dW_k, dW_v, dW_o, dnorm_2, dW_up, dW_down against the reference in "
           "full",
           NULL);
    expect("$CPSIM --hw " LAYER " --set workload.pass=forward", 0, "verified  yes: y against the reference", NULL);
    json_t *run = json_of("cat $DIR/layer.json");
    assert_true(json_array_size(at(run, "ranks")) == 4 && number(run, "topology.n_gpus") == 4);
    assert_true(json_is_true(at(run, "verification.passed")));
    assert_true(number(run, "verification.y.values") == 128 * 256); /* its rows are parted */
    assert_true(number(run, "verification.dW_q.values") == 2 * 256 * 256);
    assert_true(number(run, "verification.dnorm_1.values") == 4 * 256);
    assert_true(number(run, "step.visible_pairs") == 128 * 129 / 2);
    for (size_t i = 0; i < 4; i++) {
        json_t *rank = json_array_get(at(run, "ranks"), i);
        assert_true(number(rank, "rank") == (double)(i % 2) && number(rank, "group") == (double)(i / 2));
        assert_true(number(rank, "bytes_sent") > 0 && number(rank, "flops") > 0);
    }
    json_decref(run);
}

static void what_a_layer_cannot_be_is_refused(void **state)
{
    (void)state;
    expect("$CPSIM --hw " LAYER " --set workload.scope=model", 2, NULL, "hardware mode has no embedding");
    expect("$CPSIM --hw " LAYER " --set step.zero=1", 2, NULL, "expected zero = 0");
    expect("$CPSIM --hw " LAYER " --set model.bias=all", 2, NULL, "expected bias = none");
    expect("$CPSIM --hw " LAYER " --set model.hidden=16384 --set model.ffn=65536", 2, NULL, "verifies a layer in full");
    expect("$CPSIM --hw " LAYER " --collectives messages", 2, NULL, "--collectives has no effect");
    expect("$CPSIM --events cpu-layer", 2, NULL, "--events executes attention alone, expected scope = attention");
}

#ifndef __SANITIZE_ADDRESS__
static void a_layer_under_mpirun_is_the_same(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    json_t *alone = json_of("$CPSIM --hw " LAYER " --seed 3 --json -");
    json_t *apart = json_of(MPIRUN "4 $CPSIM --hw " LAYER " --seed 3 --json -");
    json_object_del(at(alone, "topology"), "transport");
    json_object_del(at(apart, "topology"), "transport");
    json_object_del(at(alone, "device"), "transport");
    json_object_del(at(apart, "device"), "transport");
    remove_times(alone);
    remove_times(apart);
    assert_true(json_equal(alone, apart));
    json_decref(alone);
    json_decref(apart);
    expect_one_message(MPIRUN "2 $CPSIM --hw " LAYER, 2, "the experiment has 4 ranks, but 2 processes were started");
}
#endif

static void under_mpirun_one_process_speaks(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    struct outcome outcome = shell(MPIRUN "2 " ALONE); /* with a seed that one of them draws */
    assert_int_equal(outcome.status, 0);
    assert_memory_equal(outcome.out, "model ", 6);
    assert_null(strstr(outcome.out + 1, "\nmodel "));
    outcome_fini(&outcome);
    expect_one_message(MPIRUN "3 " ALONE, 2, "the experiment has 2 ranks, but 3 processes were started");
    expect_one_message(MPIRUN "2 $CPSIM --hw nothere.ini", 2, "cpsim: nothere.ini: cannot be read");
#ifndef __SANITIZE_ADDRESS__ /* of which each takes as long again; without MPI they are said above */
    expect_one_message(MPIRUN "2 " ALONE " --set model.dtype=fp8", 2, "cpsim: backend 'cpu' cannot run dtype 'fp8'");
    expect_one_message(MPIRUN "2 " ALONE " --jobs 2", 2, "cpsim: --jobs has no effect with --hw");
#endif
    expect_one_message(MPIRUN "2 " ALONE " --transport local", 2, "in one process, but 2 processes were started");
}

static void under_mpirun_a_rank_that_differs_is_named(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    expect_one_message(MPIRUN "1 " ALONE " : -n 1 $CPSIM --hw nothere.ini", 2, "cpsim: rank 1 on host '");
#ifndef __SANITIZE_ADDRESS__ /* the first and the last of what is compared */
    expect_one_message(MPIRUN "1 " ALONE " : -n 1 " ALONE " --set workload.mask=full", 2,
                       "was given another experiment than rank 0");
    expect_one_message(MPIRUN "1 " ALONE
                              " : -n 1 $CPSIM --hw cpu-small --compute cpu --set workload.seq_len=256 --iterations 3",
                       2, "was given another number of warm-up iterations than rank 0");
#endif
    expect_one_message(MPIRUN "1 " ALONE " --seed 1 : -n 1 " ALONE " --seed 2", 2,
                       "was given another seed than rank 0");
}

static void alone_mpi_is_refused_for_two_ranks(void **state)
{
    (void)state;
    if (!can_mpirun())
        skip();
    expect_one_message(MPI_ENVIRONMENT ALONE " --transport mpi", 2,
                       "the experiment has 2 ranks, but 1 process was started");
}

static int clean_up(void **state)
{
    (void)state;
    remove_test_folder();
    return 0;
}

int main(void)
{
    if (chdir(CPSIM_SOURCE_DIR) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_prints_its_table),
        cmocka_unit_test(the_json_has_what_a_prediction_has_and_more),
        cmocka_unit_test(the_json_states_the_verification),
        cmocka_unit_test(only_times_differ_between_two_runs_of_a_seed),
        cmocka_unit_test(a_drawn_seed_is_stated_and_another_every_time),
        cmocka_unit_test(csv_trace_and_plots_are_made_as_of_predictions),
        cmocka_unit_test(more_ranks_than_cores_are_said_to_be_not_for_calibration),
        cmocka_unit_test(one_rank_runs_too),
        cmocka_unit_test(overlap_of_one_iteration_is_said_not_to_be_resolved),
        cmocka_unit_test(what_cannot_run_is_refused_before_anything_runs),
        cmocka_unit_test(collectives_are_calls_or_messages),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(options_for_gpus_are_refused_on_a_cpu),
        cmocka_unit_test(options_for_nccl_are_refused_with_transports_that_do_without),
        cmocka_unit_test(a_build_without_cuda_says_so),
        cmocka_unit_test(gpus_or_the_reason_for_none_are_listed),
        cmocka_unit_test(backends_and_transports_are_listed),
        cmocka_unit_test(a_wrong_result_fails_and_is_reported),
        cmocka_unit_test(under_mpirun_each_process_is_a_rank),
        cmocka_unit_test(a_layer_runs_on_all_ranks_of_its_layout),
        cmocka_unit_test(what_a_layer_cannot_be_is_refused),
#ifndef __SANITIZE_ADDRESS__ /* which four processes share */
        cmocka_unit_test(a_layer_under_mpirun_is_the_same),
#endif
        cmocka_unit_test(under_mpirun_one_process_speaks),
        cmocka_unit_test(under_mpirun_a_rank_that_differs_is_named),
        cmocka_unit_test(alone_mpi_is_refused_for_two_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, clean_up);
}
