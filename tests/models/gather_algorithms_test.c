/* all-gather and all-gather-heads against closed forms: what travels, what is computed, what is held, and what runs
 * behind what; proofs over shapes; refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "models/schedule/streams.h"
#include "tests/models/asked.h"

static const char *const shardings[] = {"contiguous", "zigzag", "striped"};
static const char *const masks[] = {"full", "causal", "window:37", "documents:5,11,16*2"};

/* Bytes of one rank's share of seq_len rows, in bf16, batch 1. */
struct sizes {
    uint64_t q, kv, l;
};

static struct sizes sizes_of(const struct question *q)
{
    uint64_t rows = q->seq_len / q->cp;
    return (struct sizes){rows * q->q_heads * q->head_dim * 2, 2 * rows * q->kv_heads * q->head_dim * 2,
                          rows * q->q_heads * 4};
}

static struct question question_of(uint32_t cp, uint64_t seq_len, const char *pass, const char *schedule)
{
    return (struct question){cp, 16, 4, 32, 1, seq_len, "causal", pass, NULL, schedule};
}

/* ---- bytes ---- */

/* (P-1) KV forward, (P-1) KV replayed and (P-1) dKV: as many messages as blocks and heads are cut into. */
static void bytes_and_messages_are_the_same_whatever_the_collective(void **state)
{
    (void)state;
    static const char *const algorithms_asked[] = {"all-gather", "all-gather-heads\ngather_heads = 4",
                                                   "all-gather-heads\ngather_heads = 2", "all-gather-heads"};
    static const uint32_t rounds[] = {1, 1, 2, 4};
    for (uint32_t p = 2; p <= 9; p++) {
        for (unsigned variant = p % 2; variant < 4 * 3 * 2 * 2 * 3; variant += 5) {
            unsigned a = variant % 4, split = variant / 12 % 2 + 1, fp32 = variant / 24 % 2, kind = variant / 48;
            char keys[192], collective[32] = "ring";
            if (kind)
                snprintf(collective, sizeof collective, kind == 1 ? "direct" : "hierarchical:%u", p % 3 ? 1 : 3);
            snprintf(keys, sizeof keys,
                     "algorithm = %s\nsharding = %s\nkv_messages = %u\ngradients = %s\ncollective = %s",
                     algorithms_asked[a], shardings[variant / 4 % 3], split, fp32 ? "fp32" : "model", collective);
            struct question q = question_of(p, 24 * p, "train", keys);
            struct asked asked;
            ask(&asked, &q);
            struct sizes one = sizes_of(&q);
            for (uint32_t r = 0; r < p; r++) {
                const struct program *program = &asked.programs[r];
                struct sent sent = sent_by(program);
                uint64_t messages = (p - 1) * rounds[a] * split;
                assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_FORWARD_KV], (p - 1) * one.kv);
                assert_int_equal(sent.bytes[PHASE_BACKWARD][TRAFFIC_REPLAY_KV], (p - 1) * one.kv);
                assert_int_equal(sent.bytes[PHASE_BACKWARD][TRAFFIC_GRADIENT], (p - 1) * one.kv * (fp32 + 1));
                assert_int_equal(sent.bytes[PHASE_FORWARD][TRAFFIC_OTHER], 0);
                assert_int_equal(sent.messages[PHASE_FORWARD][TRAFFIC_FORWARD_KV], messages);
                assert_int_equal(sent.messages[PHASE_BACKWARD][TRAFFIC_REPLAY_KV], messages);
                assert_int_equal(sent.messages[PHASE_BACKWARD][TRAFFIC_GRADIENT], messages);
                assert_int_equal(program->n_collectives, 3 * rounds[a]);
            }
            asked_fini(&asked);
        }
    }
}

/* ---- work ---- */

