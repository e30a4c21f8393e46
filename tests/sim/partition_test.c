/* Colour refinement: graphs whose classes are known, and random ones beside a refinement that compares everything with
 * everything. */
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
#include "sim/partition.h"
#include "tests/random_experiment.h"

#ifdef __SANITIZE_ADDRESS__
#define RANDOM_GRAPHS 300
#else
#define RANDOM_GRAPHS 3000
#endif

/* A graph that grows. */
struct sketch {
    struct crossing_graph graph;
    uint32_t *node_labels, *link_labels, *hops;
    struct way *ways;
    uint32_t way_capacity, n_hops, hop_capacity;
};

static struct sketch sketch(uint32_t n_nodes, uint32_t n_links)
{
    struct sketch s = {.graph = {.n_nodes = n_nodes, .n_links = n_links}};
    s.node_labels = memory_zeroed(n_nodes, sizeof *s.node_labels);
    s.link_labels = memory_zeroed(n_links, sizeof *s.link_labels);
    return s;
}

static void add_hop(struct sketch *s, uint32_t link)
{
    memory_grow(s->hops, s->n_hops, s->hop_capacity);
    s->hops[s->n_hops++] = link;
    s->ways[s->graph.n_ways - 1].n_hops++;
}

/* A way over no link yet. */
static void add_way(struct sketch *s, uint32_t from, uint32_t from_place, uint32_t to, uint32_t to_place)
{
    memory_grow(s->ways, s->graph.n_ways, s->way_capacity);
    s->ways[s->graph.n_ways++] =
        (struct way){.from = from, .to = to, .from_place = from_place, .to_place = to_place, .first_hop = s->n_hops};
}

static struct partition classes_of(struct sketch *s)
{
    s->graph.node_labels = s->node_labels;
    s->graph.link_labels = s->link_labels;
    s->graph.ways = s->ways;
    s->graph.hops = s->hops;
    struct partition partition;
    partition_init(&partition, &s->graph);
    return partition;
}

static void sketch_fini(struct sketch *s)
{
    free(s->node_labels);
    free(s->link_labels);
    free(s->ways);
    free(s->hops);
}

/* Nodes first, first + 1, ... send to the next one, the last to the first, over a link each, with the node's number. */
static void add_ring(struct sketch *s, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        add_way(s, first + i, 0, first + (i + 1) % n, 1);
        add_hop(s, first + i);
    }
}

static void all_of_a_ring_are_alike(void **state)
{
    (void)state;
    struct sketch ring = sketch(12, 12);
    add_ring(&ring, 0, 12);
    struct partition partition = classes_of(&ring);
    assert_int_equal(partition.n_node_classes, 1);
    assert_int_equal(partition.n_way_classes, 1);
    assert_int_equal(partition.n_link_classes, 1);
    assert_int_equal(partition.rounds, 0);
    partition_fini(&partition);
    sketch_fini(&ring);
}

/* A ring goes one way round, so no two ranks have the same distance to the slow link. */
static void a_slow_link_tells_a_ring_apart(void **state)
{
    (void)state;
    struct sketch ring = sketch(9, 9);
    add_ring(&ring, 0, 9);
    ring.link_labels[4] = 1;
    struct partition partition = classes_of(&ring);
    assert_int_equal(partition.n_node_classes, 9);
    assert_int_equal(partition.n_link_classes, 9);
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(partition.node_class[i], i);
    partition_fini(&partition);
    sketch_fini(&ring);
}

/* Where messages go both ways, those as far to the left are like those as far to the right: but for their places. */
static void classes_go_by_distance(void **state)
{
    (void)state;
    for (uint32_t places_differ = 0; places_differ < 2; places_differ++) {
        struct sketch ring = sketch(8, 8);
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t next = (i + 1) % 8;
            add_way(&ring, i, 0, next, places_differ);
            add_hop(&ring, i);
            add_way(&ring, next, places_differ, i, 0);
            add_hop(&ring, i);
        }
        ring.node_labels[3] = 7;
        struct partition partition = classes_of(&ring);
        static const uint32_t by_distance[] = {0, 1, 2, 3, 2, 1, 0, 4};
        assert_int_equal(partition.n_node_classes, places_differ ? 8 : 5);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(partition.node_class[i], places_differ ? i : by_distance[i]);
        partition_fini(&partition);
        sketch_fini(&ring);
    }
}

static void equal_rings_are_alike(void **state)
{
    (void)state;
    struct sketch rings = sketch(16, 16);
    add_ring(&rings, 0, 5);
    add_ring(&rings, 5, 5);
    add_ring(&rings, 10, 6); /* of another length, which nobody in it can tell */
    struct partition partition = classes_of(&rings);
    assert_int_equal(partition.n_node_classes, 1);
    partition_fini(&partition);
    rings.node_labels[2] = rings.node_labels[9] = 1;
    partition = classes_of(&rings);
    assert_int_equal(partition.n_node_classes, 6);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(partition.node_class[i], partition.node_class[5 + (i + 2) % 5]);
    for (uint32_t i = 10; i < 16; i++)
        assert_int_equal(partition.node_class[i], 5);
    partition_fini(&partition);
    sketch_fini(&rings);
}

