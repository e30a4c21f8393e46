/* topology.h - a cluster: GPUs joined by levels of links, from the inside out, or by a plain graph; and the route
 * between any two.
 *
 * Level 0 joins `size` GPUs; level k joins `size` groups of level k-1, of which some may be smaller (`sizes`). Each
 * direction of each cable is a link of its own (full duplex), so opposite transfers do not meet; with `duplex = half`
 * the two directions are one link. Links are numbered, not stored: a cluster of 100,000 GPUs costs nothing until
 * somebody asks for a route.
 *
 * Kinds of a level: switch (non-blocking, only its ports limit), mesh (a cable between every two members), ring, torus,
 * dragonfly (a mesh inside each group of routers, one cable between every two groups: cables.h).
 *
 * A level above the first reaches each member by ports. attach = node: one that the member shares. attach = rail: one
 * per GPU, or `nics` of them, GPU i of the n in a member having port i * nics / n (rounded down): its lane. attach =
 * switch: one per switch of the level below, that is one per lane if those have switches of their own (`cross_rail`). A
 * rail mesh, ring or torus has one set of cables per lane and joins GPUs of the same lane; a node-attached one has a
 * single set.
 *
 * Routes, in the order from source to destination. Let k be the outermost level at which the two GPUs differ.
 *
 * 1. The way up from the GPU to where its port into level k hangs. A port hangs on the switch of the level below: the
 * GPU's way there is the up link at that switch, and before that the way up to this link's port. A port sits on the GPU
 * itself, and nothing is crossed, if it is of level 0, or of rail attachment at level 1 (a NIC per GPU), one of `nics`,
 * of a rail mesh, ring or torus (cables from GPU to GPU), or of rail attachment over a level that is no switch. A
 * node-attached port over a mesh, ring or torus is equally near to all members: the way up crosses no link of that
 * level.
 *
 * 2. Level k. Switch: the source's up link, the destination's down link. Mesh: the pair's own link. Ring and torus: the
 * links of the shortest way, dimension by dimension; a tie goes to increasing index. Dragonfly: within the group, by
 * the groups' cable, within the other group, leaving out what is not needed.
 *
 * 3. The way down to the destination, as 1 backwards. But a rail mesh, ring or torus ends at the source's lane: if the
 * destination is in another, the route from there to it, inside the destination's member, follows.
 *
 * Example: node (switch), cluster (rail switch), pods (node-attached switch). Between pods: the GPU's NIC up, its
 * pod's link up, the other pod's link down, the other GPU's NIC down; the nodes' switches are not touched.
 *
 * Rails. The NICs of a node (a rail-attached switch level whose ports sit on the GPUs) go by `cross_rail` when source
 * and destination are in different lanes. leaf: all are on one switch, and nothing is special. nvlink: each lane has a
 * switch of its own, and a message goes first, inside the source's node, to the GPU at the destination's place, then
 * along the destination's rail. spine: likewise, and it goes on through the level outside (attach = switch), also
 * between nodes of one member of that level.
 *
 * Parallel uplinks. A switch's ports may be `uplinks` links each. routing = shortest: always the first. ecmp: the one
 * that a hash of source, destination and level chooses (routing.h), the same on the way up and down, as one that leads
 * to one spine. adaptive: ideal spreading, they are one link of the bandwidth of all.
 *
 * Graph. Routes are shortest in hops, then in latency (graph.h).
 *
 * The route's alpha is the sum of the latencies of the levels it crosses: once for a switch's up and down links
 * together, per hop elsewhere. No route has a link twice. Under full duplex, a route and its reverse share no link.
 *
 * Overrides change single links, GPUs and NICs (overrides.h). Of a switch's two links, an override's latency holds for
 * both together; where both have one, the greater does.
 *
 * Constant after topology_read (a graph remembers what it has searched: safe from several threads).
 */
#ifndef CPSIM_MODELS_INPUT_TOPOLOGY_H
#define CPSIM_MODELS_INPUT_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "models/base/diagnostics.h"
#include "models/input/overrides.h"
#include "models/input/places.h"
#include "models/input/wiring.h"

struct ini_document;
struct graph;

