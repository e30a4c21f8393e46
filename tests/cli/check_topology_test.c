/* Looking at clusters with --check: what is printed for shipped ones, routes, JSON, drawings, and what is refused.
 *
 * Texts are tests/cli/golden/check-NAME.txt, scripts topology*.gp, JSON check.json. After a deliberate change run this
 * once with CPSIM_REGENERATE=1, and look at what gnuplot makes of the scripts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/cli/expect.h"

static void expect_golden_output(const char *command, const char *name)
{
    struct outcome outcome = shell(command);
    if (outcome.status != 0 || *outcome.err)
        fail_msg("'%s' ended with %d: %s", command, outcome.status, outcome.err);
    expect_golden(name, outcome.out);
    outcome_fini(&outcome);
}

static void shipped_clusters_are_shown(void **state)
{
    (void)state;
    expect_golden_output("$CPSIM --check dgx-h100-4 --path 0:7 --path 3:17", "check-dgx-h100-4.txt");
    expect_golden_output("$CPSIM --check l20-pcie-8 --path 6:1", "check-l20-pcie-8.txt");
    expect_golden_output("$CPSIM --check gb200-nvl72", "check-gb200-nvl72.txt");
}

/* A cluster of three levels for this test, each of another kind. */
#define THREE_LEVELS                                                                                                   \
    "printf '[cluster]\\ndevice = toy\\n[level board]\\nsize = 4\\nkind = mesh\\nbandwidth = 50 GB/s\\nlatency = 1 "   \
    "us\\n"                                                                                                            \
    "[level pod]\\nsize = 16\\nkind = torus:4x4\\nbandwidth = 25 GB/s\\nlatency = 2 us\\nattach = node\\nduplex = "    \
    "half\\n"                                                                                                          \
    "[level site]\\nsize = 3\\nkind = switch\\nbandwidth = 100 GB/s\\nlatency = 5 us\\nattach = node\\n' "             \
    ">$DIR/three.ini; "

static void levels_of_all_kinds_are_shown(void **state)
{
    (void)state;
    expect_golden_output(THREE_LEVELS "cd $DIR; $CPSIM --check three.ini --path 1:9 --path 3:100", "check-three.txt");
}

/* Nodes of different sizes with NICs that GPUs share, one of them slow; and a graph. */
#define UNEQUAL                                                                                                        \
    "printf '[cluster]\\ndevice = toy\\n[level node]\\nsize = 8\\nsizes = 8,8,6\\nkind = switch\\nbandwidth = 450 "    \
    "GB/s\\n"                                                                                                          \
    "latency = 1 us\\n[level cluster]\\nsize = 3\\nkind = switch\\nattach = rail\\nnics = 4\\nbandwidth = 50 GB/s\\n"  \
    "latency = 3 us\\n[override worn]\\nlink = cluster: node 1 nic 2 *\\nbandwidth = 5 GB/s\\n' >$DIR/unequal.ini; "
#define GRAPH                                                                                                          \
    "printf '[cluster]\\ndevice = toy\\n[link gpu0 a]\\nclass = pcie\\nbandwidth = 12 GB/s\\nlatency = 1 us\\n[link "  \
    "gpu1 a]\\n"                                                                                                       \
    "class = pcie\\nbandwidth = 12 GB/s\\nlatency = 1 us\\n[link gpu2 b]\\nclass = pcie\\nbandwidth = 8 GB/s\\n"       \
    "latency = 1 us\\n[link a b]\\nclass = host\\nbandwidth = 20 GB/s\\nlatency = 2 us\\nduplex = half\\n' "           \
    ">$DIR/graph.ini; "

/* By a factor, by a bandwidth, in latency alone; a NIC of two links; GPUs of other speeds. */
static void what_is_not_like_the_others_is_counted(void **state)
{
    (void)state;
    static const char overrides[] =
        "printf '[override a]\\nlink = cluster: gpu 3 up\\nfactor = 0.5\\n[override b]\\nlink = cluster: gpu 4 *\\n"
        "bandwidth = 5 GB/s\\n[override c]\\nlink = cluster: gpu 5 up\\nlatency = 1 ms\\n[override d]\\nlink = "
        "cluster: gpu 6 up\\nmissing = yes\\n[override e]\\ngpu = 9, 12-13\\nspeed = 0.5\\n[override f]\\ngpu = "
        "20\\nspeed = 2\\n' | cat topologies/dgx-h100-4.ini - >$DIR/odd.ini; $CPSIM --check $DIR/odd.ini ";
    char *json = memory_format("%s --json - | grep -c '\"n_degraded\": 3,\\|\"n_gpus_of_other_speed\": 4,'", overrides);
    expect(overrides, 0, "slower than built: 3 of cluster, the first is cluster: gpu 3 up\n", "");
    expect(overrides, 0, "\nnot there: 2 links of cluster\n", "");
    expect(overrides, 0, "\nof another speed than the profile's: 4 GPUs, 0.5 to 2 of it; the first is GPU 9\n", "");
    expect(json, 0, "2\n", "");
    free(json);
}

