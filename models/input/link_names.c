/* link_names.c - links by name, as messages, traces and overrides have them. */
#include <inttypes.h>
#include <stdio.h>

#include "models/input/cables.h"
#include "models/input/graph.h"
#include "models/input/route.h"

#define END_NAME_SIZE 96

static void gpu_name(const struct topology *topology, uint64_t place, char *text, size_t size)
{
    uint64_t gpu;
    if (places_gpu(&topology->places, place, &gpu))
        snprintf(text, size, "gpu %" PRIu64, gpu);
    else
        snprintf(text, size, "absent %" PRIu64, place);
}

/* The end of a cable or port: member number `member` of set `set`. */
static void end_name(const struct topology *topology, uint32_t k, uint64_t set, uint64_t member, char *text,
                     size_t size)
{
    const struct wiring *w = &topology->wiring[k];
    uint64_t number = set / w->lanes * w->size + member, lane = set % w->lanes;
    if (wiring_ends_are_gpus(topology, k))
        gpu_name(topology, number * w->member + lane, text, size);
    else if (w->lanes == 1)
        snprintf(text, size, "%s %" PRIu64, topology->levels[k - 1].name, number);
    else
        snprintf(text, size, "%s %" PRIu64 " %s %" PRIu64, topology->levels[k - 1].name, number,
                 topology->levels[k].attach == ATTACH_SWITCH ? "rail" : "nic", lane);
}

void topology_link_name(const struct topology *topology, uint64_t link, char *text, size_t size)
{
    if (topology->graph) {
        graph_link_name(topology, link, text, size);
        return;
    }
    struct link_place at = wiring_locate(topology, link);
    const struct level *level = &topology->levels[at.level];
    char one[END_NAME_SIZE], other[END_NAME_SIZE], way[16] = "";
    if (level->kind == LEVEL_SWITCH) {
        end_name(topology, at.level, at.set, at.cable, one, sizeof one);
        if (topology->wiring[at.level].parallel > 1)
            snprintf(way, sizeof way, "/%" PRIu32, at.way);
        snprintf(text, size, "%s: %s%s%s", level->name, one,
                 level->half_duplex         ? ""
                 : at.direction == BACKWARD ? " down"
                                            : " up",
                 way);
        return;
    }
    uint64_t a, b;
    cables_ends(level, at.cable, &a, &b);
    bool backward = at.direction == BACKWARD;
    end_name(topology, at.level, at.set, backward ? b : a, one, sizeof one);
    end_name(topology, at.level, at.set, backward ? a : b, other, sizeof other);
    snprintf(text, size, "%s: %s %s %s", level->name, one, level->half_duplex ? "-" : "to", other);
}

/* Whether any GPU of the lane of set `set` in the member is there. */
static bool lane_is_there(const struct topology *topology, uint32_t k, uint64_t set, uint64_t member)
{
    const struct wiring *w = &topology->wiring[k];
    uint64_t first = (set / w->lanes * w->size + member) * w->member, found;
    return wiring_gpu_of_lane(topology, k, first, set % w->lanes, &found);
}

bool link_is_absent(const struct topology *topology, const struct link_place *at)
{
    uint64_t a, b = at->cable;
    if (topology->places.n_runs == 0)
        return false;
    if (topology->levels[at->level].kind != LEVEL_SWITCH)
        cables_ends(&topology->levels[at->level], at->cable, &a, &b);
    return !lane_is_there(topology, at->level, at->set, b); /* members fill from the front: the higher end tells */
}
