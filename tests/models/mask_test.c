/* Visible pairs: closed forms against brute force, known totals, and what trimming keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdlib.h>

#include "models/schedule/mask.h"
#include "tests/models/sharding_of.h"

static uint64_t random_below(uint64_t bound)
{
    return (uint64_t)rand() % bound;
}

/* A mask of `kind` with random parameters; `starts` has room for seq_len + 1 numbers. */
static struct mask random_mask(enum mask_kind kind, uint64_t seq_len, uint64_t *starts)
{
    struct mask mask = {.kind = kind, .seq_len = seq_len};
    if (kind == MASK_WINDOW)
        mask.window = 1 + random_below(random_below(4) ? seq_len : 2 * seq_len);
    if (kind == MASK_DOCUMENTS) {
        mask.document_starts = starts;
        uint64_t longest = 1 + random_below(seq_len);
        starts[0] = 0;
        while (starts[mask.n_documents] < seq_len) {
            uint64_t end = starts[mask.n_documents] + 1 + random_below(longest);
            starts[++mask.n_documents] = end < seq_len ? end : seq_len;
        }
    }
    return mask;
}

/* Visibility by its definition, independent of the code under test. */
static bool defined_visible(const struct mask *mask, uint64_t query, uint64_t key)
{
    switch (mask->kind) {
    case MASK_FULL:
        return true;
    case MASK_CAUSAL:
        return key <= query;
    case MASK_WINDOW:
        return key <= query && query < key + mask->window;
    case MASK_DOCUMENTS:
        for (size_t d = 0; d < mask->n_documents; d++)
            if (mask->document_starts[d] <= key && key <= query && query < mask->document_starts[d + 1])
                return true;
        return false;
    }
    return false;
}

static uint64_t counted_pairs(const struct mask *mask, struct span q, struct span k)
{
    uint64_t pairs = 0;
    for (uint64_t i = 0; i < q.count; i++)
        for (uint64_t j = 0; j < k.count; j++)
            pairs += defined_visible(mask, q.first + i * q.stride, k.first + j * k.stride);
    return pairs;
}

static struct span random_span(uint64_t seq_len)
{
    struct span span = {random_below(seq_len), 1 + random_below(random_below(3) ? 4 : seq_len), 0};
    uint64_t most = (seq_len - 1 - span.first) / span.stride + 1;
    span.count = random_below(most + 1);
    return span;
}

static void pairs_equal_brute_force_for_every_mask_and_span(void **state)
{
    (void)state;
    srand(2);
    for (int trial = 0; trial < 40000; trial++) {
        uint64_t seq_len = 1 + random_below(40), starts[42];
        struct mask mask = random_mask((enum mask_kind)(trial % 4), seq_len, starts);
        struct span q = random_span(seq_len), k = random_span(seq_len);
        assert_int_equal(mask_pairs(&mask, q, k), counted_pairs(&mask, q, k));
    }
}

static void visibility_and_ranges_equal_the_definition(void **state)
{
    (void)state;
    srand(3);
    for (int trial = 0; trial < 400; trial++) {
        uint64_t seq_len = 1 + random_below(30), starts[32];
        struct mask mask = random_mask((enum mask_kind)(trial % 4), seq_len, starts);
        for (uint64_t a = 0; a < seq_len; a++) {
            uint64_t first_key, last_key, first_query, last_query;
            mask_key_range(&mask, a, &first_key, &last_key);
            mask_query_range(&mask, a, &first_query, &last_query);
            for (uint64_t b = 0; b < seq_len; b++) {
                assert_int_equal(mask_visible(&mask, a, b), defined_visible(&mask, a, b));
                assert_int_equal(first_key <= b && b <= last_key, defined_visible(&mask, a, b));
                assert_int_equal(first_query <= b && b <= last_query, defined_visible(&mask, b, a));
            }
        }
    }
}

/* What a random sharding refers to. */
struct sharding_room {
    uint64_t counts[6], starts[64];
    struct mask documents; /* its own: those of the mask may be others */
};

/* A random sharding of a random length. */
static struct sharding random_sharding(enum sharding_kind kind, struct sharding_room *room)
{
    uint64_t *counts = room->counts;
    uint32_t ranks = 1 + (uint32_t)random_below(6);
    uint64_t seq_len = kind == SHARDING_ZIGZAG ? 2 * ranks * (1 + random_below(4)) : 1 + random_below(40);
    if (kind == SHARDING_PER_DOCUMENT) {
        room->documents = random_mask(MASK_DOCUMENTS, seq_len, room->starts);
        return sharding_of_documents(&room->documents, ranks, 1);
    }
    uint64_t left = seq_len;
    for (uint32_t r = 0; r < ranks; r++) {
        counts[r] = r + 1 < ranks ? random_below(left + 1) : left;
        left -= counts[r];
    }
    return sharding_of(kind, seq_len, ranks, counts);
}