static void irregular_clusters_are_shown(void **state)
{
    (void)state;
    expect_golden_output(UNEQUAL "cd $DIR; $CPSIM --check unequal.ini --path 0:13", "check-unequal.txt");
    expect_golden_output(GRAPH "cd $DIR; $CPSIM --check graph.ini --path 1:2", "check-graph.txt");
    expect_golden_output("$CPSIM --check superpod-h100-16384 --path 0:16383", "check-superpod.txt");
    expect("$CPSIM --check $DIR/unequal.ini --plot $DIR/u.svg", 0, NULL, "");
    char *drawing = made_file("u.svg");
    assert_non_null(strstr(drawing, "cluster, slower than built: 5 GB/s"));
    assert_non_null(strstr(drawing, ">21<"));
    assert_null(strstr(drawing, ">22<"));
    free(drawing);
    expect("$CPSIM --check $DIR/graph.ini --plot $DIR/g.png", 0, NULL, "");
}

static void several_topologies_are_told_apart(void **state)
{
    (void)state;
    expect("$CPSIM --check toy-2 l20-pcie-8", 0, "\n--- toy-2 ---\nnode: switch", "");
    expect("$CPSIM --check toy-2 l20-pcie-8", 0, "\n--- l20-pcie-8 ---\nbox: mesh", "");
    expect("$CPSIM --check toy-2 l20-pcie-8 --path 0:1", 2, NULL, "2 topologies given, expected one");
    expect("$CPSIM --check two-owners --json x.json", 2, NULL, "0 topologies given, expected one");
    expect("$CPSIM --check $DIR/none.ini --json x.json; test ! -e x.json", 0, NULL, "none.ini");
}

static void overrides_change_what_is_shown(void **state)
{
    (void)state;
    expect("$CPSIM --check dgx-h100-4 --set 'level cluster.attach=node'", 0,
           "cluster: switch, a port per node; 50 GB/s", "");
    expect("$CPSIM --check dgx-h100-4 --set 'level cluster.attach=node'", 0, "72:1", "");
    expect("$CPSIM --check dgx-h100-4 --set 'level node.kind=ring'", 0, "11.3 us a hop", "");
}

/* 2^24 GPUs: nothing may take a time that grows with them. */
static void the_largest_cluster_is_shown(void **state)
{
    (void)state;
    expect("printf '[cluster]\\ndevice = toy\\n[level node]\\nsize = 8\\nkind = switch\\nbandwidth = 1 GB/s\\nlatency "
           "= 1 us\\n"
           "[level all]\\nsize = 2097152\\nkind = switch\\nbandwidth = 1 GB/s\\nlatency = 1 us\\nattach = rail\\n' "
           ">$DIR/l.ini; "
           "$CPSIM --check $DIR/l.ini --path 0:16777215 --plot $DIR/l.svg",
           0, "all         33,554,432      1.000    1.000  33.55", "");
    assert_true(made_file_exists("l.svg"));
    char *drawing = made_file("l.svg");
    assert_non_null(strstr(drawing, "x 2097148 more"));
    assert_non_null(strstr(drawing, "node 2097151"));
    free(drawing);
}

static void long_routes_are_cut(void **state)
{
    (void)state;
    expect("printf '[cluster]\\ndevice = toy\\n[level ring]\\nsize = 200\\nkind = ring\\nbandwidth = 1 GB/s\\nlatency "
           "= 1 us\\n' "
           ">$DIR/r.ini; $CPSIM --check $DIR/r.ini --path 0:100",
           0, "... (60 more)", "");
    expect("$CPSIM --check $DIR/r.ini --path 0:100", 0,
           "100 links, latency 100.0 us, narrowest 1.000 GB/s (ring: gpu 0", "");
    json_t *json = json_of("$CPSIM --check $DIR/r.ini --path 0:100 --json -");
    json_t *path = json_array_get(json_object_get(json, "paths"), 0);
    assert_int_equal(json_array_size(json_object_get(path, "links")), 100);
    json_decref(json);
}

