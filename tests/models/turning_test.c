/* Where an algorithm says that its programs turn, rank r's is rank 0's with every rank number turned by r, up to the
 * order in which buffers are numbered; and only algorithms for which that is so say it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"

/* Two programs side by side, and which buffer of the one is which of the other: 1 + index, 0: not met yet. */
struct sides {
    const struct program *first, *turned;
    uint32_t turn, ranks;
    uint32_t *turned_of;
};

static uint32_t turned_rank(const struct sides *sides, uint32_t rank)
{
    return (rank + sides->turn) % sides->ranks;
}

static bool same_block(const struct sides *sides, struct block a, struct block b)
{
    bool is_rank = a.owner != BLOCK_ALL && !block_is_joined(a.owner);
    uint32_t owner = is_rank && a.count ? turned_rank(sides, a.owner) : a.owner;
    return a.count == b.count && (a.count == 0 || (owner == b.owner && a.first == b.first));
}

static bool same_buffer(const struct buffer *a, const struct buffer *b)
{
    return a->tensor == b->tensor && a->dtype == b->dtype && a->role == b->role && a->first == b->first &&
           a->rows == b->rows && a->bytes == b->bytes && lanes_equal(a->lanes, b->lanes) &&
           (a->array != 0) == (b->array != 0);
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Whether two lists are of the same buffers; a buffer met for the first time is met in both lists at one place. */
static bool same_list(struct sides *sides, const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t *mine = memory_zeroed(n, sizeof *mine), *theirs = memory_zeroed(n, sizeof *theirs);
    for (uint32_t i = 0; i < n; i++) {
        if (sides->turned_of[a[i]] == 0)
            sides->turned_of[a[i]] = 1 + b[i];
        mine[i] = sides->turned_of[a[i]] - 1;
        theirs[i] = b[i];
    }
    if (n) {
        qsort(mine, n, sizeof *mine, compare);
        qsort(theirs, n, sizeof *theirs, compare);
    }
    bool same = memcmp(mine, theirs, n * sizeof *mine) == 0;
    for (uint32_t i = 0; same && i < n; i++)
        same = same_buffer(&sides->first->buffers[a[i]], &sides->turned->buffers[sides->turned_of[a[i]] - 1]);
    free(mine);
    free(theirs);
    return same;
}

static bool same_op(struct sides *sides, uint32_t i)
{
    const struct op *a = &sides->first->ops[i], *b = &sides->turned->ops[i];
    return a->kind == b->kind && a->stream == b->stream && a->n_reads == b->n_reads && a->n_writes == b->n_writes &&
           a->group == b->group && a->collective == b->collective && same_block(sides, a->q, b->q) &&
           same_block(sides, a->k, b->k) && lanes_equal(a->lanes, b->lanes) && a->pairs == b->pairs &&
           (!op_is_message(a) ||
            (turned_rank(sides, a->peer) == b->peer && a->traffic == b->traffic && a->part == b->part)) &&
           same_list(sides, program_writes(sides->first, a), program_writes(sides->turned, b), a->n_writes) &&
           same_list(sides, program_reads(sides->first, a), program_reads(sides->turned, b), a->n_reads);
}

static bool same_collective(const struct sides *sides, uint32_t i)
{
    const struct collective *a = &sides->first->collectives[i], *b = &sides->turned->collectives[i];
    bool same = a->call == b->call && a->stream == b->stream && a->phase == b->phase && a->n_members == b->n_members &&
                a->first_op == b->first_op && a->end_op == b->end_op;
    uint32_t n = same ? a->n_members : 0;
    uint32_t *mine = memory_zeroed(n, sizeof *mine), *theirs = memory_zeroed(n, sizeof *theirs);
    for (uint32_t m = 0; m < n; m++) {
        mine[m] = turned_rank(sides, sides->first->lists[a->members + m]);
        theirs[m] = sides->turned->lists[b->members + m];
    }
    if (n) {
        qsort(mine, n, sizeof *mine, compare);
        qsort(theirs, n, sizeof *theirs, compare);
    }
    same = same && memcmp(mine, theirs, n * sizeof *mine) == 0;
    free(mine);
    free(theirs);
    return same;
}

static bool is_turned(const struct program *first, const struct program *turned, uint32_t turn, uint32_t ranks)
{
    struct sides sides = {first, turned, turn, ranks, NULL};
    bool same = first->n_ops == turned->n_ops && first->n_buffers == turned->n_buffers &&
                first->n_collectives == turned->n_collectives && first->n_groups == turned->n_groups;
    for (int p = 0; p < PHASE_COUNT; p++)
        same = same && first->phase_end[p] == turned->phase_end[p];
    sides.turned_of = memory_zeroed(first->n_buffers, sizeof *sides.turned_of);
    for (uint32_t i = 0; same && i < first->n_ops; i++)
        same = same_op(&sides, i);
    for (uint32_t i = 0; same && i < first->n_collectives; i++)
        same = same_collective(&sides, i);
    free(sides.turned_of);
    return same;
}

static bool all_turn(const struct asked *a)
{
    bool good = true;
    for (uint32_t r = 1; r < a->schedule.ranks; r++)
        good = good && is_turned(&a->programs[0], &a->programs[r], r, a->schedule.ranks);
    return good;
}

static const char *const settings[] = {
    "",
    "overlap = no",
    "kv_block = 5",
    "kv_block = 5\nbuffers = 3",
    "kv_messages = 2",
    "gradients = model",
    "skip = none",
    "skip = transfer",
    "collective = ring",
    "collective = direct",
    "collective = hierarchical:2",
    "sharding = zigzag",
    "sharding = striped",
    "sharding = 10,20,30,40,50,90",
    "ulysses_degree = 2",
    "ring_window = 3",
    "gather_heads = 2",
    "inner = ring",
};

/* Asks every algorithm under every setting that it takes; counts how many turn, and are said to. */
static void each_schedule(const char *mask, const char *pass, const char *workload, unsigned *turning, unsigned *said)
{
    for (size_t n = 0; algorithms[n]; n++) {
        for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
            char *schedule = memory_format("algorithm = %s\n%s", algorithms[n]->name, settings[s]);
            const struct question question = {6, 12, 6, 16, 2, 240, mask, pass, workload, schedule};
            struct diagnostics diag;
            struct asked a;
            diagnostics_init(&diag);
            if (asked_try(&a, question_text(&question), &diag)) {
                bool turns = all_turn(&a), says = schedule_period(&a.schedule) == 1;
                if (says && !turns)
                    fail_msg("%s, %s, %s: does not turn", mask, pass, schedule);
                *turning += turns;
                *said += says;
                asked_fini(&a);
            }
            diagnostics_fini(&diag);
            free(schedule);
        }
    }
}

static void programs_that_are_said_to_turn_do(void **state)
{
    (void)state;
    unsigned turning = 0, said = 0;
    each_schedule("full", "train", NULL, &turning, &said);
    each_schedule("full", "forward", NULL, &turning, &said);
    print_message("%u schedules turn, %u are said to\n", turning, said);
    assert_true(said > 20);
    each_schedule("full", "forward", "new_tokens = 60", &turning, &said);
}

static void under_other_masks_nobody_says_so(void **state)
{
    (void)state;
    unsigned turning = 0, said = 0;
    each_schedule("causal", "forward", NULL, &turning, &said);
    each_schedule("window:50", "train", NULL, &turning, &said);
    assert_int_equal(said, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_that_are_said_to_turn_do),
        cmocka_unit_test(under_other_masks_nobody_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
