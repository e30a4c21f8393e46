/* topology_cables.c - links sorted by what they join; of those between the same ends the n-th one way and the n-th back
 * are a cable.
 */
#include "cli/topology_cables.h"

#include <math.h>
#include <stdlib.h>

#include "models/base/memory.h"

/* A link with its ends in order. */
struct sorted_link {
    uint64_t link, keys[2];
    struct link_end ends[2];
    uint32_t level;
    bool backward;
};

static uint64_t key_of(struct link_end end)
{
    return (uint64_t)end.kind << 60 | (uint64_t)end.level << 48 | end.number;
}

static int compare(const void *left, const void *right)
{
    const struct sorted_link *a = left, *b = right;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    for (int i = 0; i < 2; i++)
        if (a->keys[i] != b->keys[i])
            return a->keys[i] < b->keys[i] ? -1 : 1;
    if (a->backward != b->backward)
        return a->backward ? 1 : -1;
    return a->link < b->link ? -1 : a->link > b->link;
}

static bool same_ends(const struct sorted_link *a, const struct sorted_link *b)
{
    return a->level == b->level && a->keys[0] == b->keys[0] && a->keys[1] == b->keys[1];
}

static struct sorted_link *sorted_links(const struct topology *topology, size_t *count)
{
    struct sorted_link *links = memory_zeroed(topology->n_links, sizeof *links);
    *count = 0;
    for (uint64_t link = 0; link < topology->n_links; link++) {
        struct link_info info = topology_link(topology, link);
        struct link_end a, b;
        if (info.absent)
            continue;
        topology_link_ends(topology, link, &a, &b);
        bool backward = key_of(a) > key_of(b);
        links[(*count)++] = (struct sorted_link){.link = link,
                                                 .keys = {key_of(backward ? b : a), key_of(backward ? a : b)},
                                                 .ends = {backward ? b : a, backward ? a : b},
                                                 .level = info.level,
                                                 .backward = backward};
    }
    qsort(links, *count, sizeof *links, compare);
    return links;
}

#define SIDE_BY_SIDE_MAX 8 /* more cables between the same ends, all alike, are one that stands for them */

/* The cables of `among` links out and back between the same ends. */
static size_t add_cables(const struct topology *topology, const struct sorted_link *out, size_t n_out,
                         const struct sorted_link *home, size_t n_home, struct topology_cable *cables)
{
    size_t among = n_out > n_home ? n_out : n_home;
    bool alike = true;
    for (size_t i = 0; i < among; i++) {
        const struct sorted_link *one = i < n_out ? &out[i] : &home[i], *other = i < n_home ? &home[i] : &out[i];
        cables[i] = (struct topology_cable){
            .level = one->level,
            .ends = {one->ends[0], one->ends[1]},
            .links = {one->link, other->link},
            .bytes_per_s =
                fmin(topology_link(topology, one->link).bytes_per_s, topology_link(topology, other->link).bytes_per_s),
            .latency_seconds = topology_link_latency(topology, one->link),
            .degraded =
                topology_link_is_degraded(topology, one->link) || topology_link_is_degraded(topology, other->link),
            .nth = (uint32_t)i,
            .among = (uint32_t)among,
            .count = 1,
        };
        alike = alike && cables[i].bytes_per_s == cables[0].bytes_per_s;
    }
    if (among <= SIDE_BY_SIDE_MAX || !alike)
        return among;
    cables[0].among = 1;
    cables[0].count = (uint32_t)among;
    return 1;
}

struct topology_cable *topology_cables(const struct topology *topology, size_t *count)
{
    size_t n, next;
    struct sorted_link *links = sorted_links(topology, &n);
    struct topology_cable *cables = memory_zeroed(n, sizeof *cables);
    *count = 0;
    for (size_t first = 0; first < n; first = next) {
        size_t back = first;
        while (back < n && same_ends(&links[back], &links[first]) && !links[back].backward)
            back++;
        for (next = back; next < n && same_ends(&links[next], &links[first]);)
            next++;
        *count += add_cables(topology, &links[first], back - first, &links[back], next - back, &cables[*count]);
    }
    free(links);
    return cables;
}