/* P U in two kernels: chunk r of 2P sees r + 1 chunks of keys, chunk 2P - 1 - r sees 2P - r. */
static void zigzag_is_two_kernels_on_prefixes_of_the_sequence(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p++) {
        const uint64_t half = 20, s = 2 * half;
        struct question q = question_of(p, s * p, "train", "algorithm = all-gather\nsharding = zigzag");
        struct asked a;
        ask(&a, &q);
        for (uint32_t r = 0; r < p; r++) {
            const struct program *program = &a.programs[r];
            uint64_t keys[2] = {(r + 1) * half, (2 * p - r) * half}, unmasked = 0;
            uint32_t n = 0;
            for (uint32_t i = 0; i < program->n_ops; i++) {
                const struct op *op = &program->ops[i];
                if (op->kind != OP_ATTEND)
                    continue;
                assert_true(n < 2 && op->k.owner == block_joined(0) && op->k.first == 0);
                assert_int_equal(op->q.first, n * half);
                assert_int_equal(op->q.count, half);
                assert_int_equal(op->k.count, keys[n]);
                assert_int_equal(op->pairs, half * keys[n] - half * (half - 1) / 2);
                unmasked += op->pairs;
                n++;
            }
            assert_int_equal(n, 2);
            assert_int_equal(unmasked, p * s * s / 2 + s / 2); /* P U, and half the diagonal */
            assert_int_equal(pairs_of(program, OP_ATTEND_BACKWARD), unmasked);
            assert_int_equal(count_ops(program, PHASE_BACKWARD, OP_ATTEND_BACKWARD), 2);
            assert_int_equal(count_ops(program, PHASE_FORWARD, OP_MERGE), 0);
            assert_int_equal(count_ops(program, PHASE_FORWARD, OP_JOIN_ROWS), 1);
            assert_int_equal(count_ops(program, PHASE_BACKWARD, OP_JOIN_ROWS), 1);
            assert_int_equal(count_ops(program, PHASE_BACKWARD, OP_SPLIT_ROWS), 1);
        }
        asked_fini(&a);
    }
}

/* A window's chunk reads the window before it, not the whole prefix. */
static void a_window_leaves_the_keys_that_a_chunk_can_see(void **state)
{
    (void)state;
    struct question q = question_of(4, 160, "forward", "algorithm = all-gather\nsharding = zigzag");
    q.mask = "window:7";
    struct asked a;
    ask(&a, &q);
    for (uint32_t r = 0; r < 4; r++)
        for (uint32_t i = 0; i < a.programs[r].n_ops; i++) {
            const struct op *op = &a.programs[r].ops[i];
            uint32_t chunk = op->q.first ? 7 - r : r, before = chunk ? 6 : 0;
            if (op->kind != OP_ATTEND)
                continue;
            assert_int_equal(op->k.first, 20 * chunk - before);
            assert_int_equal(op->k.count, 20 + before);
        }
    asked_fini(&a);
}

/* In order already, or dealt out one by one: nothing is copied, one kernel per group of heads. Contiguous, rank r does
 * (1 + 2r) U. */
static void other_shardings_are_one_kernel_on_what_was_gathered(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 9; p++) {
        for (unsigned variant = 0; variant < 4; variant++) {
            unsigned striped = variant % 2, heads = variant / 2, rounds = heads ? 2 : 1;
            char keys[128];
            snprintf(keys, sizeof keys, "algorithm = %s\nsharding = %s",
                     heads ? "all-gather-heads\ngather_heads = 2" : "all-gather", striped ? "striped" : "contiguous");
            const uint64_t s = 40;
            struct question q = question_of(p, s * p, "train", keys);
            struct asked a;
            ask(&a, &q);
            uint64_t total = 0;
            for (uint32_t r = 0; r < p; r++) {
                const struct program *program = &a.programs[r];
                uint64_t pairs = pairs_of(program, OP_ATTEND) / rounds;
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_ATTEND), rounds);
                assert_int_equal(count_ops(program, PHASE_BACKWARD, OP_ATTEND_BACKWARD), rounds);
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_MERGE), 0);
                assert_int_equal(count_ops(program, PHASE_FORWARD, OP_JOIN_ROWS), 0);
                if (!striped)
                    assert_int_equal(pairs, (1 + 2 * r) * s * s / 2 + s / 2);
                total += pairs;
            }
            assert_int_equal(total, s * p * (s * p + 1) / 2);
            asked_fini(&a);
        }
    }
}

