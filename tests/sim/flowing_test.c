/* A collective that flows takes what it takes written out step by step round a ring, whatever the level says of
 * messages: nothing but a bandwidth, a curve, channels, or protocols; by both engines, and as closed forms say. Who its
 * members are, and how far, is seen from each rank's own place in the layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/plain_buffer.h"
#include "tests/sim/folding.h"

#define DATA 4000000 /* bytes of all members */

static char *switch_of(uint32_t gpus, const char *says)
{
    return memory_format("[cluster]\ndevice = toy\n[level net]\nsize = %u\nkind = switch\nbandwidth = 100 MB/s\n"
                         "latency = 2 us\n%s",
                         gpus, says);
}

static void read_text(const char *text, struct experiment *experiment)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    char path[] = "/tmp/cpsim-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    bool good = experiment_read(experiment, path, NULL, 0, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    unlink(path);
    diagnostics_fini(&diag);
}

/* Everything but programs: all ranks of a layout, GPU (dp * tp degree + tp) * cp degree + cp. */
static void begin(struct pair *pair, const char *topology, struct layout layout)
{
    *pair = (struct pair){.period = layout.cp};
    char *text = memory_format("[model]\nq_heads = 8\nkv_heads = 8\nhead_dim = 64\ndtype = bf16\n"
                               "[workload]\nseq_len = %u\nbatch = 1\nmask = full\npass = forward\n"
                               "[parallel]\ncp = %u\ntp = %u\ndp = %u\norder = cp,tp,dp\n"
                               "[schedule]\nalgorithm = ring\nsharding = contiguous\n",
                               16 * layout.cp, layout.cp, layout.tp, layout.dp);
    read_text(text, &pair->experiment);
    free(text);
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool good = topology_read_text(&pair->topology, "test", topology, &diag) &&
                schedule_init(&pair->schedule, &pair->experiment, NULL, &diag);
    char *device = topology_device_path(&pair->topology, &diag);
    good = good && device_read(&pair->device, device, &diag);
    diagnostics_print(&diag, stderr, "  ");
    assert_true(good);
    diagnostics_fini(&diag);
    free(device);
    snprintf(pair->what, sizeof pair->what, "%s", topology);
    pair->programs = memory_zeroed(layout.cp, sizeof *pair->programs);
    for (uint32_t rank = 0; rank < layout.cp; rank++)
        program_init(&pair->programs[rank], rank);
}

static uint32_t new_buffer(struct program *program)
{
    return plain_buffer(program, (struct lanes){0, 1, 0, 1}, "b", TENSOR_Q, DTYPE_BF16, ROLE_WORKSPACE, 1, 1);
}

/* A ring of members, as a rank sees it: itself is 0, and goes on to 1. */
struct ring {
    uint32_t n, members[256];
};

static uint32_t steps_of(enum collective_call call, uint32_t n)
{
    return call == CALL_ALL_REDUCE ? 2 * (n - 1) : n - 1;
}

static void shift(struct program *program, uint32_t out, uint32_t to, uint32_t in, uint32_t from, uint64_t bytes,
                  uint32_t group)
{
    struct op op = {
        .stream = STREAM_REDUCTION, .part = PART_ALL, .group = group, .kind = OP_SEND, .peer = to, .bytes = bytes};
    program_add_op(program, op, &out, 1, NULL, 0);
    op.kind = OP_RECEIVE;
    op.peer = from;
    program_add_op(program, op, NULL, 0, &in, 1);
}

