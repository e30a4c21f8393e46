/* Shardings: every position has exactly one owner, rows ascend, blocks are runs of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdlib.h>

#include "tests/models/sharding_of.h"

#define LENGTH_MAX 512

/* Deals seq_len into random counts, zeros among them. */
static void random_counts(uint64_t seq_len, uint32_t ranks, uint64_t *counts)
{
    uint64_t left = seq_len;
    for (uint32_t r = 0; r + 1 < ranks; r++) {
        counts[r] = (uint64_t)rand() % (left + 1);
        left -= counts[r];
    }
    counts[ranks - 1] = left;
}

/* Writes the positions of `spans` one after the other. */
static size_t list_positions(const struct span *spans, uint32_t n_spans, uint64_t *positions)
{
    size_t n = 0;
    for (uint32_t s = 0; s < n_spans; s++)
        for (uint64_t i = 0; i < spans[s].count; i++)
            positions[n++] = spans[s].first + i * spans[s].stride;
    return n;
}

static void check_sharding(const struct sharding *sharding)
{
    uint8_t owned[LENGTH_MAX] = {0};
    uint64_t total = 0, most = 0;
    for (uint32_t rank = 0; rank < sharding->ranks; rank++) {
        struct shard shard;
        uint64_t positions[LENGTH_MAX], block_positions[LENGTH_MAX];
        sharding_shard(sharding, rank, &shard);
        size_t n = list_positions(shard.spans, shard.n_spans, positions);
        assert_int_equal(n, shard.rows);
        assert_int_equal(n, sharding_rows(sharding, rank));
        for (size_t i = 0; i < n; i++) {
            assert_true(positions[i] < sharding->seq_len);
            assert_true(i == 0 || positions[i - 1] < positions[i]);
            assert_int_equal(owned[positions[i]]++, 0);
        }
        for (uint32_t first = 0; first <= n; first += 1 + (uint32_t)rand() % 4) {
            uint32_t count = (uint32_t)((uint64_t)rand() % (n - first + 1));
            struct span spans[SHARD_SPANS_MAX];
            uint32_t n_spans = sharding_block_spans(sharding, (struct block){rank, first, count}, spans);
            assert_int_equal(list_positions(spans, n_spans, block_positions), count);
            assert_memory_equal(block_positions, positions + first, count * sizeof *positions);
        }
        total += n;
        most = n > most ? n : most;
    }
    assert_int_equal(total, sharding->seq_len);
    assert_int_equal(most, sharding_rows_max(sharding));
}

static void every_position_has_one_owner_and_rows_ascend(void **state)
{
    (void)state;
    srand(1);
    for (int trial = 0; trial < 300; trial++) {
        uint32_t ranks = 1 + (uint32_t)rand() % 9;
        uint64_t seq_len = 1 + (uint64_t)rand() % 60, counts[9];
        random_counts(seq_len, ranks, counts);
        struct sharding shardings[] = {
            sharding_of(SHARDING_CONTIGUOUS, seq_len, ranks, NULL),
            sharding_of(SHARDING_STRIPED, seq_len, ranks, NULL),
            sharding_of(SHARDING_ZIGZAG, 2 * ranks * (1 + seq_len % 5), ranks, NULL),
            sharding_of(SHARDING_EXPLICIT, seq_len, ranks, counts),
        };
        for (size_t i = 0; i < sizeof shardings / sizeof *shardings; i++) {
            check_sharding(&shardings[i]);
            sharding_fini(&shardings[i]);
        }
    }
}

/* ---- per document ---- */

/* Documents of the given lengths, ended by 0; `starts` has room for one more than there are. */
static struct mask documents_of(const uint64_t *lengths, uint64_t *starts)
{
    struct mask mask = {.kind = MASK_DOCUMENTS, .document_starts = starts};
    starts[0] = 0;
    for (; lengths[mask.n_documents]; mask.n_documents++)
        starts[mask.n_documents + 1] = starts[mask.n_documents] + lengths[mask.n_documents];
    mask.seq_len = starts[mask.n_documents];
    return mask;
}