/* Each query head attends once, in the round that gathers the KV head which it reads. */
static void a_round_attends_the_query_heads_of_its_kv_heads(void **state)
{
    (void)state;
    struct question q = question_of(3, 24, "train", "algorithm = all-gather-heads\ngather_heads = 2");
    q.batch = 2;
    struct asked a;
    ask(&a, &q);
    for (uint32_t r = 0; r < 3; r++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < a.programs[r].n_ops; i++)
            if (op_is_attention(&a.programs[r].ops[i]))
                assert_true(lanes_equal(a.programs[r].ops[i].lanes, (struct lanes){n++ % 2 * 8, 8, 0, 2}));
        assert_int_equal(n, 4);
    }
    asked_fini(&a);
}

/* ---- overlap ---- */

/* The n-th operation of a kind, the same for both phases' kernels; the number of operations if there is none. */
static uint32_t nth_op(const struct program *program, enum op_kind kind, uint32_t n)
{
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == kind && n-- == 0)
            return i;
    return program->n_ops;
}

/* Waits of a collective's operations for the compute stream: 1 + the last operation; 0: none. */
static uint32_t collective_waits(const struct stream_order *order, uint32_t collective, enum stream stream)
{
    uint32_t last = 0;
    const struct collective *c = &order->program->collectives[collective];
    for (uint32_t i = c->first_op; i < c->end_op; i++) {
        if (order->program->ops[i].collective != collective + 1)
            continue;
        uint32_t waits = stream_order_waits(order, i, stream);
        last = waits > last ? waits : last;
    }
    return last;
}

/* Rounds of heads, forward: the gather of round j + 1 waits for no more than the copy of its slice, which stands before
 * the kernel of round j; and that kernel does not wait for it. */
static void the_next_heads_are_gathered_behind_the_attention(void **state)
{
    (void)state;
    static const char *const kinds[] = {"ring", "direct", "hierarchical:2"};
    for (unsigned k = 0; k < 3; k++) {
        char keys[128];
        snprintf(keys, sizeof keys, "algorithm = all-gather-heads\ncollective = %s", kinds[k]);
        struct question q = question_of(4, 64, "forward", keys);
        struct asked a;
        ask(&a, &q);
        const struct program *program = &a.programs[2];
        struct stream_order order;
        stream_order_init(&order, program);
        assert_int_equal(program->n_collectives, 4);
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t slice = nth_op(program, OP_SPLIT_LANES, round), kernel = nth_op(program, OP_ATTEND, round);
            assert_int_equal(collective_waits(&order, round, STREAM_COMPUTE), slice + 1);
            assert_true(round == 0 || slice < nth_op(program, OP_ATTEND, round - 1));
            assert_true(round < 2 || slice > nth_op(program, OP_ATTEND, round - 2)); /* no further ahead */
            uint32_t waits = stream_order_waits(&order, kernel, STREAM_EXCHANGE);
            assert_true(waits > program->collectives[round].first_op && waits <= program->collectives[round].end_op);
        }
        stream_order_fini(&order);
        asked_fini(&a);
    }
}

/* Backward: the kernel of round j + 1 does not wait for the gradients of round j on their way. */
static void gradients_of_heads_are_added_up_behind_the_next_kernel(void **state)
{
    (void)state;
    for (unsigned overlap = 0; overlap < 2; overlap++) {
        char keys[64];
        snprintf(keys, sizeof keys, "algorithm = all-gather-heads\noverlap = %s", overlap ? "yes" : "no");
        struct question q = question_of(4, 64, "train", keys);
        struct asked a;
        ask(&a, &q);
        const struct program *program = &a.programs[1];
        struct stream_order order;
        stream_order_init(&order, program);
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t kernel = nth_op(program, OP_ATTEND_BACKWARD, round);
            assert_int_equal(program->ops[kernel].stream, STREAM_COMPUTE);
            if (overlap && round > 0) /* not even for round j - 2's */
                assert_int_equal(stream_order_waits(&order, kernel, STREAM_GRADIENT), 0);
        }
        for (uint32_t c = 0; c < program->n_collectives; c++)
            assert_int_equal(program->collectives[c].stream, !overlap ? STREAM_COMPUTE
                                                             : program->collectives[c].call == CALL_REDUCE_SCATTER
                                                                 ? STREAM_GRADIENT
                                                                 : STREAM_EXCHANGE);
        stream_order_fini(&order);
        asked_fini(&a);
    }
}

