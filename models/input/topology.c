/* topology.c - reads a cluster from its INI: [cluster], then one [level NAME] per level, from the inside out, or the
 * [link A B] of a graph, then the [override NAME] of what is there.
 *
 * The key tables say what a single value may be; what concerns several of them (a torus whose lengths make its size,
 * curve points within the bandwidth, the whole cluster's size) is judged per level (level_checks.c), as soon as its own
 * keys are good, so that one wrong value does not bring a second message.
 */
#include "models/input/topology.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/data_path.h"
#include "models/input/graph.h"
#include "models/input/key_table.h"
#include "models/input/level_checks.h"
#include "models/input/topology_keys.h"

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

/* The level's own keys, then all of them together, unless one of its own is bad. `inner`: all inside it are good. */
static bool read_level(struct topology *topology, const struct ini_section *section, bool inner,
                       struct diagnostics *diag)
{
    struct ini_document *document = topology->document;
    uint32_t k = topology->n_levels++;
    struct level *level = &topology->levels[k];
    const char *name = level_name(section);
    level->line = section->line;
    level->routing = topology->routing;
    bool ok = check_name(document, section, name, diag);
    snprintf(level->name, sizeof level->name, "%s", name);
    const struct ini_entry *attach = ini_section_entry(section, "attach");
    if (k == 0 && attach)
        ok = ini_document_complain(document, section, attach, diag,
                                   "'attach' has no effect in the first level, expected it in outer levels only");
    bool keys = key_table_read(&level_section, document, section, level, diag);
    keys = level_check_bandwidth(document, section, diag) && keys;
    if (!keys)
        return false;
    if (level->kind == LEVEL_RING) {
        level->torus[0] = level->size;
        level->n_torus = 1;
    }
    if (level->kind == LEVEL_DRAGONFLY && !ini_section_entry(section, "global_latency"))
        level->global_latency_seconds = level->latency_seconds;
    return level_check(topology, k, inner, section, diag) && ok;
}

static bool too_large(const struct topology *topology, struct diagnostics *diag)
{
    return ini_document_complain(topology->document, NULL, NULL, diag, "the levels make more than %" PRIu64 " GPUs",
                                 TOPOLOGY_GPUS_MAX);
}

static bool read_levels(struct topology *topology, struct diagnostics *diag)
{
    const struct ini_document *document = topology->document;
    bool ok = true;
    uint64_t gpus = 1;
    for (size_t i = 0; i < document->n_sections; i++) {
        const struct ini_section *section = &document->sections[i];
        if (!level_name(section))
            continue;
        if (topology->n_levels == LEVELS_MAX)
            return ini_document_complain(document, section, NULL, diag, "one level more than %d, expected fewer",
                                         LEVELS_MAX);
        ok = read_level(topology, section, ok && gpus <= TOPOLOGY_GPUS_MAX, diag) && ok;
        if (gpus <= TOPOLOGY_GPUS_MAX)
            gpus *= topology->levels[topology->n_levels - 1].size;
    }
    return ok && (topology_count(topology) || too_large(topology, diag));
}

/* Levels or links, and not both. */
static bool read_network(struct topology *topology, struct diagnostics *diag)
{
    const struct ini_document *document = topology->document;
    const struct ini_section *level = NULL, *link = NULL;
    for (size_t i = document->n_sections; i-- > 0;) {
        if (level_name(&document->sections[i]))
            level = &document->sections[i];
        else if (strncmp(document->sections[i].name, "link ", 5) == 0)
            link = &document->sections[i];
    }
    if (level && link)
        return ini_document_complain(document, link, NULL, diag,
                                     "[%s] beside [%s], expected either levels or links of a graph", link->name,
                                     level->name);
    if (!level && !link)
        return false; /* key_table_check_sections has said so */
    return level ? read_levels(topology, diag) : graph_read(topology, diag);
}

static bool read_document(struct topology *topology, struct diagnostics *diag)
{
    const struct ini_document *document = topology->document;
    bool ok = key_table_check_sections(&topology_file, document, diag);
    const struct ini_section *cluster = ini_document_section(document, "cluster");
    if (cluster)
        ok &= key_table_read(&cluster_section, document, cluster, topology, diag);
    ok &= read_network(topology, diag);
    ok = ok && level_check_all(topology, diag);
    return ok && overrides_read(topology, document, diag);
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
    for (uint32_t k = 0; k < LEVELS_MAX; k++) {
        free(topology->levels[k].curve);
        free(topology->levels[k].sizes);
    }
    places_fini(&topology->places);
    overrides_fini(&topology->overrides);
    graph_destroy(topology->graph);
    free(topology->path);
    ini_document_destroy(topology->document);
    *topology = (struct topology){0};
}

void topology_each_value(const struct topology *topology,
                         void (*visit)(void *context, const char *section, const char *key, const char *value),
                         void *context)
{
    char section[64], value[CURVE_POINTS_MAX * 64];
    for (size_t i = 0; i < cluster_section.n_keys; i++) {
        const struct key_spec *key = &cluster_section.keys[i];
        key_table_print_value(key, topology, value, sizeof value);
        if (*value && cluster_key_is_said(topology, key->name))
            visit(context, cluster_section.name, key->name, value);
    }
    for (uint32_t k = 0; k < topology->n_levels && !topology->graph; k++) {
        snprintf(section, sizeof section, "level %s", topology->levels[k].name);
        for (size_t i = 0; i < level_section.n_keys; i++) {
            const struct key_spec *key = &level_section.keys[i];
            if (!level_key_is_said(topology, k, key->name))
                continue;
            key_table_print_value(key, &topology->levels[k], value, sizeof value);
            if (*value)
                visit(context, section, key->name, value);
        }
    }
    if (topology->graph)
        graph_each_value(topology, visit, context);
    overrides_each_value(topology, visit, context);
}

uint64_t topology_node_gpus(const struct topology *topology)
{
    uint64_t gpus = 1;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        if (topology->levels[k].attach == ATTACH_RAIL && k > 0)
            return gpus;
        gpus *= topology->levels[k].sizes ? 0 : topology->levels[k].size;
    }
    return 0;
}