static struct block random_block(const struct sharding *sharding)
{
    struct block block = {.owner = (uint32_t)random_below(sharding->ranks)};
    uint64_t rows = sharding_rows(sharding, block.owner);
    block.first = (uint32_t)random_below(rows + 1);
    block.count = (uint32_t)random_below(rows - block.first + 1);
    return block;
}

/* The positions of a block, row by row; returns the count. */
static uint64_t list_block(const struct sharding *sharding, struct block block, uint64_t *positions)
{
    struct span spans[SHARD_SPANS_MAX];
    uint32_t n_spans = sharding_block_spans(sharding, block, spans);
    uint64_t n = 0;
    for (uint32_t s = 0; s < n_spans; s++)
        for (uint64_t i = 0; i < spans[s].count; i++)
            positions[n++] = spans[s].first + i * spans[s].stride;
    return n;
}

static uint64_t counted_block_pairs(const struct mask *mask, const struct sharding *sharding, struct block queries,
                                    struct block keys)
{
    uint64_t q[64], k[64], pairs = 0, n_q = list_block(sharding, queries, q), n_k = list_block(sharding, keys, k);
    for (uint64_t i = 0; i < n_q; i++)
        for (uint64_t j = 0; j < n_k; j++)
            pairs += defined_visible(mask, q[i], k[j]);
    return pairs;
}

static void block_pairs_equal_brute_force_also_for_gathered_blocks(void **state)
{
    (void)state;
    srand(4);
    for (int trial = 0; trial < 4000; trial++) {
        uint64_t starts[64];
        struct sharding_room room;
        struct sharding sharding = random_sharding((enum sharding_kind)(trial / 4 % 5), &room);
        struct mask mask = random_mask((enum mask_kind)(trial % 4), sharding.seq_len, starts);
        struct block q = random_block(&sharding), k = random_block(&sharding);
        assert_int_equal(mask_block_pairs(&mask, &sharding, q, k), counted_block_pairs(&mask, &sharding, q, k));

        struct block all = {BLOCK_ALL, trial % 3 ? k.first : 0, (uint32_t)random_below(sharding.seq_len + 1)};
        uint64_t pairs = 0;
        for (uint32_t rank = 0; rank < sharding.ranks; rank++) {
            struct block part = {rank, all.first, all.count};
            uint32_t rows = (uint32_t)sharding_rows(&sharding, rank);
            part.first = part.first < rows ? part.first : rows;
            part.count = part.count < rows - part.first ? part.count : rows - part.first;
            pairs += counted_block_pairs(&mask, &sharding, q, part);
        }
        assert_int_equal(mask_block_pairs(&mask, &sharding, q, all), pairs);
        sharding_fini(&sharding);
    }
}

static void trimming_keeps_every_pair_and_ends_on_rows_that_see(void **state)
{
    (void)state;
    srand(5);
    for (int trial = 0; trial < 4000; trial++) {
        uint64_t starts[64];
        struct sharding_room room;
        struct sharding sharding = random_sharding((enum sharding_kind)(trial / 4 % 5), &room);
        struct mask mask = random_mask((enum mask_kind)(trial % 4), sharding.seq_len, starts);
        struct block q = random_block(&sharding), k = random_block(&sharding), q_old = q, k_old = k;
        uint64_t pairs = counted_block_pairs(&mask, &sharding, q, k);
        assert_int_equal(mask_trim(&mask, &sharding, &q, &k), pairs);
        assert_int_equal(counted_block_pairs(&mask, &sharding, q, k), pairs);
        if (pairs == 0) {
            assert_memory_equal(&q, &q_old, sizeof q);
            assert_memory_equal(&k, &k_old, sizeof k);
        } else {
            struct block q_ends[] = {{q.owner, q.first, 1}, {q.owner, q.first + q.count - 1, 1}};
            struct block k_ends[] = {{k.owner, k.first, 1}, {k.owner, k.first + k.count - 1, 1}};
            for (int end = 0; end < 2; end++) {
                assert_true(counted_block_pairs(&mask, &sharding, q_ends[end], k) > 0);
                assert_true(counted_block_pairs(&mask, &sharding, q, k_ends[end]) > 0);
            }
            assert_true(q.first >= q_old.first && q.first + q.count <= q_old.first + q_old.count);
            assert_true(k.first >= k_old.first && k.first + k.count <= k_old.first + k_old.count);
        }
        sharding_fini(&sharding);
    }
}