enum level_kind { LEVEL_SWITCH, LEVEL_MESH, LEVEL_RING, LEVEL_TORUS, LEVEL_DRAGONFLY, LEVEL_GRAPH };
enum level_attach { ATTACH_RAIL, ATTACH_NODE, ATTACH_SWITCH }; /* level 0 has none: a GPU's port is its own */
enum routing { ROUTING_ECMP, ROUTING_SHORTEST, ROUTING_ADAPTIVE };
enum cross_rail { CROSS_RAIL_LEAF, CROSS_RAIL_NVLINK, CROSS_RAIL_SPINE };

#define TORUS_DIMENSIONS_MAX 4
#define TOPOLOGY_GPUS_MAX (UINT64_C(1) << 24)
#define CURVE_POINTS_MAX 64
#define LINK_NAME_SIZE 128 /* room for any link's name */

/* One measured point of a link class: messages of `bytes` reach `bytes_per_s` (message size over its whole time). */
struct curve_point {
    double bytes, bytes_per_s;
};

/* What a communication library takes for a collective by one of its protocols: start + (members - 1) * member + bytes
 * that a member sends / bytes_per_s. It takes whichever protocol is the fastest. */
struct protocol {
    double start_seconds, member_seconds, bytes_per_s;
};

#define PROTOCOLS_MAX 4

/* What links a level is made of, as far as the library's choices depend on it. */
enum medium { MEDIUM_NVLINK, MEDIUM_PCIE, MEDIUM_NETWORK };

struct level {
    char name[40]; /* also the link class's name in reports */
    uint32_t size; /* members: GPUs at level 0, groups of the level below otherwise */
    enum level_kind kind;
    /* LEVEL_TORUS: lengths, product = size; LEVEL_RING: one; LEVEL_DRAGONFLY: groups, routers of a group. */
    uint32_t torus[TORUS_DIMENSIONS_MAX], n_torus;
    struct size_run *sizes; /* of the instances of the level, in order, at most `size` each; NULL: all are of `size` */
    size_t n_sizes;
    enum level_attach attach;
    uint32_t nics;           /* ATTACH_RAIL: ports of a member; 0: one per GPU */
    uint32_t uplinks;        /* LEVEL_SWITCH: links of a port; 0: one */
    enum routing routing;    /* over them */
    double bytes_per_s;      /* each way, per link of a port (switch) or per cable (all others) */
    double oversubscription; /* what `bytes_per_s` was made from; 0: it was given */
    double latency_seconds;  /* per message; of cables: per hop */
    double global_bytes_per_s, global_latency_seconds; /* LEVEL_DRAGONFLY: between groups; bandwidth 0: as within */
    enum cross_rail cross_rail;
    bool half_duplex;
    struct curve_point *curve; /* ascending in bytes; NULL: alpha-beta alone */
    size_t n_curve;
    /* How NCCL splits a message (models/cost/channels.h); channels 0: not said. */
    enum medium medium;
    uint32_t channels;                        /* of a communicator that crosses this level and no outer one */
    uint32_t channels_per_peer;               /* at most so many for one message; 0: all */
    double channel_bytes_per_s;               /* of one that sends and receives */
    double channel_seconds;                   /* start-up by the protocol for large messages; 0: latency_seconds */
    double ll_bytes_per_s;                    /* a channel's by the protocol for small ones; 0: there is none */
    double message_bytes_per_s;               /* of one message, however many channels it has; 0: any */
    double fan_bytes_per_s;                   /* of all members together while each sends to several; 0: any */
    struct protocol protocols[PROTOCOLS_MAX]; /* of collectives, for small ones first; none: not said */
    size_t n_protocols;
    /* Relative, of measured times; 0: not known. */
    double spread;                   /* of messages, and of what follows where that is not known */
    double collectives_spread;       /* of messages of collectives */
    double small_collectives_spread; /* of those that a protocol for small ones carries */
    int line;
};

