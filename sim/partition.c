/* partition.c - splits classes until nothing tells the members of one apart.
 *
 * Nodes, ways and links are elements of one array, in this order; each class is an interval of a permutation of them.
 * An element's signature is a hash of what it is by itself (its label, its places, how many neighbours it has), to
 * which a number drawn from the class of each neighbour is added: sums do not depend on the order of neighbours, and
 * when one changes its class, they change by a difference. So a round costs as much as changed in the one before:
 *
 *   1. each class with members whose signature may have changed (touched ones) is split: members of equal signature
 * stay together, and all that were not touched do. The largest part keeps the class's number, others get new ones;
 *   2. the neighbours of all members of new classes are touched, and their signatures brought up to date.
 *
 * A touched element has a neighbour in a new class and an untouched one of the same class has none, so the two differ.
 * Only smaller parts change their number, so an element does so at most log2 n times, and everything takes
 * O((n + hops) log n) however many rounds there are (in a long chain of ranks: as many as it has links).
 */
#include "sim/partition.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "models/base/memory.h"
#include "models/base/numbering.h"

/* How two neighbours are joined. */
enum tie { TIE_FROM, TIE_TO, TIE_HOP, TIE_COUNT };

struct signature {
    uint64_t words[2];
};

struct class
{
    uint32_t first, size; /* its members in `order`; the touched ones come first */
    uint32_t touched;
};

/* A part of a class that has got a class of its own. */
struct split {
    uint32_t class, parent;
};

/* The ways at each node or link: ways[first[i] .. first[i + 1]). */
struct incidence {
    size_t *first;
    uint32_t *ways;
};

struct refinement {
    const struct crossing_graph *graph;
    struct incidence leaving, arriving, crossing;
    uint32_t first_way, first_link, n; /* elements */
    struct signature *signatures;      /* [element]; those alone in a class no longer have theirs kept */
    uint32_t *class_of, *position;     /* [element] */
    uint32_t *order;                   /* [position] */
    struct class *classes;
    uint32_t n_classes, class_capacity;
    uint32_t *touched; /* classes with touched members */
    uint32_t n_touched, touched_capacity;
    struct split *splits; /* of this round */
    uint32_t n_splits, split_capacity;
    uint32_t *part_of, *sorted; /* scratch: [touched member of a class] */
};

/* Ways sorted by one of their ends. */
static struct incidence incidence_by_end(const struct crossing_graph *graph, bool by_receiver)
{
    struct incidence incidence = {memory_zeroed((size_t)graph->n_nodes + 2, sizeof *incidence.first),
                                  memory_zeroed(graph->n_ways, sizeof *incidence.ways)};
    size_t *next = incidence.first + 1; /* ends up as where the following node's begin */
    for (uint32_t w = 0; w < graph->n_ways; w++)
        next[1 + (by_receiver ? graph->ways[w].to : graph->ways[w].from)]++;
    for (uint32_t i = 1; i <= graph->n_nodes; i++)
        next[i] += next[i - 1];
    for (uint32_t w = 0; w < graph->n_ways; w++)
        incidence.ways[next[by_receiver ? graph->ways[w].to : graph->ways[w].from]++] = w;
    return incidence;
}

/* Ways sorted by the links that they cross. */
static struct incidence incidence_by_link(const struct crossing_graph *graph)
{
    size_t n_hops = 0;
    for (uint32_t w = 0; w < graph->n_ways; w++)
        n_hops += graph->ways[w].n_hops;
    struct incidence incidence = {memory_zeroed((size_t)graph->n_links + 2, sizeof *incidence.first),
                                  memory_zeroed(n_hops, sizeof *incidence.ways)};
    size_t *next = incidence.first + 1;
    for (uint32_t w = 0; w < graph->n_ways; w++) {
        for (size_t h = 0; h < graph->ways[w].n_hops; h++)
            next[1 + graph->hops[graph->ways[w].first_hop + h]]++;
    }
    for (uint32_t i = 1; i <= graph->n_links; i++)
        next[i] += next[i - 1];
    for (uint32_t w = 0; w < graph->n_ways; w++) {
        for (size_t h = 0; h < graph->ways[w].n_hops; h++)
            incidence.ways[next[graph->hops[graph->ways[w].first_hop + h]]++] = w;
    }
    return incidence;
}

