/* Transformer files: defaults, every key, and what is refused. The shipped ones are in experiment_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "models/input/transformer.h"
#include "tests/models/expect_lines.h"

#define HEADS "[transformer]\nname = x\nq_heads = 8\nkv_heads = 2\nhead_dim = 4\n"

static struct diagnostics diag;
static struct transformer model;

/* Reads `text` as the file "t.ini". */
static bool read_text(const char *text)
{
    char folder[] = "/tmp/cpsim-transformer-XXXXXX", here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    FILE *file = fopen("t.ini", "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    bool ok = transformer_read(&model, "t.ini", &diag);
    assert_int_equal(ok, diag.count == 0);
    unlink("t.ini");
    assert_int_equal(chdir(here), 0);
    rmdir(folder);
    return ok;
}

static void heads_alone_are_a_shape_for_attention(void **state)
{
    (void)state;
    assert_true(read_text(HEADS));
    assert_false(transformer_is_complete(&model));
    assert_true(model.layers + model.hidden + model.ffn + model.vocab + model.positions == 0);
    assert_int_equal(model.mlp, MLP_GATED);
    assert_int_equal(model.norm, NORM_RMS);
    assert_int_equal(model.bias, BIAS_NONE);
    assert_false(model.tied_embeddings || model.dropout);
}

static void every_key_changes_its_value(void **state)
{
    (void)state;
    assert_true(read_text(HEADS "layers = 3\nhidden = 20\nffn = 50\nvocab = 7\nmlp = plain\nnorm = layer\nbias = all\n"
                                "tied_embeddings = yes\npositions = 11\ndropout = yes\nwindow = 13\n"));
    assert_true(transformer_is_complete(&model));
    assert_int_equal(model.layers, 3);
    assert_int_equal(model.hidden, 20);
    assert_int_equal(model.ffn, 50);
    assert_int_equal(model.vocab, 7);
    assert_int_equal(model.mlp, MLP_PLAIN);
    assert_int_equal(model.norm, NORM_LAYER);
    assert_int_equal(model.bias, BIAS_ALL);
    assert_true(model.tied_embeddings);
    assert_int_equal(model.positions, 11);
    assert_true(model.dropout);
    assert_int_equal(model.window, 13);
}

static void a_shape_lacks_nothing_that_counts(void **state)
{
    (void)state;
    static const char *const rest[] = {"hidden = 1\nffn = 1\nvocab = 1\n", "layers = 1\nffn = 1\nvocab = 1\n",
                                       "layers = 1\nhidden = 1\nvocab = 1\n", "layers = 1\nhidden = 1\nffn = 1\n"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        char text[256];
        snprintf(text, sizeof text, HEADS "%s", rest[i]);
        assert_true(read_text(text));
        assert_false(transformer_is_complete(&model));
    }
}

static void what_is_wrong_is_said_where_it_stands(void **state)
{
    (void)state;
    assert_false(read_text(HEADS
                           "mlp = swiglu\nnorm = rmsnorm\nbias = yes\ntied_embeddings = true\npositions = 16777217\n"
                           "dropout = 0.1\nlayers = 65537\nexperts = 8\n"));
    EXPECT_LINES(
        &diag, "t.ini:6: 'mlp' is 'swiglu', expected gated or plain",
        "t.ini:7: 'norm' is 'rmsnorm', expected rms or layer", "t.ini:8: 'bias' is 'yes', expected none, qkv or all",
        "t.ini:9: 'tied_embeddings' is 'true', expected no or yes",
        "t.ini:10: 'positions' is '16777217', expected 0 to 16777216",
        "t.ini:11: 'dropout' is '0.1', expected no or yes", "t.ini:12: 'layers' is '65537', expected 0 to 65536",
        "t.ini:13: unknown key 'experts' in [transformer], expected name, q_heads, kv_heads, head_dim, layers, hidden, "
        "ffn, vocab, mlp, norm, bias, tied_embeddings, positions, dropout or window");
    assert_false(read_text("[transformer]\nname = x\nq_heads = 8\nkv_heads = 3\nhead_dim = 4\nlayers = 65536\n"
                           "hidden = 16777216\nffn = 16777216\n"));
    EXPECT_LINES(&diag, "t.ini:4: 'kv_heads' = 3 does not divide q_heads = 8, expected a divisor",
                 "t.ini:6: 'layers' = 65536 of this shape have more parameters than 63 bits can count, expected a "
                 "smaller model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_alone_are_a_shape_for_attention),
        cmocka_unit_test(every_key_changes_its_value),
        cmocka_unit_test(a_shape_lacks_nothing_that_counts),
        cmocka_unit_test(what_is_wrong_is_said_where_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
