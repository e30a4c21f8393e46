/* TokenRing: queries one way, results the other. Against closed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"
#include "tests/models/schedule_grid.h"

static void every_schedule_is_sound(void **state)
{
    (void)state;
    grid_each(&algorithm_token_ring, false, NULL, 1, check_passes);
}

#define ROWS 64 /* of a shard */

static struct fixture *forward(uint32_t ranks, enum mask_kind mask, enum sharding_kind sharding, enum skip_kind skip)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment((uint64_t)ROWS * ranks, ranks);
    f->experiment.mask.kind = mask;
    f->experiment.sharding = sharding;
    f->experiment.skip = skip;
    f->experiment.train = false;
    build(f, &algorithm_token_ring);
    return f;
}

static void zigzag_does_a_half_block_each_step(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 9; p++) {
        struct fixture *f = forward(p, MASK_CAUSAL, SHARDING_ZIGZAG, SKIP_COMPUTE);
        for (uint32_t r = 0; r < p; r++) {
            for (uint32_t step = 0; step < p; step++) {
                const struct op *op = nth_attention(&f->programs[r], PHASE_FORWARD, step);
                bool later = step && op->q.owner > r;
                assert_int_equal(op->q.owner, (r + step) % p);
                assert_int_equal(op->k.owner, r);
                assert_int_equal(op->q.count, step == 0 || later ? ROWS : ROWS / 2);
                assert_int_equal(op->k.count, later ? ROWS / 2 : ROWS);
                assert_int_equal(op->pairs, step ? ROWS * ROWS / 2 : ROWS * (ROWS + 1) / 2);
            }
            assert_int_equal(count_ops(&f->programs[r], PHASE_FORWARD, OP_MERGE), p);
        }
        release(f);
    }
}

/* Contiguous, causal: an owner's rows are seen by the keys of earlier ranks only, so with skip = transfer they stop at
 * rank 0; otherwise they go all the way. */
static void skipped_transfers_stop_at_the_first_rank(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 9; p++) {
        for (int skip = SKIP_NONE; skip <= SKIP_TRANSFER; skip++) {
            struct fixture *f = forward(p, MASK_CAUSAL, SHARDING_CONTIGUOUS, (enum skip_kind)skip);
            for (uint32_t r = 0; r < p; r++) {
                const struct program *program = &f->programs[r];
                uint32_t sent = skip == SKIP_TRANSFER ? (r ? p - r : 0) : p - 1;
                uint32_t returned = skip == SKIP_NONE ? p - 1 : p - 1 - r;
                assert_int_equal(sent_of(program, PHASE_FORWARD, TENSOR_Q).messages, sent);
                assert_int_equal(sent_of(program, PHASE_FORWARD, TENSOR_Q).bytes, sent * bytes_q(f, ROWS));
                assert_int_equal(sent_of(program, PHASE_FORWARD, TENSOR_PARTIAL).messages, returned);
            }
            release(f);
        }
    }
}

/* Pass-KV moves (P-1) KV; this moves (P-1) (2Q + L), less only for as many KV heads as query heads, and then by
 * neither. */
static void queries_move_less_than_keys_never_with_grouped_heads(void **state)
{
    (void)state;
    for (uint32_t heads = 1; heads <= 4; heads *= 2) {
        struct fixture *f = memory_zeroed(1, sizeof *f);
        f->experiment = plain_experiment(64 * 8, 8);
        f->experiment.model.kv_heads = heads;
        f->experiment.sharding = SHARDING_ZIGZAG;
        f->experiment.train = false;
        build(f, &algorithm_token_ring);
        uint64_t all = 0;
        for (uint32_t r = 0; r < 8; r++)
            all += sent_as(&f->programs[r], TRAFFIC_OTHER).bytes;
        assert_int_equal(all < 8 * 7 * bytes_kv(f, 64), heads == 4); /* zigzag: 3/4 of 2Q + L */
        release(f);
    }
}

/* Directions: queries and results are in streams of their own, queries go down by one, results up. */
static void queries_and_results_go_opposite_ways(void **state)
{
    (void)state;
    struct fixture *f = forward(5, MASK_FULL, SHARDING_CONTIGUOUS, SKIP_COMPUTE);
    for (uint32_t r = 0; r < 5; r++) {
        uint32_t step = 1;
        for (uint32_t i = 0; i < f->programs[r].n_ops; i++) {
            const struct op *op = &f->programs[r].ops[i];
            if (op->kind != OP_SEND)
                continue;
            bool queries = f->programs[r].buffers[*program_reads(&f->programs[r], op)].tensor == TENSOR_Q;
            assert_int_equal(op->stream, queries ? STREAM_EXCHANGE : STREAM_GRADIENT);
            assert_int_equal(op->peer, queries ? (r + 4) % 5 : (r + step++) % 5);
        }
    }
    release(f);
}

/* New tokens behind a cached prefix, both of uneven shares. */
static void new_tokens_on_a_cached_prefix_are_sound(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 6; p++) {
        for (unsigned variant = 0; variant < 4 * 3; variant++) {
            struct fixture *f = memory_zeroed(1, sizeof *f);
            enum sharding_kind sharding = (enum sharding_kind)(variant / 4);
            uint64_t new_tokens = 4 * (uint64_t)p + (sharding == SHARDING_ZIGZAG ? 0 : p - 1);
            f->experiment = plain_experiment(new_tokens + 17, p);
            f->experiment.new_tokens = new_tokens;
            f->experiment.sharding = sharding;
            f->experiment.train = false;
            grid_mask(f, variant % 4);
            build(f, &algorithm_token_ring);
            check_passes(f);
            release(f);
        }
    }
}

static void demands_are_told(void **state)
{
    (void)state;
    expect_refusal(asked_text(3, 240, "pass = train", "algorithm = token-ring"),
                   "has no backward pass, expected pass = forward");
    expect_refusal(asked_text(3, 240, "pass = forward", "algorithm = token-ring\nbuffers = 3"),
                   "'buffers' has no effect");
    expect_refusal(asked_text(3, 240, "pass = forward\nnew_tokens = 2\nbatch = 4", "algorithm = token-ring"),
                   "expected at least cp = 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_is_sound),
        cmocka_unit_test(zigzag_does_a_half_block_each_step),
        cmocka_unit_test(skipped_transfers_stop_at_the_first_rank),
        cmocka_unit_test(queries_move_less_than_keys_never_with_grouped_heads),
        cmocka_unit_test(queries_and_results_go_opposite_ways),
        cmocka_unit_test(new_tokens_on_a_cached_prefix_are_sound),
        cmocka_unit_test(demands_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
