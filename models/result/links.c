/* links.c - adds up what each link carried, and checks it against the link's bandwidth.
 *
 * First every way from one instance to another is traced once, to the links that it crosses. Then messages are taken in
 * the order in which they began to move, so that a link's busy time (the union of its messages' [move, end]) needs no
 * list of intervals: one moment, up to which it is counted, is enough. Only links that carried something are held, in
 * a hash table, so the size of the cluster does not matter.
 *
 * Folded, a link stands for others that carry as much, and a message for as many on each of them as it weighs there.
 */
#include "models/result/links.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "models/base/memory.h"

#define GRAIN_SECONDS 1e-12 /* of a simulator's clock */

struct link_load {
    uint64_t link; /* the key */
    uint64_t bytes, messages, ways;
    double busy_seconds, busy_until;
    UT_hash_handle hh;
};

/* From one instance to a peer: what it crosses. */
struct traced_way {
    double bytes_per_s; /* of the narrowest link; 0: nothing is sent that way */
    uint64_t bytes;
    size_t first, count; /* its hops in `crossed` */
};

struct crossing {
    struct link_load *load;
    uint32_t weight;
};

struct tracing {
    const struct report_input *input;
    const struct ensemble *ensemble;
    struct traced_way *ways; /* [index in ensemble.peers] */
    struct crossing *crossed;
    size_t n_crossed, crossed_capacity;
    struct link_load *loads;
};

struct message {
    double move;
    uint32_t instance, op;
};

static bool is_before(const struct message *a, const struct message *b)
{
    if (a->move < b->move || a->move > b->move)
        return a->move < b->move;
    return a->instance < b->instance || (a->instance == b->instance && a->op < b->op);
}

/* All sends of all instances in the order in which they began to move: each instance's own, nearly in order as they
 * are, are merged by a heap of their firsts. */
struct message_order {
    const struct tracing *tracing;
    uint32_t *sends;      /* operations, instance by instance, each in order */
    size_t *next, *end;   /* [instance]: those of its sends that have not been taken */
    struct message *heap; /* no message is before its parent, heap[(i - 1) / 2] */
    uint32_t n_heap;
};

static struct message message_at(const struct message_order *order, uint32_t instance, size_t at)
{
    uint32_t op = order->sends[at];
    return (struct message){order->tracing->input->timeline->moments[instance][op].move, instance, op};
}

static int compare_messages(const void *left, const void *right)
{
    return is_before(left, right) ? -1 : is_before(right, left);
}

/* Those of one instance, in program order nearly as they shall be. */
static void add_sends(struct message_order *order, uint32_t instance, struct message *room)
{
    const struct program *program = ensemble_program(order->tracing->ensemble, instance);
    const struct moment *moments = order->tracing->input->timeline->moments[instance];
    size_t n = 0;
    bool sorted = true;
    for (uint32_t op = 0; op < program->n_ops; op++) {
        if (program->ops[op].kind != OP_SEND)
            continue;
        room[n] = (struct message){moments[op].move, instance, op};
        sorted = sorted && (n == 0 || !is_before(&room[n], &room[n - 1]));
        n++;
    }
    if (!sorted)
        qsort(room, n, sizeof *room, compare_messages);
    for (size_t i = 0; i < n; i++)
        order->sends[order->end[instance]++] = room[i].op;
}

static void sift_down(struct message_order *order, uint32_t i, struct message message)
{
    for (uint32_t child; (child = 2 * i + 1) < order->n_heap; i = child) {
        if (child + 1 < order->n_heap && is_before(&order->heap[child + 1], &order->heap[child]))
            child++;
        if (!is_before(&order->heap[child], &message))
            break;
        order->heap[i] = order->heap[child];
    }
    order->heap[i] = message;
}

static size_t count_sends(const struct ensemble *ensemble, uint32_t instance)
{
    const struct messages *messages = &ensemble_shape(ensemble, instance)->messages;
    return messages->first[messages_list(messages, OP_RECEIVE, 0, (enum stream)0)];
}