static struct mask random_documents(uint64_t *starts)
{
    uint64_t lengths[21] = {0};
    for (int d = 0, n = 1 + rand() % 20; d < n; d++)
        lengths[d] = 1 + (uint64_t)rand() % (rand() % 2 ? 4 : 24);
    return documents_of(lengths, starts);
}

static void documents_are_dealt_out_one_by_one(void **state)
{
    (void)state;
    srand(2);
    for (int trial = 0; trial < 200; trial++) {
        uint64_t starts[22];
        struct mask mask = random_documents(starts);
        struct sharding sharding = sharding_of_documents(&mask, 1 + (uint32_t)rand() % 9, 1);
        check_sharding(&sharding);
    }
}

/* Every document as zigzag: 8 rows on two ranks are four chunks of two; of 5 the first chunk is longer by one; of 3,
 * the chunks 0, 1, 2 have a row each. */
static void each_document_is_a_zigzag(void **state)
{
    (void)state;
    uint64_t starts[4], positions[LENGTH_MAX];
    struct mask mask = documents_of((const uint64_t[]){8, 5, 3, 0}, starts);
    struct sharding sharding = sharding_of_documents(&mask, 2, 1);
    static const uint64_t expected[2][9] = {{0, 1, 6, 7, 8, 9, 12, 13}, {2, 3, 4, 5, 10, 11, 14, 15}};
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct shard shard;
        sharding_shard(&sharding, rank, &shard);
        assert_int_equal(list_positions(shard.spans, shard.n_spans, positions), 8);
        assert_memory_equal(positions, expected[rank], 8 * sizeof *positions);
    }
}

/* Whole documents of a multiple of 2P rows are exactly those of zigzag; one document is zigzag itself. */
static void a_single_document_is_zigzag(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 8; ranks++) {
        uint64_t starts[2];
        struct mask mask = documents_of((const uint64_t[]){6 * ranks, 0}, starts);
        struct sharding per_document = sharding_of_documents(&mask, ranks, 1);
        struct sharding zigzag = sharding_of(SHARDING_ZIGZAG, 6 * ranks, ranks, NULL);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            struct shard a, b;
            sharding_shard(&per_document, rank, &a);
            sharding_shard(&zigzag, rank, &b);
            assert_int_equal(a.n_spans, b.n_spans);
            assert_memory_equal(a.spans, b.spans, a.n_spans * sizeof *a.spans);
        }
    }
}

/* Of each document any two ranks own equally many rows but for two. */
static void no_rank_owns_two_rows_a_document_more_than_another(void **state)
{
    (void)state;
    srand(3);
    for (int trial = 0; trial < 200; trial++) {
        uint64_t starts[22];
        struct mask mask = random_documents(starts);
        struct sharding sharding = sharding_of_documents(&mask, 1 + (uint32_t)rand() % 9, 1);
        for (size_t d = 0; d < mask.n_documents; d++) {
            uint64_t least = UINT64_MAX, most = 0;
            for (uint32_t rank = 0; rank < sharding.ranks; rank++) {
                uint64_t rows = sharding_rows_below(&sharding, rank, starts[d + 1]) -
                                sharding_rows_below(&sharding, rank, starts[d]);
                least = rows < least ? rows : least;
                most = rows > most ? rows : most;
            }
            assert_true(most - least <= 2);
        }
    }
}

/* A group of ranks owns what its ranks own, in the order of the sequence; each part of a joined block is a run of its
 * rank's rows, and the parts are all of it. */
