/* Attention on blocks, of every instruction set, against the reference in double precision.
 *
 * Bounds, of the error's norm over the tensor's norm. fp32: one rounding is 6e-8; scores of a few units carry a few
 * roundings each into exp, sums of random signs add the square root of their number: a few 1e-7 in all, 2e-6 allowed.
 * bf16: inputs are exact, but O is rounded (2^-9 = 2e-3 at most), once per merged piece, and so are delta's O and the
 * gradients: 1e-2 allowed. Either is far below what one wrong mask row or head costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <math.h>

#include "isas.h"
#include "models/schedule/mask.h"
#include "scene.h"

#define FP32_BOUND 2e-6
#define BF16_BOUND 1e-2

static const char *const names[TENSORS] = {"Q", "dO", "O", "dQ", "K", "V", "dK", "dV", "LSE"};
static const int outputs[] = {O, LSE, DQ, DK, DV};

static struct attention_rows run_of(uint64_t first, uint64_t stride, uint64_t count)
{
    return (struct attention_rows){.spans = {{first, stride, count}}, .n_spans = 1, .rows = count};
}

static void assert_right(const struct scene *s)
{
    for (size_t i = 0; i < 5; i++) {
        double error = scene_error(s, outputs[i]), bound = s->dtype == DTYPE_FP32 ? FP32_BOUND : BF16_BOUND;
        if (!(error <= bound))
            fail_msg("%s is off by %g (rows %zu, batch %zu, heads %zu/%zu, dim %zu, mask %d, %s)", names[outputs[i]],
                     error, s->rows, s->batch, s->q_heads, s->kv_heads, s->dim, (int)s->mask->kind,
                     dtype_name(s->dtype));
    }
}

/* The masks over `rows` positions; the wide window ends inside tiles that it reaches whole. */
#define N_MASKS 5
struct masks {
    struct mask of[N_MASKS];
    uint64_t starts[5];
};

static void masks_of(struct masks *m, uint64_t rows)
{
    m->starts[0] = 0;
    m->starts[1] = rows / 7;
    m->starts[2] = rows / 7 + 1; /* a document of one position */
    m->starts[3] = rows * 5 / 8;
    m->starts[4] = rows;
    m->of[0] = (struct mask){.kind = MASK_FULL, .seq_len = rows};
    m->of[1] = (struct mask){.kind = MASK_CAUSAL, .seq_len = rows};
    m->of[2] = (struct mask){.kind = MASK_WINDOW, .seq_len = rows, .window = rows / 5 + 1};
    m->of[3] = (struct mask){.kind = MASK_WINDOW, .seq_len = rows, .window = rows * 3 / 5 + 1};
    m->of[4] = (struct mask){.kind = MASK_DOCUMENTS, .seq_len = rows, .document_starts = m->starts, .n_documents = 4};
}

static void whole_blocks_agree_for_every_mask_head_ratio_and_dimension(void **state)
{
    USE_ISA(state);
    srand(1);
    const size_t heads[][2] = {{6, 2}, {6, 3}, {8, 1}, {5, 5}, {1, 1}};
    const size_t dims[] = {1, 2, 16, 40, 64, 96, 128, 256};
    struct masks masks;
    masks_of(&masks, 37);
    const struct attention_rows all = run_of(0, 1, 37);
    size_t turn = 0;
    for (size_t h = 0; h < 5; h++) {
        for (size_t d = 0; d < 8; d++, turn++) {
            struct scene s = scene_make(&masks.of[turn % N_MASKS], turn % 3 == 0 ? 3 : 1, heads[h][0], heads[h][1],
                                        dims[d], turn / 2 % 2 ? DTYPE_BF16 : DTYPE_FP32);
            if (turn % 7 == 0)
                s.dkv_dtype = DTYPE_FP32;
            scene_compute(&s, &all, 1, &all, 1, 1);
            assert_right(&s);
            scene_free(&s);
        }
    }
}

/* Lengths below, at and above the tile's 96 rows and its register tiles. */
static void whole_blocks_agree_for_every_length(void **state)
{
    USE_ISA(state);
    srand(2);
    const uint64_t lengths[] = {1, 5, 12, 13, 31, 32, 33, 95, 96, 97, 192, 211};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        struct masks masks;
        masks_of(&masks, lengths[l]);
        const struct attention_rows all = run_of(0, 1, lengths[l]);
        for (size_t m = 0; m < (lengths[l] < 7 ? 4 : N_MASKS); m++) {
            struct scene s = scene_make(&masks.of[m], 1, 2, 1, 24, DTYPE_FP32);
            scene_compute(&s, &all, 1, &all, 1, 1);
            assert_right(&s);
            scene_free(&s);
        }
    }
}