static void message_order_init(struct message_order *order, const struct tracing *tracing)
{
    const struct ensemble *ensemble = tracing->ensemble;
    size_t n = 0, most = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        size_t own = count_sends(ensemble, i);
        n += own;
        most = own > most ? own : most;
    }
    *order = (struct message_order){.tracing = tracing,
                                    .sends = memory_zeroed(n, sizeof *order->sends),
                                    .next = memory_zeroed(ensemble->n_instances, sizeof *order->next),
                                    .end = memory_zeroed(ensemble->n_instances, sizeof *order->end),
                                    .heap = memory_zeroed(ensemble->n_instances, sizeof *order->heap)};
    struct message *room = memory_zeroed(most, sizeof *room);
    size_t at = 0;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        order->next[i] = order->end[i] = at;
        add_sends(order, i, room);
        at = order->end[i];
        if (order->next[i] < at)
            order->heap[order->n_heap++] = message_at(order, i, order->next[i]++);
    }
    for (uint32_t i = order->n_heap / 2; i-- > 0;)
        sift_down(order, i, order->heap[i]);
    free(room);
}

static bool message_order_next(struct message_order *order, struct message *message)
{
    if (order->n_heap == 0)
        return false;
    *message = order->heap[0];
    uint32_t i = message->instance;
    if (order->next[i] < order->end[i])
        sift_down(order, 0, message_at(order, i, order->next[i]++));
    else if (--order->n_heap > 0)
        sift_down(order, 0, order->heap[order->n_heap]);
    return true;
}

static void message_order_fini(struct message_order *order)
{
    free(order->sends);
    free(order->next);
    free(order->end);
    free(order->heap);
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

static void cross(struct tracing *tracing, uint64_t link, uint32_t weight)
{
    struct link_load *load = load_of(&tracing->loads, link);
    load->ways += weight;
    memory_grow(tracing->crossed, tracing->n_crossed, tracing->crossed_capacity);
    tracing->crossed[tracing->n_crossed++] = (struct crossing){load, weight};
}

/* The way of instance `i` to its peer `p`, traced once. NULL with a message if there is none. */
static struct traced_way *trace_way(struct tracing *tracing, uint32_t i, uint32_t p, struct route *route,
                                    struct diagnostics *diag)
{
    const struct ensemble *ensemble = tracing->ensemble;
    const struct placement *placement = tracing->input->placement;
    const struct folding *folding = tracing->input->folding;
    const struct instance *self = &ensemble->instances[i];
    uint32_t way = self->first_peer + p;
    struct traced_way *traced = &tracing->ways[way];
    if (traced->bytes_per_s > 0)
        return traced;
    struct rank_place peer = ensemble_peer_place(ensemble, i, ensemble->shapes[self->shape].messages.peers[p]);
    if (!topology_route(tracing->input->cost->topology, placement_gpu(placement, self->group, self->rank),
                        placement_gpu(placement, peer.group, peer.rank), route, diag))
        return NULL;
    traced->bytes_per_s = route->bytes_per_s;
    traced->first = tracing->n_crossed;
    for (size_t hop = 0; !folding && hop < route->n_links; hop++)
        cross(tracing, route->links[hop], 1);
    for (size_t hop = folding ? folding->first_hop[way] : 0; folding && hop < folding->first_hop[way + 1]; hop++)
        cross(tracing, folding->hops[hop].link, folding->hops[hop].weight);
    traced->count = tracing->n_crossed - traced->first;
    return traced;
}

static void carry(struct link_load *load, uint64_t bytes, uint32_t weight, struct moment moment)
{
    load->bytes += weight * bytes;
    load->messages += weight;
    double from = moment.move > load->busy_until ? moment.move : load->busy_until;
    if (moment.end > from)
        load->busy_seconds += moment.end - from;
    if (moment.end > load->busy_until)
        load->busy_until = moment.end;
}

/* What holds of every message by itself, whether links are shared or not. */
static bool check_message(const struct tracing *tracing, const struct message *message, double bytes_per_s,
                          struct diagnostics *diag)
{
    const struct ensemble *ensemble = tracing->ensemble;
    const struct op *op = &ensemble_program(ensemble, message->instance)->ops[message->op];
    struct moment moment = tracing->input->timeline->moments[message->instance][message->op];
    double step_seconds = tracing->input->timeline->phase_end[PHASE_COUNT - 1];
    double possible =
        bytes_per_s * ((moment.end - moment.move) * (1 + 1e-9) + 1e-14 * step_seconds + GRAIN_SECONDS) + 1;
    if ((double)op->bytes <= possible)
        return true;
    char peer[64];
    ensemble_describe_peer(ensemble, message->instance, op->peer, peer, sizeof peer);
    return diagnostics_add(diag,
                           "rank %" PRIu32 " sends %" PRIu64 " bytes to %s in %.9g s, faster than the %.9g bytes/s of "
                           "the way there",
                           ensemble->instances[message->instance].rank, op->bytes, peer, moment.end - moment.move,
                           bytes_per_s);
}

/* Loads every link with every message. Adds to `byte_hops` each message's bytes times the links that it crosses. */
static bool load_links(struct tracing *tracing, double *byte_hops, struct diagnostics *diag)
{
    const struct ensemble *ensemble = tracing->ensemble;
    struct message_order order;
    struct message message;
    struct route route;
    message_order_init(&order, tracing);
    route_init(&route);
    bool good = true;
    while (good && message_order_next(&order, &message)) {
        uint32_t instance = message.instance;
        const struct shape *shape = ensemble_shape(ensemble, instance);
        const struct op *op = &shape->program->ops[message.op];
        struct traced_way *way = trace_way(tracing, instance, shape->messages.peer_of[message.op], &route, diag);
        good = way && check_message(tracing, &message, way->bytes_per_s, diag);
        for (size_t hop = 0; good && hop < way->count; hop++) {
            const struct crossing *crossing = &tracing->crossed[way->first + hop];
            carry(crossing->load, op->bytes, crossing->weight, tracing->input->timeline->moments[instance][message.op]);
            *byte_hops += (double)op->bytes * crossing->weight;
        }
        if (good)
            way->bytes += op->bytes;
    }
    route_fini(&route);
    message_order_fini(&order);
    return good;
}

/* Loads every link with what the programs send over it, whenever: when it is busy remains unknown. */
static bool load_links_untimed(struct tracing *tracing, double *byte_hops, struct diagnostics *diag)
{
    const struct ensemble *ensemble = tracing->ensemble;
    struct route route;
    route_init(&route);
    bool good = true;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct messages *messages = &ensemble_shape(ensemble, i)->messages;
        for (uint32_t p = 0; p < messages->n_peers && good; p++) {
            if (messages->sent[p].count == 0)
                continue;
            struct traced_way *way = trace_way(tracing, i, p, &route, diag);
            good = way;
            for (size_t hop = 0; good && hop < way->count; hop++) {
                const struct crossing *crossing = &tracing->crossed[way->first + hop];
                crossing->load->bytes += crossing->weight * messages->sent[p].bytes;
                crossing->load->messages += (uint64_t)crossing->weight * messages->sent[p].count;
                crossing->load->busy_seconds = NAN;
                *byte_hops += (double)messages->sent[p].bytes * crossing->weight;
            }
            if (good)
                way->bytes = messages->sent[p].bytes;
        }
    }
    route_fini(&route);
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
    char name[LINK_NAME_SIZE];
    topology_link_name(topology, load->link, name, sizeof name);
    return diagnostics_add(
        diag, "link '%s' carried %" PRIu64 " bytes in %.9g s, more than its bandwidth of %.9g bytes/s allows", name,
        load->bytes, load->busy_seconds, bytes_per_s);
}

