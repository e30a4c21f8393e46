/* graph.c - reads [link A B] sections: their ends first, then what is said of them, then whether all hang together.
 */
#include "models/input/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/graph_data.h"
#include "models/input/key_table.h"
#include "models/input/topology_keys.h"

/* --- keys --------------------------------------------------------------------------------------------------------- */

static const struct key_spec link_keys[] = {
    {.name = "bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct graph_cable, bytes_per_s),
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 450 GB/s or 400 Gb/s",
     .help = "one way, of one cable"},
    {.name = "latency",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = offsetof(struct graph_cable, latency_seconds),
     .minimum = 0,
     .maximum = 1,
     .form = "a time such as 2 us",
     .help = "alpha: what a message over it costs before its bytes"},
    {.name = "duplex",
     .type = KEY_CUSTOM,
     .offset = offsetof(struct graph_cable, half_duplex),
     .fallback = "full",
     .parse = topology_parse_duplex,
     .print = topology_print_duplex,
     .form = "full | half",
     .help = "half: both directions share one link's bandwidth"},
    {.name = "count",
     .type = KEY_COUNT32,
     .offset = offsetof(struct graph_cable, count),
     .fallback = "1",
     .minimum = 1,
     .maximum = 1024,
     .form = "a whole number such as 2",
     .help = "so many cables side by side; a message takes one of them"},
    {.name = "class",
     .type = KEY_TEXT,
     .offset = offsetof(struct graph_cable, class),
     .size = sizeof(((struct graph_cable *)0)->class),
     .fallback = "link",
     .form = "a word such as nvlink",
     .help = "links of one class stand together in reports; the inner ones first, at most 8 classes"},
};

const struct section_spec link_section = {
    .name = "link",
    .named = true,
    .help = "instead of levels: a cable between two ends, [link A B]: gpu0, gpu1, ... or the names of switches",
    .keys = link_keys,
    .n_keys = sizeof link_keys / sizeof *link_keys,
};

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* Names are collected in order of appearance; GPUs are brought to the front afterwards. */
struct naming {
    struct topology *topology;
    struct graph *graph;
    struct diagnostics *diag;
    size_t capacity;
};

static const char *const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

/* "gpu12" is 12; a switch's name is UINT32_MAX. False if it looks like a GPU and is none. */
static bool gpu_number(const char *name, uint32_t *number)
{
    *number = UINT32_MAX;
    if (strncmp(name, "gpu", 3) != 0 || strspn(name + 3, "0123456789") == 0)
        return true;
    size_t digits = strspn(name + 3, "0123456789");
    if (name[3 + digits] != '\0' || digits > 4 || (digits > 1 && name[3] == '0'))
        return false;
    *number = (uint32_t)strtoul(name + 3, NULL, 10);
    return *number < GRAPH_NODES_MAX;
}

static uint32_t node_of(struct naming *naming, const char *name)
{
    struct graph *graph = naming->graph;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (strcmp(graph->names[i], name) == 0)
            return i;
    }
    memory_grow(graph->names, graph->n_nodes, naming->capacity);
    graph->names[graph->n_nodes] = memory_text(name);
    return graph->n_nodes++;
}

static bool check_end(const struct naming *naming, const struct ini_section *section, const char *name)
{
    uint32_t number;
    if (*name == '\0' || strspn(name, plain) != strlen(name))
        return ini_document_complain(naming->topology->document, section, NULL, naming->diag,
                                     "'%s' is no end of a link, expected letters, digits, '-' or '_'", name);
    if (!gpu_number(name, &number))
        return ini_document_complain(naming->topology->document, section, NULL, naming->diag,
                                     "'%s' is no end of a link, expected gpu0 to gpu%d or a switch's name", name,
                                     GRAPH_NODES_MAX - 1);
    return true;
}

