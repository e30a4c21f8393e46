/* The report of whole predictions: closed forms of work, bytes and memory, and what must hold of any of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <sys/wait.h>

#include "models/result/report.h"
#include "models/result/steps.h"
#include "tests/predict.h"

static const struct toy sixteen = {
    .q_heads = 2, .kv_heads = 2, .head_dim = 64, .seq_len = 16, .mask = "causal", .pass = "forward", .cp = 4};

static const struct toy eight_thousand = {
    .q_heads = 32, .kv_heads = 8, .head_dim = 128, .seq_len = 8192, .mask = "causal", .pass = "forward", .cp = 4};

static void run(struct prediction *p, struct toy toy, const char *schedule, const char *bandwidth, const char *latency)
{
    toy.schedule = schedule;
    assert_int_equal(predict_toy(p, &toy, bandwidth, latency), PREDICTION_DONE);
}

static void causal_pairs_per_rank_follow_from_the_sharding(void **state)
{
    (void)state;
    const struct {
        const char *schedule;
        uint64_t pairs[4];
    } cases[] = {
        {"algorithm = ring\nsharding = contiguous", {10, 26, 42, 58}},
        {"algorithm = ring\nsharding = zigzag", {34, 34, 34, 34}},
        {"algorithm = ring\nsharding = striped", {28, 32, 36, 40}},
        {"algorithm = all-gather\nsharding = contiguous", {10, 26, 42, 58}},
        {"algorithm = direct\nsharding = zigzag", {34, 34, 34, 34}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct prediction p;
        run(&p, sixteen, cases[i].schedule, "100 GB/s", "1 us");
        for (uint32_t r = 0; r < 4; r++) {
            assert_int_equal(p.report.ranks[r].visible_pairs, cases[i].pairs[r]);
            assert_true(p.report.ranks[r].flops == 4.0 * 64 * 2 * (double)cases[i].pairs[r]);
        }
        assert_int_equal(p.report.visible_pairs, 136);
        assert_true(p.report.flops == 4.0 * 64 * 2 * 136);
        prediction_fini(&p);
    }
}

static void training_does_three_and_a_half_times_the_forward_work(void **state)
{
    (void)state;
    struct toy toy = sixteen;
    toy.pass = "train";
    struct prediction p;
    run(&p, toy, "algorithm = ring\nsharding = zigzag", "100 GB/s", "1 us");
    assert_true(p.report.flops == 3.5 * 4.0 * 64 * 2 * 136);
    assert_int_equal(p.report.visible_pairs, 136);
    prediction_fini(&p);
}

/* (cp - 1) KV blocks of 2 * (S / cp) * kv_heads * head_dim * 2 bytes. */
static void forward_bytes_sent_are_the_other_ranks_blocks(void **state)
{
    (void)state;
    for (uint32_t cp = 4; cp <= 8; cp += 4) {
        static const char *const schedules[] = {"algorithm = ring\nsharding = zigzag",
                                                "algorithm = all-gather\nsharding = zigzag"};
        for (size_t i = 0; i < 2; i++) {
            struct toy toy = eight_thousand;
            toy.cp = cp;
            struct prediction p;
            run(&p, toy, schedules[i], "100 GB/s", "1 us");
            for (uint32_t r = 0; r < cp; r++) {
                const struct rank_report *rank = &p.report.ranks[r];
                assert_int_equal(rank->bytes_sent, cp == 4 ? 25165824 : 29360128);
                assert_int_equal(rank->bytes_received, rank->bytes_sent);
                assert_int_equal(rank->sent_bytes_by_kind[TRAFFIC_FORWARD_KV], rank->bytes_sent);
                assert_int_equal(rank->sent_elements_by_kind[TRAFFIC_FORWARD_KV], rank->bytes_sent / 2);
            }
            assert_int_equal(p.report.bytes_sent, cp * p.report.ranks[0].bytes_sent);
            prediction_fini(&p);
        }
    }
}

/* Backward: the blocks again, and P dKV in fp32. */
static void training_bytes_are_split_by_kind(void **state)
{
    (void)state;
    struct toy toy = eight_thousand;
    toy.pass = "train";
    struct prediction p;
    run(&p, toy, "algorithm = ring\nsharding = zigzag\ngradients = fp32", "100 GB/s", "1 us");
    const uint64_t block = 8388608;
    const struct rank_report *rank = &p.report.ranks[1];
    assert_int_equal(rank->sent_bytes_by_kind[TRAFFIC_FORWARD_KV], 3 * block);
    assert_int_equal(rank->sent_bytes_by_kind[TRAFFIC_REPLAY_KV], 3 * block);
    assert_int_equal(rank->sent_bytes_by_kind[TRAFFIC_GRADIENT], 4 * 2 * block);
    assert_int_equal(rank->sent_elements_by_kind[TRAFFIC_GRADIENT], 4 * block / 2);
    assert_int_equal(rank->bytes_sent, 14 * block);
    prediction_fini(&p);
}

