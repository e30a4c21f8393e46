/* topology_layout.c - folds, then places from the inside out: a member's size decides its level's.
 *
 * Members of a switch stand in a row with the switch above, or below where the next level's cables leave from the GPUs
 * (they go up, between GPU and rail, and must not cross the switch); very many GPUs stand in two rows with the switch
 * between. GPUs of a ring or mesh stand on a circle, groups in a row whose cables are arcs above. A torus is a grid;
 * its third dimension goes back obliquely, its fourth is grids side by side. A dragonfly is a circle of circles, a
 * graph circles inside each other.
 */
#include <math.h>
#include <stdlib.h>

#include "cli/topology_layout_parts.h"
#include "models/base/memory.h"

#define GPU_PITCH 38.0 /* of GPUs in a row */
#define MEMBER_GAP 26.0
#define NAME 24.0 /* under the content of an open member */
#define CLOSED_WIDTH 92.0
#define CLOSED_HEIGHT 58.0
#define GRID_PITCH 70.0
#define DEPTH_X 46.0 /* of a torus' third dimension, per step */
#define DEPTH_Y 40.0
#define OPEN_GPUS_MAX 40 /* more are not drawn all open */

/* What one open instance looks like, positions relative to its corner. */
struct arrangement {
    struct layout_box *members; /* boxes of its members */
    struct layout_box joint;    /* the switch's */
    double width, height;
};

static void arrange(const struct topology_layout *layout, uint32_t k, uint64_t number, struct arrangement *a);

static enum layout_shown shown_as(const struct topology_layout *layout, uint32_t k, uint64_t number)
{
    if (k + 1 == layout->drawn.n_levels)
        return SHOWN_OPEN;
    uint64_t member = number % layout->drawn.levels[k + 1].size;
    if (layout_is_gap(layout, k + 1, member))
        return SHOWN_GAP;
    return layout->all_open || member == 0 ? SHOWN_OPEN : SHOWN_CLOSED;
}

/* Width and height of member `number` (counted over the whole level below) of level k. */
static void member_size(const struct topology_layout *layout, uint32_t k, uint64_t number, struct layout_box *box)
{
    if (k == 0) {
        box->width = box->height = LAYOUT_GPU;
    } else if (shown_as(layout, k - 1, number) == SHOWN_OPEN) {
        struct arrangement inside;
        arrange(layout, k - 1, number, &inside);
        free(inside.members);
        box->width = inside.width;
        box->height = inside.height;
    } else {
        box->width = CLOSED_WIDTH;
        box->height = CLOSED_HEIGHT;
    }
}

static bool cables_leave_from_gpus(const struct topology_layout *layout, uint32_t k)
{
    return k + 1 < layout->drawn.n_levels && topology_port_end(&layout->drawn, k + 1, 0).kind == LINK_END_GPU;
}

/* Two rows, the switch between: GPUs alone, and only where nothing leaves them. */
static bool in_two_rows(const struct topology_layout *layout, uint32_t k)
{
    return k == 0 && layout->drawn.n_levels == 1 && layout->drawn.levels[0].size > 24;
}

static void arrange_rows(const struct topology_layout *layout, uint32_t k, struct arrangement *a)
{
    const struct level *level = &layout->drawn.levels[k];
    uint32_t rows = in_two_rows(layout, k) ? 2 : 1, per_row = (level->size + rows - 1) / rows;
    double gap = k ? MEMBER_GAP : GPU_PITCH - LAYOUT_GPU, tallest = 0;
    bool has_switch = topology_level_switches(&layout->drawn, k) > 0;
    bool below = has_switch && rows == 1 && cables_leave_from_gpus(layout, k);
    double arcs = level->kind == LEVEL_MESH ? 40 + 14 * (double)level->size : 80;
    double above = below || rows == 2 ? 0 : has_switch ? LAYOUT_SWITCH + (k ? 90 : 50) : arcs;
    for (uint32_t m = 0; m < level->size; m++)
        tallest = fmax(tallest, a->members[m].height);
    for (uint32_t row = 0; row < rows; row++) {
        double x = LAYOUT_PADDING;
        for (uint32_t m = row * per_row; m < level->size && m < (row + 1) * per_row; m++) {
            a->members[m].x = x;
            a->members[m].y = LAYOUT_PADDING + above + row * (LAYOUT_GPU + 140 + LAYOUT_SWITCH);
            x += a->members[m].width + gap;
        }
        a->width = fmax(a->width, x - gap + LAYOUT_PADDING);
    }
    bool rails = topology_level_lanes(&layout->drawn, k) > 1; /* their cables fan out anyway */
    double joint = fmax(LAYOUT_GPU, (a->width - 2 * LAYOUT_PADDING) * (rails ? 0.7 : 1));
    a->joint = (struct layout_box){(a->width - joint) / 2, LAYOUT_PADDING, joint, LAYOUT_SWITCH};
    if (below)
        a->joint.y = LAYOUT_PADDING + tallest + 44;
    if (rows == 2)
        a->joint.y = LAYOUT_PADDING + LAYOUT_GPU + 70;
    a->height = below       ? a->joint.y + LAYOUT_SWITCH + LAYOUT_PADDING
                : rows == 2 ? 2 * LAYOUT_PADDING + 2 * LAYOUT_GPU + 140 + LAYOUT_SWITCH
                            : LAYOUT_PADDING + above + tallest + LAYOUT_PADDING;
}

