/* check_topology.c - gathers what is said of a cluster; writes nothing. */
#include "cli/check_topology.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/link_ends.h"

#define LINKS_LOOKED_AT_MAX (UINT64_C(1) << 20)

static void add_link(struct class_totals *totals, const struct topology *topology, uint64_t link, double bytes_per_s)
{
    double latency = topology_link_latency(topology, link);
    if (totals->links++ == 0) {
        totals->slowest = totals->fastest = bytes_per_s;
        totals->least_seconds = totals->most_seconds = latency;
    }
    totals->slowest = fmin(totals->slowest, bytes_per_s);
    totals->fastest = fmax(totals->fastest, bytes_per_s);
    totals->least_seconds = fmin(totals->least_seconds, latency);
    totals->most_seconds = fmax(totals->most_seconds, latency);
    totals->bytes_per_s += bytes_per_s;
    if (topology_link_is_degraded(topology, link) && totals->n_degraded++ == 0)
        totals->first_degraded = link;
}

/* The first link of a level or any outer one: links are numbered level by level. */
static uint64_t first_link(const struct topology *topology, uint32_t level)
{
    uint64_t low = 0, high = topology->n_links;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (topology_link(topology, middle).level < level)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One that was counted as if it were like the others of its level. */
static void change_link(struct topology_report *report, const struct link_override *override)
{
    const struct topology *topology = report->topology;
    struct link_info info = topology_link(topology, override->link);
    struct class_totals *links = &report->levels[info.level].links;
    links->links--;
    links->bytes_per_s -= wiring_bytes_per_s(&topology->levels[info.level], 0);
    if (override->missing)
        links->n_absent++;
    else
        add_link(links, topology, override->link, info.bytes_per_s);
}

/* Link by link, or, of a cluster too large for that, level by level with the level's own bandwidth. */
static void count_links(struct topology_report *report)
{
    const struct topology *topology = report->topology;
    if (topology->n_links <= LINKS_LOOKED_AT_MAX) {
        for (uint64_t link = 0; link < topology->n_links; link++) {
            struct link_info info = topology_link(topology, link);
            struct class_totals *links = &report->levels[info.level].links;
            if (info.absent)
                links->n_absent++;
            else
                add_link(links, topology, link, info.bytes_per_s);
        }
        for (uint32_t k = 0; k < topology->n_levels; k++) { /* sums of many like numbers are a product */
            struct class_totals *links = &report->levels[k].links;
            if (links->slowest == links->fastest)
                links->bytes_per_s = links->slowest * (double)links->links;
        }
        return;
    }
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        uint64_t links = first_link(topology, k + 1) - first_link(topology, k);
        double rate = wiring_bytes_per_s(&topology->levels[k], 0), latency = topology->levels[k].latency_seconds;
        report->levels[k].links = (struct class_totals){.links = links,
                                                        .slowest = rate,
                                                        .fastest = rate,
                                                        .least_seconds = latency,
                                                        .most_seconds = latency,
                                                        .bytes_per_s = rate * (double)links};
    }
    for (size_t i = 0; i < topology->overrides.n_links; i++)
        change_link(report, &topology->overrides.links[i]);
}

static struct gpu_speeds speeds_of(const struct override_set *overrides)
{
    struct gpu_speeds speeds = {.slowest = INFINITY};
    for (size_t i = 0; i < overrides->n_gpus; i++) {
        const struct gpu_override *gpus = &overrides->gpus[i];
        if (gpus->speed >= 1 && gpus->speed <= 1)
            continue;
        if (speeds.count == 0)
            speeds.first = gpus->first;
        speeds.count += gpus->last - gpus->first + 1;
        speeds.slowest = fmin(speeds.slowest, gpus->speed);
        speeds.fastest = fmax(speeds.fastest, gpus->speed);
    }
    return speeds;
}

/* Visitor of topology_each_value: keeps each level's kind. */
static void keep_kind(void *context, const char *section, const char *key, const char *value)
{
    struct topology_report *report = context;
    if (strcmp(key, "kind") != 0 || strncmp(section, "level ", 6) != 0)
        return;
    for (uint32_t k = 0; k < report->topology->n_levels; k++)
        if (strcmp(report->topology->levels[k].name, section + 6) == 0)
            snprintf(report->levels[k].kind, sizeof report->levels[k].kind, "%s", value);
}

