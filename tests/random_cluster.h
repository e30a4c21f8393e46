/* random_cluster.h - for tests: topologies drawn at random, of every kind, legal or not, with room for so many ranks.
 *
 * Speeds are few, so that links of several levels are alike and share what they carry in ties; some clusters have a
 * link or a GPU that is not like the others. For runs there is random_cluster; for routes, which take no time, clusters
 * that are smaller and have more to go over: random_cluster_for_routes.
 */
#ifndef CPSIM_TESTS_RANDOM_CLUSTER_H
#define CPSIM_TESTS_RANDOM_CLUSTER_H

#include "models/base/memory.h"
#include "tests/random_experiment.h"

/* What matters of the level inside for how the next one's ports may hang on it. */
struct level_inside {
    bool is_switch, has_spines; /* its rails meet in the next level */
};

/* Lines of how the ports of a switch hang on the level inside; whether its rails meet in the next level. */
static inline bool random_attachment(struct dice *dice, struct level_inside inside, FILE *out)
{
    bool spine = false;
    if (inside.has_spines || (inside.is_switch && dice_chance(dice, 5))) {
        fputs("attach = switch\n", out);
    } else if (dice_chance(dice, 4)) {
        fputs("attach = node\n", out);
    } else {
        spine = dice_chance(dice, 4);
        fputs(spine ? "cross_rail = spine\n" : dice_chance(dice, 2) ? "cross_rail = nvlink\n" : "", out);
        fputs(dice_chance(dice, 3) ? "nics = 2\n" : "", out);
    }
    if (dice_chance(dice, 2))
        fprintf(out, "uplinks = %u\nrouting = %s\n", 2 + dice_below(dice, 2),
                dice_chance(dice, 3) ? "adaptive" : "ecmp");
    return spine;
}

/* The same for routes, GPUs of a member `member`: also rails of switches on switches, and as many NICs as may be. */
static inline bool random_attachment_for_routes(struct dice *dice, struct level_inside inside, uint32_t member,
                                                FILE *out)
{
    static const char *const crossings[] = {"leaf", "nvlink", "spine"};
    static const char *const routings[] = {"ecmp", "ecmp", "shortest", "adaptive"};
    uint32_t attach = inside.has_spines ? 2 : dice_below(dice, inside.is_switch ? 3 : 2);
    uint32_t crossing = dice_below(dice, inside.has_spines ? 4 : 3);
    if (attach > 0)
        fprintf(out, "attach = %s\n", attach == 1 ? "node" : "switch");
    else if (dice_chance(dice, 3))
        fprintf(out, "nics = %u\n", 1 + dice_below(dice, member));
    bool said = crossing < 3 && attach != 1 && (attach == 0 || inside.has_spines) && member > 1;
    if (said)
        fprintf(out, "cross_rail = %s\n", crossings[crossing]);
    if (dice_chance(dice, 2))
        fprintf(out, "uplinks = %u\nrouting = %s\n", 2 + dice_below(dice, 3), routings[dice_below(dice, 4)]);
    return said && crossing == 2;
}

static inline void random_speed(struct dice *dice, FILE *out)
{
    fprintf(out, "bandwidth = %u MB/s\nlatency = %u us\n%s", 50 * (1 + dice_below(dice, 3)), 1 + dice_below(dice, 3),
            dice_chance(dice, 6) ? "duplex = half\n" : "");
}

/* What a cluster is for: runs, where `even` ones have levels of powers of two and nothing odd; or routes. */
enum cluster_use { CLUSTER_EVEN, CLUSTER_UNEVEN, CLUSTER_ROUTES };

