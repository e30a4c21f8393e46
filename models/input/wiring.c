/* wiring.c - arithmetic on the levels, nothing stored but a few numbers per level. */
#include "models/input/wiring.h"

#include "models/input/cables.h"
#include "models/input/topology.h"

/* The level whose switch a GPU's port into level k hangs on, or -1 when the port sits on the GPU itself. */
static int switch_below(const struct topology *topology, uint32_t k)
{
    for (; k > 0; k--) {
        const struct level *level = &topology->levels[k], *inner = &topology->levels[k - 1];
        bool inner_switch = inner->kind == LEVEL_SWITCH;
        if (level->attach == ATTACH_RAIL && (k == 1 || level->nics || level->kind != LEVEL_SWITCH || !inner_switch))
            return -1;
        if (inner_switch)
            return (int)k - 1;
    }
    return -1;
}

bool wiring_ends_are_gpus(const struct topology *topology, uint32_t k)
{
    return k == 0 ||
           (topology->wiring[k].lanes == topology->wiring[k].member && topology->levels[k].attach == ATTACH_RAIL);
}

bool wiring_has_nics(const struct topology *topology, uint32_t k)
{
    const struct level *level = &topology->levels[k];
    return k > 0 && level->kind == LEVEL_SWITCH && level->attach == ATTACH_RAIL && topology->wiring[k].below < 0;
}

static void shape_lanes(const struct topology *topology, uint32_t k, struct wiring *w)
{
    const struct level *level = &topology->levels[k];
    w->lanes = 1;
    w->lane_member = w->member;
    if (k > 0 && level->attach == ATTACH_RAIL) {
        w->lanes = level->nics ? level->nics : w->member;
    } else if (k > 0 && level->attach == ATTACH_SWITCH && topology->levels[k - 1].cross_rail != CROSS_RAIL_LEAF) {
        w->lanes = topology->wiring[k - 1].lanes;
        w->lane_member = topology->wiring[k - 1].lane_member;
    }
}

void wiring_shape(const struct topology *topology, uint32_t k, struct wiring *w)
{
    const struct level *level = &topology->levels[k];
    *w = (struct wiring){.size = level->size, .member = 1, .parallel = 1, .directions = level->half_duplex ? 1 : 2};
    if (k > 0)
        w->member = topology->wiring[k - 1].member * topology->levels[k - 1].size;
    shape_lanes(topology, k, w);
    w->cables = level->kind == LEVEL_SWITCH ? level->size : cables_count(level);
    if (level->kind == LEVEL_SWITCH && level->uplinks > 1 && level->routing != ROUTING_ADAPTIVE)
        w->parallel = level->uplinks;
    w->below = switch_below(topology, k);
}

/* Ways up lead through `below` to a level whose ports sit on the GPUs; are they NICs? */
static int nic_level(const struct topology *topology, uint32_t k)
{
    while (topology->wiring[k].below >= 0)
        k = (uint32_t)topology->wiring[k].below;
    return wiring_has_nics(topology, k) ? (int)k : -1;
}

bool topology_count(struct topology *topology)
{
    uint64_t places = 1, first = 0;
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        wiring_shape(topology, k, &topology->wiring[k]);
        places *= topology->levels[k].size;
        if (places > TOPOLOGY_GPUS_MAX)
            return false;
    }
    for (uint32_t k = 0; k < topology->n_levels; k++) {
        struct wiring *w = &topology->wiring[k];
        w->nic = nic_level(topology, k);
        w->first = first;
        w->links = places / (w->member * w->size) * w->lanes * w->cables * w->parallel * w->directions;
        first += w->links;
    }
    topology->n_links = first;
    topology->n_gpus = topology->places.n_runs ? topology->places.n_gpus : places;
    return true;
}

struct link_place wiring_locate(const struct topology *topology, uint64_t link)
{
    struct link_place at = {0};
    while (at.level + 1 < topology->n_levels && link >= topology->wiring[at.level + 1].first)
        at.level++;
    const struct wiring *w = &topology->wiring[at.level];
    uint64_t number = link - w->first;
    at.direction = w->directions == 2 && number % 2 == BACKWARD ? BACKWARD : FORWARD;
    number /= w->directions;
    at.way = (uint32_t)(number % w->parallel);
    number /= w->parallel;
    at.cable = number % w->cables;
    at.set = number / w->cables;
    return at;
}

double wiring_bytes_per_s(const struct level *level, uint64_t cable)
{
    if (level->kind == LEVEL_DRAGONFLY && level->global_bytes_per_s > 0 && cables_is_global(level, cable))
        return level->global_bytes_per_s;
    bool fat = level->kind == LEVEL_SWITCH && level->routing == ROUTING_ADAPTIVE && level->uplinks > 1;
    return fat ? level->uplinks * level->bytes_per_s : level->bytes_per_s;
}

double wiring_latency_seconds(const struct level *level, uint64_t cable)
{
    bool global = level->kind == LEVEL_DRAGONFLY && cables_is_global(level, cable);
    return global ? level->global_latency_seconds : level->latency_seconds;
}

bool wiring_gpu_of_lane(const struct topology *topology, uint32_t k, uint64_t place, uint64_t lane, uint64_t *found)
{
    const struct wiring *w = &topology->wiring[k];
    uint64_t first = place / w->member * w->member, gpu;
    uint64_t begin = (lane * w->lane_member + w->lanes - 1) / w->lanes;
    uint64_t end = ((lane + 1) * w->lane_member + w->lanes - 1) / w->lanes;
    for (uint64_t group = 0; group < w->member; group += w->lane_member) {
        for (uint64_t at = begin; at < end; at++) {
            *found = first + group + at;
            if (places_gpu(&topology->places, *found, &gpu))
                return true;
        }
    }
    return false;
}
