/* cpsim --hw as a command, on an emulated GPU: what runs there, what is refused, and what results say of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#undef CPSIM_COMMAND
#define CPSIM_COMMAND CPSIM_EMULATED
#include "hw/transport.h"
#include "tests/cli/expect.h"

/* An emulated GPU takes its time. */
#define SHAPE "--set workload.seq_len=64 --set model.q_heads=2 --set model.kv_heads=1 --set model.head_dim=64 "
#define SMALL "gpu-small " SHAPE "--iterations 2 --warmup 1 --seed 3 "
#define RUN "$CPSIM --hw " SMALL
/* Where the library lies that stands in for NVML. */
#define WATCHED "LD_LIBRARY_PATH=$(dirname " FAKE_NVML ") "

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

static const char *text(json_t *json, const char *path)
{
    return json_string_value(at(json, path));
}

static double number(json_t *json, const char *path)
{
    json_t *value = at(json, path);
    if (!json_is_number(value))
        fail_msg("'%s' is no number", path);
    return json_number_value(value);
}

static json_t *gpu_of(json_t *run)
{
    assert_int_equal(json_array_size(at(run, "device.gpus")), 1);
    return json_array_get(at(run, "device.gpus"), 0);
}

static void a_gpu_is_taken_where_there_is_one_and_results_say_so(void **state)
{
    (void)state;
    json_t *run = json_of(RUN "--json -"), *gpu = gpu_of(run);
    assert_true(json_is_true(at(run, "verification.passed")));
    assert_non_null(strstr(text(run, "command"), " --compute cuda "));
    assert_string_equal(text(run, "topology.compute"), "cuda");
    assert_string_equal(text(run, "topology.device"), "emulated GPU");
    assert_string_equal(text(run, "device.compute"), "cuda");
    assert_string_equal(text(run, "device.transport"), "local");
    assert_string_equal(text(run, "device.kernels"), text(run, "topology.kernel"));
    assert_string_equal(text(gpu, "name"), "emulated GPU");
    assert_string_equal(text(gpu, "capability"), "8.0");
    assert_string_equal(text(gpu, "cuda_driver"), "13.0");
    assert_int_equal(json_array_size(at(gpu, "ranks")), 2);
    assert_true(number(gpu, "memory_bytes") == 1 << 30 && number(run, "step.device_bytes") == 1 << 30);
    assert_true(json_is_false(at(run, "device.composed")) && json_is_false(at(run, "device.graph")));
    assert_true(json_is_true(at(run, "timing.oversubscribed"))); /* two ranks on it */
    assert_true(number(run, "timing.traced.seconds") > 0 && number(run, "timing.tracing_overhead") > -1);
    json_decref(run);
}

static void the_command_that_results_state_can_be_run_again(void **state)
{
    (void)state;
    json_t *run = json_of(RUN "--gpu 0 --kernels mma --deterministic --json -");
    assert_non_null(strstr(text(run, "command"), " --compute cuda --gpu 0 --kernels mma --deterministic"));
    char *again = memory_format("$%s --quiet", text(run, "command"));
    memcpy(again, "$CPSIM", 6); /* in place of "$cpsim" */
    expect(again, 0, NULL, NULL);
    free(again);
    json_decref(run);
}

static inline void the_table_names_the_gpu_and_warns_of_shared_ones(void **state)
{
    (void)state;
    expect(RUN, 0, "\nmachine   2 ranks (transport local, compute cuda: mma) on 1 GPU, emulated GPU\n", NULL);
    expect(RUN, 0, "\n          NOT FOR CALIBRATION: ranks share one GPU: times say nothing about scaling\n", NULL);
    expect(RUN, 0, "\nGPU       emulated GPU at 00000000:00:00.0 of ", NULL);
    expect(RUN, 0, ": capability 8.0, 4 SMs, 1 GiB; CUDA 13.0", NULL);
    expect(RUN, 0, "\nstep, every operation timed ", NULL);
    expect(RUN, 0, "\n(timing every operation changes the step's time by ", NULL);
}

static inline void one_rank_has_the_gpu_to_itself(void **state)
{
    (void)state;
    json_t *run = json_of(RUN "--set parallel.cp=1 --json -");
    assert_true(json_is_false(at(run, "timing.oversubscribed")));
    json_decref(run);
}

static inline void ranks_one_at_a_time_and_graphs_are_marked_as_such(void **state)
{
    (void)state;
    json_t *run = json_of(RUN "--serial --json -");
    assert_true(json_is_true(at(run, "verification.passed")));
    assert_true(json_is_true(at(run, "device.composed")) && json_is_false(at(run, "device.graph")));
    assert_true(json_is_false(at(run, "timing.oversubscribed"))); /* nobody waits for another's kernels */
    assert_non_null(strstr(text(run, "command"), " --serial"));
    assert_null(json_object_get(at(run, "timing"), "traced")); /* there is no other */
    json_decref(run);
    run = json_of(RUN "--graph --json -");
    assert_true(json_is_true(at(run, "verification.passed")));
    assert_true(json_is_false(at(run, "device.composed")) && json_is_true(at(run, "device.graph")));
    assert_non_null(strstr(text(run, "command"), " --graph"));
    json_decref(run);
    expect(RUN "--serial", 0, "\n          COMPOSED: one rank's kernels at a time; ", NULL);
    expect(RUN "--graph", 0, "\n          each phase is one CUDA graph\n", NULL);
}

