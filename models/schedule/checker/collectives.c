/* collectives.c - whether a library's calls could take the place of what is written out: each collective is one piece
 * of one stream, and all who take part make the same calls in the same order, or they would wait for each other for
 * ever. The order is tried out: stream by stream, a call is done when all its members have come to it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"
#include "models/schedule/checker/internal.h"

/* ---- each program ---- */

static bool complain(struct check *check, const struct program *program, uint32_t index, const char *what)
{
    findings_add(&check->findings, "rank %" PRIu32 ", collective %" PRIu32 ": %s", program->rank, index, what);
    return false;
}

static bool lists_fit(const struct program *program, const struct collective *c)
{
    uint64_t n = c->n_members;
    return c->members + n <= program->n_lists && c->sources + n <= program->n_lists &&
           c->targets + n <= program->n_lists;
}

static bool check_lists(struct check *check, const struct program *program, uint32_t index)
{
    const struct collective *c = &program->collectives[index];
    const uint32_t *members = program->lists + c->members;
    if (members[c->me] != program->rank)
        return complain(check, program, index, "this rank is not the member that it says it is");
    bool *seen = memory_zeroed(check->ranks, sizeof *seen);
    bool sound = true;
    for (uint32_t i = 0; i < c->n_members && sound; i++) {
        uint32_t source = program->lists[c->sources + i], target = program->lists[c->targets + i];
        sound = members[i] < check->ranks && !seen[members[i]];
        if (sound)
            seen[members[i]] = true;
        sound = sound && (source == NO_BUFFER || source < program->n_buffers) &&
                (target == NO_BUFFER || target < program->n_buffers);
    }
    free(seen);
    return sound || complain(check, program, index, "it names a rank or a buffer that does not exist, or a rank twice");
}

static bool check_entry(struct check *check, const struct program *program, uint32_t index)
{
    const struct collective *c = &program->collectives[index];
    if (c->call >= CALL_COUNT || c->stream >= STREAM_COUNT || c->me >= c->n_members || !lists_fit(program, c) ||
        c->first_op > c->end_op || c->end_op > program->n_ops)
        return complain(check, program, index, "it is of no call, stream, members or operations");
    if (index && c->first_op < program->collectives[index - 1].end_op)
        return complain(check, program, index, "it begins before the one before it ends");
    if (c->phase >= PHASE_COUNT ||
        (c->first_op < c->end_op && (program_phase(program, c->first_op) != (enum phase)c->phase ||
                                     program_phase(program, c->end_op - 1) != (enum phase)c->phase)))
        return complain(check, program, index, "its operations are not of its phase");
    return check_lists(check, program, index);
}

/* An operation is in a collective's run if and only if it says that it is of it, and a group not in two of them. */
static void check_ops(struct check *check, const struct program *program)
{
    uint32_t next = 0, group_of[STREAM_COUNT] = {0}, collective_of[STREAM_COUNT] = {0};
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct op *op = &program->ops[i];
        while (next < program->n_collectives && program->collectives[next].end_op <= i)
            next++;
        const struct collective *c = next < program->n_collectives ? &program->collectives[next] : NULL;
        uint32_t expected = c && c->first_op <= i && c->stream == op->stream ? next + 1 : 0;
        if (op->collective != expected)
            findings_add_op(&check->findings, program, i, "is of collective %" PRId64 ", expected %" PRId64,
                            (int64_t)op->collective - 1, (int64_t)expected - 1);
        if (op->group && op->group == group_of[op->stream] && op->collective != collective_of[op->stream])
            findings_add_op(&check->findings, program, i, "is of another collective than others of its group");
        group_of[op->stream] = op->group;
        collective_of[op->stream] = op->collective;
    }
}

static bool check_program(struct check *check, const struct program *program)
{
    uint64_t before = check->findings.count;
    for (uint32_t i = 0; i < program->n_collectives; i++)
        if (!check_entry(check, program, i))
            return false;
    check_ops(check, program);
    return check->findings.count == before;
}

/* ---- all programs ---- */

struct waiting {
    uint32_t next;    /* the collective that the rank has come to; n_collectives: it has none left */
    uint32_t matched; /* of those that it leads: members [0, matched) have come to it too */
    uint32_t sleeper; /* 1 + a leader that waits for this rank */
    uint32_t after;   /* 1 + another that waits for the same rank as this leader */
    bool asleep;      /* this leader waits for a rank */
};

static void skip_to_stream(const struct program *program, struct waiting *waiting, int stream)
{
    while (waiting->next < program->n_collectives && program->collectives[waiting->next].stream != stream)
        waiting->next++;
}

static const struct collective *head_of(const struct check *check, const struct waiting *waiting, uint32_t rank)
{
    const struct program *program = &check->programs[rank];
    return waiting[rank].next < program->n_collectives ? &program->collectives[waiting[rank].next] : NULL;
}

