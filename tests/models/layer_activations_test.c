/* Activations: Korthikanti et al. 2022 (arXiv:2205.05198), section 4 and table 2, term by term, from the list of
 * tensors; and what FlashAttention, gated MLPs, grouped keys and context parallelism change in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "models/layer/activations.h"
#include "tests/models/shipped_transformer.h"

#define BATCH 4
#define LENGTH 2048 /* s */

static struct activation list[ACTIVATIONS_MAX];
static size_t n;

static struct activation_setting setting_of(uint32_t tp, bool sequence_parallel, enum recomputation recomputation)
{
    return (struct activation_setting){.rows = BATCH * LENGTH,
                                       .keys = LENGTH,
                                       .tp = tp,
                                       .sequence_parallel = sequence_parallel,
                                       .recomputation = recomputation,
                                       .dtype = DTYPE_BF16};
}

static double total(const struct transformer *model, const struct activation_setting *setting)
{
    n = activations_of_layer(model, setting, list);
    return activations_total(list, n);
}

/* Bytes of the tensor `name` in the list made last; 0 if it is not kept. */
static double bytes_of(const char *name)
{
    double bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) {
            assert_true(bytes == 0); /* each once */
            bytes = list[i].bytes;
        }
    return bytes;
}

/* Section 4.1: a term in units of s b h, or of a s^2 b for what has rows x keys, and whether tp parts it
 * (section 4.2.1) and sequence parallelism alone does (4.2.2). */
static const struct {
    const char *name;
    double sbh, ass;
    enum activation_split split;
} terms[] = {
    {"layer input", 2, 0, SPLIT_ROWS}, /* two norms: 4 s b h */
    {"QKV input", 2, 0, SPLIT_ROWS},
    {"Q", 2, 0, SPLIT_COLUMNS}, /* Q and K: 4 s b h */
    {"K", 2, 0, SPLIT_COLUMNS},
    {"V", 2, 0, SPLIT_COLUMNS},
    {"softmax output", 0, 2, SPLIT_COLUMNS},
    {"softmax dropout mask", 0, 1, SPLIT_COLUMNS},
    {"softmax dropout output", 0, 2, SPLIT_COLUMNS},
    {"O", 2, 0, SPLIT_COLUMNS},
    {"attention dropout mask", 1, 0, SPLIT_ROWS},
    {"MLP norm input", 2, 0, SPLIT_ROWS},
    {"MLP input", 2, 0, SPLIT_ROWS},
    {"up", 8, 0, SPLIT_COLUMNS}, /* into GELU */
    {"down input", 8, 0, SPLIT_COLUMNS},
    {"MLP dropout mask", 1, 0, SPLIT_ROWS},
};

#define TERMS (sizeof terms / sizeof *terms)

static void the_papers_layer_keeps_the_papers_tensors(void **state)
{
    (void)state;
    struct transformer model = megatron(64, 6144, 48);
    double sbh = (double)LENGTH * BATCH * 6144, ass = 64.0 * LENGTH * LENGTH * BATCH;
    static const uint32_t degrees[] = {1, 2, 8, 64};
    for (int sp = 0; sp < 2; sp++)
        for (size_t d = 0; d < sizeof degrees / sizeof *degrees; d++) {
            struct activation_setting setting = setting_of(degrees[d], sp, RECOMPUTE_NONE);
            total(&model, &setting);
            assert_int_equal(n, TERMS);
            for (size_t i = 0; i < TERMS; i++) {
                uint32_t parts = terms[i].split == SPLIT_COLUMNS || sp ? degrees[d] : 1;
                assert_string_equal(list[i].name, terms[i].name);
                assert_int_equal(list[i].split, terms[i].split);
                assert_true(list[i].bytes == (terms[i].sbh * sbh + terms[i].ass * ass) / parts);
            }
        }
}

/* Table 2: s b h (34 + 5 a s / h); with tensor parallelism s b h (10 + 24 / t + 5 a s / (h t)); with sequence
 * parallelism s b h / t (34 + 5 a s / h); selective recomputation: these without 5 a s / h; full: 2 s b h, which
 * sequence parallelism parts like any row. */
