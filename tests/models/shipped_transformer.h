/* shipped_transformer.h - for tests: a model as models/transformers has it. Include after cmocka.h. */
#ifndef CPSIM_TESTS_MODELS_SHIPPED_TRANSFORMER_H
#define CPSIM_TESTS_MODELS_SHIPPED_TRANSFORMER_H

#include <stdlib.h>

#include "models/input/data_path.h"
#include "models/input/transformer.h"

static inline struct transformer shipped_transformer(const char *name)
{
    struct diagnostics diag;
    diagnostics_init(&diag);
    char *path = data_path_find("transformers", name);
    assert_non_null(path);
    struct transformer model;
    if (!transformer_read(&model, path, &diag))
        fail_msg("%s", diag.lines[0]);
    assert_string_equal(model.name, name);
    assert_true(transformer_is_complete(&model));
    diagnostics_fini(&diag);
    free(path);
    return model;
}

/* A model of Narayanan et al. 2021 and Korthikanti et al. 2022: a GPT of s = 2048 positions and V = 51200 words. */
static inline struct transformer megatron(uint32_t heads, uint32_t hidden, uint32_t layers)
{
    return (struct transformer){.q_heads = heads,
                                .kv_heads = heads,
                                .head_dim = hidden / heads,
                                .layers = layers,
                                .hidden = hidden,
                                .ffn = 4 * hidden,
                                .vocab = 51200,
                                .mlp = MLP_PLAIN,
                                .norm = NORM_LAYER,
                                .bias = BIAS_ALL,
                                .tied_embeddings = true,
                                .positions = 2048,
                                .dropout = true};
}

#endif