/* ---- memory ---- */

/* Heads: two rounds' keys of Hk / h, one without overlap; all of them if there is but one round. */
static void heads_hold_two_rounds_at_a_time(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p *= 2) {
        for (unsigned h = 1; h <= 4; h *= 2) {
            for (unsigned overlap = 0; overlap < 2; overlap++) {
                char keys[96];
                snprintf(keys, sizeof keys, "algorithm = all-gather-heads\ngather_heads = %u\noverlap = %s", h,
                         overlap ? "yes" : "no");
                struct question q = question_of(p, 32 * p, "forward", keys);
                struct asked a;
                ask(&a, &q);
                struct sizes one = sizes_of(&q);
                uint64_t round = p * one.kv * h / 4;
                for (uint32_t r = 0; r < p; r++)
                    assert_int_equal(peak_bytes_of_step(&a.programs[r]),
                                     2 * one.q + one.kv + one.l + (overlap && h < 4 ? 2 : 1) * round);
                asked_fini(&a);
            }
        }
    }
}

/* Backward, zigzag: the largest of three moments. Keys and their copy; keys, the gradients of all and the part of the
 * second kernel; the gradients and their copy in the order of the ranks. */
static void backward_memory_is_the_gradients_and_their_copy(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 16; p *= 2) {
        for (unsigned fp32 = 0; fp32 < 2; fp32++) {
            char keys[96];
            snprintf(keys, sizeof keys, "algorithm = all-gather\nsharding = zigzag\ngradients = %s",
                     fp32 ? "fp32" : "model");
            struct question q = question_of(p, 32 * p, "train", keys);
            struct asked a;
            ask(&a, &q);
            struct sizes one = sizes_of(&q);
            for (uint32_t r = 0; r < p; r++) {
                uint64_t residents = 4 * one.q + 2 * one.kv + one.l, all = p * one.kv, gradients = all * (fp32 + 1);
                uint64_t part = (r + 1) * one.kv / 2;
                uint64_t kernels = all + gradients + part + one.l /* delta */, copies = 2 * gradients;
                assert_int_equal(peak_bytes_of_step(&a.programs[r]), residents + (kernels > copies ? kernels : copies));
            }
            asked_fini(&a);
        }
    }
}

/* A set of gathered keys is one piece of memory, rank after rank. */
static void gathered_keys_are_one_array(void **state)
{
    (void)state;
    struct question q = question_of(4, 64, "train", "algorithm = all-gather-heads\ngather_heads = 2");
    struct asked a;
    ask(&a, &q);
    uint32_t members[64] = {0};
    for (uint32_t i = 0; i < a.programs[0].n_buffers; i++) {
        const struct buffer *buffer = &a.programs[0].buffers[i];
        assert_true(buffer->array < 64);
        members[buffer->array] += buffer->role == ROLE_RECEIVED || buffer->array;
    }
    assert_int_equal(a.programs[0].n_arrays, 4);
    for (uint32_t array = 1; array <= 4; array++)
        assert_int_equal(members[array], 4);
    asked_fini(&a);
}

/* ---- proofs ---- */

