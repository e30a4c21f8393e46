/* links.c - adds up what each link carried, and checks it against the link's bandwidth.
 *
 * Messages are taken in the order in which they began to move, so that a link's busy time (the union of its messages'
 * [move, end]) needs no list of intervals: one moment, up to which it is counted, is enough. Only links that carried
 * something are held, in a hash table, so the size of the cluster does not matter.
 */
#include "models/result/links.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "models/base/memory.h"

#define GRAIN_SECONDS 1e-12 /* of a simulator's clock */

struct link_load {
    uint64_t link; /* the key */
    uint64_t bytes, messages;
    double busy_seconds, busy_until;
    UT_hash_handle hh;
};

struct message {
    double move;
    uint32_t instance, op;
};

static int compare_messages(const void *left, const void *right)
{
    const struct message *a = left, *b = right;
    if (a->move != b->move)
        return a->move < b->move ? -1 : 1;
    if (a->instance != b->instance)
        return a->instance < b->instance ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

static const struct program *program_of(const struct report_input *input, uint32_t instance)
{
    return &input->programs[instance % input->placement->cp];
}

/* All sends of all instances, sorted by the moment at which they began to move. */
static struct message *sorted_messages(const struct report_input *input, size_t *count)
{
    struct message *messages = NULL;
    size_t n = 0, capacity = 0;
    for (uint32_t instance = 0; instance < input->timeline->n_instances; instance++) {
        const struct program *program = program_of(input, instance);
        for (uint32_t i = 0; i < program->n_ops; i++) {
            if (program->ops[i].kind != OP_SEND)
                continue;
            memory_grow(messages, n, capacity);
            messages[n++] = (struct message){input->timeline->moments[instance][i].move, instance, i};
        }
    }
    if (n)
        qsort(messages, n, sizeof *messages, compare_messages);
    *count = n;
    return messages;
}

static struct link_load *load_of(struct link_load **loads, uint64_t link)
{
    struct link_load *load;
    HASH_FIND(hh, *loads, &link, sizeof link, load);
    if (!load) {
        load = memory_zeroed(1, sizeof *load);
        load->link = link;
        HASH_ADD(hh, *loads, link, sizeof load->link, load);
    }
    return load;
}

static void carry(struct link_load *load, uint64_t bytes, struct moment moment)
{
    load->bytes += bytes;
    load->messages++;
    double from = moment.move > load->busy_until ? moment.move : load->busy_until;
    if (moment.end > from)
        load->busy_seconds += moment.end - from;
    if (moment.end > load->busy_until)
        load->busy_until = moment.end;
}

/* What holds of every message by itself, whether links are shared or not. */
static bool check_message(const struct report_input *input, const struct message *message, const struct route *route,
                          struct diagnostics *diag)
{
    const struct program *program = program_of(input, message->instance);
    const struct op *op = &program->ops[message->op];
    struct moment moment = input->timeline->moments[message->instance][message->op];
    double step_seconds = input->timeline->phase_end[PHASE_COUNT - 1];
    double possible =
        route->bytes_per_s * ((moment.end - moment.move) * (1 + 1e-9) + 1e-14 * step_seconds + GRAIN_SECONDS) + 1;
    if ((double)op->bytes <= possible)
        return true;
    return diagnostics_add(diag,
                           "rank %" PRIu32 " sends %" PRIu64 " bytes to rank %" PRIu32
                           " in %.9g s, faster than the %.9g bytes/s of the way there",
                           program->rank, op->bytes, op->peer, moment.end - moment.move, route->bytes_per_s);
}

/* Loads every link with every message. Adds to `byte_hops` each message's bytes times the links of its route. */
static bool load_links(const struct report_input *input, struct link_load **loads, double *byte_hops,
                       struct diagnostics *diag)
{
    size_t n_messages;
    struct message *messages = sorted_messages(input, &n_messages);
    struct route route;
    route_init(&route);
    bool good = true;
    for (size_t m = 0; m < n_messages && good; m++) {
        uint32_t cp = input->placement->cp, instance = messages[m].instance;
        const struct op *op = &program_of(input, instance)->ops[messages[m].op];
        uint64_t from = placement_gpu(input->placement, instance / cp, instance % cp);
        uint64_t to = placement_gpu(input->placement, instance / cp, op->peer);
        good = topology_route(input->cost->topology, from, to, &route, diag) &&
               check_message(input, &messages[m], &route, diag);
        for (size_t hop = 0; hop < route.n_links; hop++)
            carry(load_of(loads, route.links[hop]), op->bytes, input->timeline->moments[instance][messages[m].op]);
        *byte_hops += (double)op->bytes * (double)route.n_links;
    }
    route_fini(&route);
    free(messages);
    return good;
}

/* Moments are sums of many doubles: a message's own length is known to a few ulps of the step's, and a simulator may
 * end it a byte, or a grain of its clock, early. */
static bool check_load(const struct topology *topology, const struct link_load *load, double bytes_per_s,
                       double step_seconds, struct diagnostics *diag)
{
    double slack = (double)load->messages * (1 + (1e-14 * step_seconds + GRAIN_SECONDS) * bytes_per_s);
    if ((double)load->bytes <= bytes_per_s * load->busy_seconds * (1 + 1e-9) + slack)
        return true;
    char name[80];
    topology_link_name(topology, load->link, name, sizeof name);
    return diagnostics_add(
        diag, "link '%s' carried %" PRIu64 " bytes in %.9g s, more than its bandwidth of %.9g bytes/s allows", name,
        load->bytes, load->busy_seconds, bytes_per_s);
}

/* Adds one link to its class. `most` is the largest number of bytes on a link of the class so far. */
static void add_to_class(struct link_class_report *class, const struct link_load *load, double bytes_per_s,
                         double step_seconds, uint64_t *most)
{
    class->links_used++;
    class->bytes += load->bytes;
    class->bytes_per_s = bytes_per_s;
    if (load->busy_seconds > class->busy_seconds)
        class->busy_seconds = load->busy_seconds;
    if (load->bytes > *most) {
        *most = load->bytes;
        class->utilization = step_seconds > 0 ? (double)load->bytes / (bytes_per_s * step_seconds) : 0;
    }
}

static bool sum_classes(const struct report_input *input, struct link_load *loads, double byte_hops,
                        struct link_use *use, struct diagnostics *diag)
{
    const struct topology *topology = input->cost->topology;
    double step_seconds = input->timeline->phase_end[PHASE_COUNT - 1], on_links = 0;
    struct link_class_report classes[LEVELS_MAX] = {0};
    uint64_t most[LEVELS_MAX] = {0};
    bool good = true;
    for (struct link_load *load = loads; load; load = load->hh.next) {
        struct link_info info = topology_link(topology, load->link);
        if (!input->timeline->unshared)
            good = check_load(topology, load, info.bytes_per_s, step_seconds, diag) && good;
        add_to_class(&classes[info.level], load, info.bytes_per_s, step_seconds, &most[info.level]);
        on_links += (double)load->bytes;
        double bound = (double)load->bytes / info.bytes_per_s;
        if (bound > use->wire_bound_seconds)
            use->wire_bound_seconds = bound;
    }
    for (uint32_t level = 0; level < topology->n_levels; level++) {
        if (classes[level].links_used == 0)
            continue;
        snprintf(classes[level].name, sizeof classes[level].name, "%s", topology->levels[level].name);
        use->classes[use->n_classes++] = classes[level];
    }
    if (on_links > byte_hops * (1 + 1e-12) || on_links < byte_hops * (1 - 1e-12))
        good = diagnostics_add(diag, "links carried %.17g bytes, but the messages' bytes times hops are %.17g",
                               on_links, byte_hops);
    return good;
}

bool link_use_measure(const struct report_input *input, struct link_use *use, struct diagnostics *diag)
{
    memset(use, 0, sizeof *use);
    struct link_load *loads = NULL;
    double byte_hops = 0;
    bool good = load_links(input, &loads, &byte_hops, diag);
    good = good && sum_classes(input, loads, byte_hops, use, diag);
    struct link_load *load = loads;
    HASH_CLEAR(hh, loads); /* the table; its elements stay linked */
    while (load) {
        struct link_load *next = load->hh.next;
        free(load);
        load = next;
    }
    return good;
}