/* All send to the first over one link and a link of their own: places at the first tell them apart, if there are any.
 */
static void a_star_has_a_centre(void **state)
{
    (void)state;
    for (uint32_t places_differ = 0; places_differ < 2; places_differ++) {
        struct sketch star = sketch(6, 6);
        for (uint32_t i = 1; i < 6; i++) {
            add_way(&star, i, 0, 0, places_differ ? i : 0);
            add_hop(&star, 0);
            add_hop(&star, i);
        }
        struct partition partition = classes_of(&star);
        assert_int_equal(partition.n_node_classes, places_differ ? 6 : 2);
        assert_int_equal(partition.n_way_classes, places_differ ? 5 : 1);
        assert_int_equal(partition.n_link_classes, places_differ ? 6 : 2);
        partition_fini(&partition);
        sketch_fini(&star);
    }
}

/* Two pairs share a link each with one of the same sort, or one with all others: links count who crosses them. */
static void links_count_what_crosses_them(void **state)
{
    (void)state;
    struct sketch pairs = sketch(12, 4);
    static const uint32_t link_of[] = {0, 0, 1, 1, 2, 3};
    for (uint32_t p = 0; p < 6; p++) {
        add_way(&pairs, 2 * p, 0, 2 * p + 1, 0);
        add_hop(&pairs, link_of[p]);
    }
    struct partition partition = classes_of(&pairs);
    assert_int_equal(partition.n_way_classes, 2);
    assert_int_equal(partition.n_link_classes, 2);
    assert_int_equal(partition.n_node_classes, 4);
    partition_fini(&partition);
    sketch_fini(&pairs);
}

static void nothing_has_no_classes(void **state)
{
    (void)state;
    struct sketch nothing = sketch(0, 0);
    struct partition partition = classes_of(&nothing);
    assert_int_equal(partition.n_node_classes + partition.n_way_classes + partition.n_link_classes, 0);
    partition_fini(&partition);
    sketch_fini(&nothing);
    struct sketch alone = sketch(3, 0);
    partition = classes_of(&alone);
    assert_int_equal(partition.n_node_classes, 1);
    partition_fini(&partition);
    sketch_fini(&alone);
}

/* A chain is told apart from both its ends: as many rounds as it is long, and still a matter of moments. */
static void a_chain_takes_many_rounds(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    const uint32_t n = 1024;
#else
    const uint32_t n = 100000;
#endif
    struct sketch chain = sketch(n, 0);
    for (uint32_t i = 0; i + 1 < n; i++)
        add_way(&chain, i, 0, i + 1, 1);
    struct partition partition = classes_of(&chain);
    assert_int_equal(partition.n_node_classes, n);
    assert_true(partition.rounds >= n / 2);
    partition_fini(&partition);
    sketch_fini(&chain);
}

/* The refinement beside which it is held: elements are nodes, ways and links, and neighbours a matrix. */
struct naive {
    uint32_t n, first_way, first_link;
    uint8_t *tie;     /* [a * n + b]: how many times, and how, b is a neighbour of a */
    uint32_t *colour; /* [element] */
};

static void join(struct naive *naive, uint32_t a, uint32_t b, uint8_t tie)
{
    naive->tie[(size_t)a * naive->n + b] = (uint8_t)(naive->tie[(size_t)a * naive->n + b] + tie);
    naive->tie[(size_t)b * naive->n + a] = (uint8_t)(naive->tie[(size_t)b * naive->n + a] + tie);
}

/* Whether a and b have as many neighbours of each colour by each tie. */
static bool are_alike(const struct naive *naive, uint32_t a, uint32_t b)
{
    if (naive->colour[a] != naive->colour[b])
        return false;
    for (uint32_t i = 0; i < naive->n; i++) {
        for (uint8_t tie = 1; tie < 8; tie++) {
            int balance = 0;
            for (uint32_t j = 0; j < naive->n; j++) {
                if (naive->colour[j] != naive->colour[i])
                    continue;
                balance += naive->tie[(size_t)a * naive->n + j] == tie;
                balance -= naive->tie[(size_t)b * naive->n + j] == tie;
            }
            if (balance)
                return false;
        }
    }
    return true;
}

static bool start_alike(const struct crossing_graph *graph, const struct naive *naive, uint32_t a, uint32_t b)
{
    if (a < naive->first_way)
        return graph->node_labels[a] == graph->node_labels[b];
    if (a >= naive->first_link)
        return graph->link_labels[a - naive->first_link] == graph->link_labels[b - naive->first_link];
    const struct way *x = &graph->ways[a - naive->first_way], *y = &graph->ways[b - naive->first_way];
    return x->label == y->label && x->from_place == y->from_place && x->to_place == y->to_place;
}

static uint32_t kind_of(const struct naive *naive, uint32_t element)
{
    return element < naive->first_way ? 0 : element < naive->first_link ? 1 : 2;
}