static void sums_are_the_published_equations(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{64, 6144}, {96, 12288}, {128, 20480}, {160, 25600}};
    static const uint32_t degrees[] = {1, 2, 8, 16};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t d = 0; d < sizeof degrees / sizeof *degrees; d++) {
            struct transformer model = megatron(shapes[i][0], shapes[i][1], 1);
            double sbh = (double)LENGTH * BATCH * shapes[i][1], t = degrees[d];
            double scores = sbh * (5.0 * shapes[i][0] * LENGTH / shapes[i][1]);
            struct activation_setting tp = setting_of(degrees[d], false, RECOMPUTE_NONE), sp = tp;
            sp.sequence_parallel = true;
            assert_true(total(&model, &tp) == 10 * sbh + (24 * sbh + scores) / t);
            assert_true(total(&model, &sp) == (34 * sbh + scores) / t);
            tp.recomputation = sp.recomputation = RECOMPUTE_SELECTIVE;
            assert_true(total(&model, &tp) == 10 * sbh + 24 * sbh / t);
            assert_true(total(&model, &sp) == 34 * sbh / t);
            tp.recomputation = sp.recomputation = RECOMPUTE_FULL;
            assert_true(total(&model, &tp) == 2 * sbh);
            assert_true(total(&model, &sp) == 2 * sbh / t);
        }
}

/* Sequence parallelism: every whole row is kept once in the group, without it t times. */
static void sequence_parallelism_keeps_whole_rows_once(void **state)
{
    (void)state;
    struct transformer model = shipped_transformer("llama3-8b");
    struct activation_setting one = setting_of(1, false, RECOMPUTE_NONE);
    struct activation_setting tp = setting_of(8, false, RECOMPUTE_NONE), sp = setting_of(8, true, RECOMPUTE_NONE);
    struct activation whole[ACTIVATIONS_MAX];
    size_t n_whole = activations_of_layer(&model, &one, whole);
    total(&model, &tp);
    assert_int_equal(n, n_whole);
    for (size_t i = 0; i < n; i++)
        assert_true(8 * list[i].bytes == whole[i].bytes * (list[i].split == SPLIT_ROWS ? 8 : 1));
    total(&model, &sp);
    for (size_t i = 0; i < n; i++)
        assert_true(8 * list[i].bytes == whole[i].bytes);
    sp.rows = 17; /* not a multiple: the fullest rank has 3 */
    total(&model, &sp);
    assert_true(bytes_of("layer input") == 3 * 4096 * 2);
    assert_true(bytes_of("gate") == 17 * 14336 / 8 * 2);
}

/* FlashAttention: the paper's 5 a s^2 b go, 4 a s b for the LSE come; computing attention again spares the LSE alone.
 */
static void flash_attention_keeps_the_lse_in_place_of_the_scores(void **state)
{
    (void)state;
    struct transformer model = megatron(64, 6144, 48);
    double lse = 4.0 * 64 * LENGTH * BATCH, scores = 5.0 * 64 * LENGTH * LENGTH * BATCH;
    for (uint32_t t = 1; t <= 8; t *= 2) {
        struct activation_setting setting = setting_of(t, true, RECOMPUTE_NONE);
        double without = total(&model, &setting);
        setting.flash = true;
        assert_true(without - total(&model, &setting) == (scores - lse) / t);
        assert_true(bytes_of("LSE") == lse / t);
        assert_true(bytes_of("softmax output") + bytes_of("softmax dropout mask") == 0);
        double flash = total(&model, &setting);
        setting.keys *= 1024; /* nothing has rows x keys */
        assert_true(total(&model, &setting) == flash);
        setting.recomputation = RECOMPUTE_SELECTIVE;
        assert_true(flash - total(&model, &setting) == lse / t);
    }
}

/* A gated MLP of the same ffn has one tensor more, gate: 2 s b f / t. No dropout: two masks of s b h and what it made
 * of the softmax, 3 a s^2 b / t, fewer. Grouped keys: 2 x 2 s b (a - k) d / t fewer. The norm's kind and biases:
 * nothing. */
