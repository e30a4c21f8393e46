/* How links are shared, against progressive filling (max_min_flows.h) and against sums done by hand. The flows' ways
 * are found here, by the topology's rules in words; nothing of cpsim's is in what is expected. Latencies are zero and
 * all messages are posted together, so that all flows begin at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/sim/max_min_flows.h"
#include "tests/sim/scene.h"

#define EXACT 1e-9

/* ---- clusters ---- */

enum wiring_kind { SWITCH, MESH, RING, TORUS, TREE, RAILS, SHAPE_COUNT };

/* Of `width` * `height` GPUs: in a tree or on rails `height` nodes of `width`. Bandwidths in GB/s: of the only level or
 * the inner, and of the outer. */
struct cluster {
    enum wiring_kind shape;
    bool half;
    uint32_t width, height;
    uint32_t inner, outer;
};

static uint32_t size_of(const struct cluster *cluster)
{
    return cluster->width * cluster->height;
}

static void cross(struct flow_network *network, struct flow *flow, uint32_t link, uint32_t bandwidth)
{
    assert_true(link < LINKS_MAX && flow->n_links < HOPS_MAX);
    network->bytes_per_s[link] = 1e9 * bandwidth;
    flow->links[flow->n_links++] = link;
}

/* Ports `first`.. of a switch, two links each; of half duplex both are the same. */
static void cross_switch(struct flow_network *network, const struct cluster *cluster, struct flow *flow, uint32_t first,
                         uint32_t from, uint32_t to, uint32_t bandwidth)
{
    cross(network, flow, first + 2 * from, bandwidth);
    cross(network, flow, first + 2 * to + !cluster->half, bandwidth);
}

/* Along a ring of `length` from `at` to `to`, the shorter way, ties upwards; its cables are first, first + step, ... */
static void cross_ring(struct flow_network *network, const struct cluster *cluster, struct flow *flow, uint32_t first,
                       uint32_t step, uint32_t length, uint32_t at, uint32_t to)
{
    uint32_t ahead = (to + length - at) % length;
    bool up = length == 2 ? at == 0 : 2 * ahead <= length;
    while (at != to) {
        uint32_t next = up ? (at + 1) % length : (at + length - 1) % length, cable = up ? at : next;
        cross(network, flow, 2 * (first + step * cable) + (!up && !cluster->half), cluster->inner);
        at = next;
    }
}

static void find_way(struct flow_network *network, const struct cluster *cluster, struct flow *flow)
{
    uint32_t from = flow->from, to = flow->to, width = cluster->width, ranks = size_of(cluster);
    bool far = from / width != to / width;
    switch (cluster->shape) {
    case SWITCH:
        cross_switch(network, cluster, flow, 0, from, to, cluster->inner);
        return;
    case MESH:
        if (cluster->half && from > to)
            cross(network, flow, to * ranks + from, cluster->inner);
        else
            cross(network, flow, from * ranks + to, cluster->inner);
        return;
    case RING:
        cross_ring(network, cluster, flow, 0, 1, ranks, from, to);
        return;
    case TORUS: /* along the row of the source, then along the column of the destination */
        cross_ring(network, cluster, flow, from / width * width, 1, width, from % width, to % width);
        cross_ring(network, cluster, flow, ranks + to % width, width, cluster->height, from / width, to / width);
        return;
    case TREE: /* from its GPU's port to its node's, and down again */
        cross_switch(network, cluster, flow, 0, from, to, cluster->inner);
        if (far)
            cross_switch(network, cluster, flow, 2 * ranks, from / width, to / width, cluster->outer);
        return;
    case RAILS: /* other ports outside the node than inside */
        if (far)
            cross_switch(network, cluster, flow, 2 * ranks, from, to, cluster->outer);
        else
            cross_switch(network, cluster, flow, 0, from, to, cluster->inner);
        return;
    case SHAPE_COUNT:
        break;
    }
    fail();
}

/* The same cluster in cpsim's words. */
static void describe(const struct cluster *cluster, char *text, size_t size)
{
    static const char *const kinds[] = {"switch", "mesh", "ring", "torus", "switch", "switch"};
    bool nodes = cluster->shape == TREE || cluster->shape == RAILS;
    const char *duplex = cluster->half ? "half" : "full";
    char kind[40], outer[200] = "";
    snprintf(kind, sizeof kind, "%s", kinds[cluster->shape]);
    if (cluster->shape == TORUS)
        snprintf(kind, sizeof kind, "torus:%ux%u", cluster->width, cluster->height);
    if (nodes)
        snprintf(outer, sizeof outer,
                 "[level cluster]\nsize = %u\nkind = switch\nattach = %s\nbandwidth = %u GB/s\nlatency = 0 s\n"
                 "duplex = %s\n",
                 cluster->height, cluster->shape == TREE ? "node" : "rail", cluster->outer, duplex);
    snprintf(text, size,
             "[cluster]\ndevice = toy\n[level node]\nsize = %u\nkind = %s\nbandwidth = %u GB/s\nlatency = 0 s\n"
             "duplex = %s\n%s",
             nodes ? cluster->width : size_of(cluster), kind, cluster->inner, duplex, outer);
}