static uint64_t links_like(const struct tracing *tracing, uint64_t link)
{
    const struct folded_link *folded = tracing->input->folding ? folding_link(tracing->input->folding, link) : NULL;
    return folded ? folded->stands_for : 1;
}

/* Adds a link, and those that it stands for, to its class. `most` is the largest number of bytes on a link of the class
 * so far. */
static void add_to_class(struct link_class_report *class, const struct link_load *load, uint64_t stands_for,
                         double bytes_per_s, double step_seconds, uint64_t *most)
{
    class->links_used += stands_for;
    class->bytes += load->bytes * stands_for;
    if (load->busy_seconds > class->busy_seconds || isnan(load->busy_seconds))
        class->busy_seconds = load->busy_seconds;
    if (bytes_per_s > class->bytes_per_s)
        class->bytes_per_s = bytes_per_s;
    if (load->bytes > *most) {
        *most = load->bytes;
        class->utilization = step_seconds > 0 ? (double)load->bytes / (bytes_per_s * step_seconds) : 0;
    }
}

/* Puts a link among the hot ones if it is one; the lower number first where two are equal. */
static void consider_hot(struct link_use *use, const struct hot_link *link)
{
    uint32_t place = use->n_hot;
    while (place > 0 && (link->utilization > use->hot[place - 1].utilization * (1 + 1e-12) ||
                         (link->utilization >= use->hot[place - 1].utilization * (1 - 1e-12) &&
                          link->link < use->hot[place - 1].link)))
        place--;
    if (place == HOT_LINKS_MAX)
        return;
    uint32_t kept = use->n_hot < HOT_LINKS_MAX ? use->n_hot : HOT_LINKS_MAX - 1;
    memmove(&use->hot[place + 1], &use->hot[place], (kept - place) * sizeof use->hot[0]);
    use->hot[place] = *link;
    use->n_hot = kept + 1;
}

