/* transformer.h - the shapes of published models, from models/transformers/NAME.ini. */
#ifndef CPSIM_MODELS_INPUT_TRANSFORMER_H
#define CPSIM_MODELS_INPUT_TRANSFORMER_H

#include <stdbool.h>
#include <stddef.h>

#include "models/base/diagnostics.h"
#include "models/input/experiment.h"
#include "models/input/key_table.h"

/* Reads the file; false with every problem in `diag`. */
bool transformer_read(struct transformer *transformer, const char *path, struct diagnostics *diag);

/* What must hold between the keys of a shape that `section` gives: heads that share evenly, counts that fit 63 bits. */
bool transformer_check(const struct transformer *transformer, const struct ini_document *document,
                       const struct ini_section *section, struct diagnostics *diag);

/* Whether layers, hidden, ffn and vocab are stated: what models/layer counts with. */
bool transformer_is_complete(const struct transformer *transformer);

/* The rows of a key table that describe a shape, for a struct transformer at offset `base` of the target: [transformer]
 * and an experiment's [model] have them in common. `absent` is the fallback of the three that attention cannot do
 * without. */
#define TRANSFORMER_SHAPE_KEYS(base, absent)                                                                           \
    TRANSFORMER_KEY(base, q_heads, absent, 1, 65536, "query heads"),                                                   \
        TRANSFORMER_KEY(base, kv_heads, absent, 1, 65536, "key and value heads; divides q_heads"),                     \
        TRANSFORMER_KEY(base, head_dim, absent, 1, 65536, "elements of one head"),                                     \
        TRANSFORMER_KEY(base, layers, "0", 0, 65536, "transformer layers; 0: not stated"),                             \
        TRANSFORMER_KEY(base, hidden, "0", 0, 16777216, "model dimension; 0: not stated"),                             \
        TRANSFORMER_KEY(base, ffn, "0", 0, 16777216, "feed-forward dimension of a dense MLP; 0: not stated"),          \
        TRANSFORMER_KEY(base, vocab, "0", 0, 16777216, "rows of the embedding and of the head; 0: not stated"),        \
        TRANSFORMER_WORD(base, mlp, KEY_CHOICE, "gated", transformer_mlp_words,                                        \
                         "three matrices, the gate's and the other's product down (SwiGLU); or two"),                  \
        TRANSFORMER_WORD(base, norm, KEY_CHOICE, "rms", transformer_norm_words,                                        \
                         "a scale per element; layer: a shift too"),                                                   \
        TRANSFORMER_WORD(base, bias, KEY_CHOICE, "none", transformer_bias_words,                                       \
                         "which products of a layer add a bias; the head has none"),                                   \
        TRANSFORMER_WORD(base, tied_embeddings, KEY_YES_NO, "no", NULL, "the head's matrix is the embedding's"),       \
        TRANSFORMER_KEY(base, positions, "0", 0, 16777216,                                                             \
                        "learned position embeddings; 0: none, such as rotary ones"),                                  \
        TRANSFORMER_WORD(base, dropout, KEY_YES_NO, "no", NULL,                                                        \
                         "trained with dropout: on attention's probabilities and behind both blocks")

extern const char *const transformer_mlp_words[], *const transformer_norm_words[], *const transformer_bias_words[];

#define TRANSFORMER_KEY(base, member, absent, least, most, meaning)                                                    \
    {                                                                                                                  \
        .name = #member, .type = KEY_COUNT32, .offset = (base) + offsetof(struct transformer, member),                 \
        .fallback = (absent), .minimum = (least), .maximum = (most), .form = "a count", .help = (meaning)              \
    }

#define TRANSFORMER_WORD(base, member, kind, absent, words, meaning)                                                   \
    {                                                                                                                  \
        .name = #member, .type = (kind), .offset = (base) + offsetof(struct transformer, member),                      \
        .fallback = (absent), .choices = (words), .help = (meaning)                                                    \
    }

#endif