static void json_has_everything(void **state)
{
    (void)state;
    expect_golden_output("$CPSIM --check l20-pcie-8 --path 6:1 --json -", "check.json");
    expect("$CPSIM --check toy-2 --json $DIR/toy.json", 0, "toy-2: topology, ok", "");
    assert_true(made_file_exists("toy.json"));
    expect("cp topologies/toy-2.ini $DIR; $CPSIM --check $DIR/toy-2.ini --json $DIR/toy-2.ini", 2, "",
           "--json would overwrite");
}

static void malformed_paths_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"1",   "",     ":",    "1:",   ":2",   "1-2",   "1:2:3",
                                        "a:b", "-1:2", "1:+2", "1: 2", "1:2x", "0x1:2", "1.0:2"};
#ifdef __SANITIZE_ADDRESS__
    const size_t apart = 3; /* some of them: each is a start of its own */
#else
    const size_t apart = 1;
#endif
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i += apart) {
        char *arguments = memory_format("--check dgx-h100-4 --path '%s'", wrong[i]);
        char *message = memory_format("--path '%s', expected two GPU numbers, such as 0:9", wrong[i]);
        expect_misuse(arguments, message);
        free(arguments);
        free(message);
    }
    expect_misuse("--check toy-2 --path 99999999999999999999:1", "expected two GPU numbers");
    expect_misuse("--check toy-2 --path 1:1", "--path '1:1', expected two different GPUs");
    expect_misuse("--check toy-2 --path 0:1 --path 00:1", "--path '00:1' is given twice");
    expect_misuse("--check toy-2 --path 0:2", "--path '0:2': no GPU 2, expected 0 to 1 in toy-2");
    expect_misuse("--check toy-2 --path 7:0", "--path '7:0': no GPU 7, expected 0 to 1 in toy-2");
    expect_misuse("--check toy-2 --path 7:0 --path 0:9", "--path '0:9': no GPU 9");
    expect_misuse("--check toy-2 --set 'level node.size=1' --path 0:1",
                  "--path '0:1': toy-2 has one GPU, and no paths");
}

