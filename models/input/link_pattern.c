/* link_pattern.c - looks through the links of a level, by name.
 *
 * A name that begins with its level and the end that a link starts at ("cluster: gpu 17 *") is sought among that end's
 * links alone, so that hundreds of slow links of a large cluster are found at once. What is meant is decided by the
 * name in any case.
 */
#include "models/input/link_pattern.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/input/key_table.h"

#define SEARCHED_MAX (UINT64_C(1) << 24) /* names looked at for all overrides of a topology: some seconds */

/* Links that may be meant: `spans` times `length` of them, `stride` apart. */
struct search {
    uint64_t first, length, stride, spans;
};

static bool complain(const struct link_pattern *pattern, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool complain(const struct link_pattern *pattern, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = memory_vformat(format, arguments);
    va_end(arguments);
    ini_document_complain(pattern->document, pattern->section, ini_section_entry(pattern->section, "link"),
                          pattern->diag, "%s", text);
    free(text);
    return false;
}

/* The number N of a pattern that begins with "LEVEL: WORD N" and no more digits. */
static bool leading_number(const char *text, const char *word, uint64_t *number)
{
    const char *at = strchr(text, ':') + 1;
    size_t length = strlen(word), digits;
    if (*at != ' ' || strncmp(at + 1, word, length) != 0 || at[length + 1] != ' ')
        return false;
    at += length + 2;
    digits = strspn(at, "0123456789");
    if (digits == 0 || digits > 18 || (at[digits] && strchr("*?[", at[digits])))
        return false;
    *number = strtoull(at, NULL, 10);
    return true;
}

/* Of all links of level k, those of the end that the pattern begins with: at a switch the links of its ports, else all
 * cables beside it. */
static struct search narrow(const struct link_pattern *pattern, uint32_t k, struct search all)
{
    const struct topology *topology = pattern->topology;
    const struct wiring *w = &topology->wiring[k];
    uint64_t number, lane = 0, lanes = w->lanes;
    if (wiring_ends_are_gpus(topology, k)) {
        if (!leading_number(pattern->text, "gpu", &number) || number >= topology->n_gpus)
            return all;
        uint64_t place = places_of_gpu(&topology->places, number);
        lane = place % w->member;
        number = place / w->member;
        lanes = 1;
    } else if (!leading_number(pattern->text, topology->levels[k - 1].name, &number)) {
        return all;
    }
    uint64_t per_cable = (uint64_t)w->parallel * w->directions, set = number / w->size * w->lanes + lane;
    bool port = topology->levels[k].kind == LEVEL_SWITCH;
    struct search found = {.first = all.first + (set * w->cables + (port ? number % w->size : 0)) * per_cable,
                           .length = (port ? 1 : w->cables) * per_cable,
                           .stride = w->cables * per_cable,
                           .spans = lanes};
    return number / w->size >= all.length / (found.stride * w->lanes) ? all : found;
}

/* Where to look: in the level that the pattern begins with, if it names one plainly. `all` are its links. */
static bool find_range(const struct link_pattern *pattern, struct search *all, struct search *search)
{
    const struct topology *topology = pattern->topology;
    size_t length = strcspn(pattern->text, ":");
    *all = *search = (struct search){.length = topology->n_links, .spans = 1};
    if (strcspn(pattern->text, "*?[") < length)
        return true;
    const char *names[LEVELS_MAX + 1] = {0};
    char *name = memory_format("%.*s", (int)length, pattern->text);
    bool found = false;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        names[k] = topology->levels[k].name;
        if (strcmp(name, names[k]) != 0)
            continue;
        found = true;
        if (topology->graph)
            continue;
        *all = (struct search){.first = topology->wiring[k].first, .length = topology->wiring[k].links, .spans = 1};
        *search = pattern->text[length] && all->length ? narrow(pattern, k, *all) : *all;
    }
    if (!found) {
        char *hint = key_table_suggestion(name, names);
        complain(pattern, "'link' begins with '%s', which is no %s%s", name,
                 topology->graph ? "class of links" : "level", hint);
        free(hint);
    }
    free(name);
    return found;
}

/* The pattern means none of `all`. */
static bool no_match(const struct link_pattern *pattern, const struct search *all)
{
    uint64_t first = all->first, end = all->first + all->length;
    char *nearest = NULL;
    char name[LINK_NAME_SIZE];
    if (first == end)
        return complain(pattern, "no link is called '%s': there are none", pattern->text);
    for (uint64_t link = first; link < end && link - first < 4096; link++) {
        topology_link_name(pattern->topology, link, name, sizeof name);
        const char *const words[] = {nearest ? nearest : name, name, NULL}; /* the first of equally near */
        if (key_table_nearest(pattern->text, words) != name)
            continue;
        free(nearest);
        nearest = memory_text(name);
    }
    topology_link_name(pattern->topology, first, name, sizeof name);
    if (nearest)
        complain(pattern, "no link is called '%s', did you mean '%s'?", pattern->text, nearest);
    else
        complain(pattern, "no link is called '%s', expected a name such as '%s'", pattern->text, name);
    free(nearest);
    return false;
}

static bool may_search(const struct link_pattern *pattern, const struct search *search)
{
    uint64_t links = search->length * search->spans, before = *pattern->sought;
    *pattern->sought += links;
    if (links > SEARCHED_MAX)
        return complain(pattern, "the name is sought among %" PRIu64 " links, expected at most %" PRIu64, links,
                        SEARCHED_MAX);
    if (before + links > SEARCHED_MAX)
        return complain(
            pattern,
            "the names of all overrides are sought among more than %" PRIu64
            " links, expected names that begin with a level and a GPU or member, such as 'cluster: gpu 3 *'",
            SEARCHED_MAX);
    return true;
}

bool link_pattern_each(const struct link_pattern *pattern, bool (*visit)(void *context, uint64_t link), void *context)
{
    struct search all, search;
    if (!find_range(pattern, &all, &search) || !may_search(pattern, &search))
        return false;
    bool found = false, absent = false;
    for (uint64_t span = 0; span < search.spans; span++) {
        uint64_t first = search.first + span * search.stride;
        for (uint64_t link = first; link < first + search.length; link++) {
            char name[LINK_NAME_SIZE];
            topology_link_name(pattern->topology, link, name, sizeof name);
            if (fnmatch(pattern->text, name, FNM_NOESCAPE) != 0)
                continue;
            if (topology_link(pattern->topology, link).absent) {
                absent = true;
                continue;
            }
            found = true;
            if (!visit(context, link))
                return false;
        }
    }
    if (!found && absent)
        return complain(pattern, "'link' is '%s', links of GPUs that are not there only, expected others",
                        pattern->text);
    return found || no_match(pattern, &all);
}