static inline void the_state_of_the_gpu_is_recorded_with_nvml(void **state)
{
    (void)state;
    json_t *run = json_of(WATCHED RUN "--json -"), *seen = at(gpu_of(run), "state");
    assert_string_equal(text(seen, "driver"), "580.95.05");
    assert_true(number(seen, "samples") == 3); /* before each iteration, and after the last */
    assert_true(number(seen, "sm_mhz.most") == 1980 && number(seen, "sm_mhz.median") == 1965 &&
                number(seen, "sm_mhz.least") == 1950 && number(seen, "most_sm_mhz") == 1980);
    assert_true(number(seen, "power_watts.median") == 650.5 && number(seen, "power_limit_watts") == 700);
    json_t *slowdowns = at(seen, "slowdowns");
    assert_int_equal(json_array_size(slowdowns), 2);
    assert_string_equal(json_string_value(json_array_get(slowdowns, 0)), "power cap");
    assert_null(json_object_get(seen, "not_recorded"));
    json_decref(run);
    expect(WATCHED RUN, 0,
           "\nstate     SM 1965 MHz (1950 to 1980) of 1980, memory 3201 MHz, 650 W of 700, 42 C (41 to 43); "
           "held back by power cap, power brake\n",
           NULL);
}

static inline void without_nvml_the_run_is_as_good_and_says_what_is_missing(void **state)
{
    (void)state;
    json_t *run = json_of("FAKE_NVML=init " WATCHED RUN "--json -"), *seen = at(gpu_of(run), "state");
    assert_true(number(seen, "samples") == 0 && json_is_null(at(seen, "sm_mhz")));
    assert_non_null(strstr(text(seen, "not_recorded"), "initializing NVML ("));
    json_decref(run);
    expect("FAKE_NVML=init " WATCHED RUN, 0, "\nstate     not recorded: initializing NVML (", NULL);
}

static inline void what_is_not_for_gpus_runs_on_the_cpu_with_a_note(void **state)
{
    (void)state;
    static const char note[] = "cpsim: the GPU kernels compute in bf16 or fp16, not in fp32: running on the CPU\n";
    struct outcome outcome = shell(RUN "--set model.dtype=fp32");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, note);
    assert_non_null(strstr(outcome.out, "compute cpu: "));
    outcome_fini(&outcome);
    outcome = shell(RUN "--set model.dtype=fp32 --compute cpu --json -");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, ""); /* as asked for */
    assert_non_null(strstr(outcome.out, "\"gpus\": []"));
    outcome_fini(&outcome);
    expect(RUN "--set model.dtype=fp32 --compute cuda", 2, NULL,
           "cpsim: backend 'cuda' cannot run this: the GPU kernels compute in bf16 or fp16, not in fp32\n");
}

static inline void nccl_is_named_with_its_version_where_it_carries_messages(void **state)
{
    (void)state;
    json_t *run = json_of(RUN "--nccl-self --nccl " FAKE_NCCL " --json -");
    assert_true(json_is_true(at(run, "verification.passed")));
    assert_non_null(strstr(text(run, "device.nccl"), "2."));
    assert_non_null(strstr(text(run, "command"), " --nccl " FAKE_NCCL " --nccl-self"));
    json_decref(run);
    expect(RUN "--nccl-self --nccl " FAKE_NCCL, 0, "\nmachine   2 ranks (transport local: NCCL 2.", NULL);
    run = json_of(RUN "--json -");
    assert_true(json_is_null(at(run, "device.nccl")));
    json_decref(run);
    struct outcome outcome = shell(RUN "--nccl-self --nccl $DIR/nothere.so");
    const char *first = strstr(outcome.err, "NCCL cannot be opened");
    assert_int_equal(outcome.status, 2);
    assert_non_null(first);
    assert_null(strstr(first + 1, "NCCL cannot be opened")); /* both ranks find so, and one line says it */
    outcome_fini(&outcome);
}

static inline void nccl_is_not_named_where_the_hosts_memory_is_moved(void **state)
{
    (void)state;
    expect(RUN "--compute cpu --transport nccl-threads", 2, NULL,
           "cpsim: --transport nccl-threads has no effect with compute 'cpu': it is for GPUs\n");
    expect(RUN "--set model.dtype=fp32 --transport nccl-threads", 2, NULL,
           "cpsim: --transport nccl-threads has no effect with compute 'cpu': it is for GPUs, but the GPU kernels "
           "compute in bf16 or fp16, not in fp32\n");
}

/* NCCL is broken and cannot be stopped: the kernels that it has queued never end. */
static inline void a_library_that_hangs_does_not_hold_up_the_command(void **state)
{
    (void)state;
    expect("CPSIM_EMULATED_GPUS=2 FAKE_NCCL_FAIL_AFTER=2 FAKE_NCCL_ABORT_HANGS=1 timeout 40 " RUN
           "--transport nccl-threads --nccl " FAKE_NCCL,
           1, NULL, "remote process exited");
}

