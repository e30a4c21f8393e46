/* collectives.c - families of ranks that do collectives with each other; their k-th ones are one call, made of what the
 * operations of each member say. */
#include "hw/run/collectives.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hw/layout.h"
#include "hw/transport/shares.h"
#include "models/base/memory.h"

/* ---- which collectives are one call ---- */

/* Ranks that do collectives with each other in one stream, and which of each member's these are, in order. */
struct family {
    enum stream stream;
    uint32_t n, *members;
    struct list {
        uint32_t *items;
        size_t count, capacity;
    } * collectives; /* [member] */
};

struct families {
    struct family *items;
    size_t count, capacity;
};

static const uint32_t *members_of(const struct program *program, const struct collective *collective)
{
    return program->lists + collective->members;
}

static struct family *find_family(struct families *families, enum stream stream, const uint32_t *members, uint32_t n)
{
    for (size_t f = 0; f < families->count; f++) {
        struct family *family = &families->items[f];
        if (family->stream == stream && family->n == n && memcmp(family->members, members, n * sizeof *members) == 0)
            return family;
    }
    struct family fresh = {.stream = stream,
                           .n = n,
                           .members = memory_zeroed(n, sizeof *members),
                           .collectives = memory_zeroed(n, sizeof *fresh.collectives)};
    memcpy(fresh.members, members, n * sizeof *members);
    memory_grow(families->items, families->count, families->capacity);
    families->items[families->count] = fresh;
    return &families->items[families->count++];
}

static void find_families(struct families *families, const struct collective_plan *plan)
{
    for (uint32_t r = 0; r < plan->schedule->ranks; r++) {
        const struct program *program = &plan->programs[r];
        for (uint32_t c = 0; c < program->n_collectives; c++) {
            const struct collective *collective = &program->collectives[c];
            struct family *family = find_family(families, (enum stream)collective->stream,
                                                members_of(program, collective), collective->n_members);
            struct list *list = &family->collectives[collective->me];
            memory_grow(list->items, list->count, list->capacity);
            list->items[list->count++] = c;
        }
    }
}

static void families_fini(struct families *families)
{
    for (size_t f = 0; f < families->count; f++) {
        for (uint32_t i = 0; i < families->items[f].n; i++)
            free(families->items[f].collectives[i].items);
        free(families->items[f].collectives);
        free(families->items[f].members);
    }
    free(families->items);
}

static uint32_t find_team(struct collective_plan *plan, enum stream stream, const uint32_t *members, uint32_t n)
{
    for (size_t t = 0; t < plan->n_teams; t++)
        if (plan->teams[t].stream == stream && plan->teams[t].n_members == n &&
            memcmp(plan->teams[t].members, members, n * sizeof *members) == 0)
            return (uint32_t)t;
    struct planned_team team = {stream, n, memory_zeroed(n, sizeof *members)};
    memcpy(team.members, members, n * sizeof *members);
    memory_grow(plan->teams, plan->n_teams, plan->team_capacity);
    plan->teams[plan->n_teams] = team;
    return (uint32_t)plan->n_teams++;
}

/* ---- what moves ---- */

/* The rows that a collective's operations touch of each buffer; count 0: of none. The caller frees it. */
static struct block *touched_rows(const struct collective_plan *plan, const struct program *program,
                                  const struct collective *collective)
{
    struct block *rows = memory_zeroed(program->n_buffers, sizeof *rows);
    for (uint32_t i = collective->first_op; i < collective->end_op; i++) {
        struct access_walk walk;
        struct access access;
        accesses_begin(&walk, plan->schedule, program, &program->ops[i]);
        while (accesses_next(&walk, &access)) {
            struct block *all = &rows[access.buffer], more = access.block;
            if (all->count == 0) {
                *all = more;
            } else if (more.count) {
                uint32_t end = all->first + all->count, more_end = more.first + more.count;
                all->first = more.first < all->first ? more.first : all->first;
                all->count = (more_end > end ? more_end : end) - all->first;
            }
        }
    }
    return rows;
}

static struct planned_share share_of(const struct program *program, uint32_t list, uint32_t i, const struct block *rows)
{
    struct planned_share share = {.buffer = program->lists[list + i]};
    if (share.buffer != NO_BUFFER)
        share.block = rows[share.buffer];
    return share;
}