/* "link A B" into two nodes. */
static bool read_ends(struct naming *naming, const struct ini_section *section, struct graph_cable *cable)
{
    char *name = memory_text(section->name), *rest = name;
    char *ends[3] = {0};
    size_t n = 0;
    for (char *word = strsep(&rest, " "); word && n < 3; word = strsep(&rest, " ")) {
        if (n > 0 || word != name)
            ends[n++] = word;
    }
    bool ok = n == 2;
    if (!ok)
        ini_document_complain(naming->topology->document, section, NULL, naming->diag,
                              "section [%s], expected two ends: [link A B]", section->name);
    ok = ok && check_end(naming, section, ends[0]);
    ok = ok && check_end(naming, section, ends[1]);
    if (ok && strcmp(ends[0], ends[1]) == 0)
        ok = ini_document_complain(naming->topology->document, section, NULL, naming->diag,
                                   "the link joins '%s' to itself, expected two ends", ends[0]);
    if (ok) {
        cable->ends[0] = node_of(naming, ends[0]);
        cable->ends[1] = node_of(naming, ends[1]);
    }
    free(name);
    return ok;
}

static bool check_pair(const struct naming *naming, const struct graph_cable *cable)
{
    for (size_t i = 0; i < naming->graph->n_cables; i++) {
        const struct graph_cable *other = &naming->graph->cables[i];
        if (other->ends[0] == cable->ends[1] && other->ends[1] == cable->ends[0])
            return ini_document_complain(naming->topology->document, cable->section, NULL, naming->diag,
                                         "[%s] joins the same ends, expected one of them, with 'count' for more cables",
                                         other->section->name);
    }
    return true;
}

/* --- classes ------------------------------------------------------------------------------------------------------ */

static bool find_class(struct topology *topology, struct graph_cable *cable, struct diagnostics *diag)
{
    const struct ini_entry *entry = ini_section_entry(cable->section, "class");
    if (*cable->class == '\0' || strspn(cable->class, plain) != strlen(cable->class))
        return ini_document_complain(topology->document, cable->section, entry, diag,
                                     "'class' is '%s', expected letters, digits, '-' or '_'", cable->class);
    for (cable->level = 0; cable->level < topology->n_levels; cable->level++) {
        if (strcmp(topology->levels[cable->level].name, cable->class) == 0)
            return true;
    }
    if (topology->n_levels == LEVELS_MAX)
        return ini_document_complain(topology->document, cable->section, entry, diag,
                                     "'class' is '%s', one more than %d classes of links, expected one of those before",
                                     cable->class, LEVELS_MAX);
    struct level *level = &topology->levels[topology->n_levels++];
    *level = (struct level){.kind = LEVEL_GRAPH,
                            .bytes_per_s = cable->bytes_per_s,
                            .latency_seconds = cable->latency_seconds,
                            .half_duplex = cable->half_duplex,
                            .line = cable->section->line};
    snprintf(level->name, sizeof level->name, "%s", cable->class);
    return true;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static bool read_cable(struct naming *naming, const struct ini_section *section)
{
    struct topology *topology = naming->topology;
    struct graph *graph = naming->graph;
    struct graph_cable cable = {.section = section};
    bool ok = read_ends(naming, section, &cable);
    ok = ok && check_pair(naming, &cable);
    ok = key_table_read(&link_section, topology->document, section, &cable, naming->diag) && ok;
    if (!ok || !find_class(topology, &cable, naming->diag))
        return false;
    topology->levels[cable.level].size += cable.count;
    memory_grow(graph->cables, graph->n_cables, graph->capacity);
    graph->cables[graph->n_cables++] = cable;
    return true;
}

static int compare_text(const void *a, const void *b)
{
    uint32_t left, right;
    gpu_number(*(char *const *)a, &left);
    gpu_number(*(char *const *)b, &right);
    return (left > right) - (left < right);
}

/* GPUs to the front, by number; switches keep their order, which qsort need not. */
static bool order_nodes(struct naming *naming)
{
    struct graph *graph = naming->graph;
    char **names = memory_zeroed(graph->n_nodes + 1, sizeof *names);
    uint32_t *node = memory_zeroed(graph->n_nodes + 1, sizeof *node), number;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        gpu_number(graph->names[i], &number);
        if (number != UINT32_MAX)
            names[graph->n_gpus++] = graph->names[i];
    }
    qsort(names, graph->n_gpus, sizeof *names, compare_text);
    uint32_t n = graph->n_gpus;
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        gpu_number(graph->names[i], &number);
        if (number == UINT32_MAX)
            names[n++] = graph->names[i];
    }
    bool ok = graph->n_gpus > 0 || ini_document_complain(naming->topology->document, NULL, NULL, naming->diag,
                                                         "no link ends at a GPU, expected ends gpu0, gpu1, ...");
    for (uint32_t i = 0; ok && i < graph->n_gpus; i++) {
        gpu_number(names[i], &number);
        if (number != i)
            ok = ini_document_complain(naming->topology->document, NULL, NULL, naming->diag,
                                       "gpu%" PRIu32 " is at no link, expected all of gpu0 to %s", i,
                                       names[graph->n_gpus - 1]);
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++) { /* the old numbers' new ones */
        for (uint32_t k = 0; k < graph->n_nodes; k++) {
            if (names[k] == graph->names[i])
                node[i] = k;
        }
    }
    for (size_t i = 0; i < graph->n_cables; i++) {
        graph->cables[i].ends[0] = node[graph->cables[i].ends[0]];
        graph->cables[i].ends[1] = node[graph->cables[i].ends[1]];
    }
    free(node);
    free(graph->names);
    graph->names = names;
    return ok;
}