static void a_calibration_that_cannot_begin_is_bad_input(void **state)
{
    (void)state;
    expect("$CPSIM --hw --calibrate $DIR/p.ini --gpu 4", 2, NULL, "cpsim: there is no GPU 4 on this host: it has 1");
    expect("$CPSIM --hw --calibrate $DIR/p.ini --kernels wgmma", 2, NULL, "cpsim: GPU 0 cannot run kernels 'wgmma'");
    expect("$CPSIM --hw --calibrate $DIR/p.ini --transport nccl-threads --ranks 2", 2, NULL,
           "but 1 GPU, expected one each");
    expect("CPSIM_EMULATED_GPUS=0 $CPSIM --hw --calibrate $DIR/p.ini --compute cuda", 2, NULL,
           "cpsim: backend 'cuda' cannot run this: no GPU can be used");
    expect("CPSIM_EMULATED_GPUS=0 $CPSIM --hw --calibrate $DIR/p.ini --gpu 0", 2, NULL,
           "cpsim: --gpu has no effect with compute 'cpu': it is for GPUs, but CUDA finds none: ");
}

static void under_mpirun_the_note_is_given_once(void **state)
{
    (void)state;
    struct outcome version = shell("mpirun --version");
    bool can = version.status == 0 && transport_find("mpi");
    outcome_fini(&version);
    if (!can)
        skip();
    struct outcome outcome = shell("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                                   "ASAN_OPTIONS=detect_leaks=0:$ASAN_OPTIONS; timeout 50 mpirun --oversubscribe --quiet -n 2 " RUN
                                   "--set model.dtype=fp32 --quiet");
    const char *first = strstr(outcome.err, "running on the CPU\n");
    assert_int_equal(outcome.status, 0);
    assert_non_null(first);
    assert_null(strstr(first + 1, "running on the CPU"));
    outcome_fini(&outcome);
}

static void what_has_no_effect_or_no_room_is_refused(void **state)
{
    (void)state;
    expect(RUN "--set model.dtype=fp32 --graph", 2, NULL,
           "cpsim: --graph has no effect with compute 'cpu': it is for GPUs, but the GPU kernels compute in bf16 or "
           "fp16, not in fp32\n");
    expect(RUN "--nccl-zero-cta", 2, NULL,
           "cpsim: --nccl-zero-cta has no effect with transport 'local': it does not use NCCL\n");
    expect(RUN "--gpu 1", 2, NULL, "cpsim: there is no GPU 1 on this host: it has 1, counted from 0\n");
    expect("$CPSIM --hw gpu-small --set workload.seq_len=64Ki --set workload.batch=8", 2, NULL,
           "GiB on the GPU 00000000:00:00.0 (emulated GPU) of host '");
}

static void lists_show_gpus_and_backends(void **state)
{
    (void)state;
    expect("$CPSIM --list gpus", 0, "  0  emulated GPU  00000000:00:00.0 ", NULL);
    expect("$CPSIM --list computes", 0, "\ncuda ", NULL);
}

static void runs_on_cpu_and_gpu_are_compared(void **state)
{
    (void)state;
    expect(RUN "--json $DIR/gpu.json --quiet; $CPSIM toy-2 "
               "gpu-small " SHAPE "--json $DIR/predicted.json --quiet; "
               "$CPSIM --compare $DIR/predicted.json $DIR/gpu.json",
           0, "step", NULL);
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
        cmocka_unit_test(a_gpu_is_taken_where_there_is_one_and_results_say_so),
        cmocka_unit_test(the_command_that_results_state_can_be_run_again),
#ifndef __SANITIZE_ADDRESS__ /* it makes every change of emulated threads many times slower */
        cmocka_unit_test(the_table_names_the_gpu_and_warns_of_shared_ones),
        cmocka_unit_test(one_rank_has_the_gpu_to_itself),
        cmocka_unit_test(ranks_one_at_a_time_and_graphs_are_marked_as_such),
        cmocka_unit_test(the_state_of_the_gpu_is_recorded_with_nvml),
        cmocka_unit_test(without_nvml_the_run_is_as_good_and_says_what_is_missing),
        cmocka_unit_test(what_is_not_for_gpus_runs_on_the_cpu_with_a_note),
        cmocka_unit_test(nccl_is_named_with_its_version_where_it_carries_messages),
        cmocka_unit_test(nccl_is_not_named_where_the_hosts_memory_is_moved),
        cmocka_unit_test(a_library_that_hangs_does_not_hold_up_the_command),
#endif
        cmocka_unit_test(a_calibration_that_cannot_begin_is_bad_input),
        cmocka_unit_test(under_mpirun_the_note_is_given_once),
        cmocka_unit_test(what_has_no_effect_or_no_room_is_refused),
        cmocka_unit_test(lists_show_gpus_and_backends),
        cmocka_unit_test(runs_on_cpu_and_gpu_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, clean_up);
}