static bool same_call(const struct check *check, const struct waiting *waiting, uint32_t a, uint32_t b)
{
    const struct collective *x = head_of(check, waiting, a), *y = head_of(check, waiting, b);
    const struct program *px = &check->programs[a], *py = &check->programs[b];
    return x && y && x->call == y->call && x->n_members == y->n_members && x->phase == y->phase &&
           memcmp(px->lists + x->members, py->lists + y->members, x->n_members * sizeof *px->lists) == 0;
}

/* Tries to complete the call that `leader`, its first member, has come to; returns false when it waits for someone. */
static bool try_call(const struct check *check, struct waiting *waiting, uint32_t leader, int stream)
{
    const struct collective *c = head_of(check, waiting, leader);
    if (!c || c->me != 0 || waiting[leader].asleep)
        return false;
    const uint32_t *members = check->programs[leader].lists + c->members;
    for (uint32_t *i = &waiting[leader].matched; *i < c->n_members; ++*i) {
        uint32_t member = members[*i];
        if (!same_call(check, waiting, leader, member)) {
            waiting[leader].after = waiting[member].sleeper;
            waiting[member].sleeper = leader + 1;
            waiting[leader].asleep = true;
            return false;
        }
    }
    waiting[leader].matched = 0;
    for (uint32_t i = 0; i < c->n_members; i++) {
        waiting[members[i]].next++;
        skip_to_stream(&check->programs[members[i]], &waiting[members[i]], stream);
    }
    return true;
}

struct rank_list {
    uint32_t *ranks;
    uint32_t count, capacity;
};

static void push(struct rank_list *list, uint32_t rank)
{
    memory_grow(list->ranks, list->count, list->capacity);
    list->ranks[list->count++] = rank;
}

/* After `members` have gone on: they may lead their next calls, and others may have waited for them. */
static void wake(struct waiting *waiting, const uint32_t *members, uint32_t count, struct rank_list *list)
{
    for (uint32_t i = 0; i < count; i++) {
        push(list, members[i]);
        for (uint32_t sleeper = waiting[members[i]].sleeper; sleeper; sleeper = waiting[sleeper - 1].after) {
            waiting[sleeper - 1].asleep = false;
            push(list, sleeper - 1);
        }
        waiting[members[i]].sleeper = 0;
    }
}

/* "collective 0, all-to-all of 4 ranks from rank 0 on, forward", or "none" */
static void describe_call(const struct check *check, const struct waiting *waiting, uint32_t rank, char *text,
                          size_t size)
{
    const struct collective *c = head_of(check, waiting, rank);
    if (!c)
        snprintf(text, size, "none");
    else
        snprintf(text, size, "collective %" PRIu32 ", %s of %" PRIu32 " ranks from rank %" PRIu32 " on, %s",
                 waiting[rank].next, collective_call_name((enum collective_call)c->call), c->n_members,
                 check->programs[rank].lists[c->members], phase_name((enum phase)c->phase));
}

/* One line: a rank that waits for ever, and for whom. */
static void report_stuck(struct check *check, const struct waiting *waiting, int stream)
{
    for (uint32_t rank = 0; rank < check->ranks; rank++) {
        const struct collective *c = head_of(check, waiting, rank);
        for (uint32_t i = 0; c && i < c->n_members; i++) {
            uint32_t member = check->programs[rank].lists[c->members + i];
            if (same_call(check, waiting, rank, member))
                continue;
            char own[160], other[160];
            describe_call(check, waiting, rank, own, sizeof own);
            describe_call(check, waiting, member, other, sizeof other);
            findings_add(&check->findings,
                         "the collectives of the %s stream do not match: rank %" PRIu32 " comes to %s; rank %" PRIu32
                         ", one of them, to %s",
                         stream_name((enum stream)stream), rank, own, member, other);
            return;
        }
    }
}

static void check_order(struct check *check, int stream)
{
    struct waiting *waiting = memory_zeroed(check->ranks, sizeof *waiting);
    struct rank_list list = {0};
    for (uint32_t rank = check->ranks; rank-- > 0;) {
        skip_to_stream(&check->programs[rank], &waiting[rank], stream);
        push(&list, rank);
    }
    while (list.count) {
        uint32_t leader = list.ranks[--list.count];
        const struct collective *c = head_of(check, waiting, leader);
        if (try_call(check, waiting, leader, stream))
            wake(waiting, check->programs[leader].lists + c->members, c->n_members, &list);
    }
    report_stuck(check, waiting, stream);
    free(waiting);
    free(list.ranks);
}

void collectives_check(struct check *check)
{
    bool sound = true, any = false;
    for (uint32_t rank = 0; rank < check->ranks; rank++) {
        sound = check_program(check, &check->programs[rank]) && sound;
        any = any || check->programs[rank].n_collectives;
    }
    for (int stream = 0; sound && any && stream < STREAM_COUNT; stream++)
        check_order(check, stream);
}
