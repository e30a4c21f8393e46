/* level_checks.c - judges levels: keys without effect, sizes and lengths that do not fit, ports that hang nowhere. */
#include "models/input/level_checks.h"

#include <inttypes.h>
#include <string.h>

#include "models/input/library_keys.h"
#include "models/input/units.h"

static const char *const kinds[] = {"a switch", "a mesh", "a ring", "a torus", "a dragonfly", "a graph"};

/* A level under judgement. */
struct judged {
    const struct topology *topology;
    const struct level *level;
    uint32_t k;
    const struct ini_section *section;
    struct diagnostics *diag;
};

#define COMPLAIN(judged, key, ...)                                                                                     \
    ini_document_complain((judged)->topology->document, (judged)->section, ini_section_entry((judged)->section, key),  \
                          (judged)->diag, __VA_ARGS__)

static bool says(const struct judged *judged, const char *key)
{
    return ini_section_entry(judged->section, key) != NULL;
}

/* --- one level ---------------------------------------------------------------------------------------------------- */

bool level_check_bandwidth(const struct ini_document *document, const struct ini_section *section,
                           struct diagnostics *diag)
{
    const struct ini_entry *ratio = ini_section_entry(section, "oversubscription");
    bool bandwidth = ini_section_entry(section, "bandwidth") != NULL;
    if (bandwidth && ratio)
        return ini_document_complain(document, section, ratio, diag,
                                     "'oversubscription' beside 'bandwidth', expected one of them");
    if (!bandwidth && !ratio && !document->incomplete) /* a refused line may have been the key's */
        return ini_document_complain(document, section, NULL, diag,
                                     "[%s] has no key 'bandwidth', expected a rate such as 450 GB/s or 400 Gb/s",
                                     section->name);
    return bandwidth || ratio;
}

static bool check_lengths(const struct judged *judged)
{
    const struct level *level = judged->level;
    uint64_t product = 1;
    for (uint32_t d = 0; d < level->n_torus && product <= TOPOLOGY_GPUS_MAX; d++)
        product *= level->torus[d];
    if (level->kind < LEVEL_TORUS || product == level->size)
        return true;
    return COMPLAIN(judged, "kind", "'kind' is '%s', expected lengths whose product is the size, %" PRIu32,
                    ini_section_entry(judged->section, "kind")->value, level->size);
}

static bool check_curve(const struct judged *judged)
{
    const struct level *level = judged->level;
    for (size_t i = 0; i < level->n_curve; i++) {
        if (level->curve[i].bytes_per_s <= level->bytes_per_s)
            continue;
        char rate[40], limit[40];
        units_print(rate, sizeof rate, DIMENSION_RATE, level->curve[i].bytes_per_s);
        units_print(limit, sizeof limit, DIMENSION_RATE, level->bytes_per_s);
        return COMPLAIN(judged, "curve", "'curve' reaches %s, expected at most the bandwidth, %s", rate, limit);
    }
    return true;
}

static bool check_kind_keys(const struct judged *judged)
{
    static const char *const of_switches[] = {"nics", "cross_rail", "uplinks", "oversubscription"};
    static const char *const of_dragonflies[] = {"global_bandwidth", "global_latency"};
    enum level_kind kind = judged->level->kind;
    bool ok = true;
    for (size_t i = 0; i < sizeof of_switches / sizeof *of_switches; i++) {
        if (kind != LEVEL_SWITCH && says(judged, of_switches[i]))
            ok = COMPLAIN(judged, of_switches[i], "'%s' has no effect in %s, expected it in a switch", of_switches[i],
                          kinds[kind]);
    }
    for (size_t i = 0; i < sizeof of_dragonflies / sizeof *of_dragonflies; i++) {
        if (kind != LEVEL_DRAGONFLY && says(judged, of_dragonflies[i]))
            ok = COMPLAIN(judged, of_dragonflies[i], "'%s' has no effect in %s, expected it in a dragonfly",
                          of_dragonflies[i], kinds[kind]);
    }
    for (size_t i = 0; i < sizeof of_dragonflies / sizeof *of_dragonflies; i++) {
        if (kind == LEVEL_DRAGONFLY && judged->level->torus[0] == 1 && says(judged, of_dragonflies[i]))
            ok = COMPLAIN(judged, of_dragonflies[i], "'%s' has no effect in one group, expected several groups",
                          of_dragonflies[i]);
    }
    if (judged->level->uplinks <= 1 && says(judged, "routing"))
        ok = COMPLAIN(judged, "routing", "'routing' has no effect without 'uplinks', expected both");
    return ok;
}

static bool check_first_level(const struct judged *judged)
{
    static const char *const outer[] = {"nics", "cross_rail", "oversubscription"};
    bool ok = true;
    for (size_t i = 0; i < sizeof outer / sizeof *outer; i++) {
        if (says(judged, outer[i]))
            ok = COMPLAIN(judged, outer[i], "'%s' has no effect in the first level, expected it in outer levels only",
                          outer[i]);
    }
    return ok;
}