/* ---- the same messages in both ---- */

struct trial {
    struct cluster cluster;
    struct flow_network network;
};

static void trial_init(struct trial *trial, struct cluster cluster)
{
    memset(trial, 0, sizeof *trial);
    trial->cluster = cluster;
}

static void add_flow(struct trial *trial, uint32_t from, uint32_t to, uint64_t bytes)
{
    assert_true(trial->network.n_flows < FLOWS_MAX);
    struct flow *flow = &trial->network.flows[trial->network.n_flows++];
    *flow = (struct flow){.from = from, .to = to, .bytes = bytes};
    find_way(&trial->network, &trial->cluster, flow);
}

static void add_all_to_all(struct trial *trial, uint64_t bytes)
{
    uint32_t ranks = size_of(&trial->cluster);
    for (uint32_t from = 0; from < ranks; from++) {
        for (uint32_t to = 0; to < ranks; to++) {
            if (from != to)
                add_flow(trial, from, to, bytes);
        }
    }
}

/* Posts a message's end together with all others of its rank; returns its operation. */
static uint32_t post(struct scene *scene, enum op_kind kind, uint32_t rank, uint32_t peer, uint64_t bytes)
{
    struct program *program = &scene->programs[rank];
    uint32_t buffer = new_buffer(scene, rank);
    struct op op = {
        .kind = (uint8_t)kind, .stream = STREAM_EXCHANGE, .part = PART_ALL, .peer = peer, .group = 1, .bytes = bytes};
    return program_add_op(program, op, &buffer, kind == OP_SEND, &buffer, kind == OP_RECEIVE);
}

/* When each message ends by an engine. */
static void run_engine(const struct trial *trial, const struct engine_ops *engine, double *ends)
{
    static uint32_t sends[FLOWS_MAX];
    char topology[600];
    struct scene scene;
    struct outcome outcome;
    const struct flow_network *network = &trial->network;
    describe(&trial->cluster, topology, sizeof topology);
    scene_init(&scene, topology, size_of(&trial->cluster), 1);
    for (uint32_t r = 0; r < scene.ranks; r++)
        assert_int_equal(program_new_group(&scene.programs[r]), 1);
    for (uint32_t f = 0; f < network->n_flows; f++) {
        const struct flow *flow = &network->flows[f];
        sends[f] = post(&scene, OP_SEND, flow->from, flow->to, flow->bytes);
        post(&scene, OP_RECEIVE, flow->to, flow->from, flow->bytes);
    }
    end_phase(&scene, PHASE_FORWARD);
    run_scene(&outcome, engine, &scene);
    assert_string_equal(outcome.messages, "");
    for (uint32_t f = 0; f < network->n_flows; f++) {
        struct moment moment = moment_of(&outcome, network->flows[f].from, sends[f]);
        assert_true(moment.begin <= 0 && moment.move <= 0);
        ends[f] = moment.end;
    }
    outcome_fini(&outcome);
    scene_fini(&scene);
}

static void expect_end(const struct trial *trial, const char *who, uint32_t f, double actual, double expected)
{
    char topology[600];
    const struct flow *flow = &trial->network.flows[f];
    if (fabs(actual - expected) <= EXACT * expected)
        return;
    describe(&trial->cluster, topology, sizeof topology);
    fail_msg("%s: the message from %u to %u ends at %.12g, not %.12g, in\n%s", who, flow->from, flow->to, actual,
             expected, topology);
}

/* SimGrid's engine against progressive filling, the analytic one against the narrowest link alone. */
static void compare(struct trial *trial)
{
    static double ends[FLOWS_MAX];
    run_network(&trial->network);
    run_engine(trial, &engine_simgrid, ends);
    for (uint32_t f = 0; f < trial->network.n_flows; f++)
        expect_end(trial, "simgrid", f, ends[f], trial->network.flows[f].end);
    run_engine(trial, &engine_analytic, ends);
    for (uint32_t f = 0; f < trial->network.n_flows; f++) {
        const struct flow *flow = &trial->network.flows[f];
        double narrowest = HUGE_VAL;
        for (uint32_t i = 0; i < flow->n_links; i++)
            narrowest = fmin(narrowest, trial->network.bytes_per_s[flow->links[i]]);
        expect_end(trial, "analytic", f, ends[f], (double)flow->bytes / narrowest);
    }
}