static void trimming_finds_zigzag_halves_and_window_edges(void **state)
{
    (void)state;
    struct sharding zigzag = sharding_of(SHARDING_ZIGZAG, 32, 4, NULL); /* chunks of 4, shards of 8 rows */
    struct mask causal = {.kind = MASK_CAUSAL, .seq_len = 32};
    struct block q = {1, 0, 8}, k = {2, 0, 8};
    assert_int_equal(mask_trim(&causal, &zigzag, &q, &k), 32); /* the late half of the queries sees all keys */
    assert_int_equal(q.first, 4);
    assert_int_equal(q.count, 4);
    assert_int_equal(k.count, 8);
    q = (struct block){2, 0, 8}, k = (struct block){1, 0, 8};
    assert_int_equal(mask_trim(&causal, &zigzag, &q, &k), 32); /* all queries see the early half of the keys */
    assert_int_equal(q.count, 8);
    assert_int_equal(k.first, 0);
    assert_int_equal(k.count, 4);

    struct sharding contiguous = sharding_of(SHARDING_CONTIGUOUS, 32, 4, NULL);
    struct mask window = {.kind = MASK_WINDOW, .seq_len = 32, .window = 4};
    q = (struct block){1, 0, 8}, k = (struct block){0, 0, 8};
    assert_int_equal(mask_trim(&window, &contiguous, &q, &k), 6); /* 8, 9, 10 see 3, 2, 1 of the keys 5, 6, 7 */
    assert_int_equal(q.first, 0);
    assert_int_equal(q.count, 3);
    assert_int_equal(k.first, 5);
    assert_int_equal(k.count, 3);
}

static uint64_t whole(const struct sharding *sharding, uint32_t q_rank, uint32_t k_rank, const struct mask *mask)
{
    struct block q = {q_rank, 0, (uint32_t)sharding_rows(sharding, q_rank)};
    struct block k = {k_rank, 0, (uint32_t)sharding_rows(sharding, k_rank)};
    return mask_block_pairs(mask, sharding, q, k);
}

/* Pairs of each rank's queries, and of the largest block of each ring step, summed. */
static void check_ring(enum sharding_kind kind, const uint64_t *expected, const uint64_t *expected_steps)
{
    struct sharding sharding = sharding_of(kind, 16, 4, NULL);
    struct mask mask = {.kind = MASK_CAUSAL, .seq_len = 16};
    uint64_t ranks[4] = {0}, total = 0;
    for (uint32_t step = 0; step < 4; step++) {
        uint64_t most = 0;
        for (uint32_t rank = 0; rank < 4; rank++) {
            uint64_t pairs = whole(&sharding, rank, (rank + 4 - step) % 4, &mask);
            ranks[rank] += pairs;
            most = pairs > most ? pairs : most;
        }
        assert_int_equal(most, expected_steps[step]);
    }
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(ranks[rank], expected[rank]);
        total += ranks[rank];
    }
    assert_int_equal(total, 16 * 17 / 2);
}

static void sixteen_tokens_on_four_ranks_give_the_known_work(void **state)
{
    (void)state;
    check_ring(SHARDING_CONTIGUOUS, (uint64_t[]){10, 26, 42, 58}, (uint64_t[]){10, 16, 16, 16}); /* 58 */
    check_ring(SHARDING_ZIGZAG, (uint64_t[]){34, 34, 34, 34}, (uint64_t[]){10, 8, 8, 8});        /* 34 */
    check_ring(SHARDING_STRIPED, (uint64_t[]){28, 32, 36, 40}, (uint64_t[]){10, 10, 10, 10});    /* 40 */
}

/* Work of a set of positions given as spans, against all keys. */
static uint64_t work(const struct mask *mask, const struct span *spans, size_t n_spans)
{
    uint64_t pairs = 0;
    for (size_t i = 0; i < n_spans; i++)
        pairs += mask_pairs(mask, spans[i], (struct span){0, 1, mask->seq_len});
    return pairs;
}

