/* link_pattern.c - looks through the links of a level, by name. */
#include "models/input/link_pattern.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/ini_document.h"
#include "models/input/key_table.h"

#define SEARCHED_MAX (UINT64_C(1) << 24) /* links whose names are looked at: some seconds */

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

/* Links [first, end) may be meant: those of the level that the pattern begins with, if it names one plainly. */
static bool find_range(const struct link_pattern *pattern, uint64_t *first, uint64_t *end)
{
    const struct topology *topology = pattern->topology;
    size_t length = strcspn(pattern->text, ":");
    *first = 0;
    *end = topology->n_links;
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
        if (!topology->graph) {
            *first = topology->wiring[k].first;
            *end = *first + topology->wiring[k].links;
        }
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

/* The pattern means none of [first, end). */
static bool no_match(const struct link_pattern *pattern, uint64_t first, uint64_t end)
{
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

bool link_pattern_each(const struct link_pattern *pattern, bool (*visit)(void *context, uint64_t link), void *context)
{
    uint64_t first, end;
    if (!find_range(pattern, &first, &end))
        return false;
    if (end - first > SEARCHED_MAX)
        return complain(pattern, "the name is sought among %" PRIu64 " links, expected at most %" PRIu64, end - first,
                        SEARCHED_MAX);
    bool found = false, absent = false;
    for (uint64_t link = first; link < end; link++) {
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
    if (!found && absent)
        return complain(pattern, "'link' is '%s', links of GPUs that are not there only, expected others",
                        pattern->text);
    return found || no_match(pattern, first, end);
}