/* One level of at least `members_min` of so many GPUs; returns how many it has. */
static inline uint32_t random_level(struct dice *dice, uint32_t k, uint32_t members_min, uint32_t member,
                                    enum cluster_use use, struct level_inside *inside, FILE *out)
{
    bool even = use == CLUSTER_EVEN, routes = use == CLUSTER_ROUTES;
    static const char *const kinds[] = {"switch", "switch", "switch", "mesh", "ring", "torus", "dragonfly"};
    uint32_t members = even     ? 2U << dice_below(dice, 2)
                       : routes ? 1 + dice_below(dice, member > 40 ? 2 : 5)
                                : 2 + dice_below(dice, 5);
    uint32_t kind = dice_below(dice, inside->has_spines ? 3 : 7), wide = even ? 2 : 2 + dice_below(dice, 2);
    members = members < members_min ? members_min : members;
    if (kind >= 5)
        members = (members + wide - 1) / wide * wide;
    fprintf(out, "[level l%u]\nsize = %u\nkind = %s", k, members, kinds[kind]);
    if (kind >= 5)
        fprintf(out, ":%ux%u", wide, members / wide);
    fputs("\n", out);
    random_speed(dice, out);
    bool spine = false;
    if (k > 0 && kind < 3)
        spine =
            routes ? random_attachment_for_routes(dice, *inside, member, out) : random_attachment(dice, *inside, out);
    else if (k > 0 && dice_chance(dice, 2))
        fputs("attach = node\n", out);
    *inside = (struct level_inside){kind < 3, spine};
    return members;
}

/* A line that says of one of the instances of the innermost level that it is a GPU short. */
static inline void random_sizes(struct dice *dice, uint32_t size, uint32_t instances, FILE *out)
{
    uint32_t before = dice_below(dice, instances), after = instances - 1 - before;
    fputs("sizes = ", out);
    if (before)
        fprintf(out, "%ux%u, ", size, before);
    fprintf(out, "%u", size - 1);
    if (after)
        fprintf(out, ", %ux%u", size, after);
    fputs("\n", out);
}

static inline void random_levels(struct dice *dice, uint32_t ranks, enum cluster_use use, FILE *out)
{
    static const char *const channels = "channels = 8\nchannel_bandwidth = 20 MB/s\nll_bandwidth = 9 MB/s\n"
                                        "channels_per_peer = 2\n";
    bool even = use == CLUSTER_EVEN, routes = use == CLUSTER_ROUTES;
    bool has_channels = dice_chance(dice, 3), has_collectives = dice_chance(dice, 3), has_fan = dice_chance(dice, 6);
    uint32_t levels = 1 + dice_below(dice, 4), room = 1;
    struct level_inside inside = {false, false};
    char *outer_levels;
    size_t size;
    FILE *outer = open_memstream(&outer_levels, &size);
    bool first_is_switch = false;
    uint32_t node = 1;
    for (uint32_t k = 0; k < levels; k++) {
        FILE *level = k ? outer : out;
        uint32_t least = k + 1 == levels ? (ranks + room - 1) / room : routes ? 1 : 2;
        room *= random_level(dice, k, least, room, use, &inside, level);
        fprintf(level, "%s%s%s%s", has_channels ? channels : "", has_channels && k ? "medium = network\n" : "",
                has_collectives ? "collectives = 3 us + 1 us: 30 MB/s, 9 us: 45 MB/s\n" : "",
                has_fan && k == 0 ? "fan_bandwidth = 40 MB/s\n" : "");
        if (k == 0) {
            node = room;
            first_is_switch = inside.is_switch;
        }
    }
    fclose(outer);
    if (!even && first_is_switch && room > ranks && dice_chance(dice, 3))
        random_sizes(dice, node, room / node, out);
    fputs(outer_levels, out);
    free(outer_levels);
    bool odd = !even && !dice_chance(dice, 4);
    for (uint32_t o = 0; odd && o < (routes ? 1 : 2); o++) {
        if (dice_chance(dice, 2))
            fprintf(out, "[override slow%u]\nlink = l%u: *%u*\nfactor = 0.%u\n", o, dice_below(dice, levels),
                    dice_below(dice, ranks), 2 + dice_below(dice, 6));
    }
    if (odd && levels > 1 && (routes || dice_chance(dice, 2))) {
        const char *end = routes && dice_chance(dice, 2) ? "l0 0 nic" : "gpu";
        fprintf(out, "[override gone]\nlink = l1: %s %u *\nmissing = yes\n", end, dice_below(dice, ranks));
    }
}