/* `both_ways`: half of it goes round the other way. */
static void add_collective(struct program *program, enum collective_call call, const struct ring *ring, bool flowing,
                           bool both_ways)
{
    uint32_t n = ring->n, steps = steps_of(call, n), held = new_buffer(program);
    uint32_t next = ring->members[1 % n], before = ring->members[n - 1];
    program_begin_collective(program, call, STREAM_REDUCTION, n, 0, ring->members, ring->members, ring->members);
    program->collectives[program->n_collectives - 1].flowing = flowing;
    uint64_t block = DATA / n, bytes = flowing ? steps * block : block;
    for (uint32_t step = 0; step < (flowing ? 1 : steps); step++) {
        uint32_t in = new_buffer(program), group = program_new_group(program);
        shift(program, held, next, in, before, both_ways ? bytes / 2 : bytes, group);
        if (both_ways)
            shift(program, held, before, new_buffer(program), next, bytes / 2, group);
        held = in;
    }
    program_end_collective(program);
}

static struct ring ring_of_tp(const struct layout *layout, uint32_t rank)
{
    struct ring ring = {.n = layout->tp};
    for (uint32_t t = 0; t < ring.n; t++)
        ring.members[t] = peer_number(layout, (struct peer_place){rank, t, 0});
    return ring;
}

/* Of dp x cp ranks, the index of cp the inner one. */
static struct ring ring_of_dp_cp(const struct layout *layout, uint32_t rank)
{
    struct ring ring = {.n = layout->dp * layout->cp};
    for (uint32_t w = 0; w < ring.n; w++) {
        uint32_t at = rank + w;
        ring.members[w] = peer_number(layout, (struct peer_place){at % layout->cp, 0, at / layout->cp % layout->dp});
    }
    return ring;
}

static void end_phases(struct pair *pair)
{
    for (uint32_t rank = 0; rank < pair->schedule.ranks; rank++) {
        program_end_phase(&pair->programs[rank], PHASE_FORWARD);
        program_end_phase(&pair->programs[rank], PHASE_BACKWARD);
    }
    assert_true(pair_fold(pair));
}

static double seconds_of(const char *topology, struct layout layout, enum collective_call call, bool flowing,
                         bool both_ways, const struct engine_ops *engine)
{
    struct pair pair;
    struct timeline timeline;
    begin(&pair, topology, layout);
    for (uint32_t rank = 0; rank < layout.cp; rank++) {
        struct ring ring = layout.tp > 1 ? ring_of_tp(&layout, rank) : ring_of_dp_cp(&layout, rank);
        add_collective(&pair.programs[rank], call, &ring, flowing, both_ways);
    }
    end_phases(&pair);
    assert_true(run(engine, &pair, NULL, &timeline));
    double seconds = timeline.phase_end[PHASE_COUNT - 1];
    for (uint32_t i = 0; i < timeline.n_instances; i++) /* links and ranks are alike */
        assert_true(near(timeline.moments[i][1].end, seconds, seconds) || !flowing);
    timeline_fini(&timeline);
    pair_fini(&pair);
    return seconds;
}

static void expect(double seconds, double expected, const char *says)
{
    if (fabs(seconds - expected) > 1e-9 * expected)
        fail_msg("%.12g s, expected %.12g: %s", seconds, expected, says);
}

static void what_flows_takes_as_long_as_its_steps(void **state)
{
    (void)state;
    static const char *const levels[] = {
        "",
        "curve = 4 KiB: 1 MB/s, 256 KiB: 20 MB/s, 1 MiB: 40 MB/s\n",
        "channels = 16\nchannel_bandwidth = 4 MB/s\nchannel_latency = 5 us\nll_bandwidth = 2 MB/s\n",
        "channels = 8\nchannel_bandwidth = 20 MB/s\ncollectives = 3 us + 1 us: 30 MB/s, 900 us + 20 us: 45 MB/s\n",
    };
    static const struct layout layouts[] = {{.cp = 8, .tp = 1, .dp = 1},
                                            {.cp = 1, .tp = 1, .dp = 5},
                                            {.cp = 2, .tp = 1, .dp = 4},
                                            {.cp = 2, .tp = 4, .dp = 2},
                                            {.cp = 1, .tp = 8, .dp = 1}};
    static const enum collective_call calls[] = {CALL_ALL_GATHER, CALL_REDUCE_SCATTER, CALL_ALL_REDUCE};
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            struct layout layout = layouts[i];
            char *topology = switch_of(layout.cp * layout.tp * layout.dp, levels[l]);
            for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
                for (int e = 0; engines[e]; e++) {
                    double flowing = seconds_of(topology, layout, calls[c], true, false, engines[e]);
                    double written_out = seconds_of(topology, layout, calls[c], false, false, engines[e]);
                    expect(flowing, written_out, topology);
                    uint32_t n = layout.tp > 1 ? layout.tp : layout.cp * layout.dp, steps = steps_of(calls[c], n);
                    double bytes = steps * (double)(DATA / n);
                    if (l == 0)
                        expect(flowing, steps * 2e-6 + bytes / 100e6, topology);
                    if (l == 3)
                        expect(flowing,
                               fmin(3e-6 + (n - 1) * 1e-6 + bytes / 30e6, 900e-6 + (n - 1) * 20e-6 + bytes / 45e6),
                               topology);
                }
            }
            free(topology);
        }
    }
}

