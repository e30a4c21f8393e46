/* topology_anchors.c - where cables meet what they end at. */
#include <math.h>

#include "cli/topology_drawing.h"

/* The instance that a switch of a level is in. */
static uint64_t instance_of_switch(const struct topology *drawn, struct link_end end)
{
    return end.number / topology_level_switches(drawn, end.level);
}

#define NIC_HEIGHT 5.0

/* A NIC that several GPUs share lies above them; as one of something closed it is a point. */
static struct layout_item item_of_nic(const struct topology_layout *layout, struct link_end end)
{
    const struct wiring *w = &layout->drawn.wiring[end.level];
    uint64_t first = link_end_place(&layout->drawn, end), last = first;
    while ((last + 1) % w->member && wiring_lane(w, last + 1) == end.number % w->lanes)
        last++;
    struct layout_item item = layout->gpus[first];
    struct layout_box other = layout->gpus[last].box;
    item.box.width = other.x + other.width - item.box.x;
    item.box.y = fmin(item.box.y, other.y);
    item.box.height = 0;
    if (item.shown != SHOWN_HIDDEN) {
        item.box.y -= 1.5 * NIC_HEIGHT;
        item.box.height = NIC_HEIGHT;
    }
    return item;
}

struct layout_item drawing_item(const struct topology_layout *layout, struct link_end end)
{
    if (end.kind == LINK_END_GPU)
        return layout->gpus[end.number];
    if (end.kind == LINK_END_NIC)
        return item_of_nic(layout, end);
    if (layout->drawn.graph)
        return (struct layout_item){layout->switches[0][end.number], SHOWN_OPEN};
    bool is_switch = end.kind == LINK_END_SWITCH;
    return layout->instances[end.level][is_switch ? instance_of_switch(&layout->drawn, end) : end.number];
}

/* The n-th of many cables to one thing has its place on it, from left to right. */
static double spread(struct layout_box box, const struct topology_cable *cable)
{
    return box.x + box.width * (cable->nth + 0.5) / cable->among;
}

/* On something closed: of switches of separate rails, each has its part. */
static double place_on_closed(const struct topology_layout *layout, struct layout_box box,
                              const struct topology_cable *cable, struct link_end end)
{
    uint64_t parts = end.kind == LINK_END_SWITCH ? topology_level_switches(&layout->drawn, end.level) : 1;
    box.width /= (double)parts;
    box.x += box.width * (double)(end.number % parts);
    return spread(box, cable);
}

/* The edge of the box, upper or lower, that faces `towards`; its middle if it is beside. */
static double facing_edge(struct layout_box box, struct point towards)
{
    return towards.y > box.y + box.height ? box.y + box.height : towards.y < box.y ? box.y : box.y + box.height / 2;
}

/* Where a box is met by what comes straight from the side, from above or from below. */
static struct point border_point(struct layout_box box, struct point towards)
{
    double right = box.x + box.width, y = facing_edge(box, towards);
    if (towards.y >= box.y && towards.y <= box.y + box.height)
        return (struct point){towards.x > right ? right : box.x, towards.y};
    return (struct point){fmin(fmax(towards.x, box.x), right), y};
}

/* The rail at which a switch is met from `other`; UINT64_MAX where it has none, or it is met as a whole. */
static uint64_t rail_of(const struct topology_layout *layout, struct link_end end, struct link_end other)
{
    const struct topology *drawn = &layout->drawn;
    uint64_t switches = topology_level_switches(drawn, end.level);
    if (switches > 1)
        return end.number % switches;
    if (topology_level_lanes(drawn, end.level) == 1 || other.level > end.level)
        return UINT64_MAX;
    if (other.kind == LINK_END_GPU)
        return wiring_lane(&drawn->wiring[end.level], other.number);
    if (other.kind == LINK_END_NIC)
        return other.number % drawn->wiring[other.level].lanes;
    uint64_t others = topology_level_switches(drawn, other.level);
    return others == topology_level_lanes(drawn, end.level) ? other.number % others : UINT64_MAX;
}

struct point drawing_anchor(const struct drawing *drawing, const struct topology_cable *cable, int which,
                            struct point towards)
{
    const struct topology_layout *layout = &drawing->layout;
    struct link_end end = cable->ends[which], other = cable->ends[!which];
    struct layout_item item = drawing_item(layout, end);
    enum level_kind kind = layout->drawn.levels[cable->level].kind;
    bool from_all_sides = kind == LEVEL_TORUS || kind == LEVEL_DRAGONFLY;
    struct point at = middle_of(item.box);
    if (layout->drawn.graph)
        return at;
    if (end.kind == LINK_END_GPU || end.kind == LINK_END_NIC || item.shown == SHOWN_HIDDEN) {
        if (kind == LEVEL_SWITCH)
            at.y = facing_edge(item.box, towards);
        else if (cable->level > 0 && !from_all_sides)
            at.y = item.box.y; /* an arc begins there */
        return at;
    }
    if (item.shown != SHOWN_OPEN)
        return (struct point){place_on_closed(layout, item.box, cable, end), from_all_sides ? at.y : item.box.y};
    if (from_all_sides)
        return border_point(item.box, towards);
    if (end.kind == LINK_END_MEMBER)
        return (struct point){spread(item.box, cable), item.box.y};
    struct layout_box box = layout->switches[end.level][instance_of_switch(&layout->drawn, end)];
    at = (struct point){box.x + box.width / 2, facing_edge(box, towards)};
    uint64_t lanes = topology_level_lanes(&layout->drawn, end.level), lane = rail_of(layout, end, other);
    if (lane < lanes) {
        double cell = box.width / (double)lanes;
        at.x = spread((struct layout_box){box.x + cell * (double)lane, 0, cell, 0}, cable);
    } else if (cable->among > 1 || end.level < cable->level) {
        at.x = spread(box, cable);
    } else {
        at.x = fmin(fmax(towards.x, box.x + 8), box.x + box.width - 8);
    }
    return at;
}

bool drawing_hides(const struct drawing *drawing, const struct topology_cable *cable)
{
    const struct topology_layout *layout = &drawing->layout;
    if (layout->drawn.graph)
        return false;
    uint64_t instance =
        link_end_place(&layout->drawn, cable->ends[0]) / topology_level_places(&layout->drawn, cable->level);
    return layout->instances[cable->level][instance].shown != SHOWN_OPEN;
}
