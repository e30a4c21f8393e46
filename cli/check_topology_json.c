/* check_topology_json.c - a cluster as cpsim.topology/1: names and nesting are the contract, as in run_json.c. */
#include <inttypes.h>
#include <math.h>

#include "cli/check_topology.h"
#include "cli/json_set.h"
#include "models/input/link_ends.h"

static json_t *links_to_json(const struct topology_report *report, uint32_t k)
{
    const struct class_totals *links = &report->levels[k].links;
    json_t *json = json_object();
    json_set_text(json, "class", report->topology->levels[k].name);
    json_set_count(json, "n_links", links->links);
    json_set_real(json, "bytes_per_s", links->fastest);
    json_set_real(json, "slowest_bytes_per_s", links->slowest);
    json_set_count(json, "n_degraded", links->n_degraded);
    json_set_count(json, "n_absent", links->n_absent);
    json_set_real(json, "latency_seconds", links->least_seconds);
    json_set_real(json, "longest_latency_seconds", links->most_seconds);
    json_set_real(json, "total_bytes_per_s", links->bytes_per_s);
    return json;
}

static json_t *level_to_json(const struct topology_report *report, uint32_t k)
{
    const struct level *level = &report->topology->levels[k];
    const struct level_report *said = &report->levels[k];
    json_t *json = json_object();
    json_set_text(json, "name", level->name);
    json_set_text(json, "kind", said->kind);
    if (k > 0 && !report->topology->graph)
        json_set_text(json, "attach",
                      level->attach == ATTACH_RAIL   ? "rail"
                      : level->attach == ATTACH_NODE ? "node"
                                                     : "switch");
    json_set_text(json, "duplex", level->half_duplex ? "half" : "full");
    json_set_count(json, "size", topology_level_members(report->topology, k));
    json_set_count(json, "n_instances", said->n_instances);
    json_set_count(json, "gpus_per_instance", said->n_gpus);
    json_object_set_new(json, "links", links_to_json(report, k));
    double rate = said->has_bisection ? said->bisection.bytes_per_s : (double)NAN;
    json_set_real(json, "bisection_bytes_per_s", rate);
    json_set_real(json, "bisection_bytes_per_s_per_gpu", rate / (double)said->bisection.gpus);
    json_set_real(json, "oversubscription", said->oversubscription);
    return json;
}

static json_t *route_link_to_json(const struct topology *topology, uint64_t link)
{
    struct link_info info = topology_link(topology, link);
    char name[160];
    topology_link_name(topology, link, name, sizeof name);
    json_t *json = json_object();
    json_set_text(json, "name", name);
    json_set_text(json, "class", topology->levels[info.level].name);
    json_set_real(json, "bytes_per_s", info.bytes_per_s);
    return json;
}

static json_t *path_to_json(const struct topology_report *report, size_t index)
{
    const struct topology *topology = report->topology;
    const struct route *route = &report->routes[index];
    json_t *json = json_object(), *links = json_array();
    json_set_count(json, "from", report->pairs[index].from);
    json_set_count(json, "to", report->pairs[index].to);
    json_set_real(json, "latency_seconds", route->alpha_seconds);
    json_set_real(json, "bytes_per_s", route->bytes_per_s);
    char name[160];
    topology_link_name(topology, topology_report_narrowest(topology, route), name, sizeof name);
    json_set_text(json, "narrowest_link", name);
    for (size_t i = 0; i < route->n_links; i++)
        json_array_append_new(links, route_link_to_json(topology, route->links[i]));
    json_object_set_new(json, "links", links);
    return json;
}

json_t *topology_report_to_json(const struct topology_report *report)
{
    const struct topology *topology = report->topology;
    json_t *json = json_object(), *levels = json_array(), *paths = json_array();
    json_set_text(json, "schema", "cpsim.topology/1");
    json_set_text(json, "cpsim_version", CPSIM_VERSION);
    json_set_text(json, "path", report->name);
    json_set_text(json, "device", topology->device);
    json_set_count(json, "n_gpus", topology->n_gpus);
    json_set_count(json, "n_links", topology->n_links);
    json_set_count(json, "n_gpus_of_other_speed", report->speeds.count);
    for (uint32_t k = 0; k < topology->n_levels; k++)
        json_array_append_new(levels, level_to_json(report, k));
    json_object_set_new(json, "levels", levels);
    for (size_t i = 0; i < report->n_pairs; i++)
        json_array_append_new(paths, path_to_json(report, i));
    json_object_set_new(json, "paths", paths);
    return json;
}
