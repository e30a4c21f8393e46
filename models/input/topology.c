/* topology.c - reads a cluster from its INI: [cluster] and one [level NAME] per level, from the inside out.
 *
 * The key tables say what a single value may be; what concerns several of them (a torus whose lengths make its size,
 * curve points within the bandwidth, the whole cluster's size) is judged here, per level, as soon as its own keys are
 * good, so that one wrong value does not bring a second message.
 */
#include "models/input/topology.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/key_table.h"
#include "models/input/library_keys.h"

/* --- values of several parts -------------------------------------------------------------------------------------- */

static const char *const kind_words[] = {"switch", "mesh", "ring", "torus", NULL};

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
    *expected = "switch, mesh, ring or torus:4x4 (2 to 4 dimensions)";
    return false;
}

static void print_kind(const void *target, char *text, size_t size)
{
    const struct level *level = target;
    int used = snprintf(text, size, "%s", kind_words[level->kind]);
    for (uint32_t d = 0; level->kind == LEVEL_TORUS && d < level->n_torus; d++)
        used += snprintf(text + used, size - (size_t)used, "%c%" PRIu32, d == 0 ? ':' : 'x', level->torus[d]);
}

static bool parse_duplex(void *target, const char *text, const char **expected)
{
    *expected = "full or half";
    *(bool *)target = strcmp(text, "half") == 0;
    return *(bool *)target || strcmp(text, "full") == 0;
}

static void print_duplex(const void *target, char *text, size_t size)
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

/* --- key tables --------------------------------------------------------------------------------------------------- */

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
};