/* Rings beside each other share the bytes and, here, each member's link; protocols count them together over one level.
 */
static void rings_beside_each_other_share_the_bytes(void **state)
{
    (void)state;
    const struct layout layout = {.cp = 4, .tp = 1, .dp = 1};
    double bytes = 3.0 * (DATA / 4);
    char *plain = switch_of(4, ""), *protocols = switch_of(4, "collectives = 3 us + 1 us: 30 MB/s\n");
    expect(seconds_of(plain, layout, CALL_ALL_GATHER, true, true, &engine_simgrid), 3 * 2e-6 + bytes / 100e6, plain);
    expect(seconds_of(protocols, layout, CALL_ALL_GATHER, true, true, &engine_simgrid), 6e-6 + bytes / 30e6, protocols);
    free(plain);
    free(protocols);
    /* Each rank has one neighbour in its node and one beyond: two rings, each with a link of its own between nodes. */
    static const char nodes[] = "[cluster]\ndevice = toy\n"
                                "[level node]\nsize = 2\nkind = switch\nbandwidth = 400 MB/s\nlatency = 1 "
                                "us\ncollectives = 10 us + 1 us: 30 MB/s\n"
                                "[level net]\nsize = 2\nkind = switch\nbandwidth = 200 MB/s\nlatency = 4 "
                                "us\ncollectives = 50 us + 7 us: 20 MB/s\n";
    expect(seconds_of(nodes, layout, CALL_ALL_GATHER, true, true, &engine_simgrid), 57e-6 + bytes / 2 / 20e6, nodes);
}

/* Nodes of 4 ranks, cp x tp; dp goes from node to node. */
static void members_are_seen_from_each_ranks_place(void **state)
{
    (void)state;
    static const char topology[] = "[cluster]\ndevice = toy\n"
                                   "[level node]\nsize = 4\nkind = switch\nbandwidth = 400 MB/s\nlatency = 1 "
                                   "us\ncollectives = 10 us + 1 us: 30 MB/s\n"
                                   "[level net]\nsize = 3\nkind = switch\nbandwidth = 200 MB/s\nlatency = 4 "
                                   "us\ncollectives = 50 us + 7 us: 20 MB/s\n";
    const struct layout layout = {.cp = 2, .tp = 2, .dp = 3};
    for (int e = 0; engines[e]; e++) {
        struct pair pair;
        struct timeline timeline;
        begin(&pair, topology, layout);
        for (uint32_t rank = 0; rank < layout.cp; rank++) {
            struct ring tp = ring_of_tp(&layout, rank), dp_cp = ring_of_dp_cp(&layout, rank);
            add_collective(&pair.programs[rank], CALL_ALL_REDUCE, &tp, true, false);
            add_collective(&pair.programs[rank], CALL_REDUCE_SCATTER, &dp_cp, true, false);
        }
        end_phases(&pair);
        assert_true(run(engines[e], &pair, NULL, &timeline));
        double first = 10e-6 + 1e-6 + DATA / 30e6, bytes = 5.0 * (DATA / 6);
        for (uint32_t i = 0; i < timeline.n_instances; i++) {
            const struct moment *moments = timeline.moments[i];
            double all = 50e-6 + 2 * 7e-6 + bytes / 20e6; /* of three nodes, to who is in the same one too */
            expect(moments[0].end, first, topology);
            expect(moments[2].end - moments[2].begin, all, topology);
            expect(moments[3].end - moments[3].begin, all, topology);
        }
        timeline_fini(&timeline);
        pair_fini(&pair);
    }
}

