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

/* The rows of a key table that describe a shape, for a struct transformer at offset `base` of the target: [transformer]
 * and an experiment's [model] have them in common. `absent` is the fallback of the three that attention cannot do
 * without. */
#define TRANSFORMER_SHAPE_KEYS(base, absent)                                                                           \
    TRANSFORMER_KEY(base, q_heads, absent, 1, 65536, "query heads"),                                                   \
        TRANSFORMER_KEY(base, kv_heads, absent, 1, 65536, "key and value heads; divides q_heads"),                     \
        TRANSFORMER_KEY(base, head_dim, absent, 1, 65536, "elements of one head"),                                     \
        TRANSFORMER_KEY(base, layers, "0", 0, 65536, "transformer layers, for information; 0: not stated"),            \
        TRANSFORMER_KEY(base, hidden, "0", 0, 16777216, "model dimension, for information; 0: not stated"),            \
        TRANSFORMER_KEY(base, ffn, "0", 0, 16777216, "feed-forward dimension, for information; 0: not stated"),        \
        TRANSFORMER_KEY(base, vocab, "0", 0, 16777216, "vocabulary, for information; 0: not stated")

#define TRANSFORMER_KEY(base, member, absent, least, most, meaning)                                                    \
    {                                                                                                                  \
        .name = #member, .type = KEY_COUNT32, .offset = (base) + offsetof(struct transformer, member),                 \
        .fallback = (absent), .minimum = (least), .maximum = (most), .form = "a count", .help = (meaning)              \
    }

#endif
