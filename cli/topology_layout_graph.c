/* topology_layout_graph.c - a graph on circles: GPUs outside, switches inside each other by their distance from GPUs.
 */
#include <math.h>
#include <stdlib.h>

#include "cli/topology_layout_parts.h"
#include "models/base/memory.h"

/* What is needed to put a graph on circles: per node, how many hops it is from the nearest GPU, and its angle. */
struct rings {
    const struct topology *topology;
    uint32_t n, n_gpus, *hops;
    double *angles;
    uint32_t deepest;
};

static uint32_t node_of(const struct rings *rings, struct link_end end)
{
    return (uint32_t)end.number + (end.kind == LINK_END_SWITCH ? rings->n_gpus : 0);
}

/* Link by link until nothing changes: graphs are shallow. */
static void find_hops(struct rings *rings)
{
    for (uint32_t i = rings->n_gpus; i < rings->n; i++)
        rings->hops[i] = rings->n;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint64_t link = 0; link < rings->topology->n_links; link++) {
            struct link_end ends[2];
            topology_link_ends(rings->topology, link, &ends[0], &ends[1]);
            uint32_t a = node_of(rings, ends[0]), b = node_of(rings, ends[1]);
            if (rings->hops[a] > rings->hops[b]) {
                uint32_t other = a;
                a = b;
                b = other;
            }
            if (rings->hops[b] > rings->hops[a] + 1) {
                rings->hops[b] = rings->hops[a] + 1;
                changed = true;
            }
        }
    }
    for (uint32_t i = 0; i < rings->n; i++)
        rings->deepest = rings->hops[i] > rings->deepest ? rings->hops[i] : rings->deepest;
}

/* A switch's angle is the mean of those it hangs on, further out. */
static void find_angles(struct rings *rings)
{
    for (uint32_t i = 0; i < rings->n_gpus; i++)
        rings->angles[i] = M_PI / 2 - 2 * M_PI * i / rings->n_gpus;
    double *x = memory_zeroed(rings->n, sizeof *x), *y = memory_zeroed(rings->n, sizeof *y);
    for (uint32_t depth = 1; depth <= rings->deepest; depth++) {
        for (uint64_t link = 0; link < rings->topology->n_links; link++) {
            struct link_end ends[2];
            topology_link_ends(rings->topology, link, &ends[0], &ends[1]);
            for (int i = 0; i < 2; i++) {
                uint32_t out = node_of(rings, ends[i]), in = node_of(rings, ends[!i]);
                if (rings->hops[in] == depth && rings->hops[out] + 1 == depth) {
                    x[in] += cos(rings->angles[out]);
                    y[in] += sin(rings->angles[out]);
                }
            }
        }
        for (uint32_t i = rings->n_gpus; i < rings->n; i++)
            if (rings->hops[i] == depth)
                rings->angles[i] = hypot(x[i], y[i]) > 1e-6 ? atan2(y[i], x[i]) : M_PI / 2 - 0.1 * i;
    }
    free(x);
    free(y);
}

/* Switches on one circle, in the order of their angles, are spread evenly from the first where they are too close. */
struct turn {
    double angle;
    uint32_t node;
};

static int compare_turns(const void *left, const void *right)
{
    const struct turn *a = left, *b = right;
    if (a->angle != b->angle)
        return a->angle > b->angle ? -1 : 1;
    return a->node < b->node ? -1 : 1;
}

static void part(struct rings *rings, uint32_t depth, double least)
{
    struct turn *turns = memory_zeroed(rings->n, sizeof *turns);
    uint32_t n = 0;
    for (uint32_t i = rings->n_gpus; i < rings->n; i++)
        if (rings->hops[i] == depth)
            turns[n++] = (struct turn){rings->angles[i], i};
    qsort(turns, n, sizeof *turns, compare_turns);
    bool close = false;
    for (uint32_t i = 0; i < n && n > 1; i++)
        close = close || fabs(remainder(turns[i].angle - turns[(i + 1) % n].angle, 2 * M_PI)) < least;
    for (uint32_t i = 0; i < n && close; i++)
        rings->angles[turns[i].node] = turns[0].angle - 2 * M_PI * i / n;
    free(turns);
}

#define NODE_WIDTH 76.0 /* of a switch of a graph */
#define CIRCLE_STEP 100.0

/* GPUs on the outermost circle, switches the further in, the farther they are from GPUs. */
void layout_place_graph(struct topology_layout *layout)
{
    const struct topology *topology = &layout->drawn;
    struct rings rings = {.topology = topology, .n_gpus = (uint32_t)topology->n_gpus};
    rings.n = rings.n_gpus + (uint32_t)topology_level_switches(topology, 0);
    rings.hops = memory_zeroed(rings.n, sizeof *rings.hops);
    rings.angles = memory_zeroed(rings.n, sizeof *rings.angles);
    find_hops(&rings);
    find_angles(&rings);
    double radius =
        fmax(rings.deepest * CIRCLE_STEP + (rings.n > rings.n_gpus ? 70 : 40), rings.n_gpus * 80 / (2 * M_PI));
    double middle = LAYOUT_PADDING + radius + NODE_WIDTH / 2;
    for (uint32_t depth = 1; depth <= rings.deepest; depth++)
        part(&rings, depth, 1.2 * NODE_WIDTH / (radius - depth * CIRCLE_STEP));
    for (uint32_t i = 0; i < rings.n; i++) {
        double far = radius - rings.hops[i] * CIRCLE_STEP, x = middle + far * cos(rings.angles[i]),
               y = middle - far * sin(rings.angles[i]);
        if (i < rings.n_gpus)
            layout->gpus[i] =
                (struct layout_item){{x - LAYOUT_GPU / 2, y - LAYOUT_GPU / 2, LAYOUT_GPU, LAYOUT_GPU}, SHOWN_OPEN};
        else
            layout->switches[0][i - rings.n_gpus] =
                (struct layout_box){x - NODE_WIDTH / 2, y - LAYOUT_SWITCH / 2, NODE_WIDTH, LAYOUT_SWITCH};
    }
    layout->width = layout->height = 2 * middle;
    free(rings.hops);
    free(rings.angles);
}