/* A ring over nodes is as fast as its way from one to the next, for all that are in it; written out, for the last one
 * that a step waits for. */
static void a_ring_goes_at_the_pace_of_its_outermost_level(void **state)
{
    (void)state;
    static const char topology[] = "[cluster]\ndevice = toy\n"
                                   "[level node]\nsize = 4\nkind = switch\nbandwidth = 400 MB/s\nlatency = 1 us\n"
                                   "[level net]\nsize = 3\nkind = switch\nbandwidth = 100 MB/s\nlatency = 4 us\n";
    const struct layout layout = {.cp = 4, .tp = 1, .dp = 3};
    for (int e = 0; engines[e]; e++) {
        double flowing = seconds_of(topology, layout, CALL_ALL_GATHER, true, false, engines[e]);
        expect(flowing, 11 * (4e-6 + DATA / 12 / 100e6), topology);
        expect(seconds_of(topology, layout, CALL_ALL_GATHER, false, false, engines[e]), flowing, topology);
    }
}

/* Nodes of 8 are cp x tp: of 128 replicas all are alike, and of a tp ring all ranks. One slow link tells apart all
 * ranks of the rings that it is in, by where they are from it; what else waits for these is found too. */
static void a_thousand_ranks_fold(void **state)
{
    (void)state;
    static const struct {
        struct layout layout;
        const char *override;
        uint32_t classes; /* 0: not known */
    } cases[] = {
        {{.cp = 2, .tp = 4, .dp = 128}, "", 2},
        {{.cp = 1, .tp = 8, .dp = 128}, "", 1},
        {{.cp = 2, .tp = 4, .dp = 8}, "[override slow]\nlink = net: gpu 39 up\nfactor = 0.5\n", 0},
        {{.cp = 4, .tp = 2, .dp = 9}, "[override slow]\nlink = node: gpu 12 down\nfactor = 0.3\n", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair pair;
        struct layout layout = cases[i].layout;
        char *topology = memory_format("[cluster]\ndevice = toy\n"
                                       "[level node]\nsize = 8\nkind = switch\nbandwidth = 400 MB/s\nlatency = 1 us\n"
                                       "[level net]\nsize = %u\nkind = switch\nbandwidth = 50 MB/s\nlatency = 4 us\n%s",
                                       layout.dp, cases[i].override);
        begin(&pair, topology, layout);
        for (uint32_t rank = 0; rank < layout.cp; rank++) {
            struct ring tp = ring_of_tp(&layout, rank), dp_cp = ring_of_dp_cp(&layout, rank);
            add_collective(&pair.programs[rank], CALL_ALL_REDUCE, &tp, true, false);
            add_collective(&pair.programs[rank], CALL_REDUCE_SCATTER, &dp_cp, true, false);
            add_collective(&pair.programs[rank], CALL_ALL_REDUCE, &tp, true, false);
        }
        end_phases(&pair);
        if (cases[i].classes)
            assert_int_equal(pair.folding.ensemble.n_instances, cases[i].classes);
        compare(&pair);
        pair_fini(&pair);
        free(topology);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_flows_takes_as_long_as_its_steps),
        cmocka_unit_test(rings_beside_each_other_share_the_bytes),
        cmocka_unit_test(members_are_seen_from_each_ranks_place),
        cmocka_unit_test(a_ring_goes_at_the_pace_of_its_outermost_level),
        cmocka_unit_test(a_thousand_ranks_fold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
