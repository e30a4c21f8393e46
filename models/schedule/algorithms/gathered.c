/* gathered.c - sets of buffers, one per owner, and the two collectives on them. */
#include "models/schedule/algorithms/gathered.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/base/memory.h"

void gathering_init(struct gathering *g, struct builder *b, bool whole)
{
    *g = (struct gathering){.b = b,
                            .whole = whole,
                            .team = team_of_all(b),
                            .list = memory_zeroed(b->ranks, sizeof *g->list),
                            .slots = memory_zeroed(b->ranks, sizeof *g->slots)};
}

void gathering_fini(struct gathering *g)
{
    team_fini(&g->team);
    free(g->list);
    free(g->slots);
    free(g->has);
}

struct block gathering_block(const struct gathering *g, uint32_t owner, uint32_t round)
{
    return g->whole ? circle_keys(&g->b->circle, owner) : circle_block(&g->b->circle, owner, round);
}

struct gathered gathered_init(const struct gathering *g, const char *name, uint32_t index, enum tensor tensor,
                              enum dtype dtype, enum buffer_role role, struct lanes lanes)
{
    struct builder *b = g->b;
    struct gathered set = {.by_owner = memory_zeroed(b->ranks, sizeof *set.by_owner), .lanes = lanes};
    uint32_t array = program_new_array(b->program);
    for (uint32_t owner = 0; owner < b->ranks; owner++) {
        uint64_t rows = gathering_block(g, owner, 0).count;
        char numbered[40];
        snprintf(numbered, sizeof numbered, "%s %u.%u", name, index, owner);
        set.by_owner[owner] = rows ? builder_buffer_lanes(b, numbered, tensor, dtype, role, rows, lanes) : NO_BUFFER;
        if (rows)
            b->program->buffers[set.by_owner[owner]].array = array;
    }
    return set;
}

void gathered_fini(struct gathered *set)
{
    free(set->by_owner);
}

const uint32_t *gathered_list(struct gathering *g, const struct gathered *set, uint32_t round, size_t *n)
{
    *n = 0;
    for (uint32_t owner = 0; owner < g->b->ranks; owner++)
        if (gathering_block(g, owner, round).count)
            g->list[(*n)++] = set->by_owner[owner];
    return g->list;
}

static void fill_slots(struct gathering *g, const struct gathered *set, uint32_t round)
{
    for (uint32_t owner = 0; owner < g->b->ranks; owner++)
        g->slots[owner] = (struct slot){set->by_owner[owner], gathering_block(g, owner, round)};
}

void gathered_fill(struct gathering *g, const struct gathered *set, uint32_t own, uint32_t round, enum traffic traffic)
{
    struct builder *b = g->b;
    fill_slots(g, set, round);
    collective_all_gather(b, b->exchange, traffic, &g->team, (struct slot){own, g->slots[b->rank].block}, g->slots);
}

/* Who has which share, for collective_reduce_scatter: NULL when all have all. */
static const bool *shares(struct gathering *g, const bool *computed, size_t stride)
{
    uint32_t ranks = g->b->ranks, n = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        n += computed[rank * stride];
    if (n == ranks)
        return NULL;
    if (!g->has)
        g->has = memory_zeroed((size_t)ranks * ranks, sizeof *g->has);
    for (size_t i = 0; i < (size_t)ranks * ranks; i++)
        g->has[i] = computed[i / ranks * stride];
    return g->has;
}

void gathered_scatter(struct gathering *g, const struct gathered *set, uint32_t round, const bool *computed,
                      size_t stride, const uint32_t *staging)
{
    struct builder *b = g->b;
    fill_slots(g, set, round);
    collective_reduce_scatter(b, b->returns, TRAFFIC_GRADIENT, &g->team, g->slots, shares(g, computed, stride),
                              staging);
}

uint32_t *gathered_staging(struct gathering *g, struct lanes lanes)
{
    uint64_t most = g->whole ? sharding_rows_max(&g->b->schedule->sharding) : circle_block_rows_max(&g->b->circle);
    struct block rows = {0, 0, (uint32_t)most};
    return collective_staging(g->b, "dkv in", CALL_REDUCE_SCATTER, &g->team, TENSOR_DKV, g->b->gradient, rows, lanes);
}