static void every_shape_is_proved(void **state)
{
    (void)state;
    static const struct {
        uint32_t q_heads, kv_heads;
    } heads[] = {{4, 4}, {4, 2}, {6, 1}, {12, 6}};
    for (uint32_t p = 1; p <= 16; p++) {
        for (unsigned i = 0; i < 12; i++) {
            unsigned variant = (7 * i + 5 * p) % 48; /* all of them in the end */
            unsigned h = (variant + p) % 4, sharding = variant % 3, mask = variant / 3 % 4, by_heads = variant / 12 % 2;
            unsigned node = p % 4 == 0 ? 4 : p % 3 == 0 ? 3 : p % 2 ? p : 2;
            char keys[256], collective[32];
            snprintf(collective, sizeof collective,
                     variant % 7 < 2   ? "ring"
                     : variant % 7 < 4 ? "direct"
                                       : "hierarchical:%u",
                     node);
            snprintf(keys, sizeof keys, "algorithm = %s\nsharding = %s\ncollective = %s\noverlap = %s\n%s",
                     by_heads ? "all-gather-heads" : "all-gather", shardings[sharding], collective,
                     variant % 5 ? "yes" : "no",
                     !by_heads                                    ? variant / 24 ? "kv_block = 7\nbuffers = 3" : ""
                     : heads[h].kv_heads % 2 == 0 && variant / 24 ? "gather_heads = 2"
                                                                  : "");
            struct question q = {.cp = p,
                                 .q_heads = heads[h].q_heads,
                                 .kv_heads = heads[h].kv_heads,
                                 .head_dim = 4,
                                 .batch = 1 + variant % 3,
                                 .seq_len = sharding == 1 ? 48 * p : 48,
                                 .mask = masks[mask],
                                 .schedule = keys};
            char documents[64];
            if (mask == 3) {
                snprintf(documents, sizeof documents, "documents:5,11,%u", (unsigned)q.seq_len - 16);
                q.mask = documents;
            }
            if (variant % 4 == 3 && mask != 3) { /* a cached prefix: prefill, or fewer new tokens than ranks */
                q.pass = "forward";
                q.workload = sharding == 1 ? "new_tokens = 48" : variant / 24 ? "new_tokens = 3" : "new_tokens = 29";
                if (sharding == 1 && 48 % (2 * p))
                    continue;
            }
            struct asked a;
            ask(&a, &q);
            expect_proved(&a, keys);
            asked_fini(&a);
        }
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct question q = question_of(4, 64, "train", "algorithm = all-gather-heads\ngather_heads = 3");
    expect_refused(&q, "'gather_heads' = 3 does not divide the 4 KV heads of a rank, nearest: 2 or 4");
    q.schedule = "algorithm = all-gather-heads\ngather_heads = 9";
    expect_refused(&q, "'gather_heads' = 9 does not divide the 4 KV heads of a rank, nearest: 4");
    q.schedule = "algorithm = all-gather-heads\nkv_block = 8";
    expect_refused(&q, "'kv_block' has no effect with algorithm = all-gather-heads");
    q.schedule = "algorithm = all-gather\ngather_heads = 2";
    expect_refused(&q, "'gather_heads' has no effect with algorithm = all-gather");
    q.schedule = "algorithm = all-gather-heads\nskip = transfer";
    expect_refused(&q, "cannot do skip = transfer");
    q.schedule = "algorithm = all-gather\ncollective = hierarchical:3";
    expect_refused(&q, "'collective' by nodes of 3 ranks, which do not divide cp = 4, nearest: 2 or 4");
    q = question_of(2048, 1 << 20, "forward", "algorithm = all-gather-heads\ngather_heads = 0");
    q.kv_heads = 16;
    expect_refused(&q, "'gather_heads' = 0 with cp = 2048 makes about 3.4e+08 operations, expected at most 1e+08: more "
                       "heads at once");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_messages_are_the_same_whatever_the_collective),
        cmocka_unit_test(zigzag_is_two_kernels_on_prefixes_of_the_sequence),
        cmocka_unit_test(a_window_leaves_the_keys_that_a_chunk_can_see),
        cmocka_unit_test(other_shardings_are_one_kernel_on_what_was_gathered),
        cmocka_unit_test(a_round_attends_the_query_heads_of_its_kv_heads),
        cmocka_unit_test(the_next_heads_are_gathered_behind_the_attention),
        cmocka_unit_test(gradients_of_heads_are_added_up_behind_the_next_kernel),
        cmocka_unit_test(heads_hold_two_rounds_at_a_time),
        cmocka_unit_test(backward_memory_is_the_gradients_and_their_copy),
        cmocka_unit_test(gathered_keys_are_one_array),
        cmocka_unit_test(every_shape_is_proved),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
