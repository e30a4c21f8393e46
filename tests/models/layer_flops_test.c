/* FLOPs and utilization: the published formulas term by term, and the published utilizations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <math.h>

#include "models/layer/flops.h"
#include "models/layer/parameters.h"
#include "models/layer/utilization.h"
#include "tests/models/shipped_transformer.h"

#define A100_PEAK 312e12 /* FLOP/s in bf16 and fp16 */

static void assert_close(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance * fabs(expected)))
        fail_msg("%.15g, expected %.15g within %g", value, expected, tolerance);
}

/* The papers' step: `batch` sequences of `s` tokens, all of which see all. */
static struct step_flops full_step(const struct transformer *model, double batch, double s,
                                   enum recomputation recomputation)
{
    return flops_of_step(model, batch * s, batch * s * s, recomputation, false);
}

/* Narayanan et al. 2021 (arXiv:2104.04473) section 5.1: 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)) with all layers
 * computed again; Korthikanti et al. 2022 (arXiv:2205.05198) appendix A: 72 B s l h^2 (1 + s / (6 h) + V / (12 l h))
 * without. */
static void steps_follow_the_published_formulas(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{64, 6144, 48}, {96, 12288, 96}, {128, 20480, 105}, {160, 25600, 128}};
    static const double lengths[] = {1024, 2048, 65536};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            struct transformer model = megatron(shapes[i][0], shapes[i][1], shapes[i][2]);
            double h = model.hidden, l = model.layers, v = model.vocab, s = lengths[j], b = 3;
            double model_flops = 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
            struct step_flops none = full_step(&model, b, s, RECOMPUTE_NONE);
            struct step_flops selective = full_step(&model, b, s, RECOMPUTE_SELECTIVE);
            struct step_flops full = full_step(&model, b, s, RECOMPUTE_FULL);
            assert_close(flops_of_model(&none), model_flops, 1e-14);
            assert_close(flops_of_hardware(&none), model_flops, 1e-14);
            assert_close(flops_of_model(&selective), model_flops, 1e-14);
            assert_close(flops_of_model(&full), model_flops, 1e-14);
            assert_close(flops_of_hardware(&selective), model_flops + 4 * b * s * s * h * l, 1e-14);
            assert_close(flops_of_hardware(&full), 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h)),
                         1e-14);
        }
}

/* A layer's terms forward: 6 b s h^2 for Q, K, V; 4 b s^2 h for scores and values; 2 b s h^2; 16 b s h^2. */
static void a_layers_parts_are_the_published_terms(void **state)
{
    (void)state;
    struct transformer model = megatron(64, 6144, 48);
    double b = 2, s = 2048, h = 6144;
    struct flops layer = flops_of_layer(&model, b * s, b * s * s);
    assert_close(layer.of[MODEL_QUERY], 2 * b * s * h * h, 1e-15);
    assert_close(layer.of[MODEL_KEY], 2 * b * s * h * h, 1e-15);
    assert_close(layer.of[MODEL_VALUE], 2 * b * s * h * h, 1e-15);
    assert_close(layer.of[MODEL_ATTENTION], 4 * b * s * s * h, 1e-15);
    assert_close(layer.of[MODEL_OUTPUT], 2 * b * s * h * h, 1e-15);
    assert_close(layer.of[MODEL_MLP], 16 * b * s * h * h, 1e-15);
    assert_true(layer.of[MODEL_NORM] + layer.of[MODEL_EMBEDDING] + layer.of[MODEL_HEAD] == 0);
    struct step_flops step = full_step(&model, b, s, RECOMPUTE_FULL);
    assert_close(step.forward.of[MODEL_HEAD], 2 * b * s * h * 51200, 1e-15);
    assert_close(step.backward.of[MODEL_HEAD], 4 * b * s * h * 51200, 1e-15);
    assert_true(step.recomputed.of[MODEL_HEAD] == 0);
    for (int part = 0; part < MODEL_HEAD; part++)
        assert_close(step.recomputed.of[part], 48 * layer.of[part], 1e-15);
}

