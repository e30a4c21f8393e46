/* topology_drawing.h - a cluster's drawing in the making, shared by the files that write its parts. */
#ifndef CPSIM_CLI_TOPOLOGY_DRAWING_H
#define CPSIM_CLI_TOPOLOGY_DRAWING_H

#include "cli/check_topology.h"
#include "cli/topology_cables.h"
#include "cli/topology_layout.h"

struct point {
    double x, y;
};

struct drawing {
    const struct topology_report *report;
    const struct plot_target *target;
    FILE *stream;
    struct topology_layout layout;
    struct topology_cable *cables;
    size_t n_cables;
    bool *on_route;  /* per cable */
    bool routes_cut; /* some of a route is among what is left out */
    double fastest;  /* bytes per second */
    double scale, left, top, height;
    double character; /* in a terminal: pixels of the drawing that one shows; 0: a file */
    int objects;
};

static inline double x_of(const struct drawing *drawing, double x)
{
    return drawing->left + drawing->scale * x;
}

/* gnuplot counts upwards. */
static inline double y_of(const struct drawing *drawing, double y)
{
    return drawing->height - (drawing->top + drawing->scale * y);
}

static inline struct point middle_of(struct layout_box box)
{
    return (struct point){box.x + box.width / 2, box.y + box.height / 2};
}

/* --- topology_anchors.c ------------------------------------------------------------------------------------------- */

/* The box of an end, and how it is shown. */
struct layout_item drawing_item(const struct topology_layout *layout, struct link_end end);

/* Where a cable meets an end; `towards` is where it comes from. Switches are met straight above or below what hangs on
 * them, or, where they have a rail for each GPU of a member, at that rail. */
struct point drawing_anchor(const struct drawing *drawing, const struct topology_cable *cable, int which,
                            struct point towards);

/* Whether the cable is inside something that is drawn closed. */
bool drawing_hides(const struct drawing *drawing, const struct topology_cable *cable);

/* --- plot_topology_routes.c --------------------------------------------------------------------------------------- */

/* Finds on_route, which the caller frees, and routes_cut. */
void drawing_find_routes(struct drawing *drawing);

/* --- plot_topology_cables.c --------------------------------------------------------------------------------------- */

/* Cables that look alike, and stand in the legend together. */
struct style {
    uint32_t level;
    double bytes_per_s, latency_seconds;
    bool degraded;
    uint32_t count; /* cables that each line stands for */
};

/* The caller frees them. */
struct style *drawing_styles(const struct drawing *drawing, size_t *count);
/* Whether the legend has a line for routes: there is something of one, or what is said of it. */
bool drawing_shows_routes(const struct drawing *drawing);
/* The cables as data, and the command that plots them with their legend. */
void drawing_write_cables(const struct drawing *drawing, const struct style *styles, size_t count);

/* --- plot_topology_things.c --------------------------------------------------------------------------------------- */

/* All boxes and names. */
void drawing_write_things(struct drawing *drawing);

#endif