static void other_layers_differ_by_the_tensors_they_have(void **state)
{
    (void)state;
    struct transformer paper = megatron(64, 6144, 48), other;
    double sb = (double)LENGTH * BATCH;
    for (uint32_t t = 1; t <= 8; t *= 2) {
        struct activation_setting setting = setting_of(t, false, RECOMPUTE_NONE);
        double papers = total(&paper, &setting);
        other = paper, other.mlp = MLP_GATED;
        assert_true(total(&other, &setting) - papers == 2 * sb * 4 * 6144 / t);
        assert_true(bytes_of("gate") == bytes_of("up") && bytes_of("up") == bytes_of("down input"));
        other = paper, other.dropout = false;
        assert_true(papers - total(&other, &setting) == 2 * sb * 6144 + 3 * 64 * sb * LENGTH / t);
        other = paper, other.kv_heads = 8;
        assert_true(papers - total(&other, &setting) == 4 * sb * (64 - 8) * 96 / t);
        other = paper, other.norm = NORM_RMS, other.bias = BIAS_NONE;
        assert_true(total(&other, &setting) == papers);
    }
}

/* Llama 3 8B with FlashAttention: two norm inputs and two product inputs of h, Q and O of a d, K and V of k d, gate, up
 * and product of f, in bf16, and an fp32 LSE a head. */
static void a_llama_layer_keeps_so_much_a_token(void **state)
{
    (void)state;
    struct transformer model = shipped_transformer("llama3-8b");
    struct activation_setting setting = setting_of(1, false, RECOMPUTE_NONE);
    setting.rows = 1;
    setting.flash = true;
    assert_true(total(&model, &setting) == 2 * (4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336) + 4 * 32);
    setting.dtype = DTYPE_FP32;
    assert_true(total(&model, &setting) == 4 * (4 * 4096 + 2 * 4096 + 2 * 1024 + 3 * 14336) + 4 * 32);
}

/* Context parallelism parts the rows of every tensor: over the ranks, whatever they own, the list of one. */
static void context_parallel_ranks_share_every_tensor(void **state)
{
    (void)state;
    static const uint64_t rows[] = {1024, 1024, 2048, 4096};
    const char *const names[] = {"llama3-8b", "megatron-22b"};
    for (int m = 0; m < 2; m++)
        for (int flash = 0; flash < 2; flash++) {
            struct transformer model = shipped_transformer(names[m]);
            struct activation_setting setting = setting_of(2, true, RECOMPUTE_NONE);
            struct activation whole[ACTIVATIONS_MAX];
            double sum[ACTIVATIONS_MAX] = {0};
            setting.flash = flash;
            size_t n_whole = activations_of_layer(&model, &setting, whole);
            for (size_t rank = 0; rank < 4; rank++) {
                setting.rows = rows[rank];
                total(&model, &setting);
                for (size_t i = 0; i < n; i++)
                    sum[i] += list[i].bytes;
            }
            assert_int_equal(n, n_whole);
            for (size_t i = 0; i < n; i++)
                assert_true(sum[i] == whole[i].bytes);
        }
}

/* Of Llama: the input, attention's result and its LSE, Q, V and the gate. */
static void alternate_recomputation_keeps_every_second_product(void **state)
{
    (void)state;
    struct transformer model = shipped_transformer("llama3-8b");
    struct activation_setting setting = setting_of(1, false, RECOMPUTE_ALTERNATE);
    setting.flash = true;
    double columns = 4096 + 4096 + 4096 + 1024 + 14336;
    assert_true(total(&model, &setting) == BATCH * LENGTH * (2 * columns + 4 * 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_papers_layer_keeps_the_papers_tensors),
        cmocka_unit_test(sums_are_the_published_equations),
        cmocka_unit_test(sequence_parallelism_keeps_whole_rows_once),
        cmocka_unit_test(flash_attention_keeps_the_lse_in_place_of_the_scores),
        cmocka_unit_test(other_layers_differ_by_the_tensors_they_have),
        cmocka_unit_test(a_llama_layer_keeps_so_much_a_token),
        cmocka_unit_test(alternate_recomputation_keeps_every_second_product),
        cmocka_unit_test(context_parallel_ranks_share_every_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
