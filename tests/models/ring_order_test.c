/* Ring orders: each as its head comment says, on levels and tori, group by group; what is natural has no effect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/input/placement.h"
#include "models/input/ring_order.h"

static struct topology cluster(const char *levels)
{
    struct topology topology;
    struct diagnostics diag;
    diagnostics_init(&diag);
    char *text = memory_format("[cluster]\ndevice = toy\n%s", levels);
    bool good = topology_read_text(&topology, "test", text, &diag);
    diagnostics_print(&diag, stderr, "");
    assert_true(good);
    diagnostics_fini(&diag);
    free(text);
    return topology;
}

#define NODE(SIZE) "[level node]\nsize = " #SIZE "\nkind = switch\nbandwidth = 450 GB/s\nlatency = 1 us\n"
#define CLUSTER(SIZE, KIND) "[level cluster]\nsize = " #SIZE "\nkind = " #KIND "\nbandwidth = 50 GB/s\nlatency = 4 us\n"

static void expect_order(const char *levels, enum ring_kind kind, uint64_t first, uint64_t stride, uint32_t cp,
                         const uint32_t *expected)
{
    struct topology topology = cluster(levels);
    struct experiment experiment = {.degree = {1, cp, 1}, .ring = kind};
    uint32_t order[64];
    ring_order_of(&experiment, &topology, first, stride, order);
    for (uint32_t p = 0; p < cp; p++)
        if (order[p] != expected[p])
            fail_msg("place %u of the ring has index %u, expected %u", p, order[p], expected[p]);
    topology_fini(&topology);
}

#define ORDER(levels, kind, first, stride, ...)                                                                        \
    expect_order(levels, kind, first, stride, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                    \
                 (uint32_t[]){__VA_ARGS__})

static void two_nodes_are_as_the_header_says(void **state)
{
    (void)state;
    ORDER(NODE(4) CLUSTER(2, switch), RING_NATURAL, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7);
    ORDER(NODE(4) CLUSTER(2, switch), RING_NODE_MAJOR, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7);
    ORDER(NODE(4) CLUSTER(2, switch), RING_RAIL, 0, 1, 0, 4, 1, 5, 2, 6, 3, 7);
    ORDER(NODE(4) CLUSTER(2, switch), RING_SNAKE, 0, 1, 0, 1, 2, 3, 7, 6, 5, 4);
    ORDER("[level grid]\nsize = 6\nkind = torus:3x2\nbandwidth = 50 GB/s\nlatency = 1 us\n", RING_SNAKE, 0, 1, 0, 1, 2,
          5, 4, 3);
}

/* Two GPUs of each node of four are the group's; or its first node is only half its own. */
static void a_group_orders_the_gpus_that_it_has(void **state)
{
    (void)state;
    ORDER(NODE(4) CLUSTER(4, switch), RING_RAIL, 1, 2, 0, 2, 4, 6, 1, 3, 5, 7);
    ORDER(NODE(4) CLUSTER(4, switch), RING_SNAKE, 1, 2, 0, 1, 3, 2, 4, 5, 7, 6);
    ORDER(NODE(4) CLUSTER(4, switch), RING_RAIL, 2, 1, 2, 3, 0, 4, 1, 5);
    ORDER(NODE(4) CLUSTER(4, switch), RING_SNAKE, 2, 1, 0, 1, 5, 4, 3, 2);
    ORDER(NODE(4) CLUSTER(4, switch), RING_SNAKE, 3, 4, 0, 1, 2); /* one each: nothing to turn */
    ORDER(NODE(8), RING_RAIL, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7);      /* every GPU a lane of one node */
}

