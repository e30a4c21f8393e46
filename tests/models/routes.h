/* routes.h - what the tests of topologies share: clusters from text, routes as text, refusals line by line. */
#ifndef CPSIM_TESTS_MODELS_ROUTES_H
#define CPSIM_TESTS_MODELS_ROUTES_H

#include <stdio.h>
#include <string.h>

#include "models/input/topology.h"

#define CLUSTER "[cluster]\ndevice = toy\n"
#define RATE "bandwidth = 1 GB/s\nlatency = 1 us\n"

static inline void read_topology(struct topology *topology, const char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool ok = topology_read_text(topology, "t.ini", text, &diag);
    diagnostics_print(&diag, stderr, "");
    assert_true(ok);
    diagnostics_fini(&diag);
}

/* Expects `text` to be refused with exactly these lines, without newline behind the last. */
static inline void assert_refused_text(const char *text, const char *lines)
{
    struct topology topology;
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool read = topology_read_text(&topology, "t.ini", text, &diag);
    char all[8192] = "";
    for (size_t i = 0; i < diag.count; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? "\n" : "", diag.lines[i]);
    assert_string_equal(all, lines);
    assert_false(read);
    diagnostics_fini(&diag);
}

static inline void find_route(const struct topology *topology, uint64_t from, uint64_t to, struct route *route)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool found = topology_route(topology, from, to, route, &diag);
    diagnostics_print(&diag, stderr, "");
    assert_true(found);
    diagnostics_fini(&diag);
}

/* The names of the links, joined by ", ". */
static inline void route_text(const struct topology *topology, const struct route *route, char *text, size_t size)
{
    *text = '\0';
    for (size_t i = 0; i < route->n_links; i++) {
        char name[LINK_NAME_SIZE];
        topology_link_name(topology, route->links[i], name, sizeof name);
        snprintf(text + strlen(text), size - strlen(text), "%s%s", i ? ", " : "", name);
    }
}

static inline void assert_route_text(const struct topology *topology, uint64_t from, uint64_t to, const char *expected,
                                     double alpha_microseconds)
{
    struct route route;
    route_init(&route);
    find_route(topology, from, to, &route);
    char text[2048];
    route_text(topology, &route, text, sizeof text);
    assert_string_equal(text, expected);
    if (!(route.alpha_seconds * 1e6 < alpha_microseconds + 1e-6 &&
          route.alpha_seconds * 1e6 > alpha_microseconds - 1e-6))
        fail_msg("alpha is %g us, expected %g", route.alpha_seconds * 1e6, alpha_microseconds);
    assert_int_equal(route.level, topology_level_between(topology, from, to));
    route_fini(&route);
}

#endif