/* The first element like each; a colour is the number of the first that has it. */
static bool recolour(struct naive *naive, const struct crossing_graph *graph, bool start)
{
    uint32_t *colour = memory_zeroed(naive->n, sizeof *colour);
    for (uint32_t e = 0; e < naive->n; e++) {
        while (colour[e] != e &&
               !(start ? kind_of(naive, colour[e]) == kind_of(naive, e) && start_alike(graph, naive, colour[e], e)
                       : are_alike(naive, colour[e], e)))
            colour[e]++;
    }
    bool changed = memcmp(colour, naive->colour, naive->n * sizeof *colour) != 0;
    free(naive->colour);
    naive->colour = colour;
    return changed;
}

static struct naive naive_partition(const struct crossing_graph *graph)
{
    struct naive naive = {.first_way = graph->n_nodes, .first_link = graph->n_nodes + graph->n_ways};
    naive.n = naive.first_link + graph->n_links;
    naive.tie = memory_zeroed((size_t)naive.n * naive.n, 1);
    naive.colour = memory_zeroed(naive.n, sizeof *naive.colour);
    for (uint32_t w = 0; w < graph->n_ways; w++) {
        const struct way *way = &graph->ways[w];
        join(&naive, naive.first_way + w, way->from, 1);
        join(&naive, naive.first_way + w, way->to, 2);
        for (size_t h = 0; h < way->n_hops; h++)
            join(&naive, naive.first_way + w, naive.first_link + graph->hops[way->first_hop + h], 4);
    }
    recolour(&naive, graph, true);
    while (recolour(&naive, graph, false))
        continue;
    return naive;
}

/* Both tell the same elements apart. */
static void assert_same(const uint32_t *classes, uint32_t n_classes, const uint32_t *colours, uint32_t n)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(classes[i] <= seen); /* by first appearance */
        seen += classes[i] == seen;
        for (uint32_t j = 0; j < i; j++)
            assert_int_equal(classes[i] == classes[j], colours[i] == colours[j]);
    }
    assert_int_equal(seen, n_classes);
}

/* A few nodes with few labels, sparsely or densely joined, now and then twice the same thing side by side. */
static struct sketch random_sketch(struct dice *dice)
{
    uint32_t nodes = 1 + dice_below(dice, 7), links = 1 + dice_below(dice, 6), copies = 1 + dice_below(dice, 2);
    uint32_t labels = 1 + dice_below(dice, 2), ways = dice_below(dice, 12), places = 1 + dice_below(dice, 2);
    struct sketch s = sketch(nodes * copies, links * copies);
    for (uint32_t i = 0; i < nodes; i++)
        s.node_labels[i] = dice_below(dice, labels);
    for (uint32_t l = 0; l < links; l++)
        s.link_labels[l] = dice_below(dice, labels);
    for (uint32_t w = 0; w < ways; w++) {
        add_way(&s, dice_below(dice, nodes), dice_below(dice, places), dice_below(dice, nodes),
                dice_below(dice, places));
        s.ways[w].label = dice_below(dice, labels);
        for (uint32_t l = 0; l < links; l++) {
            if (dice_chance(dice, 3))
                add_hop(&s, l);
        }
    }
    if (copies == 1)
        return s;
    memcpy(s.node_labels + nodes, s.node_labels, nodes * sizeof *s.node_labels);
    memcpy(s.link_labels + links, s.link_labels, links * sizeof *s.link_labels);
    for (uint32_t w = 0; w < ways; w++) {
        struct way way = s.ways[w];
        add_way(&s, nodes + way.from, way.from_place, nodes + way.to, way.to_place);
        s.ways[ways + w].label = way.label;
        for (size_t h = 0; h < way.n_hops; h++)
            add_hop(&s, links + s.hops[way.first_hop + h]);
    }
    if (dice_chance(dice, 2)) /* but for one thing */
        s.node_labels[dice_below(dice, 2 * nodes)] = 5;
    return s;
}

static void random_graphs_are_told_apart_as_far_as_can_be(void **state)
{
    (void)state;
    struct dice dice = {.state = 11};
    for (int i = 0; i < RANDOM_GRAPHS; i++) {
        struct sketch s = random_sketch(&dice);
        struct partition partition = classes_of(&s);
        struct naive naive = naive_partition(&s.graph);
        assert_same(partition.node_class, partition.n_node_classes, naive.colour, s.graph.n_nodes);
        assert_same(partition.way_class, partition.n_way_classes, naive.colour + naive.first_way, s.graph.n_ways);
        assert_same(partition.link_class, partition.n_link_classes, naive.colour + naive.first_link, s.graph.n_links);
        free(naive.tie);
        free(naive.colour);
        partition_fini(&partition);
        sketch_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_a_ring_are_alike),
        cmocka_unit_test(a_slow_link_tells_a_ring_apart),
        cmocka_unit_test(classes_go_by_distance),
        cmocka_unit_test(equal_rings_are_alike),
        cmocka_unit_test(a_star_has_a_centre),
        cmocka_unit_test(links_count_what_crosses_them),
        cmocka_unit_test(nothing_has_no_classes),
        cmocka_unit_test(a_chain_takes_many_rounds),
        cmocka_unit_test(random_graphs_are_told_apart_as_far_as_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