static void incidence_fini(struct incidence *incidence)
{
    free(incidence->first);
    free(incidence->ways);
}

static uint32_t count_at(const struct incidence *incidence, uint32_t index)
{
    return (uint32_t)(incidence->first[index + 1] - incidence->first[index]);
}

static struct signature hash(const uint32_t *words, size_t n)
{
    XXH128_hash_t value = XXH3_128bits(words, n * sizeof *words);
    return (struct signature){{value.low64, value.high64}};
}

static bool signatures_equal(const struct signature *a, const struct signature *b)
{
    return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* What each element is by itself: signatures before it is known how its neighbours differ. */
static void sign_alone(struct refinement *r)
{
    const struct crossing_graph *graph = r->graph;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        uint32_t words[] = {graph->node_labels[i], count_at(&r->leaving, i), count_at(&r->arriving, i)};
        r->signatures[i] = hash(words, sizeof words / sizeof *words);
    }
    for (uint32_t w = 0; w < graph->n_ways; w++) {
        const struct way *way = &graph->ways[w];
        uint32_t words[] = {way->label, way->from_place, way->to_place, (uint32_t)way->n_hops};
        r->signatures[r->first_way + w] = hash(words, sizeof words / sizeof *words);
    }
    for (uint32_t l = 0; l < graph->n_links; l++) {
        uint32_t words[] = {graph->link_labels[l], count_at(&r->crossing, l)};
        r->signatures[r->first_link + l] = hash(words, sizeof words / sizeof *words);
    }
}

static uint32_t add_class(struct refinement *r, uint32_t first, uint32_t size)
{
    memory_grow(r->classes, r->n_classes, r->class_capacity);
    r->classes[r->n_classes] = (struct class){first, size, 0};
    return r->n_classes++;
}

static void note_touched(struct refinement *r, uint32_t class)
{
    memory_grow(r->touched, r->n_touched, r->touched_capacity);
    r->touched[r->n_touched++] = class;
}

/* Begins with one class for nodes, one for ways and one for links, all of them touched. */
static void add_first_class(struct refinement *r, uint32_t first, uint32_t end)
{
    if (first == end)
        return;
    uint32_t class = add_class(r, first, end - first);
    r->classes[class].touched = end - first;
    note_touched(r, class);
    for (uint32_t e = first; e < end; e++)
        r->class_of[e] = class;
}

static void refinement_init(struct refinement *r, const struct crossing_graph *graph)
{
    *r = (struct refinement){.graph = graph, .first_way = graph->n_nodes};
    assert((uint64_t)graph->n_nodes + graph->n_ways + graph->n_links < UINT32_MAX);
    r->first_link = r->first_way + graph->n_ways;
    r->n = r->first_link + graph->n_links;
    r->leaving = incidence_by_end(graph, false);
    r->arriving = incidence_by_end(graph, true);
    r->crossing = incidence_by_link(graph);
    r->signatures = memory_zeroed(r->n, sizeof *r->signatures);
    sign_alone(r);
    r->class_of = memory_zeroed(r->n, sizeof *r->class_of);
    r->position = memory_zeroed(r->n, sizeof *r->position);
    r->order = memory_zeroed(r->n, sizeof *r->order);
    r->part_of = memory_zeroed(r->n, sizeof *r->part_of);
    r->sorted = memory_zeroed(r->n, sizeof *r->sorted);
    for (uint32_t e = 0; e < r->n; e++)
        r->order[e] = r->position[e] = e;
    add_first_class(r, 0, r->first_way);
    add_first_class(r, r->first_way, r->first_link);
    add_first_class(r, r->first_link, r->n);
}

static void refinement_fini(struct refinement *r)
{
    incidence_fini(&r->leaving);
    incidence_fini(&r->arriving);
    incidence_fini(&r->crossing);
    free(r->signatures);
    free(r->class_of);
    free(r->position);
    free(r->order);
    free(r->classes);
    free(r->touched);
    free(r->splits);
    free(r->part_of);
    free(r->sorted);
}

static void place(struct refinement *r, uint32_t element, uint32_t position)
{
    r->order[position] = element;
    r->position[element] = position;
}

