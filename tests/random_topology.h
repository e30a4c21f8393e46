/* random_topology.h - clusters of all that topologies can say, at random, as INI text: levels of every kind and
 * attachment, rails, parallel uplinks, graphs, slow links and missing NICs. Of few speeds, so that some are as fast as
 * others.
 *
 * Some texts are refused when read (with a message): ask for another.
 */
#ifndef CPSIM_TESTS_RANDOM_TOPOLOGY_H
#define CPSIM_TESTS_RANDOM_TOPOLOGY_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/random_experiment.h"

struct random_text {
    struct dice *dice;
    char *text;
    size_t size;
};

static inline void random_text_add(const struct random_text *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void random_text_add(const struct random_text *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t used = strlen(to->text);
    vsnprintf(to->text + used, to->size - used, format, arguments);
    va_end(arguments);
}

static inline void random_link(const struct random_text *to)
{
    random_text_add(to, "bandwidth = %u MB/s\nlatency = %u us\n", 50 * (1 + dice_below(to->dice, 3)),
                    1 + dice_below(to->dice, 3));
}

/* How a switch level above the first reaches its members. `apart`: the level inside has rails that meet in this one.
 * Returns whether this one's meet in the next. */
static inline bool random_attachment(const struct random_text *to, bool inner_switch, bool apart, uint64_t member)
{
    static const char *const crossings[] = {"leaf", "nvlink", "spine"};
    static const char *const routings[] = {"ecmp", "ecmp", "shortest", "adaptive"};
    uint32_t attach = apart ? 2 : dice_below(to->dice, inner_switch ? 3 : 2);
    uint32_t crossing = dice_below(to->dice, apart ? 4 : 3);
    if (attach == 1)
        random_text_add(to, "attach = node\n");
    else if (attach == 2)
        random_text_add(to, "attach = switch\n");
    else if (dice_chance(to->dice, 3))
        random_text_add(to, "nics = %u\n", 1 + dice_below(to->dice, (uint32_t)member));
    bool said = crossing < 3 && (attach == 0 || apart) && member > 1;
    if (said)
        random_text_add(to, "cross_rail = %s\n", crossings[crossing]);
    if (dice_chance(to->dice, 2))
        random_text_add(to, "uplinks = %u\nrouting = %s\n", 2 + dice_below(to->dice, 3),
                        routings[dice_below(to->dice, 4)]);
    return said && crossing == 2;
}

/* One to four levels with room for so many GPUs. */
static inline void random_levels(const struct random_text *to, uint64_t gpus)
{
    static const char *const kinds[] = {"torus:2x2", "torus:3x2", "dragonfly:3x2", "dragonfly:2x2", "dragonfly:5x1"};
    static const uint32_t sizes[] = {4, 6, 6, 4, 5};
    uint32_t n_levels = 1 + dice_below(to->dice, 4);
    bool inner_switch = false, apart = false;
    uint64_t member = 1;
    for (uint32_t k = 0; k < n_levels; k++) {
        uint32_t size = 1 + dice_below(to->dice, member > 40 ? 2 : 5), kind = dice_below(to->dice, 8), shape;
        bool last_chance = k + 1 == n_levels && member * size < gpus;
        if (last_chance)
            size = (uint32_t)((gpus + member - 1) / member);
        random_text_add(to, "[level l%u]\n", k);
        random_link(to);
        if (kind < 5 || apart || last_chance) {
            random_text_add(to, "size = %u\nkind = switch\n", size);
            apart = k > 0 && random_attachment(to, inner_switch, apart, member);
            kind = 0;
        } else {
            shape = dice_below(to->dice, 5);
            if (kind == 7)
                size = sizes[shape];
            random_text_add(to, "size = %u\nkind = %s\n", size, kind == 5 ? "mesh" : kind == 6 ? "ring" : kinds[shape]);
            if (k > 0 && dice_chance(to->dice, 2))
                random_text_add(to, "attach = node\n");
        }
        if (dice_chance(to->dice, 6))
            random_text_add(to, "duplex = half\n");
        inner_switch = kind < 5;
        member *= size;
    }
    if (dice_chance(to->dice, 3))
        random_text_add(to, "[override slow]\nlink = l%u: gpu 0 *\nfactor = 0.5\nlatency = 7 us\n",
                        dice_below(to->dice, n_levels));
    if (n_levels > 1 && dice_chance(to->dice, 2))
        random_text_add(to, "[override gone]\nlink = l1: %s 1 *\nmissing = yes\n",
                        dice_chance(to->dice, 2) ? "gpu" : "l0 0 nic");
}

/* GPUs at switches, two to each, which are joined in a ring with chords; some GPUs have a cable of their own. */
static inline void random_graph(const struct random_text *to, uint64_t gpus)
{
    uint32_t n = (uint32_t)(gpus < 4 ? 4 : gpus), switches = (n + 1) / 2 < 3 ? 3 : (n + 1) / 2;
    for (uint32_t i = 0; i < n; i++) {
        random_text_add(to, "[link gpu%u s%u]\nclass = port\n", i, i % switches);
        random_link(to);
        if (dice_chance(to->dice, 4)) {
            random_text_add(to, "[link gpu%u gpu%u]\nclass = cable\n", i, (i + 1) % n);
            random_link(to);
        }
    }
    for (uint32_t i = 0; i < switches; i++) {
        random_text_add(to, "[link s%u s%u]\ncount = %u\n", i, (i + 1) % switches, 1 + dice_below(to->dice, 2));
        random_link(to);
        if (switches > 4 && i + 3 < switches && dice_chance(to->dice, 3)) {
            random_text_add(to, "[link s%u s%u]\n", i, i + 3);
            random_link(to);
        }
    }
    if (dice_chance(to->dice, 3))
        random_text_add(to, "[override slow]\nlink = port: gpu %u *\nfactor = 0.5\n", dice_below(to->dice, n));
}

/* A cluster of at least so many GPUs. */
static inline void random_topology_text(struct dice *dice, uint64_t gpus, char *text, size_t size)
{
    const struct random_text to = {dice, text, size};
    *text = '\0';
    random_text_add(&to, "[cluster]\ndevice = toy\n");
    if (dice_chance(dice, 6))
        random_graph(&to, gpus);
    else
        random_levels(&to, gpus);
}

#endif
