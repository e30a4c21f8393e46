/* TransformerEngine's ring against its closed forms: bytes, messages, shapes of work, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "tests/models/asked.h"
#include "tests/models/schedule_grid.h"

static void vary(struct experiment *experiment, unsigned variant)
{
    experiment->gradient_accumulator = variant;
    experiment->kv_block = 3; /* not its keys: no effect */
    experiment->split_kv = true;
}

static void every_schedule_is_sound(void **state)
{
    (void)state;
    grid_each(&algorithm_ring_te, true, vary, 2, check_passes);
    grid_each(&algorithm_ring_te, false, NULL, 1, check_passes);
}

#define ROWS 64 /* of a shard */

static struct fixture *fixture(uint32_t ranks, enum mask_kind mask, enum sharding_kind sharding, bool train)
{
    struct fixture *f = memory_zeroed(1, sizeof *f);
    f->experiment = plain_experiment((uint64_t)ROWS * ranks, ranks);
    f->experiment.mask.kind = mask;
    f->experiment.sharding = sharding;
    f->experiment.gradient_accumulator = false;
    f->experiment.train = train;
    build(f, &algorithm_ring_te);
    return f;
}

/* Messages with KV go to the next rank forward and to the one before backward; each P - 1 times, and as many with dKV.
 * In P backward exchanges: the first is KV alone, the last dKV alone. */
static void bytes_messages_and_directions(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 9; p++) {
        for (unsigned variant = 0; variant < 4; variant++) {
            struct fixture *f = memory_zeroed(1, sizeof *f);
            f->experiment = plain_experiment((uint64_t)ROWS * p, p);
            f->experiment.mask.kind = variant / 2 ? MASK_FULL : MASK_CAUSAL;
            f->experiment.sharding = variant / 2 ? SHARDING_STRIPED : SHARDING_ZIGZAG;
            f->experiment.gradient_accumulator = variant % 2;
            build(f, &algorithm_ring_te);
            uint64_t kv = bytes_kv(f, ROWS);
            for (uint32_t r = 0; r < p; r++) {
                const struct program *program = &f->programs[r];
                struct sums forward = sent_as(program, TRAFFIC_FORWARD_KV),
                            replay = sent_as(program, TRAFFIC_REPLAY_KV), gradient = sent_as(program, TRAFFIC_GRADIENT);
                assert_int_equal(forward.bytes, (p - 1) * kv);
                assert_int_equal(forward.messages, p - 1);
                assert_int_equal(replay.bytes, (p - 1) * kv);
                assert_int_equal(replay.messages, p - 1);
                assert_int_equal(gradient.bytes, (p - 1) * kv * (variant % 2 ? 2 : 1));
                assert_int_equal(gradient.messages, p - 1);
                uint32_t exchanges = 0, last = 0, in_last = 0;
                for (uint32_t i = 0; i < program->n_ops; i++) {
                    const struct op *op = &program->ops[i];
                    if (op->kind != OP_SEND)
                        continue;
                    bool backward = program_phase(program, i) == PHASE_BACKWARD;
                    assert_int_equal(op->peer, backward ? (r + p - 1) % p : (r + 1) % p);
                    if (!backward)
                        continue;
                    assert_int_equal(op->traffic == TRAFFIC_REPLAY_KV && exchanges == p - 1, false);
                    in_last = op->group == last ? in_last + 1 : 1;
                    exchanges += op->group != last;
                    last = op->group;
                    assert_true(in_last <= (exchanges == 1 || exchanges == p ? 1 : 2));
                }
                assert_int_equal(exchanges, p);
            }
            release(f);
        }
    }
}

/* Zigzag, causal: the diagonal s x s, lower triangle s x s/2, upper s/2 x s. Backward the sections come in the reverse
 * order, the diagonal last, and the first at a block gives all its rows a gradient. */
static void every_step_is_a_half_block(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 9; p++) {
        struct fixture *f = fixture(p, MASK_CAUSAL, SHARDING_ZIGZAG, true);
        for (uint32_t r = 0; r < p; r++) {
            for (uint32_t step = 0; step < p; step++) {
                for (int phase = 0; phase < PHASE_COUNT; phase++) {
                    const struct op *op = nth_attention(&f->programs[r], (enum phase)phase, step);
                    uint32_t owner = phase ? (r + 1 + step) % p : (r + p - step) % p;
                    bool lower = owner<r, upper = owner> r, first = phase && step == 0;
                    assert_int_equal(op->k.owner, owner);
                    assert_int_equal(op->q.owner, r);
                    assert_int_equal(op->q.count, upper ? ROWS / 2 : ROWS);
                    assert_int_equal(op->k.count, lower && !first ? ROWS / 2 : ROWS);
                    assert_int_equal(op->pairs, owner == r ? ROWS * (ROWS + 1) / 2 : ROWS * ROWS / 2);
                }
            }
        }
        release(f);
    }
}

