/* cables.c - numbers of cables: a mesh's by pairs, a torus's by dimensions and rings along them, a dragonfly's first
 * those of the groups, then those between groups.
 */
#include "models/input/cables.h"

typedef void step_function(void *context, uint64_t cable, enum direction direction);

/* --- mesh --------------------------------------------------------------------------------------------------------- */

static uint64_t mesh_count(uint64_t size)
{
    return size * (size - 1) / 2;
}

static uint64_t mesh_cable(uint64_t size, uint64_t low, uint64_t high)
{
    return low * (2 * size - low - 1) / 2 + (high - low - 1);
}

static void mesh_step(uint64_t first, uint64_t size, uint64_t from, uint64_t to, step_function *step, void *context)
{
    bool forward = from < to;
    step(context, first + mesh_cable(size, forward ? from : to, forward ? to : from), forward ? FORWARD : BACKWARD);
}

static void mesh_ends(uint64_t size, uint64_t cable, uint64_t *a, uint64_t *b)
{
    uint64_t low = 0, high = size - 1; /* the last member whose cables begin at or before this one */
    while (low < high) {
        uint64_t middle = (low + high + 1) / 2;
        if (middle * (2 * size - middle - 1) / 2 <= cable)
            low = middle;
        else
            high = middle - 1;
    }
    *a = low;
    *b = low + 1 + cable - low * (2 * size - low - 1) / 2;
}

/* --- ring and torus ----------------------------------------------------------------------------------------------- */

static uint64_t cables_along(uint32_t length)
{
    return length <= 2 ? length - 1 : length;
}

/* The cables of dimension d are numbered ring by ring: `ring` says which of the rings along d, `at` where in it. */
static uint64_t torus_cable(const struct level *level, uint32_t dimension, uint64_t ring, uint64_t at)
{
    uint64_t cable = ring * cables_along(level->torus[dimension]) + at;
    for (uint32_t d = 0; d < dimension; d++)
        cable += level->size / level->torus[d] * cables_along(level->torus[d]);
    return cable;
}

static void torus_walk(const struct level *level, uint64_t from, uint64_t to, step_function *step, void *context)
{
    uint64_t stride = 1;
    for (uint32_t d = 0; d < level->n_torus; d++) {
        uint64_t length = level->torus[d], x = from / stride % length, target = to / stride % length;
        uint64_t ahead = (target + length - x) % length;
        bool increasing = length == 2 ? x == 0 : ahead <= length - ahead;
        uint64_t ring = from / (stride * length) * stride + from % stride;
        from = from - x * stride + target * stride;
        while (x != target) {
            uint64_t next = increasing ? (x + 1) % length : (x + length - 1) % length;
            step(context, torus_cable(level, d, ring, increasing ? x : next), increasing ? FORWARD : BACKWARD);
            x = next;
        }
        stride *= length;
    }
}

static void torus_ends(const struct level *level, uint64_t cable, uint64_t *a, uint64_t *b)
{
    uint32_t d = 0;
    uint64_t stride = 1;
    for (; cable >= level->size / level->torus[d] * cables_along(level->torus[d]); d++) {
        cable -= level->size / level->torus[d] * cables_along(level->torus[d]);
        stride *= level->torus[d];
    }
    uint64_t length = level->torus[d], ring = cable / cables_along(level->torus[d]),
             at = cable % cables_along(level->torus[d]);
    uint64_t base = ring / stride * stride * length + ring % stride;
    *a = base + at * stride;
    *b = base + (at + 1) % length * stride;
}

/* --- dragonfly ---------------------------------------------------------------------------------------------------- */

static uint64_t groups_of(const struct level *level)
{
    return level->torus[0];
}

static uint64_t routers_of(const struct level *level)
{
    return level->torus[1];
}

static uint64_t local_count(const struct level *level)
{
    return groups_of(level) * mesh_count(routers_of(level));
}

/* The router of `group` with the cable to group `other`. */
static uint64_t gateway(const struct level *level, uint64_t group, uint64_t other)
{
    return (other < group ? other : other - 1) % routers_of(level);
}

static void dragonfly_walk(const struct level *level, uint64_t from, uint64_t to, step_function *step, void *context)
{
    uint64_t routers = routers_of(level), local = mesh_count(routers);
    uint64_t g = from / routers, h = to / routers, r = from % routers, target = to % routers;
    if (g != h) {
        uint64_t out = gateway(level, g, h);
        if (r != out)
            mesh_step(g * local, routers, r, out, step, context);
        mesh_step(local_count(level), groups_of(level), g, h, step, context);
        r = gateway(level, h, g);
    }
    if (r != target)
        mesh_step(h * local, routers, r, target, step, context);
}

static void dragonfly_ends(const struct level *level, uint64_t cable, uint64_t *a, uint64_t *b)
{
    uint64_t routers = routers_of(level), local = mesh_count(routers);
    if (cables_is_global(level, cable)) {
        uint64_t g, h;
        mesh_ends(groups_of(level), cable - local_count(level), &g, &h);
        *a = g * routers + gateway(level, g, h);
        *b = h * routers + gateway(level, h, g);
        return;
    }
    mesh_ends(routers, cable % local, a, b);
    *a += cable / local * routers;
    *b += cable / local * routers;
}

bool cables_is_global(const struct level *level, uint64_t cable)
{
    return cable >= local_count(level);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

uint64_t cables_count(const struct level *level)
{
    uint64_t cables = 0;
    switch (level->kind) {
    case LEVEL_MESH:
        return mesh_count(level->size);
    case LEVEL_RING:
    case LEVEL_TORUS:
        for (uint32_t d = 0; d < level->n_torus; d++)
            cables += level->size / level->torus[d] * cables_along(level->torus[d]);
        return cables;
    case LEVEL_DRAGONFLY:
        return local_count(level) + mesh_count(groups_of(level));
    case LEVEL_SWITCH:
    case LEVEL_GRAPH:
        break;
    }
    return 0;
}

void cables_ends(const struct level *level, uint64_t cable, uint64_t *a, uint64_t *b)
{
    if (level->kind == LEVEL_MESH)
        mesh_ends(level->size, cable, a, b);
    else if (level->kind == LEVEL_DRAGONFLY)
        dragonfly_ends(level, cable, a, b);
    else
        torus_ends(level, cable, a, b);
}

void cables_walk(const struct level *level, uint64_t from, uint64_t to, step_function *step, void *context)
{
    if (level->kind == LEVEL_MESH)
        mesh_step(0, level->size, from, to, step, context);
    else if (level->kind == LEVEL_DRAGONFLY)
        dragonfly_walk(level, from, to, step, context);
    else
        torus_walk(level, from, to, step, context);
}
