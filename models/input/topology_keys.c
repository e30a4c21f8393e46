/* topology_keys.c - the keys of a topology as data, with the values that have several parts. What concerns several keys
 * is judged in level_checks.c.
 */
#include "models/input/topology_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/graph.h"
#include "models/input/library_keys.h"
#include "models/input/topology.h"

/* --- values of several parts -------------------------------------------------------------------------------------- */

static const char *const kind_words[] = {"switch", "mesh", "ring", "torus", "dragonfly", NULL};

/* "4x4x2" into lengths; whole numbers from 1, two or more of them. */
static bool parse_lengths(const char *text, uint32_t lengths[TORUS_DIMENSIONS_MAX], uint32_t *n_lengths)
{
    for (*n_lengths = 0; *n_lengths < TORUS_DIMENSIONS_MAX; text++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 8)
            return false;
        lengths[*n_lengths] = (uint32_t)strtoul(text, NULL, 10);
        if (lengths[(*n_lengths)++] == 0)
            return false;
        text += digits;
        if (*text == '\0')
            return *n_lengths >= 2;
        if (*text != 'x')
            return false;
    }
    return false;
}

static bool parse_kind(void *target, const char *text, const char **expected)
{
    struct level *level = target;
    level->n_torus = 0;
    for (int i = LEVEL_SWITCH; i < LEVEL_TORUS; i++) {
        if (strcmp(text, kind_words[i]) == 0) {
            level->kind = (enum level_kind)i;
            return true;
        }
    }
    level->kind = LEVEL_TORUS;
    if (strncmp(text, "torus:", 6) == 0 && parse_lengths(text + 6, level->torus, &level->n_torus))
        return true;
    level->kind = LEVEL_DRAGONFLY;
    if (strncmp(text, "dragonfly:", 10) == 0 && parse_lengths(text + 10, level->torus, &level->n_torus) &&
        level->n_torus == 2)
        return true;
    *expected = "switch, mesh, ring, torus:4x4 (2 to 4 dimensions) or dragonfly:9x4 (groups x routers)";
    return false;
}

static void print_kind(const void *target, char *text, size_t size)
{
    const struct level *level = target;
    int used = snprintf(text, size, "%s", kind_words[level->kind]);
    for (uint32_t d = 0; level->kind >= LEVEL_TORUS && d < level->n_torus; d++)
        used += snprintf(text + used, size - (size_t)used, "%c%" PRIu32, d == 0 ? ':' : 'x', level->torus[d]);
}

bool topology_parse_duplex(void *target, const char *text, const char **expected)
{
    *expected = "full or half";
    *(bool *)target = strcmp(text, "half") == 0;
    return *(bool *)target || strcmp(text, "full") == 0;
}

void topology_print_duplex(const void *target, char *text, size_t size)
{
    snprintf(text, size, "%s", *(const bool *)target ? "half" : "full");
}

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (size_t length = strlen(text); length > 0 && strchr(" \t", text[length - 1]); length--)
        text[length - 1] = '\0';
    return text;
}

/* One "16 MiB: 70.5 GB/s". */
static bool parse_point(char *text, struct curve_point *point)
{
    char *colon = strchr(text, ':');
    if (!colon)
        return false;
    *colon = '\0';
    return units_parse(trimmed(text), DIMENSION_BYTES, &point->bytes) && point->bytes > 0 &&
           units_parse(trimmed(colon + 1), DIMENSION_RATE, &point->bytes_per_s) && point->bytes_per_s > 0;
}

static bool parse_curve(void *target, const char *text, const char **expected)
{
    struct level *level = target;
    char *copy = memory_text(text), *rest = copy, *item;
    bool ok = true;
    *expected = "sizes with the rate that messages reach, such as 1 MiB: 30 GB/s, 16 MiB: 70.5 GB/s";
    level->curve = memory_resized(level->curve, CURVE_POINTS_MAX, sizeof *level->curve);
    level->n_curve = 0;
    while (ok && (item = strsep(&rest, ","))) {
        struct curve_point *point = &level->curve[level->n_curve];
        ok = level->n_curve < CURVE_POINTS_MAX && parse_point(item, point);
        if (ok && level->n_curve > 0 && point->bytes <= point[-1].bytes) {
            *expected = "sizes in ascending order";
            ok = false;
        }
        level->n_curve++;
    }
    free(copy);
    return ok;
}