static bool check_sizes(const struct judged *judged)
{
    const struct level *level = judged->level;
    if (level->n_sizes == 0)
        return true;
    if (level->kind != LEVEL_SWITCH && level->kind != LEVEL_MESH)
        return COMPLAIN(judged, "sizes", "'sizes' in %s, expected a switch or a mesh: all others need every member",
                        kinds[level->kind]);
    for (size_t i = 0; i < level->n_sizes; i++) {
        if (level->sizes[i].size > level->size)
            return COMPLAIN(judged, "sizes", "'sizes' has %" PRIu32 ", expected at most the size, %" PRIu32,
                            level->sizes[i].size, level->size);
    }
    return true;
}

/* How the level is attached; its wiring is known. */
static bool check_attachment(const struct judged *judged)
{
    const struct level *level = judged->level;
    const struct wiring *w = &judged->topology->wiring[judged->k];
    bool inner_switch = judged->topology->levels[judged->k - 1].kind == LEVEL_SWITCH;
    if (level->attach == ATTACH_SWITCH && (level->kind != LEVEL_SWITCH || !inner_switch))
        return COMPLAIN(judged, "attach",
                        "'attach' is 'switch', expected this level and the one before to be switches");
    if (level->attach != ATTACH_RAIL && level->nics)
        return COMPLAIN(judged, "nics", "'nics' has no effect without attach = rail, expected both");
    if (level->nics > w->member)
        return COMPLAIN(judged, "nics",
                        "'nics' is %" PRIu32 ", expected at most one for each of a member's %" PRIu64 " GPUs",
                        level->nics, w->member);
    bool nics = wiring_has_nics(judged->topology, judged->k);
    bool separate = level->attach == ATTACH_SWITCH && level->cross_rail == CROSS_RAIL_SPINE;
    if (says(judged, "cross_rail") && w->lanes == 1)
        return COMPLAIN(judged, "cross_rail", "'cross_rail' has no effect, expected several NICs per member");
    if (says(judged, "cross_rail") && !nics && !separate)
        return COMPLAIN(judged, "cross_rail",
                        "'cross_rail' has no effect, expected it where each GPU has a NIC (attach = rail)");
    if (level->oversubscription > 0 && w->below != (int)judged->k - 1)
        return COMPLAIN(judged, "oversubscription",
                        "'oversubscription' of ports that hang on no switch of the level before, expected 'bandwidth'");
    return true;
}

/* All ports of the level before, within one member, to all uplinks of that member, are as `oversubscription` to 1. */
static double oversubscribed(const struct topology *topology, uint32_t k)
{
    const struct level *level = &topology->levels[k], *inner = &topology->levels[k - 1];
    const struct wiring *w = &topology->wiring[k], *below = &topology->wiring[k - 1];
    double ports = (double)below->lanes * inner->size * (inner->uplinks > 1 ? inner->uplinks : 1);
    double uplinks = (double)w->lanes * (level->uplinks > 1 ? level->uplinks : 1);
    return ports * inner->bytes_per_s / (uplinks * level->oversubscription);
}

bool level_check(struct topology *topology, uint32_t k, bool inner, const struct ini_section *section,
                 struct diagnostics *diag)
{
    struct level *level = &topology->levels[k];
    const struct judged judged = {topology, level, k, section, diag};
    bool ok = check_lengths(&judged);
    ok = check_kind_keys(&judged) && ok;
    ok = check_sizes(&judged) && ok;
    ok = (k > 0 || check_first_level(&judged)) && ok;
    if (ok && inner) {
        wiring_shape(topology, k, &topology->wiring[k]);
        ok = k == 0 || check_attachment(&judged);
        if (ok && level->oversubscription > 0)
            level->bytes_per_s = oversubscribed(topology, k);
    }
    if (level->oversubscription > 0 && level->bytes_per_s <= 0)
        return ok; /* not known, as some level is bad */
    ok = check_curve(&judged) && ok;
    ok = library_check_channels(topology->document, section, level, diag) && ok;
    return library_check_rates(topology->document, section, level, diag) && ok;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static const struct ini_section *section_of(const struct topology *topology, uint32_t k)
{
    for (size_t i = 0; i < topology->document->n_sections; i++) {
        const char *name = topology->document->sections[i].name;
        if (strncmp(name, "level ", 6) == 0 && strcmp(name + 6, topology->levels[k].name) == 0)
            return &topology->document->sections[i];
    }
    return NULL;
}

static bool check_spine(const struct judged *judged)
{
    uint32_t next = judged->k + 1;
    const struct level *levels = judged->topology->levels;
    if (judged->level->cross_rail != CROSS_RAIL_SPINE ||
        (next < judged->topology->n_levels && levels[next].attach == ATTACH_SWITCH))
        return true;
    return COMPLAIN(judged, "cross_rail",
                    "'cross_rail' is 'spine', expected a level outside this one with attach = switch");
}

/* A lane of cables ends at the GPU of the same index, so that one has to be there. */
static bool check_lanes_of_cables(const struct judged *judged)
{
    if (judged->level->kind == LEVEL_SWITCH || judged->level->attach != ATTACH_RAIL)
        return true;
    for (uint32_t k = 0; k < judged->k; k++) {
        if (judged->topology->levels[k].n_sizes)
            return COMPLAIN(judged, "kind", "%s of rails over members of unequal sizes, expected attach = node",
                            kinds[judged->level->kind]);
    }
    return true;
}

/* Any level whose uplinks the routing of [cluster] decides on, or of that routing. */
static bool has_routing(const struct topology *topology, bool of_cluster, bool by_hash)
{
    if (topology->graph)
        return !by_hash || topology->routing == ROUTING_ECMP;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        const struct level *level = &topology->levels[k];
        bool own = topology->document && ini_section_entry(section_of(topology, k), "routing");
        if (level->uplinks > 1 && (!of_cluster || !own) && (!by_hash || level->routing == ROUTING_ECMP))
            return true;
    }
    return false;
}

