/* Routes of random clusters, of everything that topologies can say: each link begins where the one before ended.
 *
 * Where a link begins and ends is told from its number and the levels' own words, not from how routes are made: a port
 * from the GPUs of a member and lane (or the switch that they are on) to the switch of the level, a cable from one
 * member's to another's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

#include "models/input/cables.h"
#include "models/input/link_pattern.h"
#include "tests/models/routes.h"
#include "tests/random_cluster.h"

#define PLACES_MAX 400

/* Any of some GPUs (level -1), or any of some switches of a level: those of the places that are set. */
struct position {
    int level;
    bool at[PLACES_MAX];
};

static uint64_t n_places(const struct topology *t)
{
    const struct wiring *outer = &t->wiring[t->n_levels - 1];
    return outer->member * outer->size;
}

/* The switch of level k that a place belongs to. */
static uint64_t switch_of(const struct topology *t, uint32_t k, uint64_t place)
{
    const struct wiring *w = &t->wiring[k];
    uint64_t instance = place / (w->member * w->size);
    bool apart = t->levels[k].cross_rail != CROSS_RAIL_LEAF && w->lanes > 1;
    return instance * PLACES_MAX + (apart ? wiring_lane(w, place) : 0);
}

static void add_switch(const struct topology *t, uint32_t k, uint64_t place, struct position *position)
{
    position->level = (int)k;
    for (uint64_t g = 0; g < n_places(t); g++)
        position->at[g] = position->at[g] || switch_of(t, k, g) == switch_of(t, k, place);
}

/* The inner end of a port, or an end of a cable: what the GPUs of a member and lane are, or hang on. */
static void inner_end(const struct topology *t, uint32_t k, uint64_t set, uint64_t member, struct position *end)
{
    const struct wiring *w = &t->wiring[k];
    *end = (struct position){.level = -1};
    for (uint64_t g = 0; g < n_places(t); g++) {
        if (wiring_set(w, g) != set || wiring_member(w, g) != member)
            continue;
        if (w->below >= 0)
            add_switch(t, (uint32_t)w->below, g, end);
        else
            end->at[g] = true;
    }
}

static void ends_of(const struct topology *t, uint64_t link, struct position *tail, struct position *head, bool *both)
{
    struct link_place at = wiring_locate(t, link);
    const struct wiring *w = &t->wiring[at.level];
    struct position *ends[2] = {at.direction == FORWARD ? tail : head, at.direction == FORWARD ? head : tail};
    *both = w->directions == 1;
    if (t->levels[at.level].kind == LEVEL_SWITCH) {
        inner_end(t, at.level, at.set, at.cable, ends[0]);
        *ends[1] = (struct position){0};
        for (uint64_t g = 0; g < n_places(t); g++) {
            if (wiring_set(w, g) == at.set && wiring_member(w, g) == at.cable)
                add_switch(t, at.level, g, ends[1]);
        }
    } else {
        uint64_t a, b;
        cables_ends(&t->levels[at.level], at.cable, &a, &b);
        inner_end(t, at.level, at.set, a, ends[0]);
        inner_end(t, at.level, at.set, b, ends[1]);
    }
}

static bool meet(const struct position *one, const struct position *other)
{
    for (int g = 0; one->level == other->level && g < PLACES_MAX; g++) {
        if (one->at[g] && other->at[g])
            return true;
    }
    return false;
}

static void assert_connected(const struct topology *t, const struct route *route, uint64_t from, uint64_t to)
{
    static struct position here, tail, head, goal;
    here = goal = (struct position){.level = -1};
    here.at[places_of_gpu(&t->places, from)] = true;
    goal.at[places_of_gpu(&t->places, to)] = true;
    for (size_t i = 0; i < route->n_links; i++) {
        bool both;
        ends_of(t, route->links[i], &tail, &head, &both);
        bool forward = meet(&here, &tail);
        if (!forward && !(both && meet(&here, &head))) {
            char text[2048];
            route_text(t, route, text, sizeof text);
            fail_msg("link %zu of the route from gpu %d to gpu %d begins elsewhere: %s", i, (int)from, (int)to, text);
        }
        here = forward ? head : tail;
    }
    assert_true(meet(&here, &goal));
}

/* --- random clusters ---------------------------------------------------------------------------------------------- */

static bool read_quietly(struct topology *topology, const char *text)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool ok = topology_read_text(topology, "t.ini", text, &diag);
    assert_true(ok || diag.count > 0);
    diagnostics_fini(&diag);
    return ok;
}