static void print_curve(const void *target, char *text, size_t size)
{
    const struct level *level = target;
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < level->n_curve && used < size; i++) {
        char bytes[64], rate[64];
        units_print_exact(bytes, sizeof bytes, DIMENSION_BYTES, level->curve[i].bytes);
        units_print_exact(rate, sizeof rate, DIMENSION_RATE, level->curve[i].bytes_per_s);
        used += (size_t)snprintf(text + used, size - used, "%s%s: %s", i ? ", " : "", bytes, rate);
    }
}

/* "2:1": what enters below to what leaves above. */
static bool parse_oversubscription(void *target, const char *text, const char **expected)
{
    double ratio[2] = {0};
    char *copy = memory_text(text), *rest = copy;
    bool ok = true;
    *expected = "a ratio such as 2:1, of numbers from 0.001 to 1000";
    for (int i = 0; i < 2 && ok; i++) {
        char *part = strsep(&rest, ":");
        ok = part && units_parse(trimmed(part), DIMENSION_NUMBER, &ratio[i]) && ratio[i] >= 1e-3 && ratio[i] <= 1e3;
    }
    ok = ok && !rest;
    free(copy);
    *(double *)target = ok ? ratio[0] / ratio[1] : 0.0;
    return ok;
}

static void print_oversubscription(const void *target, char *text, size_t size)
{
    snprintf(text, size, "%.17g:1", *(const double *)target);
}

/* One "8" or "8x15". */
static bool parse_size_run(const char *text, struct size_run *run)
{
    char *copy = memory_text(text), *times = strchr(copy, 'x');
    uint64_t size, count = 1;
    if (times)
        *times = '\0';
    bool ok = units_parse_count(trimmed(copy), &size) && (!times || units_parse_count(trimmed(times + 1), &count));
    ok = ok && size >= 1 && size <= TOPOLOGY_GPUS_MAX && count >= 1 && count <= TOPOLOGY_GPUS_MAX;
    if (ok)
        *run = (struct size_run){(uint32_t)size, count};
    free(copy);
    return ok;
}

static bool parse_sizes(void *target, const char *text, const char **expected)
{
    struct level *level = target;
    char *copy = memory_text(text), *rest = copy, *item;
    size_t capacity = 0;
    bool ok = true;
    *expected = "the sizes of the instances in order, such as 8x15, 4";
    while (ok && (item = strsep(&rest, ","))) {
        struct size_run run;
        ok = parse_size_run(item, &run);
        if (ok) {
            memory_grow(level->sizes, level->n_sizes, capacity);
            level->sizes[level->n_sizes++] = run;
        }
    }
    free(copy);
    return ok;
}

static void print_sizes(const void *target, char *text, size_t size)
{
    const struct level *level = target;
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < level->n_sizes && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu32 "x%" PRIu64, i ? ", " : "",
                                 level->sizes[i].size, level->sizes[i].count);
}

/* --- key tables --------------------------------------------------------------------------------------------------- */

static const char *const routing_words[] = {"ecmp", "shortest", "adaptive", NULL}; /* as enum routing */

static const struct key_spec cluster_keys[] = {
    {.name = "device",
     .type = KEY_TEXT,
     .offset = offsetof(struct topology, device),
     .size = sizeof(((struct topology *)0)->device),
     .form = "a name under models/devices, or a profile's path",
     .help = "device profile of the GPUs"},
    {.name = "kernel",
     .type = KEY_TEXT,
     .offset = offsetof(struct topology, kernel),
     .size = sizeof(((struct topology *)0)->kernel),
     .fallback = "",
     .form = "a kernel of that profile",
     .help = "attention kernel; the profile's default if not given"},
    {.name = "ranks_per_device",
     .type = KEY_COUNT32,
     .offset = offsetof(struct topology, ranks_per_device),
     .fallback = "1",
     .minimum = 1,
     .maximum = TOPOLOGY_GPUS_MAX,
     .form = "a whole number such as 2",
     .help = "so many members of the first level are ranks on one device: kernels take turns, memory is divided"},
    {.name = "routing",
     .type = KEY_CHOICE,
     .offset = offsetof(struct topology, routing),
     .fallback = "ecmp",
     .choices = routing_words,
     .form = "ecmp | shortest | adaptive",
     .help = "over parallel uplinks, and equal ways of a graph: by hash; the first; spread evenly (no graph)"},
    {.name = "seed",
     .type = KEY_COUNT64,
     .offset = offsetof(struct topology, seed),
     .fallback = "0",
     .form = "a whole number such as 1",
     .help = "of the hash by which ecmp chooses"},
};