/* Heads tell what a product with grouped keys, and heads that do not add up to hidden, take: twice the weights. */
static void products_take_twice_their_weights(void **state)
{
    (void)state;
    struct transformer model = shipped_transformer("llama3-8b");
    model.head_dim = 96;
    struct parameters parameters = parameters_of_model(&model);
    struct step_flops step = flops_of_step(&model, 10, 55, RECOMPUTE_NONE, false);
    static const enum model_part products[] = {MODEL_QUERY,  MODEL_KEY, MODEL_VALUE,
                                               MODEL_OUTPUT, MODEL_MLP, MODEL_HEAD};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        assert_close(step.forward.of[products[i]], 20 * (double)parameters.weights[products[i]], 1e-15);
        assert_close(step.backward.of[products[i]], 40 * (double)parameters.weights[products[i]], 1e-15);
    }
    model.tied_embeddings = true; /* the head's product is the same */
    struct step_flops tied = flops_of_step(&model, 10, 55, RECOMPUTE_NONE, false);
    assert_close(flops_of_model(&tied), flops_of_model(&step), 1e-15);
}

/* Attention alone is design's 4 x pairs x heads x dim, and 2.5 times that backward where the kernel makes S again. */
static void flash_attention_takes_half_a_forward_more(void **state)
{
    (void)state;
    struct transformer model = shipped_transformer("llama3-8b");
    double pairs = 8192.0 * 8193 / 2, forward = 4 * pairs * 32 * 128 * 32;
    struct step_flops flash = flops_of_step(&model, 8192, pairs, RECOMPUTE_NONE, true);
    struct step_flops selective = flops_of_step(&model, 8192, pairs, RECOMPUTE_SELECTIVE, true);
    assert_close(flash.forward.of[MODEL_ATTENTION], forward, 1e-15);
    assert_close(flash.backward.of[MODEL_ATTENTION] + flash.recomputed.of[MODEL_ATTENTION], 2.5 * forward, 1e-15);
    assert_close(flops_of_hardware(&flash) - flops_of_model(&flash), forward / 2, 1e-9);
    assert_close(selective.recomputed.of[MODEL_ATTENTION], 1.5 * forward, 1e-15);
}

/* K, what comes back from attention, and up, of Llama's seven products: 4096 inputs, 1024, 4096 and 14336 outputs. */
static void alternate_recomputation_takes_every_second_product(void **state)
{
    (void)state;
    struct transformer model = shipped_transformer("llama3-8b");
    struct step_flops step = flops_of_step(&model, 10, 55, RECOMPUTE_ALTERNATE, false);
    assert_close(flops_total(&step.recomputed), 2.0 * 10 * 4096 * (1024 + 4096 + 14336) * 32, 1e-15);
}

/* Korthikanti et al. 2022 table 5: seconds of a step on A100s with selective recomputation, MFU and HFU in per cent.
 * Seconds have two decimals, which is up to 0.5 % of the shortest.
 *
 * Their HFU is 72 B s l h^2 (1 + s / (3 h) + V / (12 l h)) over the peak. That puts 12 b s^2 h a layer on attention's
 * computing again, as much as forward and backward take together; the two products of its forward pass, which are what
 * runs again, take 4 b s^2 h. Here it is the latter, so HFU is lower by 8 b s^2 h l. */
static void utilizations_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double gpus, batch, seconds, mfu, hfu;
    } rows[] = {
        {"megatron-22b", 8, 4, 1.10, 41.5, 43.7},
        {"megatron-175b", 64, 64, 13.75, 51.4, 52.8},
        {"megatron-530b", 280, 280, 37.83, 56.0, 57.0},
        {"megatron-1t", 512, 512, 71.49, 56.3, 57.0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct transformer model = shipped_transformer(rows[i].name);
        double s = 2048, h = model.hidden, l = model.layers, peak = rows[i].gpus * A100_PEAK;
        struct step_flops step = full_step(&model, rows[i].batch, s, RECOMPUTE_SELECTIVE);
        double mfu = utilization_of_model(&step, rows[i].seconds, peak);
        double hfu = flops_of_hardware(&step) / (rows[i].seconds * peak);
        double published = 72 * rows[i].batch * s * l * h * h * (1 + s / (3 * h) + 51200 / (12 * l * h));
        double counted_more = 8 * rows[i].batch * s * s * h * l;
        double rounding = 0.05 + rows[i].mfu * 0.005 / rows[i].seconds;
        assert_true(fabs(100 * mfu - rows[i].mfu) < rounding);
        assert_close(flops_of_hardware(&step) + counted_more, published, 1e-14);
        assert_true(fabs(100 * (hfu + counted_more / (rows[i].seconds * peak)) - rows[i].hfu) < rounding);
        assert_true(hfu > mfu && 100 * hfu < rows[i].hfu);
    }
}

