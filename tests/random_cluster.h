/* random_cluster.h - for tests: topologies drawn at random, of every kind, legal or not, with room for so many ranks.
 *
 * Speeds are few, so that links of several levels are alike and share what they carry in ties; some clusters have a
 * link or a GPU that is not like the others.
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

static inline void random_speed(struct dice *dice, FILE *out)
{
    fprintf(out, "bandwidth = %u MB/s\nlatency = %u us\n%s", 50 * (1 + dice_below(dice, 3)), 1 + dice_below(dice, 3),
            dice_chance(dice, 6) ? "duplex = half\n" : "");
}

/* One level of at least `members_min`; returns how many it has. */
static inline uint32_t random_level(struct dice *dice, uint32_t k, uint32_t members_min, bool even,
                                    struct level_inside *inside, FILE *out)
{
    static const char *const kinds[] = {"switch", "switch", "switch", "mesh", "ring", "torus", "dragonfly"};
    uint32_t members = even ? 2U << dice_below(dice, 2) : 2 + dice_below(dice, 5);
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
        spine = random_attachment(dice, *inside, out);
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

static inline void random_levels(struct dice *dice, uint32_t ranks, bool even, FILE *out)
{
    static const char *const channels = "channels = 8\nchannel_bandwidth = 20 MB/s\nll_bandwidth = 9 MB/s\n"
                                        "channels_per_peer = 2\n";
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
        room *= random_level(dice, k, k + 1 == levels ? (ranks + room - 1) / room : 2, even, &inside, level);
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
    for (uint32_t o = 0; odd && o < 2; o++) {
        if (dice_chance(dice, 2))
            fprintf(out, "[override slow%u]\nlink = l%u: *%u*\nfactor = 0.%u\n", o, dice_below(dice, levels),
                    dice_below(dice, ranks), 2 + dice_below(dice, 6));
    }
    if (odd && levels > 1 && dice_chance(dice, 2))
        fprintf(out, "[override gone]\nlink = l1: gpu %u *\nmissing = yes\n", dice_below(dice, ranks));
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

/* The text of a cluster with at least `ranks` GPUs, of the toy device; the caller frees it. */
static inline char *random_cluster(struct dice *dice, uint32_t ranks, bool even)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fputs("[cluster]\ndevice = toy\n", out);
    if (dice_chance(dice, 8))
        random_graph(dice, ranks, out);
    else
        random_levels(dice, ranks, even, out);
    if (!even && dice_chance(dice, 4))
        fprintf(out, "[override lame]\ngpu = %u\nspeed = 0.5\n", dice_below(dice, ranks));
    fclose(out);
    return text;
}

#endif
