/* check_topology_table.c - a cluster for people: the tree first, then what its links add up to, then routes. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/check_topology.h"
#include "cli/text_table.h"
#include "models/base/memory.h"
#include "models/input/link_ends.h"
#include "models/input/units.h"

#define ROUTE_LINKS_SHOWN 40 /* of a longer route its ends */
#define ROUTE_LINKS_LAST 8

static struct unit unit_of_rate(double largest)
{
    static const struct unit units[] = {{"PB/s", 1e15}, {"TB/s", 1e12}, {"GB/s", 1e9},
                                        {"MB/s", 1e6},  {"kB/s", 1e3},  {"B/s", 1}};
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof *units && largest < units[i].size)
        i++;
    return units[i];
}

/* For a column of rates from `least` to `most`: a smaller unit where the least would be lost. */
static struct unit unit_of_rates(double least, double most)
{
    struct unit unit = unit_of_rate(most);
    return least > 0 && least < 0.1 * unit.size ? unit_of_rate(unit.size / 1000) : unit;
}

static struct short_text text_of_rate(double bytes_per_s)
{
    return text_in_unit(bytes_per_s, unit_of_rate(bytes_per_s));
}

/* --- the tree ----------------------------------------------------------------------------------------------------- */

/* "450 GB/s each way, 2 us a hop; 16 links", of one instance of the level. */
static void print_links(const struct topology_report *report, uint32_t k, FILE *stream)
{
    const struct level *level = &report->topology->levels[k];
    const struct level_report *said = &report->levels[k];
    const struct class_totals *links = &said->links;
    char rate[32], slowest[32], latency[32];
    units_print(rate, sizeof rate, DIMENSION_RATE, links->fastest);
    units_print(slowest, sizeof slowest, DIMENSION_RATE, links->slowest);
    units_print(latency, sizeof latency, DIMENSION_SECONDS, links->least_seconds);
    bool even = (links->links + links->n_absent) % said->n_instances == 0 && links->n_absent == 0;
    uint64_t count = even ? links->links / said->n_instances : links->links;
    if (links->slowest < links->fastest)
        fprintf(stream, "%s to ", slowest);
    fprintf(stream, "%s %s, %s%s%s; %s link%s%s\n", rate, level->half_duplex ? "for both ways together" : "each way",
            latency, links->least_seconds < links->most_seconds ? " or more" : "",
            level->kind == LEVEL_SWITCH || level->kind == LEVEL_MESH ? "" : " a hop", text_of_count(count).text,
            count == 1 ? "" : "s", even ? "" : " in all of them");
}

/* A graph has no levels, only classes of links. */
static void print_graph(const struct topology_report *report, FILE *stream)
{
    const struct topology *topology = report->topology;
    uint64_t switches = topology_level_switches(topology, 0);
    fprintf(stream, "graph: %" PRIu64 " x GPU (%s), %" PRIu64 " switch%s\n", topology->n_gpus, topology->device,
            switches, switches == 1 ? "" : "es");
    for (uint32_t k = topology->n_levels; k-- > 0;) {
        fprintf(stream, "`- %s: ", topology->levels[k].name);
        print_links(report, k, stream);
    }
}

static const char *up_to(const struct level *level)
{
    return level->sizes ? "up to " : "";
}

/* From the outside in, each level under the one that joins it. */
static void print_tree(const struct topology_report *report, FILE *stream)
{
    const struct topology *topology = report->topology;
    uint32_t depth = 0;
    for (uint32_t k = topology->n_levels; k-- > 0; depth++) {
        char wiring[160];
        topology_report_wiring(report, k, wiring, sizeof wiring);
        if (depth)
            fprintf(stream, "%*s`- %s%" PRIu32 " x ", (int)(3 * (depth - 1)), "", up_to(&topology->levels[k + 1]),
                    topology->levels[k + 1].size);
        fprintf(stream, "%s: %s; ", topology->levels[k].name, wiring);
        print_links(report, k, stream);
    }
    fprintf(stream, "%*s`- %s%" PRIu32 " x GPU: %s\n", (int)(3 * (depth - 1)), "", up_to(&topology->levels[0]),
            topology->levels[0].size, topology->device);
}

