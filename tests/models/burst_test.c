/* Burst: forward a ring; backward the query side travels. Against closed forms, and held against the ring's bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"
#include "tests/models/schedule_grid.h"

/* Blocks of a few rows, and gradients of either type. */
static void vary(struct experiment *experiment, unsigned variant)
{
    experiment->kv_block = variant % 2 ? 4 : 0;
    experiment->gradient_accumulator = variant / 2;
}

static void every_schedule_is_sound(void **state)
{
    (void)state;
    grid_each(&algorithm_burst, true, vary, 4, check_passes);
    grid_each(&algorithm_burst, false, vary, 2, check_passes);
}

static struct fixture *zigzag(uint32_t ranks, uint32_t kv_heads, enum mask_kind mask, bool fp32)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment((uint64_t)64 * ranks, ranks);
    f->experiment.model.kv_heads = kv_heads;
    f->experiment.mask.kind = mask;
    f->experiment.sharding = SHARDING_ZIGZAG;
    f->experiment.gradient_accumulator = fp32;
    build(f, &algorithm_burst);
    return f;
}

static void forward_only_is_the_ring(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 5; p++) {
        struct fixture *f[2];
        for (int i = 0; i < 2; i++) {
            f[i] = memory_zeroed(1, sizeof **f);
            f[i]->experiment = plain_experiment(40 * (uint64_t)p, p);
            f[i]->experiment.train = false;
            build(f[i], i ? &algorithm_burst : &algorithm_ring);
        }
        for (uint32_t r = 0; r < p; r++) {
            const struct program *a = &f[0]->programs[r], *b = &f[1]->programs[r];
            assert_int_equal(a->n_ops, b->n_ops);
            assert_memory_equal(a->ops, b->ops, a->n_ops * sizeof *a->ops);
            assert_memory_equal(a->accesses, b->accesses, a->n_accesses * sizeof *a->accesses);
        }
        release(f[0]);
        release(f[1]);
    }
}

/* Zigzag, causal: the own block, then half blocks, the halves cut by the mask as they come. */
static void each_step_does_a_half_block(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 9; p++) {
        struct fixture *f = zigzag(p, 2, MASK_CAUSAL, false);
        for (uint32_t r = 0; r < p; r++) {
            for (uint32_t step = 0; step < p; step++) {
                const struct op *op = nth_attention(&f->programs[r], PHASE_BACKWARD, step);
                assert_int_equal(op->q.owner, (r + p - step) % p);
                assert_int_equal(op->k.owner, r);
                /* queries of an earlier rank see all of this rank's keys with their second half; of a later one, all of
                 * them see its first half */
                bool earlier = op->q.owner < r;
                assert_int_equal(op->q.count, step && earlier ? 32 : 64);
                assert_int_equal(op->k.count, step && !earlier ? 32 : 64);
                assert_int_equal(op->pairs, step ? 64 * 32 : 64 * 65 / 2);
            }
        }
        release(f);
    }
}

/* The high-water mark backward: residents, two packs that arrived in turn, two dQ in turn, the sum of dKV, and what the
 * kernel leaves. */
static void backward_holds_two_packs_and_two_dq(void **state)
{
    (void)state;
    for (uint32_t p = 4; p <= 9; p++) {
        for (int fp32 = 0; fp32 < 2; fp32++) {
            struct fixture *f = zigzag(p, 2, MASK_FULL, fp32);
            uint64_t q = bytes_q(f, 64), kv = bytes_kv(f, 64), l = bytes_lse(f, 64), dq = fp32 ? 2 * q : q;
            uint64_t residents = 4 * q + 2 * kv + l; /* q, o, do, dq; kv, dkv; lse */
            uint64_t most = residents + l + 2 * (2 * q + 2 * l) + 2 * dq + 2 * kv + q + kv;
            for (uint32_t r = 0; r < p; r++)
                assert_int_equal(peak_bytes(&f->programs[r], PHASE_BACKWARD), most);
            release(f);
        }
    }
}

static uint64_t backward_bytes(const struct algorithm_ops *algorithm, uint32_t ranks, uint32_t kv_heads, bool fp32)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment((uint64_t)16 * ranks, ranks);
    f->experiment.model = (struct transformer){.q_heads = 24, .kv_heads = kv_heads, .head_dim = 128};
    f->experiment.gradient_accumulator = fp32;
    build(f, algorithm);
    uint64_t bytes = 0;
    for (int traffic = 0; traffic < TRAFFIC_COUNT; traffic++)
        bytes += traffic != TRAFFIC_FORWARD_KV ? sent_as(&f->programs[ranks / 2], (enum traffic)traffic).bytes : 0;
    release(f);
    return bytes;
}