static bool check_routing(const struct topology *topology, struct diagnostics *diag)
{
    const struct ini_section *cluster = ini_document_section(topology->document, "cluster");
    if (ini_section_entry(cluster, "routing") && topology->graph && topology->routing == ROUTING_ADAPTIVE)
        return topology_complain(topology, "routing", diag,
                                 "'routing' is 'adaptive', expected ecmp or shortest: in a graph, a message that is "
                                 "spread over several ways has no route");
    if (ini_section_entry(cluster, "routing") && !has_routing(topology, true, false))
        return topology_complain(topology, "routing", diag,
                                 "'routing' has no effect, expected a level with 'uplinks', or links of a graph");
    if (ini_section_entry(cluster, "seed") && !has_routing(topology, false, true))
        return topology_complain(topology, "seed", diag, "'seed' has no effect without routing by ecmp, expected both");
    return true;
}

static bool check_devices(const struct topology *topology, struct diagnostics *diag)
{
    const struct level *inner = &topology->levels[0];
    uint32_t ranks = topology->ranks_per_device, bad = 0;
    if (topology->graph)
        return ranks == 1 || topology_complain(topology, "ranks_per_device", diag,
                                               "ranks_per_device = %" PRIu32 " in a graph, expected 1", ranks);
    if (inner->size % ranks)
        bad = inner->size;
    for (size_t i = 0; i < inner->n_sizes && !bad; i++)
        bad = inner->sizes[i].size % ranks ? inner->sizes[i].size : 0;
    return !bad || topology_complain(topology, "ranks_per_device", diag,
                                     "ranks_per_device = %" PRIu32 " does not divide the %" PRIu32
                                     " members of level '%s', expected all devices to have as many",
                                     ranks, bad, inner->name);
}

static bool check_instances(struct topology *topology, struct diagnostics *diag)
{
    uint32_t k;
    uint64_t instances;
    if (places_init(&topology->places, topology, &k, &instances))
        return topology_count(topology);
    const struct judged judged = {topology, &topology->levels[k], k, section_of(topology, k), diag};
    uint64_t said = 0;
    for (size_t i = 0; i < topology->levels[k].n_sizes; i++)
        said += topology->levels[k].sizes[i].count;
    return COMPLAIN(&judged, "sizes", "'sizes' is of %" PRIu64 " instances, expected as many as there are, %" PRIu64,
                    said, instances);
}

bool level_check_all(struct topology *topology, struct diagnostics *diag)
{
    bool ok = true;
    for (uint32_t k = 0; k < topology->n_levels && !topology->graph; k++) {
        const struct judged judged = {topology, &topology->levels[k], k, section_of(topology, k), diag};
        ok = check_spine(&judged) && ok;
        ok = check_lanes_of_cables(&judged) && ok;
    }
    if (ok && !topology->graph)
        ok = check_instances(topology, diag);
    ok = check_routing(topology, diag) && ok;
    return check_devices(topology, diag) && ok;
}

/* --- what is recorded --------------------------------------------------------------------------------------------- */

bool level_key_is_said(const struct topology *topology, uint32_t k, const char *name)
{
    const struct level *level = &topology->levels[k];
    if (strcmp(name, "attach") == 0)
        return k > 0;
    if (strcmp(name, "nics") == 0)
        return level->nics > 0;
    if (strcmp(name, "cross_rail") == 0)
        return level->cross_rail != CROSS_RAIL_LEAF;
    if (strcmp(name, "uplinks") == 0 || strcmp(name, "routing") == 0)
        return level->uplinks > 1;
    if (strcmp(name, "oversubscription") == 0)
        return false; /* the bandwidth that it makes is */
    if (strcmp(name, "global_bandwidth") == 0)
        return level->global_bytes_per_s > 0;
    if (strcmp(name, "global_latency") == 0)
        return level->kind == LEVEL_DRAGONFLY;
    return library_key_is_said(level, name);
}

bool cluster_key_is_said(const struct topology *topology, const char *name)
{
    if (strcmp(name, "routing") == 0)
        return topology->graph != NULL; /* levels say theirs */
    return strcmp(name, "seed") != 0 || has_routing(topology, false, true);
}
