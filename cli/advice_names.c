/* advice_names.c - see advice_names.h. */
#include "cli/advice_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/base/memory.h"

char *advice_algorithm(const struct advice_space *space, size_t candidate)
{
    const char *algorithm = advice_value(space, candidate, KNOB_ALGORITHM);
    const char *degree = advice_value(space, candidate, KNOB_ULYSSES_DEGREE);
    const char *window = advice_value(space, candidate, KNOB_RING_WINDOW);
    const char *inner = advice_value(space, candidate, KNOB_INNER);
    const char *cp = advice_value(space, candidate, KNOB_CP);
    if (cp && strcmp(cp, "1") == 0)
        return memory_text("-");
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return memory_text(algorithm);
    fputs(algorithm, stream);
    if (degree)
        fprintf(stream, " u%s", degree);
    if (window)
        fprintf(stream, " w%s", window);
    if (inner && strcmp(inner, "ring") == 0)
        fputs(" ring inside", stream);
    fclose(stream);
    return text;
}

char *advice_name(const struct advice_space *space, size_t candidate)
{
    char *text = NULL, *algorithm = advice_algorithm(space, candidate);
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return algorithm;
    fprintf(stream, "tp %s x cp %s x dp %s", advice_value(space, candidate, KNOB_TP),
            advice_value(space, candidate, KNOB_CP), advice_value(space, candidate, KNOB_DP));
    const char *sharding = advice_value(space, candidate, KNOB_SHARDING);
    if (strcmp(algorithm, "-") != 0)
        fprintf(stream, ", %s, %s", algorithm, sharding);
    static const struct {
        size_t knob;
        const char *format, *silent; /* a value that goes without saying */
    } parts[] = {{KNOB_ORDER, ", order %s", "tp,cp,dp"},
                 {KNOB_RING, ", ring %s", "natural"},
                 {KNOB_ZERO, ", ZeRO %s", NULL},
                 {KNOB_RECOMPUTE, ", recompute %s", NULL},
                 {KNOB_SEQUENCE_PARALLEL, ", sequence parallel %s", "yes"},
                 {KNOB_MICRO_BATCHES, ", %s micro-batches", "1"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *value = advice_value(space, candidate, parts[i].knob);
        if (value && !(parts[i].silent && strcmp(value, parts[i].silent) == 0))
            fprintf(stream, parts[i].format, value);
    }
    for (size_t k = KNOB_KINDS; k < space->n_knobs; k++)
        if (advice_value(space, candidate, k))
            fprintf(stream, ", %s %s", strrchr(space->knobs[k].key, '.') + 1, advice_value(space, candidate, k));
    fclose(stream);
    free(algorithm);
    return text;
}