/* Numbers the touched members of a class by their signatures, in part_of; returns how many different ones there are. */
static uint32_t find_parts(struct refinement *r, const struct class *class)
{
    const uint32_t *members = r->order + class->first;
    uint32_t alike = 1;
    while (alike < class->touched && signatures_equal(&r->signatures[members[alike]], &r->signatures[members[0]]))
        alike++;
    memset(r->part_of, 0, alike * sizeof *r->part_of);
    if (alike == class->touched)
        return 1;
    struct numbering numbering;
    numbering_init(&numbering, sizeof(struct signature) / sizeof(uint64_t));
    for (uint32_t i = alike - 1; i < class->touched; i++)
        r->part_of[i] = numbering_of(&numbering, r->signatures[members[i]].words);
    uint32_t n_parts = numbering.count;
    numbering_fini(&numbering);
    return n_parts;
}

/* Sorts the touched members of a class by part. ends[part]: where each ends, from the class's first. */
static void sort_parts(struct refinement *r, const struct class *class, uint32_t *ends, uint32_t n_parts)
{
    for (uint32_t i = 0; i < class->touched; i++)
        ends[r->part_of[i]]++;
    for (uint32_t part = 0, sum = 0; part < n_parts; part++) {
        uint32_t size = ends[part];
        ends[part] = sum;
        sum += size;
    }
    memcpy(r->sorted, r->order + class->first, class->touched * sizeof *r->sorted);
    for (uint32_t i = 0; i < class->touched; i++)
        place(r, r->sorted[i], class->first + ends[r->part_of[i]]++);
}

/* Makes a class of members [first, end) of `order`, which were in `parent`. */
static void split_off(struct refinement *r, uint32_t parent, uint32_t first, uint32_t end)
{
    uint32_t class = add_class(r, first, end - first);
    for (uint32_t p = first; p < end; p++)
        r->class_of[r->order[p]] = class;
    memory_grow(r->splits, r->n_splits, r->split_capacity);
    r->splits[r->n_splits++] = (struct split){class, parent};
}

/* ends[part]: where the parts of the class end, from its first member. */
static void split_at(struct refinement *r, uint32_t index, const uint32_t *ends, uint32_t n_parts)
{
    uint32_t first = r->classes[index].first, largest = 0, largest_size = 0;
    for (uint32_t part = 0, begin = 0; part < n_parts; begin = ends[part++]) {
        if (ends[part] - begin > largest_size) {
            largest = part;
            largest_size = ends[part] - begin;
        }
    }
    for (uint32_t part = 0, begin = 0; part < n_parts; begin = ends[part++]) {
        if (part == largest)
            r->classes[index] = (struct class){first + begin, largest_size, 0};
        else
            split_off(r, index, first + begin, first + ends[part]);
    }
}

static void split_class(struct refinement *r, uint32_t index)
{
    struct class class = r->classes[index];
    r->classes[index].touched = 0;
    uint32_t n_parts = find_parts(r, &class);
    if (n_parts == 1 && class.touched == class.size)
        return;
    uint32_t *ends = memory_zeroed((size_t)n_parts + 1, sizeof *ends);
    if (n_parts == 1)
        ends[0] = class.touched;
    else
        sort_parts(r, &class, ends, n_parts);
    if (class.touched < class.size)
        ends[n_parts++] = class.size;
    split_at(r, index, ends, n_parts);
    free(ends);
}

/* A neighbour of `element` has changed its class. */
static void touch(struct refinement *r, uint32_t element, const struct signature *change)
{
    uint32_t index = r->class_of[element];
    struct class *class = &r->classes[index];
    if (class->size == 1)
        return;
    r->signatures[element].words[0] += change->words[0];
    r->signatures[element].words[1] += change->words[1];
    uint32_t front = class->first + class->touched, position = r->position[element];
    if (position < front)
        return;
    place(r, r->order[front], position);
    place(r, element, front);
    if (class->touched++ == 0)
        note_touched(r, index);
}

/* By how much the signature of a neighbour changes when an element goes from one class to another. */
static struct signature change_of(struct split split, enum tie tie)
{
    uint32_t words[] = {split.class, tie};
    struct signature now = hash(words, 2);
    words[0] = split.parent;
    struct signature before = hash(words, 2);
    return (struct signature){{now.words[0] - before.words[0], now.words[1] - before.words[1]}};
}

static void touch_ways(struct refinement *r, const struct incidence *incidence, uint32_t index,
                       const struct signature *change)
{
    for (size_t i = incidence->first[index]; i < incidence->first[index + 1]; i++)
        touch(r, r->first_way + incidence->ways[i], change);
}