struct share_of_memory planned_share_memory(const struct collective_plan *plan, const struct program *program,
                                            const struct planned_share *share, void *memory)
{
    struct share_of_memory out = {.n_pieces = 0};
    if (share->block.count == 0)
        return out;
    const struct buffer *buffer = &program->buffers[share->buffer];
    struct buffer_layout layout = layout_of(plan->schedule, buffer);
    out.n_pieces = layout_pieces(&layout, buffer, memory, share->block, PART_ALL, out.pieces);
    return out;
}

static uint64_t bytes_of(const struct collective_plan *plan, const struct program *program,
                         const struct planned_share *share)
{
    static char nowhere; /* an address only */
    struct share_of_memory memory = planned_share_memory(plan, program, share, &nowhere);
    return share_bytes(&memory);
}

/* ---- planning ---- */

static bool complain(const struct program *program, const struct collective *collective, struct diagnostics *diag,
                     const char *what, uint32_t other)
{
    return diagnostics_add(diag, "rank %" PRIu32 ": the %s that begins at operation %" PRIu32 " %s rank %" PRIu32,
                           program->rank, collective_call_name((enum collective_call)collective->call),
                           collective->first_op, what, other);
}

/* The k-th call of a family. */
struct occurrence {
    const struct family *family;
    size_t k;
    uint32_t n, *numbers, *ranks; /* members that take part: their numbers in the family, and ranks */
};

static const struct collective *collective_of(const struct collective_plan *plan, const struct occurrence *o,
                                              uint32_t number)
{
    const struct list *list = &o->family->collectives[number];
    const struct program *program = &plan->programs[o->family->members[number]];
    return o->k < list->count ? &program->collectives[list->items[o->k]] : NULL;
}

static struct planned_call *call_of(const struct collective_plan *plan, const struct occurrence *o, uint32_t number)
{
    return &plan->calls[o->family->members[number]][o->family->collectives[number].items[o->k]];
}

static void plan_member(struct collective_plan *plan, const struct occurrence *o, uint32_t me, uint32_t team)
{
    const struct program *program = &plan->programs[o->ranks[me]];
    const struct collective *collective = collective_of(plan, o, o->numbers[me]);
    struct planned_call *call = call_of(plan, o, o->numbers[me]);
    struct block *rows = touched_rows(plan, program, collective);
    *call = (struct planned_call){.team = team,
                                  .n_members = o->n,
                                  .me = me,
                                  .sources = memory_zeroed(2 * (size_t)o->n, sizeof *call->sources),
                                  .bytes = memory_zeroed(o->n, sizeof *call->bytes)};
    call->targets = call->sources + o->n;
    for (uint32_t i = 0; i < o->n; i++) {
        call->sources[i] = share_of(program, collective->sources, o->numbers[i], rows);
        call->targets[i] = share_of(program, collective->targets, o->numbers[i], rows);
    }
    free(rows);
}

/* Whether what `me` gives and gets is what member `i` expects. */
static bool agrees(const struct collective_plan *plan, const struct occurrence *o, uint32_t me, uint32_t i)
{
    const struct program *mine = &plan->programs[o->ranks[me]], *other = &plan->programs[o->ranks[i]];
    const struct planned_call *call = call_of(plan, o, o->numbers[me]), *theirs = call_of(plan, o, o->numbers[i]);
    enum collective_call kind = (enum collective_call)collective_of(plan, o, o->numbers[me])->call;
    uint64_t given = bytes_of(plan, mine, &call->sources[i]), got = bytes_of(plan, mine, &call->targets[i]);
    switch (kind) {
    case CALL_ALL_GATHER:
        return got == call->bytes[i];
    case CALL_REDUCE_SCATTER:
        return given == 0 || given == call->bytes[i];
    case CALL_ALL_TO_ALL:
        return me == i || given == bytes_of(plan, other, &theirs->targets[me]);
    case CALL_ALL_REDUCE:
        return call->bytes[i] == call->bytes[me];
    case CALL_COUNT:
        break;
    }
    return false;
}

