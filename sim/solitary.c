/* solitary.c - whose messages cross each link: one stream's of one rank, or more. */
#include "sim/solitary.h"

#include <stdlib.h>

#include "models/base/memory.h"
#include "models/base/numbering.h"

#define NOBODY UINT64_MAX
#define MANY (UINT64_MAX - 1)

struct links {
    struct numbering numbers; /* of links that a way crosses */
    uint64_t *users;          /* [number]: the stream of a rank, NOBODY or MANY */
    size_t capacity;
};

/* Streams of a shape that never have two sends under way at once. */
static void find_serial(const struct program *program, bool serial[STREAM_COUNT])
{
    uint32_t group[STREAM_COUNT] = {0};
    for (int s = 0; s < STREAM_COUNT; s++)
        serial[s] = true;
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        if (op->kind != OP_SEND)
            continue;
        if (op->group && group[op->stream] == op->group)
            serial[op->stream] = false;
        group[op->stream] = op->group;
    }
}

/* Who uses the way from instance `i` to its peer `p`: a stream if it is one alone and serial. */
static uint64_t user_of(const struct shape *shape, const bool serial[STREAM_COUNT], uint32_t i, uint32_t p)
{
    uint64_t user = NOBODY;
    for (uint32_t s = 0; s < STREAM_COUNT; s++) {
        size_t list = messages_list(&shape->messages, OP_SEND, p, (enum stream)s);
        if (messages_count(&shape->messages, list) == 0)
            continue;
        user = user == NOBODY && serial[s] ? (uint64_t)i * STREAM_COUNT + s : MANY;
    }
    return user;
}

static size_t hops_of(const struct plan_way *way)
{
    return way->hops ? way->n_hops : way->route.n_links;
}

static uint64_t *link_user(struct links *links, const struct plan_way *way, size_t hop)
{
    uint64_t link = way->hops ? way->hops[hop].link : way->route.links[hop];
    uint32_t known = links->numbers.count, number = numbering_of(&links->numbers, &link);
    if (number == known) {
        memory_grow(links->users, known, links->capacity);
        links->users[number] = NOBODY;
    }
    return &links->users[number];
}

static void use_links(struct links *links, const struct plan_way *way, uint64_t user)
{
    for (size_t h = 0; h < hops_of(way); h++) {
        uint64_t *known = link_user(links, way, h);
        bool once = !way->hops || way->hops[h].weight == 1;
        *known = once && (*known == NOBODY || *known == user) ? user : MANY;
    }
}

static bool has_links_alone(struct links *links, const struct plan_way *way, uint64_t user)
{
    for (size_t h = 0; h < hops_of(way); h++)
        if (*link_user(links, way, h) != user)
            return false;
    return user != MANY;
}

void solitary_find(struct plan *plan)
{
    const struct ensemble *ensemble = plan->simulation->ensemble;
    struct links links = {0};
    bool(*serial)[STREAM_COUNT] = memory_zeroed(ensemble->n_shapes, sizeof *serial);
    uint64_t *users = memory_zeroed(plan->n_ways, sizeof *users);
    numbering_init(&links.numbers, 1);
    for (uint32_t s = 0; s < ensemble->n_shapes; s++)
        find_serial(ensemble->shapes[s].program, serial[s]);
    for (uint32_t i = 0; i < ensemble->n_instances; i++) {
        const struct instance *self = &ensemble->instances[i];
        const struct shape *shape = &ensemble->shapes[self->shape];
        for (uint32_t p = 0; p < shape->messages.n_peers; p++) {
            uint32_t way = self->first_peer + p;
            users[way] = user_of(shape, serial[self->shape], i, p);
            if (users[way] != NOBODY)
                use_links(&links, &plan->ways[way], users[way]);
        }
    }
    for (size_t p = 0; p < plan->first_path[ensemble->n_instances]; p++) {
        uint32_t way = plan->paths[p].way;
        plan->paths[p].solitary = has_links_alone(&links, &plan->ways[way], users[way]);
    }
    numbering_fini(&links.numbers);
    free(links.users);
    free(users);
    free(serial);
}