/* The second of three nodes has no fourth GPU: nodes begin at 0, 4 and 7. A graph is one node, whatever its links. */
static void unequal_nodes_have_the_lanes_that_they_have(void **state)
{
    (void)state;
#define UNEQUAL                                                                                                        \
    "[level node]\nsize = 4\nsizes = 4, 3, 4\nkind = switch\nbandwidth = 450 GB/s\nlatency = 1 us\n" CLUSTER(3, switch)
    ORDER(UNEQUAL, RING_RAIL, 0, 1, 0, 4, 7, 1, 5, 8, 2, 6, 9, 3, 10);
    ORDER(UNEQUAL, RING_SNAKE, 0, 1, 0, 1, 2, 3, 6, 5, 4, 7, 8, 9, 10);
    ORDER(UNEQUAL, RING_NODE_MAJOR, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    ORDER(UNEQUAL, RING_RAIL, 1, 2, 3, 0, 2, 4, 1); /* GPUs 1, 3 | 5 | 7, 9 of lanes 1, 3, 1, 0, 2 */
#undef UNEQUAL
    for (enum ring_kind kind = RING_NATURAL; kind <= RING_SNAKE; kind++)
        if (kind != RING_EXPLICIT)
            ORDER("[link gpu0 gpu1]\nbandwidth = 1 GB/s\nlatency = 1 us\n[link gpu1 gpu2]\nbandwidth = 1 GB/s\nlatency "
                  "= 1 us\n",
                  kind, 0, 1, 0, 1, 2);
}

/* Of pods every second one backwards, nodes and all. */
static void levels_turn_inside_each_other(void **state)
{
    (void)state;
    ORDER(NODE(2) CLUSTER(2, switch) "[level pods]\nsize = 2\nkind = switch\nbandwidth = 50 GB/s\nlatency = 9 us\n",
          RING_SNAKE, 0, 1, 0, 1, 3, 2, 6, 7, 5, 4);
}

/* Every step of the snake is one hop of the torus; so is that from the last to the first where the outermost length is
 * even, while the natural order needs more at the end of every row. */
static void a_snake_is_a_hamiltonian_path(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        uint32_t gpus;
        bool closes;
    } tori[] = {
        {"torus:4x4", 16, true}, {"torus:5x3", 15, false}, {"torus:4x3x2", 24, true}, {"torus:3x3x4", 36, true}};
    for (unsigned t = 0; t < sizeof tori / sizeof *tori; t++) {
        char *levels = memory_format("[level grid]\nsize = %u\nkind = %s\nbandwidth = 50 GB/s\nlatency = 1 us\n",
                                     tori[t].gpus, tori[t].kind);
        struct topology topology = cluster(levels);
        struct experiment experiment = {.degree = {1, tori[t].gpus, 1}, .ring = RING_SNAKE};
        uint32_t order[64];
        struct route route;
        route_init(&route);
        ring_order_of(&experiment, &topology, 0, 1, order);
        for (uint32_t p = 0; p < tori[t].gpus; p++) {
            bool last = p + 1 == tori[t].gpus;
            assert_true(topology_route(&topology, order[p], order[last ? 0 : p + 1], &route, NULL));
            assert_true((route.n_links == 1) == (!last || tori[t].closes));
        }
        route_fini(&route);
        topology_fini(&topology);
        free(levels);
    }
}

/* cp groups of three over nodes of four: none but the first begins where a node does. */
static void groups_may_differ_and_share_what_they_can(void **state)
{
    (void)state;
    struct topology topology = cluster(NODE(4) CLUSTER(48, switch));
    struct experiment experiment = {.degree = {[PARALLEL_TP] = 1, [PARALLEL_CP] = 3, [PARALLEL_DP] = 64},
                                    .order = {PARALLEL_CP, PARALLEL_TP, PARALLEL_DP},
                                    .ring = RING_RAIL};
    static const uint32_t expected[4][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {0, 1, 2}};
    struct placement placement;
    assert_true(placement_init(&placement, &experiment, &topology, NULL));
    assert_int_equal(placement.n_rings, 3);
    for (uint32_t group = 0; group < 64; group++)
        for (uint32_t rank = 0; rank < 3; rank++)
            assert_int_equal(placement_gpu(&placement, group, rank), 3 * group + expected[group % 4][rank]);
    static const uint32_t places[] = {2, 1, 0}; /* the algorithm's own order comes first */
    placement_permute(&placement, places);
    assert_int_equal(placement_gpu(&placement, 1, 0), 3 + expected[1][2]);
    assert_int_equal(placement_gpu(&placement, 1, 2), 3 + expected[1][0]);
    placement_fini(&placement);
    topology_fini(&topology);
}

