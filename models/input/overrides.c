/* overrides.c - reads [override NAME] sections: finds the links that a name or pattern means, then sorts what was
 * found, so that routes look it up by number.
 */
#include "models/input/overrides.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/input/key_table.h"
#include "models/input/link_pattern.h"
#include "models/input/route.h"

#define RANGES_MAX 16

/* One section. */
struct wanted {
    char link[LINK_NAME_SIZE];
    struct gpu_override gpus[RANGES_MAX];
    size_t n_gpus;
    double bytes_per_s, factor, latency_seconds, speed;
    bool missing;
};

/* --- keys --------------------------------------------------------------------------------------------------------- */

/* One "17" or "16-23". */
static bool parse_range(const char *text, uint64_t *first, uint64_t *last)
{
    char *copy = memory_text(text), *dash = strchr(copy, '-');
    if (dash)
        *dash = '\0';
    bool ok = units_parse_count(copy, first);
    *last = *first;
    ok = ok && (!dash || units_parse_count(dash + 1, last)) && *first <= *last;
    free(copy);
    return ok;
}

static bool parse_gpus(void *target, const char *text, const char **expected)
{
    struct wanted *wanted = target;
    char *copy = memory_text(text), *rest = copy, *item;
    bool ok = true;
    *expected = "at most 16 GPUs or ranges of them, such as 17, 24-31";
    while (ok && (item = strsep(&rest, ","))) {
        item += strspn(item, " \t");
        ok = wanted->n_gpus < RANGES_MAX;
        struct gpu_override *gpus = &wanted->gpus[wanted->n_gpus];
        ok = ok && parse_range(item, &gpus->first, &gpus->last);
        wanted->n_gpus += ok;
    }
    free(copy);
    return ok;
}

static void print_gpus(const void *target, char *text, size_t size)
{
    const struct wanted *wanted = target;
    size_t used = 0;
    *text = '\0';
    for (size_t i = 0; i < wanted->n_gpus && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64 "-%" PRIu64, i ? "," : "",
                                 wanted->gpus[i].first, wanted->gpus[i].last);
}

static const struct key_spec override_keys[] = {
    {.name = "link",
     .type = KEY_TEXT,
     .offset = offsetof(struct wanted, link),
     .size = sizeof(((struct wanted *)0)->link),
     .fallback = "",
     .form = "a link's name such as cluster: gpu 3 up, or a pattern: cluster: gpu 3 *",
     .help = "which links are meant"},
    {.name = "gpu",
     .type = KEY_CUSTOM,
     .fallback = "",
     .parse = parse_gpus,
     .print = print_gpus,
     .form = "17, 24-31",
     .help = "which GPUs are meant"},
    {.name = "bandwidth",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_RATE,
     .offset = offsetof(struct wanted, bytes_per_s),
     .fallback = "",
     .minimum = 1e3,
     .maximum = 1e15,
     .form = "a rate such as 200 Gb/s",
     .help = "of each of the links"},
    {.name = "factor",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct wanted, factor),
     .fallback = "",
     .minimum = 1e-6,
     .maximum = OVERRIDE_FACTOR_MAX,
     .form = "a number such as 0.5",
     .help = "instead of bandwidth: what each link's own is multiplied by"},
    {.name = "latency",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_SECONDS,
     .offset = offsetof(struct wanted, latency_seconds),
     .fallback = "",
     .minimum = 0,
     .maximum = 1,
     .form = "a time such as 20 us",
     .help = "of each of the links; at a switch, of its two links together"},
    {.name = "missing",
     .type = KEY_YES_NO,
     .offset = offsetof(struct wanted, missing),
     .fallback = "no",
     .form = "yes | no",
     .help = "yes: the NICs of these links are; messages go by the next GPU's of the node"},
    {.name = "speed",
     .type = KEY_QUANTITY,
     .dimension = DIMENSION_NUMBER,
     .offset = offsetof(struct wanted, speed),
     .fallback = "",
     .minimum = 1e-3,
     .maximum = OVERRIDE_SPEED_MAX,
     .form = "a number such as 0.8",
     .help = "of each of the GPUs: 0.8 makes all that it computes take 1.25 times as long"},
};