static void memory_of_a_ring_falls_with_cp_and_of_an_all_gather_does_not(void **state)
{
    (void)state;
    struct toy toy = eight_thousand;
    toy.seq_len = 131072;
    toy.cp = 8;
    struct prediction p;
    run(&p, toy, "algorithm = ring\nsharding = zigzag\nbuffers = 2", "100 GB/s", "1 us");
    const struct rank_report *rank = &p.report.ranks[0];
    assert_int_equal(rank->q_bytes, 134217728);
    assert_int_equal(rank->kv_bytes, 67108864);
    assert_int_equal(rank->block_bytes, 67108864);
    assert_int_equal(rank->block_elements, 67108864 / 2);
    assert_int_equal(rank->peak_by_role[ROLE_RECEIVED], 2 * 67108864);
    assert_int_equal(rank->resident_bytes, 134217728 + 67108864 + 134217728 + 4 * 32 * 16384);
    assert_int_equal(rank->peak_by_role[ROLE_RESIDENT], rank->resident_bytes);
    prediction_fini(&p);

    run(&p, toy, "algorithm = all-gather\nsharding = striped", "100 GB/s", "1 us");
    assert_int_equal(p.report.ranks[0].peak_by_role[ROLE_RECEIVED], 536870912);
    prediction_fini(&p);
    run(&p, toy, "algorithm = all-gather\nsharding = zigzag", "100 GB/s", "1 us"); /* and once more, in order */
    assert_int_equal(p.report.ranks[0].peak_by_role[ROLE_RECEIVED], 2 * 536870912);
    prediction_fini(&p);
}

static void long_sequences_leave_32_bits_behind(void **state)
{
    (void)state;
    struct toy toy = eight_thousand;
    toy.seq_len = 10485760;
    toy.cp = 8;
    struct prediction p;
    run(&p, toy, "algorithm = ring\nsharding = zigzag", "100 GB/s", "1 us");
    assert_true(p.report.ranks[3].kv_bytes == UINT64_C(5368709120));
    assert_true(p.report.ranks[3].bytes_sent == 7 * UINT64_C(5368709120));
    assert_true(p.report.ranks[3].peak_by_role[ROLE_RECEIVED] == 2 * UINT64_C(5368709120));
    assert_true(p.report.visible_pairs == UINT64_C(10485760) * 10485761 / 2);
    prediction_fini(&p);
}

static void an_infinite_network_exposes_nothing(void **state)
{
    (void)state;
    struct prediction p;
    run(&p, eight_thousand, "algorithm = ring\nsharding = zigzag", "1 PB/s", "0 s");
    for (uint32_t r = 0; r < 4; r++)
        assert_true(p.report.ranks[r].exposed_seconds <= 1e-9 * p.report.seconds);
    prediction_fini(&p);
}

static void without_compute_all_communication_is_exposed(void **state)
{
    (void)state;
    struct prediction p;
    run(&p, eight_thousand, "algorithm = ring\nsharding = zigzag", "1 kB/s", "1 us");
    assert_true(p.report.communication_seconds > 1e4);
    for (uint32_t r = 0; r < 4; r++) {
        const struct rank_report *rank = &p.report.ranks[r];
        assert_true(fabs(rank->exposed_seconds - rank->communication_seconds) < 1e-6 * rank->communication_seconds);
        assert_true(rank->idle_seconds < 1e-6 * p.report.seconds);
    }
    prediction_fini(&p);
}

/* The first rank has the least to do and waits for the last: that is idleness, no communication. */
static void waiting_for_slower_ranks_is_idle_time(void **state)
{
    (void)state;
    struct toy toy = eight_thousand;
    toy.seq_len = 65536;
    struct prediction p;
    run(&p, toy, "algorithm = ring\nsharding = contiguous", "1000 GB/s", "1 us");
    assert_int_equal(p.report.critical_rank, 3);
    assert_true(p.report.ranks[0].idle_seconds > 0.5 * p.report.seconds);
    assert_true(p.report.ranks[3].idle_seconds < 0.01 * p.report.seconds);
    assert_true(p.report.ranks[0].exposed_seconds < 0.1 * p.report.seconds);
    prediction_fini(&p);
}

