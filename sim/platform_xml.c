/* platform_xml.c - hosts, links and routes, each once and in ascending order: the same text every time. */
#include "sim/platform_xml.h"

#include <inttypes.h>
#include <stdlib.h>

#include "models/base/memory.h"

struct numbers {
    uint64_t *items;
    size_t count, capacity;
};

static void add_number(struct numbers *numbers, uint64_t number)
{
    memory_grow(numbers->items, numbers->count, numbers->capacity);
    numbers->items[numbers->count++] = number;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Leaves each number once, ascending. */
static void sort_numbers(struct numbers *numbers)
{
    if (numbers->count == 0)
        return;
    qsort(numbers->items, numbers->count, sizeof *numbers->items, compare_numbers);
    size_t kept = 1;
    for (size_t i = 1; i < numbers->count; i++) {
        if (numbers->items[i] != numbers->items[kept - 1])
            numbers->items[kept++] = numbers->items[i];
    }
    numbers->count = kept;
}

static void write_hosts(const struct path *paths, size_t n_paths, FILE *stream)
{
    struct numbers gpus = {0};
    for (size_t i = 0; i < n_paths; i++) {
        add_number(&gpus, paths[i].from);
        add_number(&gpus, paths[i].to);
    }
    sort_numbers(&gpus);
    for (size_t i = 0; i < gpus.count; i++)
        fprintf(stream, "    <host id=\"gpu%" PRIu64 "\" speed=\"1f\"/>\n", gpus.items[i]);
    free(gpus.items);
}

static void write_links(const struct topology *topology, const struct path *paths, size_t n_paths, FILE *stream)
{
    struct numbers links = {0};
    for (size_t i = 0; i < n_paths; i++) {
        for (size_t j = 0; j < paths[i].route.n_links; j++)
            add_number(&links, paths[i].route.links[j]);
    }
    sort_numbers(&links);
    for (size_t i = 0; i < links.count; i++)
        fprintf(stream, "    <link id=\"link%" PRIu64 "\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", links.items[i],
                topology_link(topology, links.items[i]).bytes_per_s);
    free(links.items);
}

static void write_route(const struct path *path, FILE *stream)
{
    fprintf(stream, "    <route src=\"gpu%" PRIu64 "\" dst=\"gpu%" PRIu64 "\" symmetrical=\"NO\">", path->from,
            path->to);
    for (size_t i = 0; i < path->route.n_links; i++)
        fprintf(stream, "<link_ctn id=\"link%" PRIu64 "\"/>", path->route.links[i]);
    fputs("</route>\n", stream);
}

void platform_xml_write(const struct topology *topology, const struct path *paths, size_t n_paths, FILE *stream)
{
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n"
          "  <zone id=\"cluster\" routing=\"Full\">\n"
          /* where the processes of the simulation itself live */
          "    <host id=\"cpsim\" speed=\"1f\"/>\n",
          stream);
    write_hosts(paths, n_paths, stream);
    write_links(topology, paths, n_paths, stream);
    for (size_t i = 0; i < n_paths; i++)
        write_route(&paths[i], stream);
    fputs("  </zone>\n"
          "</platform>\n",
          stream);
}