/* What all members must know of it: the sizes of blocks, and of what type they are, though one may have none itself. */
static void share_knowledge(struct collective_plan *plan, const struct occurrence *o, enum collective_call kind)
{
    uint64_t *bytes = memory_zeroed(o->n, sizeof *bytes);
    const struct buffer *example = NULL;
    for (uint32_t i = 0; i < o->n; i++) {
        const struct program *program = &plan->programs[o->ranks[i]];
        const struct planned_call *call = call_of(plan, o, o->numbers[i]);
        const struct planned_share *own = kind == CALL_ALL_GATHER ? &call->sources[call->me] : &call->targets[call->me];
        bytes[i] = bytes_of(plan, program, own);
        if (own->block.count)
            example = &program->buffers[own->buffer];
    }
    for (uint32_t i = 0; i < o->n; i++) {
        struct planned_call *call = call_of(plan, o, o->numbers[i]);
        memcpy(call->bytes, bytes, o->n * sizeof *bytes);
        call->dtype = example ? (enum dtype)example->dtype : DTYPE_FP32;
        call->largest = example && example->tensor == TENSOR_TOP;
    }
    free(bytes);
}

static bool plan_call(struct collective_plan *plan, struct occurrence *o, struct diagnostics *diag)
{
    const struct collective *first = NULL;
    bool good = true;
    o->n = 0;
    for (uint32_t number = 0; number < o->family->n; number++) {
        const struct collective *collective = collective_of(plan, o, number);
        if (collective)
            call_of(plan, o, number)->team = NO_TEAM;
        if (!collective || collective->first_op == collective->end_op)
            continue;
        first = first ? first : collective;
        if (first->call != collective->call)
            good = complain(&plan->programs[o->family->members[number]], collective, diag, "is another call on",
                            o->ranks[0]);
        o->numbers[o->n] = number;
        o->ranks[o->n++] = o->family->members[number];
    }
    if (o->n == 0 || !good)
        return good;
    uint32_t team = find_team(plan, o->family->stream, o->ranks, o->n);
    for (uint32_t me = 0; me < o->n; me++)
        plan_member(plan, o, me, team);
    share_knowledge(plan, o, (enum collective_call)first->call);
    for (uint32_t me = 0; me < o->n; me++)
        for (uint32_t i = 0; i < o->n && good; i++)
            if (!agrees(plan, o, me, i))
                good = complain(&plan->programs[o->ranks[me]], collective_of(plan, o, o->numbers[me]), diag,
                                "does not carry what is expected by", o->ranks[i]);
    return good;
}

bool collective_plan_init(struct collective_plan *plan, const struct schedule *schedule, const struct program *programs,
                          struct diagnostics *diag)
{
    *plan = (struct collective_plan){.schedule = schedule, .programs = programs};
    plan->calls = memory_zeroed(schedule->ranks, sizeof *plan->calls);
    for (uint32_t r = 0; r < schedule->ranks; r++)
        plan->calls[r] = memory_zeroed(programs[r].n_collectives, sizeof **plan->calls);
    struct families families = {0};
    find_families(&families, plan);
    bool good = true;
    for (size_t f = 0; f < families.count; f++) {
        const struct family *family = &families.items[f];
        struct occurrence occurrence = {.family = family,
                                        .numbers = memory_zeroed(2 * (size_t)family->n, sizeof(uint32_t))};
        occurrence.ranks = occurrence.numbers + family->n;
        size_t most = 0;
        for (uint32_t i = 0; i < family->n; i++)
            most = family->collectives[i].count > most ? family->collectives[i].count : most;
        for (occurrence.k = 0; occurrence.k < most; occurrence.k++)
            good = plan_call(plan, &occurrence, diag) && good;
        free(occurrence.numbers);
    }
    families_fini(&families);
    return good;
}

void collective_plan_fini(struct collective_plan *plan)
{
    for (uint32_t r = 0; plan->calls && r < plan->schedule->ranks; r++) {
        for (uint32_t c = 0; c < plan->programs[r].n_collectives; c++) {
            free(plan->calls[r][c].sources);
            free(plan->calls[r][c].bytes);
        }
        free(plan->calls[r]);
    }
    for (size_t t = 0; t < plan->n_teams; t++)
        free(plan->teams[t].members);
    free(plan->calls);
    free(plan->teams);
    *plan = (struct collective_plan){0};
}

bool collective_plan_is_empty(const struct collective_plan *plan)
{
    return plan->n_teams == 0;
}