static const char *const attach_words[] = {"rail", "node", NULL};

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
     .form = "switch | mesh | ring | torus:4x4",
     .help = "how the members are joined: a non-blocking switch, a cable per pair, neighbours only"},
    {.name = "bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct level, bytes_per_s),
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 450 GB/s or 400 Gb/s",
     .help = "one way, of a port (switch) or a cable; vendors of NVLink count both ways"},
    {.name = "latency",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = offsetof(struct level, latency_seconds),
     .minimum = 0,
     .maximum = 1,
     .form = "a time such as 2 us",
     .help = "alpha: what a message costs before its bytes; per hop in a ring or torus"},
    {.name = "attach",
     .type = KEY_CHOICE,
     .offset = offsetof(struct level, attach),
     .fallback = "rail",
     .choices = attach_words,
     .form = "rail | node",
     .help = "not in the first level: a port for every GPU, or one for the whole group"},
    {.name = "duplex",
     .type = KEY_CUSTOM,
     .offset = offsetof(struct level, half_duplex),
     .fallback = "full",
     .parse = parse_duplex,
     .print = print_duplex,
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

static const struct section_spec cluster_section = {
    .name = "cluster",
    .required = true,
    .help = "what the cluster is made of",
    .keys = cluster_keys,
    .n_keys = COUNT_OF(cluster_keys),
};

static const struct section_spec level_section = {
    .name = "level",
    .named = true,
    .required = true,
    .help = "a level of links, from the inside out: the first joins GPUs, each other one groups of the level before",
    .keys = level_keys,
    .n_keys = COUNT_OF(level_keys),
};

static const struct section_spec *const sections[] = {&cluster_section, &level_section, NULL};

const struct file_spec topology_file = {.name = "topology", .sections = sections};

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The name behind "level ", or NULL if `section` is no level. */
static const char *level_name(const struct ini_section *section)
{
    return strncmp(section->name, "level ", 6) == 0 ? section->name + 6 : NULL;
}

/* Level names stand in reports, plots and overrides (level NAME.key=value), so they are plain words. */
static bool check_name(const struct ini_document *document, const struct ini_section *section, const char *name,
                       struct diagnostics *diag)
{
    size_t length = strlen(name), maximum = sizeof(((struct level *)0)->name) - 1;
    size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    if (length >= 1 && length <= maximum && plain == length)
        return true;
    return ini_document_complain(document, section, NULL, diag,
                                 "level name '%s', expected 1 to %zu letters, digits, '-' or '_'", name, maximum);
}

static bool check_torus(const struct ini_document *document, const struct ini_section *section,
                        const struct level *level, struct diagnostics *diag)
{
    uint64_t product = 1;
    for (uint32_t d = 0; d < level->n_torus && product <= TOPOLOGY_GPUS_MAX; d++)
        product *= level->torus[d];
    if (level->kind != LEVEL_TORUS || product == level->size)
        return true;
    const struct ini_entry *entry = ini_section_entry(section, "kind");
    return ini_document_complain(document, section, entry, diag,
                                 "'kind' is '%s', expected lengths whose product is the size, %" PRIu32, entry->value,
                                 level->size);
}

static bool check_curve(const struct ini_document *document, const struct ini_section *section,
                        const struct level *level, struct diagnostics *diag)
{
    for (size_t i = 0; i < level->n_curve; i++) {
        if (level->curve[i].bytes_per_s <= level->bytes_per_s)
            continue;
        char rate[40], limit[40];
        units_print(rate, sizeof rate, DIMENSION_RATE, level->curve[i].bytes_per_s);
        units_print(limit, sizeof limit, DIMENSION_RATE, level->bytes_per_s);
        return ini_document_complain(document, section, ini_section_entry(section, "curve"), diag,
                                     "'curve' reaches %s, expected at most the bandwidth, %s", rate, limit);
    }
    return true;
}

static bool read_level(struct topology *topology, const struct ini_section *section, struct diagnostics *diag)
{
    struct ini_document *document = topology->document;
    struct level *level = &topology->levels[topology->n_levels++];
    const char *name = level_name(section);
    level->line = section->line;
    bool ok = check_name(document, section, name, diag);
    snprintf(level->name, sizeof level->name, "%s", name);
    const struct ini_entry *attach = ini_section_entry(section, "attach");
    if (topology->n_levels == 1 && attach)
        ok = ini_document_complain(document, section, attach, diag,
                                   "'attach' has no effect in the first level, expected it in outer levels only");
    if (!key_table_read(&level_section, document, section, level, diag))
        return false;
    if (level->kind == LEVEL_RING) {
        level->torus[0] = level->size;
        level->n_torus = 1;
    }
    ok &= check_torus(document, section, level, diag);
    ok &= check_curve(document, section, level, diag);
    ok &= library_check_channels(document, section, level, diag);
    ok &= library_check_rates(document, section, level, diag);
    return ok;
}

static bool read_document(struct topology *topology, struct diagnostics *diag)
{
    const struct ini_document *document = topology->document;
    bool ok = key_table_check_sections(&topology_file, document, diag);
    const struct ini_section *cluster = ini_document_section(document, "cluster");
    if (cluster)
        ok &= key_table_read(&cluster_section, document, cluster, topology, diag);
    for (size_t i = 0; i < document->n_sections; i++) {
        const struct ini_section *section = &document->sections[i];
        if (!level_name(section))
            continue;
        if (topology->n_levels == LEVELS_MAX)
            return ini_document_complain(document, section, NULL, diag, "one level more than %d, expected fewer",
                                         LEVELS_MAX);
        ok &= read_level(topology, section, diag);
    }
    if (ok && !topology_count(topology))
        ok = ini_document_complain(document, NULL, NULL, diag, "the levels make more than %" PRIu64 " GPUs",
                                   TOPOLOGY_GPUS_MAX);
    if (ok && topology->n_levels && topology->levels[0].size % topology->ranks_per_device)
        ok = topology_complain(topology, "ranks_per_device", diag,
                               "ranks_per_device = %" PRIu32 " does not divide the %" PRIu32
                               " members of level '%s', expected all devices to have as many",
                               topology->ranks_per_device, topology->levels[0].size, topology->levels[0].name);
    return ok;
}

/* Takes the document. */
static bool read_from(struct topology *topology, const char *path, struct ini_document *document,
                      const char *const *overrides, size_t n_overrides, struct diagnostics *diag)
{
    *topology = (struct topology){.path = memory_text(path), .document = document};
    bool ok = document != NULL;
    for (size_t i = 0; document && i < n_overrides; i++)
        ok &= ini_document_override(document, overrides[i], diag);
    if (document)
        ok &= read_document(topology, diag);
    if (!ok)
        topology_fini(topology);
    return ok;
}

bool topology_read(struct topology *topology, const char *path, const char *const *overrides, size_t n_overrides,
                   struct diagnostics *diag)
{
    return read_from(topology, path, ini_document_read(path, diag), overrides, n_overrides, diag);
}

bool topology_read_text(struct topology *topology, const char *name, const char *text, struct diagnostics *diag)
{
    return read_from(topology, name, ini_document_read_text(name, text, diag), NULL, 0, diag);
}

bool topology_complain(const struct topology *topology, const char *key, struct diagnostics *diag, const char *format,
                       ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = memory_vformat(format, arguments);
    va_end(arguments);
    const struct ini_section *section =
        topology->document ? ini_document_section(topology->document, cluster_section.name) : NULL;
    if (section)
        ini_document_complain(topology->document, section, ini_section_entry(section, key), diag, "%s", text);
    else
        diagnostics_add(diag, "%s", text);
    free(text);
    return false;
}

char *topology_device_path(const struct topology *topology, struct diagnostics *diag)
{
    char *path = data_path_find("models/devices", topology->device);
    if (path)
        return path;
    char **names = data_path_list("models/devices");
    char *hint = key_table_suggestion(topology->device, (const char *const *)names);
    topology_complain(topology, "device", diag, "no device profile '%s'%s", topology->device, hint);
    free(hint);
    for (size_t i = 0; names[i]; i++)
        free(names[i]);
    free(names);
    return NULL;
}

void topology_fini(struct topology *topology)
{
    for (uint32_t k = 0; k < LEVELS_MAX; k++)
        free(topology->levels[k].curve);
    free(topology->path);
    ini_document_destroy(topology->document);
    *topology = (struct topology){0};
}

void topology_each_value(const struct topology *topology,
                         void (*visit)(void *context, const char *section, const char *key, const char *value),
                         void *context)
{
    char section[64], value[CURVE_POINTS_MAX * 64];
    for (size_t i = 0; i < COUNT_OF(cluster_keys); i++) {
        key_table_print_value(&cluster_keys[i], topology, value, sizeof value);
        if (*value)
            visit(context, "cluster", cluster_keys[i].name, value);
    }
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        snprintf(section, sizeof section, "level %s", topology->levels[k].name);
        for (size_t i = 0; i < COUNT_OF(level_keys); i++) {
            if (k == 0 && strcmp(level_keys[i].name, "attach") == 0)
                continue;
            if (!library_key_is_said(&topology->levels[k], level_keys[i].name))
                continue;
            key_table_print_value(&level_keys[i], &topology->levels[k], value, sizeof value);
            if (*value)
                visit(context, section, level_keys[i].name, value);
        }
    }
}