static void documents_of_4_and_12_tokens_show_the_imbalance(void **state)
{
    (void)state;
    uint64_t starts[] = {0, 4, 16};
    struct mask mask = {.kind = MASK_DOCUMENTS, .seq_len = 16, .document_starts = starts, .n_documents = 2};
    /* Zigzag inside each document, then cut into two equal runs: uneven. */
    assert_int_equal(work(&mask, (struct span[]){{0, 1, 4}, {4, 1, 3}, {13, 1, 1}}, 3), 26);
    assert_int_equal(work(&mask, (struct span[]){{14, 1, 2}, {7, 1, 6}}, 2), 62);
    /* Zigzag inside each document, each rank its own half: even. */
    assert_int_equal(work(&mask, (struct span[]){{0, 3, 2}, {4, 1, 3}, {13, 1, 3}}, 3), 44);
    assert_int_equal(work(&mask, (struct span[]){{1, 1, 2}, {7, 1, 6}}, 2), 44);

    const uint64_t expected[][2] = {{20, 68}, {52, 36}, {40, 48}}; /* counted by hand: 10 + 78 pairs in all */
    for (int kind = SHARDING_CONTIGUOUS; kind <= SHARDING_STRIPED; kind++) {
        struct sharding sharding = sharding_of((enum sharding_kind)kind, 16, 2, NULL);
        for (uint32_t rank = 0; rank < 2; rank++)
            assert_int_equal(whole(&sharding, rank, 0, &mask) + whole(&sharding, rank, 1, &mask), expected[kind][rank]);
    }
}

static void ten_million_tokens_on_256_ranks_are_counted_exactly(void **state)
{
    (void)state;
    const uint64_t seq_len = 10485760, total = seq_len * (seq_len + 1) / 2;
    struct mask mask = {.kind = MASK_CAUSAL, .seq_len = seq_len};
    for (int kind = SHARDING_CONTIGUOUS; kind <= SHARDING_STRIPED; kind++) {
        struct sharding sharding = sharding_of((enum sharding_kind)kind, seq_len, 256, NULL);
        uint64_t sum = 0;
        for (uint32_t q_rank = 0; q_rank < 256; q_rank++) {
            uint64_t pairs = 0;
            for (uint32_t k_rank = 0; k_rank < 256; k_rank++) {
                struct block q = {q_rank, 0, (uint32_t)sharding_rows(&sharding, q_rank)};
                struct block k = {k_rank, 0, (uint32_t)sharding_rows(&sharding, k_rank)};
                pairs += mask_trim(&mask, &sharding, &q, &k);
            }
            if (kind == SHARDING_ZIGZAG)
                assert_int_equal(pairs, total / 256); /* balanced to the pair */
            struct block q = {q_rank, 0, (uint32_t)sharding_rows(&sharding, q_rank)};
            struct block all = {BLOCK_ALL, 0, (uint32_t)sharding_rows_max(&sharding)};
            assert_int_equal(mask_block_pairs(&mask, &sharding, q, all), pairs);
            sum += pairs;
        }
        assert_int_equal(sum, total);
    }
}

static void the_longest_sequence_does_not_overflow(void **state)
{
    (void)state;
    const uint64_t s = SEQ_LEN_MAX;
    struct span every = {0, 1, s}, even = {0, 2, s / 2}, odd = {1, 2, s / 2};
    struct mask causal = {.kind = MASK_CAUSAL, .seq_len = s};
    struct mask window = {.kind = MASK_WINDOW, .seq_len = s, .window = 4096};
    struct mask full = {.kind = MASK_FULL, .seq_len = s};
    assert_int_equal(mask_pairs(&full, every, every), s * s);
    assert_int_equal(mask_pairs(&causal, every, every), s * (s + 1) / 2);
    assert_int_equal(mask_pairs(&causal, even, odd), s / 2 * (s / 2 - 1) / 2);
    assert_int_equal(mask_pairs(&causal, odd, even), s / 2 * (s / 2 + 1) / 2);
    assert_int_equal(mask_pairs(&window, every, every), s * 4096 - UINT64_C(4096) * 4095 / 2);
    window.window = UINT64_MAX; /* wider than the sequence: causal */
    assert_int_equal(mask_pairs(&window, every, every), s * (s + 1) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_equal_brute_force_for_every_mask_and_span),
        cmocka_unit_test(visibility_and_ranges_equal_the_definition),
        cmocka_unit_test(block_pairs_equal_brute_force_also_for_gathered_blocks),
        cmocka_unit_test(trimming_keeps_every_pair_and_ends_on_rows_that_see),
        cmocka_unit_test(trimming_finds_zigzag_halves_and_window_edges),
        cmocka_unit_test(sixteen_tokens_on_four_ranks_give_the_known_work),
        cmocka_unit_test(documents_of_4_and_12_tokens_show_the_imbalance),
        cmocka_unit_test(ten_million_tokens_on_256_ranks_are_counted_exactly),
        cmocka_unit_test(the_longest_sequence_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
