/* plot_topology_things.c - GPUs, switches, NICs and what holds them, with their names where they fit. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot_square.h"
#include "cli/plot_style.h"
#include "cli/topology_drawing.h"
#include "models/input/graph.h"

#define OPEN_FILL "#F7F7F5"
#define GPU_FILL "#FFFFFF"

static void write_box(struct drawing *drawing, struct layout_box box, const char *layer, const char *fill,
                      const char *border)
{
    fprintf(drawing->stream, "set object %d rect from %.6g,%.6g to %.6g,%.6g %s fillcolor '%s' fillstyle solid 1 %s\n",
            ++drawing->objects, x_of(drawing, box.x), y_of(drawing, box.y + box.height),
            x_of(drawing, box.x + box.width), y_of(drawing, box.y), layer, fill, border);
}

static void write_label(const struct drawing *drawing, struct point at, const char *text, int size, const char *color)
{
    fputs("set label ", drawing->stream);
    plot_text(drawing->stream, text);
    fprintf(drawing->stream, " at %.6g,%.6g center front font ',%d' textcolor '%s'\n", x_of(drawing, at.x),
            y_of(drawing, at.y), size, color);
}

/* Pixels that a text takes. */
static double text_width(const struct drawing *drawing, const char *text, int size)
{
    return (double)strlen(text) * (drawing->character > 0 ? drawing->character : size * 0.76);
}

/* A text that is written only where it fits. */
static void write_fitting(const struct drawing *drawing, struct layout_box box, struct point at, const char *text,
                          int size, const char *color)
{
    if (text_width(drawing, text, size) < drawing->scale * box.width && drawing->scale * box.height > size)
        write_label(drawing, at, text, size, color);
}

static void write_gpu(struct drawing *drawing, uint64_t place)
{
    const struct layout_item *item = &drawing->layout.gpus[place];
    struct point middle = middle_of(item->box);
    uint64_t number;
    if (!places_gpu(&drawing->layout.whole->places, topology_layout_place(&drawing->layout, place), &number))
        return;
    if (item->shown == SHOWN_GAP) {
        write_box(drawing, item->box, "front", "#ffffff", "border linecolor '#ffffff'");
        write_label(drawing, middle, "...", 12, PLOT_FAINT);
        return;
    }
    write_box(drawing, item->box, "front", GPU_FILL, "border linecolor '" PLOT_INK "' linewidth 1.5");
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    write_fitting(drawing, item->box, middle, text, strlen(text) > 2 ? 8 : 10, PLOT_INK);
}

/* GPUs that are there. */
static uint64_t gpus_in(const struct topology *topology, uint32_t level, uint64_t instance)
{
    uint64_t places = topology_level_places(topology, level), count = 0, gpu;
    if (topology->places.n_runs == 0)
        return places;
    for (uint64_t place = instance * places; place < (instance + 1) * places; place++)
        count += places_gpu(&topology->places, place, &gpu);
    return count;
}

/* Nobody is in it: its group has fewer members than the level's size. */
static bool is_empty(const struct drawing *drawing, uint32_t k, uint64_t number)
{
    return drawing->layout.instances[k][number].shown != SHOWN_GAP &&
           gpus_in(drawing->layout.whole, k, topology_layout_instance(&drawing->layout, k, number)) == 0;
}

static void write_closed(struct drawing *drawing, uint32_t k, uint64_t number)
{
    const struct layout_item *item = &drawing->layout.instances[k][number];
    const struct topology *whole = drawing->layout.whole;
    struct point at = middle_of(item->box);
    char text[80], inside[40];
    if (item->shown == SHOWN_GAP) {
        write_box(drawing, item->box, "front", "#ffffff", "border linecolor '" PLOT_GREY "' dashtype 3");
        uint32_t up = k + 1;
        enum level_kind kind = drawing->layout.drawn.levels[up].kind;
        if (kind == LEVEL_TORUS || kind == LEVEL_DRAGONFLY)
            snprintf(text, sizeof text, "...");
        else
            snprintf(text, sizeof text, "x %" PRIu64 " more", topology_layout_left_out(&drawing->layout, up));
        write_label(drawing, at, text, 11, PLOT_FAINT);
        return;
    }
    write_box(drawing, item->box, "front", OPEN_FILL, "border linecolor '" PLOT_INK "' linewidth 1.5");
    uint64_t instance = topology_layout_instance(&drawing->layout, k, number), gpus = gpus_in(whole, k, instance);
    snprintf(text, sizeof text, "%s %" PRIu64, whole->levels[k].name, instance);
    snprintf(inside, sizeof inside, "%" PRIu64 " GPU%s", gpus, gpus == 1 ? "" : "s");
    double step = 9;
    at.y -= step;
    write_fitting(drawing, item->box, at, text, 11, PLOT_INK);
    at.y += 2 * step;
    write_fitting(drawing, item->box, at, inside, 10, PLOT_FAINT);
}