static void steps_take_turns_on_two_compute_streams(void **state)
{
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        bool overlap = variant > 0, turns = variant == 1; /* the last has an implementation with one compute stream */
        struct fixture *f = memory_zeroed(1, sizeof *f);
        f->experiment = plain_experiment((uint64_t)ROWS * 5, 5);
        f->experiment.mask.kind = MASK_FULL;
        f->experiment.overlap = overlap;
        f->experiment.implementation.one_stream = variant == 2;
        build(f, &algorithm_ring_te);
        for (uint32_t step = 0; step < 5; step++) {
            const struct program *program = &f->programs[step];
            enum stream expected = turns && step % 2 ? STREAM_COMPUTE_2 : STREAM_COMPUTE;
            assert_int_equal(nth_attention(program, PHASE_FORWARD, step)->stream, expected);
            assert_int_equal(program->ops[find_op(program, PHASE_FORWARD, OP_SUM_LSE, step)].stream, expected);
            assert_int_equal(program->ops[find_op(program, PHASE_FORWARD, OP_CORRECT, step)].stream, STREAM_COMPUTE);
            assert_int_equal(nth_attention(program, PHASE_BACKWARD, step)->stream, STREAM_COMPUTE);
        }
        for (uint32_t i = 0; !overlap && i < f->programs[0].n_ops; i++)
            assert_int_equal(f->programs[0].ops[i].stream, STREAM_COMPUTE);
        release(f);
    }
}

/* Between the passes one received block stays; backward, two KV and two dKV in turn. */
static void backward_starts_from_the_last_block(void **state)
{
    (void)state;
    for (uint32_t p = 4; p <= 9; p++) {
        struct fixture *f = fixture(p, MASK_CAUSAL, SHARDING_ZIGZAG, true);
        uint64_t q = bytes_q(f, ROWS), l = bytes_lse(f, ROWS), kv = bytes_kv(f, ROWS);
        for (uint32_t r = 0; r < p; r++) {
            const struct program *program = &f->programs[r];
            uint32_t copy = find_op(program, PHASE_BACKWARD, OP_CAST, 0);
            assert_int_equal(program->ops[copy].k.owner, (r + 1) % p);
            /* q, o, do, dq, lse, delta, dq part; dkv, two KV and two dKV in turn, dkv part. The block kept is needed
             * until it has been copied; the own K and V are not, for they come round as the last block. */
            assert_int_equal(peak_bytes(program, PHASE_BACKWARD), 4 * q + l + l + q + (1 + 4 + 1) * kv);
            for (uint32_t b = 0; b < program->n_buffers; b++) /* dq and dkv: in the model's type throughout */
                if (program->buffers[b].tensor == TENSOR_DQ || program->buffers[b].tensor == TENSOR_DKV)
                    assert_int_equal(program->buffers[b].dtype, DTYPE_BF16);
        }
        release(f);
    }
}

/* Contiguous, causal: rank P - 1 is the first to see a block (rank 0's: in its first step), so gradients travel only
 * from there on. */
static void nothing_is_returned_before_something_is_computed(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 7; p++) {
        struct fixture *f = fixture(p, MASK_CAUSAL, SHARDING_CONTIGUOUS, true);
        uint64_t sent = 0;
        for (uint32_t r = 0; r < p; r++)
            sent += sent_as(&f->programs[r], TRAFFIC_GRADIENT).messages;
        /* block o: from rank P - 1 down to o */
        assert_int_equal(sent, p * (p - 1) / 2);
        release(f);
    }
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
            build(f, &algorithm_ring_te);
            check_passes(f);
            release(f);
        }
    }
}

static void demands_are_told(void **state)
{
    (void)state;
    expect_refusal(asked_text(3, 240, "pass = train", "algorithm = ring-te\nkv_messages = 2"),
                   "'kv_messages' has no effect");
    expect_refusal(asked_text(3, 240, "pass = train", "algorithm = ring-te\nbuffers = 3"), "'buffers' has no effect");
    expect_refusal(asked_text(3, 240, "pass = train", "algorithm = ring-te\nkv_block = 16"),
                   "'kv_block' has no effect");
    expect_refusal(asked_text(3, 240, "pass = train", "algorithm = ring-te\nskip = transfer"),
                   "cannot do skip = transfer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_is_sound),
        cmocka_unit_test(bytes_messages_and_directions),
        cmocka_unit_test(every_step_is_a_half_block),
        cmocka_unit_test(steps_take_turns_on_two_compute_streams),
        cmocka_unit_test(backward_starts_from_the_last_block),
        cmocka_unit_test(nothing_is_returned_before_something_is_computed),
        cmocka_unit_test(new_tokens_on_a_cached_prefix_are_sound),
        cmocka_unit_test(demands_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