/* Against one device with the same whole sequence: cp times as fast without a mask, 136 / 58 with contiguous causal
 * shards (up to the merges). */
static void speed_up_on_an_infinite_network_is_that_of_the_work(void **state)
{
    (void)state;
    const struct {
        const char *mask, *sharding;
        double speed_up;
    } cases[] = {{"full", "algorithm = direct\nsharding = contiguous", 4},
                 {"causal", "algorithm = direct\nsharding = contiguous", 2.0 * 16 / (2 * 4 - 1) / 2},
                 {"causal", "algorithm = direct\nsharding = zigzag", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct toy toy = eight_thousand;
        toy.seq_len = 262144;
        toy.mask = cases[i].mask;
        struct prediction one, four;
        run(&four, toy, cases[i].sharding, "1 PB/s", "0 s");
        toy.cp = 1;
        run(&one, toy, "algorithm = direct", "1 PB/s", "0 s");
        double speed_up = one.report.seconds / four.report.seconds;
        assert_true(fabs(speed_up - cases[i].speed_up) < 0.01 * cases[i].speed_up);
        prediction_fini(&one);
        prediction_fini(&four);
    }
}

static void check_invariants(const struct prediction *p)
{
    const struct report *report = &p->report;
    double step = report->seconds, waits = 0;
    for (uint32_t i = 0; i < report->n_ranks; i++) {
        const struct rank_report *r = &report->ranks[i];
        double smaller = r->compute_seconds < r->communication_seconds ? r->compute_seconds : r->communication_seconds;
        assert_true(fabs(r->compute_seconds + r->exposed_seconds + r->idle_seconds - step) <= 1e-12 * step);
        assert_true(r->exposed_seconds >= 0 && r->idle_seconds >= 0);
        assert_true(r->overlapped_seconds <= smaller * (1 + 1e-12));
        assert_true(r->overlapped_seconds + r->exposed_seconds <= r->communication_seconds * (1 + 1e-12));
        assert_true(r->peak_bytes >= r->resident_bytes);
        assert_true(r->seconds <= step);
        waits += r->exposed_seconds + r->idle_seconds;
    }
    assert_true(report->overlap_efficiency >= 0 && report->overlap_efficiency <= 1 + 1e-12);
    assert_true(report->compute_bound_seconds <= step * (1 + 1e-9));
    if (!p->timeline.unshared)
        assert_true(report->wire_bound_seconds <= step * (1 + 1e-9));
    assert_true(fabs(report->forward_seconds + report->backward_seconds - step) <= 1e-12 * step);
    /* every rank attends in every phase here, so the step table holds all that was waited */
    double in_steps = 0;
    struct step_list steps;
    const struct report_input input = prediction_report_input(p);
    steps_of(&steps, &input);
    for (size_t i = 0; i < steps.count; i++)
        in_steps += steps.rows[i].exposed_seconds + steps.rows[i].exposed_after_seconds + steps.rows[i].idle_seconds +
                    steps.rows[i].idle_after_seconds;
    free(steps.rows);
    assert_true(fabs(in_steps - waits) <= 1e-9 * step);
}

/* Configuration `i` of CONFIGURATIONS. */
#define CONFIGURATIONS (3 * 3 * 4 * 3)

static void check_configuration(size_t i, const struct engine_ops *engine)
{
    static const char *const algorithm_names[] = {"ring", "all-gather", "direct"};
    static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
    static const char *const rests[] = {"overlap = yes", "overlap = no", "overlap = yes\nkv_block = 300",
                                        "overlap = yes\nskip = none"};
    static const char *const bandwidths[] = {"1 TB/s", "30 GB/s", "2 GB/s"};
    struct toy toy = eight_thousand;
    toy.pass = i % 2 ? "train" : "forward";
    char *schedule = memory_format("algorithm = %s\nsharding = %s\n%s", algorithm_names[i % 3], shardings[i / 3 % 3],
                                   rests[i / 9 % 4]);
    toy.schedule = schedule;
    struct prediction p;
    assert_int_equal(predict(&p, engine, toy_cluster(4, bandwidths[i / 36], "2 us"), toy_experiment(&toy)),
                     PREDICTION_DONE);
    check_invariants(&p);
    prediction_fini(&p);
    free(schedule);
}

static void times_add_up_and_bounds_hold_without_contention(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGURATIONS; i++)
        check_configuration(i, &engine_analytic);
}