static void arrange_circle(const struct level *level, struct arrangement *a)
{
    double n = level->size,
           radius = n < 2 ? 0 : fmax(n == 2 ? 40 : 64, n * (level->kind == LEVEL_MESH ? 80 : 56) / (2 * M_PI));
    double first = level->size == 2 ? M_PI : M_PI / 2; /* two lie side by side */
    for (uint32_t m = 0; m < level->size; m++) {
        double angle = first - 2 * M_PI * m / n;
        a->members[m].x = LAYOUT_PADDING + radius + radius * cos(angle);
        a->members[m].y = LAYOUT_PADDING + radius - radius * sin(angle);
    }
    a->width = a->height = 2 * LAYOUT_PADDING + 2 * radius + LAYOUT_GPU;
}

/* A circle of circles: groups of a dragonfly, each with its routers. The first router, at the top, may be open: it then
 * reaches up from its place. */
static void arrange_groups(const struct level *level, struct arrangement *a)
{
    uint32_t groups = level->torus[0], routers = level->torus[1];
    struct layout_box *first = &a->members[0], *last = &a->members[level->size - 1];
    double side = fmax(last->width, last->height), small = routers < 2 ? 0 : fmax(0.8, routers * 0.24) * side;
    double group_side = 2 * small + side, large = groups < 2 ? 0 : fmax(0.7, groups * 0.19) * group_side;
    double reach = large + small + side / 2, above = fmax(0, first->height - side);
    double middle = LAYOUT_PADDING + fmax(reach, first->width / 2);
    for (uint32_t m = 0; m < level->size; m++) {
        double group = M_PI / 2 - 2 * M_PI * (m / routers) / groups;
        double router = group + 2 * M_PI * (m % routers) / routers;
        double x = middle + large * cos(group) + small * cos(router);
        double y = LAYOUT_PADDING + above + reach - large * sin(group) - small * sin(router);
        a->members[m].x = x - a->members[m].width / 2;
        a->members[m].y = y + (m == 0 ? side / 2 - first->height : -a->members[m].height / 2);
    }
    a->width = 2 * middle;
    a->height = 2 * LAYOUT_PADDING + above + 2 * reach;
}

/* Columns are as wide, rows as high, as their largest member. */
static void arrange_grid(const struct topology_layout *layout, uint32_t k, struct arrangement *a)
{
    const struct level *level = &layout->drawn.levels[k];
    uint32_t depth = level->n_torus > 2 ? level->torus[2] : 1, copies = level->n_torus > 3 ? level->torus[3] : 1;
    double back_x = DEPTH_X * (depth - 1), back_y = DEPTH_Y * (depth - 1), widest = 0, tallest = 0;
    for (uint32_t m = 1; m < level->size; m++) {
        widest = fmax(widest, a->members[m].width);
        tallest = fmax(tallest, a->members[m].height);
    }
    double pitch_x = k ? widest + 50 + back_x : GRID_PITCH + back_x;
    double pitch_y = k ? tallest + 50 + back_y : GRID_PITCH + back_y;
    double more_x = fmax(0, a->members[0].width - widest), more_y = fmax(0, a->members[0].height - tallest);
    double copy = more_x + pitch_x * level->torus[0] + back_x + 30, margin = LAYOUT_PADDING + 26;
    for (uint32_t m = 0; m < level->size; m++) {
        uint32_t at[TORUS_DIMENSIONS_MAX] = {0};
        topology_layout_coordinates(level, m, at);
        a->members[m].x = margin + (at[0] ? more_x : 0) + pitch_x * at[0] + DEPTH_X * at[2] + copy * at[3];
        a->members[m].y = margin + back_y + (at[1] ? more_y : 0) + pitch_y * at[1] - DEPTH_Y * at[2];
    }
    a->width = 2 * margin + copy * copies - 30 - (pitch_x - widest - back_x);
    a->height = 2 * margin + back_y + more_y + pitch_y * level->torus[1] - (pitch_y - tallest);
}