static void a_list_says_it_index_by_index(void **state)
{
    (void)state;
    uint64_t list[] = {0, 2, 1, 3};
    struct topology topology = {.n_gpus = 16};
    struct experiment experiment = {.degree = {[PARALLEL_TP] = 2, [PARALLEL_CP] = 4, [PARALLEL_DP] = 2},
                                    .order = {PARALLEL_TP, PARALLEL_CP, PARALLEL_DP},
                                    .ring = RING_EXPLICIT,
                                    .ring_indices = list};
    struct placement placement;
    assert_true(placement_init(&placement, &experiment, &topology, NULL));
    assert_int_equal(placement.n_rings, 1);
    for (uint32_t group = 0; group < 4; group++)
        for (uint32_t rank = 0; rank < 4; rank++)
            assert_int_equal(placement_gpu(&placement, group, rank), group % 2 + 2 * list[rank] + 8 * (group / 2));
    placement_fini(&placement);
}

/* What placement_check_ring says to `ring = <value>` with cp ranks of two nodes of four. */
static char *said_of(enum ring_kind kind, uint32_t cp)
{
    struct topology topology = cluster(NODE(4) CLUSTER(2, switch));
    struct diagnostics diag;
    diagnostics_init(&diag);
    struct ini_document *document = ini_document_read_text("x.ini", "[parallel]\nring = this\n", &diag);
    struct experiment experiment = {
        .degree = {1, cp, 1}, .order = {PARALLEL_TP, PARALLEL_CP, PARALLEL_DP}, .ring = kind, .document = document};
    struct placement placement;
    assert_true(placement_init(&placement, &experiment, &topology, &diag));
    bool good = placement_check_ring(&placement, &experiment, &diag);
    assert_int_equal(diag.count, good ? 0 : 1);
    char *said = memory_text(good ? "" : diag.lines[0]);
    placement_fini(&placement);
    ini_document_destroy(document);
    diagnostics_fini(&diag);
    topology_fini(&topology);
    return said;
}

static void an_order_without_effect_is_said_to_have_none(void **state)
{
    (void)state;
    static const struct {
        enum ring_kind kind;
        uint32_t cp;
        const char *said;
    } cases[] = {
        {RING_NATURAL, 8, ""},
        {RING_RAIL, 8, ""},
        {RING_SNAKE, 8, ""},
        {RING_SNAKE, 1, "x.ini:2: 'ring' has no effect with cp = 1"},
        {RING_NATURAL, 1, "x.ini:2: 'ring' has no effect with cp = 1"},
        {RING_RAIL, 4,
         "x.ini:2: 'ring' has no effect: this is the natural order of the GPUs in every group, expected "
         "natural or no such key"},
        {RING_NODE_MAJOR, 8,
         "x.ini:2: 'ring' has no effect: this is the natural order of the GPUs in every group, "
         "expected natural or no such key"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *said = said_of(cases[i].kind, cases[i].cp);
        assert_string_equal(said, cases[i].said);
        free(said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_are_as_the_header_says),
        cmocka_unit_test(a_group_orders_the_gpus_that_it_has),
        cmocka_unit_test(unequal_nodes_have_the_lanes_that_they_have),
        cmocka_unit_test(levels_turn_inside_each_other),
        cmocka_unit_test(a_snake_is_a_hamiltonian_path),
        cmocka_unit_test(groups_may_differ_and_share_what_they_can),
        cmocka_unit_test(a_list_says_it_index_by_index),
        cmocka_unit_test(an_order_without_effect_is_said_to_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
