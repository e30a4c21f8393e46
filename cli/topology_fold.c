/* topology_fold.c - how much of a large cluster is drawn, and what of the whole each thing in the drawing is. */
#include "cli/topology_layout_parts.h"

#define NONE UINT32_MAX

uint32_t topology_layout_coordinates(const struct level *level, uint64_t member, uint32_t at[TORUS_DIMENSIONS_MAX])
{
    if (level->kind == LEVEL_DRAGONFLY) {
        at[0] = (uint32_t)(member / level->torus[1]);
        at[1] = (uint32_t)(member % level->torus[1]);
        return level->n_torus;
    }
    for (uint32_t d = 0; d < level->n_torus; d++) {
        at[d] = (uint32_t)(member % level->torus[d]);
        member /= level->torus[d];
    }
    return level->n_torus;
}

static uint64_t member_at(const struct level *level, const uint32_t *at)
{
    uint64_t member = 0;
    if (level->kind == LEVEL_DRAGONFLY)
        return (uint64_t)at[0] * level->torus[1] + at[1];
    for (uint32_t d = level->n_torus; d-- > 0;)
        member = member * level->torus[d] + at[d];
    return member;
}

/* Members of a level that are drawn at most, and how many then are. */
static void limits(const struct topology *topology, uint32_t k, uint32_t *most, uint32_t *fewer)
{
    bool alone = topology->n_levels == 1;
    *most = 8;
    *fewer = 5;
    if (k > 0)
        return;
    switch (topology->levels[0].kind) {
    case LEVEL_SWITCH:
        *most = alone ? 96 : 16;
        *fewer = alone ? 48 : 8;
        break;
    case LEVEL_MESH:
        *most = alone ? 20 : 8;
        *fewer = alone ? 12 : 8;
        break;
    case LEVEL_RING:
        *most = alone ? 36 : 12;
        *fewer = alone ? 24 : 8;
        break;
    case LEVEL_TORUS:
    case LEVEL_DRAGONFLY:
    case LEVEL_GRAPH:
        break;
    }
}

bool layout_has_dimensions(const struct level *level)
{
    return level->kind == LEVEL_TORUS || level->kind == LEVEL_DRAGONFLY;
}

static void fold_torus(struct topology_layout *layout, uint32_t k)
{
    struct level *level = &layout->drawn.levels[k];
    uint32_t most = level->kind == LEVEL_TORUS && level->n_torus == 2 ? (k ? 5 : 8) : 4,
             fewer = most - (most == 8 ? 2 : 0);
    level->size = 1;
    for (uint32_t d = 0; d < level->n_torus; d++) {
        if (level->torus[d] > most) {
            level->torus[d] = fewer;
            layout->torus_gap[k][d] = fewer - 2;
            layout->folded = true;
        }
        level->size *= level->torus[d];
    }
}

/* NICs of a member of `drawn` GPUs in place of `whole`: as many to a GPU, and of several a first, a last and one that
 * stands for those between. */
static uint32_t fold_nics(uint32_t nics, uint64_t whole, uint64_t drawn)
{
    enum { FIRST_MIDDLE_LAST = 3 };
    uint64_t fewer = (nics * drawn + whole / 2) / whole, least = nics < FIRST_MIDDLE_LAST ? nics : FIRST_MIDDLE_LAST;
    fewer = fewer < least ? least : fewer;
    return (uint32_t)(fewer > drawn ? drawn : fewer);
}

/* What is said of single nodes and links is about the whole. */
static void make_alike(struct topology *drawn, const struct topology *whole)
{
    drawn->places = (struct places){0};
    drawn->overrides = (struct override_set){0};
    uint64_t member = 1;
    for (uint32_t k = 0; k < drawn->n_levels; k++) {
        struct level *level = &drawn->levels[k];
        level->sizes = NULL;
        if (level->nics)
            level->nics = fold_nics(level->nics, whole->wiring[k].member, member);
        member *= level->size;
    }
    topology_count(drawn);
}

void layout_fold(struct topology_layout *layout, const struct topology *whole)
{
    layout->whole = whole;
    layout->drawn = *whole;
    for (uint32_t k = 0; k < whole->n_levels; k++) {
        layout->gap[k] = NONE;
        for (uint32_t d = 0; d < TORUS_DIMENSIONS_MAX; d++)
            layout->torus_gap[k][d] = NONE;
    }
    for (uint32_t k = 0; k < whole->n_levels && !whole->graph; k++) {
        struct level *level = &layout->drawn.levels[k];
        uint32_t most, fewer;
        limits(whole, k, &most, &fewer);
        if (layout_has_dimensions(level)) {
            fold_torus(layout, k);
        } else if (level->size > most) {
            level->size = fewer;
            layout->gap[k] = fewer - 2;
            layout->folded = true;
            if (level->kind == LEVEL_RING)
                level->torus[0] = fewer;
        }
    }
    if (layout->folded)
        make_alike(&layout->drawn, whole);
}