struct topology {
    char *path;
    char device[200]; /* models/devices/NAME.ini, or the path of a profile */
    char kernel[32];  /* attention kernel of that profile; "" = the profile's default */
    /* Consecutive members of the first level that are ranks on one device, as when a test runs several on the only GPU.
     * What joins them is then no link but the device's copies. */
    uint32_t ranks_per_device;
    enum routing routing; /* of levels that do not say, and of a graph */
    uint64_t seed;        /* of ROUTING_ECMP */
    /* Of a graph: its classes of links, in the order in which the file names them. */
    struct level levels[LEVELS_MAX];
    uint32_t n_levels;
    uint64_t n_gpus; /* product of the sizes, less those that are not there */
    uint64_t n_links;
    struct wiring wiring[LEVELS_MAX]; /* by topology_count */
    struct places places;
    struct graph *graph; /* NULL: levels */
    struct override_set overrides;
    struct ini_document *document;
};

bool topology_read(struct topology *topology, const char *path, const char *const *overrides, size_t n_overrides,
                   struct diagnostics *diag);
void topology_fini(struct topology *topology);

/* The same for a topology given as text (tests and tools): `name` stands for the path in messages. */
bool topology_read_text(struct topology *topology, const char *name, const char *text, struct diagnostics *diag);

/* Consecutive GPUs of a node: what is inside of the innermost level that each GPU (or some) has a port of its own into;
 * 0 where there is no such level, or nodes are not alike. */
uint64_t topology_node_gpus(const struct topology *topology);

/* A message about a key of [cluster], at the line or override that wrote it; about the file where none did. Returns
 * false. */
bool topology_complain(const struct topology *topology, const char *key, struct diagnostics *diag, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));

/* The path of the device profile that the topology names; NULL, with a message, when there is none. The caller frees
 * it. */
char *topology_device_path(const struct topology *topology, struct diagnostics *diag);

struct link_info {
    uint32_t level;
    double bytes_per_s; /* with what overrides make of it */
    bool absent;        /* of a GPU that is not there, or a NIC that is missing: on no route */
};

/* Fills in n_gpus, n_links and wiring from the levels (topology_read has done so). False when there are more than
 * TOPOLOGY_GPUS_MAX GPUs. */
bool topology_count(struct topology *topology);

/* The node of a GPU, an instance of the first level, and its index in it. All GPUs of a graph are one node. */
uint64_t topology_node(const struct topology *topology, uint64_t gpu);
uint64_t topology_lane(const struct topology *topology, uint64_t gpu);

/* How fast a GPU computes, relative to its profile: 1 without an override. */
double topology_gpu_speed(const struct topology *topology, uint64_t gpu);

/* What link `link` (< n_links) is. */
struct link_info topology_link(const struct topology *topology, uint64_t link);
/* Its name, for messages and traces, such as "node: gpu 3 up", "cluster: node 1 down", "cluster: node 1 nic 2 up",
 * "spine: pod 1 rail 2 up/3" (of parallel ones the fourth), "ring: gpu 3 to gpu 11" or, half duplex, "bus: gpu 3 - gpu
 * 4"; written to `text`. No two links share a name. Nodes are counted as if all were of full size; a GPU that is not
 * there is "absent N", with its number counted likewise. */
void topology_link_name(const struct topology *topology, uint64_t link, char *text, size_t size);

/* A way from one GPU to another. Reusable: route_init once, topology_route many times, route_fini once. */
struct route {
    uint64_t *links;
    size_t n_links, capacity;
    double alpha_seconds;
    double bytes_per_s; /* of the narrowest link */
    uint32_t level;     /* topology_level_between its ends: the transfer's link class */
};

void route_init(struct route *route);
void route_fini(struct route *route);

/* The route from GPU `from` to GPU `to`, both < n_gpus and different. False, with a message naming both, if there is
 * none. */
bool topology_route(const struct topology *topology, uint64_t from, uint64_t to, struct route *route,
                    struct diagnostics *diag);

/* The outermost level at which two GPUs differ. In a graph, the last class (in the file's order) that the route between
 * them crosses. 0 when they are the same. */
uint32_t topology_level_between(const struct topology *topology, uint64_t a, uint64_t b);

void topology_each_value(const struct topology *topology,
                         void (*visit)(void *context, const char *section, const char *key, const char *value),
                         void *context);

#endif