const struct section_spec override_section = {
    .name = "override",
    .named = true,
    .help = "links, NICs or GPUs that are not like the others; no link and no GPU twice",
    .keys = override_keys,
    .n_keys = sizeof override_keys / sizeof *override_keys,
};

/* --- one section -------------------------------------------------------------------------------------------------- */

/* An override being read. */
struct reading {
    const struct topology *topology;
    struct override_set *overrides; /* what was found; not in force yet */
    const struct ini_document *document;
    const struct ini_section *section;
    const struct wanted *wanted;
    uint32_t number;
    struct diagnostics *diag;
    uint64_t *sought;
};

#define COMPLAIN(reading, key, ...)                                                                                    \
    ini_document_complain((reading)->document, (reading)->section, ini_section_entry((reading)->section, key),         \
                          (reading)->diag, __VA_ARGS__)

static bool says(const struct reading *reading, const char *key)
{
    return ini_section_entry(reading->section, key) != NULL;
}

/* Which keys go together. */
static bool check_keys(const struct reading *reading)
{
    static const char *const of_links[] = {"bandwidth", "factor", "latency", "missing"};
    bool link = says(reading, "link"), gpu = says(reading, "gpu"), ok = true;
    if (link == gpu)
        return COMPLAIN(reading, link ? "gpu" : "", "[%s] says %s, expected one of 'link' and 'gpu'",
                        reading->section->name, link ? "both" : "neither what link nor what GPU it is about");
    for (size_t i = 0; i < sizeof of_links / sizeof *of_links; i++) {
        if (!link && says(reading, of_links[i]))
            ok = COMPLAIN(reading, of_links[i], "'%s' has no effect on a GPU, expected it with 'link'", of_links[i]);
    }
    if (link && says(reading, "speed"))
        ok = COMPLAIN(reading, "speed", "'speed' has no effect on a link, expected it with 'gpu'");
    if (says(reading, "bandwidth") && says(reading, "factor"))
        ok = COMPLAIN(reading, "factor", "'factor' beside 'bandwidth', expected one of them");
    bool changed = says(reading, "bandwidth") || says(reading, "factor") || says(reading, "latency");
    if (reading->wanted->missing && changed)
        ok = COMPLAIN(reading, "missing",
                      "'missing' beside what a link's bandwidth or latency is, expected one of them");
    if (ok && link && !changed && !reading->wanted->missing)
        ok = COMPLAIN(reading, "", "[%s] changes nothing, expected 'bandwidth', 'factor', 'latency' or 'missing'",
                      reading->section->name);
    if (ok && gpu && !says(reading, "speed"))
        ok = COMPLAIN(reading, "", "[%s] changes nothing, expected 'speed'", reading->section->name);
    return ok;
}

static bool add_gpus(const struct reading *reading)
{
    struct override_set *overrides = reading->overrides;
    bool ok = true;
    for (size_t i = 0; i < reading->wanted->n_gpus; i++) {
        struct gpu_override gpus = reading->wanted->gpus[i];
        gpus.speed = reading->wanted->speed;
        gpus.number = reading->number;
        if (gpus.last >= reading->topology->n_gpus)
            ok = COMPLAIN(reading, "gpu", "'gpu' has %" PRIu64 ", expected 0 to %" PRIu64, gpus.last,
                          reading->topology->n_gpus - 1);
        memory_grow(overrides->gpus, overrides->n_gpus, overrides->gpus_capacity);
        overrides->gpus[overrides->n_gpus++] = gpus;
    }
    return ok;
}

static void add_link(const struct reading *reading, uint64_t link)
{
    const struct wanted *wanted = reading->wanted;
    struct override_set *overrides = reading->overrides;
    struct link_override override = {.link = link,
                                     .bytes_per_s = wanted->bytes_per_s,
                                     .factor = wanted->factor > 0 ? wanted->factor : 1.0,
                                     .latency_seconds = wanted->latency_seconds,
                                     .missing = wanted->missing,
                                     .number = reading->number};
    memory_grow(overrides->links, overrides->n_links, overrides->links_capacity);
    overrides->links[overrides->n_links++] = override;
}

