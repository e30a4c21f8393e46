/* Contents of joined shards as contents of their ranks' shards, and back: row by row the same, whatever the sharding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdlib.h>

#include "models/schedule/checker/rows.h"

static uint32_t below(uint32_t bound)
{
    return (uint32_t)rand() % bound;
}

static uint32_t sum_at(const struct contents *contents, uint32_t owner, uint32_t row)
{
    for (uint32_t i = 0; i < contents->count; i++) {
        const struct piece *piece = &contents->pieces[i];
        if (piece->owner == owner && row >= piece->first && row - piece->first < piece->count)
            return piece->sum;
    }
    fail_msg("row %u is not there", row);
    return 0;
}

/* Rows of a joined shard in runs of random sums; one sum for all in a third of the cases. */
static void fill(struct contents *joined, struct block rows)
{
    joined->count = 0;
    uint32_t longest = below(3) ? 1 + below(5) : rows.count;
    for (uint32_t row = rows.first, end = rows.first + rows.count; row < end;) {
        uint32_t count = 1 + below(longest);
        count = count < end - row ? count : end - row;
        contents_append(joined, (struct block){rows.owner, row, count}, 1 + below(3));
        row += count;
    }
}

static uint64_t position_of(const struct sharding *sharding, uint32_t owner, uint32_t row)
{
    struct span spans[SHARD_SPANS_MAX];
    assert_int_equal(sharding_block_spans(sharding, (struct block){owner, row, 1}, spans), 1);
    return spans[0].first;
}

static void try_group(const struct sharding *sharding, uint32_t group)
{
    uint32_t owner = block_joined(group), all = (uint32_t)sharding_rows(sharding, owner);
    if (all == 0)
        return;
    struct block rows = {owner, below(all), 0};
    rows.count = 1 + below(all - rows.first);
    struct contents joined = {0}, part = {0}, parts = {0}, again = {0};
    fill(&joined, rows);
    for (uint32_t member = 0; member < sharding->joined; member++) {
        uint32_t rank = sharding_group_rank(sharding, group, member);
        rows_split(sharding, &joined, rank, &part);
        for (uint32_t i = 0; i < part.count; i++)
            for (uint32_t r = part.pieces[i].first; r < part.pieces[i].first + part.pieces[i].count; r++) {
                uint64_t position = position_of(sharding, rank, r);
                uint32_t row = (uint32_t)sharding_rows_below(sharding, owner, position);
                assert_int_equal(part.pieces[i].sum, sum_at(&joined, owner, row));
            }
        contents_extend(&parts, &part);
    }
    rows_join(sharding, rows, &parts, &again);
    assert_int_equal(again.count, joined.count); /* no more pieces than there were */
    for (uint32_t i = 0; i < again.count; i++) {
        assert_int_equal(again.pieces[i].owner, joined.pieces[i].owner);
        assert_int_equal(again.pieces[i].first, joined.pieces[i].first);
        assert_int_equal(again.pieces[i].count, joined.pieces[i].count);
        assert_int_equal(again.pieces[i].sum, joined.pieces[i].sum);
    }
    contents_fini(&joined);
    contents_fini(&part);
    contents_fini(&parts);
    contents_fini(&again);
}

static void split_rows_join_to_what_they_were(void **state)
{
    (void)state;
    srand(5);
    for (unsigned i = 0; i < 3000; i++) {
        uint32_t joined = 1 + below(4), ranks = joined * (1 + below(3));
        struct experiment experiment = {.degree = {1, ranks, 1}, .sharding = (enum sharding_kind)below(3)};
        uint64_t cached = below(2) ? below(20) : 0;
        uint64_t fresh = experiment.sharding == SHARDING_ZIGZAG ? 2 * (uint64_t)ranks * (1 + below(3)) : 1 + below(40);
        experiment.seq_len = cached + fresh;
        experiment.new_tokens = cached ? fresh : 0;
        struct sharding sharding;
        sharding_init(&sharding, &experiment, joined);
        try_group(&sharding, below(ranks / joined));
        sharding_fini(&sharding);
    }
}

/* Two ranks in turn, each with a sum of its own: every row is a piece. */
static void sums_that_alternate_are_kept_apart(void **state)
{
    (void)state;
    struct experiment experiment = {.degree = {1, 2, 1}, .sharding = SHARDING_STRIPED, .seq_len = 6};
    struct sharding sharding;
    sharding_init(&sharding, &experiment, 2);
    struct contents parts = {0}, run = {0};
    contents_append(&parts, (struct block){0, 0, 3}, 7);
    contents_append(&parts, (struct block){1, 0, 3}, 8);
    rows_join(&sharding, (struct block){block_joined(0), 0, 6}, &parts, &run);
    assert_int_equal(run.count, 6);
    for (uint32_t row = 0; row < 6; row++)
        assert_int_equal(sum_at(&run, block_joined(0), row), 7 + row % 2);
    contents_fini(&parts);
    contents_fini(&run);
    sharding_fini(&sharding);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_rows_join_to_what_they_were),
        cmocka_unit_test(sums_that_alternate_are_kept_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