static void drawings_are_golden(void **state)
{
    (void)state;
    expect_golden_output("$CPSIM --check l20-pcie-8 --path 6:1 --plot out.png --script - ", "topology.gp");
    expect_golden_output("$CPSIM --check l20-pcie-8 --plot - --script -", "topology-terminal.gp");
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

/* Every cable once: polylines of a block are parted by empty lines. */
static void every_cable_of_an_unfolded_cluster_is_drawn_once(void **state)
{
    (void)state;
    struct outcome outcome = shell("$CPSIM --check dgx-h100-4 --plot x.png --script -");
    const char *cluster = strstr(outcome.out, "$cables1 << EOD\n"), *route = strstr(outcome.out, "$route");
    const char *node = strstr(outcome.out, "$cables0 << EOD\n");
    assert_true(node && cluster && route && node < cluster && cluster < route);
    assert_int_equal(count_of(node, "\n\n") - count_of(cluster, "\n\n"), 32);
    assert_int_equal(count_of(cluster, "\n\n") - count_of(route, "\n\n"), 32);
    outcome_fini(&outcome);
}

#define RACKS                                                                                                          \
    "printf '[cluster]\\ndevice = toy\\n[level rack]\\nsize = 72\\nkind = switch\\nbandwidth = 900 GB/s\\n"            \
    "latency = 1 us\\n[level net]\\nsize = 9\\nkind = switch\\nnics = 18\\ncross_rail = nvlink\\nbandwidth = 50 "      \
    "GB/s\\nlatency = 5 us\\n' >$DIR/racks.ini; $CPSIM --check $DIR/racks.ini --plot x.png --script - "

/* Of four GPUs to a NIC some are left out: the rails stay those of the cluster, and routes go by them. */
static void a_folded_cluster_has_its_rails_and_routes(void **state)
{
    (void)state;
    struct outcome outcome = shell(RACKS "--path 0:647");
    assert_non_null(strstr(outcome.out, "'rail 0'"));
    assert_non_null(strstr(outcome.out, "'rail 17'"));
    assert_null(strstr(outcome.out, "'rail 1'"));
    assert_null(strstr(outcome.out, "'rail 71'"));
    const char *route = strstr(outcome.out, "$route << EOD\n");
    assert_non_null(route);
    assert_int_equal(count_of(route, "\n\n"), 4); /* up to the switch, down to GPU 71, up its rail and down to 647 */
    assert_non_null(strstr(route, "title 'routes asked for'"));
    outcome_fini(&outcome);

    outcome = shell(RACKS "--path 300:340"); /* of a rack that is left out */
    route = strstr(outcome.out, "$route << EOD\n");
    assert_non_null(route);
    assert_int_equal(count_of(route, "\n\n"), 0);
    assert_non_null(strstr(route, "title 'routes asked for, but for what is left out'"));
    outcome_fini(&outcome);

    /* by NVLink to the rail of the other, of the four cables the one that the table names */
    outcome = shell("$CPSIM --check rail-h100-512 --path 0:511 --plot x.png --script - ");
    route = strstr(outcome.out, "$route << EOD\n");
    assert_non_null(route);
    assert_int_equal(count_of(route, "\n\n"), 5); /* the sixth is in a pod that is drawn closed */
    outcome_fini(&outcome);
}

/* Cables of a dragonfly inside and between groups of the same bandwidth. */
static void cables_of_other_latency_are_told_apart(void **state)
{
    (void)state;
    expect("printf '[cluster]\\ndevice = toy\\n[level fly]\\nsize = 12\\nkind = dragonfly:4x3\\nbandwidth = 25 GB/s\\n"
           "latency = 2 us\\nglobal_latency = 5 us\\n' >$DIR/fly.ini; $CPSIM --check $DIR/fly.ini --plot x.png "
           "--script - | grep -c \"title 'fly: 25 GB/s each way, [25] us'\"",
           0, "2\n", NULL);
}

static void what_is_not_there_is_not_drawn(void **state)
{
    (void)state;
    struct outcome outcome =
        shell("printf '[cluster]\\ndevice = toy\\n[level node]\\nsize = 4\\nkind = switch\\nbandwidth = 450 GB/s\\n"
              "latency = 1 us\\n[level pod]\\nsize = 3\\nsizes = 2, 3\\nkind = switch\\nbandwidth = 50 GB/s\\n"
              "latency = 1 us\\n[level site]\\nsize = 2\\nkind = switch\\nattach = switch\\nbandwidth = 50 GB/s\\n"
              "latency = 1 us\\n' >$DIR/short.ini; $CPSIM --check $DIR/short.ini --plot x.png --script -");
    assert_int_equal(count_of(outcome.out, "'node switch'"), 5);
    assert_null(strstr(outcome.out, "'node 2'"));
    assert_non_null(strstr(outcome.out, "'node 3'"));
    outcome_fini(&outcome);
}

/* In two formats, under the sanitizers in one. */
#ifdef __SANITIZE_ADDRESS__
#define DRAWINGS "--plot $DIR/c.png"
#else
#define DRAWINGS "--plot $DIR/c.png --plot $DIR/c.pdf"
#endif

static void every_shipped_cluster_can_be_drawn(void **state)
{
    (void)state;
    expect("for f in topologies/*.ini; do $CPSIM --check $f " DRAWINGS " >/dev/null || exit 1; done", 0, "", "");
    expect("$CPSIM --check gb200-nvl72 --plot -", 0, "rack switch", "");
    expect(THREE_LEVELS "$CPSIM --check $DIR/three.ini --plot $DIR/three.svg", 0, NULL, "");
}

static void teardown(void)
{
    remove_test_folder();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_clusters_are_shown),
        cmocka_unit_test(levels_of_all_kinds_are_shown),
        cmocka_unit_test(what_is_not_like_the_others_is_counted),
        cmocka_unit_test(irregular_clusters_are_shown),
        cmocka_unit_test(several_topologies_are_told_apart),
        cmocka_unit_test(overrides_change_what_is_shown),
        cmocka_unit_test(the_largest_cluster_is_shown),
        cmocka_unit_test(long_routes_are_cut),
        cmocka_unit_test(json_has_everything),
        cmocka_unit_test(malformed_paths_are_refused),
        cmocka_unit_test(drawings_are_golden),
        cmocka_unit_test(every_cable_of_an_unfolded_cluster_is_drawn_once),
        cmocka_unit_test(a_folded_cluster_has_its_rails_and_routes),
        cmocka_unit_test(cables_of_other_latency_are_told_apart),
        cmocka_unit_test(what_is_not_there_is_not_drawn),
        cmocka_unit_test(every_shipped_cluster_can_be_drawn),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    teardown();
    return failed;
}