static bool sum_classes(const struct tracing *tracing, double byte_hops, struct link_use *use, struct diagnostics *diag)
{
    const struct topology *topology = tracing->input->cost->topology;
    double step_seconds = tracing->input->timeline->phase_end[PHASE_COUNT - 1], on_links = 0;
    struct link_class_report classes[LEVELS_MAX] = {0};
    uint64_t most[LEVELS_MAX] = {0};
    bool good = true;
    for (struct link_load *load = tracing->loads; load; load = load->hh.next) {
        struct link_info info = topology_link(topology, load->link);
        uint64_t stands_for = links_like(tracing, load->link);
        if (!tracing->input->timeline->unshared && !tracing->input->figures_only)
            good = check_load(topology, load, info.bytes_per_s, step_seconds, diag) && good;
        add_to_class(&classes[info.level], load, stands_for, info.bytes_per_s, step_seconds, &most[info.level]);
        on_links += (double)load->bytes;
        double bound = (double)load->bytes / info.bytes_per_s;
        if (bound > use->wire_bound_seconds)
            use->wire_bound_seconds = bound;
        const struct hot_link hot = {.link = load->link,
                                     .stands_for = stands_for,
                                     .bytes = load->bytes,
                                     .messages = load->messages,
                                     .busy_seconds = load->busy_seconds,
                                     .utilization = step_seconds > 0 ? bound / step_seconds : 0,
                                     .ways = load->ways};
        consider_hot(use, &hot);
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

static void add_user(struct hot_link *link, const struct link_user *user)
{
    uint32_t place = link->n_users;
    while (place > 0 && user->bytes > link->users[place - 1].bytes)
        place--;
    if (place == LINK_USERS_MAX)
        return;
    uint32_t kept = link->n_users < LINK_USERS_MAX ? link->n_users : LINK_USERS_MAX - 1;
    memmove(&link->users[place + 1], &link->users[place], (kept - place) * sizeof link->users[0]);
    link->users[place] = *user;
    link->n_users = kept + 1;
}

/* Who uses the hot links. */
static void find_users(const struct tracing *tracing, struct link_use *use)
{
    const struct ensemble *ensemble = tracing->ensemble;
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct instance *self = &ensemble->instances[i];
        const struct messages *messages = &ensemble->shapes[self->shape].messages;
        for (uint32_t p = 0; p < messages->n_peers; p++) {
            const struct traced_way *way = &tracing->ways[self->first_peer + p];
            struct rank_place to = ensemble_peer_place(ensemble, i, messages->peers[p]);
            const struct link_user user = {self->group, self->rank, to.group, to.rank, way->bytes};
            for (size_t hop = 0; hop < way->count; hop++)
                for (uint32_t h = 0; h < use->n_hot; h++)
                    if (tracing->crossed[way->first + hop].load->link == use->hot[h].link)
                        add_user(&use->hot[h], &user);
        }
    }
}

bool link_use_measure(const struct report_input *input, struct link_use *use, struct diagnostics *diag)
{
    memset(use, 0, sizeof *use);
    const struct ensemble *ensemble = input->ensemble;
    const struct instance *last = &ensemble->instances[ensemble->n_instances - 1];
    struct tracing tracing = {.input = input, .ensemble = ensemble};
    tracing.ways =
        memory_zeroed((size_t)last->first_peer + ensemble->shapes[last->shape].messages.n_peers, sizeof *tracing.ways);
    double byte_hops = 0;
    bool good = (input->figures_only ? load_links_untimed : load_links)(&tracing, &byte_hops, diag);
    good = good && sum_classes(&tracing, byte_hops, use, diag);
    find_users(&tracing, use);
    struct link_load *load = tracing.loads;
    HASH_CLEAR(hh, tracing.loads); /* the table; its elements stay linked */
    while (load) {
        struct link_load *next = load->hh.next;
        free(load);
        load = next;
    }
    free(tracing.ways);
    free(tracing.crossed);
    return good;
}