static void touch_neighbours(struct refinement *r, uint32_t element, const struct signature changes[TIE_COUNT])
{
    if (element < r->first_way) {
        touch_ways(r, &r->leaving, element, &changes[TIE_FROM]);
        touch_ways(r, &r->arriving, element, &changes[TIE_TO]);
    } else if (element < r->first_link) {
        const struct way *way = &r->graph->ways[element - r->first_way];
        touch(r, way->from, &changes[TIE_FROM]);
        touch(r, way->to, &changes[TIE_TO]);
        for (size_t h = 0; h < way->n_hops; h++)
            touch(r, r->first_link + r->graph->hops[way->first_hop + h], &changes[TIE_HOP]);
    } else {
        touch_ways(r, &r->crossing, element - r->first_link, &changes[TIE_HOP]);
    }
}

static void spread(struct refinement *r, struct split split)
{
    struct signature changes[TIE_COUNT];
    for (enum tie tie = 0; tie < TIE_COUNT; tie++)
        changes[tie] = change_of(split, tie);
    /* Neighbours are of another kind, and so of another class: touching them moves no member of this one. */
    struct class class = r->classes[split.class];
    for (uint32_t p = class.first; p < class.first + class.size; p++)
        touch_neighbours(r, r->order[p], changes);
}

/* True if something was split. */
static bool refine(struct refinement *r)
{
    uint32_t n_touched = r->n_touched;
    r->n_touched = r->n_splits = 0;
    for (uint32_t t = 0; t < n_touched; t++)
        split_class(r, r->touched[t]);
    for (uint32_t s = 0; s < r->n_splits; s++)
        spread(r, r->splits[s]);
    return r->n_splits > 0;
}

/* The classes of elements [first, end), numbered by first appearance. `number` is scratch: UINT32_MAX for each class.
 */
static uint32_t *renumber(const struct refinement *r, uint32_t first, uint32_t end, uint32_t *number,
                          uint32_t *n_classes)
{
    uint32_t *classes = memory_zeroed(end - first, sizeof *classes);
    *n_classes = 0;
    for (uint32_t e = first; e < end; e++) {
        uint32_t *known = &number[r->class_of[e]];
        if (*known == UINT32_MAX)
            *known = (*n_classes)++;
        classes[e - first] = *known;
    }
    return classes;
}

static bool ways_equal(const struct way *a, const struct way *b)
{
    return a->from == b->from && a->to == b->to && a->from_place == b->from_place && a->to_place == b->to_place &&
           a->label == b->label && a->first_hop == b->first_hop && a->n_hops == b->n_hops;
}

static bool numbers_equal(const uint32_t *a, const uint32_t *b, size_t count)
{
    return count == 0 || memcmp(a, b, count * sizeof *a) == 0;
}

bool crossing_graphs_equal(const struct crossing_graph *a, const struct crossing_graph *b)
{
    if (a->n_nodes != b->n_nodes || a->n_ways != b->n_ways || a->n_links != b->n_links)
        return false;
    for (uint32_t w = 0; w < a->n_ways; w++)
        if (!ways_equal(&a->ways[w], &b->ways[w]))
            return false;
    return numbers_equal(a->node_labels, b->node_labels, a->n_nodes) &&
           numbers_equal(a->link_labels, b->link_labels, a->n_links) &&
           numbers_equal(a->hops, b->hops, crossing_graph_hops(a));
}

void partition_init(struct partition *partition, const struct crossing_graph *graph)
{
    struct refinement r;
    refinement_init(&r, graph);
    *partition = (struct partition){0};
    while (refine(&r))
        partition->rounds++;
    uint32_t *number = memory_zeroed(r.n_classes, sizeof *number);
    memset(number, 0xff, r.n_classes * sizeof *number);
    partition->node_class = renumber(&r, 0, r.first_way, number, &partition->n_node_classes);
    partition->way_class = renumber(&r, r.first_way, r.first_link, number, &partition->n_way_classes);
    partition->link_class = renumber(&r, r.first_link, r.n, number, &partition->n_link_classes);
    free(number);
    refinement_fini(&r);
}

void partition_fini(struct partition *partition)
{
    free(partition->node_class);
    free(partition->way_class);
    free(partition->link_class);
    memset(partition, 0, sizeof *partition);
}