/* --- links and halves --------------------------------------------------------------------------------------------- */

static void add_range(struct text_table *table, double least, double most, struct unit unit)
{
    if (least == most)
        text_table_number(table, most, unit);
    else
        text_table_cell(table, "%s to %s", text_of_number(least / unit.size).text,
                        text_of_number(most / unit.size).text);
}

static void print_classes(const struct topology_report *report, FILE *stream)
{
    const struct topology *topology = report->topology;
    double fastest = 0, slowest = INFINITY, total = 0, least_total = INFINITY, latency = 0;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        fastest = fmax(fastest, report->levels[k].links.fastest);
        slowest = fmin(slowest, report->levels[k].links.slowest);
        total = fmax(total, report->levels[k].links.bytes_per_s);
        least_total = fmin(least_total, report->levels[k].links.bytes_per_s);
        latency = fmax(latency, report->levels[k].links.most_seconds);
    }
    struct unit rate = unit_of_rates(slowest, fastest), sum = unit_of_rates(least_total, total),
                time = unit_of_seconds(latency);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "link class");
    text_table_column(&table, false, "links");
    text_table_column(&table, false, "bandwidth\n%s", rate.name);
    text_table_column(&table, false, "latency\n%s", time.name);
    text_table_column(&table, false, "total\n%s", sum.name);
    for (uint32_t k = topology->n_levels; k-- > 0;) {
        const struct class_totals *links = &report->levels[k].links;
        text_table_cell(&table, "%s", topology->levels[k].name);
        text_table_count(&table, links->links);
        add_range(&table, links->slowest, links->fastest, rate);
        add_range(&table, links->least_seconds, links->most_seconds, time);
        text_table_number(&table, links->bytes_per_s, sum);
    }
    text_table_print(&table, stream);
    text_table_fini(&table);
    for (uint32_t k = topology->n_levels; k-- > 0;) {
        const struct class_totals *links = &report->levels[k].links;
        const char *class = topology->levels[k].name;
        char name[160];
        if (links->n_degraded) {
            topology_link_name(topology, links->first_degraded, name, sizeof name);
            fprintf(stream, "slower than built: %s of %s, the first is %s\n", text_of_count(links->n_degraded).text,
                    class, name);
        }
        if (links->n_absent)
            fprintf(stream, "not there: %s links of %s\n", text_of_count(links->n_absent).text, class);
    }
}

/* "of another speed than the profile's: 3 GPUs, 0.4 to 0.5 of it; the first is GPU 5". */
static void print_speeds(const struct gpu_speeds *speeds, FILE *stream)
{
    if (speeds->count == 0)
        return;
    fprintf(stream, "of another speed than the profile's: %s GPU%s, ", text_of_count(speeds->count).text,
            speeds->count == 1 ? "" : "s");
    if (speeds->slowest < speeds->fastest)
        fprintf(stream, "%.4g to ", speeds->slowest);
    fprintf(stream, "%.4g of it; the first is GPU %" PRIu64 "\n", speeds->fastest, speeds->first);
}

static void add_oversubscription(struct text_table *table, double ratio)
{
    if (isfinite(ratio))
        text_table_cell(table, "%.4g:1", ratio);
    else
        text_table_cell(table, "-");
}