/* All links of the NIC that `link` is of. */
static bool add_nic(const struct reading *reading, uint64_t link)
{
    const struct topology *topology = reading->topology;
    struct link_place at = {0};
    if (!topology->graph)
        at = wiring_locate(topology, link);
    if (topology->graph || !wiring_has_nics(topology, at.level)) {
        char name[LINK_NAME_SIZE];
        topology_link_name(topology, link, name, sizeof name);
        return COMPLAIN(reading, "missing",
                        "'%s' is no NIC's, expected a port of a switch level with attach = rail that sits on its GPU",
                        name);
    }
    const struct wiring *w = &topology->wiring[at.level];
    for (uint32_t way = 0; way < w->parallel; way++) {
        add_link(reading, wiring_link(w, at.set, at.cable, way, FORWARD));
        if (w->directions == 2)
            add_link(reading, wiring_link(w, at.set, at.cable, way, BACKWARD));
    }
    return true;
}

static bool visit_link(void *context, uint64_t link)
{
    const struct reading *reading = context;
    if (reading->wanted->missing)
        return add_nic(reading, link);
    add_link(reading, link);
    return true;
}

static bool add_links(struct reading *reading)
{
    const struct link_pattern pattern = {.topology = reading->topology,
                                         .document = reading->document,
                                         .section = reading->section,
                                         .text = reading->wanted->link,
                                         .diag = reading->diag,
                                         .sought = reading->sought};
    return link_pattern_each(&pattern, visit_link, reading);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static int compare_links(const void *a, const void *b)
{
    const struct link_override *left = a, *right = b;
    if (left->link != right->link)
        return left->link < right->link ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

static int compare_gpus(const void *a, const void *b)
{
    const struct gpu_override *left = a, *right = b;
    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

/* The number-th [override NAME]. */
static const struct ini_section *section_of(const struct ini_document *document, uint32_t number)
{
    for (size_t i = 0; i < document->n_sections; i++) {
        if (strncmp(document->sections[i].name, "override ", 9) == 0 && number-- == 0)
            return &document->sections[i];
    }
    return NULL;
}

static bool second_time(const struct ini_document *document, uint32_t first, uint32_t second, const char *what,
                        const char *key, struct diagnostics *diag)
{
    if (first > second) {
        uint32_t swapped = first;
        first = second;
        second = swapped;
    }
    const struct ini_section *section = section_of(document, second);
    return ini_document_complain(document, section, ini_section_entry(section, key), diag,
                                 "%s is overridden a second time, expected once (first by [%s])", what,
                                 section_of(document, first)->name);
}

/* Sorts what was found, each link once; a NIC's may have been found by both of its names. */
static bool sort_links(struct topology *topology, const struct ini_document *document, struct diagnostics *diag)
{
    struct override_set *overrides = &topology->overrides;
    size_t kept = 0;
    if (overrides->n_links)
        qsort(overrides->links, overrides->n_links, sizeof *overrides->links, compare_links);
    for (size_t i = 0; i < overrides->n_links; i++) {
        const struct link_override *last = kept ? &overrides->links[kept - 1] : NULL, *next = &overrides->links[i];
        if (last && last->link == next->link && last->number == next->number)
            continue;
        if (last && last->link == next->link) {
            char name[LINK_NAME_SIZE], what[LINK_NAME_SIZE + 16];
            topology_link_name(topology, next->link, name, sizeof name);
            snprintf(what, sizeof what, "link '%s'", name);
            return second_time(document, last->number, next->number, what, "link", diag);
        }
        overrides->n_missing += next->missing;
        overrides->links[kept++] = *next;
    }
    overrides->n_links = kept;
    return true;
}

static bool sort_gpus(struct override_set *overrides, const struct ini_document *document, struct diagnostics *diag)
{
    if (overrides->n_gpus)
        qsort(overrides->gpus, overrides->n_gpus, sizeof *overrides->gpus, compare_gpus);
    for (size_t i = 1; i < overrides->n_gpus; i++) {
        const struct gpu_override *last = &overrides->gpus[i - 1], *next = &overrides->gpus[i];
        char what[40];
        snprintf(what, sizeof what, "gpu %" PRIu64, next->first);
        if (next->first <= last->last)
            return second_time(document, last->number, next->number, what, "gpu", diag);
    }
    return true;
}

static bool node_has_nic(const struct topology *topology, uint32_t k, uint64_t first)
{
    for (uint64_t i = 0; i < topology->wiring[k].member; i++) {
        if (route_has_nic(topology, k, first + i))
            return true;
    }
    return false;
}

/* Every node keeps a NIC, or its GPUs were cut off. Where the first of them is left, that need not be looked for. */
static bool check_nics(const struct topology *topology, const struct ini_document *document, struct diagnostics *diag)
{
    const struct override_set *overrides = &topology->overrides;
    for (size_t i = 0; i < overrides->n_links; i++) {
        const struct link_override *override = &overrides->links[i];
        struct link_place at = {0};
        if (override->missing)
            at = wiring_locate(topology, override->link);
        const struct wiring *w = &topology->wiring[at.level];
        if (!override->missing || at.set % w->lanes != 0)
            continue;
        uint64_t node = at.set / w->lanes * w->size + at.cable;
        if (node_has_nic(topology, at.level, node * w->member))
            continue;
        const struct ini_section *section = section_of(document, override->number);
        return ini_document_complain(document, section, ini_section_entry(section, "missing"), diag,
                                     "no NIC is left in %s %" PRIu64 ", expected one at least",
                                     topology->levels[at.level - 1].name, node);
    }
    return true;
}

static bool read_section(struct reading *reading)
{
    struct wanted wanted = {.latency_seconds = -1};
    reading->wanted = &wanted;
    if (!key_table_read(&override_section, reading->document, reading->section, &wanted, reading->diag) ||
        !check_keys(reading))
        return false;
    return wanted.n_gpus ? add_gpus(reading) : add_links(reading);
}

bool overrides_read(struct topology *topology, const struct ini_document *document, struct diagnostics *diag)
{
    struct override_set found = {0};
    bool ok = true;
    uint32_t number = 0;
    uint64_t sought = 0;
    for (size_t i = 0; i < document->n_sections; i++) {
        if (strncmp(document->sections[i].name, "override ", 9) != 0)
            continue;
        struct reading reading = {topology, &found, document, &document->sections[i], NULL, number++, diag, &sought};
        ok = read_section(&reading) && ok;
    }
    topology->overrides = found;
    ok = sort_links(topology, document, diag) && ok;
    ok = sort_gpus(&topology->overrides, document, diag) && ok;
    return ok && check_nics(topology, document, diag);
}

const char *overrides_name(const struct topology *topology, uint32_t number)
{
    return section_of(topology->document, number)->name;
}

void overrides_each_value(const struct topology *topology,
                          void (*visit)(void *context, const char *section, const char *key, const char *value),
                          void *context)
{
    for (size_t i = 0; topology->document && i < topology->document->n_sections; i++) {
        const struct ini_section *section = &topology->document->sections[i];
        for (size_t k = 0; strncmp(section->name, "override ", 9) == 0 && k < section->n_entries; k++)
            visit(context, section->name, section->entries[k].key, section->entries[k].value);
    }
}

void overrides_fini(struct override_set *overrides)
{
    free(overrides->links);
    free(overrides->gpus);
    *overrides = (struct override_set){0};
}

const struct link_override *overrides_of_link(const struct override_set *overrides, uint64_t link)
{
    size_t low = 0, high = overrides->n_links;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (overrides->links[middle].link < link)
            low = middle + 1;
        else
            high = middle;
    }
    return low < overrides->n_links && overrides->links[low].link == link ? &overrides->links[low] : NULL;
}

double topology_gpu_speed(const struct topology *topology, uint64_t gpu)
{
    const struct override_set *overrides = &topology->overrides;
    size_t low = 0, high = overrides->n_gpus;
    while (low < high) { /* the first that ends at or behind the GPU */
        size_t middle = (low + high) / 2;
        if (overrides->gpus[middle].last < gpu)
            low = middle + 1;
        else
            high = middle;
    }
    return low < overrides->n_gpus && overrides->gpus[low].first <= gpu ? overrides->gpus[low].speed : 1.0;
}