/* The box of an open instance, with its name at the bottom; the outermost has none. */
static void write_open(struct drawing *drawing, uint32_t k, uint64_t number)
{
    const struct layout_box box = drawing->layout.instances[k][number].box;
    if (k + 1 == drawing->layout.drawn.n_levels)
        return;
    write_box(drawing, box, "behind", OPEN_FILL, "border linecolor '" PLOT_GREY "'");
    char text[80];
    snprintf(text, sizeof text, "%s %" PRIu64, drawing->layout.whole->levels[k].name,
             topology_layout_instance(&drawing->layout, k, number));
    write_fitting(drawing, box, (struct point){box.x + box.width / 2, box.y + box.height - 18}, text, 12, PLOT_FAINT);
}

/* A rail has its number in the whole cluster. */
static void rail_name(const struct drawing *drawing, uint32_t k, uint64_t lane, char *text, size_t size)
{
    uint64_t whole = topology_layout_lane(&drawing->layout, k, lane);
    if (whole == UINT64_MAX)
        snprintf(text, size, "...");
    else
        snprintf(text, size, "rail %" PRIu64, whole);
}

/* A switch in its level's colour; with rails, a cell for each. */
static void write_switch(struct drawing *drawing, uint32_t k, uint64_t number)
{
    const struct topology *drawn = &drawing->layout.drawn;
    struct layout_box box = drawing->layout.switches[k][number];
    char border[64], text[64];
    snprintf(border, sizeof border, "border linecolor '#ffffff' linewidth 1");
    uint64_t lanes = topology_level_lanes(drawn, k);
    const char *color = plot_square_color(k);
    if (lanes == 1) {
        write_box(drawing, box, "front", color, border);
        snprintf(text, sizeof text, "%s switch", drawn->levels[k].name);
        write_fitting(drawing, box, middle_of(box), text, 11, "#ffffff");
        return;
    }
    for (uint64_t lane = 0; lane < lanes; lane++) {
        struct layout_box cell = box;
        cell.width = box.width / (double)lanes;
        cell.x += cell.width * (double)lane;
        write_box(drawing, cell, "front", color, border);
        rail_name(drawing, k, lane, text, sizeof text);
        write_fitting(drawing, cell, middle_of(cell), text, 10, "#ffffff");
    }
}

/* The switches of a graph have the names that the file gives them. */
static void write_graph_switches(struct drawing *drawing)
{
    const struct topology_layout *layout = &drawing->layout;
    uint64_t count = topology_level_switches(&layout->drawn, 0);
    for (uint64_t i = 0; i < count; i++) {
        struct layout_box box = layout->switches[0][i];
        write_box(drawing, box, "front", PLOT_FAINT, "border linecolor '#ffffff' linewidth 1");
        write_fitting(drawing, box, middle_of(box), graph_switch_name(layout->drawn.graph, (uint32_t)i), 10, "#ffffff");
    }
}

/* NICs that GPUs share, each where its first cable ends. */
static void write_nics(struct drawing *drawing)
{
    for (size_t i = 0; i < drawing->n_cables; i++) {
        const struct topology_cable *cable = &drawing->cables[i];
        for (int e = 0; e < 2; e++) {
            if (cable->ends[e].kind != LINK_END_NIC || cable->nth > 0)
                continue;
            struct layout_item item = drawing_item(&drawing->layout, cable->ends[e]);
            if (item.shown != SHOWN_HIDDEN)
                write_box(drawing, item.box, "front", plot_square_color(cable->level), "noborder");
        }
    }
}

void drawing_write_things(struct drawing *drawing)
{
    const struct topology_layout *layout = &drawing->layout;
    if (layout->drawn.graph)
        write_graph_switches(drawing);
    for (uint32_t k = layout->drawn.graph ? 0 : layout->drawn.n_levels; k-- > 0;) {
        uint64_t instances = topology_level_instances(&layout->drawn, k);
        for (uint64_t i = 0; i < instances; i++) {
            const struct layout_item *item = &layout->instances[k][i];
            if (is_empty(drawing, k, i))
                continue;
            if (item->shown == SHOWN_CLOSED || item->shown == SHOWN_GAP)
                write_closed(drawing, k, i);
            if (item->shown != SHOWN_OPEN)
                continue;
            write_open(drawing, k, i);
            if (topology_level_switches(&layout->drawn, k))
                write_switch(drawing, k, i);
        }
    }
    write_nics(drawing);
    uint64_t places = topology_places(&layout->drawn);
    for (uint64_t place = 0; place < places; place++)
        if (layout->gpus[place].shown != SHOWN_HIDDEN)
            write_gpu(drawing, place);
}
