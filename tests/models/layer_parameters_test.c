/* Parameters: every shipped model has its published number of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>
#include <string.h>

#include "models/layer/parameters.h"
#include "tests/models/shipped_transformer.h"

static uint64_t total_of(const struct transformer *model)
{
    struct parameters parameters = parameters_of_model(model);
    return parameters_total(&parameters);
}

/* The checkpoints' own sums: total_size of model.safetensors.index.json on Hugging Face (bf16, so half of it; Llama 2's
 * has 4096 bytes of rotary frequencies besides), and the number of parameters that Hugging Face shows for them. */
static const struct {
    const char *name;
    uint64_t published;
} checkpoints[] = {
    {"llama2-7b", 6738415616},  {"llama3-8b", 8030261248},  {"llama3-70b", 70553706496},  {"llama3-405b", 405853388800},
    {"mistral-7b", 7241732096}, {"qwen2.5-7b", 7615616512}, {"qwen2.5-72b", 72706203648},
};

/* In billions, as published: Brown et al. 2020 table D.1; Korthikanti et al. 2022 table 3 (22B, 175B, 530B, 1T). The
 * last three are in Narayanan et al. 2021 table 1 too, to more digits. */
static const struct {
    const char *name;
    double published, rounding;
} papers[] = {
    {"gpt3-175b", 174.600, 0.05}, {"megatron-22b", 22, 0.5},     {"megatron-175b", 175, 0.5},
    {"megatron-530b", 530, 0.5},  {"megatron-530b", 529.6, .05}, {"megatron-1t", 1008.0, 0.05},
};

static void checkpoints_have_the_published_totals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++) {
        struct transformer model = shipped_transformer(checkpoints[i].name);
        assert_int_equal(total_of(&model), checkpoints[i].published);
    }
}

static void papers_models_have_the_published_totals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof papers / sizeof *papers; i++) {
        struct transformer model = shipped_transformer(papers[i].name);
        double billions = (double)total_of(&model) / 1e9;
        if (fabs(billions - papers[i].published) > papers[i].rounding)
            fail_msg("%s: %.3f, published %.3f", papers[i].name, billions, papers[i].published);
    }
}

static void every_shipped_model_is_held_against_a_published_total(void **state)
{
    (void)state;
    char **names = data_path_list("transformers");
    for (size_t n = 0; names[n]; n++) {
        bool known = false;
        for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++)
            known |= strcmp(names[n], checkpoints[i].name) == 0;
        for (size_t i = 0; i < sizeof papers / sizeof *papers; i++)
            known |= strcmp(names[n], papers[i].name) == 0;
        if (!known)
            fail_msg("no published total for %s in this test", names[n]);
        free(names[n]);
    }
    free(names);
}

/* Narayanan et al. 2021 (arXiv:2104.04473): P = 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)), which leaves the two
 * vectors of the last norm out; and table 1, in billions. */
static void megatrons_models_follow_the_published_formula(void **state)
{
    (void)state;
    static const struct {
        double billions;
        uint32_t heads, hidden, layers;
    } table[] = {
        {1.7, 24, 2304, 24},      {3.6, 32, 3072, 30},       {7.5, 32, 4096, 36},    {18.4, 48, 6144, 40},
        {39.1, 64, 8192, 48},     {76.1, 80, 10240, 60},     {145.6, 96, 12288, 80}, {310.1, 128, 16384, 96},
        {529.6, 128, 20480, 105}, {1008.0, 160, 25600, 128},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct transformer model = megatron(table[i].heads, table[i].hidden, table[i].layers);
        uint64_t h = model.hidden, l = model.layers;
        assert_int_equal(total_of(&model), 12 * l * h * h + 13 * l * h + (51200 + 2048) * h + 2 * h);
        assert_true(fabs((double)total_of(&model) / 1e9 - table[i].billions) < 0.0501);
    }
}

static void shipped_megatron_models_are_those_of_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t heads, hidden, layers;
    } table[] = {{"megatron-22b", 64, 6144, 48},
                 {"megatron-175b", 96, 12288, 96},
                 {"megatron-530b", 128, 20480, 105},
                 {"megatron-1t", 160, 25600, 128}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct transformer shipped = shipped_transformer(table[i].name);
        struct transformer right = megatron(table[i].heads, table[i].hidden, table[i].layers);
        assert_int_equal(shipped.head_dim, right.head_dim);
        assert_int_equal(shipped.dropout, right.dropout);
        assert_int_equal(total_of(&shipped), total_of(&right));
    }
}

/* Tensor by tensor, as config.json gives their sizes. */
static void parts_are_the_sizes_of_their_tensors(void **state)
{
    (void)state;
    struct transformer llama = shipped_transformer("llama3-8b"), qwen = shipped_transformer("qwen2.5-7b");
    struct parameters layer = parameters_of_layer(&llama), model = parameters_of_model(&llama);
    assert_int_equal(layer.weights[MODEL_QUERY], 4096 * 4096);
    assert_int_equal(layer.weights[MODEL_KEY], 4096 * 1024);
    assert_int_equal(layer.weights[MODEL_VALUE], 4096 * 1024);
    assert_int_equal(layer.weights[MODEL_OUTPUT], 4096 * 4096);
    assert_int_equal(layer.weights[MODEL_MLP], 3 * 4096 * 14336);
    assert_int_equal(layer.weights[MODEL_NORM], 2 * 4096);
    assert_int_equal(parameters_total(&layer), 218112000);
    assert_int_equal(model.weights[MODEL_NORM], 65 * 4096);
    assert_int_equal(model.weights[MODEL_EMBEDDING], 128256 * 4096);
    assert_int_equal(model.weights[MODEL_HEAD], 128256 * 4096);
    for (int part = 0; part < MODEL_PARTS; part++)
        assert_int_equal(model.biases[part], 0);
    layer = parameters_of_layer(&qwen);
    assert_int_equal(layer.biases[MODEL_QUERY], 3584);
    assert_int_equal(layer.biases[MODEL_KEY], 512);
    assert_int_equal(layer.biases[MODEL_VALUE], 512);
    assert_int_equal(layer.biases[MODEL_OUTPUT] + layer.biases[MODEL_MLP] + layer.biases[MODEL_NORM], 0);
}

/* PaLM 540B (Chowdhery et al. 2022, table 1 and appendix B: 540.35 billion): one KV head, heads of 256 beside a hidden
 * of 18432, tied embeddings; its layers have one norm, not two, which is 0.002 billion. */
static void heads_need_not_add_up_to_hidden(void **state)
{
    (void)state;
    struct transformer palm = {.q_heads = 48,
                               .kv_heads = 1,
                               .head_dim = 256,
                               .layers = 118,
                               .hidden = 18432,
                               .ffn = 73728,
                               .vocab = 256000,
                               .tied_embeddings = true};
    assert_true(fabs((double)total_of(&palm) / 1e9 - 540.35) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_have_the_published_totals),
        cmocka_unit_test(papers_models_have_the_published_totals),
        cmocka_unit_test(every_shipped_model_is_held_against_a_published_total),
        cmocka_unit_test(megatrons_models_follow_the_published_formula),
        cmocka_unit_test(shipped_megatron_models_are_those_of_the_formula),
        cmocka_unit_test(parts_are_the_sizes_of_their_tensors),
        cmocka_unit_test(heads_need_not_add_up_to_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