/* With h KV heads per query head, KV = 2 h Q; with head dim d, L = 2 Q / d (bf16 and fp32). Burst sends (P-1) (2 + 4/d)
 * Q + P Q; the ring (P-1) 2 h Q + P 2 h g Q, g = 1 for dKV in bf16, 2 in fp32. So Burst sends less if h > ((P-1) (2 +
 * 4/d) + P) / (2 (P-1) + 2 P g), which tends to (3 + 4/d) / (2 + 2 g): to 3/4 against dKV in bf16, to 1/2 against fp32,
 * and 4/d of that more for LSE and delta. Heads divide, so h is 1, 1/2, 1/3, ...: with grouped queries the ring wins
 * against bf16, and against fp32 it is even at h = 1/2 but for P-1 times 2L against one Q that the ring sends more:
 * Burst sends less up to P = d / 4. */
static void burst_sends_less_than_a_ring_above_the_break_even(void **state)
{
    (void)state;
    static const uint32_t heads[] = {24, 12, 8, 6, 4, 3, 2, 1}, ranks[] = {2, 3, 4, 7, 8, 16, 31, 32, 33, 34, 48};
    const double d = 128;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++) {
            double p = ranks[i], h = heads[j] / 24.0;
            uint64_t burst = backward_bytes(&algorithm_burst, ranks[i], heads[j], false);
            for (int fp32 = 0; fp32 < 2; fp32++) {
                uint64_t ring = backward_bytes(&algorithm_ring, ranks[i], heads[j], fp32);
                double least = ((p - 1) * (2 + 4 / d) + p) / (2 * (p - 1) + 2 * p * (1 + fp32));
                if (h > least + 1e-9)
                    assert_true(burst < ring);
                else if (h < least - 1e-9)
                    assert_true(burst > ring);
                else
                    assert_int_equal(burst, ring);
                /* what that means for heads that divide */
                bool less = heads[j] == 24 || (fp32 && heads[j] == 12 && ranks[i] <= 32);
                assert_true(less ? burst < ring : burst >= ring);
            }
        }
    }
}

static void skipped_transfers_stop_where_nobody_sees_more(void **state)
{
    (void)state;
    /* Documents as long as a shard: nobody sees another's rows, so nothing is sent at all. */
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(40, 4);
    f->experiment.skip = SKIP_TRANSFER;
    f->experiment.mask.kind = MASK_DOCUMENTS;
    f->experiment.mask.document_starts = f->documents;
    f->experiment.mask.n_documents = 4;
    for (uint64_t i = 0; i <= 4; i++)
        f->documents[i] = 10 * i;
    build(f, &algorithm_burst);
    check_passes(f);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(sent_in_phase(&f->programs[r], PHASE_FORWARD).messages, 0);
        assert_int_equal(sent_in_phase(&f->programs[r], PHASE_BACKWARD).messages, 0);
        assert_int_equal(count_ops(&f->programs[r], PHASE_BACKWARD, OP_ACCUMULATE), 0);
    }
    release(f);
    /* A window of a shard: queries see the shard before, the last on their way round; rank 0's stay at home. */
    f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment(40, 4);
    f->experiment.skip = SKIP_TRANSFER;
    f->experiment.mask.kind = MASK_WINDOW;
    f->experiment.mask.window = 10;
    build(f, &algorithm_burst);
    check_passes(f);
    uint64_t packs = 0, gradients = 0;
    for (uint32_t r = 0; r < 4; r++) {
        packs += sent_as(&f->programs[r], TRAFFIC_OTHER).messages;
        gradients += sent_as(&f->programs[r], TRAFFIC_GRADIENT).messages;
    }
    assert_int_equal(packs, 3 * 3 * 4);
    assert_int_equal(gradients, 3 * 4);
    release(f);
}

static void demands_are_told(void **state)
{
    (void)state;
    expect_refusal(asked_text(3, 240, "pass = train", "algorithm = burst\nbuffers = 1"), "expected at least 2");
    expect_refusal(asked_text(3, 240, "pass = train", "algorithm = burst\ncollective = direct"),
                   "'collective' has no effect");
    expect_refusal(asked_text(3, 240, "pass = forward", "algorithm = burst\ngradients = fp32"),
                   "'gradients' has no effect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_is_sound),
        cmocka_unit_test(forward_only_is_the_ring),
        cmocka_unit_test(each_step_does_a_half_block),
        cmocka_unit_test(backward_holds_two_packs_and_two_dq),
        cmocka_unit_test(burst_sends_less_than_a_ring_above_the_break_even),
        cmocka_unit_test(skipped_transfers_stop_where_nobody_sees_more),
        cmocka_unit_test(demands_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