/* GPUs in a circle with some short cuts, and some of them on a switch. */
static inline void random_graph(struct dice *dice, uint32_t ranks, FILE *out)
{
    uint32_t gpus = ranks + (ranks < 3 ? 3 : dice_below(dice, 2)), stride = 2 + dice_below(dice, 4);
    bool regular = dice_chance(dice, 2), has_switch = dice_chance(dice, 2);
    for (uint32_t g = 0; g < gpus; g++) {
        fprintf(out, "[link gpu%u gpu%u]\nlatency = 1 us\nbandwidth = %u MB/s\n", g, (g + 1) % gpus,
                regular ? 50 : 50 * (1 + dice_below(dice, 2)));
        if (has_switch && g % stride == 0)
            fprintf(out, "[link gpu%u spine]\nlatency = 2 us\nbandwidth = 100 MB/s\nclass = net\n", g);
    }
}

static inline void random_cable(struct dice *dice, FILE *out)
{
    uint32_t rate = 50 * (1 + dice_below(dice, 3));
    fprintf(out, "bandwidth = %u MB/s\nlatency = %u us\n", rate, 1 + dice_below(dice, 3));
}

/* GPUs at switches, two to each, which are joined in a ring with chords; some GPUs have a cable of their own. */
static inline void random_graph_of_switches(struct dice *dice, uint32_t ranks, FILE *out)
{
    uint32_t gpus = ranks < 4 ? 4 : ranks, switches = (gpus + 1) / 2 < 3 ? 3 : (gpus + 1) / 2;
    for (uint32_t i = 0; i < gpus; i++) {
        fprintf(out, "[link gpu%u s%u]\nclass = port\n", i, i % switches);
        random_cable(dice, out);
        if (dice_chance(dice, 4)) {
            fprintf(out, "[link gpu%u gpu%u]\nclass = cable\n", i, (i + 1) % gpus);
            random_cable(dice, out);
        }
    }
    for (uint32_t i = 0; i < switches; i++) {
        fprintf(out, "[link s%u s%u]\ncount = %u\n", i, (i + 1) % switches, 1 + dice_below(dice, 2));
        random_cable(dice, out);
        if (switches > 4 && i + 3 < switches && dice_chance(dice, 3)) {
            fprintf(out, "[link s%u s%u]\n", i, i + 3);
            random_cable(dice, out);
        }
    }
    if (dice_chance(dice, 3))
        fprintf(out, "[override slow]\nlink = port: gpu %u *\nfactor = 0.5\n", dice_below(dice, gpus));
}

static inline char *random_cluster_for(struct dice *dice, uint32_t ranks, enum cluster_use use)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("[cluster]\ndevice = toy\n", out);
    bool graph = dice_chance(dice, 8);
    if (graph && use == CLUSTER_ROUTES && dice_chance(dice, 2))
        random_graph_of_switches(dice, ranks, out);
    else if (graph)
        random_graph(dice, ranks, out);
    else
        random_levels(dice, ranks, use, out);
    if (use != CLUSTER_EVEN && dice_chance(dice, 4))
        fprintf(out, "[override lame]\ngpu = %u\nspeed = 0.5\n", dice_below(dice, ranks));
    fclose(out);
    return text;
}

/* The text of a cluster with at least `ranks` GPUs, of the toy device; the caller frees it. */
static inline char *random_cluster(struct dice *dice, uint32_t ranks, bool even)
{
    return random_cluster_for(dice, ranks, even ? CLUSTER_EVEN : CLUSTER_UNEVEN);
}

/* The same, for routes. */
static inline char *random_cluster_for_routes(struct dice *dice, uint32_t ranks)
{
    return random_cluster_for(dice, ranks, CLUSTER_ROUTES);
}

#endif
