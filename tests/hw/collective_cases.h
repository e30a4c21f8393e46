/* collective_cases.h - for tests: a transport's collectives on numbers that are known everywhere.
 *
 * Every rank goes through the same random cases: which ranks are the team, what each gives to each, in how many pieces,
 * which of it is not there. Numbers are whole and small, so that sums are exact in bf16 and in any order.
 */
#ifndef CPSIM_TESTS_HW_COLLECTIVE_CASES_H
#define CPSIM_TESTS_HW_COLLECTIVE_CASES_H

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "hw/transport/shares.h"
#include "hw/verify/inputs.h"
#include "models/base/memory.h"
#include "tests/random_experiment.h"

#define TEAM_MAX 8

struct collective_case {
    enum collective_call call;
    enum dtype dtype;
    bool largest;
    uint32_t n, members[TEAM_MAX];        /* ranks */
    uint64_t numbers[TEAM_MAX][TEAM_MAX]; /* [giver][block]; of a sum 0 for a share that is not there */
    uint64_t block[TEAM_MAX];             /* numbers of member i's block */
    bool in_place, one_run;
};

/* The number at `i` of what member `from` gives for block `block`. */
static inline float case_number(uint32_t from, uint32_t block, uint64_t i)
{
    return (float)((from * 5 + block * 3 + i) % 11) - 5;
}

static inline struct collective_case random_case(struct dice *dice, uint32_t ranks)
{
    struct collective_case c = {.call = (enum collective_call)dice_below(dice, CALL_COUNT),
                                .dtype = dice_chance(dice, 2) ? DTYPE_BF16 : DTYPE_FP32,
                                .in_place = dice_chance(dice, 2),
                                .one_run = dice_chance(dice, 2)};
    c.largest = c.call == CALL_ALL_REDUCE && dice_chance(dice, 2);
    uint32_t left_out = ranks > 2 && dice_chance(dice, 2) ? dice_below(dice, ranks) : ranks;
    for (uint32_t r = 0; r < ranks; r++) /* against the order of the ranks */
        if (ranks - 1 - r != left_out)
            c.members[c.n++] = ranks - 1 - r;
    for (uint32_t i = 0; i < c.n; i++)
        c.block[i] = dice_chance(dice, 5) ? 0 : 1 + dice_below(dice, dice_chance(dice, 4) ? 70000 : 300);
    for (uint32_t i = 0; i < c.n; i++) {
        if (c.call == CALL_ALL_REDUCE)
            c.block[i] = c.block[0];
        for (uint32_t k = 0; k < c.n; k++) {
            c.numbers[i][k] = c.block[k];
            if (c.call == CALL_ALL_GATHER || c.call == CALL_ALL_REDUCE)
                c.numbers[i][k] = i == k ? c.block[i] : 0;
            else if (c.call == CALL_ALL_TO_ALL)
                c.numbers[i][k] = i == k || dice_chance(dice, 4) ? 0 : 1 + dice_below(dice, 500);
            else if (dice_chance(dice, 4))
                c.numbers[i][k] = 0;
        }
    }
    return c;
}

/* What member `me` must find in target `i`. */
static inline float expected_number(const struct collective_case *c, uint32_t me, uint32_t i, uint64_t at)
{
    if (c->call == CALL_ALL_GATHER)
        return case_number(i, i, at);
    if (c->call == CALL_ALL_TO_ALL)
        return case_number(i, me, at);
    float sum = 0;
    bool first = true;
    for (uint32_t from = 0; from < c->n; from++) {
        uint32_t block = c->call == CALL_ALL_REDUCE ? from : me;
        if (c->numbers[from][block] == 0)
            continue;
        float number = case_number(from, block, at);
        sum = first ? number : c->largest ? (number > sum ? number : sum) : sum + number;
        first = false;
    }
    return sum;
}

static inline uint64_t target_numbers(const struct collective_case *c, uint32_t me, uint32_t i)
{
    switch (c->call) {
    case CALL_ALL_GATHER:
        return c->block[i];
    case CALL_ALL_TO_ALL:
        return c->numbers[i][me];
    default:
        return i == me ? c->block[me] : 0;
    }
}

static inline void write_number(enum dtype dtype, void *memory, uint64_t i, float number)
{
    if (dtype == DTYPE_BF16)
        ((uint16_t *)memory)[i] = bf16_from_float(number);
    else
        ((float *)memory)[i] = number;
}

static inline float read_number(enum dtype dtype, const void *memory, uint64_t i)
{
    return dtype == DTYPE_BF16 ? bf16_to_float(((const uint16_t *)memory)[i]) : ((const float *)memory)[i];
}

/* Memory for `numbers` in up to three pieces with gaps between them; in one piece right at `run` if that is given. The
 * pieces' numbers, one behind the other, come from `fill` with what is not NULL. */
struct case_memory {
    struct share_of_memory share;
    char *memory; /* to be freed */
};