bool layout_is_gap(const struct topology_layout *layout, uint32_t k, uint64_t member)
{
    const struct level *level = &layout->drawn.levels[k];
    if (!layout_has_dimensions(level))
        return member == layout->gap[k];
    uint32_t at[TORUS_DIMENSIONS_MAX], n = topology_layout_coordinates(level, member, at);
    for (uint32_t d = 0; d < n; d++)
        if (at[d] == layout->torus_gap[k][d])
            return true;
    return false;
}

/* The member of the whole level that a drawn one is; of a gap, the first that is left out. */
static uint64_t whole_member(const struct topology_layout *layout, uint32_t k, uint64_t member)
{
    const struct level *drawn = &layout->drawn.levels[k], *whole = &layout->whole->levels[k];
    if (!layout_has_dimensions(drawn))
        return member + 1 == drawn->size ? whole->size - 1 : member;
    uint32_t at[TORUS_DIMENSIONS_MAX], n = topology_layout_coordinates(drawn, member, at);
    for (uint32_t d = 0; d < n; d++)
        if (at[d] + 1 == drawn->torus[d])
            at[d] = whole->torus[d] - 1;
    return member_at(whole, at);
}

uint64_t topology_layout_instance(const struct topology_layout *layout, uint32_t level, uint64_t number)
{
    uint64_t whole = 0, weight = 1;
    for (uint32_t k = level + 1; k < layout->drawn.n_levels; k++) {
        uint32_t size = layout->drawn.levels[k].size;
        whole += whole_member(layout, k, number % size) * weight;
        weight *= layout->whole->levels[k].size;
        number /= size;
    }
    return whole;
}

uint64_t topology_layout_place(const struct topology_layout *layout, uint64_t place)
{
    if (layout->whole->graph)
        return place;
    uint32_t size = layout->drawn.levels[0].size;
    return topology_layout_instance(layout, 0, place / size) * layout->whole->levels[0].size +
           whole_member(layout, 0, place % size);
}

/* Whether a member of level `outer`, counted over the whole drawing, is or is inside what stands for those left out. */
static bool is_left_out(const struct topology_layout *layout, uint32_t outer, uint64_t number)
{
    for (uint32_t k = outer; k < layout->drawn.n_levels; k++) {
        uint32_t size = layout->drawn.levels[k].size;
        if (layout_is_gap(layout, k, number % size))
            return true;
        number /= size;
    }
    return false;
}

uint64_t topology_layout_lane(const struct topology_layout *layout, uint32_t k, uint64_t lane)
{
    const struct wiring *drawn = &layout->drawn.wiring[k], *whole = &layout->whole->wiring[k];
    if (drawn->lanes == whole->lanes)
        return lane;
    if (drawn->lanes == drawn->lane_member && whole->lanes == whole->lane_member)
        return is_left_out(layout, 0, lane) ? UINT64_MAX : topology_layout_place(layout, lane) % whole->lane_member;
    return lane == 0 ? 0 : lane + 1 == drawn->lanes ? whole->lanes - 1 : UINT64_MAX;
}

bool topology_layout_end(const struct topology_layout *layout, struct link_end end, struct link_end *whole)
{
    const struct topology *drawn = &layout->drawn;
    *whole = end;
    if (end.kind == LINK_END_GPU) {
        whole->number = topology_layout_place(layout, end.number);
        return !is_left_out(layout, 0, end.number);
    }
    /* A NIC is of a member, an instance of the level inside; a switch is of an instance. */
    bool nic = end.kind == LINK_END_NIC, is_switch = end.kind == LINK_END_SWITCH;
    uint64_t parts = nic         ? topology_level_lanes(drawn, end.level)
                     : is_switch ? topology_level_switches(drawn, end.level)
                                 : 1;
    uint64_t instance = end.number / parts, lane = 0, whole_parts = 1;
    if (parts > 1) {
        lane = topology_layout_lane(layout, end.level, end.number % parts);
        whole_parts = topology_level_lanes(layout->whole, end.level);
    }
    uint32_t level = nic ? end.level - 1 : end.level;
    whole->number = topology_layout_instance(layout, level, instance) * whole_parts + lane;
    return lane != UINT64_MAX && !is_left_out(layout, level + 1, instance);
}

uint64_t topology_layout_left_out(const struct topology_layout *layout, uint32_t level)
{
    uint64_t shown = 0;
    for (uint64_t member = 0; member < layout->drawn.levels[level].size; member++)
        shown += !layout_is_gap(layout, level, member);
    return layout->whole->levels[level].size - shown;
}