static bool find_routes(struct topology_report *report, struct diagnostics *diag)
{
    bool fine = true;
    report->routes = memory_zeroed(report->n_pairs, sizeof *report->routes);
    for (size_t i = 0; i < report->n_pairs; i++) {
        const struct gpu_pair *pair = &report->pairs[i];
        uint64_t n_gpus = report->topology->n_gpus;
        route_init(&report->routes[i]);
        if (n_gpus < 2)
            fine = diagnostics_add(diag, "--path '%s': %s has one GPU, and no paths", pair->text, report->name);
        else if (pair->from >= n_gpus || pair->to >= n_gpus)
            fine = diagnostics_add(diag, "--path '%s': no GPU %" PRIu64 ", expected 0 to %" PRIu64 " in %s", pair->text,
                                   pair->from >= n_gpus ? pair->from : pair->to, n_gpus - 1, report->name);
        else
            fine &= topology_route(report->topology, pair->from, pair->to, &report->routes[i], diag);
    }
    return fine;
}

bool topology_report_make(struct topology_report *report, const struct topology *topology, const char *name,
                          const struct gpu_pair *pairs, size_t n_pairs, struct diagnostics *diag)
{
    *report = (struct topology_report){.name = name, .topology = topology, .pairs = pairs, .n_pairs = n_pairs};
    topology_each_value(topology, keep_kind, report);
    for (uint32_t k = 0; k < topology->n_levels && topology->graph; k++)
        snprintf(report->levels[k].kind, sizeof report->levels[k].kind, "graph");
    count_links(report);
    report->speeds = speeds_of(&topology->overrides);
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        struct level_report *level = &report->levels[k];
        level->n_instances = topology_level_instances(topology, k);
        level->n_gpus = topology_level_places(topology, k);
        level->has_bisection = topology_bisection(topology, k, &level->bisection);
        level->oversubscription = topology_oversubscription(topology, k);
    }
    return find_routes(report, diag);
}

void topology_report_fini(struct topology_report *report)
{
    for (size_t i = 0; report->routes && i < report->n_pairs; i++)
        route_fini(&report->routes[i]);
    free(report->routes);
    *report = (struct topology_report){0};
}

uint64_t topology_report_narrowest(const struct topology *topology, const struct route *route)
{
    uint64_t narrowest = route->links[0];
    for (size_t i = 1; i < route->n_links; i++)
        if (topology_link(topology, route->links[i]).bytes_per_s < topology_link(topology, narrowest).bytes_per_s)
            narrowest = route->links[i];
    return narrowest;
}

const char *topology_member_name(const struct topology *topology, uint32_t level)
{
    return level && !topology->graph ? topology->levels[level - 1].name : "GPU";
}

void topology_report_wiring(const struct topology_report *report, uint32_t k, char *text, size_t size)
{
    const struct topology *topology = report->topology;
    const struct level *level = &topology->levels[k];
    const char *member = topology_member_name(topology, k), *kind = report->levels[k].kind;
    uint64_t lanes = topology_level_lanes(topology, k), switches = topology_level_switches(topology, k);
    char ways[40] = "";
    if (level->uplinks > 1)
        snprintf(ways, sizeof ways, " of %" PRIu32 " links", level->uplinks);
    if (topology->graph)
        snprintf(text, size, "graph");
    else if (switches == 0 && lanes > 1)
        snprintf(text, size, "%s, on each of %" PRIu64 " rails", kind, lanes);
    else if (switches == 0)
        snprintf(text, size, "%s", kind);
    else if (lanes == 1)
        snprintf(text, size, "%s, a port%s per %s", kind, ways, member);
    else if (level->attach == ATTACH_SWITCH)
        snprintf(text, size, "%s of %" PRIu64 " rails, a port%s per rail of each %s", kind, lanes, ways, member);
    else if (lanes == topology->wiring[k].member)
        snprintf(text, size, "%s of %" PRIu64 " %srails, a port%s per GPU", kind, lanes,
                 switches > 1 ? "separate " : "", ways);
    else
        snprintf(text, size, "%s of %" PRIu64 " %srails, %" PRIu64 " NICs%s per %s", kind, lanes,
                 switches > 1 ? "separate " : "", lanes, ways, member);
}