static inline struct case_memory case_memory(struct dice *dice, enum dtype dtype, uint64_t numbers, char *run)
{
    struct case_memory out = {.memory = NULL};
    uint64_t size = dtype_bytes(dtype), cut = numbers > 2 && !run ? dice_below(dice, (uint32_t)numbers) : 0;
    if (numbers == 0)
        return out;
    char *memory = run ? run : (out.memory = memory_zeroed(numbers + 8, size));
    if (cut == 0) {
        out.share = (struct share_of_memory){{{memory, numbers * size}}, 1};
    } else {
        out.share =
            (struct share_of_memory){{{memory, cut * size}, {memory + (cut + 8) * size, (numbers - cut) * size}}, 2};
    }
    return out;
}

static inline bool run_case(const struct transport_ops *ops, struct transport *end, int team, uint32_t me,
                            const struct collective_case *c, struct dice *dice)
{
    uint64_t size = dtype_bytes(c->dtype), bytes[TEAM_MAX], total = 0;
    struct case_memory sources[TEAM_MAX] = {0}, targets[TEAM_MAX] = {0};
    struct share_of_memory source_shares[TEAM_MAX], target_shares[TEAM_MAX];
    for (uint32_t i = 0; i < c->n; i++) {
        bytes[i] = c->block[i] * size;
        total += c->block[i] + c->numbers[me][i] + target_numbers(c, me, i);
    }
    char *runs = memory_zeroed(total + 1, size), *run = runs;
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t numbers = c->numbers[me][i];
        sources[i] = case_memory(dice, c->dtype, numbers, c->one_run ? run : NULL);
        run += numbers * size;
        char *scratch = memory_zeroed(numbers + 1, size);
        for (uint64_t at = 0; at < numbers; at++)
            write_number(c->dtype, scratch, at, case_number(me, i, at));
        share_write(&sources[i].share, 0, scratch, numbers * size);
        free(scratch);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        bool same = i == me && (c->call == CALL_ALL_REDUCE ||
                                (c->in_place && sources[me].share.n_pieces && c->call != CALL_ALL_TO_ALL));
        targets[i] = same ? (struct case_memory){sources[me].share, NULL}
                          : case_memory(dice, c->dtype, target_numbers(c, me, i), c->one_run ? run : NULL);
        run += target_numbers(c, me, i) * size;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        source_shares[i] = sources[i].share;
        target_shares[i] = targets[i].share;
    }
    const struct collective_part part = {.call = c->call,
                                         .sources = source_shares,
                                         .targets = target_shares,
                                         .bytes = bytes,
                                         .dtype = c->dtype,
                                         .largest = c->largest};
    int request = ops->post_collective(end, team, &part);
    memset(source_shares, 0, sizeof source_shares); /* only the memory behind them may still be needed */
    memset(target_shares, 0, sizeof target_shares);
    while (!ops->test(end, request))
        sched_yield();
    bool good = true;
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t numbers = target_numbers(c, me, i);
        char *scratch = memory_zeroed(numbers + 1, size);
        share_read(&targets[i].share, 0, scratch, numbers * size);
        for (uint64_t at = 0; at < numbers; at++)
            good = good && read_number(c->dtype, scratch, at) == expected_number(c, me, i, at);
        free(scratch);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        free(sources[i].memory);
        free(targets[i].memory);
    }
    free(runs);
    return good;
}

/* Opens teams in two streams, as hardware would, and runs `cases`. Every rank calls it. */
static inline bool run_cases(const struct transport_ops *ops, struct transport *end, uint32_t rank, uint32_t ranks,
                             unsigned cases)
{
    enum { KINDS = 2 * (TEAM_MAX + 1) };
    int teams[KINDS]; /* by stream and who is left out */
    struct dice shared = {.state = 5}, own = {.state = rank + 1};
    for (uint32_t t = 0; t < 2 * (ranks + 1); t++) {
        uint32_t members[TEAM_MAX], n = 0;
        for (uint32_t r = ranks; r-- > 0;)
            if (r != t / 2)
                members[n++] = r;
        teams[t] = -1;
        if (n && (t / 2 != rank))
            teams[t] = ops->open_team(end, t % 2 ? STREAM_GRADIENT : STREAM_EXCHANGE, members, n);
    }
    bool good = ops->barrier(end); /* teams are opened while nothing is under way */
    for (unsigned i = 0; i < cases; i++) {
        struct collective_case c = random_case(&shared, ranks);
        uint32_t stream = dice_below(&shared, 2), me = 0, left_out = ranks;
        for (uint32_t r = 0; r < ranks && c.n < ranks; r++) {
            bool member = false;
            for (uint32_t m = 0; m < c.n; m++)
                member = member || c.members[m] == r;
            left_out = member ? left_out : r;
        }
        while (me < c.n && c.members[me] != rank)
            me++;
        if (me < c.n)
            good = run_case(ops, end, teams[2 * left_out + stream], me, &c, &own) && good;
    }
    return good;
}

#endif