/* Chowdhery et al. 2022 (arXiv:2204.02311): PaLM 540B, 238.3 thousand tokens/s on 6144 TPU v4 of 275 TFLOP/s: MFU 46.2
 * % with self-attention, 45.7 % without (section 4.1); MT-NLG 530B, 65.43 thousand on 2240 A100s: 30.2 % and 29.7 %
 * (appendix B). */
static void palms_definition_gives_palms_numbers(void **state)
{
    (void)state;
    struct transformer palm = {.q_heads = 48, .head_dim = 256, .layers = 118};
    struct transformer mt_nlg = shipped_transformer("megatron-530b");
    double peak = 6144 * 275e12, a100s = 2240 * A100_PEAK;
    double token = flops_of_token_palm(&palm, 540350000000, 2048);
    assert_true(fabs(100 * utilization_palm(token, 238.3e3, peak) - 46.2) < 0.05);
    token = flops_of_token_palm(&palm, 540350000000, 0);
    assert_true(fabs(100 * utilization_palm(token, 238.3e3, peak) - 45.7) < 0.05);
    token = flops_of_token_palm(&mt_nlg, 530000000000, 2048);
    assert_true(fabs(100 * utilization_palm(token, 65.43e3, a100s) - 30.2) < 0.1);
    token = flops_of_token_palm(&mt_nlg, 530000000000, 0);
    assert_true(fabs(100 * utilization_palm(token, 65.43e3, a100s) - 29.7) < 0.1);
}

/* The definitions differ by what is no product: norms, biases and, unless they are tied, the embedding. */
static void palms_definition_beside_the_count_of_products(void **state)
{
    (void)state;
    struct transformer model = shipped_transformer("llama3-70b");
    struct parameters parameters = parameters_of_model(&model);
    struct step_flops step = full_step(&model, 1, 8192, RECOMPUTE_NONE);
    double others = (double)(parameters.weights[MODEL_EMBEDDING] + parameters.weights[MODEL_NORM]);
    assert_close(flops_of_token_palm(&model, parameters_total(&parameters), 8192) - 6 * others,
                 flops_of_model(&step) / 8192, 1e-14);
}

/* Llama 3 (arXiv:2407.21783): 405B was pre-trained with 3.8e25 FLOPs on 15.6 trillion tokens, which is the products
 * with weights alone: attention under the causal mask at 8192 tokens adds 4 %. Narayanan et al. 2021 section 5.1: with
 * everything computed again, 300 billion tokens of 175B take 34 days on 1024 A100s at 140 TFLOP/s each, 450 billion of
 * 1T take 84 days on 3072 at 163; they reckon 8 P a token, so attention's share is on top of their days. */
static void whole_trainings_take_the_published_flops(void **state)
{
    (void)state;
    struct transformer llama = shipped_transformer("llama3-405b");
    struct step_flops products = flops_of_step(&llama, 1, 0, RECOMPUTE_NONE, true);
    struct step_flops token = flops_of_step(&llama, 1, 8193 / 2.0, RECOMPUTE_NONE, true);
    assert_true(fabs(15.6e12 * flops_of_model(&products) - 3.8e25) < 0.05e25);
    assert_close(flops_of_model(&token) / flops_of_model(&products), 1.042, 1e-3);
    static const struct {
        const char *name;
        double tokens, gpus, rate, days;
    } rows[] = {{"megatron-175b", 300e9, 1024, 140e12, 34}, {"megatron-1t", 450e9, 3072, 163e12, 84}};
    for (size_t i = 0; i < 2; i++) {
        struct transformer model = shipped_transformer(rows[i].name);
        struct step_flops step = full_step(&model, 1, 2048, RECOMPUTE_FULL);
        double days = flops_of_hardware(&step) / 2048 * rows[i].tokens / (rows[i].gpus * rows[i].rate) / 86400;
        assert_true(days > rows[i].days && days < 1.04 * rows[i].days);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_the_published_formulas),
        cmocka_unit_test(a_layers_parts_are_the_published_terms),
        cmocka_unit_test(products_take_twice_their_weights),
        cmocka_unit_test(flash_attention_takes_half_a_forward_more),
        cmocka_unit_test(alternate_recomputation_takes_every_second_product),
        cmocka_unit_test(utilizations_are_the_published_ones),
        cmocka_unit_test(palms_definition_gives_palms_numbers),
        cmocka_unit_test(palms_definition_beside_the_count_of_products),
        cmocka_unit_test(whole_trainings_take_the_published_flops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
