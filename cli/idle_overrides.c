/* idle_overrides.c - follows every message's way, until one crosses what is asked for. */
#include "cli/idle_overrides.h"

#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/input/graph_data.h"
#include "models/input/ini_document.h"

/* Links that are sought. */
struct sought {
    const struct topology *topology; /* whose routes are followed */
    const struct graph_cable *cable; /* its links; NULL: those of the override `number` */
    uint32_t number;
};

static bool is_sought(const struct sought *sought, uint64_t link)
{
    if (sought->cable) {
        uint64_t count = (uint64_t)sought->cable->count * (sought->cable->half_duplex ? 1 : 2);
        return link >= sought->cable->first_link && link - sought->cable->first_link < count;
    }
    const struct link_override *override = overrides_of_link(&sought->topology->overrides, link);
    return override && override->number == sought->number;
}

static uint64_t gpu_of(const struct prediction *prediction, uint32_t instance)
{
    const struct instance *self = &prediction->whole.instances[instance];
    return placement_gpu(&prediction->placement, self->group, self->rank);
}

/* The messages of one rank; `asked` has room for its peers. */
static bool rank_crosses(const struct prediction *prediction, uint32_t instance, const struct sought *sought,
                         bool *asked, struct route *route)
{
    const struct shape *shape = ensemble_shape(&prediction->whole, instance);
    const struct peer *peers = ensemble_peers(&prediction->whole, instance);
    memset(asked, 0, shape->messages.n_peers * sizeof *asked);
    for (uint32_t i = 0; i < shape->program->n_ops; i++) {
        if (shape->program->ops[i].kind != OP_SEND || asked[shape->messages.peer_of[i]])
            continue;
        asked[shape->messages.peer_of[i]] = true;
        uint32_t peer = peers[shape->messages.peer_of[i]].instance;
        if (!topology_route(sought->topology, gpu_of(prediction, instance), gpu_of(prediction, peer), route, NULL))
            continue;
        for (size_t l = 0; l < route->n_links; l++)
            if (is_sought(sought, route->links[l]))
                return true;
    }
    return false;
}

static bool any_message_crosses(const struct prediction *prediction, const struct sought *sought)
{
    const struct ensemble *whole = &prediction->whole;
    uint32_t most_peers = 0;
    for (uint32_t s = 0; s < whole->n_shapes; s++)
        most_peers = whole->shapes[s].messages.n_peers > most_peers ? whole->shapes[s].messages.n_peers : most_peers;
    bool *asked = memory_zeroed((size_t)most_peers + 1, sizeof *asked), crosses = false;
    struct route route;
    route_init(&route);
    for (uint32_t i = 0; i < whole->n_instances && !crosses; i++)
        crosses = rank_crosses(prediction, i, sought, asked, &route);
    route_fini(&route);
    free(asked);
    return crosses;
}

/* With the override's NICs in place, if that is what it is about. */
static bool links_are_idle(const struct prediction *prediction, uint32_t number)
{
    struct topology built = prediction->topology;
    struct override_set *set = &built.overrides;
    const struct link_override *links = set->links;
    set->links = memory_zeroed(set->n_links, sizeof *set->links);
    for (size_t i = 0; i < set->n_links; i++) {
        set->links[i] = links[i];
        if (links[i].number != number || !links[i].missing)
            continue;
        set->links[i].missing = false;
        set->n_missing--;
    }
    const struct sought sought = {.topology = &built, .number = number};
    bool idle = !any_message_crosses(prediction, &sought);
    free(set->links);
    return idle;
}

static bool no_rank_is_on(const struct prediction *prediction, const struct gpu_override *gpus)
{
    for (uint32_t i = 0; i < prediction->whole.n_instances; i++) {
        uint64_t gpu = gpu_of(prediction, i);
        if (gpu >= gpus->first && gpu <= gpus->last)
            return false;
    }
    return true;
}

uint32_t overrides_count(const struct topology *topology)
{
    uint32_t count = 0;
    for (size_t i = 0; topology->document && i < topology->document->n_sections; i++)
        count += strncmp(topology->document->sections[i].name, "override ", 9) == 0;
    return count;
}

bool override_is_idle(const struct prediction *prediction, uint32_t number)
{
    const struct override_set *set = &prediction->topology.overrides;
    bool of_gpus = false;
    for (size_t i = 0; i < set->n_gpus; i++) {
        if (set->gpus[i].number != number)
            continue;
        of_gpus = true;
        if (!no_rank_is_on(prediction, &set->gpus[i]))
            return false;
    }
    return of_gpus || links_are_idle(prediction, number);
}

bool graph_link_is_idle(const struct prediction *prediction, const char *section)
{
    const struct graph *graph = prediction->topology.graph;
    for (size_t i = 0; graph && i < graph->n_cables; i++) {
        const struct sought sought = {.topology = &prediction->topology, .cable = &graph->cables[i]};
        if (strcmp(graph->cables[i].section->name, section) == 0)
            return !any_message_crosses(prediction, &sought);
    }
    return false;
}

/* Whether `text` sets a key of that section. */
static bool sets_key_of(const char *text, const char *section)
{
    size_t length = strlen(section);
    return strncmp(text, section, length) == 0 && text[length] == '.';
}

static void note_sections(const struct prediction *prediction, const struct question *question,
                          struct diagnostics *notes)
{
    const struct ini_document *document = prediction->topology.document;
    uint32_t number = 0;
    for (size_t s = 0; document && s < document->n_sections; s++) {
        const char *section = document->sections[s].name;
        bool override = strncmp(section, "override ", 9) == 0, link = strncmp(section, "link ", 5) == 0, idle = false;
        uint32_t own_number = number;
        number += override;
        for (size_t i = 0; i < question->n_overrides && (override || link); i++) {
            if (!sets_key_of(question->overrides[i], section))
                continue;
            idle =
                idle || (override ? override_is_idle(prediction, own_number) : graph_link_is_idle(prediction, section));
            if (!idle)
                break;
            diagnostics_add(notes, "--set %s: has no effect, no rank and no message uses what [%s] is about",
                            question->overrides[i], section);
        }
    }
}

/* The level that an override is about, its size apart, which is about how many GPUs there are; NULL: none. */
static const struct level *level_of_override(const struct topology *topology, const char *text)
{
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        const struct level *level = &topology->levels[k];
        size_t length = strlen(level->name);
        if (strncmp(text, "level ", 6) == 0 && strncmp(text + 6, level->name, length) == 0 && text[6 + length] == '.')
            return strncmp(text + 7 + length, "size", 4) == 0 ? NULL : level;
    }
    return NULL;
}

void idle_overrides_note(const struct prediction *prediction, const struct question *question,
                         struct diagnostics *notes)
{
    for (size_t i = 0; i < question->n_overrides; i++) {
        const struct level *level = level_of_override(&prediction->topology, question->overrides[i]);
        bool crossed = false;
        for (uint32_t k = 0; level && k < prediction->report.n_links; k++)
            crossed |= strcmp(prediction->report.links[k].name, level->name) == 0;
        if (level && !crossed)
            diagnostics_add(notes, "--set %s: has no effect, no message crosses level '%s'", question->overrides[i],
                            level->name);
    }
    note_sections(prediction, question, notes);
}
