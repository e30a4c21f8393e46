/* check_topology.h - what there is to see of a cluster: its tree, link classes, what it carries between halves, and the
 * routes that were asked for; as text, as JSON and as a drawing.
 */
#ifndef CPSIM_CLI_CHECK_TOPOLOGY_H
#define CPSIM_CLI_CHECK_TOPOLOGY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/check_path.h"
#include "cli/plots.h"
#include "models/input/bisection.h"
#include "models/input/topology.h"

/* All links of one level. */
struct class_totals {
    uint64_t links;                      /* each direction of a cable is one, unless it is half duplex */
    double slowest, fastest;             /* bytes per second */
    double least_seconds, most_seconds;  /* latency */
    double bytes_per_s;                  /* of all together */
    uint64_t first_degraded, n_degraded; /* links that an override slows: the first one's number, and how many */
    uint64_t n_absent;                   /* of GPUs or NICs that are not there, not among `links` */
};

struct level_report {
    char kind[64];        /* as the file has it: "switch", "torus:4x4" */
    uint64_t n_instances; /* of the level in the cluster */
    uint64_t n_gpus;      /* in one of full size */
    struct class_totals links;
    bool has_bisection; /* else: one member, or too many links to tell */
    struct bisection bisection;
    double oversubscription; /* topology_oversubscription */
};

/* GPUs that compute faster or slower than their profile says. */
struct gpu_speeds {
    uint64_t count, first;
    double slowest, fastest;
};

struct topology_report {
    const char *name;                /* as typed */
    const struct topology *topology; /* not owned */
    struct level_report levels[LEVELS_MAX];
    struct gpu_speeds speeds;
    const struct gpu_pair *pairs; /* not owned */
    struct route *routes;         /* one per pair */
    size_t n_pairs;
};

/* Looks at the topology. False, with messages, if a pair names a GPU that is not there; call topology_report_fini in
 * any case. */
bool topology_report_make(struct topology_report *report, const struct topology *topology, const char *name,
                          const struct gpu_pair *pairs, size_t n_pairs, struct diagnostics *diag);
void topology_report_fini(struct topology_report *report);

/* The link of a route that has the least bandwidth, the first of equal ones. */
uint64_t topology_report_narrowest(const struct topology *topology, const struct route *route);

/* "a switch of 8 rails, a port per GPU": how a level joins its members. */
void topology_report_wiring(const struct topology_report *report, uint32_t level, char *text, size_t size);
/* What a member of the level is: "GPU", or the name of the level below. */
const char *topology_member_name(const struct topology *topology, uint32_t level);

/* For people. False when the stream reported an error. */
bool topology_report_print(const struct topology_report *report, FILE *stream);

/* As schema cpsim.topology/1; the caller owns the reference. */
json_t *topology_report_to_json(const struct topology_report *report);

/* Writes the gnuplot script of the cluster's drawing. `width` is of a terminal in characters, used for "-" only. */
bool plot_script_topology(const struct topology_report *report, const struct plot_target *target, int width,
                          FILE *stream);

#endif