/* Rank's shards of 3: zigzag and striped; blocks queries and keys alike, one key buffer a call and all in one. */
static void strided_and_two_span_positions_agree(void **state)
{
    USE_ISA(state);
    srand(3);
    enum { RANKS = 3, CHUNK = 47, ROWS = 2 * RANKS * CHUNK };
    struct masks masks;
    masks_of(&masks, ROWS);
    struct attention_rows zigzag[RANKS], striped[RANKS];
    for (uint64_t r = 0; r < RANKS; r++) {
        zigzag[r] = (struct attention_rows){
            .spans = {{r * CHUNK, 1, CHUNK}, {(2 * RANKS - 1 - r) * CHUNK, 1, CHUNK}}, .n_spans = 2, .rows = 2 * CHUNK};
        striped[r] = run_of(r, RANKS, ROWS / RANKS);
    }
    for (size_t m = 0; m < N_MASKS; m++) {
        for (size_t type = 0; type < 2; type++) {
            struct scene s = scene_make(&masks.of[m], 1, 3, 1, 16, type ? DTYPE_BF16 : DTYPE_FP32);
            scene_compute(&s, zigzag, RANKS, zigzag, RANKS, 1);
            assert_right(&s);
            scene_compute(&s, striped, RANKS, striped, RANKS, RANKS);
            assert_right(&s);
            scene_compute(&s, zigzag, RANKS, striped, RANKS, 2);
            assert_right(&s);
            scene_free(&s);
        }
    }
}

/* A buffer of no rows among others, and buffers in another order than their positions. */
static void key_buffers_may_be_empty_and_in_any_order(void **state)
{
    USE_ISA(state);
    srand(4);
    struct masks masks;
    masks_of(&masks, 150);
    const struct attention_rows queries[] = {run_of(0, 1, 70), run_of(70, 1, 80)};
    const struct attention_rows keys[] = {run_of(101, 1, 49), run_of(0, 1, 100), run_of(0, 1, 0), run_of(100, 1, 1)};
    for (size_t m = 0; m < N_MASKS; m++) {
        for (size_t per_call = 1; per_call <= 4; per_call++) {
            struct scene s = scene_make(&masks.of[m], 2, 2, 2, 8, DTYPE_FP32);
            scene_compute(&s, queries, 2, keys, 4, per_call);
            assert_right(&s);
            scene_free(&s);
        }
    }
}

/* 1 to 8 pieces, each its own call and merge. The rounding of one more fp32 merge vanishes beside that of the products;
 * bf16 rounds each piece, so that pieces of the same size err alike and their mean less. */
static void errors_do_not_grow_with_the_number_of_pieces(void **state)
{
    USE_ISA(state);
    srand(5);
    enum { ROWS = 128 };
    struct masks masks;
    masks_of(&masks, ROWS);
    for (size_t m = 0; m < 2; m++) {
        for (size_t type = 0; type < 2; type++) {
            struct scene s = scene_make(&masks.of[m], 1, 2, 1, 64, type ? DTYPE_BF16 : DTYPE_FP32);
            s.dkv_dtype = DTYPE_FP32;
            double alone[TENSORS];
            for (uint64_t pieces = 1; pieces <= 8; pieces++) {
                struct attention_rows blocks[8];
                for (uint64_t p = 0; p < pieces; p++) {
                    uint64_t first = ROWS * p / pieces, end = ROWS * (p + 1) / pieces;
                    blocks[p] = run_of(first, 1, end - first);
                }
                scene_compute(&s, blocks, pieces, blocks, pieces, 1);
                assert_right(&s);
                for (size_t i = 0; i < 5; i++) {
                    double error = scene_error(&s, outputs[i]);
                    if (pieces == 1)
                        alone[outputs[i]] = error;
                    else if (!(error <= 2 * alone[outputs[i]] + 5e-8))
                        fail_msg("%s: %g in one piece, %g in %u", names[outputs[i]], alone[outputs[i]], error,
                                 (unsigned)pieces);
                }
            }
            scene_free(&s);
        }
    }
}

/* --- calls by hand */

