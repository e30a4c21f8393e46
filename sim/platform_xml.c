/* platform_xml.c - hosts, links and routes, each once and in ascending order: the same text every time. */
#include "sim/platform_xml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

void platform_host_name(uint64_t gpu, uint32_t lane, char name[HOST_NAME_SIZE])
{
    if (lane == 0)
        snprintf(name, HOST_NAME_SIZE, "gpu%" PRIu64, gpu);
    else
        snprintf(name, HOST_NAME_SIZE, "gpu%" PRIu64 ".%" PRIu32, gpu, lane);
}

/* GPU numbers are smaller than this (TOPOLOGY_GPUS_MAX). */
#define LANE_UNIT (UINT64_C(1) << 32)

static void write_hosts(const struct path *paths, size_t n_paths, FILE *stream)
{
    struct numbers hosts = {0};
    for (size_t i = 0; i < n_paths; i++) {
        if (!paths[i].opens_lane)
            continue;
        add_number(&hosts, paths[i].lane * LANE_UNIT + paths[i].from);
        add_number(&hosts, paths[i].to);
    }
    sort_numbers(&hosts);
    for (size_t i = 0; i < hosts.count; i++) {
        char name[HOST_NAME_SIZE];
        platform_host_name(hosts.items[i] % LANE_UNIT, (uint32_t)(hosts.items[i] / LANE_UNIT), name);
        fprintf(stream, "    <host id=\"%s\" speed=\"1f\"/>\n", name);
    }
    free(hosts.items);
}

/* Whether messages of this path cannot fill its links. */
static bool is_capped(const struct path *path)
{
    return path->cost.bytes_per_s < path->route.bytes_per_s;
}

/* A double above 0 as a whole number, in the same order, and back. */
static uint64_t number_of(double value)
{
    uint64_t number;
    memcpy(&number, &value, sizeof number);
    return number;
}

static double value_of(uint64_t number)
{
    double value;
    memcpy(&value, &number, sizeof value);
    return value;
}

static void write_caps(const struct path *paths, size_t n_paths, FILE *stream)
{
    struct numbers caps = {0};
    for (size_t i = 0; i < n_paths; i++) {
        if (is_capped(&paths[i]))
            add_number(&caps, number_of(paths[i].cost.bytes_per_s));
    }
    sort_numbers(&caps);
    for (size_t i = 0; i < caps.count; i++) {
        double rate = value_of(caps.items[i]);
        fprintf(stream,
                "    <link id=\"alone%.17g\" bandwidth=\"%.17gBps\" latency=\"0s\" sharing_policy=\"FATPIPE\"/>\n",
                rate, rate);
    }
    free(caps.items);
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
    char from[HOST_NAME_SIZE], to[HOST_NAME_SIZE];
    platform_host_name(path->from, path->lane, from);
    platform_host_name(path->to, 0, to);
    fprintf(stream, "    <route src=\"%s\" dst=\"%s\" symmetrical=\"NO\">", from, to);
    if (is_capped(path))
        fprintf(stream, "<link_ctn id=\"alone%.17g\"/>", path->cost.bytes_per_s);
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
    write_caps(paths, n_paths, stream);
    for (size_t i = 0; i < n_paths; i++) {
        if (paths[i].opens_lane)
            write_route(&paths[i], stream);
    }
    fputs("  </zone>\n"
          "</platform>\n",
          stream);
}