static uint32_t next_random(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

static struct cluster random_cluster(uint64_t *state)
{
    struct cluster cluster = {.shape = (enum wiring_kind)next_random(state, SHAPE_COUNT), .half = next_random(state, 4) == 0};
    bool flat = cluster.shape == SWITCH || cluster.shape == MESH || cluster.shape == RING;
    cluster.width = 2 + next_random(state, flat ? 15 : 4);
    cluster.height = flat ? 1 : 2 + next_random(state, 4);
    cluster.inner = 1 + next_random(state, 100);
    cluster.outer = 1 + next_random(state, 100);
    return cluster;
}

static void random_messages_end_when_progressive_filling_says(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    const int trials = 30;
#else
    const int trials = 200;
#endif
    static struct trial trial;
    uint64_t random = 7;
    for (int t = 0; t < trials; t++) {
        trial_init(&trial, random_cluster(&random));
        uint32_t ranks = size_of(&trial.cluster), dense = 1 + next_random(&random, 8);
        for (uint32_t from = 0; from < ranks; from++) {
            for (uint32_t to = 0; to < ranks; to++) {
                if (from != to && next_random(&random, 8) < dense && trial.network.n_flows < 200)
                    add_flow(&trial, from, to, 1000000 + (uint64_t)next_random(&random, 100000000));
            }
        }
        compare(&trial);
    }
}

/* Every port carries n - 1 messages. */
static void all_to_all_on_a_switch_fills_every_port(void **state)
{
    (void)state;
    static struct trial trial;
    for (uint32_t n = 2; n <= 16; n *= 2) {
        trial_init(&trial, (struct cluster){SWITCH, false, n, 1, 50, 0});
        add_all_to_all(&trial, 50000000);
        compare(&trial);
        for (uint32_t f = 0; f < trial.network.n_flows; f++)
            expect_end(&trial, "by hand", f, trial.network.flows[f].end, (n - 1) * 1e-3);
    }
}

/* A link of a ring carries, of each distance d that its direction has, d messages. Eight ranks: 1 + 2 + 3 + 4 = 10 one
 * way, since halves of the ring go upwards, 1 + 2 + 3 = 6 the other. Five: 1 + 2 = 3 both ways. */
static void all_to_all_on_a_ring_fills_either_direction_by_its_distances(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        double up, down;
    } rings[] = {{8, 10e-3, 6e-3}, {5, 3e-3, 3e-3}};
    static struct trial trial;
    for (size_t r = 0; r < sizeof rings / sizeof *rings; r++) {
        uint32_t n = rings[r].n;
        trial_init(&trial, (struct cluster){RING, false, n, 1, 50, 0});
        add_all_to_all(&trial, 50000000);
        compare(&trial);
        for (uint32_t f = 0; f < trial.network.n_flows; f++) {
            const struct flow *flow = &trial.network.flows[f];
            bool up = 2 * ((flow->to + n - flow->from) % n) <= n;
            expect_end(&trial, "by hand", f, flow->end, up ? rings[r].up : rings[r].down);
        }
    }
}

/* 4 x 4: a link upwards carries distances 1 and 2 of messages to four rows each: 12 of them; one downwards distance 1:
 * 4. The upward links are full first and give their messages a twelfth. Of the four on a downward link along the rows,
 * two are so bound (those that go on upwards along the columns); the other two share what is left: 5 twelfths each, and
 * the same holds along the columns. */
static void all_to_all_on_a_torus_leaves_the_other_direction_to_few(void **state)
{
    (void)state;
    static struct trial trial;
    trial_init(&trial, (struct cluster){TORUS, false, 4, 4, 50, 0});
    add_all_to_all(&trial, 50000000);
    compare(&trial);
    for (uint32_t f = 0; f < trial.network.n_flows; f++) {
        const struct flow *flow = &trial.network.flows[f];
        uint32_t along = (flow->to + 4 - flow->from) % 4, across = (flow->to / 4 + 4 - flow->from / 4) % 4;
        bool up = along == 1 || along == 2 || across == 1 || across == 2;
        expect_end(&trial, "by hand", f, flow->end, up ? 12e-3 : 2.4e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_messages_end_when_progressive_filling_says),
        cmocka_unit_test(all_to_all_on_a_switch_fills_every_port),
        cmocka_unit_test(all_to_all_on_a_ring_fills_either_direction_by_its_distances),
        cmocka_unit_test(all_to_all_on_a_torus_leaves_the_other_direction_to_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