static void joined_groups_own_what_their_ranks_own(void **state)
{
    (void)state;
    srand(4);
    for (int trial = 0; trial < 200; trial++) {
        uint64_t starts[22];
        struct mask mask = random_documents(starts);
        uint32_t joined = 1 + (uint32_t)rand() % 4, groups = 1 + (uint32_t)rand() % 3;
        struct sharding sharding = sharding_of_documents(&mask, joined * groups, joined);
        for (uint32_t group = 0; group < groups; group++) {
            bool owned[LENGTH_MAX] = {false};
            uint64_t positions[LENGTH_MAX], rows = 0;
            for (uint32_t member = 0; member < joined; member++) {
                struct shard shard;
                sharding_shard(&sharding, sharding_group_rank(&sharding, group, member), &shard);
                for (size_t i = 0, n = list_positions(shard.spans, shard.n_spans, positions); i < n; i++)
                    owned[positions[i]] = true;
                rows += shard.rows;
            }
            struct shard shard;
            sharding_shard(&sharding, block_joined(group), &shard);
            assert_int_equal(shard.rows, rows);
            assert_int_equal(list_positions(shard.spans, shard.n_spans, positions), rows);
            for (uint64_t i = 0; i < rows; i++) {
                assert_true(owned[positions[i]]);
                assert_true(i == 0 || positions[i - 1] < positions[i]);
            }
            uint32_t first = (uint32_t)((uint64_t)rand() % (rows + 1));
            struct block block = {block_joined(group), first, (uint32_t)((uint64_t)rand() % (rows - first + 1))};
            uint64_t parts = 0, in_part[LENGTH_MAX];
            for (uint32_t member = 0; member < joined; member++) {
                struct block part = sharding_part(&sharding, block, sharding_group_rank(&sharding, group, member));
                struct span spans[SHARD_SPANS_MAX];
                size_t n = list_positions(spans, sharding_block_spans(&sharding, part, spans), in_part);
                for (size_t i = 0; i < n; i++)
                    assert_in_range(in_part[i], positions[block.first], positions[block.first + block.count - 1]);
                parts += n;
            }
            assert_int_equal(parts, block.count);
        }
    }
}

/* ---- lengths ---- */

static void uneven_shards_differ_by_at_most_one_row_and_the_longer_come_first(void **state)
{
    (void)state;
    const enum sharding_kind kinds[] = {SHARDING_CONTIGUOUS, SHARDING_STRIPED};
    for (size_t k = 0; k < 2; k++) {
        struct sharding sharding = sharding_of(kinds[k], 2999, 4, NULL); /* 750, 750, 750, 749 */
        for (uint32_t rank = 0; rank < 4; rank++)
            assert_int_equal(sharding_rows(&sharding, rank), rank < 3 ? 750 : 749);
        struct sharding shorter = sharding_of(kinds[k], 3, 8, NULL); /* fewer positions than ranks */
        for (uint32_t rank = 0; rank < 8; rank++)
            assert_int_equal(sharding_rows(&shorter, rank), rank < 3);
    }
}

static void zigzag_pairs_an_early_chunk_with_its_mirror(void **state)
{
    (void)state;
    struct sharding sharding = sharding_of(SHARDING_ZIGZAG, 16, 4, NULL);
    const uint64_t early[] = {0, 2, 4, 6}, late[] = {14, 12, 10, 8};
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct shard shard;
        sharding_shard(&sharding, rank, &shard);
        assert_int_equal(shard.n_spans, 2);
        assert_int_equal(shard.spans[0].first, early[rank]);
        assert_int_equal(shard.spans[1].first, late[rank]);
        assert_int_equal(shard.spans[1].count, 2);
    }
}

static void the_longest_sequence_is_sharded_exactly(void **state)
{
    (void)state;
    struct sharding sharding = sharding_of(SHARDING_ZIGZAG, SEQ_LEN_MAX, 1024, NULL);
    struct shard shard;
    sharding_shard(&sharding, 0, &shard);
    assert_int_equal(shard.spans[1].first + shard.spans[1].count, SEQ_LEN_MAX);
    struct sharding whole = sharding_of(SHARDING_CONTIGUOUS, SEQ_LEN_MAX, 1, NULL);
    assert_int_equal(sharding_rows(&whole, 0), SEQ_LEN_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_has_one_owner_and_rows_ascend),
        cmocka_unit_test(documents_are_dealt_out_one_by_one),
        cmocka_unit_test(each_document_is_a_zigzag),
        cmocka_unit_test(a_single_document_is_zigzag),
        cmocka_unit_test(no_rank_owns_two_rows_a_document_more_than_another),
        cmocka_unit_test(joined_groups_own_what_their_ranks_own),
        cmocka_unit_test(uneven_shards_differ_by_at_most_one_row_and_the_longer_come_first),
        cmocka_unit_test(zigzag_pairs_an_early_chunk_with_its_mirror),
        cmocka_unit_test(the_longest_sequence_is_sharded_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