struct small {
    float q[600], k[600], v[600], d_o[600], o[600], dq[600], dk[600], dv[600], lse[600], delta[600];
    struct attention_keys keys;
    struct attention_call call;
};

/* One head of dim 1 and scale 1; outputs NaN, inputs 0. */
static void small_init(struct small *s, const struct mask *mask, struct attention_rows queries,
                       struct attention_rows keys)
{
    memset(s, 0, sizeof *s);
    float *all[] = {s->o, s->dq, s->dk, s->dv, s->lse};
    for (size_t i = 0; i < 5; i++)
        memset(all[i], 0xff, sizeof s->o);
    s->keys = (struct attention_keys){.positions = keys, .k = s->k, .v = s->v, .dk = s->dk, .dv = s->dv};
    s->call = (struct attention_call){.mask = mask,
                                      .batch = 1,
                                      .q_heads = 1,
                                      .kv_heads = 1,
                                      .head_dim = 1,
                                      .scale = 1,
                                      .dtype = DTYPE_FP32,
                                      .dkv_dtype = DTYPE_FP32,
                                      .queries = queries,
                                      .q = s->q,
                                      .keys = &s->keys,
                                      .n_keys = 1};
}

static void assert_close(float value, double expected, double tolerance)
{
    if (!(fabs((double)value - expected) <= tolerance * fmax(1, fabs(expected))))
        fail_msg("%.9g is not within %g of %.9g", (double)value, tolerance, expected);
}

/* The oracle of every mask and order: Q = 0, V_j = j, so O_i is the mean of what is seen, LSE_i = ln of how many. */
static void equal_scores_average_what_is_seen(void **state)
{
    USE_ISA(state);
    enum { ROWS = 500 };
    const struct mask causal = {.kind = MASK_CAUSAL, .seq_len = ROWS}, full = {.kind = MASK_FULL, .seq_len = ROWS};
    static struct small s;
    for (int is_full = 0; is_full < 2; is_full++) {
        small_init(&s, is_full ? &full : &causal, run_of(0, 1, ROWS), run_of(0, 1, ROWS));
        for (size_t i = 0; i < ROWS; i++) {
            s.v[i] = (float)i;
            s.d_o[i] = (float)(i % 3) - 1;
        }
        attention_forward(&s.call, s.o, s.lse);
        attention_delta(ROWS, 1, 1, DTYPE_FP32, s.o, s.d_o, s.delta);
        attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
        for (size_t i = 0; i < ROWS; i++) {
            assert_close(s.o[i], is_full ? (ROWS - 1) / 2.0 : (double)i / 2, 1e-6);
            assert_close(s.lse[i], log(is_full ? ROWS : (double)i + 1), 1e-6);
            double dv = 0;
            for (size_t row = is_full ? 0 : i; row < ROWS; row++)
                dv += ((double)(row % 3) - 1) / (is_full ? ROWS : (double)row + 1);
            assert_close(s.dv[i], dv, 2e-6);
            assert_true(s.dk[i] == 0); /* dK = dS^T Q, and Q = 0 */
        }
    }
}

static void scores_a_hundred_apart_neither_overflow_nor_lose_the_winner(void **state)
{
    USE_ISA(state);
    const struct mask full = {.kind = MASK_FULL, .seq_len = 200};
    static struct small s;
    for (uint64_t keys = 2; keys <= 200; keys += 198) { /* in one tile, and the winner first or last of three */
        for (size_t winner = 0; winner < keys; winner += keys - 1) {
            small_init(&s, &full, run_of(0, 1, 2), run_of(0, 1, keys));
            s.q[0] = 10;
            s.q[1] = 1e5f;
            for (size_t j = 0; j < keys; j++)
                s.v[j] = 1;
            s.k[winner] = 10;
            s.v[winner] = -7;
            attention_forward(&s.call, s.o, s.lse);
            for (size_t i = 0; i < 2; i++)
                assert_close(s.o[i], -7, 0);
            assert_close(s.lse[0], 100, 0);
            assert_close(s.lse[1], 1e6, 0);
        }
    }
}