static void arrange(const struct topology_layout *layout, uint32_t k, uint64_t number, struct arrangement *a)
{
    const struct level *level = &layout->drawn.levels[k];
    *a = (struct arrangement){.members = memory_zeroed(level->size, sizeof *a->members)};
    for (uint32_t m = 0; m < level->size; m++)
        member_size(layout, k, number * level->size + m, &a->members[m]);
    if (level->kind == LEVEL_TORUS)
        arrange_grid(layout, k, a);
    else if (level->kind == LEVEL_DRAGONFLY)
        arrange_groups(level, a);
    else if (k == 0 && topology_level_switches(&layout->drawn, 0) == 0)
        arrange_circle(level, a);
    else
        arrange_rows(layout, k, a);
    if (k + 1 < layout->drawn.n_levels)
        a->height += NAME;
}

/* What is in something closed: points side by side on its upper edge, or, where cables come from all sides, in its
 * middle. */
static void hide(struct topology_layout *layout, uint32_t k, uint64_t number, struct layout_box box)
{
    double y = layout_has_dimensions(&layout->drawn.levels[k + 1]) ? box.y + box.height / 2 : box.y;
    uint64_t gpus = topology_level_places(&layout->drawn, k), first = number * gpus;
    for (uint64_t i = 0; i < gpus; i++)
        layout->gpus[first + i] =
            (struct layout_item){{box.x + box.width * ((double)i + 0.5) / (double)gpus, y, 0, 0}, SHOWN_HIDDEN};
    for (uint32_t j = 0; j < k; j++) {
        uint64_t inside = gpus / topology_level_places(&layout->drawn, j);
        for (uint64_t i = 0; i < inside; i++)
            layout->instances[j][number * inside + i] =
                (struct layout_item){{box.x + box.width * ((double)i + 0.5) / (double)inside, y, 0, 0}, SHOWN_HIDDEN};
    }
}

static void place(struct topology_layout *layout, uint32_t k, uint64_t number, double x, double y)
{
    struct arrangement a;
    arrange(layout, k, number, &a);
    layout->instances[k][number] = (struct layout_item){{x, y, a.width, a.height}, SHOWN_OPEN};
    layout->switches[k][number] = (struct layout_box){x + a.joint.x, y + a.joint.y, a.joint.width, a.joint.height};
    uint32_t size = layout->drawn.levels[k].size;
    for (uint32_t m = 0; m < size; m++) {
        uint64_t member = number * size + m;
        struct layout_box box = a.members[m];
        box.x += x;
        box.y += y;
        if (k == 0) {
            layout->gpus[member] = (struct layout_item){box, layout_is_gap(layout, 0, m) ? SHOWN_GAP : SHOWN_OPEN};
        } else if (shown_as(layout, k - 1, member) == SHOWN_OPEN) {
            place(layout, k - 1, member, box.x, box.y);
        } else {
            layout->instances[k - 1][member] = (struct layout_item){box, shown_as(layout, k - 1, member)};
            hide(layout, k - 1, member, box);
        }
    }
    free(a.members);
}

void topology_layout_make(struct topology_layout *layout, const struct topology *whole)
{
    *layout = (struct topology_layout){0};
    layout_fold(layout, whole);
    const struct topology *drawn = &layout->drawn;
    uint64_t places = topology_places(drawn);
    layout->all_open = drawn->n_levels == 1 || places <= OPEN_GPUS_MAX;
    layout->gpus = memory_zeroed(places, sizeof *layout->gpus);
    for (uint32_t k = 0; k < drawn->n_levels; k++) {
        uint64_t instances = topology_level_instances(drawn, k), switches = topology_level_switches(drawn, k);
        layout->instances[k] = memory_zeroed(instances, sizeof *layout->instances[k]);
        layout->switches[k] = memory_zeroed(drawn->graph ? switches : instances, sizeof *layout->switches[k]);
    }
    if (drawn->graph) {
        layout_place_graph(layout);
        return;
    }
    uint32_t outermost = drawn->n_levels - 1;
    place(layout, outermost, 0, 0, 0);
    layout->width = layout->instances[outermost][0].box.width;
    layout->height = layout->instances[outermost][0].box.height;
}

void topology_layout_fini(struct topology_layout *layout)
{
    free(layout->gpus);
    for (uint32_t k = 0; k < LEVELS_MAX; k++) {
        free(layout->instances[k]);
        free(layout->switches[k]);
    }
    *layout = (struct topology_layout){0};
}