static const char *const attach_words[] = {"rail", "node", "switch", NULL};      /* as enum level_attach */
static const char *const cross_rail_words[] = {"leaf", "nvlink", "spine", NULL}; /* as enum cross_rail */

static const char *const medium_words[] = {"nvlink", "pcie", "network", NULL}; /* as enum medium */

/* A relative half-width that nine of ten measured times lie within. */
#define SPREAD_KEY(NAME, MEMBER, HELP)                                                                                 \
    {                                                                                                                  \
        .name = NAME, .type = KEY_QUANTITY, .dimension = DIMENSION_NUMBER, .offset = offsetof(struct level, MEMBER),   \
        .fallback = "0", .minimum = 0, .maximum = 10, .form = "a share such as 0.03", .help = HELP                     \
    }

static const struct key_spec level_keys[] = {
    {.name = "size",
     .type = KEY_COUNT32,
     .offset = offsetof(struct level, size),
     .minimum = 1,
     .maximum = TOPOLOGY_GPUS_MAX,
     .form = "a whole number such as 8",
     .help = "members: GPUs in the first level, groups of the level before in the others"},
    {.name = "kind",
     .type = KEY_CUSTOM,
     .parse = parse_kind,
     .print = print_kind,
     .form = "switch | mesh | ring | torus:4x4 | dragonfly:9x4",
     .help = "how the members are joined: a non-blocking switch, a cable per pair, neighbours only, groups x routers"},
    {.name = "sizes",
     .type = KEY_CUSTOM,
     .fallback = "",
     .parse = parse_sizes,
     .print = print_sizes,
     .form = "8x15, 4",
     .help = "of each instance of the level, in order, where some have fewer members than size"},
    {.name = "bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct level, bytes_per_s),
     .fallback = "",
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 450 GB/s or 400 Gb/s",
     .help = "one way, of a port's link (switch) or a cable; vendors of NVLink count both ways"},
    {.name = "oversubscription",
     .type = KEY_CUSTOM,
     .offset = offsetof(struct level, oversubscription),
     .fallback = "",
     .parse = parse_oversubscription,
     .print = print_oversubscription,
     .form = "a ratio such as 2:1",
     .help = "instead of bandwidth: all ports of the level before, within a member, to all uplinks of the member"},
    {.name = "latency",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = offsetof(struct level, latency_seconds),
     .minimum = 0,
     .maximum = 1,
     .form = "a time such as 2 us",
     .help = "alpha: what a message costs before its bytes; per hop of cables"},
    {.name = "attach",
     .type = KEY_CHOICE,
     .offset = offsetof(struct level, attach),
     .fallback = "rail",
     .choices = attach_words,
     .form = "rail | node | switch",
     .help =
         "not in the first level: a port for every GPU, one for the whole group, one per switch of the level before"},
    {.name = "nics",
     .type = KEY_COUNT32,
     .offset = offsetof(struct level, nics),
     .fallback = "0",
     .maximum = TOPOLOGY_GPUS_MAX,
     .form = "a whole number such as 4",
     .help = "ports of a member with attach = rail: GPU i of n has port i * nics / n; 0: one per GPU"},
    {.name = "cross_rail",
     .type = KEY_CHOICE,
     .offset = offsetof(struct level, cross_rail),
     .fallback = "leaf",
     .choices = cross_rail_words,
     .form = "leaf | nvlink | spine",
     .help = "how to another rail: by the one switch of all; in the node first; by the level outside"},
    {.name = "uplinks",
     .type = KEY_COUNT32,
     .offset = offsetof(struct level, uplinks),
     .fallback = "1",
     .minimum = 1,
     .maximum = 1024,
     .form = "a whole number such as 4",
     .help = "links of a port of a switch, over which messages are routed"},
    {.name = "routing",
     .type = KEY_CHOICE,
     .offset = offsetof(struct level, routing),
     .fallback = "",
     .choices = routing_words,
     .form = "ecmp | shortest | adaptive",
     .help = "over this level's uplinks; none: as the cluster's"},
    {.name = "global_bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct level, global_bytes_per_s),
     .fallback = "",
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 200 Gb/s",
     .help = "of a dragonfly's cables between groups; none: as bandwidth"},
    {.name = "global_latency",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = offsetof(struct level, global_latency_seconds),
     .fallback = "",
     .minimum = 0,
     .maximum = 1,
     .form = "a time such as 2 us",
     .help = "of a dragonfly's cables between groups; none: as latency"},
    {.name = "duplex",
     .type = KEY_CUSTOM,
     .offset = offsetof(struct level, half_duplex),
     .fallback = "full",
     .parse = topology_parse_duplex,
     .print = topology_print_duplex,
     .form = "full | half",
     .help = "half: both directions share one link's bandwidth"},
    {.name = "curve",
     .type = KEY_CUSTOM,
     .fallback = "",
     .parse = parse_curve,
     .print = print_curve,
     .form = "1 MiB: 30 GB/s, 16 MiB: 70.5 GB/s",
     .help = "rates that lone messages of these sizes reach, latency included; none: latency and bandwidth say all"},
    {.name = "medium",
     .type = KEY_CHOICE,
     .offset = offsetof(struct level, medium),
     .fallback = "nvlink",
     .choices = medium_words,
     .form = "nvlink | pcie | network",
     .help = "what NCCL's limits of a channel's share of a message depend on"},
    {.name = "channels",
     .type = KEY_COUNT32,
     .offset = offsetof(struct level, channels),
     .fallback = "0",
     .maximum = 64,
     .form = "a power of two such as 32",
     .help = "NCCL's p2p channels: messages get few of them until they are large; 0: not modelled"},
    {.name = "channels_per_peer",
     .type = KEY_COUNT32,
     .offset = offsetof(struct level, channels_per_peer),
     .fallback = "0",
     .maximum = 64,
     .form = "a power of two such as 2",
     .help = "the most that one message gets in a communicator that crosses this level; 0: all"},
    {.name = "channel_bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct level, channel_bytes_per_s),
     .fallback = "",
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 19 GB/s",
     .help = "what one channel moves while it sends and receives"},
    {.name = "channel_latency",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = offsetof(struct level, channel_seconds),
     .fallback = "",
     .minimum = 0,
     .maximum = 1,
     .form = "a time such as 20 us",
     .help = "instead of latency, for messages beyond the protocol for small ones"},
    {.name = "ll_bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct level, ll_bytes_per_s),
     .fallback = "",
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 5 GB/s",
     .help = "a channel's by NCCL's LL protocol, for messages of at most 16 KiB times channels per peer"},
    {.name = "message_bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct level, message_bytes_per_s),
     .fallback = "",
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 290 GB/s",
     .help = "the most that one message reaches with all channels"},
    {.name = "fan_bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct level, fan_bytes_per_s),
     .fallback = "",
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 8 GB/s",
     .help = "what all members together send while each sends to several at once, as over a CPU's PCIe root complex"},
    {.name = "collectives",
     .type = KEY_CUSTOM,
     .fallback = "",
     .parse = library_parse_collectives,
     .print = library_print_collectives,
     .form = "12 us + 1.3 us: 140 GB/s, 36 us: 320 GB/s",
     .help = "protocols, small first: start + per further member: bytes a member sends; the fastest is used"},
    SPREAD_KEY("spread", spread, "how far messages' times vary, relative: gives predictions an interval"),
    SPREAD_KEY("collectives_spread", collectives_spread, "the same of collectives; none: as messages"),
    SPREAD_KEY("small_collectives_spread", small_collectives_spread,
               "the same where a protocol for small ones is the fastest; none: as other collectives"),
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

const struct section_spec cluster_section = {
    .name = "cluster",
    .required = true,
    .help = "what the cluster is made of",
    .keys = cluster_keys,
    .n_keys = COUNT_OF(cluster_keys),
};

const struct section_spec level_section = {
    .name = "level",
    .named = true,
    .required = true,
    .instead = &link_section,
    .help = "a level of links, from the inside out: the first joins GPUs, each other one groups of the level before",
    .keys = level_keys,
    .n_keys = COUNT_OF(level_keys),
};

static const struct section_spec *const sections[] = {&cluster_section, &level_section, &link_section,
                                                      &override_section, NULL};

const struct file_spec topology_file = {.name = "topology", .sections = sections};