static void rows_that_see_nothing_are_neutral(void **state)
{
    USE_ISA(state);
    const struct mask causal = {.kind = MASK_CAUSAL, .seq_len = 300};
    static struct small s;
    const uint64_t firsts[] = {0, 100, 150}; /* nobody, nobody, half the rows see keys 200 to 299 */
    for (size_t f = 0; f < 3; f++) {
        small_init(&s, &causal, run_of(firsts[f], 1, 100), run_of(200, 1, 100));
        for (size_t i = 0; i < 100; i++) {
            s.q[i] = s.k[i] = s.v[i] = s.d_o[i] = 1;
            s.delta[i] = 0.5f;
        }
        attention_forward(&s.call, s.o, s.lse);
        attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
        for (size_t i = 0; i < 100; i++) {
            bool sees = firsts[f] + i >= 200, seen = f == 2 && i < 50;
            assert_true(s.o[i] == (sees ? 1 : 0) || (sees && fabsf(s.o[i] - 1) < 1e-6f));
            assert_true(sees ? isfinite(s.lse[i]) : s.lse[i] == -INFINITY);
            assert_true(sees ? s.dq[i] > 0 : s.dq[i] == 0);
            assert_true(seen ? s.dk[i] > 0 : s.dk[i] == 0);
            assert_true(seen ? s.dv[i] > 0 : s.dv[i] == 0);
        }
    }
}

/* Scores of -inf, all that a row sees: as if it saw nothing. */
static void rows_of_infinitely_low_scores_are_neutral(void **state)
{
    USE_ISA(state);
    const struct mask full = {.kind = MASK_FULL, .seq_len = 200};
    static struct small s;
    small_init(&s, &full, run_of(0, 1, 1), run_of(0, 1, 200));
    s.q[0] = 1;
    for (size_t j = 0; j < 200; j++) {
        s.k[j] = j == 150 ? 0 : -INFINITY;
        s.v[j] = 1;
    }
    attention_forward(&s.call, s.o, s.lse); /* tiles of -inf alone before and after one with a score of 0 */
    assert_true(s.o[0] == 1 && s.lse[0] == 0);
    s.k[150] = -INFINITY;
    attention_forward(&s.call, s.o, s.lse);
    assert_true(s.o[0] == 0 && s.lse[0] == -INFINITY);
}

/* A row whose LSE is -inf gives nothing, whatever the mask would let it see. */
static void rows_without_weight_give_no_gradient(void **state)
{
    USE_ISA(state);
    const struct mask full = {.kind = MASK_FULL, .seq_len = 96};
    static struct small s;
    small_init(&s, &full, run_of(0, 1, 96), run_of(0, 1, 96));
    for (size_t i = 0; i < 96; i++) {
        s.q[i] = s.k[i] = s.v[i] = s.d_o[i] = 1;
        s.lse[i] = i == 7 ? 1 : -INFINITY;
    }
    attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
    for (size_t i = 0; i < 96; i++) {
        assert_true(i == 7 ? s.dq[i] > 0 : s.dq[i] == 0);
        assert_close(s.dv[i], 1, 1e-6); /* row 7's alone: e^(1 - 1) */
    }
}

static void no_queries_and_no_keys_still_write_what_there_is(void **state)
{
    USE_ISA(state);
    const struct mask full = {.kind = MASK_FULL, .seq_len = 5};
    static struct small s;
    small_init(&s, &full, run_of(0, 1, 0), run_of(0, 1, 5));
    attention_forward(&s.call, s.o, s.lse);
    attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
    for (size_t i = 0; i < 5; i++)
        assert_true(s.dk[i] == 0 && s.dv[i] == 0 && isnan(s.o[i]) && isnan(s.dq[i]));
    small_init(&s, &full, run_of(0, 1, 5), run_of(0, 1, 0));
    s.call.n_keys = 0;
    attention_forward(&s.call, s.o, s.lse);
    attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
    for (size_t i = 0; i < 5; i++)
        assert_true(s.o[i] == 0 && s.lse[i] == -INFINITY && s.dq[i] == 0 && isnan(s.dk[i]));
}