/* A simulation a process. */
static void times_add_up_and_bounds_hold_when_links_are_shared(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGURATIONS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            check_configuration(i, &engine_simgrid);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* Reports again on a prediction whose timeline or device has been changed. */
static bool report_again(const struct prediction *p, struct diagnostics *diag)
{
    const struct report_input input = prediction_report_input(p);
    struct report report;
    bool good = report_init(&report, &input, diag);
    if (good)
        report_fini(&report);
    return good;
}

static void a_message_faster_than_its_route_is_refused(void **state)
{
    (void)state;
    struct toy toy = eight_thousand;
    toy.cp = 2;
    struct prediction p;
    run(&p, toy, "algorithm = ring\nsharding = zigzag", "100 GB/s", "1 us");
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(report_again(&p, &diag));
    for (uint32_t i = 0; i < p.programs[1].n_ops; i++)
        if (p.programs[1].ops[i].kind == OP_SEND) {
            struct moment *m = &p.timeline.moments[1][i];
            m->move += 1e-6 * (m->end - m->move);
        }
    assert_false(report_again(&p, &diag));
    assert_non_null(strstr(diag.lines[0], "rank 1 sends 16777216 bytes to rank 0"));
    diagnostics_fini(&diag);
    prediction_fini(&p);
}

/* Without contention, replayed K/V and gradients move over one link at once, each with all of its bandwidth. */
static void a_link_faster_than_its_bandwidth_is_refused(void **state)
{
    (void)state;
    struct toy toy = sixteen;
    toy.pass = "train";
    struct prediction p;
    run(&p, toy, "algorithm = ring\nsharding = zigzag", "100 GB/s", "1 us");
    struct diagnostics diag;
    diagnostics_init(&diag);
    assert_true(report_again(&p, &diag));
    p.timeline.unshared = false;
    assert_false(report_again(&p, &diag));
    assert_non_null(strstr(diag.lines[0], "more than its bandwidth"));
    diagnostics_fini(&diag);
    prediction_fini(&p);
}

static void a_rate_above_the_peak_is_refused(void **state)
{
    (void)state;
    struct prediction p;
    run(&p, eight_thousand, "algorithm = ring\nsharding = zigzag", "100 GB/s", "1 us");
    struct diagnostics diag;
    diagnostics_init(&diag);
    p.device.peak_flops_per_s = 100.1e12;
    assert_true(report_again(&p, &diag));
    p.device.peak_flops_per_s = 50e12;
    assert_false(report_again(&p, &diag));
    assert_non_null(strstr(diag.lines[0], "more than the device's peak"));
    diagnostics_fini(&diag);
    prediction_fini(&p);
}

static void operations_beyond_the_end_of_the_step_are_refused(void **state)
{
    (void)state;
    struct prediction p;
    run(&p, eight_thousand, "algorithm = ring\nsharding = zigzag", "100 GB/s", "1 us");
    struct diagnostics diag;
    diagnostics_init(&diag);
    p.timeline.phase_end[PHASE_FORWARD] *= 0.9;
    p.timeline.phase_end[PHASE_BACKWARD] *= 0.9;
    assert_false(report_again(&p, &diag));
    assert_non_null(strstr(diag.lines[0], "beyond the step"));
    diagnostics_fini(&diag);
    prediction_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_pairs_per_rank_follow_from_the_sharding),
        cmocka_unit_test(training_does_three_and_a_half_times_the_forward_work),
        cmocka_unit_test(forward_bytes_sent_are_the_other_ranks_blocks),
        cmocka_unit_test(training_bytes_are_split_by_kind),
        cmocka_unit_test(memory_of_a_ring_falls_with_cp_and_of_an_all_gather_does_not),
        cmocka_unit_test(long_sequences_leave_32_bits_behind),
        cmocka_unit_test(an_infinite_network_exposes_nothing),
        cmocka_unit_test(without_compute_all_communication_is_exposed),
        cmocka_unit_test(waiting_for_slower_ranks_is_idle_time),
        cmocka_unit_test(speed_up_on_an_infinite_network_is_that_of_the_work),
        cmocka_unit_test(times_add_up_and_bounds_hold_without_contention),
        cmocka_unit_test(times_add_up_and_bounds_hold_when_links_are_shared),
        cmocka_unit_test(a_message_faster_than_its_route_is_refused),
        cmocka_unit_test(a_link_faster_than_its_bandwidth_is_refused),
        cmocka_unit_test(a_rate_above_the_peak_is_refused),
        cmocka_unit_test(operations_beyond_the_end_of_the_step_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