static void print_bisections(const struct topology_report *report, FILE *stream)
{
    const struct topology *topology = report->topology;
    double most = 0, least = INFINITY, most_per_gpu = 0, least_per_gpu = INFINITY;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        const struct level_report *level = &report->levels[k];
        if (!level->has_bisection)
            continue;
        double rate = level->bisection.bytes_per_s, per_gpu = rate / (double)level->bisection.gpus;
        most = fmax(most, rate);
        least = fmin(least, rate);
        most_per_gpu = fmax(most_per_gpu, per_gpu);
        least_per_gpu = fmin(least_per_gpu, per_gpu);
    }
    struct unit rate = unit_of_rates(least, most), per_gpu = unit_of_rates(least_per_gpu, most_per_gpu);
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "between halves");
    text_table_column(&table, true, "of");
    text_table_column(&table, false, "bisection\n%s", rate.name);
    text_table_column(&table, false, "per GPU\n%s", per_gpu.name);
    text_table_column(&table, false, "oversubscribed");
    for (uint32_t k = topology->n_levels; k-- > 0;) {
        const struct level_report *level = &report->levels[k];
        const struct bisection *bisection = &level->bisection;
        const char *member = topology_member_name(topology, k);
        if (topology->graph && k + 1 < topology->n_levels)
            continue; /* the last class stands for all */
        text_table_cell(&table, "%s", topology->graph ? "graph" : topology->levels[k].name);
        if (topology_level_members(topology, k) > 1)
            text_table_cell(&table, "%" PRIu64 " | %" PRIu64 " x %s", bisection->members[0], bisection->members[1],
                            member);
        else
            text_table_cell(&table, "1 x %s", member);
        if (level->has_bisection) {
            text_table_number(&table, bisection->bytes_per_s, rate);
            text_table_number(&table, bisection->bytes_per_s / (double)bisection->gpus, per_gpu);
        } else {
            text_table_cell(&table, "-");
            text_table_cell(&table, "-");
        }
        add_oversubscription(&table, level->oversubscription);
    }
    text_table_print(&table, stream);
    text_table_fini(&table);
    fputs("bisection: what the GPUs of one half can send to the other at a time, one way; per GPU of the smaller half\n"
          "oversubscribed: what a member's inside can bring to its ports into the level, to what those carry\n",
          stream);
}

/* --- routes ------------------------------------------------------------------------------------------------------- */

static void print_route(const struct topology_report *report, size_t index, FILE *stream)
{
    const struct topology *topology = report->topology;
    const struct route *route = &report->routes[index];
    char name[160];
    struct text_table table;
    text_table_init(&table);
    text_table_column(&table, true, "GPU %" PRIu64 " to GPU %" PRIu64, report->pairs[index].from,
                      report->pairs[index].to);
    double fastest = 0;
    for (size_t i = 0; i < route->n_links; i++)
        fastest = fmax(fastest, topology_link(topology, route->links[i]).bytes_per_s);
    struct unit rate = unit_of_rates(route->bytes_per_s, fastest);
    text_table_column(&table, false, "bandwidth\n%s", rate.name);
    for (size_t i = 0; i < route->n_links; i++) {
        if (route->n_links > ROUTE_LINKS_SHOWN && i == ROUTE_LINKS_SHOWN - ROUTE_LINKS_LAST) {
            i = route->n_links - ROUTE_LINKS_LAST;
            text_table_cell(&table, "... (%zu more)", route->n_links - ROUTE_LINKS_SHOWN);
            text_table_end_row(&table);
        }
        topology_link_name(topology, route->links[i], name, sizeof name);
        text_table_cell(&table, "%s", name);
        text_table_number(&table, topology_link(topology, route->links[i]).bytes_per_s, rate);
    }
    text_table_print(&table, stream);
    text_table_fini(&table);
    topology_link_name(topology, topology_report_narrowest(topology, route), name, sizeof name);
    fprintf(stream, "%s link%s, latency %s, narrowest %s (%s)\n", text_of_count(route->n_links).text,
            route->n_links == 1 ? "" : "s", text_of_seconds(route->alpha_seconds).text,
            text_of_rate(route->bytes_per_s).text, name);
}

bool topology_report_print(const struct topology_report *report, FILE *stream)
{
    if (report->topology->graph)
        print_graph(report, stream);
    else
        print_tree(report, stream);
    if (report->topology->n_links > 0) {
        fputc('\n', stream);
        print_classes(report, stream);
        print_speeds(&report->speeds, stream);
        fputc('\n', stream);
        print_bisections(report, stream);
    }
    for (size_t i = 0; i < report->n_pairs; i++) {
        fputc('\n', stream);
        print_route(report, i, stream);
    }
    return !ferror(stream);
}