static void number_links(struct graph *graph)
{
    for (size_t i = 0; i < graph->n_cables; i++) {
        struct graph_cable *cable = &graph->cables[i];
        cable->first_link = graph->n_links;
        graph->n_links += cable->count * (cable->half_duplex ? 1 : 2);
    }
}

static void make_edges(struct graph *graph)
{
    uint32_t n_edges = 0;
    graph->first_edge = memory_zeroed(graph->n_nodes + 1, sizeof *graph->first_edge);
    for (size_t i = 0; i < graph->n_cables; i++)
        n_edges += 2 * graph->cables[i].count;
    graph->edges = memory_zeroed(n_edges, sizeof *graph->edges);
    for (size_t i = 0; i < graph->n_cables; i++) {
        for (int end = 0; end < 2; end++)
            graph->first_edge[graph->cables[i].ends[end] + 1] += graph->cables[i].count;
    }
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        graph->first_edge[i + 1] += graph->first_edge[i];
    uint32_t *next = memory_zeroed(graph->n_nodes, sizeof *next);
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        next[i] = graph->first_edge[i];
    for (size_t i = 0; i < graph->n_cables; i++) {
        const struct graph_cable *cable = &graph->cables[i];
        for (uint32_t way = 0; way < cable->count; way++) {
            for (uint32_t end = 0; end < 2; end++) {
                uint64_t link = cable->first_link + (cable->half_duplex ? way : 2 * way + end);
                graph->edges[next[cable->ends[end]]++] = (struct graph_edge){
                    cable->ends[1 - end], (uint32_t)i, link, (uint64_t)llround(cable->latency_seconds * 1e12)};
            }
        }
    }
    free(next);
}

/* A switch at the end of a single cable carries nothing: a misspelt name, most likely. */
static bool check_dead_ends(const struct naming *naming)
{
    const struct graph *graph = naming->graph;
    bool ok = true;
    for (uint32_t i = graph->n_gpus; i < graph->n_nodes; i++) {
        uint32_t first = graph->first_edge[i], end = graph->first_edge[i + 1];
        bool one_neighbour = true;
        for (uint32_t e = first; e < end; e++)
            one_neighbour = one_neighbour && graph->edges[e].to == graph->edges[first].to;
        if (!one_neighbour)
            continue;
        const char **others = memory_zeroed(graph->n_nodes + 1, sizeof *others);
        for (uint32_t k = 0, n = 0; k < graph->n_nodes; k++) {
            if (k != i)
                others[n++] = graph->names[k];
        }
        const char *near = key_table_nearest(graph->names[i], others);
        const struct ini_section *section = graph->cables[graph->edges[first].cable].section;
        ok = ini_document_complain(naming->topology->document, section, NULL, naming->diag,
                                   near ? "switch '%s' is a dead end, did you mean '%s'?"
                                        : "switch '%s' is a dead end, expected links to two others at least",
                                   graph->names[i], near);
        free(others);
    }
    return ok;
}

static bool check_connected(const struct naming *naming)
{
    const struct graph *graph = naming->graph;
    const struct graph_tree *tree = graph_tree_to(graph, 0);
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        if (tree->hops[i] == UINT32_MAX)
            return ini_document_complain(naming->topology->document, NULL, NULL, naming->diag,
                                         "no links lead from gpu0 to '%s', expected a connected graph",
                                         graph->names[i]);
    }
    return true;
}