/* dV = P dO = e^(q k - LSE) shows the exponential itself. */
static void the_exponential_is_right_to_two_units_in_the_last_place(void **state)
{
    USE_ISA(state);
    enum { KEYS = 500 };
    const struct mask full = {.kind = MASK_FULL, .seq_len = KEYS};
    static struct small s;
    for (int part = 0; part < 20; part++) {
        small_init(&s, &full, run_of(0, 1, 1), run_of(0, 1, KEYS));
        s.q[0] = s.d_o[0] = 1;
        s.lse[0] = 0;
        for (int j = 0; j < KEYS; j++)
            s.k[j] = -(float)(part * KEYS + j) * 0.0087f; /* down to -87 */
        attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
        for (int j = 0; j < KEYS; j++) {
            double expected = exp((double)s.k[j]);
            if (!(fabs((double)s.dv[j] / expected - 1) <= 2.4e-7))
                fail_msg("e^%g: %.9g, not %.9g", (double)s.k[j], (double)s.dv[j], expected);
        }
    }
    const float extremes[] = {-88, -104, -1000, -1e30f, -INFINITY};
    small_init(&s, &full, run_of(0, 1, 1), run_of(0, 1, 6));
    s.q[0] = s.d_o[0] = 1;
    s.lse[0] = 0;
    memcpy(s.k, extremes, sizeof extremes);
    s.k[5] = 1000;
    attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
    for (int j = 0; j < 5; j++)
        assert_true(s.dv[j] == 0);
    assert_true(s.dv[5] == INFINITY); /* never a plausible number */
}

static void a_nan_is_not_hidden(void **state)
{
    USE_ISA(state);
    const struct mask causal = {.kind = MASK_CAUSAL, .seq_len = 300};
    static struct small s;
    const uint32_t patterns[] = {0x7fc00000, 0xffffffff};
    for (size_t p = 0; p < 2; p++) {
        small_init(&s, &causal, run_of(0, 1, 300), run_of(0, 1, 300));
        memcpy(&s.k[299], &patterns[p], sizeof *s.k);
        for (size_t i = 0; i < 300; i++)
            s.q[i] = s.d_o[i] = 1;
        attention_forward(&s.call, s.o, s.lse);
        assert_true(isnan(s.o[299]) && isnan(s.lse[299]) && isfinite(s.o[0]) && isfinite(s.lse[0]));
        attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
        assert_true(isnan(s.dq[299]) && isnan(s.dk[299]) && isnan(s.dv[0])); /* row 299 sees key 0 */
    }
}

static void count_call(void *context)
{
    ++*(size_t *)context;
}

static void messages_are_progressed_between_tiles_that_are_seen(void **state)
{
    USE_ISA(state);
    const struct mask causal = {.kind = MASK_CAUSAL, .seq_len = 576};
    static struct small s;
    size_t calls = 0;
    small_init(&s, &causal, run_of(0, 1, 288), run_of(288, 1, 288));
    s.call.between_tiles = count_call;
    s.call.between_tiles_context = &calls;
    attention_forward(&s.call, s.o, s.lse);
    assert_int_equal(calls, 0);
    s.call.queries = run_of(288, 1, 288);
    attention_forward(&s.call, s.o, s.lse);
    assert_true(calls >= 2);
    size_t forward = calls;
    attention_backward(&s.call, s.d_o, s.lse, s.delta, s.dq);
    assert_int_equal(calls, 2 * forward);
}

static void an_unknown_instruction_set_is_refused(void **state)
{
    (void)state;
    const char *best = (attention_use(NULL), attention_isa());
    assert_false(attention_use("mmx"));
    assert_string_equal(attention_isa(), best);
    assert_true(attention_use("baseline"));
    assert_string_equal(attention_isa(), "baseline");
    assert_true(attention_use(NULL));
    assert_string_equal(attention_isa(), best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_EACH_ISA(whole_blocks_agree_for_every_mask_head_ratio_and_dimension),
        TEST_EACH_ISA(whole_blocks_agree_for_every_length),
        TEST_EACH_ISA(strided_and_two_span_positions_agree),
        TEST_EACH_ISA(key_buffers_may_be_empty_and_in_any_order),
        TEST_EACH_ISA(errors_do_not_grow_with_the_number_of_pieces),
        TEST_EACH_ISA(equal_scores_average_what_is_seen),
        TEST_EACH_ISA(scores_a_hundred_apart_neither_overflow_nor_lose_the_winner),
        TEST_EACH_ISA(rows_that_see_nothing_are_neutral),
        TEST_EACH_ISA(rows_of_infinitely_low_scores_are_neutral),
        TEST_EACH_ISA(rows_without_weight_give_no_gradient),
        TEST_EACH_ISA(no_queries_and_no_keys_still_write_what_there_is),
        TEST_EACH_ISA(the_exponential_is_right_to_two_units_in_the_last_place),
        TEST_EACH_ISA(a_nan_is_not_hidden),
        TEST_EACH_ISA(messages_are_progressed_between_tiles_that_are_seen),
        cmocka_unit_test(an_unknown_instruction_set_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
