/* Prefill on a cached prefix, and decoding, simulated on a device of round numbers (1 TB/s of memory, 100 TFLOP/s):
 * what decides between keys and queries as the cache hit rate rises, and between latency and bytes as the cache grows.
 * The analytic engine: what is large here has its links to itself anyway. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/predict.h"

struct serving {
    const char *algorithm;
    unsigned cp, seq_len, new_tokens, batch;
    const char *bandwidth, *latency, *schedule;
};

/* 16 query and 2 KV heads of 128. */
static void serve(struct prediction *prediction, const struct serving *s)
{
    char *experiment =
        memory_format("[model]\nq_heads = 16\nkv_heads = 2\nhead_dim = 128\ndtype = bf16\n"
                      "[workload]\nseq_len = %u\nnew_tokens = %u\nbatch = %u\nmask = full\npass = forward\n"
                      "[parallel]\ncp = %u\n[schedule]\nalgorithm = %s\n%s\n",
                      s->seq_len, s->new_tokens, s->batch, s->cp, s->algorithm, s->schedule ? s->schedule : "");
    assert_int_equal(predict(prediction, &engine_analytic, toy_cluster(s->cp, s->bandwidth, s->latency), experiment),
                     PREDICTION_DONE);
}

static double seconds_to_serve(const struct serving *s)
{
    struct prediction prediction;
    serve(&prediction, s);
    double seconds = prediction.report.seconds;
    prediction_fini(&prediction);
    return seconds;
}

static void expect_near(double actual, double expected, double tolerance)
{
    if (!(actual >= expected * (1 - tolerance) && actual <= expected * (1 + tolerance)))
        fail_msg("%.9g is not within %g of %.9g", actual, tolerance, expected);
}

#define ALL 16384
#define RANKS 4

/* The share of new tokens, in 64ths, from which on passing keys around is the faster. */
static unsigned first_share_for_keys(const char *bandwidth)
{
    for (unsigned share = 1; share <= 64; share++) {
        struct serving s = {.cp = RANKS, .seq_len = ALL, .new_tokens = ALL / 64 * share, .batch = 1};
        s.bandwidth = bandwidth;
        s.latency = "1 us";
        s.algorithm = "ring";
        double keys = seconds_to_serve(&s);
        s.algorithm = "pass-q";
        if (keys < seconds_to_serve(&s))
            return share;
    }
    return 65;
}

/* Slow links: time is bytes. Queries go and results come back, so the order turns where T / (T + Pc) is Hk / Hq, an
 * eighth here, half of the share at which the queries alone would be as many bytes as the keys. */
static void on_slow_links_the_hit_rate_decides(void **state)
{
    (void)state;
    assert_in_range(first_share_for_keys("10 MB/s"), 64 / 8, 64 / 8 + 1);
}

/* Faster links hide keys behind the attention of fewer new tokens; the return of results is never hidden. */
static void the_faster_the_links_the_sooner_keys_win(void **state)
{
    (void)state;
    unsigned slow = first_share_for_keys("10 MB/s"), fast = first_share_for_keys("30 GB/s"),
             faster = first_share_for_keys("300 GB/s");
    assert_true(fast < slow);
    assert_true(faster <= fast);
}

/* KV bytes of all items of a rank's share of the cache. */
static double shard_bytes(const struct serving *s)
{
    return 2.0 * s->seq_len / s->cp * 2 * 128 * 2 * s->batch;
}

/* Whoever attends: a KV head is read once for the eight query heads that share it, and only the lanes that are asked
 * for. So a rank's time is its share of the cache over the memory's bandwidth. */
static void a_decoding_rank_reads_the_cache_once(void **state)
{
    (void)state;
    static const char *const names[] = {"tree-decode", "pass-q", "ring", "direct", "all-gather"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct serving s = {names[i], 4, 1 << 16, 1, 8, "100 GB/s", "1 us", NULL};
        struct prediction prediction;
        serve(&prediction, &s);
        double read = 0, others = strcmp(names[i], "all-gather") == 0 ? 2 * shard_bytes(&s) / 1e12 : 0;
        for (uint32_t r = 0; r < 4; r++) /* all-gather also copies its own share to the others': reads and writes it */
            read += prediction.report.ranks[r].compute_seconds - others;
        expect_near(read / 4, shard_bytes(&s) / 1e12, 0.03);
        prediction_fini(&prediction);
    }
}

static void tree_decoding_takes_three_latencies_whatever_the_length(void **state)
{
    (void)state;
    for (unsigned length = 1 << 10; length <= 1 << 18; length *= 4) {
        struct serving s = {"tree-decode", 4, length, 1, 4, "100 GB/s", "50 us", "collective = direct"};
        double sums = 4.0 * 4 * 16 * (128 + 2) / 100e9; /* to each of three others, on links of their own */
        expect_near(seconds_to_serve(&s), 3 * 50e-6 + sums + shard_bytes(&s) / 1e12, 0.02);
    }
}

/* Of three ranks a ring has two latencies, one less than the tree's: it wins while the cache is next to nothing. Then
 * its bytes decide. */
static void a_ring_decodes_faster_only_where_the_cache_is_small(void **state)
{
    (void)state;
    struct serving ring = {"ring", 3, 96, 1, 3, "100 GB/s", "50 us", NULL};
    struct serving tree = {"tree-decode", 3, 96, 1, 3, "100 GB/s", "50 us", "collective = direct"};
    assert_true(seconds_to_serve(&ring) < seconds_to_serve(&tree));
    /* 2 (alpha + KV / bandwidth) = 3 alpha at KV = 2.5 MB, 814 rows a rank. */
    ring.seq_len = tree.seq_len = 3 * 814 - 600;
    assert_true(seconds_to_serve(&ring) < seconds_to_serve(&tree));
    ring.seq_len = tree.seq_len = 3 * 814 + 600;
    assert_true(seconds_to_serve(&ring) > seconds_to_serve(&tree));
    ring.seq_len = tree.seq_len = 3 << 16;
    assert_true(seconds_to_serve(&ring) > 5 * seconds_to_serve(&tree));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_slow_links_the_hit_rate_decides),
        cmocka_unit_test(the_faster_the_links_the_sooner_keys_win),
        cmocka_unit_test(a_decoding_rank_reads_the_cache_once),
        cmocka_unit_test(tree_decoding_takes_three_latencies_whatever_the_length),
        cmocka_unit_test(a_ring_decodes_faster_only_where_the_cache_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