bool graph_read(struct topology *topology, struct diagnostics *diag)
{
    struct graph *graph = memory_zeroed(1, sizeof *graph);
    struct naming naming = {.topology = topology, .graph = graph, .diag = diag};
    topology->graph = graph;
    bool ok = true;
    for (size_t i = 0; i < topology->document->n_sections; i++) {
        const struct ini_section *section = &topology->document->sections[i];
        if (strncmp(section->name, "link ", 5) == 0)
            ok = read_cable(&naming, section) && ok;
    }
    if (graph->n_nodes > GRAPH_NODES_MAX)
        return ini_document_complain(topology->document, NULL, NULL, diag,
                                     "the links join %" PRIu32 " GPUs and switches, expected at most %d",
                                     graph->n_nodes, GRAPH_NODES_MAX);
    if (!ok || !order_nodes(&naming))
        return false;
    number_links(graph);
    make_edges(graph);
    graph->trees = memory_zeroed(graph->n_gpus, sizeof *graph->trees);
    topology->n_gpus = graph->n_gpus;
    topology->n_links = graph->n_links;
    return check_dead_ends(&naming) && check_connected(&naming);
}

void graph_destroy(struct graph *graph)
{
    if (!graph)
        return;
    for (uint32_t i = 0; graph->trees && i < graph->n_gpus; i++)
        graph_tree_destroy(atomic_load(&graph->trees[i]));
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        free(graph->names[i]);
    free(graph->trees);
    free(graph->names);
    free(graph->cables);
    free(graph->first_edge);
    free(graph->edges);
    free(graph);
}

/* --- links by number ---------------------------------------------------------------------------------------------- */

static const struct graph_cable *cable_of(const struct graph *graph, uint64_t link)
{
    size_t low = 0, high = graph->n_cables - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (graph->cables[middle].first_link <= link)
            low = middle;
        else
            high = middle - 1;
    }
    return &graph->cables[low];
}

struct link_info graph_link(const struct graph *graph, uint64_t link)
{
    const struct graph_cable *cable = cable_of(graph, link);
    return (struct link_info){.level = cable->level, .bytes_per_s = cable->bytes_per_s};
}

void graph_each_link(struct graph *graph, uint32_t level,
                     void (*visit)(void *context, double *bytes_per_s, double *latency_seconds), void *context)
{
    for (size_t i = 0; i < graph->n_cables; i++) {
        if (graph->cables[i].level == level)
            visit(context, &graph->cables[i].bytes_per_s, &graph->cables[i].latency_seconds);
    }
}

static void end_name(const struct graph *graph, uint32_t node, char *text, size_t size)
{
    if (node < graph->n_gpus)
        snprintf(text, size, "gpu %" PRIu32, node);
    else
        snprintf(text, size, "%s", graph->names[node]);
}

const char *graph_switch_name(const struct graph *graph, uint32_t number)
{
    return graph->names[graph->n_gpus + number];
}

void graph_link_name(const struct topology *topology, uint64_t link, char *text, size_t size)
{
    const struct graph *graph = topology->graph;
    const struct graph_cable *cable = cable_of(graph, link);
    uint64_t number = link - cable->first_link, directions = cable->half_duplex ? 1 : 2;
    uint32_t backward = (uint32_t)(number % directions);
    char one[64], other[64], way[16] = "";
    end_name(graph, cable->ends[backward], one, sizeof one);
    end_name(graph, cable->ends[1 - backward], other, sizeof other);
    if (cable->count > 1)
        snprintf(way, sizeof way, "/%" PRIu64, number / directions);
    snprintf(text, size, "%s: %s %s %s%s", cable->class, one, cable->half_duplex ? "-" : "to", other, way);
}

void graph_each_value(const struct topology *topology,
                      void (*visit)(void *context, const char *section, const char *key, const char *value),
                      void *context)
{
    const struct graph *graph = topology->graph;
    for (size_t i = 0; i < graph->n_cables; i++) {
        char value[128];
        for (size_t k = 0; k < link_section.n_keys; k++) {
            key_table_print_value(&link_keys[k], &graph->cables[i], value, sizeof value);
            visit(context, graph->cables[i].section->name, link_keys[k].name, value);
        }
    }
}