static void check_route(const struct topology *t, uint64_t from, uint64_t to, struct route *route, struct route *back)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    bool found = topology_route(t, from, to, route, &diag);
    assert_true(found || t->overrides.n_missing > 0); /* rails may have no NIC in common */
    diagnostics_fini(&diag);
    if (!found)
        return;
    find_route(t, to, from, back);
    if (!t->graph) /* theirs are walked by name in graph_test.c */
        assert_connected(t, route, from, to);
    assert_int_equal(route->level, topology_level_between(t, from, to));
    double narrowest = INFINITY;
    bool half_duplex = false;
    for (size_t i = 0; i < route->n_links; i++) {
        assert_true(route->links[i] < t->n_links);
        struct link_info info = topology_link(t, route->links[i]);
        if (info.absent) {
            char links[2048];
            route_text(t, route, links, sizeof links);
            fail_msg("the route from gpu %d to gpu %d has a link that is not there: %s", (int)from, (int)to, links);
        }
        narrowest = fmin(narrowest, info.bytes_per_s);
        half_duplex |= t->levels[info.level].half_duplex;
        for (size_t j = 0; j < i; j++)
            assert_true(route->links[i] != route->links[j]);
    }
    assert_true(route->bytes_per_s == narrowest);
    for (size_t i = 0; i < route->n_links && !half_duplex; i++) {
        for (size_t j = 0; j < back->n_links; j++)
            assert_true(route->links[i] != back->links[j]);
    }
}

static void check_names(const struct topology *t, struct dice *dice)
{
    for (int i = 0; i < 20 && t->n_links > 1; i++) {
        uint64_t a = dice_below(dice, (uint32_t)t->n_links), b = dice_below(dice, (uint32_t)t->n_links);
        char one[LINK_NAME_SIZE], other[LINK_NAME_SIZE];
        topology_link_name(t, a, one, sizeof one);
        topology_link_name(t, b, other, sizeof other);
        assert_true((a == b) == (strcmp(one, other) == 0));
    }
}

struct hits {
    const struct topology *topology;
    const char *pattern;
    uint64_t next, n;
};

static bool is_meant(const struct hits *hits, uint64_t link)
{
    char name[LINK_NAME_SIZE];
    topology_link_name(hits->topology, link, name, sizeof name);
    return fnmatch(hits->pattern, name, FNM_NOESCAPE) == 0 && !topology_link(hits->topology, link).absent;
}

/* The links come in order, and those left out are not meant. */
static bool hit(void *context, uint64_t link)
{
    struct hits *hits = context;
    for (; hits->next <= link; hits->next++)
        assert_int_equal(is_meant(hits, hits->next), hits->next == link);
    hits->n++;
    return true;
}

/* A pattern finds all links whose names it fits, wherever they are sought: here by a name, whole or cut short with a *
 * behind it, also within a number. */
static void check_patterns(const struct topology *t, struct dice *dice)
{
    for (int i = 0; i < 6 && t->n_links > 0 && t->n_links < 5000; i++) {
        char pattern[LINK_NAME_SIZE];
        uint64_t one = dice_below(dice, (uint32_t)t->n_links);
        if (topology_link(t, one).absent)
            continue;
        topology_link_name(t, one, pattern, sizeof pattern);
        size_t length = strlen(pattern), kept = 1 + dice_below(dice, (uint32_t)length);
        if (dice_chance(dice, 3))
            kept = length;
        if (kept < length)
            strcpy(pattern + kept, "*");
        uint64_t sought = 0;
        struct hits hits = {t, pattern, 0, 0};
        const struct link_pattern wanted = {.topology = t, .text = pattern, .sought = &sought};
        assert_true(link_pattern_each(&wanted, hit, &hits) && hits.n > 0);
        for (uint64_t link = hits.next; link < t->n_links; link++)
            assert_false(is_meant(&hits, link));
        assert_true(kept < length || hits.n == 1);
    }
}

static void routes_are_connected_and_use_no_link_twice(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    enum { ROUNDS = 400 };
#else
    enum { ROUNDS = 4000 };
#endif
    struct dice dice = {.state = 7};
    struct route route, back;
    route_init(&route);
    route_init(&back);
    int read = 0, graphs = 0, unequal = 0, rails = 0, missing = 0, uplinks = 0, dragonflies = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char *text = random_cluster_for_routes(&dice, 2);
        struct topology t;
        bool good = read_quietly(&t, text);
        free(text);
        if (!good)
            continue;
        read++;
        unequal += t.levels[0].n_sizes > 0;
        graphs += t.graph != NULL;
        missing += t.overrides.n_missing > 0;
        for (uint32_t k = 0; k < t.n_levels; k++) {
            rails += t.levels[k].cross_rail != CROSS_RAIL_LEAF;
            uplinks += t.wiring[k].parallel > 1;
            dragonflies += t.levels[k].kind == LEVEL_DRAGONFLY;
        }
        check_names(&t, &dice);
        check_patterns(&t, &dice);
        for (int pair = 0; pair < 12 && t.n_gpus > 1 && (t.graph || n_places(&t) <= PLACES_MAX); pair++) {
            uint64_t from = dice_below(&dice, (uint32_t)t.n_gpus), to = dice_below(&dice, (uint32_t)t.n_gpus);
            if (from != to)
                check_route(&t, from, to, &route, &back);
        }
        topology_fini(&t);
    }
    assert_true(read > ROUNDS / 4); /* the rest was refused, with a message */
    assert_true(unequal > ROUNDS / 200 && rails > ROUNDS / 80 && missing > ROUNDS / 200);
    assert_true(graphs > ROUNDS / 20 && uplinks > ROUNDS / 40 && dragonflies > ROUNDS / 40);
    route_fini(&route);
    route_fini(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_connected_and_use_no_link_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
