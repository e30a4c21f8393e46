/* plot_topology_routes.c - which cables of a drawing are on the routes that were asked for.
 *
 * A folded cluster is drawn as a smaller one: a cable of that is a link of the whole if its ends, translated, are the
 * link's and it is the same of several side by side. Cables to what stands for parts that are left out are nobody's, so
 * that a route through these is drawn in part, which the legend then says.
 */
#include <stdlib.h>

#include "cli/topology_drawing.h"
#include "models/base/memory.h"

static bool same_end(struct link_end a, struct link_end b)
{
    return a.kind == b.kind && a.level == b.level && a.number == b.number;
}

/* Which of the links side by side that a route chooses from a link is. */
static uint64_t way_of(const struct topology *topology, uint32_t level, uint64_t link)
{
    const struct wiring *w = &topology->wiring[level];
    return (link - w->first) / w->directions % w->parallel;
}

/* A cable's ends in the whole cluster; `there` is false where one is of a part that is left out. */
struct whole_cable {
    bool there;
    struct link_end ends[2];
};

static struct whole_cable *whole_cables(const struct drawing *drawing)
{
    struct whole_cable *whole = memory_zeroed(drawing->n_cables, sizeof *whole);
    for (size_t c = 0; c < drawing->n_cables; c++) {
        const struct topology_cable *cable = &drawing->cables[c];
        whole[c].there = topology_layout_end(&drawing->layout, cable->ends[0], &whole[c].ends[0]) &&
                         topology_layout_end(&drawing->layout, cable->ends[1], &whole[c].ends[1]);
    }
    return whole;
}

/* Marks the cables that a link of the whole is; false if there are none. */
static bool mark_translated(struct drawing *drawing, const struct whole_cable *whole, uint64_t link)
{
    const struct topology *topology = drawing->layout.whole, *drawn = &drawing->layout.drawn;
    uint32_t level = topology_link(topology, link).level;
    uint64_t way = way_of(topology, level, link);
    struct link_end a, b;
    topology_link_ends(topology, link, &a, &b);
    bool found = false;
    for (size_t c = 0; c < drawing->n_cables; c++) {
        const struct topology_cable *cable = &drawing->cables[c];
        if (!whole[c].there || cable->level != level ||
            !((same_end(whole[c].ends[0], a) && same_end(whole[c].ends[1], b)) ||
              (same_end(whole[c].ends[0], b) && same_end(whole[c].ends[1], a))))
            continue;
        if (cable->count > 1 || way_of(drawn, level, cable->links[0]) == way)
            drawing->on_route[c] = found = true;
    }
    return found;
}

/* Where nothing is folded, links of the drawing are those of the cluster. */
static bool mark_same(struct drawing *drawing, uint64_t link)
{
    for (size_t c = 0; c < drawing->n_cables; c++)
        if (drawing->cables[c].links[0] == link || drawing->cables[c].links[1] == link)
            drawing->on_route[c] = true;
    return true;
}

void drawing_find_routes(struct drawing *drawing)
{
    const struct topology_report *report = drawing->report;
    drawing->on_route = memory_zeroed(drawing->n_cables, sizeof *drawing->on_route);
    struct whole_cable *whole = drawing->layout.folded ? whole_cables(drawing) : NULL;
    for (size_t p = 0; p < report->n_pairs; p++) {
        for (size_t i = 0; i < report->routes[p].n_links; i++) {
            uint64_t link = report->routes[p].links[i];
            if (!(whole ? mark_translated(drawing, whole, link) : mark_same(drawing, link)))
                drawing->routes_cut = true;
        }
    }
    free(whole);
}
