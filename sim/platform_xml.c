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

/* A host is a GPU and which of its hosts: 0 receives, and sends on lane 0; 1, 2, ... send on other lanes; the last one
 * receives what the class sends to itself. */
#define HOSTS_OF_GPU (UINT64_C(1) << 32)
#define HOST_IN (HOSTS_OF_GPU - 1)

static uint64_t gpu_of(const struct plan *plan, uint32_t instance)
{
    const struct instance *self = &plan->simulation->ensemble->instances[instance];
    return placement_gpu(plan->simulation->placement, self->group, self->rank);
}

static uint64_t sending_host(const struct plan *plan, uint32_t from, const struct path *path)
{
    return gpu_of(plan, from) * HOSTS_OF_GPU + path->lane;
}

static uint64_t receiving_host(const struct plan *plan, uint32_t from, const struct path *path)
{
    uint32_t to = plan->simulation->ensemble->peers[path->way].instance;
    return gpu_of(plan, to) * HOSTS_OF_GPU + (to == from ? HOST_IN : 0);
}

static void host_name(uint64_t host, char name[HOST_NAME_SIZE])
{
    uint64_t gpu = host / HOSTS_OF_GPU, which = host % HOSTS_OF_GPU;
    if (which == 0)
        snprintf(name, HOST_NAME_SIZE, "gpu%" PRIu64, gpu);
    else if (which == HOST_IN)
        snprintf(name, HOST_NAME_SIZE, "gpu%" PRIu64 ".in", gpu);
    else
        snprintf(name, HOST_NAME_SIZE, "gpu%" PRIu64 ".%" PRIu64, gpu, which);
}

void platform_host_names(const struct plan *plan, uint32_t from, const struct path *path,
                         char from_name[HOST_NAME_SIZE], char to_name[HOST_NAME_SIZE])
{
    host_name(sending_host(plan, from, path), from_name);
    host_name(receiving_host(plan, from, path), to_name);
}

/* Calls `visit` for every path that opens a lane, but for those that SimGrid is not asked about. */
static void each_lane(const struct plan *plan,
                      void (*visit)(const struct plan *plan, uint32_t from, const struct path *path, void *context),
                      void *context)
{
    for (uint32_t i = 0; i < plan->simulation->ensemble->n_instances; i++)
        for (size_t p = plan->first_path[i]; p < plan->first_path[i + 1]; p++)
            if (plan->paths[p].opens_lane && !plan->paths[p].solitary)
                visit(plan, i, &plan->paths[p], context);
}

static void add_hosts(const struct plan *plan, uint32_t from, const struct path *path, void *context)
{
    add_number(context, sending_host(plan, from, path));
    add_number(context, receiving_host(plan, from, path));
}

static void write_hosts(const struct plan *plan, FILE *stream)
{
    struct numbers hosts = {0};
    each_lane(plan, add_hosts, &hosts);
    sort_numbers(&hosts);
    for (size_t i = 0; i < hosts.count; i++) {
        char name[HOST_NAME_SIZE];
        host_name(hosts.items[i], name);
        fprintf(stream, "    <host id=\"%s\" speed=\"1f\"/>\n", name);
    }
    free(hosts.items);
}

/* Whether messages of this path cannot fill its links. */
static bool is_capped(const struct plan *plan, const struct path *path)
{
    return path->cost.bytes_per_s < plan_way_of(plan, path)->route.bytes_per_s;
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

static void add_cap(const struct plan *plan, uint32_t from, const struct path *path, void *context)
{
    (void)from;
    if (is_capped(plan, path))
        add_number(context, number_of(path->cost.bytes_per_s));
}

static void write_caps(const struct plan *plan, FILE *stream)
{
    struct numbers caps = {0};
    each_lane(plan, add_cap, &caps);
    sort_numbers(&caps);
    for (size_t i = 0; i < caps.count; i++) {
        double rate = value_of(caps.items[i]);
        fprintf(stream,
                "    <link id=\"alone%.17g\" bandwidth=\"%.17gBps\" latency=\"0s\" sharing_policy=\"FATPIPE\"/>\n",
                rate, rate);
    }
    free(caps.items);
}

static void add_links(const struct plan *plan, uint32_t from, const struct path *path, void *context)
{
    (void)from;
    const struct plan_way *way = plan_way_of(plan, path);
    for (size_t i = 0; way->hops && i < way->n_hops; i++)
        add_number(context, way->hops[i].link);
    for (size_t i = 0; !way->hops && i < way->route.n_links; i++)
        add_number(context, way->route.links[i]);
}

static void write_links(const struct plan *plan, FILE *stream)
{
    struct numbers links = {0};
    each_lane(plan, add_links, &links);
    sort_numbers(&links);
    for (size_t i = 0; i < links.count; i++)
        fprintf(stream, "    <link id=\"link%" PRIu64 "\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", links.items[i],
                topology_link(plan->simulation->cost->topology, links.items[i]).bytes_per_s);
    free(links.items);
}

static void write_link(uint64_t link, uint32_t times, FILE *stream)
{
    for (uint32_t i = 0; i < times; i++)
        fprintf(stream, "<link_ctn id=\"link%" PRIu64 "\"/>", link);
}

static void write_route(const struct plan *plan, uint32_t from, const struct path *path, void *context)
{
    FILE *stream = context;
    const struct plan_way *way = plan_way_of(plan, path);
    char from_name[HOST_NAME_SIZE], to_name[HOST_NAME_SIZE];
    platform_host_names(plan, from, path, from_name, to_name);
    fprintf(stream, "    <route src=\"%s\" dst=\"%s\" symmetrical=\"NO\">", from_name, to_name);
    if (is_capped(plan, path))
        fprintf(stream, "<link_ctn id=\"alone%.17g\"/>", path->cost.bytes_per_s);
    for (size_t i = 0; way->hops && i < way->n_hops; i++)
        write_link(way->hops[i].link, way->hops[i].weight, stream);
    for (size_t i = 0; !way->hops && i < way->route.n_links; i++)
        write_link(way->route.links[i], 1, stream);
    fputs("</route>\n", stream);
}

void platform_xml_write(const struct plan *plan, FILE *stream)
{
    fputs("<?xml version='1.0'?>\n"
          "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\">\n"
          "  <zone id=\"cluster\" routing=\"Full\">\n"
          "    <host id=\"" HOST_OF_WORKERS "\" speed=\"1f\"/>\n",
          stream);
    write_hosts(plan, stream);
    write_links(plan, stream);
    write_caps(plan, stream);
    each_lane(plan, write_route, stream);
    fputs("  </zone>\n"
          "</platform>\n",
          stream);
}
